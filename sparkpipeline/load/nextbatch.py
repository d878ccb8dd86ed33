"""Planner of the next batch of a load: from offsets and logs to ranges and tasks.  Pure.

due         from the position of each partition to the end of its log; a policy says what becomes of a position
            outside of its log
up_to       of these no more than to where the run loads
limited     no more than so many rows and bytes (of a run, of a batch), shared by how far partitions are behind
cut         ranges estimated larger than split.bytes in parts of equal size
tasks_of    small ranges share a task; a task has at most one range of a partition, so that the folder of a
            partition and the number of a task together name a range
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kafkawire.model import BrokerPartition, TopicPartition
from sparkpipeline.errors import OffsetOutOfRange, UnknownPartition
from sparkpipeline.load.loadplan import LogBounds, Positions, in_order
from sparkpipeline.ranges import OffsetRange, in_parts, limited_by_lag, packed, unit_of
from sparkpipeline.source.taskplan import AVERAGE_BYTES

LEAST_BYTES = 1 << 20  # a task costs some 50 ms: less than this is not worth one of its own


# ---- what is due -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Due:
    """Messages that can be loaded now.  ranges: not empty, one a partition; positions: where partitions begin that have
    no range (new and empty, or new and starting at the end)."""

    ranges: tuple[OffsetRange, ...]
    gaps: tuple[OffsetRange, ...]
    positions: Positions


def due(
    positions: Positions,
    logs: Mapping[TopicPartition, LogBounds],
    missing: Iterable[TopicPartition],
    *,
    starting: str = "earliest",
    out_of_range: str = "fail",
) -> Due:
    """Return what can be loaded now.

    positions: of the job; logs: of all partitions to load; missing: partitions that were loaded and do not exist any
    more.  Raises OffsetOutOfRange and UnknownPartition, so that a plan that could never be executed is not stored."""
    ranges: list[OffsetRange] = []
    gaps: list[OffsetRange] = []
    fresh: dict[TopicPartition, int] = {}
    for tp in in_order(missing):
        if out_of_range == "fail":
            raise UnknownPartition(
                _missing(tp),
                topic=tp.topic, partition=tp.partition, position=positions.get(tp),
            )  # fmt: skip
    for tp in in_order(logs):
        log = logs[tp]
        if tp not in positions:
            fresh[tp] = log.earliest if starting == "earliest" else log.latest
        start = _start(tp, positions.get(tp, fresh.get(tp, 0)), log, out_of_range)
        if tp in positions and start > positions[tp]:
            gaps.append(OffsetRange(tp.topic, tp.partition, positions[tp], start))
            fresh[tp] = start
        if start < log.latest:
            ranges.append(OffsetRange(tp.topic, tp.partition, start, log.latest))
    return Due(tuple(ranges), tuple(gaps), fresh)


def _missing(tp: TopicPartition) -> str:
    if isinstance(tp.partition, BrokerPartition):
        return (
            f"was loaded before, and its broker, {tp.partition.broker}, is not registered now; once it is back the load"
            " goes on; out.of.range: earliest loads the others meanwhile"
        )
    return (
        "was loaded before, and the cluster does not have it any more; take it out of the job's topics, or say"
        " out.of.range: earliest"
    )


def _start(tp: TopicPartition, position: int, log: LogBounds, out_of_range: str) -> int:
    where = {"topic": tp.topic, "partition": tp.partition, "requested": position,
             "earliest": log.earliest, "latest": log.latest}  # fmt: skip
    if position > log.latest:
        raise OffsetOutOfRange(
            "the log ends before the job's position: the topic was created again, or messages were lost with a leader;"
            " look at it, then set positions with `sparkpipeline load init --replace`",
            **where,
        )
    if position >= log.earliest:
        return position
    if out_of_range == "fail":
        raise OffsetOutOfRange(
            f"{log.earliest - position} {unit_of(tp.partition)} were deleted before they were loaded;"
            " out.of.range: earliest goes on at what is left and reports the gap",
            **where,
        )
    return log.earliest


# ---- how much, and in which tasks ------------------------------------------------------------------------------------


def up_to(ranges: Iterable[OffsetRange], ends: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """Return the ranges cut at these ends; ranges without an end, and empty ones, are left out."""
    shortened = [replace(rng, until=min(rng.until, ends.get(rng.tp, rng.start))) for rng in ranges]
    return [rng for rng in shortened if rng.count > 0]


def limited(
    ranges: Sequence[OffsetRange], rows: int | None, size: int | None, averages: Mapping[str, float]
) -> list[OffsetRange]:
    """Return the ranges, shortened so that their sums are within the limits, shared by lag.

    averages: bytes of a message by topic."""
    return limited_by_lag(limited_by_lag(ranges, rows), size, lambda rng: _bytes(rng, averages) / rng.count)


def cut(ranges: Sequence[OffsetRange], size: int, averages: Mapping[str, float]) -> list[OffsetRange]:
    """Return ranges in pieces of at most about `size` bytes, each of nearly the same number of offsets."""
    return [piece for rng in ranges for piece in in_parts(rng, _parts(_bytes(rng, averages), size))]


def _parts(weight: float, size: int) -> int:
    return max(1, -(-int(weight) // size))


def tasks_of(
    ranges: Sequence[OffsetRange], size: int, averages: Mapping[str, float], cores: int
) -> tuple[list[OffsetRange], list[int]]:
    """Return the ranges in the order of their tasks, and the number of ranges per task.

    As many tasks as the sum of sizes needs at `size` bytes each, but enough for every core while one has at least
    LEAST_BYTES, and one for each piece of a partition."""
    total = int(sum(_bytes(rng, averages) for rng in ranges))
    of_one = max(Counter(rng.tp for rng in ranges).values(), default=0)
    wanted = max(-(-total // size), min(cores, total // LEAST_BYTES), of_one, 1)
    found = packed(
        sorted(ranges, key=_place),
        min(wanted, len(ranges)),
        size=lambda rng: _bytes(rng, averages),
        apart=lambda rng: rng.tp,
    )
    tasks = sorted((_in_order(task) for task in found), key=lambda task: _place(task[0]))
    return [rng for task in tasks for rng in task], [len(task) for task in tasks]


def _in_order(task: Iterable[OffsetRange]) -> list[OffsetRange]:
    ranges = {rng.tp: rng for rng in task}
    return [ranges[tp] for tp in in_order(ranges)]


def _place(rng: OffsetRange) -> tuple[str, str, int]:
    return rng.topic, str(rng.partition), rng.start


def _bytes(rng: OffsetRange, averages: Mapping[str, float]) -> float:
    return rng.count * max(1.0, averages.get(rng.topic, AVERAGE_BYTES))
