"""Fetcher of ranges, set by set, one range after the other: finds leaders again, handles lost offsets.

    The next request is in flight before a set is returned: while that is used, the broker reads and sends.
    Small ranges of one leader are fetched together, and returned in their order.
    another leads, a link broke         looks the leader up; reading continues after the last set
    nothing comes                       looks the leader up now and then: a deposed one need not know it
    the leader cannot respond now, or   retries on the same link
    the response leaves a range out
    the log does not have the offset    data is lost: an error, or skipped if options.fail_on_data_loss is False

Blocking; no thread: early responses wait in the socket, which is enough read-ahead.  Needs no pyarrow: audits and bulk
copies read this way, too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from kafkawire.columns import Columns
from kafkawire.errors import BrokerErrorInfo, Follows, LibraryMissing, LinkLost, WireError, error_info
from kafkawire.fetched import Came, judged
from kafkawire.model import Broker, MessageSet
from kafkawire.net.link import Link
from kafkawire.protocol.buffers import Buffers
from kafkawire.protocol.request import FetchedPartition
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import CorruptData, NoLeader, OffsetOutOfRange, PipelineError, UnknownPartition, Unreachable
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.damagelog import DamagedEntry, DamageLog, first_readable
from sparkpipeline.reading.rangecursor import RangeCursor, Sizes
from sparkpipeline.reading.readoptions import ReadOptions

log = logging.getLogger(__name__)

PURPOSE = "fetch"
PROBE = "probe"  # a separate connection: the next request is in flight on the other one
UNKNOWN_SERVER = -1
MAX_TOGETHER = 100  # ranges in one request
MAX_BACKOFF_S = 5.0
SAMPLE_BYTES, SAMPLE_BYTES_CAP = 64 << 10, 64 << 20
SAMPLE_PATIENCE_MS = 2000
LOOK_S = 5.0  # between two look-ups of a leader that sends nothing
# Of this process: a worker runs one task after the other, and memory that is new costs a page fault every 4 KB.
_BUFFERS = Buffers(32 << 20)


def read_sets(rng: OffsetRange, access: ClusterAccess, options: ReadOptions) -> Generator[MessageSet, None, None]:
    """Yield the sets of one range, in order.  Their messages may begin before start and continue after until.

    Offsets that no set covers are gaps.  Raises OffsetOutOfRange, DataLoss, CorruptData, MessageTooLarge, NoLeader,
    UnknownPartition, Unreachable.  Checksums are checked where messages are read.
    """
    with closing(read_many([rng], access, options)) as sets:
        for _, message_set in sets:
            yield message_set


def first_columns(brokers: Brokers, rng: OffsetRange, fetch_bytes_cap: int = SAMPLE_BYTES_CAP) -> Columns | None:
    """Return the first messages of a range, as a sample; None if there are none, or they cannot be read.

    fetch_bytes_cap: how far a fetch grows for a large message.  Whatever is wrong, the task that reads the range meets
    it too, and reports it with all coordinates.
    """
    options = ReadOptions(
        fetch_bytes=SAMPLE_BYTES,
        fetch_bytes_cap=fetch_bytes_cap,
        check_crcs=False,
        fail_on_data_loss=False,
        patience_ms=SAMPLE_PATIENCE_MS,
    )
    try:
        with closing(RangeFetcher([replace(rng, until=rng.start + 1)], brokers, options).sets()) as sets:
            # The first columns are enough: a set may open to gigabytes.
            return next((found for _, each in sets for found in each.pieces(False) if len(found)), None)
    except (PipelineError, LibraryMissing, WireError):
        return None


def first_since(brokers: Brokers, rng: OffsetRange, time_ms: int) -> int:
    """Return the first offset of a range that may be of time_ms (ms since 1970) or later; its end if there is none.

    Reads forward, for brokers that only answer by segment file.  A message without a timestamp (format v0) may be of
    that time: reading ends there, so that in a log of 0.9 the result is the range's start after one fetch.  Raises the
    exceptions of read_sets.
    """
    with closing(RangeFetcher([rng], brokers, ReadOptions(max_wait_ms=0)).sets()) as sets:
        for _, message_set in sets:
            for columns in message_set.pieces():
                times = columns.timestamps_ms
                for n, offset in enumerate(columns.offsets):
                    if offset >= rng.until:
                        return rng.until
                    if offset >= rng.start and (times is None or times[n] < 0 or times[n] >= time_ms):
                        return offset
                if columns.damage is not None:
                    raise CorruptData(str(columns.damage), topic=rng.topic, partition=rng.partition)
    return rng.until


def read_many(
    ranges: Sequence[OffsetRange],
    access: ClusterAccess,
    options: ReadOptions,
    kept_back: dict[OffsetRange, int] | None = None,
    damages: DamageLog | None = None,
) -> Generator[tuple[int, MessageSet], None, None]:
    """Yield the sets of several ranges, one range after the other, each with the number of its range.

    kept_back: filled with the number of offsets of each range that transactions keep back, once it is read.  damages:
    filled with skipped entries.  All links are closed when the generator ends, is closed or dropped.
    """
    known = {rng.tp: rng.leader for rng in ranges if rng.leader is not None}
    with Brokers(access, known, buffers=_BUFFERS) as brokers:
        yield from RangeFetcher(ranges, brokers, options, kept_back=kept_back, damages=damages).sets()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Part of a request for one range."""

    position: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _InFlight:
    """Request in flight."""

    broker: Broker
    link: Link
    wanted: dict[RangeCursor, _Wanted]


@dataclass(frozen=True, slots=True)
class _Response:
    row: FetchedPartition
    to: _Wanted
    broker: Broker


class RangeFetcher:
    """Fetcher of ranges over given links; used once.

    kept_back: filled with the number of offsets of each range that transactions keep back, once it is read.  damages:
    filled with skipped entries.
    """

    def __init__(
        self,
        ranges: Sequence[OffsetRange],
        brokers: Brokers,
        options: ReadOptions,
        *,
        kept_back: dict[OffsetRange, int] | None = None,
        damages: DamageLog | None = None,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._brokers = brokers
        self._options = options
        self._sleep = sleep
        self._now = now
        sizes, began = Sizes(), now()
        spoken, committed = brokers.dialect, brokers.access.committed
        self._cursors = [
            RangeCursor(rng, options, spoken=spoken, sizes=sizes, now=began, committed=committed) for rng in ranges
        ]
        self._kept_back = {} if kept_back is None else kept_back
        self._damages = DamageLog() if damages is None else damages
        self._asked: _InFlight | None = None
        self._answers: dict[RangeCursor, _Response] = {}  # of later ranges
        self._failures = 0  # one after the other
        self._stale = False  # leaders are looked up before the next request
        self._looked_at = began  # when leaders of ranges that wait were looked up

    def sets(self) -> Generator[tuple[int, MessageSet], None, None]:
        """Yield each set with the number of its range.  Raises the exceptions of read_sets, with all coordinates."""
        try:
            for number, cursor in enumerate(self._cursors):
                cursor.begin(self._now())
                while not cursor.done:
                    found = self._next(cursor)
                    if found is not None:
                        self._ask_ahead(number)
                        yield number, found
                self._kept_back[cursor.range] = cursor.kept_back
        finally:
            if self._asked is not None:  # the next user of the links would take its response for another
                self._brokers.links.close(PURPOSE)

    def _next(self, cursor: RangeCursor) -> MessageSet | None:
        """Return the next set; None after another response, which is handled."""
        try:
            answer = self._answer(cursor)
        except (LinkLost, NoLeader, Unreachable) as lost:
            self._failed(cursor, lost)
            return None
        except UnknownPartition as gone:
            cursor.lose(cursor.range.until, gone, self._now())
            return None
        if answer.row.error:
            self._refused(cursor, answer)
            return None
        try:
            found = cursor.take(answer.row, answer.to.bytes, answer.broker, self._now())
        except CorruptData as damaged:
            self._skip(cursor, answer.row, damaged)
            return None
        if cursor.blank:
            self._explain(cursor, answer.broker)
            return None
        self._failures = 0
        if not len(answer.row.buffer) and not cursor.done:
            if not self._brokers.dialect.waits_for_data:
                self._sleep(self._options.max_wait_ms / 1000)
            self._leaders_due()
        return found

    def _leaders_due(self) -> None:
        """Look the leader up before the next request, at most every LOOK_S: nothing came."""
        if self._now() - self._looked_at >= LOOK_S:
            self._looked_at = self._now()
            self._stale = True

    # ---- asking ------------------------------------------------------------------------------------------------

    def _answer(self, cursor: RangeCursor) -> _Response:
        """Return the response for a range.  Raises LinkLost, and the exceptions of Brokers.leader."""
        while True:
            held = self._answers.pop(cursor, None)
            if held is not None and held.to.position == cursor.position:
                return held
            if self._asked is None:
                stale, self._stale = self._stale or self._failures > 0, False
                self._ask([cursor, *self._later(cursor)], self._brokers.leader(cursor.range.tp, stale))
            self._receive()

    def _ask(self, cursors: Sequence[RangeCursor], broker: Broker) -> None:
        """Send a request for the first range, and for others that are small and led by the same broker."""
        together = self._together(cursors, broker)
        d, options = self._brokers.dialect, self._options
        wanted = [(cursor.range.tp, part.position, part.bytes) for cursor, part in together.items()]
        link = self._brokers.link(broker, PURPOSE)
        self._asked = _InFlight(broker, link, together)
        committed = self._brokers.access.committed
        link.send(d.requests.fetch(d, options.max_wait_ms, options.min_bytes, wanted, committed=committed))

    def _together(self, cursors: Sequence[RangeCursor], broker: Broker) -> dict[RangeCursor, _Wanted]:
        together: dict[RangeCursor, _Wanted] = {}
        total, tps = 0, set()
        for cursor in cursors[:MAX_TOGETHER]:
            part = _Wanted(cursor.position, cursor.bytes)
            total += part.bytes
            fits = total <= self._options.fetch_bytes and cursor.range.leader == broker
            if together and (not fits or cursor.range.tp in tps):
                break
            together[cursor] = part
            tps.add(cursor.range.tp)
        return together

    def _receive(self) -> None:
        """Receive the response to the request in flight."""
        asked, self._asked = self._asked, None
        assert asked is not None
        rows: list[FetchedPartition] = asked.link.receive().body
        found = {row.tp: row for row in rows}
        for cursor, part in asked.wanted.items():
            self._answers[cursor] = _Response(found[cursor.range.tp], part, asked.broker)

    def _ask_ahead(self, number: int) -> None:
        """Send the next request, if it is known.  An error is ignored: it occurs again when the range is read."""
        if self._asked is not None:
            return
        ahead = [c for c in self._cursors[number : number + MAX_TOGETHER] if not c.done and c not in self._answers]
        if not ahead or (ahead[0] is not self._cursors[number] and ahead[0].range.leader is None):
            return
        try:
            self._ask(ahead, self._brokers.leader(ahead[0].range.tp))
        except (LinkLost, PipelineError):
            self._asked = None

    def _later(self, cursor: RangeCursor) -> list[RangeCursor]:
        at = self._cursors.index(cursor) + 1
        return [other for other in self._cursors[at : at + MAX_TOGETHER] if other not in self._answers]

    # ---- what goes wrong ---------------------------------------------------------------------------------------

    def _refused(self, cursor: RangeCursor, answer: _Response) -> None:
        code, info = answer.row.error, error_info(answer.row.error)
        sentence = f"the broker refuses a fetch: {info.name} ({code})"
        where = cursor.where(answer.broker, offset=cursor.position)
        if info.follows is Follows.GONE:
            self._out_of_range(cursor, answer.broker)
        elif self._may_be_damage(info) and cursor.out_of_patience(self._now()):
            self._skip(cursor, answer.row, CorruptData(sentence, **where))
        elif info.passes:
            self._failed(cursor, NoLeader(sentence, **where), waits=info.follows is Follows.WAIT)
        else:
            raise PipelineError(sentence, **where)

    def _may_be_damage(self, info: BrokerErrorInfo) -> bool:
        """True if a broker may answer with this error for a damaged log: 0.8 has one error for everything."""
        return info.follows is Follows.DAMAGED or (self._options.skip_damaged and info.code == UNKNOWN_SERVER)

    def _out_of_range(self, cursor: RangeCursor, broker: Broker) -> None:
        tp, position = cursor.range.tp, cursor.position
        try:
            earliest, latest = self._brokers.earliest([tp])[tp], self._brokers.latest([tp], {tp: position})[tp]
        except (NoLeader, Unreachable) as lost:
            self._failed(cursor, lost)
            return
        except UnknownPartition as gone:
            cursor.lose(cursor.range.until, gone, self._now())
            return
        where = cursor.where(broker, requested=position, earliest=earliest, latest=latest)
        if earliest <= position <= latest:  # it does not lead any more, or not yet
            self._failed(cursor, NoLeader("the broker and the leader do not agree on the log's bounds", **where))
            return
        reason = "it is gone: retention, or a topic created again" if position < earliest else "it ends before that"
        why = OffsetOutOfRange(f"the log does not have this offset, {reason}; {self._options.loss_helps}", **where)
        until = cursor.range.until
        cursor.lose(min(earliest, until) if position < earliest else until, why, self._now())

    def _skip(self, cursor: RangeCursor, row: FetchedPartition, damaged: CorruptData) -> None:
        """Skip the damaged bytes at the position.  Raises `damaged` unless the options say that damage is skipped."""
        if not self._options.skip_damaged:
            raise damaged
        at = len(row.buffer) if damaged.position is None else damaged.position
        entry = self._brokers.dialect.messages.entry_at(row.buffer, at, cursor.position)
        if entry is not None and cursor.position <= entry.offset < cursor.range.until:
            behind, raw = entry.resume_at, bytes(row.buffer[at : at + entry.nbytes])
        else:
            try:
                behind = first_readable(cursor.position, cursor.range.until, lambda at: self._readable(cursor, at))
            except (NoLeader, Unreachable) as lost:
                self._failed(cursor, lost)
                return
            raw = bytes(row.buffer[at:])
        entry_skipped = DamagedEntry(cursor.range, cursor.position, behind, damaged.sentence, raw)
        log.warning("%s: skipped offsets %d to %d: %s", cursor.range, cursor.position, behind - 1, damaged)
        self._damages.add(entry_skipped)
        cursor.move(behind, self._now())

    def _readable(self, cursor: RangeCursor, position: int) -> int | None:
        """Return the first offset that a fetch at a position returns whole; None: nothing is readable."""
        row = self._probed(cursor, position)
        if row is None:
            return None
        spoken = self._brokers.dialect
        judgement = judged(spoken, cursor.range.tp, position, row, self._options.fetch_bytes)
        found = judgement.messages
        if judgement.came is not Came.MESSAGES:
            return found.resume_at if judgement.moves else None
        first = next(found.cut(found.runs[0], 0))
        if spoken.messages.check(found.buffer[first.begin : first.end]) is not None:
            return None
        message = next(replace(found, runs=(first,)).messages(), None)
        return first.resume_at if message is None else message.offset

    def _probed(self, cursor: RangeCursor, position: int) -> FetchedPartition | None:
        """Fetch once; return None if the leader cannot read its log there, for which brokers return various errors.

        Raises NoLeader and Unreachable if the response may soon be another, because only damage is skipped;
        PipelineError if the request is refused permanently.
        """
        tp, d = cursor.range.tp, self._brokers.dialect
        broker = self._brokers.leader(tp)
        wanted = [(tp, position, self._options.fetch_bytes)]
        request = d.requests.fetch(d, 0, 0, wanted, committed=self._brokers.access.committed)
        try:
            (row,) = self._brokers.link(broker, PROBE).call(request)
        except LinkLost as lost:
            raise NoLeader(str(lost), **cursor.where(broker, offset=position)) from lost
        if not row.error:
            return row
        info = error_info(row.error)
        if self._may_be_damage(info) or info.follows is Follows.REFUSED:
            return None
        sentence = f"the broker refuses a fetch: {info.name} ({row.error})"
        raise (PipelineError if info.lasting else NoLeader)(sentence, **cursor.where(broker, offset=position))

    def _explain(self, cursor: RangeCursor, broker: Broker) -> None:
        """Find out why nothing came although the log continues; without an explanation, look the leader up."""
        try:
            policy = self._brokers.cleanup_policy(cursor.range.topic, broker)
            held = self._brokers.log_at(cursor.range.tp, cursor.position, broker) if policy is None else None
        except LinkLost as lost:
            self._failed(cursor, lost)
            return
        why = cursor.explain(policy, broker, self._now(), held)
        if why is not None:
            self._forget(cursor)
            log.warning("%s at %d: %s; retrying", cursor.range, cursor.position, why.sentence)
            self._sleep(self._options.max_wait_ms / 1000)  # a broker need not wait for data that it says it has

    def _forget(self, cursor: RangeCursor) -> None:
        """Forget the request in flight, and look the leader up before the next one."""
        self._asked = None
        self._brokers.links.close(PURPOSE)
        self._look_again(cursor)

    def _look_again(self, cursor: RangeCursor) -> None:
        cursor.other_leader()
        self._failures += 1

    def _failed(self, cursor: RangeCursor, why: LinkLost | PipelineError, *, waits: bool = False) -> None:
        """Wait for another leader, or (waits) for the same one.

        Raises NoLeader once patience is over.
        """
        if waits:  # later ranges got the same error
            self._answers = {one: held for one, held in self._answers.items() if not held.row.error}
            self._look_again(cursor)
        else:
            self._forget(cursor)
        if cursor.out_of_patience(self._now()):
            sentence = why.sentence if isinstance(why, PipelineError) else str(why)
            raise NoLeader(
                f"nothing was read for {self._options.patience_ms / 1000:g} s: {sentence}",
                **cursor.where(offset=cursor.position),
            ) from why
        follows = "retrying" if waits else "looking up its leader"
        log.warning("%s at %d: %s; %s", cursor.range, cursor.position, why, follows)
        if self._failures > 1:
            pause = self._brokers.access.retry_interval_ms / 1000 * 2.0 ** (self._failures - 2)
            self._sleep(min(pause, MAX_BACKOFF_S))
