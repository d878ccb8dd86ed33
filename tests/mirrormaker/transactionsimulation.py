"""A mirror that copies exactly once, without sockets: source partitions, target logs with transactions, and the real
steps and checkpoints.

Each source partition has a sender and a transaction of its own.  Target logs hold what is open, aborted and committed,
and markers, which use up an offset each.  A mirror may die at any moment, also between the end of a transaction and its
tickets; the next one begins at the group's committed offset and passes over what the target's position covers.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from kafkawire.model import Part, TopicPartition
from mirrormaker.exactlyonce.steps import Step, StepQueue, StepTicket
from mirrormaker.offsetmap.checkpoints import Checkpoints, OwnershipPeriod
from mirrormaker.offsetmap.tickets import part_tickets
from tests.mirrormaker.mapsimulation import EVERY, Mark, Source
from zkconsumer.fetching.committable import Progress
from zkconsumer.offsetmap.records import OffsetMap, Record, gathered

MAX_BYTES = 40  # of a transaction


@dataclass(slots=True)
class Stored:
    """An offset of a target log.  mark None: a marker.  owner: number of the source partition."""

    mark: Mark | None
    owner: int
    state: Literal["open", "aborted", "committed"]


@dataclass(slots=True)
class Sent:
    part: Part
    marks: list[Mark]
    ticket: StepTicket


class MarkedStep(Step):
    """A step that knows the messages of each of its parts."""

    __slots__ = ("marks",)
    marks: list[list[Mark]]


@dataclass(slots=True)
class Sender:
    """What one mirror has of one source partition, for one ownership period."""

    period: OwnershipPeriod | None = None
    began: bool = False  # what an earlier owner left open is aborted
    steps: StepQueue = field(default_factory=StepQueue)
    queues: dict[TopicPartition, deque[Sent]] = field(default_factory=dict)
    flying: dict[TopicPartition, list[Sent]] = field(default_factory=dict)
    committed: bool = False  # its transaction is, and no ticket knows yet

    def clear(self) -> None:
        self.queues.clear()
        self.flying.clear()


class TransactionSimulation:
    def __init__(self, rng: random.Random, partitions: int, keys: int, counted: bool) -> None:
        self.rng = rng
        self.counted = counted
        self.sources = [Source(TopicPartition("t", n)) for n in range(partitions)]
        self.targets = [TopicPartition("t", n) for n in range(keys or partitions)]
        self.keys = keys
        self.logs: dict[TopicPartition, list[Stored]] = {tp: [] for tp in self.targets}
        self.positions = [0] * partitions  # as the target has them
        self.records: list[Record] = []
        self.clock = 0
        self.start()

    def start(self) -> None:
        """A mirror begins where the group is committed."""
        self.alive = [True]
        alive = self.alive
        self.checkpoints = Checkpoints(EVERY, self.records.extend, shared_sender=False)
        self.senders = [Sender() for _ in self.sources]
        self.progress = [Progress(s.committed) for s in self.sources]
        self.at = [s.committed for s in self.sources]
        self.still = lambda: alive[0]

    @property
    def began(self) -> bool:
        """Every source that has something to be sent has begun its ownership period since the mirror was started."""
        rows = zip(self.senders, self.at, self.sources, strict=True)
        return all(sender.period is not None or at == source.end for sender, at, source in rows)

    def grow(self) -> None:
        for source in self.sources:
            mine = self.targets if self.keys else [source.tp]
            source.grow(self.rng, self.rng.choice((0, 0, 5, 20)), mine)

    # ---- the source's side

    def read(self) -> None:
        """One step of one source: a few entries, whole ones."""
        number = self.rng.randrange(len(self.sources))
        source, at, sender = self.sources[number], self.at[number], self.senders[number]
        ends = [border for border in source.borders if border > at]
        if not ends:
            return
        if not sender.began:
            self._initialize(number)
        end = ends[min(len(ends) - 1, self.rng.randrange(6))]
        self.at[number] = end
        if end <= self.positions[number]:
            self.progress[number].ticket(end, 1).done()
            return
        begin = max(at, self.positions[number]) if sender.period is None else at
        period = sender.period = sender.period or self._period(source, begin)
        mine: dict[TopicPartition, list[Mark]] = {}
        for n, start in enumerate(source.starts):
            if begin <= start < end:
                mine.setdefault(source.targets[n], []).append((source.tp, n))
        pieces = [(tp, cut) for tp, marks in mine.items() for cut in self._cut(marks)]
        parts = tuple(self._part(tp, marks) for tp, marks in pieces)
        if not parts:
            self.progress[number].ticket(end, 1).done()
            return
        tickets = part_tickets(parts, self.progress[number].ticket(end, len(parts)), period, end)
        step = MarkedStep(end, tickets)
        step.marks = [marks for _, marks in pieces]
        sender.steps.waiting.append(step)

    def _period(self, source: Source, begin: int) -> OwnershipPeriod:
        self.clock += 1
        others = self.targets if self.keys else ()
        return self.checkpoints.begin(
            source.tp, begin, self.clock, single_target=not self.keys, owned=self.still, targets=others
        )

    def _cut(self, marks: list[Mark]) -> list[list[Mark]]:
        if len(marks) < 2 or self.rng.random() < 0.7:
            return [marks]
        at = self.rng.randrange(1, len(marks))
        return [marks[:at], marks[at:]]

    def _part(self, tp: TopicPartition, marks: list[Mark]) -> Part:
        size = b"x" * len(marks)
        return Part(tp, size, 2, 0, len(marks)) if self.counted else Part(tp, size, 2, 1, 1, counted=False)

    # ---- transactions

    def _any(self) -> tuple[int, Sender]:
        number = self.rng.randrange(len(self.senders))
        return number, self.senders[number]

    def _initialize(self, number: int) -> None:
        """The owner before is fenced, and what it left open is aborted."""
        self._end(number, "aborted")
        self.senders[number].began = True

    def _end(self, number: int, state: Literal["aborted", "committed"]) -> None:
        for log in self.logs.values():
            mine = [row for row in log if row.owner == number and row.state == "open"]
            for row in mine:
                row.state = state
            if mine:
                log.append(Stored(None, number, state))

    def send(self) -> None:
        """What waits goes into the open transaction, and a request on its way."""
        _, sender = self._any()
        if sender.committed:
            return
        for step in sender.steps.take(MAX_BYTES):
            assert isinstance(step, MarkedStep)
            made = step.parts(lambda: None, lambda: None)
            for (part, ticket), marks in zip(made, step.marks, strict=True):
                sender.queues.setdefault(part.tp, deque()).append(Sent(part, marks, ticket))
        idle = [tp for tp, queue in sender.queues.items() if queue and tp not in sender.flying]
        if idle:
            queue = sender.queues[tp := self.rng.choice(idle)]
            sender.flying[tp] = [queue.popleft() for _ in range(min(self.rng.randint(1, 3), len(queue)))]

    def answer(self) -> None:
        """A request is stored and acknowledged."""
        number, sender = self._any()
        if not sender.flying:
            return
        tp = self.rng.choice(list(sender.flying))
        batch = sender.flying.pop(tp)
        log, base, exact = self.logs[tp], len(self.logs[tp]), True
        log += [Stored(mark, number, "open") for sent in batch for mark in sent.marks]
        for sent in batch:
            sent.ticket.placed(sent.part.count, base, exact)
            base += sent.part.count
            exact = exact and sent.part.counted
            sent.ticket.done()

    def end(self, fair: bool = False) -> None:
        """A transaction is committed, or aborted by its coordinator and sent again."""
        number, sender = self._any()
        if sender.committed or not sender.steps.open:
            return
        if not fair and self.rng.random() < 0.2:
            self._end(number, "aborted")
            sender.clear()
            sender.steps.aborted()
        elif sender.steps.stored:
            self._end(number, "committed")
            self.positions[number] = sender.steps.end
            sender.committed = True

    def tell(self) -> None:
        """The tickets of a committed transaction hear of it."""
        _, sender = self._any()
        if sender.committed:
            sender.steps.committed()
            sender.committed = False

    # ---- the rest of the mirror

    def commit(self) -> None:
        self.clock += 1
        positions = [(s.tp, p.committable) for s, p in zip(self.sources, self.progress, strict=True)]
        self.checkpoints.committing(positions, self.clock)
        for source, (_, position) in zip(self.sources, positions, strict=True):
            source.committed = position

    def tick(self) -> None:
        self.checkpoints.record_acknowledged()

    def kill(self) -> None:
        """kill -9, and a new mirror.  Some tickets may have heard of their transaction, and requests on their way may
        be stored, in what is aborted then."""
        for number, sender in enumerate(self.senders):
            if sender.committed:
                for step in sender.steps.open[: self.rng.randrange(len(sender.steps.open) + 1)]:
                    step.done()
            for tp, batch in sender.flying.items():
                if self.rng.random() < 0.5:
                    self.logs[tp] += [Stored(mark, number, "open") for sent in batch for mark in sent.marks]
        self.alive[0] = False
        self.start()

    def drain(self) -> None:
        """The mirror goes on until all of the sources is in the target."""
        while any(at < s.end for at, s in zip(self.at, self.sources, strict=True)):
            self.read()
        while any(sender.steps.waiting or sender.steps.open for sender in self.senders):
            self.send()
            self.answer()
            self.end(fair=True)
            self.tell()

    def visible(self, target: TopicPartition, position: int) -> list[Mark]:
        """What a read_committed reader gets from an offset on."""
        return [row.mark for row in self.logs[target][position:] if row.state == "committed" and row.mark is not None]

    @property
    def map(self) -> OffsetMap:
        return gathered(self.records)
