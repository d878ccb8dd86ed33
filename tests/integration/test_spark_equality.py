"""Rows of format kafka08 against what the JVM's own tools read of the same logs, release by release."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.compression import GZIP, LZ4, SNAPPY
from kafkawire.formats.v01.write import encode
from kafkawire.model import TopicPartition
from localkafka import tools
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.tools import Dumped
from sparkpipeline.ranges import OffsetRange, ranges_text
from tests.integration.sparktopics import Field, produce

pytestmark = [pytest.mark.real, pytest.mark.spark]

Rows = list[tuple[Field, Field]]
Read = list[tuple[int, Field, Field]]  # offset, key, value
PLAIN, EMPTY, LARGE, MIXED = 0, 5, 6, 7
CODECS = {1: GZIP, 2: SNAPPY, 3: LZ4, 4: GZIP}  # partition -> codec
KEYS = [b"", *(b"key-%d" % n for n in range(50))]
WRAPPED = 60  # messages of a wrapper
AT_MS = 1_700_000_000_123
SETTINGS = {
    "log.cleaner.enable": True,
    "log.cleaner.backoff.ms": 100,
    "log.cleaner.dedupe.buffer.size": 2097152,
    "message.max.bytes": 8 << 20,
    "replica.fetch.max.bytes": 8 << 20,
}


def texts(count: int, seed: int) -> Rows:
    """Keys and values of many sizes, some empty, some null; text, since the JVM's dump prints it."""
    draw = random.Random(seed)
    return [
        (
            draw.choice([None, *KEYS[:1], draw.choice(KEYS)]),
            draw.choice([None, b"", f"value {n} ünï ".encode() + draw.randbytes(draw.randrange(80)).hex().encode()]),
        )
        for n in range(count)
    ]


def fill(cluster: ClusterClient, topic: str) -> None:
    """Each partition in its own manner; EMPTY gets nothing."""
    produce(cluster, TopicPartition(topic, PLAIN), texts(1500, 1), at_ms=AT_MS)
    for partition, codec in CODECS.items():
        produce(cluster, TopicPartition(topic, partition), texts(900, partition), codec, a_set=WRAPPED)
    large = [(b"large", b"x" * (3 << 20)), (b"small", b"y"), (None, b"z" * (1 << 20))]
    produce(cluster, TopicPartition(topic, LARGE), large, a_set=1)
    for n, codec in enumerate((0, SNAPPY, 0, GZIP, LZ4)):
        produce(cluster, TopicPartition(topic, MIXED), texts(70, 100 + n), codec, a_set=35)


def compacted(cluster: ClusterClient, topic: str) -> None:
    """A topic whose log has lost most of its messages to the cleaner."""
    config = {"cleanup.policy": "compact", "segment.bytes": 20_000, "min.cleanable.dirty.ratio": 0.01}
    cluster.create_topic(topic, partitions=1, config=config)
    tp = TopicPartition(topic, 0)
    keyed: Rows = [(b"key-%d" % (n % 13), None if n % 7 == 3 else b"value %d " % n + b"." * 90) for n in range(1200)]
    for at in range(0, len(keyed), 200):
        produce(cluster, tp, keyed[at : at + 200], SNAPPY if at == 400 else 0, a_set=100)
    cluster.wait_cleaned(tp, at_most=13 * 200)


def spark_rows(frame: Any) -> dict[int, Read]:
    """What Spark reads, by partition, sorted by offset."""
    found: dict[int, Read] = {}
    for row in frame.select("partition", "offset", "key", "value").orderBy("partition", "offset").collect():
        fields = [None if field is None else bytes(field) for field in (row.key, row.value)]
        found.setdefault(row.partition, []).append((row.offset, fields[0], fields[1]))
    return found


def jvm_rows(cluster: ClusterClient, topic: str, partitions: int) -> dict[int, Read]:
    """What DumpLogSegments reads of the same logs."""
    dumped = tools.dump_topic(cluster, topic, range(partitions))
    assert all(row.valid for rows in dumped.values() for row in rows)
    return {
        partition: [(row.offset, key_of(row), None if row.payload is None else row.payload.encode()) for row in rows]
        for partition, rows in dumped.items()
        if rows
    }


def key_of(row: Dumped) -> Field:
    """The key; one that the JVM does not print (of a message with a null value, from 0.9 on) is told by the checksum
    that it prints."""
    if row.key is not None or row.key_size < 0:
        return None if row.key is None else row.key.encode()
    for key in KEYS:
        [crc] = struct.unpack_from(">I", encode([(0, key, None, row.timestamp_ms)], 0, row.magic), 12)
        if crc == row.crc:
            return key
    raise AssertionError(f"no key that was sent has the checksum of {row}")


def reading(spark: Any, cluster: ClusterClient, **options: object) -> Any:
    reader = spark.read.format("kafka08").option("kafka.bootstrap.servers", cluster.brokers)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


@pytest.mark.parametrize("release", ["0.8.2.2", "0.10.2.2"])
def test_rows_are_those_that_the_jvm_reads(
    spark: Any, own_cluster: Callable[..., Cluster], unique: Any, release: str
) -> None:
    cluster = own_cluster(version=release, settings=SETTINGS)
    topic, cleaned = unique.topic(), unique.topic("compacted")
    cluster.create_topic(topic, partitions=8)
    fill(cluster, topic)
    compacted(cluster, cleaned)
    expected = jvm_rows(cluster, topic, 8)
    whole = reading(spark, cluster, subscribe=topic)
    assert spark_rows(whole) == expected
    assert EMPTY not in expected
    assert [len(value or b"") for _, _, value in expected[LARGE]] == [3 << 20, 1, 1 << 20]
    _times_are_those_that_were_sent(whole, release)
    _wrappers_are_cut(spark, cluster, topic, expected)
    kept = jvm_rows(cluster, cleaned, 1)[0]
    assert 13 <= len(kept) < 1000  # the cleaner was there
    assert spark_rows(reading(spark, cluster, subscribe=cleaned)) == {0: kept}


def _times_are_those_that_were_sent(frame: Any, release: str) -> None:
    stamped = frame.where("partition = 0").selectExpr("unix_millis(timestamp) as ms", "timestampType as kind")
    expected = (AT_MS, 0) if release.startswith("0.10") else (-1, -1)
    assert [(row.ms, row.kind) for row in stamped.distinct().collect()] == [expected]


def _wrappers_are_cut(spark: Any, cluster: ClusterClient, topic: str, expected: dict[int, Read]) -> None:
    """Ranges that begin and end inside wrappers, also inside one and the same."""
    ranges = [
        OffsetRange(topic, p, at, until)
        for p in CODECS
        for at, until in ((WRAPPED + 7, 5 * WRAPPED + 31), (6 * WRAPPED + 20, 6 * WRAPPED + 21), (840, 899))
    ]
    cut = reading(spark, cluster, offsetRanges=ranges_text(ranges))
    wanted = {p: [row for rng in ranges if rng.partition == p for row in expected[p][rng.start : rng.until]]
              for p in CODECS}  # fmt: skip
    assert spark_rows(cut) == wanted
