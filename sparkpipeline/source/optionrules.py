"""A query's options read and checked: those of ours that strictCompat refuses, options that contradict each other, and
what a release of brokers lacks.

The refusals are those of Spark's own kafka format, each with what to write instead; ours are marked so.
Kafka 0.7: brokers tell nothing of each other, partitions belong to brokers, offsets are bytes, groups are in ZooKeeper.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

from groundwork.options import OptionError, given, load, spelled, warnings_of
from kafkawire.dialects import Dialect, dialect
from kafkawire.model import TopicPartition
from sparkpipeline.errors import OptionRefused
from sparkpipeline.source.offsets import EARLIEST, LATEST, Bound, Fixed, Offsets, Times, in_order
from sparkpipeline.source.options import AUTO, BROKERS, OF_SPARK, PASSED_OVER, WITHOUT_EFFECT, SourceOptions

log = logging.getLogger(__name__)

WHERE = "kafka08"
_MOST_INT = (1 << 31) - 1  # of the numbers of a request
_WITH_RANGES = (
    "assign", "subscribe", "subscribePattern", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets",
    "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "minPartitions", "maxRecordsPerPartition",
    "maxBytesPerPartition", "kafka.group.id",
)  # fmt: skip
_ENDINGS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_TRIGGER = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger", "stateDir")
_COUNTED = {  # options that count messages by their offsets, and what does so by bytes
    "maxOffsetsPerTrigger": "maxBytesPerTrigger",
    "minOffsetsPerTrigger": "the trigger's own interval",
    "maxRecordsPerPartition": "maxBytesPerPartition",
}


def checked_options(options: Mapping[str, str], streaming: bool | None) -> SourceOptions:
    """The options of a query.  Raises OptionRefused, naming option and value.

    options    names in any case; Spark's dictionary or a plain one
    streaming  whether they are a stream's; None: not known yet, so what only one of the two refuses passes
    """
    values = spelled(SourceOptions, options)
    _strict(values)
    try:
        found = load(SourceOptions, values, WHERE, jvm=True)
    except OptionError as exc:
        raise OptionRefused.of(exc) from None
    _check(found, given(found), streaming)
    if streaming is not None:
        _warn(warnings_of(found), given(found), streaming)
    return found


def _strict(values: Mapping[str, str]) -> None:
    """Raises OptionRefused for an option of ours where strictCompat is on."""
    if values.get("strictCompat", "").strip().lower() != "true":
        return
    extras = sorted(values.keys() - OF_SPARK - WITHOUT_EFFECT.keys() - PASSED_OVER)
    if extras:
        raise OptionRefused(
            f"strictCompat refuses what Spark's kafka format does not have: {', '.join(extras)}", option=extras[0]
        )


def _check(options: SourceOptions, given: frozenset[str], streaming: bool | None) -> None:
    """What is wrong between options that are each right.  Raises OptionRefused."""
    _check_tasks(options, given)
    if options.offset_ranges is not None:
        _check_ranges(given, streaming)
    else:
        _ = options.subscription
    _check_release(options, given)
    if not options.bootstrap and not options.brokers and options.zookeeper_connect is None:
        raise OptionRefused(
            "host:port of some brokers is needed, or zookeeper.connect", option="kafka.bootstrap.servers"
        )
    _check_limits(options)
    if streaming is True:
        _check_stream(options, given)
    elif streaming is False:
        _check_batch(options)


def _warn(warnings: Iterable[str], given: frozenset[str], streaming: bool) -> None:
    """Log what was given and means nothing here, or nothing in a batch."""
    for sentence in warnings:
        log.warning("%s", sentence)
    for name in sorted(given & set(_TRIGGER)) if not streaming else ():
        log.warning("option %s means nothing in a batch", name)


def _check_ranges(given: frozenset[str], streaming: bool | None) -> None:
    if streaming:
        raise OptionRefused("a stream has no fixed ranges", option="offsetRanges")
    others = sorted(given & set(_WITH_RANGES))
    if others:
        raise OptionRefused(
            f"an exact plan goes with no other of its kind: leave out {', '.join(others)}", option=others[0]
        )


def _check_tasks(options: SourceOptions, given: frozenset[str]) -> None:
    if options.ranges_per_task is None:
        return
    if options.offset_ranges is None or "packBytes" in given:
        raise OptionRefused("goes with offsetRanges, and not with packBytes", option="rangesPerTask")
    if sum(options.ranges_per_task) != len(options.offset_ranges):
        raise OptionRefused(
            f"adds up to {sum(options.ranges_per_task)}, and offsetRanges has {len(options.offset_ranges)}",
            option="rangesPerTask",
        )


def _check_limits(options: SourceOptions) -> None:
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionRefused(f"{least} is more than maxOffsetsPerTrigger, {most}", option="minOffsetsPerTrigger")
    for name, number in (
        ("kafka.fetch.message.max.bytes", options.fetch_bytes), ("fetchBytesCap", options.fetch_bytes_cap),
        ("kafka.fetch.min.bytes", options.min_bytes), ("kafka.fetch.wait.max.ms", options.max_wait_ms),
    ):  # fmt: skip
        if number > _MOST_INT:
            raise OptionRefused(f"{number} does not fit a request: {_MOST_INT} is the most", option=name)
    if options.max_wait_ms >= options.socket_timeout_ms:
        raise OptionRefused(
            f"{options.max_wait_ms} is not less than kafka.socket.timeout.ms, {options.socket_timeout_ms}: a broker"
            " that waits that long would be taken for dead",
            option="kafka.fetch.wait.max.ms",
        )
    if options.fetch_bytes_cap < options.fetch_bytes:
        raise OptionRefused(
            f"{options.fetch_bytes_cap} is less than kafka.fetch.message.max.bytes, {options.fetch_bytes}",
            option="fetchBytesCap",
        )


def _check_start(options: SourceOptions, start: Bound) -> None:
    if start is not Fixed.GROUP:
        return
    if options.group_id is None:
        raise OptionRefused("startingOffsets=group needs the name of the group", option="kafka.group.id")
    if options.offsets_storage in ("zookeeper", "dual") and options.zookeeper_connect is None:
        raise OptionRefused(f"{options.offsets_storage} needs zookeeper.connect", option="kafka.offsets.storage")


def _check_stream(options: SourceOptions, given: frozenset[str]) -> None:
    for name in sorted(given & set(_ENDINGS)):
        raise OptionRefused("a stream does not end", option=name)
    start = options.bound_of_start(Fixed.LATEST)
    _check_start(options, start)
    if moves(start) and options.state_dir is None:
        raise OptionRefused(
            "Spark asks for the first offsets of a stream several times and does not keep the first answer, so that"
            " a start at latest, at a time or at a group's position could skip messages: name a folder here, or"
            " numbers (or earliest) in startingOffsets",
            option="stateDir",
        )


def moves(start: Bound) -> bool:
    """Whether it may mean other offsets later.  The earliest does too, but what it passed over is gone."""
    if isinstance(start, Offsets):
        return LATEST in start.at.values()
    return start is not Fixed.EARLIEST


def _check_batch(options: SourceOptions) -> None:
    start, end = options.bound_of_start(Fixed.EARLIEST), options.bound_of_end(Fixed.LATEST)
    _check_start(options, start)
    for tp in _specially(start, LATEST):
        raise OptionRefused(
            f"a batch does not begin at the latest offset{tp}: there is nothing behind it", option="startingOffsets"
        )
    for tp in _specially(end, EARLIEST):
        raise OptionRefused(
            f"a batch does not end at the earliest offset{tp}: there is nothing before it", option="endingOffsets"
        )
    if end is Fixed.GROUP:
        raise OptionRefused("group says where to begin, not where to end", option="endingOffsets")
    if isinstance(start, Offsets) and isinstance(end, Offsets):
        _check_pairs(start.at, end.at, "startingOffsets", "endingOffsets")
    if isinstance(start, Times) and isinstance(end, Times):
        _check_pairs(start.at_ms, end.at_ms, "startingOffsetsByTimestamp", "endingOffsetsByTimestamp")


def _specially(bound: Bound, number: int) -> Iterator[str]:
    """Where a bound is -1 or -2: "" for all partitions, else each by name."""
    if bound is (Fixed.LATEST if number == LATEST else Fixed.EARLIEST):
        yield ""
    if isinstance(bound, Offsets):
        yield from (f" of {tp}" for tp, offset in bound.at.items() if offset == number)


def _check_pairs(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], starting: str, ending: str
) -> None:
    """Offsets, or times: both name the same partitions, and none begins behind its end."""
    odd = in_order(start.keys() ^ end.keys())
    if odd:
        raise OptionRefused(
            f"{starting} and {ending} name different partitions: {odd[0]} is in one only", option=ending
        )
    for tp, first in start.items():
        if 0 <= end[tp] < first:
            raise OptionRefused(f"{tp} begins at {first}, behind its end {end[tp]}", option=starting)


# ---- what a release lacks


def _check_release(options: SourceOptions, given: frozenset[str]) -> None:
    """Raises OptionRefused.  Of protocol=auto nothing is known yet: who asks for it has brokers that can be asked."""
    spoken = None if options.protocol == AUTO else dialect(options.protocol)
    if spoken is not None and not spoken.describes_itself:
        _check_brokers(options, spoken)
    elif options.brokers:
        raise OptionRefused("is for brokers of Kafka 0.7: say protocol=0.7, or kafka.bootstrap.servers", option=BROKERS)
    if spoken is None:
        return
    if not spoken.offsets.count_messages:
        for name in sorted(given & _COUNTED.keys()):
            raise OptionRefused(
                f"counts messages, and offsets of Kafka {spoken.release} are bytes: use {_COUNTED[name]}", option=name
            )
    if not spoken.keeps_offsets and options.group_id is not None and options.zookeeper_connect is None:
        raise OptionRefused(
            f"groups of Kafka {spoken.release} keep their offsets in ZooKeeper: give zookeeper.connect",
            option="kafka.group.id",
        )
    if not spoken.keeps_offsets and options.offsets_storage in ("kafka", "dual"):
        raise OptionRefused(
            f"brokers of Kafka {spoken.release} keep no offsets: only ZooKeeper has them",
            option="kafka.offsets.storage",
        )


def _check_brokers(options: SourceOptions, spoken: Dialect) -> None:
    what = f"brokers of Kafka {spoken.release} tell nothing of each other"
    if options.bootstrap:
        raise OptionRefused(f"{what}: zookeeper.connect finds them", option="kafka.bootstrap.servers")
    if not options.brokers and options.zookeeper_connect is None:
        raise OptionRefused(f"is needed: {what}", option="zookeeper.connect")
    if options.brokers and options.zookeeper_connect is not None:
        raise OptionRefused("goes without zookeeper.connect, which finds the brokers", option=BROKERS)
    if options.brokers and options.assign is None and options.offset_ranges is None:
        raise OptionRefused(
            "says which brokers there are, not which partitions they have: name those in assign or offsetRanges, or"
            " give zookeeper.connect instead",
            option=BROKERS,
        )
