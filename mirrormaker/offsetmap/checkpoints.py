"""What is written down of each stint, and when: entries are sparse.  Pure: no clock, no file, no socket.

    every n offsets of the target      at the first answer that lies n behind the last entry: so two neighbouring
                                       entries are at most n and one request apart
    settled()                          whatever was acknowledged since: on a timer, and before every commit

A stint begins with its first set, and its first answer from each target partition is an entry: where there is none,
nothing of it went there.  Nothing is written down but what an answer said while nobody else could own the partition: a
later answer could be of a request that the next owner has overtaken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkawire.model import TopicPartition
from zkconsumer.offsetmap.records import Begun, Entry, Reached, Record

LogEnds = dict[TopicPartition, int]  # of target partitions: their logs hold at least so much


class Checkpoint(NamedTuple):
    """Messages of a source partition before position lie before offset of its target, all others do not."""

    position: int
    offset: int


@dataclass(slots=True)
class _TargetOffsets:
    """One stint and one target partition.

    position      nothing from here on that goes there is acknowledged, everything before it is
    low, high     what an entry at position would say; low None: no answer yet
    inside        parts of one step are acknowledged, and others of it are not: position does not tell them apart
    """

    position: int
    low: int | None = None
    high: int | None = None
    inside: bool = False
    written: Entry | None = None

    def entry(self, source: TopicPartition, target: TopicPartition) -> Entry | None:
        """What is worth being written down now."""
        if self.low is None or self.inside:
            return None
        entry = Entry(source, target, self.position, self.low, self.high)
        return None if entry == self.written else entry


class OwnershipPeriod:
    """One stint while it goes on.  still(): nobody else can own its partition yet."""

    def __init__(
        self,
        source: TopicPartition,
        position: int,
        still: Callable[[], bool],
        owner: Checkpoints,
        topic: int | None = None,
    ) -> None:
        self.source = source
        self.begun_at = position
        self.topic = topic
        self._still = still
        self._over = False
        self._owner = owner
        self.pairs: dict[TopicPartition, _TargetOffsets] = {}

    def acknowledged(
        self,
        target: TopicPartition,
        base: tuple[int, bool] | None,
        end: tuple[int, bool],
        position: int | None,
    ) -> None:
        """A part is stored.

        base, end: offsets of its first message and behind its last, each with whether that is exact (else it may be
        larger); base None: the broker did not say, and nothing is written down.  position: of the source, where the
        part ends; None: other parts for this partition lie before the same position.
        """
        pair = self._pair(target)
        known = base is not None and self.holds()
        if base is not None and known:
            if self._owner.shrank(target, base[0]):
                pair.low = pair.high = pair.written = None
            self._owner.came_to(target, end[0])
            if not pair.inside:
                pair.low = base[0] if pair.low is None else max(pair.low, base[0])
                if base[1]:
                    pair.high = base[0] if pair.high is None else min(pair.high, base[0])
                self._owner.consider(self.source, target, pair)
        pair.inside = position is None
        if position is not None:
            pair.position = position
            pair.low, pair.high = end[0] if known else None, end[0] if known and end[1] else None

    def lies_behind(self, target: TopicPartition, offset: int) -> None:
        """Nothing was sent in this stint, and all that comes will lie at offset or behind: an entry."""
        pair = self._pair(target)
        pair.low = pair.high = offset
        self._owner.consider(self.source, target, pair)

    def failed(self) -> None:
        """A part can never be stored, so what comes behind it lies before it in the target, once it is mended: another
        stint."""
        self._over = True

    def holds(self) -> bool:
        """What is acknowledged now counts: nobody else can own the partition yet."""
        return not self._over and self._still()

    def settled(self, every: int, ends: LogEnds) -> list[Record]:
        """Entries for all that was acknowledged since the last ones, and for partitions that others have filled."""
        found: list[Record] = []
        for target, pair in self.pairs.items():
            end = ends.get(target)
            if end is not None and pair.low is not None and pair.low > end:  # of a log that is no more
                pair.low = pair.high = pair.written = None
            if end is not None and self.holds():
                known = pair.written.low if pair.written is not None else 0
                if pair.written is None or end - known >= every:
                    # A partition has one request on its way at most: what is not acknowledged comes to lie behind.
                    pair.low = end if pair.low is None else max(pair.low, end)
            entry = pair.entry(self.source, target)
            if entry is not None:
                pair.written = entry
                found.append(entry)
        return found

    def _pair(self, target: TopicPartition) -> _TargetOffsets:
        pair = self.pairs.get(target)
        if pair is None:
            pair = self.pairs[target] = _TargetOffsets(self.begun_at)
        return pair


class Checkpoints:
    """All stints of one source.  write(records) gets what is to be written down, in order."""

    def __init__(self, every: int, ends: LogEnds, write: Callable[[Sequence[Record]], object]) -> None:
        self._every = every
        self._ends = ends
        self._write = write
        self._following: dict[TopicPartition, OwnershipPeriod] = {}
        self._silent: set[TopicPartition] = set()  # owned, and nothing was read yet
        self._reached: dict[TopicPartition, int] = {}

    def begin(
        self,
        source: TopicPartition,
        position: int,
        at_ms: int,
        keeps: bool,
        still: Callable[[], bool],
        targets: Iterable[TopicPartition] = (),
        topic: int | None = None,
    ) -> OwnershipPeriod:
        """A stint begins; what the one before it still hears is not written down.

        still(): nobody else can own the partition yet.  targets: partitions that it may send to, where its route does
        not keep the number.  topic: the czxid of the source's topic, where it is known.
        """
        if source in self._following:
            self._following[source].failed()
        following = self._following[source] = OwnershipPeriod(source, position, still, self, topic)
        for target in targets:
            following._pair(target)
        self._silent.discard(source)
        self._reached[source] = position
        self._write([Begun(source, position, at_ms, keeps, topic)])
        return following

    def shrank(self, target: TopicPartition, base: int) -> bool:
        """Whether a log that held more takes a request at base: what was known of it is of another one."""
        if base >= self._ends.get(target, 0):
            return False
        del self._ends[target]
        return True

    def came_to(self, target: TopicPartition, end: int) -> None:
        """The log of a target partition holds at least so much."""
        if end > self._ends.get(target, -1):
            self._ends[target] = end

    def consider(self, source: TopicPartition, target: TopicPartition, pair: _TargetOffsets) -> None:
        """After an answer: an entry, if one is due."""
        if pair.written is None or pair.low is None or pair.low - pair.written.low >= self._every:
            entry = pair.entry(source, target)
            if entry is not None:
                pair.written = entry
                self._write([entry])

    def settled(self) -> None:
        """Write down all that is acknowledged: on a timer."""
        records: list[Record] = []
        for following in self._following.values():
            records += following.settled(self._every, self._ends)
        if records:
            self._write(records)

    def committing(self, positions: Iterable[tuple[TopicPartition, int]], at_ms: int) -> None:
        """The same before a commit, and how far each partition is then."""
        self.settled()
        records: list[Record] = []
        for source, position in positions:
            following = self._following.get(source)
            if following is not None and following.holds() and position >= following.begun_at:
                if position > self._reached[source]:
                    self._reached[source] = position
                    records.append(Reached(source, position))
            elif following is None and source not in self._silent:
                self._silent.add(source)
                records.append(Begun(source, position, at_ms, None))
        if records:
            self._write(records)

    def restart(self, at_ms: int) -> None:
        """What was written may be lost (the disk was full): every stint that goes on is begun anew, where it is."""
        self._silent.clear()
        records: list[Record] = []
        for source, following in self._following.items():
            for pair in following.pairs.values():
                pair.written = None
            if following.holds():
                following.begun_at = self._reached[source]
                records.append(Begun(source, following.begun_at, at_ms, None, following.topic))
        if records:
            self._write(records)
