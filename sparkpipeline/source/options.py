"""The options of format("kafka08"): Spark's own names and rules, the old clients' names, and a few of ours.

One table: a field holds key, default, unit and meaning; reading, checking and docs/spark.md (sparkpipeline.source.
reference) come from it.  Names are taken in any case, as Spark takes them.  Pure.

    options = SourceOptions.of({"kafka.bootstrap.servers": "b1:9092", "subscribe": "orders"}, streaming=False)
    options.bound_of_start(Fixed.EARLIEST)     the first that is given of startingTimestamp,
                                               startingOffsetsByTimestamp and startingOffsets
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

from groundwork.options import OptionError, given, load, option, specs, warnings_of
from sparkpipeline.errors import OptionRefused
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.options import Fallback, ReadOptions
from sparkpipeline.source import optionkinds as kinds
from sparkpipeline.source import optionrules as rules
from sparkpipeline.source.clusteroptions import ClusterOptions
from sparkpipeline.source.offsets import Bound, bound_of
from sparkpipeline.source.planning import PACK_BYTES
from sparkpipeline.source.subscription import Subscription

WHERE = "kafka08"
PLAN = "sparkpipeline.plan"  # the one option of a plan that a job of this package hands over (exactplan.py)
Storage = Literal["zookeeper", "kafka", "dual"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What planning.plan is told."""

    min_partitions: int | None
    max_records: int | None
    max_bytes: int | None
    pack_bytes: int


@dataclass(frozen=True, slots=True)
class SourceOptions(ClusterOptions):
    """What a query over topics is made from.  Make it with SourceOptions.of."""

    JVM_ONLY: ClassVar[Mapping[str, str]] = rules.WITHOUT_EFFECT

    # ---- what is read
    assign: str | None = option(
        "assign", None, 'just these partitions: {"topicA":[0,1],"topicB":[2,4]}', kind=kinds.text
    )
    subscribe: str | None = option("subscribe", None, "topics, separated by commas", kind=kinds.any_text)
    subscribe_pattern: str | None = option(
        "subscribePattern",
        None,
        "topics in whose names a Java regular expression is found, as Spark looks for it; ^ and $ make it all of it",
        kind=kinds.any_text,
    )
    offset_ranges: tuple[OffsetRange, ...] | None = option(
        "offsetRanges",
        None,
        'an exact plan: [{"topic":"orders","partition":0,"start":17,"until":90}, ..]; a task for each range, and no'
        " other option about where to begin, to end or how to cut",
        kind=kinds.ranges,
    )
    ranges_per_task: tuple[int, ...] | None = option(
        "rangesPerTask",
        None,
        "with offsetRanges: how many of them, one after the other, each task reads: 3,1,5",
        kind=kinds.counts,
    )
    starting_timestamp: str | None = option(
        "startingTimestamp", None, "begin at this time; goes before the two that follow", "ms since 1970",
        kind=kinds.any_text,
    )  # fmt: skip
    starting_by_timestamp: str | None = option(
        "startingOffsetsByTimestamp",
        None,
        'begin at a time for each partition: {"topicA":{"0":1700000000000}}',
        "ms since 1970",
        kind=kinds.any_text,
    )
    starting_offsets: str | None = option(
        "startingOffsets",
        None,
        'earliest, latest (streams), group (where kafka.group.id stands), or {"topicA":{"0":23,"1":-2}}: -2 is the'
        " earliest, -1 the latest; earliest for a batch, latest for a stream when empty",
        kind=kinds.any_text,
    )
    ending_timestamp: str | None = option(
        "endingTimestamp", None, "batch: end before this time; goes before the two that follow", "ms since 1970",
        kind=kinds.any_text,
    )  # fmt: skip
    ending_by_timestamp: str | None = option(
        "endingOffsetsByTimestamp",
        None,
        "batch: end before a time for each partition",
        "ms since 1970",
        kind=kinds.any_text,
    )
    ending_offsets: str | None = option(
        "endingOffsets",
        None,
        'batch: latest, or {"topicA":{"0":50,"1":-1}}, the first offset that is not read; latest when empty',
        kind=kinds.any_text,
    )
    no_match: str = option(
        "startingOffsetsByTimestampStrategy",
        "error",
        "what a time to begin at does that is behind the last message: fail, or begin at the end",
        choices=("error", "latest"),
    )
    group_id: str | None = option(
        "kafka.group.id",
        None,
        "the group of startingOffsets=group, whose offsets are read and never written",
        kind=kinds.text,
    )
    offsets_storage: str | None = option(
        "kafka.offsets.storage",
        None,
        "where that group keeps them: zookeeper, kafka, or dual (the larger counts); zookeeper when zookeeper.connect"
        " is given, else kafka",
        choices=("zookeeper", "kafka", "dual"),
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss", True, "offsets that the cluster no longer has end the query; false: begin at what is left"
    )
    strict_compat: bool = option(
        "strictCompat", False, "refuse every option that Spark's own kafka format does not have"
    )

    # ---- rows
    include_headers: bool = option(
        "includeHeaders", False, "a column headers; null before Kafka 0.11, which brought them"
    )
    timestamp_fallback: str = option(
        "timestampFallback",
        "none",
        "timestamp of messages that have none (0.8, 0.9): none is Spark's -1 ms, 1969-12-31 23:59:59.999 UTC; null; or"
        " plan, when the query was planned",
        choices=("none", "null", "plan"),
    )
    fetch_bytes: int = option(
        "kafka.fetch.message.max.bytes",
        1 << 20,
        "most of one partition in a fetch; doubled for a message that does not fit, up to the next option",
        "bytes",
        old="kafka.max.partition.fetch.bytes",
        least=1,
    )
    fetch_bytes_cap: int = option(
        "fetchBytesCap", 64 << 20, "how far it may be doubled: larger messages are an error", "bytes", least=1
    )
    max_wait_ms: int = option(
        "kafka.fetch.wait.max.ms",
        500,
        "how long a broker may wait for kafka.fetch.min.bytes",
        "ms",
        old="kafka.fetch.max.wait.ms",
        least=0,
    )
    min_bytes: int = option("kafka.fetch.min.bytes", 1, "what a broker waits for", "bytes", least=0)
    check_crcs: bool = option("kafka.check.crcs", True, "checksums are verified; a wrong one ends the query")

    # ---- tasks
    min_partitions: int | None = option(
        "minPartitions", None, "at least about so many tasks: large partitions are split", least=1
    )
    max_records: int | None = option(
        "maxRecordsPerPartition", None, "most offsets in a task: larger ranges are split", least=1
    )
    max_bytes: int | None = option(
        "maxBytesPerPartition",
        None,
        "most bytes in a task, by the average size of a topic's messages",
        "bytes",
        least=1,
    )
    pack_bytes: int | None = option(
        "packBytes",
        None,
        "small ranges share a task up to this estimate; 0: a task for each range, as Spark does; 0 with offsetRanges,"
        f" else {PACK_BYTES} when empty",
        "bytes",
        least=0,
    )

    # ---- streams
    max_offsets_per_trigger: int | None = option(
        "maxOffsetsPerTrigger", None, "most offsets in a micro-batch, shared by lag; each partition gets at least one",
        least=1,
    )  # fmt: skip
    min_offsets_per_trigger: int | None = option(
        "minOffsetsPerTrigger", None, "a micro-batch waits for so many, but not longer than maxTriggerDelay", least=1
    )
    max_trigger_delay_ms: int = option(
        "maxTriggerDelay", 900000, "how long: a number with ms, s, m, h or d, such as 15m", "ms", kind=kinds.delay
    )
    max_bytes_per_trigger: int | None = option(
        "maxBytesPerTrigger", None, "most bytes in a micro-batch, by the average size of messages", "bytes", least=1
    )
    state_dir: str | None = option(
        "stateDir",
        None,
        "a folder that every driver of this stream sees: what latest, a time or a group meant at the first start is"
        " kept there; without it such a stream is refused",
        kind=kinds.text,
    )

    @staticmethod
    def of(options: Mapping[str, str], streaming: bool | None) -> SourceOptions:
        """The options of a query.  Raises OptionRefused, naming option and value.

        options    names in any case; Spark's dictionary or a plain one
        streaming  whether they are a stream's; None: not known yet, so what only one of the two refuses passes
        """
        values = rules.NAMES.taken(SourceOptions, options)
        rules.strict(values)
        try:
            found = load(SourceOptions, values, WHERE, jvm=True)
        except OptionError as exc:
            raise OptionRefused("; ".join(exc.problems)) from None
        rules.check(found, given(found), streaming)
        if streaming is not None:
            rules.tell(warnings_of(found), given(found), streaming)
        return found

    @property
    def subscription(self) -> Subscription:
        """Which partitions are read.  Raises OptionRefused."""
        return Subscription.of(self.assign, self.subscribe, self.subscribe_pattern)

    def bound_of_start(self, default: Bound) -> Bound:
        """Where to begin: a time for all, times, offsets; the first that is given.  Raises OptionRefused."""
        return (
            bound_of("starting", self.starting_timestamp, self.starting_by_timestamp, self.starting_offsets) or default
        )

    def bound_of_end(self, default: Bound) -> Bound:
        """Where a batch ends, likewise."""
        return bound_of("ending", self.ending_timestamp, self.ending_by_timestamp, self.ending_offsets) or default

    @property
    def storage(self) -> Storage:
        """Where the group keeps its offsets."""
        chosen = self.offsets_storage or ("kafka" if self.zookeeper_connect is None else "zookeeper")
        return cast(Storage, chosen)

    @property
    def limits(self) -> Limits:
        """How ranges are cut and packed; an exact plan is taken as it is, a task for each range."""
        usual = PACK_BYTES if self.offset_ranges is None else 0
        pack_bytes = usual if self.pack_bytes is None else self.pack_bytes
        return Limits(self.min_partitions, self.max_records, self.max_bytes, pack_bytes)


def without_passwords(options: Mapping[str, str]) -> dict[str, str]:
    """Options as a user gives them, but those that only the driver may see.  Names in any case."""
    secret = {name.lower() for spec in specs(SourceOptions).values() if spec.secret for name in (spec.key, *spec.old)}
    return {name: value for name, value in options.items() if name.lower() not in secret}


def read_options(options: SourceOptions, columns: tuple[str, ...], plan_time_ms: int) -> ReadOptions:
    """What a task is told."""
    return ReadOptions(
        fetch_bytes=options.fetch_bytes,
        fetch_bytes_cap=options.fetch_bytes_cap,
        max_wait_ms=options.max_wait_ms,
        min_bytes=options.min_bytes,
        check_crcs=options.check_crcs,
        fail_on_data_loss=options.fail_on_data_loss,
        timestamp_fallback=cast(Fallback, options.timestamp_fallback),
        plan_time_ms=plan_time_ms,
        include_headers=options.include_headers,
        columns=columns,
    )
