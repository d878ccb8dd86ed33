"""Ranges fetched set by set, one range after the other; leaders lost and found again, offsets that are gone.

    the next request is in flight before a set is handed out: while that is used, the broker reads and sends
    small ranges of one leader are asked for together, and handed out in their turn
    another leads, a link broke         looked up; reading goes on behind the last set
    nothing comes                       looked up now and then: a leader that was deposed need not know it
    the leader cannot tell now, or      asked again, on the same link
    the response leaves a range out
    the log does not hold the offset    data is lost: an error, or skipped where options.fail_on_data_loss is False

Blocking; no thread: what comes early waits in the socket, which is all the read-ahead that is needed. Needs no
pyarrow: audits and bulk copies read this way, too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from kafkawire.errors import BrokerErrorInfo, Follows, LinkLost, error_info
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
PROBE = "probe"  # a connection of its own: what was asked ahead is in flight on the other one
UNKNOWN_SERVER = -1
MAX_TOGETHER = 100  # ranges in one request
MAX_BACKOFF_S = 5.0
LOOK_S = 5.0  # between two look-ups of a leader that sends nothing
# Of this process: a worker runs one task after the other, and memory that is new costs a page fault every 4 KB.
_BUFFERS = Buffers(32 << 20)


def read_sets(rng: OffsetRange, access: ClusterAccess, options: ReadOptions) -> Generator[MessageSet, None, None]:
    """The sets of one range, in order.  Their messages may begin before start and go on past until: cut by offset.

    Offsets that no set covers are gaps.  Raises OffsetOutOfRange, DataLoss, CorruptData, MessageTooLarge, NoLeader,
    UnknownPartition, Unreachable.  Checksums are checked where messages are read.
    """
    with closing(read_many([rng], access, options)) as sets:
        for _, message_set in sets:
            yield message_set


def read_many(
    ranges: Sequence[OffsetRange],
    access: ClusterAccess,
    options: ReadOptions,
    kept_back: dict[OffsetRange, int] | None = None,
    damages: DamageLog | None = None,
) -> Generator[tuple[int, MessageSet], None, None]:
    """The sets of several ranges, one range after the other, each with the number of its range.

    kept_back: gets how many offsets of each range transactions keep back, once the range is read.  damages: gets what
    was skipped because it is no entry.
    All links are closed when it ends, or is closed or dropped.
    """
    known = {rng.tp: rng.leader for rng in ranges if rng.leader is not None}
    with Brokers(access, known, buffers=_BUFFERS) as brokers:
        yield from RangeFetcher(ranges, brokers, options, kept_back=kept_back, damages=damages).sets()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What was asked for of one range."""

    position: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _InFlight:
    """A request in flight."""

    broker: Broker
    link: Link
    wanted: dict[RangeCursor, _Wanted]


@dataclass(frozen=True, slots=True)
class _Response:
    row: FetchedPartition
    to: _Wanted
    broker: Broker


class RangeFetcher:
    """Use it once."""

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
        """kept_back: gets how many offsets of each range transactions keep back, once the range is read; damages: gets
        what was skipped because it is no entry."""
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
        self._answers: dict[RangeCursor, _Response] = {}  # of ranges whose turn has not come
        self._failures = 0  # one after the other
        self._stale = False  # leaders are looked up before the next request
        self._looked_at = began  # when leaders of ranges that wait were looked up

    def sets(self) -> Generator[tuple[int, MessageSet], None, None]:
        """Each set with the number of its range.  Raises what the module says, with all coordinates."""
        for number, cursor in enumerate(self._cursors):
            cursor.begin(self._now())
            while not cursor.done:
                found = self._next(cursor)
                if found is not None:
                    self._ask_ahead(number)
                    yield number, found
            self._kept_back[cursor.range] = cursor.kept_back

    def _next(self, cursor: RangeCursor) -> MessageSet | None:
        """A set; None: something else came, and has been seen to."""
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
        """Nothing came: have the leader looked up again before the next request, now and then."""
        if self._now() - self._looked_at >= LOOK_S:
            self._looked_at = self._now()
            self._stale = True

    # ---- asking ------------------------------------------------------------------------------------------------

    def _answer(self, cursor: RangeCursor) -> _Response:
        """Raises LinkLost, and what Brokers.leader raises."""
        while True:
            held = self._answers.pop(cursor, None)
            if held is not None and held.to.position == cursor.position:
                return held
            if self._asked is None:
                stale, self._stale = self._stale or self._failures > 0, False
                self._ask([cursor, *self._later(cursor)], self._brokers.leader(cursor.range.tp, stale))
            self._receive()

    def _ask(self, cursors: Sequence[RangeCursor], broker: Broker) -> None:
        """Send a request for the first of them, and as many of the others as are small and led there."""
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
        """The answer to what was asked."""
        asked, self._asked = self._asked, None
        assert asked is not None
        rows: list[FetchedPartition] = asked.link.receive().body
        found = {row.tp: row for row in rows}
        for cursor, part in asked.wanted.items():
            self._answers[cursor] = _Response(found[cursor.range.tp], part, asked.broker)

    def _ask_ahead(self, number: int) -> None:
        """Send what will be asked next, if that is known.  What goes wrong will go wrong again in its turn."""
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
        """True if a broker answers so about a log that is damaged: 0.8 has only its error for everything."""
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
        if earliest <= position <= latest:  # a leader that is none any more, or not yet
            self._failed(cursor, NoLeader("the broker and the leader do not agree what the log holds", **where))
            return
        reason = "it is gone: retention, or a topic created again" if position < earliest else "it ends before that"
        why = OffsetOutOfRange(f"the log does not hold this offset, {reason}; {self._options.loss_helps}", **where)
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
        log.warning("%s: offsets %d to %d are skipped: %s", cursor.range, cursor.position, behind - 1, damaged)
        self._damages.add(entry_skipped)
        cursor.move(behind, self._now())

    def _readable(self, cursor: RangeCursor, position: int) -> int | None:
        """The first offset that a fetch at a position brings whole; None: nothing that can be read."""
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
        """One fetch; None where the leader cannot read its log there, which it tells by almost any error.

        Raises NoLeader and Unreachable where the answer may be another one in a moment, since only what is damaged is
        skipped; PipelineError where the request is refused for good.
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
        """Find out why nothing came though the log goes on; if nothing explains it, another leader is looked for."""
        try:
            policy = self._brokers.cleanup_policy(cursor.range.topic, broker)
            held = self._brokers.log_at(cursor.range.tp, cursor.position, broker) if policy is None else None
        except LinkLost as lost:
            self._failed(cursor, lost)
            return
        why = cursor.explain(policy, broker, self._now(), held)
        if why is not None:
            self._forget(cursor)
            log.warning("%s at %d: %s; asking again", cursor.range, cursor.position, why.sentence)
            self._sleep(self._options.max_wait_ms / 1000)  # a broker need not wait for data that it says it has

    def _forget(self, cursor: RangeCursor) -> None:
        """Forget what is in flight; the leader is looked up again."""
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
        if waits:  # those whose turn has not come were not answered either
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
        follows = "asking again" if waits else "its leader is looked for"
        log.warning("%s at %d: %s; %s", cursor.range, cursor.position, why, follows)
        if self._failures > 1:
            pause = self._brokers.access.retry_interval_ms / 1000 * 2.0 ** (self._failures - 2)
            self._sleep(min(pause, MAX_BACKOFF_S))
