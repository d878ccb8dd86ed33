"""A mirror without sockets: sources, target logs, a broker that answers, is silent or dies, and the real checkpoints.

Messages are (source, number); their positions have gaps as those of a compacted log do, or are bytes with wrappers, as
in 0.7: all messages of a wrapper but the last go on at its start.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from kafkawire.model import Part, TopicPartition
from mirrormaker.offsetmap.checkpoints import Checkpoints, OwnershipPeriod
from mirrormaker.offsetmap.tickets import PartTicket, part_tickets
from zkconsumer.fetching.committable import Progress
from zkconsumer.offsetmap.records import OffsetMap, Record, gathered

Mark = tuple[TopicPartition, int]  # a message: of which source partition, and its number there
EVERY = 6


@dataclass(slots=True)
class Source:
    """A partition: where each message's entry begins, and where the log ends.  borders: where one may go on."""

    tp: TopicPartition
    starts: list[int] = field(default_factory=list)
    end: int = 0
    targets: list[TopicPartition] = field(default_factory=list)  # of each message
    committed: int = 0

    def grow(self, rng: random.Random, count: int, choose: list[TopicPartition]) -> None:
        while count > 0:
            together = rng.choice((1, 1, 1, 3))  # a wrapper
            for _ in range(min(together, count)):
                self.starts.append(self.end)
                self.targets.append(rng.choice(choose))
            count -= together
            self.end += rng.randint(1, 9)

    @property
    def borders(self) -> list[int]:
        return sorted({*self.starts, self.end, 0})

    def unread(self, position: int) -> list[int]:
        return [n for n, start in enumerate(self.starts) if start >= position]


@dataclass(slots=True)
class Sent:
    part: Part
    marks: list[Mark]
    ticket: PartTicket


class MapSimulation:
    """counted: parts say how many messages they hold; else each is a wrapper that counts as one."""

    def __init__(self, rng: random.Random, partitions: int, keys: int, counted: bool) -> None:
        self.rng = rng
        self.counted = counted
        self.sources = [Source(TopicPartition("t", n)) for n in range(partitions)]
        self.targets = [TopicPartition("t", n) for n in range(keys or partitions)]
        self.keys = keys
        self.logs: dict[TopicPartition, list[Mark]] = {tp: [] for tp in self.targets}
        self.records: list[Record] = []
        self.late: list[tuple[TopicPartition, list[Mark]]] = []  # requests of the dead that are stored some time
        self.clock = 0
        self.largest = 0  # messages in one request
        self.start()

    def start(self) -> None:
        """A mirror begins where the group is committed."""
        self.alive = [True]
        alive = self.alive
        self.checkpoints = Checkpoints(EVERY, self.records.extend)
        self.queues: dict[TopicPartition, deque[Sent]] = {tp: deque() for tp in self.targets}
        self.flying: dict[TopicPartition, list[Sent]] = {}
        self.progress = [Progress(s.committed) for s in self.sources]
        self.at = [s.committed for s in self.sources]
        self.periods: list[OwnershipPeriod | None] = [None] * len(self.sources)
        self.still = lambda: alive[0]

    @property
    def began(self) -> bool:
        """Every source that has something to be sent has begun its ownership period since the mirror was started."""
        rows = zip(self.periods, self.at, self.sources, strict=True)
        return all(period is not None or at == source.end for period, at, source in rows)

    def grow(self) -> None:
        for source in self.sources:
            mine = self.targets if self.keys else [source.tp]
            source.grow(self.rng, self.rng.choice((0, 0, 5, 20)), mine)

    def read(self) -> None:
        """One step of one source: a few entries, whole ones."""
        number = self.rng.randrange(len(self.sources))
        source, at = self.sources[number], self.at[number]
        ends = [border for border in source.borders if border > at]
        if not ends:
            return
        end = ends[min(len(ends) - 1, self.rng.randrange(6))]
        period = self.periods[number]
        if period is None:
            self.clock += 1
            others = self.targets if self.keys else ()
            period = self.checkpoints.begin(
                source.tp, at, self.clock, single_target=not self.keys, owned=self.still, targets=others
            )
            self.periods[number] = period
        mine: dict[TopicPartition, list[Mark]] = {}
        for n, start in enumerate(source.starts):
            if at <= start < end:
                mine.setdefault(source.targets[n], []).append((source.tp, n))
        self._submit(number, end, mine, period)
        self.at[number] = end

    def _submit(self, number: int, end: int, mine: dict[TopicPartition, list[Mark]], period: OwnershipPeriod) -> None:
        pieces = [(tp, cut) for tp, marks in mine.items() for cut in self._cut(marks)]
        parts = tuple(self._part(tp, marks) for tp, marks in pieces)
        ticket = self.progress[number].ticket(end, len(parts))
        tickets = part_tickets(parts, ticket, period, end)
        for (part, own), (tp, marks) in zip(tickets, pieces, strict=True):
            self.queues[tp].append(Sent(part, marks, own))

    def _cut(self, marks: list[Mark]) -> list[list[Mark]]:
        if len(marks) < 2 or self.rng.random() < 0.7:
            return [marks]
        at = self.rng.randrange(1, len(marks))
        return [marks[:at], marks[at:]]

    def _part(self, tp: TopicPartition, marks: list[Mark]) -> Part:
        return Part(tp, b"", 0, 0, len(marks)) if self.counted else Part(tp, b"", 0, 1, 1, counted=False)

    def send(self) -> None:
        idle = [tp for tp in self.targets if self.queues[tp] and tp not in self.flying]
        if idle:
            tp = self.rng.choice(idle)
            count = self.rng.randint(1, 3)
            batch = self.flying[tp] = [self.queues[tp].popleft() for _ in range(min(count, len(self.queues[tp])))]
            self.largest = max(self.largest, sum(len(sent.marks) for sent in batch))

    def answer(self, fair: bool = False) -> None:
        """A request comes to its end: acknowledged, or the connection broke before or after it was stored."""
        if not self.flying:
            return
        tp = self.rng.choice(list(self.flying))
        batch = self.flying.pop(tp)
        how = self.rng.random()
        if how < 0.1 and not fair:  # never stored; it goes again
            self.queues[tp].extendleft(reversed(batch))
            return
        base = len(self.logs[tp])
        self.logs[tp] += [mark for sent in batch for mark in sent.marks]
        if how < 0.2 and not fair:  # stored, and nobody knows
            self.queues[tp].extendleft(reversed(batch))
            return
        exact = True
        for sent in batch:
            sent.ticket.placed(sent.part.count, base, exact)
            base += sent.part.count
            exact = exact and sent.part.counted
            sent.ticket.done()

    def commit(self) -> None:
        self.clock += 1
        positions = [(s.tp, p.committable) for s, p in zip(self.sources, self.progress, strict=True)]
        self.checkpoints.committing(positions, self.clock)
        for source, (_, position) in zip(self.sources, positions, strict=True):
            source.committed = position

    def kill(self, late: bool = False) -> None:
        """kill -9, and a new mirror.  What was on its way is stored, or not, or (late) some time after."""
        self.alive[0] = False
        for tp, batch in self.flying.items():
            marks = [mark for sent in batch for mark in sent.marks]
            how = self.rng.random()
            if how < 0.4:
                self.logs[tp] += marks
            elif how < 0.7 and late:
                self.late.append((tp, marks))
        self.start()

    def tick(self) -> None:
        self.checkpoints.record_acknowledged()
        if self.late and self.rng.random() < 0.3:
            tp, marks = self.late.pop()
            self.logs[tp] += marks

    def drain(self) -> None:
        """The mirror goes on until all of the sources is in the target, and commits."""
        while any(at < s.end for at, s in zip(self.at, self.sources, strict=True)):
            self.read()
        while any(self.queues.values()) or self.flying:
            self.send()
            self.answer(fair=True)

    @property
    def map(self) -> OffsetMap:
        return gathered(self.records)
