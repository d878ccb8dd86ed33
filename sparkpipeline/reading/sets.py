"""Ranges as message sets.  Needs no pyarrow: audits and bulk copies read this way, too."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing

from kafkawire.model import MessageSet
from kafkawire.protocol.buffers import Buffers
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.fetching import Fetching
from sparkpipeline.reading.options import ReadOptions

# Of this process: a worker runs one task after the other, and memory that is new costs a page fault every 4 KB.
_ROOM = Buffers(32 << 20)


def read_sets(rng: OffsetRange, access: ClusterAccess, options: ReadOptions) -> Generator[MessageSet, None, None]:
    """The sets of one range, in order.  Their messages may begin before start and go on past until: cut by offset.

    Offsets that no set covers are gaps.  Raises OffsetOutOfRange, DataLoss, CorruptData, MessageTooLarge, NoLeader,
    UnknownPartition, Unreachable.  Checksums are checked by whoever reads the messages.
    """
    with closing(read_many([rng], access, options)) as sets:
        for _, message_set in sets:
            yield message_set


def read_many(
    ranges: Sequence[OffsetRange], access: ClusterAccess, options: ReadOptions
) -> Generator[tuple[int, MessageSet], None, None]:
    """The sets of several ranges, one range after the other, each with the number of its range.

    All links are closed when it ends, or is closed or dropped.
    """
    known = {rng.tp: rng.leader for rng in ranges if rng.leader is not None}
    with Brokers(access, known, buffers=_ROOM) as brokers:
        yield from Fetching(ranges, brokers, options).sets()
