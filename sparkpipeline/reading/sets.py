"""Ranges as message sets.  Needs no pyarrow: audits and bulk copies read this way, too."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from kafkawire.model import MessageSet
from sparkpipeline.access import ClusterAccess
from sparkpipeline.brokers import Brokers
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.fetching import RangeFetch
from sparkpipeline.reading.options import ReadOptions
from sparkpipeline.reading.readahead import ahead

Numbered = tuple[int, MessageSet]


def read_sets(rng: OffsetRange, access: ClusterAccess, options: ReadOptions) -> Generator[MessageSet, None, None]:
    """The sets of one range, in order.  Their messages may begin before start and go on past until: cut by offset.

    Offsets that no set covers are gaps.  Raises OffsetOutOfRange, DataLoss, CorruptData, MessageTooLarge, NoLeader,
    UnknownPartition, Unreachable.  Checksums are checked by whoever reads the messages.  close() ends its thread.
    """
    sets = read_many([rng], access, options)
    try:
        for _, message_set in sets:
            yield message_set
    finally:
        sets.close()


def read_many(
    ranges: Sequence[OffsetRange], access: ClusterAccess, options: ReadOptions
) -> Generator[Numbered, None, None]:
    """The sets of several ranges, one range after the other, each with the number of its range."""
    known = {rng.tp: rng.leader for rng in ranges if rng.leader is not None}
    brokers = Brokers(access, known)
    fetched = (
        (number, message_set)
        for number, rng in enumerate(ranges)
        for message_set in RangeFetch(rng, brokers, options).sets()
    )
    return ahead(fetched, options.read_ahead_bytes, _weight, brokers.close)


def _weight(numbered: Numbered) -> int:
    return len(numbered[1].buffer)
