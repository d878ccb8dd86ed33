"""Options of a load job, and the YAML file with them.

Each option exists once: reading, checking and the reference page come from its field.  A job is one file, flat, with
Kafka's own names where Kafka has the thing:

    base: hdfs://namenode:8020/warehouse/kafka
    zookeeper.connect: zk1:2181,zk2:2181/kafka
    topics: [orders, payments]
    group.id: hadoop-loader

Errors, duplicate and wrong options raise OptionRefused, whose message lists all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, cast

from groundwork.javachars import PatternRefused
from groundwork.javaregex import to_python
from groundwork.optionfiles import yaml_file
from groundwork.options import OptionError, given, load, option
from groundwork.optionvalues import filled
from groundwork.zkconnect import connect_string
from groundwork.zksecurity import security_problems
from kafkawire import optiontypes
from kafkawire.dialects import Dialect, dialect
from kafkawire.model import TopicPartition
from kafkawire.securityoptions import NEWER as NEWER_SECURITY
from kafkawire.securityoptions import SecurityOptions, broker_security_problems
from sparkpipeline.cluster.access import AUTO, release_or_auto
from sparkpipeline.driver.queryoptions import READ_COMMITTED, headers_option, isolation_option
from sparkpipeline.errors import OptionRefused
from sparkpipeline.ledger.formats import FORMATS, FileFormat
from sparkpipeline.ledger.jsonlines import JSON, JSON_TEXT
from sparkpipeline.load.hourrules import CALLABLE, FIELD, MESSAGE, SOURCES, UNITS, is_function, is_json_path
from sparkpipeline.source.sourceoptions import Storage

MIB, GIB = 1 << 20, 1 << 30
FAIL, SKIP, QUARANTINE = "fail", "skip", "quarantine"  # values of corrupt.policy
MAX_REQUEST_INT = (1 << 31) - 1  # a fetch says its size in 32 bits


# ---- option types ----------------------------------------------------------------------------------------------------

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")


def base_folder(raw: object) -> str:
    """Option type: a URI or an absolute path, without a slash at its end.

    A relative path would mean another folder each time.
    """
    found = filled(raw).rstrip("/")
    if not found.startswith("/") and not _SCHEME.match(found):
        raise ValueError("a URI such as hdfs://namenode:8020/warehouse/kafka, or an absolute path")
    return found


def java_pattern(raw: object) -> str:
    """Option type: a Java regular expression that means the same in Python."""
    found = filled(raw)
    try:
        to_python(found)
    except PatternRefused as exc:
        raise ValueError(f"a Java regular expression ({exc})") from None
    return found


def json_path(raw: object) -> str:
    """Option type: $.field, $.outer.inner, $.list[0].field, what Spark's get_json_object takes."""
    found = filled(raw)
    if not is_json_path(found):
        raise ValueError("a path such as $.created or $.meta.at")
    return found


def function(raw: object) -> str:
    """Option type: package.module:function, which is loaded once a plan is made."""
    found = filled(raw)
    if not is_function(found):
        raise ValueError("package.module:function")
    return found


@dataclass(frozen=True, slots=True)
class LoadConfig(SecurityOptions):
    """Options of one load job.  Made by read_config, or in code by keywords."""

    NEWER: ClassVar[Mapping[str, str]] = NEWER_SECURITY

    # ---- where it loads to
    base: str = option(
        "base",
        "",
        "folder of the job, as hdfs://.., s3a://.., file:/.. or a path: data/ and _load/ are made below it",
        kind=base_folder,
        required=True,
    )
    name: str = option(
        "name", "load", "what logs, Spark's own pages and the lock in ZooKeeper call the job", kind=optiontypes.name
    )

    # ---- the cluster
    bootstrap: tuple[tuple[str, int], ...] = option(
        "bootstrap.servers",
        (),
        "brokers to ask first, host:port,host:port; those that ZooKeeper knows when empty",
        old="metadata.broker.list",
        kind=optiontypes.brokers,
    )
    zookeeper_connect: str | None = option(
        "zookeeper.connect",
        None,
        "the cluster's ZooKeeper, host:port,host:port/chroot: finds the brokers, holds the lock of the job, and the"
        " group's offsets",
        old="zk.connect",
        kind=connect_string,
    )
    zookeeper_timeout_ms: int = option(
        "zookeeper.session.timeout.ms", 10000, "how long ZooKeeper may be silent", "ms", least=100
    )
    protocol: str = option(
        "protocol", "auto", "what the brokers speak: auto asks one; else 0.8, 0.9, 0.10 or a release such as 0.8.2;"
        " 0.7 must be said, and needs zookeeper.connect",
        kind=release_or_auto,
    )  # fmt: skip
    client_id: str = option("client.id", "sparkpipeline", "how the brokers' logs name us", kind=filled)
    socket_timeout_ms: int = option("socket.timeout.ms", 30000, "how long a broker may take to answer", "ms", least=100)
    retries: int = option("retries", 3, "how often a question is asked again, and a fetch after a lost leader", least=0)
    retry_interval_ms: int = option("retry.backoff.ms", 1000, "wait before that", "ms", least=0)
    fetch_bytes: int = option(
        "fetch.message.max.bytes",
        4 * MIB,
        "most of one partition in a fetch; doubled for a message that does not fit",
        "bytes",
        old="fetch.size",
        least=1024,
    )
    fetch_bytes_cap: int = option(
        "fetch.bytes.cap", 64 * MIB, "how far it may be doubled: larger messages are an error", "bytes", least=1024
    )

    # ---- what it loads
    topics: tuple[str, ...] = option("topics", (), "topics to load, by name", kind=optiontypes.topics)
    topics_pattern: str | None = option(
        "topics.pattern", None, "or all whose whole name a Java regular expression matches", kind=java_pattern
    )
    partitions: tuple[TopicPartition, ...] = option(
        "partitions",
        (),
        "or just these: {orders: [0, 3]}, or as text orders:0,3;payments:1",
        kind=optiontypes.partitions,
    )
    starting_offsets: str = option(
        "starting.offsets",
        "earliest",
        "where a partition begins that was never loaded; `load init` takes the positions of an older loader instead",
        choices=("earliest", "latest"),
    )
    out_of_range: str = option(
        "out.of.range",
        "fail",
        "when messages that were not loaded yet are gone from the log: fail, or earliest: go on at what is left, and"
        " count and report the gap",
        choices=("fail", "earliest"),
    )
    corrupt_policy: str = option(
        "corrupt.policy",
        FAIL,
        "damaged messages: fail; or skip them, counted in each range (damaged) and in the summary; or quarantine: skip"
        " them, and keep their bytes below _load/quarantine",
        choices=(FAIL, SKIP, QUARANTINE),
    )
    compacted: tuple[str, ...] = option(
        "compacted.topics", (), "topics whose log is compacted: missing offsets are counted there, an error elsewhere",
        kind=optiontypes.topics,
    )  # fmt: skip
    batch_bytes: int = option(
        "batch.bytes",
        16 * GIB,
        "estimated bytes of a batch at most, shared by how far partitions are behind: a run loads batch after batch,"
        " each committed on its own, up to where logs ended when it began",
        "bytes",
        least=1,
    )
    batch_rows: int | None = option("batch.rows", None, "offsets of a batch at most", least=1)
    portion_bytes: int = option(
        "portion.bytes",
        2 * GIB,
        "size of the portions in which a batch is read; those finished when its driver dies are not read again",
        "bytes",
        least=1,
    )
    limit_rows: int | None = option(
        "limit.rows", None, "most offsets in one run, shared by how far partitions are behind", least=1
    )
    limit_bytes: int | None = option(
        "limit.bytes", None, "the same in bytes, by the average size of a topic's messages in its last load", "bytes",
        least=1,
    )  # fmt: skip

    # ---- tasks and files
    split_bytes: int = option(
        "split.bytes",
        1024 * MIB,
        "ranges estimated larger are split; each piece has files of its own",
        "bytes",
        least=1,
    )
    pack_bytes: int = option("pack.bytes", 64 * MIB, "small ranges share a task up to this estimate", "bytes", least=1)
    output_format: str = option(
        "output.format",
        "parquet",
        "of the files: Parquet, ORC, or JSON lines; a job keeps the one that it began with",
        choices=("parquet", "orc", "json"),
    )
    json_values: str = option(
        "json.values",
        "base64",
        "with json: keys and values as base64 of their bytes; or as text, with base64 in fields keyBase64 and"
        " valueBase64 where the bytes are no UTF-8",
        choices=("base64", "text"),
    )
    compression: str | None = option(
        "compression",
        None,
        "of the files: snappy when empty, of JSON lines gzip; those take gzip and none only",
        choices=("snappy", "gzip", "zstd", "lz4", "none"),
    )
    include_headers: bool = headers_option("include.headers")
    isolation: str = isolation_option("isolation.level")

    # ---- hours
    time_from: str = option(
        "time.from",
        MESSAGE,
        "what decides about the hour of a row: its message's timestamp, a field of its JSON value, a Python function,"
        " or the time of the plan; rows that have none get the time of the plan, which a restart keeps",
        choices=SOURCES,
    )
    time_field: str | None = option(
        "time.field", None, "with json: the path of the field, $.created or $.meta.at", kind=json_path
    )
    time_unit: str = option("time.unit", "ms", "with json: what the field holds", choices=UNITS)
    time_callable: str | None = option(
        "time.callable",
        None,
        "with callable: package.module:function(key, value, timestamp_ms) -> ms since 1970, or None; key and value are"
        " bytes or None, and executors must have the module",
        kind=function,
    )
    lateness_minutes: int = option(
        "lateness.minutes",
        10,
        "an hour is closed when the position of every partition is this long after its end",
        "min",
        least=0,
    )
    close_hours: bool = option(
        "hours.close", True, "write _CLOSED into an hour's folder once it is closed: the flag that later jobs wait for"
    )

    batch_hours: int = option(
        "batch.hours",
        10_000,
        "hours of one topic in a batch at most, since a producer with a wrong clock makes a folder of each: beyond it"
        " rows of the hours with the fewest rows get the time of the plan, counted in no_time",
        least=1,
    )

    # ---- afterwards
    group_id: str | None = option(
        "group.id", None, "positions are copied to this group for tools that show lag; nowhere when empty",
        kind=optiontypes.name,
    )  # fmt: skip
    offsets_storage: str | None = option(
        "offsets.storage",
        None,
        "where the group keeps them: zookeeper (when zookeeper.connect is given), kafka (0.8.2 and later), or dual",
        choices=("zookeeper", "kafka", "dual"),
    )
    snapshot_every: int = option(
        "snapshot.every", 50, "manifests after which all are folded into one snapshot", least=1
    )
    trash_days: int = option("trash.days", 7, "how long superseded files are kept; -1: for ever", "days", least=-1)

    def problems(self) -> Iterable[str]:
        """Yield errors about combinations of options."""
        yield from security_problems(self, self.zookeeper_connect)
        yield from broker_security_problems(self)
        if self.spoken is not None:
            yield from self._problems_of(self.spoken)
        if not self.bootstrap and self.zookeeper_connect is None:
            yield "the cluster is missing: give zookeeper.connect or bootstrap.servers"
        if max(self.fetch_bytes, self.fetch_bytes_cap) > MAX_REQUEST_INT:
            yield f"fetch.message.max.bytes and fetch.bytes.cap are {MAX_REQUEST_INT} at most: no request takes more"
        chosen = [bool(self.topics), self.topics_pattern is not None, bool(self.partitions)]
        if sum(chosen) != 1:
            yield "exactly one of topics, topics.pattern and partitions says what is loaded"
        if (self.time_from == FIELD) != (self.time_field is not None):
            yield "time.from json and time.field go together"
        if (self.time_from == CALLABLE) != (self.time_callable is not None):
            yield "time.from callable and time.callable go together"
        if self.json_values != "base64" and self.output_format != "json":
            yield f"json.values {self.json_values} needs output.format json"
        if self.codec not in self.format.codecs.values():
            known = ", ".join(self.format.codecs)
            yield f"output.format {self.output_format} does not take compression {self.compression}; it takes {known}"
        if self.offsets_storage is not None and self.group_id is None:
            yield "offsets.storage needs group.id"
        if self.storage in ("zookeeper", "dual") and self.zookeeper_connect is None:
            yield f"offsets.storage {self.storage} needs zookeeper.connect"

    def _problems_of(self, spoken: Dialect) -> Iterable[str]:
        """Yield errors about options that brokers of this release do not support."""
        called = f"Kafka {spoken.release}"
        if not spoken.describes_itself and (self.bootstrap or self.zookeeper_connect is None):
            yield f"brokers of {called} tell nothing of each other: give zookeeper.connect, and no bootstrap.servers"
        for name, rows in (("limit", self.limit_rows), ("batch", self.batch_rows)):
            if not spoken.offsets.count_messages and rows is not None:
                yield f"{name}.rows counts offsets, and those of {called} are bytes: use {name}.bytes"
        if not spoken.offsets.count_messages and self.skips_damaged:
            yield f"offsets of {called} are bytes, so damage cannot be counted: corrupt.policy can only be fail"
        if not spoken.keeps_offsets and self.offsets_storage in ("kafka", "dual"):
            yield f"brokers of {called} keep no offsets: offsets.storage can only be zookeeper"

    @property
    def spoken(self) -> Dialect | None:
        """Return the dialect of the release that protocol names; None: the brokers are asked."""
        return None if self.protocol == AUTO else dialect(self.protocol)

    @property
    def format(self) -> FileFormat:
        """Return the format of the job's files."""
        text = self.output_format == JSON.name and self.json_values == "text"
        return JSON_TEXT if text else FORMATS[self.output_format]

    @property
    def codec(self) -> str:
        """Return the codec for Spark's writer."""
        codecs = self.format.codecs
        return codecs.get(self.compression, self.compression) if self.compression else next(iter(codecs.values()))

    @property
    def committed(self) -> bool:
        """True if messages of transactions are read only once these are committed."""
        return self.isolation == READ_COMMITTED

    @property
    def skips_damaged(self) -> bool:
        """True if damaged messages are skipped and counted."""
        return self.corrupt_policy != FAIL

    @property
    def storage(self) -> Storage:
        """Return where the group's offsets are: as configured, else ZooKeeper if it is set, else Kafka."""
        if self.offsets_storage is not None:
            return cast(Storage, self.offsets_storage)
        return "zookeeper" if self.zookeeper_connect is not None else "kafka"


# ---- the file --------------------------------------------------------------------------------------------------------


def read_config(path: Path) -> LoadConfig:
    """Read the job of a file; it is named like the file unless it has a name.  Raises OptionRefused."""
    values = read_yaml(path)
    found = config_of(values if values is not None else {}, path.name)
    return found if "name" in given(found) else replace(found, name=path.stem)


def config_of(values: object, where: str) -> LoadConfig:
    """Return the job of a mapping, such as a pipeline's `load` section.  where: first in every sentence."""
    if not isinstance(values, Mapping):
        raise OptionRefused(f"{where}: expected the options of a load, one a line")
    try:
        return load(LoadConfig, values, where)
    except OptionError as exc:
        raise OptionRefused.of(exc) from None


def read_yaml(path: Path) -> object:
    """Return the result of yaml.safe_load.  Raises OptionRefused with file, line and reason."""
    try:
        return yaml_file(path)
    except OptionError as exc:
        raise OptionRefused.of(exc) from None


__all__ = ["LoadConfig", "config_of", "read_config"]
