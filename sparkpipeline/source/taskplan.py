"""Division of ranges among tasks.  Pure: ranges and estimated sizes in, tasks out.

First ranges are cut, as Spark's kafka format cuts them (minPartitions, maxRecordsPerPartition) and by bytes
(maxBytesPerPartition); then small ones are packed: a task costs some 50 ms before it reads anything, which 1,000 small
partitions would pay 1,000 times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from kafkawire.model import TopicPartition
from sparkpipeline.ranges import OffsetRange, in_parts, packed
from sparkpipeline.source.offsetbounds import rank

AVERAGE_BYTES = 1024.0  # of a message, if nothing is known
PACK_BYTES = 64 << 20  # some 2 s of reading: what a task costs by itself is then a few percent
LEAST_BYTES = 4 << 20  # less is not worth a task of its own, also where a core is idle

Task = tuple[OffsetRange, ...]  # ranges of one task, in order
Sizes = Mapping[TopicPartition, float]  # average bytes of a message
_NO_SIZES: Sizes = MappingProxyType({})


def _as_cut(pieces: Sequence[OffsetRange]) -> Sequence[OffsetRange]:
    """Return the pieces unchanged: if offsets count messages, a range may be cut anywhere."""
    return pieces


def plan(
    ranges: Sequence[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
    max_bytes: int | None = None,
    pack_bytes: int = PACK_BYTES,
    cores: int = 1,
    sizes: Sizes = _NO_SIZES,
    aligned: Callable[[Sequence[OffsetRange]], Sequence[OffsetRange]] = _as_cut,
) -> list[Task]:
    """Return the tasks; empty ranges get none.

    min_partitions  at least about so many, as far as there are offsets
    max_records     most offsets of a task
    max_bytes       most bytes of a task, by `sizes`
    pack_bytes      small ranges share a task up to so many; 0: a task for each range, in their order
    cores           packing leaves so many tasks where each still has LEAST_BYTES
    aligned         moves the cuts of a range to where it can be cut (offsets that are bytes)
    """
    pieces = aligned(divided(_within(ranges, max_bytes, sizes), min_partitions, max_records))
    if not pack_bytes:
        return [(piece,) for piece in pieces]
    return _shared(
        pieces,
        sizes,
        max_bytes=min(pack_bytes, max_bytes or pack_bytes),
        max_records=max_records,
        min_tasks=min_partitions or 1,
        cores=cores,
    )


def divided(
    ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None = None
) -> list[OffsetRange]:
    """Cut ranges as Spark's KafkaOffsetRangeCalculator does: by max_records, then in proportion until there are
    min_partitions.

    Empty ranges go; a range whose share rounds to one stays whole; the last piece takes the rounding rest.
    """
    found = [rng for rng in ranges if rng.count > 0]
    if max_records is not None:
        found = [piece for rng in found for piece in in_parts(rng, -(-rng.count // max_records))]
    if min_partitions is None or min_partitions <= len(found):
        return found
    total = sum(rng.count for rng in found)
    whole = [_share(rng, total, min_partitions) == 1 for rng in found]
    left = sum(rng.count for rng, one in zip(found, whole, strict=True) if not one)
    wanted = max(min_partitions - sum(whole), 1)
    parts = [1 if one else _share(rng, left, wanted) for rng, one in zip(found, whole, strict=True)]
    return [piece for rng, many in zip(found, parts, strict=True) for piece in in_parts(rng, many)]


def _share(rng: OffsetRange, total: int, parts: int) -> int:
    """Return this range's share of the parts, of `total` offsets.  Rounded as in Java: a half goes up."""
    return max(int(rng.count / total * parts + 0.5), 1)


def _within(ranges: Sequence[OffsetRange], max_bytes: int | None, sizes: Sizes) -> Sequence[OffsetRange]:
    if max_bytes is None:
        return ranges
    return [
        piece for rng in ranges for piece in in_parts(rng, min(-(-_bytes(rng, sizes) // max_bytes), max(rng.count, 1)))
    ]


def _bytes(rng: OffsetRange, sizes: Sizes) -> int:
    """Return the bytes of a range, at least 1, so that ranges can be compared."""
    return max(int(rng.count * sizes.get(rng.tp, AVERAGE_BYTES)), 1)


def _shared(
    pieces: Sequence[OffsetRange], sizes: Sizes, *, max_bytes: int, max_records: int | None, min_tasks: int, cores: int
) -> list[Task]:
    """Return tasks in which small pieces share up to `max_bytes` bytes; the others have one each.

    Worst fit decreasing: the largest piece left goes where least is.  The largest task comes first, so that no task
    begins late and lasts long; the pieces of a task are in order.
    """
    by_size = sorted(((_bytes(piece, sizes), piece) for piece in pieces), key=lambda pair: -pair[0])
    large = [(size, (piece,)) for size, piece in by_size if size >= max_bytes]
    small = by_size[len(large) :]
    wanted = _tasks(sum(size for size, _ in small), max_bytes, min_tasks - len(large), cores - len(large))
    tasks = packed(
        (piece for _, piece in small),
        min(wanted, len(small)),
        size=lambda piece: _bytes(piece, sizes),
        max_size=max_bytes,
        max_count=max_records,
    )
    tasks.sort(key=lambda task: -sum(_bytes(piece, sizes) for piece in task))
    return [task for _, task in large] + [_in_order(task) for task in tasks]


def _tasks(size: int, most: int, least: int, idle: int) -> int:
    """Return the number of tasks for small pieces of `size` bytes; an idle core gets one if LEAST_BYTES are left for
    it."""
    return max(-(-size // most), least, min(idle, -(-size // LEAST_BYTES)), 1)


def _in_order(ranges: Sequence[OffsetRange]) -> Task:
    return tuple(sorted(ranges, key=lambda rng: (rng.topic, rank(rng.partition), rng.start)))
