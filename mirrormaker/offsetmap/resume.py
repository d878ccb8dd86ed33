"""resume: target-end.  What a source partition brings is held back until it is known how much of it the target has.

    looking    the target's end is waited for, and its tail read from the last point of the map (tail.py)
    matching   the source's sets are held against the tail; those that are there count as done, and are not sent
    open       everything goes on; the point where it does is in the map before the first of it is sent
    refused    the tail is not what this mirror sent: the partition is parked with the reason

A source topic that was deleted and created again has a log of which the target holds nothing: the point of the map is
of the former log, and the partition goes on behind all that the target has.

Each stint begins like that: after a restart, after a rebalance, after a parked partition is tried again.  A request
whose outcome nobody knows (its connection broke) is not sent again: its partition begins another stint.

TailMatch (pure) tells where a source partition goes on in a target partition that nobody else writes.  Each message of
the tail must be the next of the source.  A batch that was sent twice, since its outcome was unknown, stands in the tail
twice, one copy directly after the other: that is seen, counted, and no obstacle.  Anything else is Mismatch: another
writer, a compacted topic, another source.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from groundwork.tasks import TaskGroup, sleep
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError, RemoteError, WireError
from kafkawire.model import Message, MessageSet, Part, Ticket, TopicPartition
from mirrormaker.offsetmap.checkpoints import Checkpoint
from mirrormaker.offsetmap.recorder import MapRecorder
from mirrormaker.offsetmap.tail import Tail, TailRefused, digest
from mirrormaker.routes import Output
from zkconsumer.errors import ConsumerError

log = logging.getLogger(__name__)
RETRY_S = 1.0  # while the target does not answer
AGAIN_S = 0.5  # until what is parked can be looked at again
HELP = "; what the map says and what the target holds do not fit together: look at both, or set resume: committed once"


class Mismatch(Exception):
    """The tail is not made of the source's messages; .at is the index in the tail of the first that is not."""

    def __init__(self, at: int) -> None:
        super().__init__(f"message {at} of the target's tail is not the source's next")
        self.at = at


class TailMatch:
    """.matched: so many of the source's messages are in the target.  .repeated: so many of the tail are there twice."""

    def __init__(self, tail: Sequence[int]) -> None:
        self._tail = tail
        self._at = 0  # of the tail, everything before it is understood
        self._source: list[int] = []  # digests of what was fed and found
        self.repeated = 0

    @property
    def matched(self) -> int:
        return len(self._source)

    @property
    def done(self) -> bool:
        """All of the tail is understood: the source goes on behind .matched messages."""
        return self._at == len(self._tail)

    def feed(self, messages: Sequence[int]) -> int:
        """More messages of the source, in order: how many of them are in the target.  Raises Mismatch."""
        for number, each in enumerate(messages):
            while not self.done and self._tail[self._at] != each:
                self._skip_copy()
            if self.done:
                return number
            self._at += 1
            self._source.append(each)
        return len(messages)

    def end(self) -> None:
        """The source has no more: what is left of the tail must be copies.  Raises Mismatch."""
        while not self.done:
            self._skip_copy()

    def _skip_copy(self) -> None:
        """Step over the second copy of what was sent last."""
        tail, source, at = self._tail, self._source, self._at
        for count in range(1, min(len(source), len(tail) - at) + 1):
            if tail[at] == source[-count] and tail[at : at + count] == source[-count:]:
                self._at += count
                self.repeated += count
                return
        raise Mismatch(at)


class Share(Protocol):
    """The consumer's side of a set (zkconsumer.fetching.share)."""

    def ticket(self, resume_at: int, parts: int = 1) -> Ticket: ...
    @property
    def stint(self) -> object: ...
    @property
    def topic(self) -> int | None: ...
    @property
    def begins_new_log(self) -> bool: ...
    def holding(self) -> Callable[[], bool]: ...


class Tails(Protocol):
    def read(self, tp: TopicPartition, begin: int | None, wanted: Callable[[], bool]) -> Tail | None: ...


PassOn = Callable[[MessageSet, Share, int], object]  # a set, and how many of its first messages are not to be sent


class ResumeRefused(LocalError):
    """Where a partition goes on in the target cannot be told; names both partitions and what helps."""


@dataclass(slots=True)
class ResumeGate:
    """One stint.  point: of the map; None: there is none, and the target must be empty, or new_log: what it holds is of
    the log of an earlier topic.  topic: the czxid of the source's topic."""

    source: TopicPartition
    target: TopicPartition
    stint: object
    holds: Callable[[], bool]
    pass_on: PassOn
    topic: int | None = None
    new_log: bool = False
    point: Checkpoint | None = None
    tail: Tail | None = None
    matching: TailMatch | None = None
    held: deque[tuple[MessageSet, Share]] = field(default_factory=deque)
    open: bool = False
    busy: bool = False  # sets are held against the tail, or passed on: others wait behind them
    doubtful: bool = False  # a request of it has an outcome that nobody knows
    refused: ResumeRefused | None = None


class Resumer:
    """All partitions of one source.  waiting: gets a sentence by name while something is looked at."""

    def __init__(self, name: str, keeper: MapRecorder, tails: Tails, tasks: TaskGroup, waiting: dict[str, str]) -> None:
        self._name = name
        self._keeper = keeper
        self._tails = tails
        self._tasks = tasks
        self._waiting = waiting
        self._gates: dict[TopicPartition, ResumeGate] = {}
        self.retry: Callable[[TopicPartition], bool] = lambda tp: False  # reads a parked partition once more

    def take(self, fetched: MessageSet, share: Share, target: TopicPartition, pass_on: PassOn) -> None:
        """Pass a set on, now or once it is known from where; sets of a partition keep their order."""
        gate = self._gates.get(fetched.tp)
        if gate is None or gate.stint is not share.stint:
            new_log = self._keeper.is_of_former_log(fetched.tp, share.topic, share.begins_new_log)
            gate = self._gates[fetched.tp] = ResumeGate(
                fetched.tp, target, share.stint, share.holding(), pass_on, share.topic, new_log
            )
            self._tasks.spawn(f"resume-{self._name}-{fetched.tp}", self._look, gate)
        if gate.open and not gate.busy:
            pass_on(fetched, share, 0)
        elif gate.refused is not None:
            share.ticket(fetched.resume_at).failed(gate.refused, fetched.start)
        else:
            gate.held.append((fetched, share))
            if gate.matching is not None and not gate.busy:
                self._match(gate, gate.matching)

    def doubtful(self, source: TopicPartition) -> None:
        """Nobody knows what became of a request: it is parked, and looked at again as soon as nothing of it is left."""
        gate = self._gates.get(source)
        if gate is not None and not gate.doubtful:
            gate.doubtful = True
            self._tasks.spawn(f"again-{self._name}-{source}", self._again, gate)

    def _again(self, gate: ResumeGate) -> None:
        while self._current(gate):
            sleep(AGAIN_S)
            try:
                if self.retry(gate.source):
                    return
            except ConsumerError:
                return  # it is stopping

    def _current(self, gate: ResumeGate) -> bool:
        return self._gates.get(gate.source) is gate and gate.holds()

    def _look(self, gate: ResumeGate) -> None:
        """Until the tail is read, or the stint is over."""
        name = str(gate.source)
        self._waiting[name] = "resume: the target's end has to be still for one request.timeout.ms"
        try:
            while self._current(gate):
                gate.point = None if gate.new_log else self._keeper.point(gate.source, gate.target)
                begin = gate.point.offset if gate.point is not None else None
                try:
                    gate.tail = self._tails.read(gate.target, begin, lambda: self._current(gate))
                except TailRefused as why:
                    self._refuse(gate, str(why))
                    return
                except WireError as why:
                    self._waiting[name] = f"resume: {why}"
                    sleep(RETRY_S)
                    continue
                break
        finally:
            self._waiting.pop(name, None)
        if gate.tail is not None and self._current(gate):
            self._begin(gate, gate.tail)

    def _begin(self, gate: ResumeGate, tail: Tail) -> None:
        start = gate.held[0][0].start
        if gate.point is None and not tail.empty and not gate.new_log:
            whose = f"its log, which ends at {tail.end}, holds messages: whose they are is not known"
            self._refuse(gate, f"the map has no point for it, and {whose}")
            return
        if gate.point is not None and gate.point.position < start and tail.digests:
            behind = f"{len(tail.digests)} messages lie behind the last point of the map"
            where = f"{gate.point.position} at the source, and the group is at {start} already"
            self._refuse(gate, f"{behind}, which is {where}")
            return
        gate.matching = TailMatch(tail.digests)
        self._match(gate, gate.matching)

    def _match(self, gate: ResumeGate, matching: TailMatch) -> None:
        """Hold what came against the tail, and let the rest go on."""
        gate.busy = True
        try:
            while gate.held and gate.refused is None and self._current(gate):
                fetched, share = gate.held.popleft()
                if gate.open:
                    gate.pass_on(fetched, share, 0)
                else:
                    self._match_or_refuse(gate, matching, fetched, share)
                sleep(0)  # comparing is long work: heartbeats and fetches go on in between
        finally:
            gate.busy = False

    def _match_or_refuse(self, gate: ResumeGate, matching: TailMatch, fetched: MessageSet, share: Share) -> None:
        try:
            self._match_set(gate, matching, fetched, share)
        except Mismatch as why:
            assert gate.tail is not None
            gate.held.appendleft((fetched, share))
            self._refuse(gate, f"what it holds at {gate.tail.begin + why.at} is not what the source has next")
        except RemoteError as damage:
            gate.held.appendleft((fetched, share))
            self._refuse(gate, f"the source cannot be compared: {damage}")

    def _match_set(self, gate: ResumeGate, matching: TailMatch, fetched: MessageSet, share: Share) -> None:
        known = gate.point.position if gate.point is not None else fetched.start
        messages = list(fetched.messages())
        before = sum(1 for message in messages if message.offset < known)
        there = before + matching.feed([digest(message.key, message.value) for message in messages[before:]])
        at_end = fetched.high_watermark is not None and fetched.resume_at >= fetched.high_watermark
        if there == len(messages) and at_end:
            matching.end()
        if there < len(messages):
            # Within an entry of 0.7 there is no position of its own: the older point of the map stays the last.
            at_border = there == 0 or messages[there - 1].resume_at > messages[there - 1].offset
            at = fetched.start if there == 0 else messages[there - 1].resume_at
            self._open(gate, matching, at, at_border)
            gate.pass_on(fetched, share, there)
            return
        share.ticket(fetched.resume_at).done()
        if matching.done and fetched.resume_at >= known:
            self._open(gate, matching, fetched.resume_at, True)

    def _open(self, gate: ResumeGate, matching: TailMatch, at: int, at_border: bool) -> None:
        assert gate.tail is not None
        end = gate.tail.end if at_border else None
        self._keeper.go_on(gate.source, gate.stint, gate.holds, at, gate.target, end, gate.topic)
        gate.open = True
        twice = f"; {matching.repeated} of them twice" if matching.repeated else ""
        log.info(
            "source %s: %s goes on at %d, behind offset %d of %s: %d messages were there without an answer%s",
            self._name,
            gate.source,
            at,
            gate.tail.end,
            gate.target,
            matching.matched,
            twice,
            extra={"key": gate.source},
        )
        gate.tail = gate.matching = None  # they may be large

    def _refuse(self, gate: ResumeGate, why: str) -> None:
        gate.refused = ResumeRefused(f"{gate.source} into {gate.target}, resume: target-end: {why}{HELP}")
        log.error("source %s: %s", self._name, gate.refused, extra={"key": gate.source})
        while gate.held:
            fetched, share = gate.held.popleft()
            share.ticket(fetched.resume_at).failed(gate.refused, fetched.start)


def but_the_first(count: int, outputs: Callable[[Message], Sequence[Output]]) -> Callable[[Message], Sequence[Output]]:
    """Nothing of the first `count` messages, and what outputs() gives of the others."""
    left = count

    def rest(message: Message) -> Sequence[Output]:
        nonlocal left
        if left:
            left -= 1
            return ()
        return outputs(message)

    return rest


def counted(part: Part, dialect: Dialect) -> Part:
    """The part with the number of messages in it; a wrapper has to be opened for that.  Raises CorruptMessage."""
    if part.counted:
        return part
    found, _ = dialect.messages.message_set(part.tp.topic, part.tp.partition, 0, memoryview(part.entries), 0)
    return replace(part, count=sum(1 for _ in found.messages(check_crcs=False)), counted=True)
