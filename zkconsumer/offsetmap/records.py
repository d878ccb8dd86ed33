"""The offset map of a mirror: where the messages of source partitions lie in the target.  Values only.

An *ownership period* is one mirror's unbroken forwarding of one source partition, from a position on until the
partition is revoked or the mirror dies.  The next period begins where something was committed, so it may send again
what an earlier one had sent.  Periods of a source partition follow each other and never overlap: each ends before the
next owner may begin.

    Begun(source, position, at_ms, keeps)         a period began there; keeps: all of it goes to one target partition
    Entry(source, target, position, low, high)    messages of the source from `position` on that went, and will go, to
                                                  `target` lie at offsets >= low; those before it at offsets < high
    Reached(source, position)                     everything before it is acknowledged, and written down here

Why an entry is safe whatever happens later:
- low is the base offset of an acknowledged request (or the end the log had then).  Later messages are sent after that
  answer, by this mirror or by the next owner, and a log only grows: they come to lie behind it.
- A request without an answer is sent again.  Only the copy whose answer came is in the map.  The other one may lie
  before (then a reader that starts at low reads the acknowledged one only) or, when the broker was slow,
  behind (then it is read twice).  It is never the only copy from `position` on.
- A new period repeats messages at larger offsets; the old copies stay where they are.  So an entry remains true, and of
  all that are true for a position the largest low is the best.
- A source topic that was deleted and created again has another log: what is written down of the former one says
  nothing of a position today, and is forgotten at the first period of the new one.
- A log that shrinks is another one: its topic was created again, or its cluster lost messages.  In the map of one
  mirror the lows of a pair never fall, so one that does says that all entries before it are of a log that is no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafkawire.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Begun:
    """A period of a source partition began at position; at_ms since 1970 orders those of several mirrors.

    keeps None: nothing was sent yet, so its route is not chosen.  topic: the czxid of the source's topic; None: it is
    not known (0.7, and maps of earlier releases).
    """

    source: TopicPartition
    position: int
    at_ms: int
    keeps: bool | None
    topic: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """See above.  high None: not known (a wrapper tells how many messages it holds only when it is opened)."""

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
        """Which source partition sent to which target partition."""
        return {(s, t) for s, periods in self.periods.items() for period in periods for t in period.entries}

    def last(self, source: TopicPartition, target: TopicPartition) -> Entry | None:
        """The newest entry of a pair."""
        for period in reversed(self.periods.get(source, ())):
            if period.entries.get(target):
                return period.entries[target][-1]
        return None


def gathered(records: Iterable[Record]) -> OffsetMap:
    """The map that one mirror's records make, in the order they were written.

    A record of a source partition without a Begun before it says nothing and is left out.
    """
    periods: dict[TopicPartition, list[Period]] = {}
    lows: dict[tuple[TopicPartition, TopicPartition], int] = {}
    for record in records:
        if isinstance(record, Begun):
            before = periods.setdefault(record.source, [])
            periods[record.source] = _of_one_log([*before, Period(record, record.position)])
            continue
        mine = periods.get(record.source)
        if not mine:
            continue
        if isinstance(record, Reached):
            mine[-1].reached = max(mine[-1].reached, record.position)
            continue
        pair = record.source, record.target
        if record.low < lows.get(pair, 0):
            _forget(periods, record.target)
            lows = {other: low for other, low in lows.items() if other[1] != record.target}
        lows[pair] = record.low
        mine[-1].entries.setdefault(record.target, []).append(record)
    return OffsetMap(periods)


def _forget(periods: Mapping[TopicPartition, Iterable[Period]], target: TopicPartition) -> None:
    """What was said of a target partition is of another log."""
    for some in periods.values():
        for period in some:
            period.entries.pop(target, None)


def merged(maps: Iterable[OffsetMap]) -> OffsetMap:
    """One map of those of all members of a group: partitions move between them, and periods are ordered by time."""
    periods: dict[TopicPartition, list[Period]] = {}
    for each in maps:
        for source, some in each.periods.items():
            periods.setdefault(source, []).extend(some)
    for some in periods.values():
        some.sort(key=lambda period: period.begun.at_ms)
    return OffsetMap({source: _of_one_log(some) for source, some in periods.items()})


def _of_one_log(periods: list[Period]) -> list[Period]:
    """Those behind the last one of an earlier topic."""
    today = next((period.begun.topic for period in reversed(periods) if period.begun.topic is not None), None)
    former = [n for n, period in enumerate(periods) if period.begun.topic not in (None, today)]
    return periods[former[-1] + 1 :] if former else periods
