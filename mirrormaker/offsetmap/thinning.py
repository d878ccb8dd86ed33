"""An offset map made smaller: which entries go.  Pure.

Of each stint and target partition the newest half stays as it is and every second of the older half goes, again and
again until it is small enough.  So positions of today keep their precision, and old ones lose half of theirs each time:
the bound that is printed for them grows, they stay safe.  The first and the last entry of a stint always stay.  Stints
go, oldest first, where there are too many of them; positions before the first one that is left are refused then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kafkawire.model import TopicPartition
from zkconsumer.offsetmap.records import Begun, Entry, OffsetMap, Reached, Record, Stint

MOST_STINTS = 200  # of a source partition
FEWEST = 16  # entries of a stint and target partition that are not thinned out


def thinned(offsets: OffsetMap, share: float) -> list[Record]:
    """Records of a map that has at most about this share of the entries (0 to 1)."""
    kept = {
        source: [(stint, dict(stint.entries)) for stint in stints[-MOST_STINTS:]]
        for source, stints in offsets.stints.items()
    }
    total = sum(
        len(entries) for stints in offsets.stints.values() for stint in stints for entries in stint.entries.values()
    )
    while True:
        left = sum(len(entries) for stints in kept.values() for _, pairs in stints for entries in pairs.values())
        if left <= total * share:
            break
        before = left
        for stints in kept.values():
            for _, pairs in stints:
                for target, entries in pairs.items():
                    pairs[target] = _halved(entries)
        if before == sum(len(entries) for stints in kept.values() for _, pairs in stints for entries in pairs.values()):
            break  # nothing can go any more
    return [record for stints in kept.values() for stint, pairs in stints for record in _records(stint, pairs)]


def _halved(entries: Sequence[Entry]) -> list[Entry]:
    if len(entries) <= FEWEST:
        return list(entries)
    middle = len(entries) // 2
    return [*entries[:middle:2], *entries[middle:]]


def _records(stint: Stint, pairs: Mapping[TopicPartition, Sequence[Entry]]) -> Iterator[Record]:
    begun: Begun = stint.begun
    yield begun
    for entries in pairs.values():
        yield from entries
    if stint.reached > begun.position:
        yield Reached(begun.source, stint.reached)
