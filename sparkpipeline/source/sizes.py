"""How large messages are on average: a small fetch for each topic, which is enough to share out tasks by."""

from __future__ import annotations

from collections.abc import Sequence

from kafkawire.dialects import dialect
from kafkawire.errors import LibraryMissing
from kafkawire.model import MessageSet, TopicPartition
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import PipelineError
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.options import ReadOptions
from sparkpipeline.source.planning import AVERAGE_BYTES

MOST_TOPICS = 20  # asked; the others are taken for their average
SAMPLE = ReadOptions(fetch_bytes=64 << 10, check_crcs=False, fail_on_data_loss=False, patience_ms=2000)
OVERHEAD = 26  # of an entry in format v0


def sampled(ranges: Sequence[OffsetRange], access: ClusterAccess) -> dict[TopicPartition, float]:
    """Average bytes of an offset by partition: the first messages of each topic's largest range, opened.

    Where offsets are bytes there is nothing to measure.  Never raises: what is wrong with a partition is told by
    whoever reads it.
    """
    offsets = dialect(access.release).offsets
    if not offsets.count_messages:
        return {rng.tp: offsets.log_bytes(AVERAGE_BYTES) for rng in ranges}
    largest: dict[str, OffsetRange] = {}
    for rng in ranges:
        if rng.count > 0 and (rng.topic not in largest or rng.count > largest[rng.topic].count):
            largest[rng.topic] = rng
    asked = sorted(largest.values(), key=lambda rng: -rng.count)[:MOST_TOPICS]
    known = {rng.topic: size for rng in asked if (size := _size(rng, access)) is not None}
    others = sum(known.values()) / len(known) if known else AVERAGE_BYTES
    return {rng.tp: known.get(rng.topic, others) for rng in ranges}


def _size(rng: OffsetRange, access: ClusterAccess) -> float | None:
    """None where nothing can be read."""
    from sparkpipeline.reading.fetcher import read_sets  # threads and links: only where something is measured

    first = OffsetRange(rng.topic, rng.partition, rng.start, rng.start + 1, rng.leader)
    try:
        sets = read_sets(first, access, SAMPLE)
        try:
            return next((_average(message_set) for message_set in sets), None)
        finally:
            sets.close()
    except (PipelineError, LibraryMissing):
        return None  # the task that reads this range meets the same, and says so with all coordinates


def _average(message_set: MessageSet) -> float | None:
    """Gaps count as offsets: ranges are measured in offsets, too."""
    columns = message_set.index(False)
    if not len(columns):
        return None
    content = sum(max(size, 0) for column in (columns.key_size, columns.value_size) for size in column)
    offsets = columns.offsets[-1] - message_set.start + 1
    return (content + OVERHEAD * len(columns)) / max(offsets, len(columns))
