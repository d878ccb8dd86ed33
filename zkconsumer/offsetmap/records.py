"""Offset map of a mirror: where the messages of source partitions are in the target.  Values only.

An *ownership period* is one mirror's unbroken forwarding of one source partition, from a position until the partition
is revoked or the mirror dies; the next one starts at a committed position, so it may send again what an earlier one
sent.  The periods of a source partition never overlap: each ends before the next owner may start.

    Begun(source, position, at_ms, keeps)         a period began there; keeps: all of it goes to one target partition
                                                  (also: the topic's name in the target, if it is renamed)
    Entry(source, target, position, low, high)    a checkpoint: messages of the source at or after `position` that went,
                                                  or will go, to `target` have offsets >= low there; earlier ones < high
    Reached(source, position)                     everything before it is acknowledged, and recorded here

Why an entry is safe whatever happens later: - low is the base offset of an acknowledged request, or an end from a
response.  A message that is sent after that
  response, by this mirror or by the next owner, is stored behind it: a log only grows.  The mirror records an end only
  for messages for which that holds (mirrormaker.offsetmap.checkpoints): a request of another sender may be in flight.
- In transactions a response counts once its transaction is committed.  Aborted copies are before the committed one. - A
request without a response is sent again.  Only the copy with a response is in the map.  The other copy may be
  before it (then a reader that starts at low reads only the acknowledged one) or, if the broker was slow, behind it
  (then it is read twice).  It is never the only copy at or after `position`.
- A new period repeats messages at larger offsets; the old copies stay.  So an entry remains true, and of
  all entries that are true for a position the one with the largest low is the best.
- A source topic that was deleted and created again has another log: records of the former log say nothing about a
  position today, and are dropped at the first period of the new one.
- A log that shrinks is another one: its topic was created again, or its cluster lost messages.  In the map of one
  mirror the lows of a pair never fall, so a smaller low shows that all entries before it belong to a lost log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafkawire.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Begun:
    """A period of a source partition began at position; at_ms since 1970 orders the periods of several mirrors.

    keeps None: nothing was sent yet, so its route is not chosen.  topic: the czxid of the source's topic, or None if
    unknown (0.7, and maps of earlier releases).  target: the topic's name in the target; "" if it is the same.
    """

    source: TopicPartition
    position: int
    at_ms: int
    keeps: bool | None
    topic: int | None = None
    target: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A checkpoint, see above.  high None: unknown (the messages in a wrapper are counted only when it is opened)."""

    source: TopicPartition
    target: TopicPartition
    position: int
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Reached:
    """Everything of the source partition before position is acknowledged and in this map."""

    source: TopicPartition
    position: int


Record = Begun | Entry | Reached


@dataclass(slots=True)
class Period:
    """One ownership period as far as it is recorded.  entries: by target, in the order they were made."""

    begun: Begun
    reached: int
    entries: dict[TopicPartition, list[Entry]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """Periods by source partition, oldest first."""

    periods: Mapping[TopicPartition, Sequence[Period]] = field(default_factory=dict)

    def pairs(self) -> set[tuple[TopicPartition, TopicPartition]]:
        """Return pairs of source and target partition that have entries."""
        return {(s, t) for s, periods in self.periods.items() for period in periods for t in period.entries}

    def names(self, topic: str) -> set[str]:
        """Return the names under which the target has, or will have, a source topic's messages; empty if the map has
        none of them."""
        found: set[str] = set()
        for source, periods in self.periods.items():
            if source.topic == topic and periods:
                found |= {target.topic for period in periods for target in period.entries}
                found.add(periods[-1].begun.target or topic)
        return found

    def last(self, source: TopicPartition, target: TopicPartition) -> Entry | None:
        """Return the newest entry of a pair."""
        for period in reversed(self.periods.get(source, ())):
            if period.entries.get(target):
                return period.entries[target][-1]
        return None


class Gathering:
    """The map of one mirror's records, given piece by piece in the order they were written."""

    def __init__(self) -> None:
        self._periods: dict[TopicPartition, list[Period]] = {}
        self._lows: dict[tuple[TopicPartition, TopicPartition], int] = {}

    @property
    def map(self) -> OffsetMap:
        """Return the map so far; records that are added later change it."""
        return OffsetMap(self._periods)

    def add(self, records: Iterable[Record]) -> None:
        """Add records.  A record of a source partition without a Begun before it is ignored."""
        for record in records:
            if isinstance(record, Begun):
                before = self._periods.setdefault(record.source, [])
                self._periods[record.source] = _of_one_log([*before, Period(record, record.position)])
                continue
            mine = self._periods.get(record.source)
            if not mine:
                continue
            if isinstance(record, Reached):
                mine[-1].reached = max(mine[-1].reached, record.position)
                continue
            pair = record.source, record.target
            if record.low < self._lows.get(pair, 0):
                _forget(self._periods, record.target)
                self._lows = {other: low for other, low in self._lows.items() if other[1] != record.target}
            self._lows[pair] = record.low
            mine[-1].entries.setdefault(record.target, []).append(record)


def gathered(records: Iterable[Record]) -> OffsetMap:
    """Return the map of one mirror's records, given in the order they were written."""
    gathering = Gathering()
    gathering.add(records)
    return gathering.map


def _forget(periods: Mapping[TopicPartition, Iterable[Period]], target: TopicPartition) -> None:
    """Drop the entries of a target partition: they belong to another log."""
    for some in periods.values():
        for period in some:
            period.entries.pop(target, None)


def merged(maps: Iterable[OffsetMap]) -> OffsetMap:
    """Merge the maps of all members of a group: partitions move between them, and periods are ordered by time."""
    periods: dict[TopicPartition, list[Period]] = {}
    for each in maps:
        for source, some in each.periods.items():
            periods.setdefault(source, []).extend(some)
    for some in periods.values():
        some.sort(key=lambda period: period.begun.at_ms)
    return OffsetMap({source: _of_one_log(some) for source, some in periods.items()})


def _of_one_log(periods: list[Period]) -> list[Period]:
    """Return the periods after the last one of an earlier topic."""
    today = next((period.begun.topic for period in reversed(periods) if period.begun.topic is not None), None)
    former = [n for n, period in enumerate(periods) if period.begun.topic not in (None, today)]
    return periods[former[-1] + 1 :] if former else periods
