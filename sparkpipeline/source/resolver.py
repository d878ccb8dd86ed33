"""Resolution of bounds to offsets: where each partition of a query begins and ends now.

Asks brokers (one request a leader) and decides nothing about tasks.  The rules are those of Spark's kafka format; a
group's offsets and the clamping without failOnDataLoss are ours.

A bound may be a time.  How fine the answer is depends on the brokers.  From 0.10.1 on it is exact.  Before, a broker
only knows when each of its segment files was last written: it answers with the beginning of a file, so that a batch may
begin (or end) up to one segment early.  0.10.0 keeps a timestamp in each message and cannot look one up: there we read
on to the first that fits.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from kafkawire.model import TopicPartition
from kafkawire.protocol import apis
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import DataLoss, NoTimestamp, OffsetOutOfRange, OptionRefused, Refused
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.rangefetcher import first_since
from sparkpipeline.source.offsetbounds import EARLIEST, LATEST, Bound, Fixed, Offsets, Time, Times, in_order
from sparkpipeline.source.querycluster import GroupOffsets
from sparkpipeline.source.sourceoptions import SourceOptions

log = logging.getLogger(__name__)

Resolved = list[tuple[TopicPartition, int, int]]  # partition, first offset, offset behind the last
At = Mapping[TopicPartition, int]


def subscribed(options: SourceOptions, brokers: Brokers) -> list[TopicPartition]:
    """Return the partitions that the query reads now.  Raises UnknownPartition."""
    return options.subscription.partitions(brokers.view(refresh=True))


def resolve_batch(options: SourceOptions, brokers: Brokers, positions: GroupOffsets) -> Resolved:
    """Return the ranges of a batch, by topic and partition, including empty ones.

    Raises OptionRefused, UnknownPartition, NoLeader, Unreachable, NoTimestamp, OffsetOutOfRange, DataLoss.
    """
    tps = subscribed(options, brokers)
    if not tps:
        return []
    begin = _begin(options, options.bound_of_start(Fixed.EARLIEST), brokers, tps, positions)
    finish = _finish(options.bound_of_end(Fixed.LATEST), brokers, tps)
    # Asked last: an offset that a broker has just named for a time is never behind the end.
    given = {tp: max(begin[tp], finish[tp]) for tp in tps}
    first, last = brokers.earliest(tps), brokers.latest(tps, given)
    begin, finish = _numbers(begin, first, last), _numbers(finish, first, last)
    strict = options.fail_on_data_loss
    return [_checked(tp, begin[tp], finish[tp], first=first[tp], last=last[tp], strict=strict) for tp in tps]


def resolve_start(
    options: SourceOptions, brokers: Brokers, positions: GroupOffsets, default: Bound = Fixed.LATEST
) -> dict[TopicPartition, int]:
    """Return where a stream begins: a number for each existing partition.  Raises the exceptions of resolve_batch."""
    tps = subscribed(options, brokers)
    if not tps:
        return {}
    begin = _begin(options, options.bound_of_start(default), brokers, tps, positions)
    ends = {EARLIEST: brokers.earliest, LATEST: brokers.latest}
    for which, ask in ends.items():
        asked = [tp for tp in tps if begin[tp] == which]
        if asked:
            begin |= ask(asked)
    return begin


def _begin(
    options: SourceOptions, bound: Bound, brokers: Brokers, tps: Sequence[TopicPartition], positions: GroupOffsets
) -> dict[TopicPartition, int]:
    """Return an offset, EARLIEST or LATEST for each partition."""
    match bound:
        case Fixed.GROUP:
            return _of_group(options, positions(tps), tps)
        case Times() | Time():
            return starts_at(brokers, _times(bound, tps, "startingOffsetsByTimestamp"), options.no_match)
        case _:
            return _given(bound, tps, "startingOffsets")


def _finish(bound: Bound, brokers: Brokers, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    if isinstance(bound, (Times, Time)):
        return ends_at(brokers, _times(bound, tps, "endingOffsetsByTimestamp"))
    return _given(bound, tps, "endingOffsets")


def _given(bound: Bound, tps: Sequence[TopicPartition], option: str) -> dict[TopicPartition, int]:
    if isinstance(bound, Offsets):
        _same(bound.at, tps, option)
        return dict(bound.at)
    return dict.fromkeys(tps, LATEST if bound is Fixed.LATEST else EARLIEST)


def _times(bound: Times | Time, tps: Sequence[TopicPartition], option: str) -> dict[TopicPartition, int]:
    if isinstance(bound, Time):
        return dict.fromkeys(tps, bound.ms)
    _same(bound.at_ms, tps, option)
    return dict(bound.at_ms)


def _same(named: At, tps: Sequence[TopicPartition], option: str) -> None:
    """Check Spark's rule: if one partition is named, all must be.  A forgotten one would be read from an arbitrary
    offset."""
    missing, extra = in_order(set(tps) - named.keys()), in_order(named.keys() - set(tps))
    if missing:
        raise OptionRefused(
            f"names some partitions, so it must name all that are read: {_list(missing)} missing (-2 is the earliest"
            " offset, -1 the latest)",
            option=option,
        )
    if extra:
        raise OptionRefused(f"names what is not read: {_list(extra)}", option=option)


def _list(tps: Sequence[TopicPartition]) -> str:
    more = f" and {len(tps) - 3} more" if len(tps) > 3 else ""
    return ", ".join(str(tp) for tp in tps[:3]) + more + (" is" if len(tps) == 1 else " are")


def _of_group(
    options: SourceOptions, at: Mapping[TopicPartition, int | None], tps: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the group's committed offsets; the earliest if it has none, so that nothing is skipped."""
    without = [tp for tp in tps if at.get(tp) is None]
    if len(without) == len(tps):
        raise Refused(
            f"group {options.group_id} has no position in any partition of {options.subscription}: is its name right,"
            " and kafka.offsets.storage?",
            group=options.group_id,
        )
    for tp in without:
        log.warning("group %s has no position of %s: read from the earliest offset on", options.group_id, tp)
    return {tp: EARLIEST if (offset := at.get(tp)) is None else offset for tp in tps}


def _numbers(at: At, first: At, last: At) -> dict[TopicPartition, int]:
    ends = {EARLIEST: first, LATEST: last}
    return {tp: ends[offset][tp] if offset in ends else offset for tp, offset in at.items()}


def _checked(
    tp: TopicPartition, begin: int, finish: int, *, first: int, last: int, strict: bool
) -> tuple[TopicPartition, int, int]:
    """Return the range as it can be read now.  Raises before any task begins if it cannot be read."""
    if first <= begin <= finish <= last:
        return tp, begin, finish
    where, bounds = {"topic": tp.topic, "partition": tp.partition}, {"earliest": first, "latest": last}
    if begin > finish and begin <= last:
        raise OptionRefused(f"begins at {begin}, behind its end {finish}", **where, **bounds)
    if strict and begin < first:
        raise DataLoss(
            f"messages from {begin} are requested, and the log begins at {first}; failOnDataLoss=false reads what is"
            " left",
            **where, requested=begin, **bounds,
        )  # fmt: skip
    if strict:
        until = max(begin, finish)
        raise OffsetOutOfRange(
            f"messages up to {until} are requested, and the log ends at {last}; failOnDataLoss=false reads what is"
            " there",
            **where, requested=until, **bounds,
        )  # fmt: skip
    start = min(max(begin, first), last)
    until = max(min(finish, last), start)
    log.warning("%s: [%d, %d) was requested; reading [%d, %d), which is there", tp, begin, finish, start, until)
    return tp, start, until


# ---- times -----------------------------------------------------------------------------------------------------------


def starts_at(brokers: Brokers, times: At, no_match: str) -> dict[TopicPartition, int]:
    """Return the first offset of each time (ms since 1970 UTC) or later.

    no_match: what a time after the last message gives: "error", or "latest" for LATEST.
    Raises NoTimestamp, and the exceptions of Brokers.
    """
    found: dict[TopicPartition, int] = {}
    for tp, offset in offsets_at(brokers, times).items():
        if offset is None and no_match == "error":
            raise NoTimestamp(
                f"no message is of {times[tp]} (ms since 1970 UTC) or later;"
                " startingOffsetsByTimestampStrategy=latest begins at the end of the log then",
                topic=tp.topic,
                partition=tp.partition,
            )
        found[tp] = LATEST if offset is None else offset
    return found


def ends_at(brokers: Brokers, times: At) -> dict[TopicPartition, int]:
    """Return the offset after the last message before each time; LATEST if all are before it."""
    return {tp: LATEST if at is None else at for tp, at in offsets_at(brokers, times).items()}


def offsets_at(brokers: Brokers, times: At) -> dict[TopicPartition, int | None]:
    """Return the first offset of each time or later, as exactly as these brokers allow; None if there is none."""
    found = brokers.at_time(times)
    if not _can_be_refined(brokers):
        return found
    behind = brokers.latest([tp for tp, at in found.items() if at is not None])
    return {tp: None if at is None else _refined(brokers, tp, at, times[tp], behind[tp]) for tp, at in found.items()}


def _refined(brokers: Brokers, tp: TopicPartition, at: int, time_ms: int, until: int) -> int | None:
    offset = first_since(brokers, OffsetRange(tp.topic, tp.partition, at, until), time_ms)
    return None if offset >= until else offset


def _can_be_refined(brokers: Brokers) -> bool:
    """True if messages have timestamps and the brokers cannot look them up (0.10.0): only then reading forward
    helps."""
    return brokers.dialect.magic >= 1 and brokers.dialect.speaks(apis.LIST_OFFSETS.key) < 1
