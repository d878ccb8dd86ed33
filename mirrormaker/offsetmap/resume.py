"""resume: target-end.  Holds back the sets of a source partition until it is known how much of them the target has.

    reading    once the target's end no longer moves, its tail is read from the last checkpoint (tail.py)
    matching   the source's sets are compared with the tail; sets found there count as done and are not sent.
               If the source has no more, the rest of the tail must be copies.  This is only decided once the leader's
               own log ends there, since a newly elected leader may show less than its predecessor
    open       sets flow; the checkpoint is in the map before the first of them is sent
    refused    the tail is not what this mirror sent: the partition is parked with the reason

A source topic that was deleted and created again has another log, and the target holds nothing from it: the checkpoint
belongs to the former log, and the partition resumes behind everything in the target.  The same holds after a reset that
goes back, since the log was cut: the target does not have its new messages.

Each ownership period begins like that: after a restart, after a rebalance, after a parked partition is retried.  A
request with an unknown outcome (its connection broke, or a leader that may have appended it answered with an error) is
not sent again: its partition begins another period.

TailMatch (pure) finds where a source partition resumes in a target partition that has no other writer.  Each message of
the tail must be the next of the source.  A batch that was sent twice after an unknown outcome is in the tail twice, one
copy directly after the other: that is detected and counted, and allowed.  Anything else is a Mismatch: another writer,
a compacted topic, another source.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from groundwork.tasks import TaskGroup, in_turns, now, sleep
from kafkawire.errors import LocalError, RemoteError, WireError
from kafkawire.model import MessageSet, TopicPartition
from mirrormaker.flow import Forward
from mirrormaker.offsetmap.checkpoints import Checkpoint
from mirrormaker.offsetmap.recorder import MapRecorder
from mirrormaker.offsetmap.tail import Tail, TailRefused, digest
from mirrormaker.routes import TopicRoute
from mirrormaker.source import Share
from zkconsumer.errors import ConsumerError
from zkconsumer.fetching.position import Reset

log = logging.getLogger(__name__)
RETRY_S = 1.0  # backoff while the target does not answer, or the source shows less than its log has
QUIET_S = 10.0  # a source read to its end delivers nothing for so long: the rest of its log has no messages
LAPSE_S = 0.1  # interval between checks of a lease that is over
UNPARK_S = 0.5  # interval between attempts to fetch a parked partition again
HELP = "; the map does not match the target: compare both, or set resume: committed once"


class Mismatch(Exception):
    """Raised when the tail does not consist of the source's messages; `.at` is the index in the tail of the first
    foreign one."""

    def __init__(self, at: int) -> None:
        super().__init__(f"message {at} of the target's tail is not the source's next")
        self.at = at


class TailMatch:
    """Match of a tail with the source.  matched: messages of the source in the target; repeated: how many the tail has
    twice."""

    def __init__(self, tail: Sequence[int]) -> None:
        self._tail = list(tail)  # a list, because slices of it are compared with lists
        self._at = 0  # index in the tail: everything before it is explained
        self._source: list[int] = []  # digests of messages that were fed and found
        self.repeated = 0

    @property
    def matched(self) -> int:
        return len(self._source)

    @property
    def done(self) -> bool:
        """True if all of the tail is explained: the source resumes behind .matched messages."""
        return self._at == len(self._tail)

    def feed(self, messages: Sequence[int]) -> int:
        """Feed more messages of the source, in order, and return how many of them are in the target.  Raises
        Mismatch."""
        for number, each in enumerate(messages):
            while not self.done and self._tail[self._at] != each:
                self._skip_copy()
            if self.done:
                return number
            self._at += 1
            self._source.append(each)
        return len(messages)

    def end(self) -> None:
        """Finish: the source has no more, so the rest of the tail must be copies.  Raises Mismatch."""
        while not self.done:
            self._skip_copy()

    def _skip_copy(self) -> None:
        """Skip the second copy of what was sent last."""
        tail, source, at = self._tail, self._source, self._at
        for count in range(1, min(len(source), len(tail) - at) + 1):
            if tail[at] == source[-count] and tail[at : at + count] == source[-count:]:
                self._at += count
                self.repeated += count
                return
        raise Mismatch(at)


class Tails(Protocol):
    """Interface of TailReader."""

    def read(self, tp: TopicPartition, begin: int | None, wanted: Callable[[], bool]) -> Tail | None: ...


class SourceEnd(NamedTuple):
    """End of a source partition.

    end    end of its leader's own log, including what consumers cannot see yet
    read   the next offset to be fetched, or None if the partition is not read now
    """

    end: int
    read: int | None


class ResumeRefused(LocalError):
    """Raised when the point to resume in the target is unknown; names both partitions and what helps."""


@dataclass(slots=True)
class ResumeGate:
    """Gate of one ownership period.  topic: the czxid of the source's topic.

    checkpoint: the map's last one.  None if there is none, and the target must be empty, or new_log: what the target
    has is from the log of an earlier topic, or from before a reset.  owned(): True if the lease holds, and the period
    is not over; ended(): True if it is over for good.  reset: the partition's newest reset since it is owned.
    """

    source: TopicPartition
    target: TopicPartition
    period: object  # period of the consumer's shares; another one is another period
    owned: Callable[[], bool]
    ended: Callable[[], bool]
    pass_on: Callable[[MessageSet, Share, int], object]  # the last argument: how many of its first messages to skip
    topic: int | None = None
    reset: Reset | None = None
    new_log: bool = False
    checkpoint: Checkpoint | None = None
    tail: Tail | None = None
    match: TailMatch | None = None
    held: deque[tuple[MessageSet, Share]] = field(default_factory=deque)
    last: tuple[MessageSet, Share] | None = None  # last set, which is in the target while the source shows no more
    open: bool = False
    busy: bool = False  # sets are being compared or passed on: later ones wait behind them
    unknown: bool = False  # one of its requests has an unknown outcome
    refused: ResumeRefused | None = None


class Resumer:
    """Gates of all partitions of one source.

    waiting: by partition name, the reason why it waits.  unpark(tp): fetches a parked partition again; False if it
    cannot yet.  source_end(tp): raises ConsumerError.
    """

    def __init__(
        self,
        name: str,
        tasks: TaskGroup,
        *,
        recorder: MapRecorder,
        tails: Tails,
        unpark: Callable[[TopicPartition], bool],
        source_end: Callable[[TopicPartition], SourceEnd],
    ) -> None:
        self.waiting: dict[str, str] = {}
        self._name = name
        self._recorder = recorder
        self._tails = tails
        self._tasks = tasks
        self._unpark = unpark
        self._source_end = source_end
        self._gates: dict[TopicPartition, ResumeGate] = {}
        self._followed: dict[TopicPartition, Reset | None] = {}  # newest reset behind which a gate was opened

    def admit(self, fetched: MessageSet, share: Share, topic: TopicRoute, forward: Forward) -> None:
        """Let a set continue, now or once the point to resume is known; sets of a partition keep their order."""
        try:
            if topic.route.partitioning != "identity":
                raise ResumeRefused(
                    f"topic {fetched.topic}: resume is target-end, which needs partitions that keep their number, and "
                    f"its route is {topic.route}; set resume: committed, or give the target as many partitions"
                )
            target = topic.partitioner.of_source(fetched.partition)
        except LocalError as reason:
            share.ticket(fetched.resume_at).failed(reason, fetched.start)
        else:
            self._admit(fetched, share, target, partial(forward, topic))

    def _admit(
        self,
        fetched: MessageSet,
        share: Share,
        target: TopicPartition,
        pass_on: Callable[[MessageSet, Share, int], object],
    ) -> None:
        gate = self._gates.get(fetched.tp)
        if gate is None or gate.period is not share.period:
            reset = share.reset if share.reset is not self._followed.get(fetched.tp) else None
            gate = self._gates[fetched.tp] = ResumeGate(
                fetched.tp,
                target,
                period=share.period,
                owned=share.holding(),
                ended=share.ended,
                pass_on=pass_on,
                topic=share.topic,
                reset=share.reset,
                new_log=self._recorder.is_of_former_log(fetched.tp, target, share.topic, reset),
            )
            self._tasks.spawn(f"resume-{self._name}-{fetched.tp}", self._read, gate)
        if gate.open and not gate.busy:
            pass_on(fetched, share, 0)
        elif gate.refused is not None:
            share.ticket(fetched.resume_at).failed(gate.refused, fetched.start)
        else:
            gate.held.append((fetched, share))
            if gate.match is not None and not gate.busy:
                self._compare(gate, gate.match)

    def unknown(self, source: TopicPartition) -> None:
        """Handle an unknown outcome: park the partition, and fetch it again once nothing of it is in flight."""
        gate = self._gates.get(source)
        if gate is not None and not gate.unknown:
            gate.unknown = True
            self._tasks.spawn(f"again-{self._name}-{source}", self._fetch_again, gate)

    def _fetch_again(self, gate: ResumeGate) -> None:
        while not gate.ended():
            sleep(UNPARK_S)
            try:
                if self._unpark(gate.source):
                    return
            except ConsumerError:
                return  # the mirror stops

    def _lasts(self, gate: ResumeGate) -> bool:
        """True if the gate's period is not over; the lease may be."""
        return self._gates.get(gate.source) is gate and not gate.ended()

    def _current(self, gate: ResumeGate) -> bool:
        return self._lasts(gate) and gate.owned()

    def _lease_holds(self, gate: ResumeGate) -> bool:
        """Wait until the lease is renewed if it is over.  Return False if the period is over."""
        while self._lasts(gate) and not gate.owned():
            sleep(LAPSE_S)
        return self._lasts(gate)

    def _read(self, gate: ResumeGate) -> None:
        """Read the tail, retrying until that succeeds or the period is over."""
        name = str(gate.source)
        self.waiting[name] = "resume: the target's end must not move for one request.timeout.ms"
        try:
            while gate.tail is None and self._lease_holds(gate):
                gate.checkpoint = None if gate.new_log else self._recorder.checkpoint(gate.source, gate.target)
                begin = gate.checkpoint.offset if gate.checkpoint is not None else None
                try:
                    gate.tail = self._tails.read(gate.target, begin, lambda: self._current(gate))
                except TailRefused as why:
                    self._refuse(gate, str(why))
                    return
                except WireError as why:
                    self.waiting[name] = f"resume: {why}"
                    sleep(RETRY_S)
        finally:
            self.waiting.pop(name, None)
        if gate.tail is not None and self._lease_holds(gate):
            self._begin(gate, gate.tail)

    def _begin(self, gate: ResumeGate, tail: Tail) -> None:
        start = gate.held[0][0].start
        if gate.checkpoint is None and not tail.empty and not gate.new_log:
            whose = f"its log, which ends at {tail.end}, holds messages of unknown origin"
            self._refuse(gate, f"the map has no checkpoint for it, and {whose}")
            return
        if gate.checkpoint is not None and gate.checkpoint.position < start and tail.digests:
            behind = f"{len(tail.digests)} messages lie behind the last checkpoint of the map"
            where = f"{gate.checkpoint.position} at the source, and the group is at {start} already"
            self._refuse(gate, f"{behind}, which is {where}")
            return
        gate.match = TailMatch(tail.digests)
        self._compare(gate, gate.match)

    def _compare(self, gate: ResumeGate, match: TailMatch) -> None:
        """Compare the held sets with the tail, and let the rest continue."""
        gate.busy = True
        try:
            while gate.held and gate.refused is None and self._lease_holds(gate) and gate.held:
                fetched, share = gate.held.popleft()
                if gate.open:
                    gate.pass_on(fetched, share, 0)
                else:
                    self._compare_or_refuse(gate, match, fetched, share)
                sleep(0)  # comparing takes long: let heartbeats and fetches run in between
        finally:
            gate.busy = False

    def _compare_or_refuse(self, gate: ResumeGate, match: TailMatch, fetched: MessageSet, share: Share) -> None:
        if gate.last is not None:
            before, its = gate.last
            its.ticket(before.resume_at).done()
            gate.last = None
        try:
            self._compare_set(gate, match, fetched, share)
        except Mismatch as why:
            self._mismatch(gate, why, fetched, share)
        except (RemoteError, LocalError) as damage:  # the library of the set's codec may not be installed
            gate.held.appendleft((fetched, share))
            self._refuse(gate, f"the source cannot be compared: {damage}")

    def _compare_set(self, gate: ResumeGate, match: TailMatch, fetched: MessageSet, share: Share) -> None:
        known = gate.checkpoint.position if gate.checkpoint is not None else fetched.start
        there, at, at_border = 0, fetched.start, True
        for message in in_turns(fetched.messages()):  # one by one: a set may decompress to gigabytes
            if message.offset >= known and not match.feed([digest(message.key, message.value)]):
                if self._current(gate):  # otherwise the period ended meanwhile
                    self._open(gate, match, at, at_border)
                    gate.pass_on(fetched, share, there)
                return
            # There is no separate offset within an entry of 0.7: the older checkpoint stays the last.
            there, at, at_border = there + 1, message.resume_at, message.resume_at > message.offset
        if not self._current(gate):
            return
        if fetched.high_watermark is not None and fetched.resume_at >= fetched.high_watermark and not match.done:
            gate.last = fetched, share
            self._tasks.spawn(f"source-end-{self._name}-{gate.source}", self._await_end, gate, match, gate.last)
            return
        share.ticket(fetched.resume_at).done()
        if match.done and fetched.resume_at >= known:
            self._open(gate, match, fetched.resume_at, True)

    def _await_end(self, gate: ResumeGate, match: TailMatch, last: tuple[MessageSet, Share]) -> None:
        """Wait until another set follows the last one, or the source has no more."""
        name, shown = str(gate.source), last[0].resume_at
        quiet_at: tuple[int, float] | None = None  # the end up to which the source is read, and since when
        try:
            while True:
                try:
                    source = self._source_end(gate.source)
                except ConsumerError as why:
                    source, reason = None, str(why)
                if not self._lease_holds(gate) or gate.last is not last:
                    return
                if source is not None:
                    reason = f"the source's leader shows its log up to {shown}, and it ends at {source.end}"
                    if source.read is None or source.read < source.end:
                        quiet_at = None
                    elif quiet_at is None or quiet_at[0] != source.end:
                        quiet_at = source.end, now()
                    # The source is read to its end although `last` ends earlier: ends of transactions are not part of
                    # any set.
                    quiet = quiet_at is not None and now() - quiet_at[1] >= QUIET_S
                    if (source.end <= shown or quiet) and not gate.held:
                        break
                self.waiting[name] = f"resume: {reason}"
                sleep(RETRY_S)
        finally:
            if self._gates.get(gate.source) is gate:
                self.waiting.pop(name, None)
        gate.last = None
        self._end(gate, match, *last)

    def _end(self, gate: ResumeGate, match: TailMatch, fetched: MessageSet, share: Share) -> None:
        """Finish matching: the source has no more than this set."""
        try:
            match.end()
        except Mismatch as why:
            self._mismatch(gate, why, fetched, share)
            return
        share.ticket(fetched.resume_at).done()
        if gate.checkpoint is None or fetched.resume_at >= gate.checkpoint.position:
            self._open(gate, match, fetched.resume_at, True)

    def _mismatch(self, gate: ResumeGate, why: Mismatch, fetched: MessageSet, share: Share) -> None:
        assert gate.tail is not None
        gate.held.appendleft((fetched, share))
        self._refuse(gate, f"what it holds at {gate.tail.offset(why.at)} is not what the source has next")

    def _open(self, gate: ResumeGate, match: TailMatch, at: int, at_border: bool) -> None:
        assert gate.tail is not None
        end = gate.tail.end if at_border else None
        self._recorder.begin(
            gate.source, gate.target, period=gate.period, owned=gate.owned, offset=at, end=end, topic=gate.topic
        )
        gate.open = True
        self._followed[gate.source] = gate.reset
        twice = f"; {match.repeated} of them twice" if match.repeated else ""
        log.info(
            "source %s: %s resumes at %d, behind offset %d of %s: %d messages were there without an answer%s",
            self._name,
            gate.source,
            at,
            gate.tail.end,
            gate.target,
            match.matched,
            twice,
            extra={"key": gate.source},
        )
        gate.tail = gate.match = None  # they may be large

    def _refuse(self, gate: ResumeGate, why: str) -> None:
        gate.refused = ResumeRefused(f"{gate.source} into {gate.target}, resume: target-end: {why}{HELP}")
        extra = {"key": gate.source, "event": "resume-refused", "source": self._name}
        log.error("source %s: %s", self._name, gate.refused, extra=extra)
        while gate.held:
            fetched, share = gate.held.popleft()
            share.ticket(fetched.resume_at).failed(gate.refused, fetched.start)
