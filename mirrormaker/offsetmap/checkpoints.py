"""Which checkpoints (source offset, target offset) are recorded of each ownership period.  Pure: no clock, no file.

    every n offsets of the target      at the first response that lies n behind the last entry: so two neighbouring
                                       entries are at most n and one request apart
    record_acknowledged()              whatever was acknowledged since: on a timer, and before every commit

An ownership period of a source partition (zkconsumer.offsetmap.records) begins with its first set, and its first
response from each target partition is an entry: where there is none, nothing of it went there.  Nothing is recorded but
what a response said while no other member could own the partition: a later response could be of a request that the next
owner has overtaken.

What the end of a target log says.  A response tells that the log holds so much; a message that is sent after that
response is stored behind that end.  So the end bounds

    what its own sender still has       a sender has one request in flight for a partition: the rest is sent after that
                                        response
    what is not handed out to be sent   whoever was told: it is sent later than now

and nothing else.  Where all partitions of a source have one sender, the first rule is for all of them.  Where each has
its own (transactions: mirrormaker.exactlyonce), a message in the open transaction of one partition may lie before the
end that another was told: only the second rule crosses from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkawire.model import TopicPartition
from zkconsumer.offsetmap.records import Begun, Entry, Reached, Record

LogEnds = dict[TopicPartition, int]  # of target partitions: their logs hold at least so much, as this source was told


class Checkpoint(NamedTuple):
    """Messages of a source partition before position lie before offset of its target, all others do not."""

    position: int
    offset: int


@dataclass(slots=True)
class TargetOffsets:
    """One ownership period and one target partition.

    position      nothing from here on that goes there is acknowledged, everything before it is
    low, high     what an entry at position would say; low None: no response yet
    inside        some of what lies at position is acknowledged, and some is not: parts of one step, or messages that
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
        """The entry that is worth being recorded now."""
        if self.low is None or self.inside:
            return None
        entry = Entry(source, self.target, self.position, self.low, self.high)
        return None if entry == self.written else entry


class OwnershipPeriod:
    """An ownership period while it goes on.  owned(): no other member can own its partition yet."""

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
        self.name = name  # of the topic in the target, where it is another one
        self._owned = owned
        self._over = False
        self._handed_out = position
        self._checkpoints = checkpoints
        self.pairs: dict[TopicPartition, TargetOffsets] = {}

    def hands_out(self, position: int) -> bool:
        """Whether a step that ends at this position ends an entry of the source.

        False: more of the entry follows at the same position (messages of a wrapper of 0.7, one by one).
        """
        if position <= self._handed_out:
            return False
        self._handed_out = position
        return True

    def sends(self, target: TopicPartition) -> TargetOffsets:
        """A part is handed out to be sent; acknowledged() takes what this returns."""
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
        """A part is stored.

        base, end: offsets of its first message and behind its last, each with whether that is exact (else it may be
        larger); base None: the broker did not say, and nothing is recorded.  position: of the source, where the
        part ends; None: other messages for this partition lie before the same position.
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
        """Nothing was sent in this period, and the target's log, as it was read, ends at offset: an entry.  That end
        counts from now on, also where no response told of it."""
        self._checkpoints.ends_at(target, offset)
        pair = self._pair(target)
        pair.low = pair.high = offset
        self._checkpoints.consider(self.source, pair)

    def begins_within(self, target: TopicPartition) -> None:
        """Some of the entry at the begin lies in the target already, before all that is sent now."""
        self._pair(target).inside = True

    def failed(self) -> None:
        """A part can never be stored, so what comes behind it lies before it in the target, once it is mended: another
        period, which begins behind what is acknowledged in this one."""
        if self.holds():
            self._checkpoints.record(self)
        self._over = True

    def holds(self) -> bool:
        """What is acknowledged now counts: no other member can own the partition yet."""
        return not self._over and self._owned()

    def entries(self, every: int, ends: LogEnds, shared_sender: bool) -> list[Record]:
        """Entries for all that was acknowledged since the last ones, and for target partitions that other source
        partitions filled.  ends, shared_sender: see Checkpoints."""
        found: list[Record] = []
        for target, pair in self.pairs.items():
            end = ends.get(target)
            if end is not None and pair.low is not None and pair.low > end:  # of a log that is no more
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
    """The ownership periods of one source.  write(records) gets the records, in order.  target(topic): a source topic's
    name in the target.  shared_sender: one sender has the parts of all source partitions; else each has its own.

    What other sources know of a target partition's end says nothing here: their senders are others, and a request
    of this source that is not answered yet may be stored before it.
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
        self._silent: dict[TopicPartition, str] = {}  # owned, and nothing was fetched yet; the name that was recorded
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
        """A period begins; what is acknowledged for the one before is not recorded any more.

        single_target: all of the partition goes to one target partition; else it may go to all of targets.
        owned(): no other member can own the partition yet.  topic: the czxid of the source's topic, where it is known.
        target: the topic's name in the target; "": as target() has it.
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
        """The period goes on with another route.  single_target, targets, target: as begin() has them.

        To a target partition that is new to the period nothing of it was sent before.
        """
        period = self._periods[source]
        for each in targets:
            period._pair(each)
        self._begin_again(period, at_ms, single_target, self._name(source, target))

    def rename(self, target: Callable[[str], str], at_ms: int) -> None:
        """Topics may have other names in the target from now on, also those of which nothing is sent since."""
        self._target = target
        for source, period in self._periods.items():
            if (name := self._name(source)) != period.name:
                self._begin_again(period, at_ms, None, name)

    def _begin_again(self, period: OwnershipPeriod, at_ms: int, single_target: bool | None, name: str) -> None:
        """Record where a period is, with its name and route of today."""
        period.name = name
        if period.holds():
            at = self._reached[period.source]
            self._write([Begun(period.source, at, at_ms, single_target, period.topic, name)])

    def _name(self, source: TopicPartition, target: str = "") -> str:
        """The topic's name in the target, where it is another one."""
        name = target or self._target(source.topic)
        return "" if name == source.topic else name

    def shrank(self, target: TopicPartition, base: int, low: int | None) -> bool:
        """Whether a log that held more takes a request at base: what was known of it is of another one.

        low: where the part could lie at the least, as its own source partition knew.
        """
        known = self._ends.get(target, 0) if self._shared_sender else low or 0
        if base >= known:
            return False
        self._ends.pop(target, None)
        return True

    def came_to(self, target: TopicPartition, end: int) -> None:
        """The log of a target partition holds at least so much."""
        if end > self._ends.get(target, -1):
            self._ends[target] = end

    def ends_at(self, target: TopicPartition, end: int) -> None:
        """The log of a target partition was read up to its end."""
        self._ends[target] = end

    def consider(self, source: TopicPartition, pair: TargetOffsets) -> None:
        """After a response: an entry, if one is due."""
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
        """Record all that is acknowledged: on a timer."""
        records: list[Record] = []
        for period in self._periods.values():
            records += period.entries(self._every, self._ends, self._shared_sender)
        if records:
            self._write(records)

    def committing(self, positions: Iterable[tuple[TopicPartition, int]], at_ms: int) -> None:
        """The same before a commit, and how far each partition is then."""
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
        """What was written may be lost (the disk was full): every period that goes on begins again, where it is."""
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
