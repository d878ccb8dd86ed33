"""Decides which checkpoints (source offset, target offset) of each ownership period are recorded.  Pure: no clock, no
file.

    every n offsets of the target      at the first response at least n behind the last entry: so two neighbouring
                                       entries are at most n and one request apart
    record_acknowledged()              everything acknowledged since: on a timer, and before every commit

An ownership period of a source partition (zkconsumer.offsetmap.records) begins with its first set.  Its first response
from each target partition becomes an entry: without an entry, nothing of the period went there.  A response is only
recorded if no other member could own the partition at that time: a later response could belong to a request that the
next owner has overtaken.

What the end of a target log implies: a response says that the log has a certain end; a message that is sent after that
response is stored behind that end.  So the end is a lower bound for

    what its own sender still has       a sender has one request in flight for a partition: the rest is sent after that
                                        response
    what is not handed to a sender yet  by any source partition: it is sent later than now

and for nothing else.  If all partitions of a source share one sender, the first rule applies to all of them.  If each
has its own (transactions: mirrormaker.exactlyonce), a message in the open transaction of one partition may be stored
before the end that another partition learned: only the second rule applies across partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkawire.model import TopicPartition
from zkconsumer.offsetmap.records import Begun, Entry, Reached, Record

LogEnds = dict[TopicPartition, int]  # known lower bounds of the ends of target logs, learned by this source


class Checkpoint(NamedTuple):
    """Pair of offsets: messages of a source partition before `position` are before `offset` in its target, and no
    others are."""

    position: int
    offset: int


@dataclass(slots=True)
class TargetOffsets:
    """Offsets of one ownership period in one target partition.

    position      everything before it that goes to the target is acknowledged, and nothing from it onwards
    low, high     what an entry at position would say; low is None before a response
    inside        some messages at position are acknowledged, and some are not: parts of one step, or messages that
                  share an offset of the source
    in_flight     parts that were handed out to be sent and are not acknowledged
    """

    target: TopicPartition
    position: int
    low: int | None = None
    high: int | None = None
    inside: bool = False
    in_flight: int = 0
    written: Entry | None = None

    def entry(self, source: TopicPartition) -> Entry | None:
        """Return the entry to record now, or None."""
        if self.low is None or self.inside:
            return None
        entry = Entry(source, self.target, self.position, self.low, self.high)
        return None if entry == self.written else entry


class OwnershipPeriod:
    """An ownership period while it lasts.  owned(): True while no other member can own its partition."""

    def __init__(
        self,
        source: TopicPartition,
        position: int,
        checkpoints: Checkpoints,
        *,
        owned: Callable[[], bool],
        topic: int | None = None,
        name: str = "",
    ) -> None:
        self.source = source
        self.begun_at = position
        self.topic = topic
        self.name = name  # target name of the topic, if it differs
        self._owned = owned
        self._over = False
        self._handed_out = position
        self._checkpoints = checkpoints
        self.pairs: dict[TopicPartition, TargetOffsets] = {}

    def hands_out(self, position: int) -> bool:
        """True if a step that ends at this position ends an entry of the source.

        False if more of the entry follows at the same position (messages of a wrapper of 0.7, one by one).
        """
        if position <= self._handed_out:
            return False
        self._handed_out = position
        return True

    def sends(self, target: TopicPartition) -> TargetOffsets:
        """Record that a part is handed out to be sent; pass the result to acknowledged()."""
        pair = self._pair(target)
        pair.in_flight += 1
        return pair

    def acknowledged(
        self,
        pair: TargetOffsets,
        base: tuple[int, bool] | None,
        end: tuple[int, bool],
        position: int | None,
    ) -> None:
        """Record that a part is stored.

        base, end: the offset of its first message and the one behind its last, each with a flag whether it is exact
        (else it may be larger); base is None if the broker did not say, and then nothing is recorded.  position: the
        source offset where the part ends; None if other messages for this partition are before the same position.
        """
        pair.in_flight -= 1
        known = base is not None and self.holds()
        if base is not None and known:
            if self._checkpoints.shrank(pair.target, base[0], pair.low):
                pair.low = pair.high = pair.written = None
            self._checkpoints.came_to(pair.target, end[0])
            if not pair.inside:
                pair.low = base[0] if pair.low is None else max(pair.low, base[0])
                if base[1]:
                    pair.high = base[0] if pair.high is None else min(pair.high, base[0])
                self._checkpoints.consider(self.source, pair)
        pair.inside = position is None
        if position is not None:
            pair.position = position
            pair.low, pair.high = end[0] if known else None, end[0] if known and end[1] else None

    def lies_behind(self, target: TopicPartition, offset: int) -> None:
        """Record an entry for a period that has sent nothing: the target's log, as it was read, ends at offset.  That
        end counts from now on, although no response reported it."""
        self._checkpoints.ends_at(target, offset)
        pair = self._pair(target)
        pair.low = pair.high = offset
        self._checkpoints.consider(self.source, pair)

    def begins_within(self, target: TopicPartition) -> None:
        """Record that the target already has some of the entry at the beginning of the period, before everything that
        is sent now."""
        self._pair(target).inside = True

    def failed(self) -> None:
        """Begin another period because a part can never be stored: what comes behind it is stored before it in the
        target once the part is fixed.  The new period begins behind what is acknowledged in this one."""
        if self.holds():
            self._checkpoints.record(self)
        self._over = True

    def holds(self) -> bool:
        """True if acknowledgements count now: no other member can own the partition yet."""
        return not self._over and self._owned()

    def entries(self, every: int, ends: LogEnds, shared_sender: bool) -> list[Record]:
        """Return entries for everything acknowledged since the last ones, and for target partitions that other source
        partitions filled.  For ends and shared_sender, see Checkpoints."""
        found: list[Record] = []
        for target, pair in self.pairs.items():
            end = ends.get(target)
            if end is not None and pair.low is not None and pair.low > end:  # the end belongs to a log that was deleted
                pair.low = pair.high = pair.written = None
            if end is not None and (shared_sender or not pair.in_flight) and self.holds():
                known = pair.written.low if pair.written is not None else 0
                if pair.written is None or end - known >= every:
                    pair.low = end if pair.low is None else max(pair.low, end)
            entry = pair.entry(self.source)
            if entry is not None:
                pair.written = entry
                found.append(entry)
        return found

    def _pair(self, target: TopicPartition) -> TargetOffsets:
        pair = self.pairs.get(target)
        if pair is None:
            pair = self.pairs[target] = TargetOffsets(target, self.begun_at)
        return pair


class Checkpoints:
    """Ownership periods of one source.  write(records) receives the records, in order.  target(topic): a source topic's
    name in the target.  shared_sender: True if one sender has the parts of all source partitions; else each has its
    own.

    Ends that other sources learn are not used here: their senders are separate, and an unanswered request of this
    source may be stored before such an end.
    """

    def __init__(
        self,
        every: int,
        write: Callable[[Sequence[Record]], object],
        target: Callable[[str], str] = str,
        *,
        shared_sender: bool = True,
    ) -> None:
        self._every = every
        self._shared_sender = shared_sender
        self._target = target
        self._ends: LogEnds = {}
        self._write = write
        self._periods: dict[TopicPartition, OwnershipPeriod] = {}
        self._silent: dict[TopicPartition, str] = {}  # owned partitions without a set yet, with their recorded name
        self._reached: dict[TopicPartition, int] = {}

    def begin(
        self,
        source: TopicPartition,
        position: int,
        at_ms: int,
        *,
        single_target: bool,
        owned: Callable[[], bool],
        targets: Iterable[TopicPartition] = (),
        topic: int | None = None,
        target: str = "",
    ) -> OwnershipPeriod:
        """Begin a period; acknowledgements of the previous one are not recorded any more.

        single_target: all of the partition goes to one target partition; else it may go to any of targets. owned():
        True while no other member can own the partition.  topic: the czxid of the source's topic, if known. target: the
        topic's name in the target; "" to use target().
        """
        if source in self._periods:
            self._periods[source].failed()
        name = self._name(source, target)
        period = self._periods[source] = OwnershipPeriod(source, position, self, owned=owned, topic=topic, name=name)
        for each in targets:
            period._pair(each)
        self._silent.pop(source, None)
        self._reached[source] = position
        self._write([Begun(source, position, at_ms, single_target, topic, name)])
        return period

    def reroute(
        self,
        source: TopicPartition,
        at_ms: int,
        *,
        single_target: bool,
        targets: Iterable[TopicPartition],
        target: str,
    ) -> None:
        """Continue the period with another route.  For single_target, targets and target, see begin().

        A target partition that is new to the period has received nothing of it before.
        """
        period = self._periods[source]
        for each in targets:
            period._pair(each)
        self._begin_again(period, at_ms, single_target, self._name(source, target))

    def rename(self, target: Callable[[str], str], at_ms: int) -> None:
        """Apply new target names of topics, including topics of which nothing has been sent since."""
        self._target = target
        for source, period in self._periods.items():
            if (name := self._name(source)) != period.name:
                self._begin_again(period, at_ms, None, name)

    def _begin_again(self, period: OwnershipPeriod, at_ms: int, single_target: bool | None, name: str) -> None:
        """Record where a period is, with its current name and route."""
        period.name = name
        if period.holds():
            at = self._reached[period.source]
            self._write([Begun(period.source, at, at_ms, single_target, period.topic, name)])

    def _name(self, source: TopicPartition, target: str = "") -> str:
        """Return the topic's name in the target if it differs, else ""."""
        name = target or self._target(source.topic)
        return "" if name == source.topic else name

    def shrank(self, target: TopicPartition, base: int, low: int | None) -> bool:
        """True if a log that was longer accepts a request at base: everything known about it belongs to an older log.

        low: the lowest offset at which the part could be stored, as its own source partition knew.
        """
        known = self._ends.get(target, 0) if self._shared_sender else low or 0
        if base >= known:
            return False
        self._ends.pop(target, None)
        return True

    def came_to(self, target: TopicPartition, end: int) -> None:
        """Record that the log of a target partition has at least this end."""
        if end > self._ends.get(target, -1):
            self._ends[target] = end

    def ends_at(self, target: TopicPartition, end: int) -> None:
        """Record that the log of a target partition was read up to this end."""
        self._ends[target] = end

    def consider(self, source: TopicPartition, pair: TargetOffsets) -> None:
        """Record an entry after a response, if one is due."""
        if pair.written is None or pair.low is None or pair.low - pair.written.low >= self._every:
            entry = pair.entry(source)
            if entry is not None:
                pair.written = entry
                self._write([entry])

    def record(self, period: OwnershipPeriod) -> None:
        """Record what is acknowledged in one period."""
        if records := period.entries(self._every, self._ends, self._shared_sender):
            self._write(records)

    def record_acknowledged(self) -> None:
        """Record everything that is acknowledged; called on a timer."""
        records: list[Record] = []
        for period in self._periods.values():
            records += period.entries(self._every, self._ends, self._shared_sender)
        if records:
            self._write(records)

    def committing(self, positions: Iterable[tuple[TopicPartition, int]], at_ms: int) -> None:
        """Record everything acknowledged before a commit, and the position of each partition at that moment."""
        self.record_acknowledged()
        records: list[Record] = []
        for source, position in positions:
            period = self._periods.get(source)
            if period is not None and period.holds() and position >= period.begun_at:
                if position > self._reached[source]:
                    self._reached[source] = position
                    records.append(Reached(source, position))
            elif period is None and self._silent.get(source) != (name := self._name(source)):
                self._silent[source] = name
                records.append(Begun(source, position, at_ms, None, None, name))
        if records:
            self._write(records)

    def restart(self, at_ms: int) -> None:
        """Begin every current period again at its position, because written records may be lost (the disk was full)."""
        self._silent.clear()
        records: list[Record] = []
        for source, period in self._periods.items():
            for pair in period.pairs.values():
                pair.written = None
            if period.holds():
                period.begun_at = self._reached[source]
                records.append(Begun(source, period.begun_at, at_ms, None, period.topic, period.name))
        if records:
            self._write(records)
