"""The options of a mirror, section by section.  Each exists once: loading, checking and the reference come from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from groundwork.decimals import decimal_int
from groundwork.hosts import host_list
from groundwork.java import CLASS_NAME
from groundwork.lineserver import PathTooLong, check_path
from groundwork.logs import FORMS, LEVELS
from groundwork.named import NotLoaded, load_named
from groundwork.options import CLASS, Options, option, specs
from groundwork.zkconnect import connect_or_none
from kafkawire import optiontypes
from kafkawire.compression import CODECS
from kafkawire.dialects import Dialect, Store, expected
from kafkawire.model import TopicPartition
from kafkawire.topicnames import why_never_written
from mirrormaker.badmessages import POLICIES, Policies
from mirrormaker.listen import Address, listen_address
from mirrormaker.losses import FIELDS
from mirrormaker.partitioning import Numbering, numbering
from mirrormaker.selection import group_renames, prefix, renames, topic_filter
from mirrormaker.topiclimits import TopicLimits
from mirrormaker.topicsettings import NO_SETTINGS, TopicSettings, topic_settings
from producer.config import ProducerConfig, brokers
from producer.partitioners import UNKEYED
from zkconsumer.filters import TopicFilter, Whitelist
from zkconsumer.options.config import NEWER_RESETS, ConsumerConfig

MAX_WORKERS = 64
BOTH: tuple[Store, ...] = ("kafka", "zookeeper")
PARTITIONINGS = ("auto", "identity", "key")
POLICY_FIELDS = {
    "oversize": "oversize_policy",
    "corrupt": "corrupt_policy",
    "undecodable": "undecodable_policy",
    "handler": "handler_error_policy",
    "refused": "refused_policy",
}  # fields of MirrorOptions and TopicOverride, by kind of bad message


def short_name(raw: object) -> str:
    """Option type: text that a log and the name of a file can have."""
    if not isinstance(raw, str) or not raw.isprintable() or len(raw) > 100:
        raise ValueError("printable text of at most 100 characters")
    return raw


def replication(raw: object) -> int:
    number = decimal_int(str(raw).strip())
    if isinstance(raw, bool) or number is None:
        raise ValueError("a whole number; 0 takes the source's")
    return number


def droppable(raw: object) -> tuple[str, ...]:
    """Fields of messages, as a list or with commas between them."""
    found = raw if isinstance(raw, list | tuple | set | frozenset) else str(raw).split(",")
    names = {str(name).strip() for name in found} - {""}
    if not names <= set(FIELDS):
        raise ValueError(" or ".join((*FIELDS, ",".join(FIELDS))))
    return tuple(name for name in FIELDS if name in names)


def socket_path(raw: object) -> str:
    """A path of a Unix socket, or none.  Raises ValueError."""
    text = str(raw).strip()
    if text and text != "none":
        if not text.startswith("/"):
            raise ValueError("an absolute path, or none")
        try:
            check_path(Path(text))
        except PathTooLong as reason:
            raise ValueError(f"a shorter path: {reason}") from reason
    return text


def no_partitions(raw: object) -> tuple[TopicPartition, ...]:
    raise ValueError("nothing: a mirror shares the topics of its source with the other mirrors of its group")


@dataclass(frozen=True, slots=True)
class SourceOptions(ConsumerConfig):
    """A source cluster: the consumer's options, and those that only a mirror has."""

    name: str = option(
        "name", "", "name of the source in logs, status and file names; default: its place in the list",
        kind=short_name,
    )  # fmt: skip
    topic_prefix: str = option(
        "topic.prefix", "", "begins the names of this source's topics in the target, such as dc1.; not of renamed ones",
        kind=prefix,
    )  # fmt: skip
    topic_rename: Mapping[str, str] = option(
        "topic.rename", {}, "names in the target of this source's topics, source: target; before mirror.topic.rename",
        kind=renames,
    )  # fmt: skip
    auto_offset_reset: str = option(
        "auto.offset.reset",
        "smallest",
        "first offset if none is committed or it is outside the log: smallest, largest (skips) or fail (parks)",
        old="autooffset.reset",
        choices=("smallest", "largest", "fail"),
        newer=NEWER_RESETS,
    )
    partitions: tuple[TopicPartition, ...] = option(
        "partitions", (), "refused: only programs may read fixed partitions",
        kind=no_partitions,
    )  # fmt: skip
    isolation_level: str = option(
        "isolation.level", "read_committed", "read_committed alone: what was aborted is not mirrored",
        choices=("read_committed",),
    )  # fmt: skip
    corrupt_policy: str = option(
        "corrupt.message.policy",
        "park",
        "park alone: mirror.corrupt.policy says what is done about damaged messages",
        choices=("park",),
    )
    version: str = option(
        "version",
        "",
        "Kafka release of the brokers; default: they are asked",
        old="kafka.version",
        kind=optiontypes.release,
    )
    broker_partitions: Numbering = option(  # noqa: RUF009  # a Numbering never changes
        "broker.partitions", Numbering(),
        "partitions by broker of a source of 0.7, 0:2,1:3: numbers for them, one broker after the other",
        kind=numbering,
    )  # fmt: skip

    def idle(self) -> Iterable[tuple[str, str]]:
        return ()  # mirrormaker.config warns of them, by the name of the source


@dataclass(frozen=True, slots=True)
class TargetOptions(ProducerConfig):
    """The target cluster: the producer's options, and those that only a mirror has."""

    PREFIX: ClassVar = "target.zookeeper"
    NOT_LOADED: ClassVar = frozenset(
        {"partitioner.class", "serializer.class", "key.serializer.class", "callback.handler", "event.handler"}
    )

    brokers: tuple[tuple[str, int], ...] = option(
        "metadata.broker.list", (), "bootstrap brokers, host:port,…; not for 0.7: its brokers know no others",
        old="broker.list", kind=brokers, required=True,
        instead=("target.zookeeper.connect", "zookeeper.connect"),
    )  # fmt: skip
    zookeeper: str = option(
        "target.zookeeper.connect",
        "",
        "ZooKeeper of the target, host:port,host:port/chroot: creates missing topics where brokers have no request for "
        "it (up to 0.10.0), adds partitions (up to 0.11) and creates offset.map.topic; for 0.7 required, and alone",
        kind=connect_or_none,
    )
    # No target.zookeeper.set.acl: the brokers must be able to write below a topic that the mirror creates.
    version: str = option(
        "target.version",
        "",
        "Kafka release of the brokers; default: they are asked",
        old="kafka.version",
        kind=optiontypes.release,
    )
    message_max_bytes: int = option(
        "target.message.max.bytes",
        1000012,
        "the brokers' message.max.bytes: larger sets are split",
        "bytes",
        old="max.message.size",
        least=1024,
    )
    retries: int = option(
        "message.send.max.retries", -1, "a mirror retries forever; other values are a warning", old="num.retries"
    )
    partitioner: str = option(
        "partitioner.class",
        "",
        "partitioner of keys: package.module:function of (key, partition count), an entry point, murmur2, or a JVM "
        "class; or random, round-robin, sticky, for all messages; default: mirror.partitioning alone decides",
        kind=CLASS,
    )
    unkeyed: str = option(
        "unkeyed.partitioner", "",
        "partitioner of messages without a key, if keys decide; default: all of a source partition go to one target "
        "partition, in order",
        choices=UNKEYED,
    )  # fmt: skip
    encoder: str = option(
        "serializer.class", "",
        "encoder of values: package.module:function from bytes or None to the bytes that are sent; default: none",
        kind=CLASS,
    )  # fmt: skip
    key_encoder: str = option(
        "key.serializer.class", "", "encoder of keys, not called for messages without a key; default: serializer.class",
        kind=CLASS,
    )  # fmt: skip
    replication: int = option(
        "target.replication.factor", 0, "replicas of topics the mirror creates; 0: the source's, at most one a broker",
        kind=replication,
    )  # fmt: skip
    topic_settings: TopicSettings = option(  # noqa: RUF009  # TopicSettings never change
        "target.topic.configs", NO_SETTINGS,
        "settings of topics the mirror creates, separated by commas: NAME copies the source topic's own setting "
        "(not its brokers' default), NAME=VALUE sets one; default: the target's own",
        kind=topic_settings,
    )  # fmt: skip

    topic_max_partitions: int = option(
        "target.topic.max.partitions", TopicLimits().of_topic,
        "most partitions of a topic that the mirror creates or grows; one that has more at its source is held "
        "back", least=1,
    )  # fmt: skip
    max_partitions: int = option(
        "target.max.partitions", TopicLimits().in_all,
        "most partitions of the whole target, beyond which the mirror creates and grows no topic",
        least=1,
    )  # fmt: skip
    max_new_topics: int = option(
        "target.max.new.topics.per.minute", TopicLimits().a_minute,
        "most topics that the mirror (each of its workers) creates within a minute; the others follow", least=1,
    )  # fmt: skip

    @property
    def topic_limits(self) -> TopicLimits:
        return TopicLimits(self.topic_max_partitions, self.max_partitions, self.max_new_topics)

    @property
    def address(self) -> str:
        """Return the target's address for a reader: its bootstrap brokers, of 0.7 its ZooKeeper."""
        return ",".join(f"{host}:{port}" for host, port in self.brokers) or self.zookeeper

    @property
    def zookeeper_given(self) -> str:
        return self.zookeeper

    def acks_problems(self, spoken: Dialect) -> Iterable[str]:
        return ()  # a mirror takes more than 1 as -1, with a warning: config._target

    def queue_problems(self) -> Iterable[str]:
        return ()  # queue.buffering.max.messages has no effect in a mirror

    def address_problems(self) -> Iterable[str]:
        if self.zookeeper_connect and self.brokers:
            yield (
                "'zookeeper.connect' (zk.connect) finds no brokers for a mirror: leave it out, and give "
                "'target.zookeeper.connect' for topics to be created"
            )

    def problems(self) -> Iterable[str]:
        yield from ProducerConfig.problems(self)
        spoken = expected(self.version)
        if spoken.describes_itself and not self.brokers:
            found = "; of a later release than 0.7 'zookeeper.connect' (zk.connect) finds none"
            yield (
                "option 'metadata.broker.list' is missing: bootstrap brokers, host:port,…"
                f"{found if self.zookeeper_connect else ''}"
            )
        if not spoken.describes_itself and not self.zookeeper:
            yield f"'target.zookeeper.connect' is missing: only ZooKeeper knows the partitions of Kafka {self.version}"
        if not spoken.describes_itself and self.zookeeper and self.zookeeper_connect not in (None, "", self.zookeeper):
            yield (
                f"'zookeeper.connect' (zk.connect) is {self.zookeeper_connect}, and 'target.zookeeper.connect' "
                f"{self.zookeeper}: the target has one ZooKeeper; leave the first out"
            )
        if not spoken.describes_itself and self.brokers:
            yield (
                f"'metadata.broker.list': brokers of Kafka {spoken.release} do not describe the cluster; give "
                "'target.zookeeper.connect' alone"
            )


@dataclass(frozen=True, slots=True)
class TopicOverride(Options):
    """Options of some topics: an entry of `mirror.topic.overrides`."""

    SECTION: ClassVar = "mirror."
    topics: str = option("topics", "", "the source topics it is for: a Java regex, commas mean 'or'", required=True)
    codec: str | None = option(
        "compression.codec", None, "codec at the target; default: the target's",
        choices=tuple(CODECS),
    )  # fmt: skip
    partitioning: str | None = option(
        "partitioning", None, "as mirror.partitioning, for these topics", choices=PARTITIONINGS
    )
    partitioner: str | None = option("partitioner.class", None, "as partitioner.class of the target, for these topics")
    oversize_policy: str | None = option(
        "oversize.policy", None, "policy for these topics; default: that of all", choices=POLICIES
    )
    corrupt_policy: str | None = option(
        "corrupt.policy", None, "policy for these topics; default: that of all", choices=POLICIES
    )
    undecodable_policy: str | None = option(
        "undecodable.policy", None, "policy for these topics; default: that of all", choices=POLICIES
    )
    handler_error_policy: str | None = option(
        "handler.error.policy", None, "policy for these topics; default: that of all", choices=POLICIES
    )
    refused_policy: str | None = option(
        "refused.policy", None, "policy for these topics; default: that of all", choices=POLICIES
    )

    def problems(self) -> Iterable[str]:
        try:
            Whitelist(self.topics)
        except ValueError as exc:
            yield f"option 'topics' is {self.topics!r}: {exc}"

    @property
    def options(self) -> dict[str, object]:
        """Return the options that the entry gives, by key."""
        values = {spec.key: getattr(self, name) for name, spec in specs(type(self)).items() if name != "topics"}
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class MirrorOptions(Options):
    """Options of what is mirrored, and how."""

    SECTION: ClassVar = "mirror."
    MEANT: ClassVar = {
        "topics": "whitelist",
        "include": "whitelist",
        "exclude": "blacklist",
        "topics.exclude": "blacklist",
    }

    name: str = option(
        "name", "", "name of the mirror in status, metrics and systemd; default: that of its file, without the suffix",
        kind=short_name,
    )  # fmt: skip
    whitelist: str = option(
        "whitelist", "", "topics to mirror: a Java regex, commas mean 'or'", old="mirror.topics.whitelist"
    )
    blacklist: str = option(
        "blacklist",
        "",
        "topics not to mirror: a Java regex, commas mean 'or'; wins over the whitelist, alone: all but these",
        old="mirror.topics.blacklist",
    )
    topic_rename: Mapping[str, str] = option(
        "topic.rename", {}, "names of topics in the target, source: target; others keep theirs",
        kind=renames,
    )  # fmt: skip
    reserved_topics: str = option(
        "reserved.topics",
        "",
        "topics of the target that no message is written to, such as those of other mirrors: a Java regex, commas mean "
        "'or'",
    )
    num_streams: int = option(
        "num.streams",
        1,
        "number of streams of each source: threads in its registration",
        old="mirror.consumer.numthreads",
        least=1,
    )
    workers: int = option(
        "workers",
        1,
        "number of daemon processes that work as one mirror; also `run --workers`",
        least=1,
    )
    commit_interval_ms: int = option(
        "offset.commit.interval.ms", 5000, "interval between commits of what the target acknowledged", "ms", least=100
    )
    handler: str = option(
        "message.handler",
        "",
        "package.module:function, called with each message; returns what is sent",
    )
    set_handler: str = option(
        "message.set.handler",
        "",
        "package.module:function, called with whole fetched sets as columns (mirrormaker.sethandler); not beside"
        " message.handler",
    )
    partitioning: str = option(
        "partitioning",
        "auto",
        "identity keeps the number, key hashes the key as 0.8.2's producer does; auto: identity if there are enough",
        choices=PARTITIONINGS,
    )
    drop_fields: tuple[str, ...] = option(
        "drop.fields", (),
        "headers, timestamps: fields that messages lose, counted, if the target's message format has no room for "
        "them; default: a message that has one parks its partition", kind=droppable,
    )  # fmt: skip
    grow: bool = option(
        "target.grow.partitions",
        False,
        "true: target topics get as many partitions as their source topics (up to 0.11 by target.zookeeper.connect)",
    )
    overrides: tuple[TopicOverride, ...] = option(
        "topic.overrides", (), "other settings for some topics; of each the first entry that matches and gives it holds"
    )
    control_socket: str = option(
        "control.socket",
        "",
        "path of the Unix socket for commands, or none; default: NAME.sock in systemd's runtime folder, else in one of "
        "the user's own",
        kind=socket_path,
    )
    state_folder: str = option(
        "state.folder",
        "",
        "folder for pauses and throttles that are kept over restarts; default: systemd's state folder, else none",
    )
    start_timeout_ms: int = option(
        "start.timeout.ms",
        30000,
        "time the target, or all sources, may be out of reach at start before exit 69; if one source runs, the others "
        "are retried forever",
        "ms",
        least=0,
    )
    parked_retry_ms: int = option(
        "parked.retry.ms", 60000, "interval between retries of a parked partition; 0: at the next start only", "ms",
        least=0,
    )  # fmt: skip
    oversize_policy: str = option(
        "oversize.policy", "park",
        "a message larger than the target takes, or than fetch.growth.max.bytes: park, dead-letter, skip or fail",
        choices=POLICIES,
    )  # fmt: skip
    corrupt_policy: str = option(
        "corrupt.policy", "park",
        "a message whose checksum is wrong here or at the target, fetched 4 times: park, dead-letter, skip or fail",
        choices=POLICIES,
    )  # fmt: skip
    undecodable_policy: str = option(
        "undecodable.policy", "park",
        "a message of an unknown format, or that does not decompress or encode: park, dead-letter, skip or fail",
        choices=POLICIES,
    )  # fmt: skip
    handler_error_policy: str = option(
        "handler.error.policy", "park",
        "a message that message.handler raises for, or returns rubbish: park, dead-letter, skip or fail",
        choices=POLICIES,
    )  # fmt: skip
    refused_policy: str = option(
        "refused.policy", "park",
        "a whole message that the target refuses for what it is (its timestamp, no key for a compacted topic): park,"
        " dead-letter, skip or fail", choices=POLICIES,
    )  # fmt: skip
    dead_letter_topic: str = option(
        "dead.letter.topic", "", "topic of the target for dead letters; with one partition where the mirror creates it"
    )
    status_interval_ms: int = option("status.interval.ms", 10000, "interval between status lines", "ms", least=100)
    http_listen: Address | None = option(  # noqa: RUF009  # an Address never changes
        "http.listen", None, "host:port, or a port of 127.0.0.1, for the status page, /metrics, /livez, /readyz and"
        " /status; default: none", kind=listen_address,
    )  # fmt: skip
    http_hosts: tuple[str, ...] = option(
        "http.hosts", (), "names that clients may use for http.listen, beside addresses, names without a dot and this "
        "machine's: a list; .example.com is a whole domain, * any name", kind=host_list,
    )  # fmt: skip
    log_level: str = option("log.level", "info", "lowest level of log lines; also `run --log-level`", choices=LEVELS)
    log_format: str = option(
        "log.format", "logfmt", "form of log lines: logfmt, or a JSON object a line; also `run --log-format`",
        choices=FORMS,
    )  # fmt: skip
    resume: str = option(
        "resume",
        "committed",
        "where a start begins: committed, at least once; target-end: behind what the target has, once",
        choices=("committed", "target-end"),
    )
    guarantee: str = option(
        "delivery.guarantee",
        "at-least-once",
        "exactly-once: messages and source offset are committed in one transaction of the target (0.11 and later), "
        "whose consumers read with isolation.level read_committed",
        choices=("at-least-once", "exactly-once"),
    )
    transactional_id_prefix: str = option(
        "transactional.id.prefix",
        "",
        "prefix of the transactional ids, and of the groups that keep offsets in the target; default: the source's "
        "group.id",
    )
    transaction_interval_ms: int = option(
        "transaction.interval.ms", 500,
        "interval between the transactions of a partition; read_committed consumers see messages that much later",
        "ms", least=1,
    )  # fmt: skip
    transaction_timeout_ms: int = option(
        "transaction.timeout.ms", 60000,
        "time after which the target aborts a transaction of a mirror that is gone; read_committed consumers wait "
        "until then", "ms", least=1000,
    )  # fmt: skip
    map_folder: str = option(
        "offset.map.folder",
        "",
        "folder of the offset maps, a file for each source; default: systemd's state folder, else none is kept",
    )
    map_topic: str = option(
        "offset.map.topic",
        "",
        "compacted topic of the target for the map instead, with one partition; created by target.zookeeper.connect",
    )
    map_every_messages: int = option(
        "offset.map.every.messages", 1000, "offsets of a target partition between two entries of the map", least=1
    )
    map_every_ms: int = option(
        "offset.map.every.ms",
        10000,
        "interval after which what was acknowledged is written and synced",
        "ms",
        least=100,
    )
    groups: str = option(
        "groups", "",
        "groups of the sources whose offsets follow to the target, translated by the offset map: a Java regex, commas "
        "mean 'or'; default: none",
    )  # fmt: skip
    groups_interval_ms: int = option(
        "groups.interval.ms", 60000, "interval at which the offsets of groups follow", "ms", least=1000
    )
    groups_store: str = option(
        "groups.store", "",
        "where the target keeps the offsets of these groups: zookeeper, kafka or both; default: zookeeper with "
        "target.zookeeper.connect, else kafka",
        choices=("zookeeper", "kafka", "both"),
    )  # fmt: skip
    groups_rename: Mapping[str, str] = option(
        "groups.rename", {}, "names of groups in the target, source: target; others keep theirs, behind groups.prefix",
        kind=group_renames,
    )  # fmt: skip
    groups_prefix: str = option(
        "groups.prefix", "", "begins the names of groups in the target, such as dc1.; not of renamed ones",
        kind=prefix,
    )  # fmt: skip
    map_max_bytes: int = option(
        "offset.map.max.bytes", 16 << 20, "size above which older entries are halved: old offsets lose precision",
        "bytes", least=1 << 16,
    )  # fmt: skip

    def problems(self) -> Iterable[str]:
        yield from self.worker_problems()
        if not self.whitelist and not self.blacklist:
            yield "'whitelist', 'blacklist' or both must say which topics are mirrored; none is given"
        refused = False
        lists = (
            ("whitelist", self.whitelist),
            ("blacklist", self.blacklist),
            ("reserved.topics", self.reserved_topics),
            ("groups", self.groups),
        )
        for key, text in lists:
            if text:
                try:
                    Whitelist(text)
                except ValueError as exc:
                    refused = True
                    yield f"option '{key}' is {text!r}: {exc}"
        if self.whitelist and self.blacklist and not refused:
            try:
                topic_filter(self.whitelist, self.blacklist)
            except ValueError as exc:
                yield f"options 'whitelist' and 'blacklist' together: {exc}"
        for key, topic in (("offset.map.topic", self.map_topic), ("dead.letter.topic", self.dead_letter_topic)):
            if why := why_never_written(topic):
                yield f"'{key}' is {topic}, {why}"
        if self.handler and self.set_handler:
            yield "'message.handler' and 'message.set.handler' are both given: keep one"
        for key, named in (("message.handler", self.handler), ("message.set.handler", self.set_handler)):
            if CLASS_NAME.fullmatch(named):
                yield (
                    f"option '{key}' is {named!r}, a class of the JVM: name a Python function as "
                    "package.module:function; where it renames topics, 'topic.rename' (old:new,…) of the source or of "
                    "the mirror does that"
                )
            elif named:
                try:
                    load_named(key, named)
                except NotLoaded as exc:
                    yield str(exc)
        given = self.policies_given
        if "dead-letter" in given and not self.dead_letter_topic:
            yield f"{' and '.join(sorted(given['dead-letter']))}: dead-letter needs 'dead.letter.topic'"
        if self.exactly_once and self.resume == "target-end":
            yield (
                "'delivery.guarantee: exactly-once' goes on at the position in the target, and 'resume: target-end' "
                "behind what the target has: keep one"
            )
        if self.exactly_once and self.transaction_timeout_ms < 2 * self.transaction_interval_ms:
            yield (
                f"'transaction.timeout.ms' ({self.transaction_timeout_ms}) must be at least twice "
                f"'transaction.interval.ms' ({self.transaction_interval_ms}): the target would abort what takes longer"
            )
        if self.resume == "target-end" and (given.keys() & {"dead-letter", "skip"}):
            places = ", ".join(sorted(given.get("dead-letter", set()) | given.get("skip", set())))
            yield (
                f"{places}: 'resume: target-end' compares what the target has with the source, so nothing may be left "
                "out: choose park or fail, or set resume: committed"
            )

    def worker_problems(self) -> Iterable[str]:
        """Yield sentences saying why this cannot be run in several processes."""
        if self.workers > MAX_WORKERS:
            yield f"'workers' is {self.workers}: at most {MAX_WORKERS}; more than CPU cores gain nothing"
        if self.workers > 1 and self.resume == "target-end":
            yield (
                f"'workers' is {self.workers} with 'resume: target-end': a partition that moves to another process is "
                "refused by it, since only the one before knows the last point; set delivery.guarantee: exactly-once, "
                "which needs no such point, or workers: 1"
            )

    def group_stores(self, target: TargetOptions) -> tuple[Store, ...]:
        """Return the stores of the target that get the offsets of groups."""
        chosen = self.groups_store or ("zookeeper" if target.zookeeper else "kafka")
        return BOTH if chosen == "both" else (cast(Store, chosen),)

    @property
    def exactly_once(self) -> bool:
        return self.guarantee == "exactly-once"

    def for_topic(self, topic: str) -> TopicOverride:
        """Return the options of a source topic that differ; None for the others."""
        found: dict[str, Any] = {}
        for override in self.overrides:
            if Whitelist(override.topics).matches(topic):
                mine = {f.name: getattr(override, f.name) for f in dataclasses.fields(override) if f.name != "topics"}
                found |= {name: value for name, value in mine.items() if value is not None and name not in found}
        return TopicOverride(topics=topic, **found)

    def policies(self, topic: str) -> Policies:
        """Return the policies for the bad messages of a source topic."""
        found = self.for_topic(topic)
        return Policies(**{kind: getattr(found, name) or getattr(self, name) for kind, name in POLICY_FIELDS.items()})

    @property
    def policies_given(self) -> dict[str, set[str]]:
        """Each policy that is not park, and where it is asked for: `oversize.policy`, `oversize.policy of a|b`."""
        given: dict[str, set[str]] = {}
        for name in POLICY_FIELDS.values():
            key = specs(type(self))[name].key
            places = {key: getattr(self, name)} | {
                f"{key} of {one.topics}": getattr(one, name) for one in self.overrides
            }
            for place, policy in places.items():
                if policy not in (None, "park"):
                    given.setdefault(policy, set()).add(place)
        return given

    def map_topic_of(self, source: str, several: bool) -> str:
        """Return the topic of a source's offset map; "": it is kept in none.  several: the mirror has other sources."""
        return f"{self.map_topic}.{source}" if self.map_topic and several else self.map_topic

    def own_topics(self, sources: Iterable[str]) -> dict[str, str]:
        """Return the topics of the target that the mirror writes for itself, each with the option that names it.

        sources: the names of all.  Maps are named with one source and with several: one may be added.
        """
        found = {self.dead_letter_topic: "dead.letter.topic", self.map_topic: "offset.map.topic"}
        found |= {self.map_topic_of(source, True): "offset.map.topic" for source in sources}
        return {topic: option for topic, option in found.items() if topic}

    @property
    def topics(self) -> TopicFilter:
        return topic_filter(self.whitelist, self.blacklist)


@dataclass(frozen=True, slots=True)
class FileOptions(Options):
    """A configuration file."""

    sources: tuple[SourceOptions, ...] = option("sources", (), "source clusters, each with its consumer", required=True)
    target: TargetOptions = option("target", None, "the target cluster", required=True)  # noqa: RUF009
    mirror: MirrorOptions = option("mirror", None, "what is mirrored, and how", required=True)  # noqa: RUF009
