"""Options of format("kafka08"): Spark's own names and rules, the old clients' names, and a few of ours.

One table: a field holds key, default, unit and meaning; reading, checking and docs/spark-options.md come from it.
Names are taken in any case, as Spark takes them; beside the table stand those that are refused or mean nothing here.
checked_options() makes a SourceOptions, and refuses what options must not say together.  Pure.

Spark's own refusals come first, each with what to write instead; ours are marked.  Kafka 0.7: brokers tell nothing of
each other, partitions belong to brokers, offsets are bytes, groups are in ZooKeeper.

    options.bound_of_start(Fixed.EARLIEST)     the first that is given of startingTimestamp,
                                               startingOffsetsByTimestamp and startingOffsets
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self, cast

from groundwork.options import OptionError, given, load, option, specs, spelled, warnings_of
from groundwork.optionvalues import filled
from groundwork.zksecurity import security_problems
from kafkawire import optiontypes
from kafkawire.dialects import Dialect, dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.securityoptions import broker_security_problems
from sparkpipeline.cluster.access import AUTO
from sparkpipeline.driver import queryoptions
from sparkpipeline.driver.queryoptions import READ_COMMITTED, QueryOptions, headers_option, isolation_option
from sparkpipeline.errors import OptionRefused
from sparkpipeline.ranges import OffsetRange, parse_ranges
from sparkpipeline.reading.readoptions import Fallback, ReadOptions
from sparkpipeline.source.offsetbounds import EARLIEST, LATEST, Bound, Fixed, Offsets, Times, bound_of, in_order
from sparkpipeline.source.subscription import Subscription
from sparkpipeline.source.taskplan import PACK_BYTES

log = logging.getLogger(__name__)

WHERE = "kafka08"
BROKERS = "kafka.broker.list"
PLAN = "sparkpipeline.plan"  # the option of a plan that a job of this package hands over (exactplan.py)
SECRET = "sparkpipeline.secret"  # and its passwords, TLS and login; Spark redacts what is called so
Storage = Literal["zookeeper", "kafka", "dual"]
_BYTES = "keys and values are bytes: decode them in the query"
REFUSED = {
    "kafka.auto.offset.reset": "startingOffsets says where a query begins, and each later batch goes on where the one"
    " before it ended",
    "kafka.key.deserializer": _BYTES,
    "kafka.value.deserializer": _BYTES,
    "kafka.deserializer.class": _BYTES,
    **queryoptions.REFUSED,
    "kafka.enable.auto.commit": "Spark keeps the offsets; nothing is committed",
    "kafka.auto.commit.enable": "Spark keeps the offsets; nothing is committed",
    "kafka.interceptor.classes": "nothing may change messages on the way",
}
WITHOUT_EFFECT = {
    "groupIdPrefix": "no group is joined",
    "kafkaConsumer.pollTimeoutMs": "kafka.socket.timeout.ms bounds a fetch",
    "kafka.session.timeout.ms": "no group is joined",
    "kafka.heartbeat.interval.ms": "no group is joined",
    "kafka.max.poll.records": "rows travel in batches of at most 4 MB and 10,000 rows",
    "kafka.max.poll.interval.ms": "no group is joined",
    "kafka.fetch.max.bytes": "kafka.fetch.message.max.bytes bounds a partition's share of a fetch",
    "kafka.receive.buffer.bytes": "our links size their own buffers",
    "kafka.send.buffer.bytes": "our links size their own buffers",
    "kafka.socket.receive.buffer.bytes": "our links size their own buffers",
    "kafka.metadata.max.age.ms": "leaders are looked up when a query is planned and when one is lost",
    "kafka.refresh.leader.backoff.ms": "fetchOffset.retryIntervalMs is the wait",
    "kafka.retry.backoff.ms": "fetchOffset.retryIntervalMs is the wait",
    "kafka.reconnect.backoff.ms": "fetchOffset.retryIntervalMs is the wait",
    "kafka.reconnect.backoff.max.ms": "fetchOffset.retryIntervalMs is the wait",
    "kafka.default.api.timeout.ms": "kafka.socket.timeout.ms bounds each answer",
    "kafka.connections.max.idle.ms": "links are closed when a task ends",
    "kafka.exclude.internal.topics": "a pattern never chooses internal topics, as __consumer_offsets",
}
OF_SPARK = {  # what strictCompat lets pass, with everything that begins with "kafka." and means the same to both
    "kafka.bootstrap.servers", "assign", "subscribe", "subscribePattern", "startingTimestamp",
    "startingOffsetsByTimestamp", "startingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets",
    "startingOffsetsByTimestampStrategy", "failOnDataLoss", "minPartitions", "maxRecordsPerPartition",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "includeHeaders", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs", "kafka.group.id", "kafka.client.id", "kafka.fetch.min.bytes", "kafka.check.crcs",
    "kafka.request.timeout.ms", "kafka.max.partition.fetch.bytes", "kafka.fetch.max.wait.ms", "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
}  # fmt: skip
PASSED_OVER = {"strictCompat", "stateDir"}  # ours, and strict all the same: Spark's own ignores them


# ---- what values options take


_DELAY_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60000, "min": 60000, "h": 3600000, "d": 86400000}


def any_text_type(raw: object) -> str:
    """Convert text, also an empty one, for which a later check has a better message."""
    return str(raw).strip()


def ranges_type(raw: object) -> tuple[OffsetRange, ...]:
    try:
        return tuple(parse_ranges(str(raw)))
    except OptionRefused as exc:
        raise ValueError(f"a list of {{topic, partition, start, until}}; it {exc.sentence}") from None


def counts_type(raw: object) -> tuple[int, ...]:
    """Option type: whole numbers, at least 1: 3,1,5."""
    parts = str(raw).split(",")
    if not all(re.fullmatch(r"\s*[1-9][0-9]{0,8}\s*", part, re.ASCII) for part in parts):
        raise ValueError("whole numbers from 1 on, such as 3,1,5")
    return tuple(int(part) for part in parts)


def delay_type(raw: object) -> int:
    """Convert a time as Spark writes it, in ms: 15m, 90s, or a number of ms."""
    found = re.fullmatch(r"([0-9]{1,12})(us|ms|s|m|min|h|d)?", str(raw).strip().lower())
    if found is None:
        raise ValueError("a whole number with us, ms, s, m, min, h or d behind it, such as 15m")
    return int(int(found[1]) * _DELAY_MS[found[2] or "ms"])


# ---- the table


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits by which ranges are cut and packed into tasks: arguments of taskplan.plan."""

    min_partitions: int | None
    max_records: int | None
    max_bytes: int | None
    pack_bytes: int


@dataclass(frozen=True, slots=True)
class SourceOptions(QueryOptions):
    """Options of a query over topics.  Make it with checked_options()."""

    JVM_ONLY: ClassVar[Mapping[str, str]] = WITHOUT_EFFECT
    REFUSED: ClassVar[Mapping[str, str]] = REFUSED

    # ---- the cluster
    brokers: tuple[Broker, ...] = option(
        "kafka.broker.list",
        (),
        "of Kafka 0.7, where ZooKeeper cannot be reached: the brokers of the partitions that assign or offsetRanges"
        " names, id:host:port,id:host:port",
        kind=optiontypes.numbered_brokers,
    )
    socket_timeout_ms: int = option(
        "kafka.socket.timeout.ms",
        30000,
        "how long a broker may take to answer",
        "ms",
        old="kafka.request.timeout.ms",
        least=100,
    )
    retries: int = option(
        "fetchOffset.numRetries",
        3,
        "how often a question about offsets is asked again, and a fetch after a lost leader",
        least=0,
    )
    retry_interval_ms: int = option("fetchOffset.retryIntervalMs", 1000, "wait before that", "ms", least=0)

    # ---- what is read
    assign: str | None = option("assign", None, 'just these partitions: {"topicA":[0,1],"topicB":[2,4]}', kind=filled)
    subscribe: str | None = option("subscribe", None, "topics, separated by commas", kind=any_text_type)
    subscribe_pattern: str | None = option(
        "subscribePattern",
        None,
        "topics in whose names a Java regular expression is found, as Spark looks for it; ^ and $ make it all of it",
        kind=any_text_type,
    )
    offset_ranges: tuple[OffsetRange, ...] | None = option(
        "offsetRanges",
        None,
        'an exact plan: [{"topic":"orders","partition":0,"start":17,"until":90}, ..]; a task for each range, and no'
        " other option about where to begin, to end or how to cut",
        kind=ranges_type,
    )
    ranges_per_task: tuple[int, ...] | None = option(
        "rangesPerTask",
        None,
        "with offsetRanges: how many of them, one after the other, each task reads: 3,1,5",
        kind=counts_type,
    )
    starting_timestamp: str | None = option(
        "startingTimestamp", None, "begin at this time; goes before the two that follow", "ms since 1970",
        kind=any_text_type,
    )  # fmt: skip
    starting_by_timestamp: str | None = option(
        "startingOffsetsByTimestamp",
        None,
        'begin at a time for each partition: {"topicA":{"0":1700000000000}}',
        "ms since 1970",
        kind=any_text_type,
    )
    starting_offsets: str | None = option(
        "startingOffsets",
        None,
        'earliest, latest (streams), group (where kafka.group.id stands), or {"topicA":{"0":23,"1":-2}}: -2 is the'
        " earliest, -1 the latest; earliest for a batch, latest for a stream when empty",
        kind=any_text_type,
    )
    ending_timestamp: str | None = option(
        "endingTimestamp", None, "batch: end before this time; goes before the two that follow", "ms since 1970",
        kind=any_text_type,
    )  # fmt: skip
    ending_by_timestamp: str | None = option(
        "endingOffsetsByTimestamp",
        None,
        "batch: end before a time for each partition",
        "ms since 1970",
        kind=any_text_type,
    )
    ending_offsets: str | None = option(
        "endingOffsets",
        None,
        'batch: latest, or {"topicA":{"0":50,"1":-1}}, the first offset that is not read; latest when empty',
        kind=any_text_type,
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
        kind=filled,
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
    include_headers: bool = headers_option("includeHeaders")
    isolation: str = isolation_option("kafka.isolation.level")
    timestamp_fallback: str = option(
        "timestampFallback",
        "none",
        "timestamp of messages that have none (0.8, 0.9): none is Spark's -1 ms, 1969-12-31 23:59:59.999 UTC; null; or"
        " plan, when the query was planned",
        choices=("none", "null", "plan"),
    )
    fetch_bytes: int = option(
        "kafka.fetch.message.max.bytes",
        4 << 20,
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
        "minPartitions", None, "minimum number of tasks, about: large partitions are split", least=1
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
        "minOffsetsPerTrigger", None, "fewest offsets of a micro-batch, unless maxTriggerDelay is over", least=1
    )
    max_trigger_delay_ms: int = option(
        "maxTriggerDelay",
        900000,
        "how long minOffsetsPerTrigger waits: a number with ms, s, m, h or d, such as 15m",
        "ms",
        kind=delay_type,
    )
    max_bytes_per_trigger: int | None = option(
        "maxBytesPerTrigger", None, "most bytes in a micro-batch, by the average size of messages", "bytes", least=1
    )
    state_dir: str | None = option(
        "stateDir",
        None,
        "a folder that every driver of this stream sees: what latest, a time or a group meant at the first start is"
        " kept there; without it such a stream is refused",
        kind=filled,
    )

    def problems(self) -> Iterable[str]:
        yield from security_problems(self, self.zookeeper_connect)
        yield from broker_security_problems(self)
        yield from _of_reading(self)
        yield from _of_release(self)
        if not self.bootstrap and not self.brokers and self.zookeeper_connect is None:
            yield "option 'kafka.bootstrap.servers' is missing: give host:port of some brokers, or zookeeper.connect"
        yield from _of_limits(self)

    @property
    def committed(self) -> bool:
        """True if messages of transactions are read only once these are committed."""
        return self.isolation == READ_COMMITTED

    @property
    def for_tasks(self) -> Self:
        """Return the options without passwords, to be pickled for tasks, which never use ZooKeeper.  Those for brokers
        are in the access that tasks get."""
        return replace(
            self,
            zookeeper_auth=None,
            zookeeper_ssl_key_password=None,
            ssl_key_password=None,
            sasl_password=None,
            sasl_callback_config=None,
        )

    @property
    def by_broker(self) -> bool:
        """True if partitions belong to brokers, so that a row has to name both."""
        return self.protocol != AUTO and dialect(self.protocol).partitions_by_broker

    @property
    def subscription(self) -> Subscription:
        """Return which partitions are read.  Raises OptionRefused."""
        return Subscription.of(self.assign, self.subscribe, self.subscribe_pattern)

    def bound_of_start(self, default: Bound) -> Bound:
        """Return the start: a time for all, times, offsets; the first that is given.  Raises OptionRefused."""
        return (
            bound_of("starting", self.starting_timestamp, self.starting_by_timestamp, self.starting_offsets) or default
        )

    def bound_of_end(self, default: Bound) -> Bound:
        """Return the end of a batch, by the first option that is given.  Raises OptionRefused."""
        return bound_of("ending", self.ending_timestamp, self.ending_by_timestamp, self.ending_offsets) or default

    @property
    def storage(self) -> Storage:
        """Return where the group keeps its offsets."""
        chosen = self.offsets_storage or ("kafka" if self.zookeeper_connect is None else "zookeeper")
        return cast(Storage, chosen)

    @property
    def limits(self) -> Limits:
        """Return the limits of tasks; an exact plan is taken as it is, a task for each range."""
        usual = PACK_BYTES if self.offset_ranges is None else 0
        pack_bytes = usual if self.pack_bytes is None else self.pack_bytes
        return Limits(self.min_partitions, self.max_records, self.max_bytes, pack_bytes)


# ---- the rules between them

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
    """Return the checked options of a query.  Raises OptionRefused with all problems.

    options    names in any case; Spark's dictionary or a plain one
    streaming  whether they are a stream's; None: not known yet, so what only one of the two refuses passes
    """
    _strict(spelled(SourceOptions, options))
    try:
        found = load(SourceOptions, options, WHERE, jvm=True)
    except OptionError as exc:
        raise OptionRefused.of(exc) from None
    if streaming is None:
        return found
    if problems := list(_of_stream(found) if streaming else _of_batch(found)):
        raise OptionRefused("; ".join(f"{WHERE}: {problem}" for problem in problems))
    for sentence in warnings_of(found):
        log.warning("%s", sentence)
    for name in sorted(given(found) & set(_TRIGGER)) if not streaming else ():
        log.warning("option %s means nothing in a batch", name)
    return found


def _strict(values: Mapping[str, str]) -> None:
    """Raise OptionRefused for an option that Spark does not have, if strictCompat is set."""
    if values.get("strictCompat", "").strip().lower() != "true":
        return
    extras = sorted(values.keys() - OF_SPARK - WITHOUT_EFFECT.keys() - PASSED_OVER)
    if extras:
        raise OptionRefused(f"strictCompat refuses what Spark's kafka format does not have: {', '.join(extras)}")


def _of_reading(options: SourceOptions) -> Iterator[str]:
    """Yield conflicts of what is read: fixed ranges, or a subscription."""
    ranges, per_task = options.offset_ranges, options.ranges_per_task
    if per_task is not None and (ranges is None or "packBytes" in given(options)):
        yield "option 'rangesPerTask' goes with offsetRanges, and not with packBytes"
    elif per_task is not None and ranges is not None and sum(per_task) != len(ranges):
        yield f"option 'rangesPerTask' adds up to {sum(per_task)}, and offsetRanges has {len(ranges)}"
    if ranges is None:
        yield from _refused(lambda: options.subscription)
    elif others := sorted(given(options) & set(_WITH_RANGES)):
        yield f"option 'offsetRanges' is an exact plan: leave out {', '.join(others)}"


def _of_limits(options: SourceOptions) -> Iterator[str]:
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        yield f"option 'minOffsetsPerTrigger' ({least}) is more than maxOffsetsPerTrigger ({most})"
    for name, number in (
        ("kafka.fetch.message.max.bytes", options.fetch_bytes), ("fetchBytesCap", options.fetch_bytes_cap),
        ("kafka.fetch.min.bytes", options.min_bytes), ("kafka.fetch.wait.max.ms", options.max_wait_ms),
    ):  # fmt: skip
        if number > _MOST_INT:
            yield f"option '{name}' is {number}, which does not fit a request: {_MOST_INT} is the most"
    if options.max_wait_ms >= options.socket_timeout_ms:
        yield (
            f"option 'kafka.fetch.wait.max.ms' ({options.max_wait_ms}) is not less than kafka.socket.timeout.ms"
            f" ({options.socket_timeout_ms}): a broker that waits that long would be taken for dead"
        )
    if options.fetch_bytes_cap < options.fetch_bytes:
        yield (
            f"option 'fetchBytesCap' ({options.fetch_bytes_cap}) is less than kafka.fetch.message.max.bytes"
            f" ({options.fetch_bytes})"
        )


def _of_start(options: SourceOptions, default: Bound) -> Iterator[str]:
    yield from _refused(lambda: options.bound_of_start(default))
    if _bound(lambda: options.bound_of_start(default)) is not Fixed.GROUP:
        return
    if options.group_id is None:
        yield "option 'kafka.group.id' is missing: startingOffsets=group needs the name of the group"
    if options.offsets_storage in ("zookeeper", "dual") and options.zookeeper_connect is None:
        yield f"option 'kafka.offsets.storage' is {options.offsets_storage}, which needs zookeeper.connect"


def _of_stream(options: SourceOptions) -> Iterator[str]:
    if options.offset_ranges is not None:
        yield "option 'offsetRanges' is for a batch: a stream has no fixed ranges"
    for name in sorted(given(options) & set(_ENDINGS)):
        yield f"option '{name}' is for a batch: a stream does not end"
    yield from _of_start(options, Fixed.LATEST)
    start = _bound(lambda: options.bound_of_start(Fixed.LATEST))
    if start is not None and moves(start) and options.state_dir is None:
        yield (
            "option 'stateDir' is missing: Spark asks for the first offsets of a stream several times and does not keep"
            " the first answer, so that a start at latest, at a time or at a group's position could skip messages: name"
            " a folder here, or numbers (or earliest) in startingOffsets"
        )


def moves(start: Bound) -> bool:
    """True if the start may mean other offsets later.  So may the earliest, but what it passed over is gone."""
    if isinstance(start, Offsets):
        return LATEST in start.at.values()
    return start is not Fixed.EARLIEST


def _of_batch(options: SourceOptions) -> Iterator[str]:
    yield from _of_start(options, Fixed.EARLIEST)
    yield from _refused(lambda: options.bound_of_end(Fixed.LATEST))
    start = _bound(lambda: options.bound_of_start(Fixed.EARLIEST))
    end = _bound(lambda: options.bound_of_end(Fixed.LATEST))
    for tp in _specially(start, LATEST):
        yield f"option 'startingOffsets': a batch does not begin at the latest offset{tp}: there is nothing behind it"
    for tp in _specially(end, EARLIEST):
        yield f"option 'endingOffsets': a batch does not end at the earliest offset{tp}: there is nothing before it"
    if end is Fixed.GROUP:
        yield "option 'endingOffsets': group says where to begin, not where to end"
    if isinstance(start, Offsets) and isinstance(end, Offsets):
        yield from _of_pairs(start.at, end.at, "startingOffsets", "endingOffsets")
    if isinstance(start, Times) and isinstance(end, Times):
        yield from _of_pairs(start.at_ms, end.at_ms, "startingOffsetsByTimestamp", "endingOffsetsByTimestamp")


def _specially(bound: Bound | None, number: int) -> Iterator[str]:
    """Yield where a bound is -1 or -2: "" for all partitions, else each partition by name."""
    if bound is (Fixed.LATEST if number == LATEST else Fixed.EARLIEST):
        yield ""
    if isinstance(bound, Offsets):
        yield from (f" of {tp}" for tp, offset in bound.at.items() if offset == number)


def _of_pairs(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], starting: str, ending: str
) -> Iterator[str]:
    """Yield conflicts of two bounds: both must name the same partitions, and none may begin behind its end."""
    if odd := in_order(start.keys() ^ end.keys()):
        yield f"options '{starting}' and '{ending}' name different partitions: {odd[0]} is in one only"
        return
    for tp, first in start.items():
        if 0 <= end[tp] < first:
            yield f"option '{starting}': {tp} begins at {first}, behind its end {end[tp]}"


def _of_release(options: SourceOptions) -> Iterator[str]:
    """Yield what a release lacks.  With protocol=auto nothing is known yet: the brokers are asked later."""
    spoken = None if options.protocol == AUTO else dialect(options.protocol)
    if spoken is not None and not spoken.describes_itself:
        yield from _of_strangers(options, spoken)
    elif options.brokers:
        yield f"option '{BROKERS}' is for brokers of Kafka 0.7: say protocol=0.7, or kafka.bootstrap.servers"
    if spoken is None:
        return
    called = f"Kafka {spoken.release}"
    if not spoken.offsets.count_messages:
        for name in sorted(given(options) & _COUNTED.keys()):
            yield f"option '{name}' counts messages, and offsets of {called} are bytes: use {_COUNTED[name]}"
    if not spoken.keeps_offsets and options.group_id is not None and options.zookeeper_connect is None:
        yield f"option 'kafka.group.id': groups of {called} keep their offsets in ZooKeeper: give zookeeper.connect"
    if not spoken.keeps_offsets and options.offsets_storage in ("kafka", "dual"):
        yield (
            f"option 'kafka.offsets.storage' is {options.offsets_storage}, and brokers of {called} keep no offsets:"
            " only ZooKeeper has them"
        )


def _of_strangers(options: SourceOptions, spoken: Dialect) -> Iterator[str]:
    """Yield problems of finding brokers that do not describe each other."""
    what = f"brokers of Kafka {spoken.release} tell nothing of each other"
    if options.bootstrap:
        yield f"option 'kafka.bootstrap.servers': {what}: zookeeper.connect finds them"
    elif not options.brokers and options.zookeeper_connect is None:
        yield f"option 'zookeeper.connect' is missing: {what}"
    elif options.brokers and options.zookeeper_connect is not None:
        yield f"option '{BROKERS}' goes without zookeeper.connect, which finds the brokers"
    elif options.brokers and options.assign is None and options.offset_ranges is None:
        yield (
            f"option '{BROKERS}' says which brokers there are, not which partitions they have: name those in assign or"
            " offsetRanges, or give zookeeper.connect instead"
        )


def _refused(read: Callable[[], object]) -> Iterator[str]:
    """Yield why a text cannot be read: what an option says is read where it is used, too."""
    try:
        read()
    except OptionRefused as exc:
        yield exc.problem


def _bound(read: Callable[[], Bound]) -> Bound | None:
    """Return the bound, or None if its text cannot be read."""
    try:
        return read()
    except OptionRefused:
        return None


def without_passwords(options: Mapping[str, str]) -> dict[str, str]:
    """Return options as a user gives them, without those that only the driver may see.  Names in any case."""
    secret = {name.lower() for spec in specs(SourceOptions).values() if spec.secret for name in (spec.key, *spec.old)}
    return {name: value for name, value in options.items() if name.lower() not in secret}


def read_options(options: SourceOptions, columns: tuple[str, ...], plan_time_ms: int) -> ReadOptions:
    """Return the options that tasks read with."""
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
