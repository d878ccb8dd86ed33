"""Sources of 0.11 and later that are spoken to as an older release, so that they convert their logs down: real brokers,
producers of their own clients.  What is read in their own format: test_record_batches.py."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from kafkawire.znodes import v08 as znodes
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.cluster import Cluster
from localkafka.mirror import COMMAND
from localkafka.zookeeper import ZooKeeperAt
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.rangefetcher import read_sets
from sparkpipeline.reading.readoptions import ReadOptions
from tests.conftest import Unique
from tests.integration.mirroring import Mirror, values
from tests.integration.modern import ModernProducer, named
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.simple import SimpleConsumer

pytestmark = pytest.mark.real

VERSIONS = ("2.8.2", "3.9.1")
CONVERTED = "0.10.0"  # Fetch v2: the last that knows neither record batches nor entries that come whole
Modern = tuple[Cluster, ModernProducer]


@pytest.fixture(scope="module")
def modern_at(zk_server: ZooKeeperAt, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Modern]]:
    """modern_at("3.9.1"): a cluster of one broker that all tests here share, and its producer; started when first
    asked for.  Take topics of your own."""
    started: dict[str, Modern] = {}

    def at(version: str) -> Modern:
        if version not in started:
            cluster = Cluster(version=version, zookeeper=zk_server)
            cluster.start()
            folder = tmp_path_factory.mktemp(f"modern-{version}")
            started[version] = cluster, ModernProducer(cluster, folder)
        return started[version]

    yield at
    for cluster, producer in started.values():
        producer.close()
        cluster.close()


@pytest.fixture(params=VERSIONS)
def modern(request: pytest.FixtureRequest, modern_at: Callable[[str], Modern]) -> Modern:
    return modern_at(request.param)


@pytest.fixture
def newest(modern_at: Callable[[str], Modern]) -> Modern:
    """The newer release, for what both do alike."""
    return modern_at(VERSIONS[-1])


def release_of(cluster: ClusterClient) -> str:
    return cluster.version.rpartition(".")[0]


def mirror_of(
    folder: Path,
    source: ClusterClient,
    target: ClusterClient,
    unique: Unique,
    whitelist: str,
    version: str | None = None,
    target_options: dict[str, object] | None = None,
    **mirror: object,
) -> Mirror:
    if version == CONVERTED:  # the targets of these are of 0.8, where a timestamp has no place
        mirror["drop.fields"] = "timestamps"
    made = Mirror(folder, source, target, unique.group(), whitelist, mirror, target_options)
    if version is not None:
        text = made.file.read_text().replace("- group.id", f"- version: '{version}'\n  group.id")
        assert "version" in text
        made.file.write_text(text)
    return made


def commit(cluster: ClusterClient, group: str, tp: TopicPartition, offset: int) -> None:
    """As a JVM consumer leaves it: an offset at the end of a transaction is one of those."""
    zk = cluster.registry().zk
    path = znodes.offset(group, tp)
    zk.ensure_path(path)
    zk.set(path, b"%d" % offset)


def two_transactions(producer: ModernProducer, topic: str) -> None:
    """Offsets 0-12, their end 13, 14-26, their end 27; and 40 more up to 67, with the end at 68."""
    producer.transaction(topic, {0: (0, 13)})
    producer.transaction(topic, {0: (13, 13)})
    producer.transaction(topic, {0: (26, 40)})


def consumed(cluster: ClusterClient, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND.with_name("zkconsumer")), "consume", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def address(cluster: ClusterClient) -> tuple[str, int]:
    host, _, port = cluster.brokers.partition(":")
    return host, int(port)


# ---- what every broker is ------------------------------------------------------------------------------------------


def test_a_segment_file_is_decoded_with_every_codec_headers_and_the_ends_of_transactions(
    newest: Modern, unique: Unique
) -> None:
    (cluster, producer), topic = newest, unique.topic()
    cluster.create_topic(topic, 1)
    codecs, time_ms = ("none", "gzip", "snappy", "lz4", "zstd"), int(time.time() * 1000)
    for n, codec in enumerate(codecs):
        producer.send(topic, 0, 10 * n, 10, codec=codec, time_ms=time_ms, headers=2 * (n % 2))
    producer.transaction(topic, {0: (50, 5)}, codec="gzip")
    producer.transaction(topic, {0: (55, 1)}, commit=False, codec="gzip")

    (segment,) = cluster.segments(TopicPartition(topic, 0))
    command = [str(COMMAND.with_name("python")), "-m", "kafkawire", "decode", "--protocol", "0.10", "--kind", "log"]
    done = subprocess.run([*command, str(segment)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    *lines, last = map(json.loads, done.stdout.splitlines())
    messages = [line for line in lines if "batch" not in line]
    batches = [line["batch"] for line in lines if "batch" in line]
    assert [(m["offset"], m["key_utf8"], m["value_utf8"]) for m in messages] == [
        (n if n < 55 else 56, f"k{n}", f"{topic}/0 #{n}") for n in range(56)
    ]
    assert [m["timestamp"] for m in messages[:50]] == [time_ms + n for n in range(50)]
    assert [len(m["headers"]) for m in messages[:50:10]] == [0, 2, 0, 2, 0]
    assert {each["codec"] for each in batches} == {*codecs}
    ends = [end for each in batches for end in each.get("control", ())]
    assert [(end["offset"], end["type"]) for end in ends] == [(55, "commit"), (57, "abort")]
    assert last["next_fetch_offset"] == 58


# ---- transactions --------------------------------------------------------------------------------------------------


def test_what_follows_the_end_of_a_transaction_is_mirrored_once_and_its_end_is_passed(
    modern: Modern, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    (cluster, producer), topic = modern, unique.topic()
    tp = TopicPartition(topic, 0)
    cluster.create_topic(topic, 1)
    for first in (0, 13):
        producer.transaction(topic, {0: (first, 13)}, codec="gzip")
    commit(cluster, unique.group(), tp, 13)  # where the first one ends
    with mirror_of(tmp_path, cluster, target, unique, topic, CONVERTED) as mirror:
        mirror.wait_all_committed([topic], 20)  # 28, behind the end of the second
        producer.transaction(topic, {0: (26, 13)}, codec="gzip")
        mirror.wait_all_committed([topic], 20)
        producer.transaction(topic, {0: (39, 1)}, commit=False, codec="gzip")
        mirror.wait_all_committed([topic], 20)
        mirror.wait_said("lag 0")
        assert mirror.stop()[0] == 0
    assert log_end_offsets(cluster, [topic])[tp] == 44
    assert values(target, topic, 0) == named(topic, 0, 13, 27)  # the aborted one, too: that is what is warned of
    assert "parked" not in mirror.said()
    assert f"topic {topic}: it holds transactions, and messages of aborted" in mirror.said()


def test_a_repeated_batch_is_read_once_by_the_simple_consumer_the_command_and_spark(
    modern: Modern, unique: Unique
) -> None:
    (cluster, producer), topic = modern, unique.topic()
    cluster.create_topic(topic, 1)
    two_transactions(producer, topic)
    expected = [*range(14, 27), *range(28, 68)]
    release = CONVERTED

    read, position = [], 13
    with SimpleConsumer(*address(cluster), release, timeout_ms=5000) as consumer:
        while position < 69:
            fetched = consumer.fetch(topic, 0, position, 1500, 100)
            read += [message.offset for message in fetched.messages()]
            assert fetched.resume_at > position
            position = fetched.resume_at
    assert read == expected

    words = ("-b", cluster.brokers, "--topic", topic, "--partition", "0", "--offset", "13", "--kafka-version", release)
    printed = consumed(cluster, *words, "--timeout-ms", "1500", "-o", "json")
    assert [json.loads(line)["offset"] for line in printed.stdout.splitlines()] == expected, printed.stderr
    assert printed.returncode == 0

    access = ClusterAccess((address(cluster),), release)
    for fetch_bytes in (200, 1 << 20):
        rng = OffsetRange(topic, 0, 13, 69)
        sets = read_sets(rng, access, ReadOptions(fetch_bytes=fetch_bytes, patience_ms=5000))
        assert [message.offset for one in sets for message in one.messages()] == expected


@pytest.mark.parametrize(
    ("delivery", "release"),
    [("at-least-once", "3.9"), ("on-ack", CONVERTED)],
)
def test_a_consumer_commits_behind_the_end_of_a_transaction(
    modern_at: Callable[[str], Modern], unique: Unique, delivery: str, release: str
) -> None:
    (cluster, producer), topic = modern_at("3.9.1"), unique.topic()
    cluster.create_topic(topic, 1)
    options = {
        "zookeeper.connect": cluster.zookeeper,
        "group.id": unique.group(),
        "kafka.version": release,
        "auto.offset.reset": "smallest",
        "consumer.timeout.ms": 1500,
        "delivery": delivery,
    }
    read = []
    with ConsumerConnector(options) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        for first in (0, 13, 26):
            producer.transaction(topic, {0: (first, 13)})
            try:
                for message in stream:
                    read.append((message.value or b"").decode())
                    message.ack()
            except ConsumerTimeout:
                pass
            (row,) = connector.status()
            assert (row.lag, row.parked, row.done) == (0, None, 14 * len(read) // 13)
    assert read == named(topic, 0, 0, 39)
    assert cluster.registry().zk.get(znodes.offset(unique.group(), TopicPartition(topic, 0)))[0] == b"42"


# ---- what a broker does not give ----------------------------------------------------------------------------------


def test_what_a_broker_will_never_give_parks_its_partition_and_no_other(
    modern: Modern, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    cluster, producer = modern
    plain, packed, fixed = (unique.topic(name) for name in ("plain", "zstd", "fixed"))
    cluster.create_topic(plain, 1)
    cluster.create_topic(packed, 1)
    cluster.create_topic(fixed, 1, config={"message.downconversion.enable": "false"})
    producer.send(packed, 0, 0, 20)
    producer.send(packed, 0, 20, 20, codec="zstd")
    producer.send(fixed, 0, 0, 20)
    topics = [plain, packed, fixed]
    options: dict[str, object] = {"parked.retry.ms": 1000}
    with mirror_of(tmp_path, cluster, target, unique, "|".join(topics), CONVERTED, **options) as mirror:
        mirror.wait_said(f"{packed}/0 at 20 on broker 0")
        mirror.wait_said("compressed with zstd")
        mirror.wait_said("message.downconversion.enable=false")
        mirror.wait_said("parked 2")
        for first in (0, 400):
            producer.send(plain, 0, first, 400)
            mirror.wait_arrived(plain, first + 400, 10)
        assert mirror.arrived(packed) == 20
        producer.configure(fixed, "message.downconversion.enable", "true")
        mirror.wait_arrived(fixed, 20, 15)
        mirror.wait_said(f"{fixed}/0 flows again")
        assert mirror.stop()[0] == 0
    assert values(target, plain, 0) == named(plain, 0, 0, 800)
    assert mirror.said().count('msg="source dc1: parked: ') == 2

    words = ("-z", cluster.zookeeper, "--topic", packed, "--from-beginning", "--kafka-version", CONVERTED)
    printed = consumed(cluster, *words, "--timeout-ms", "3000")
    assert printed.stdout.splitlines() == named(packed, 0, 0, 20)
    assert printed.returncode == 4
    assert "compressed with zstd" in printed.stderr
    assert f"not everything was read: {packed}/0 cannot be read on" in printed.stderr

    words = ("-z", cluster.zookeeper, "--topic", plain, "--from-beginning", "--timeout-ms", "2000")
    printed = consumed(cluster, *words, "-o", "json", "--kafka-version", "0.8.2")
    assert {json.loads(line)["timestamp_ms"] for line in printed.stdout.splitlines()} == {None}
    assert printed.returncode == 0
    assert (
        f"is read as 0.8.2, whose messages have no timestamps: they come without; set kafka.version to "
        f"{release_of(cluster)}" in printed.stderr
    )


def test_a_batch_larger_than_the_fetch_is_read(modern: Modern, unique: Unique) -> None:
    """2.8.2 sends its beginning; 3.9.1 nothing at all, and no error."""
    (cluster, producer), topic = modern, unique.topic()
    cluster.create_topic(topic, 1)
    for first in (0, 300):
        producer.send(topic, 0, first, 300, value_bytes=1000)
    options = {
        "zookeeper.connect": cluster.zookeeper,
        "group.id": unique.group(),
        "kafka.version": CONVERTED,
        "auto.offset.reset": "smallest",
        "consumer.timeout.ms": 10000,
        "fetch.message.max.bytes": 100000,
    }
    with ConsumerConnector(options) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        offsets = [next(stream).offset for _ in range(600)]
    assert offsets == list(range(600))
    access = ClusterAccess((address(cluster),), CONVERTED)
    sets = read_sets(OffsetRange(topic, 0, 0, 600), access, ReadOptions(fetch_bytes=100000, patience_ms=5000))
    assert [message.offset for one in sets for message in one.messages()] == list(range(600))


# ---- what is lost is said by name ---------------------------------------------------------------------------------


def checked(mirror: Mirror) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), "check", "--online", str(mirror.file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def timestamps(cluster: ClusterClient, topic: str) -> list[int | None]:
    with SimpleConsumer(*address(cluster), release_of(cluster), timeout_ms=5000) as consumer:
        return [message.timestamp_ms for message in consumer.fetch(topic, 0, 0, max_wait_ms=100).messages()]


def test_timestamps_are_kept_with_the_right_releases_and_else_the_file_is_said_to_drop_them(
    modern_at: Callable[[str], Modern], unique: Unique, tmp_path: Path
) -> None:
    (cluster, producer), (newer, _) = modern_at("2.8.2"), modern_at("3.9.1")
    topic, at_ms = unique.topic(), 1_600_000_000_000
    cluster.create_topic(topic, 1)
    producer.send(topic, 0, 0, 10, time_ms=at_ms)
    by_name: dict[str, object] = {"target.zookeeper.connect": None, "target.version": "0.8.2"}
    at_source = "its brokers are of Kafka 2.8 or later and version is 0.8.2, whose messages have no timestamps"
    at_target = "its brokers are of Kafka 3.9 or later and target.version is 0.8.2"
    with mirror_of(tmp_path, cluster, newer, unique, topic, "0.8.2", by_name) as mirror:
        mirror.wait_arrived(topic, 10)
        mirror.wait_said(f"source dc1: {at_source}: the timestamps of all messages are dropped; set version: 2.8")
        mirror.wait_said(f"target: {at_target}")
        assert mirror.stop()[0] == 0
    assert set(timestamps(newer, topic)) == {-1}
    said = checked(mirror)
    assert said.returncode == 0, said.stderr
    assert f"warning: source dc1: {at_source}" in said.stderr
    assert f"warning: target: {at_target}" in said.stderr
    assert "set target.version: 3.9" in said.stderr

    other = unique.topic("kept")
    cluster.create_topic(other, 1)
    producer.send(other, 0, 0, 10, time_ms=at_ms)
    right: dict[str, object] = {**by_name, "target.version": "3.9"}
    with mirror_of(tmp_path, cluster, newer, unique, other, "2.8", right) as mirror:
        mirror.wait_arrived(other, 10)
        assert mirror.stop()[0] == 0
    assert timestamps(newer, other) == [at_ms + n for n in range(10)]
    assert "warning: " not in checked(mirror).stderr


def test_headers_transactions_and_what_is_not_converted_are_told_by_topic(
    newest: Modern, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    cluster, producer = newest
    plain, headers, packed, mixed = (unique.topic(name) for name in ("plain", "headers", "gzip", "mixed"))
    for name in (plain, headers, packed, mixed):
        cluster.create_topic(name, 1)
    producer.send(plain, 0, 0, 10)
    producer.send(headers, 0, 0, 10, headers=2)
    producer.send(packed, 0, 0, 10, codec="gzip", headers=1)
    producer.transaction(mixed, {0: (0, 10)})
    with mirror_of(tmp_path, cluster, target, unique, f".*{unique.tag}", CONVERTED) as mirror:
        for name in (headers, packed):
            mirror.wait_said(f"topic {name}: its messages have headers, which are not read")
        mirror.wait_said(f"topic {mixed}: it holds transactions")
        mirror.wait_all_committed([plain, headers, packed, mixed])
        assert mirror.stop()[0] == 0
    assert plain not in "".join(line for line in mirror.said().splitlines() if "record batches" in line)
    assert mirror.said().count("which are not read") == 2

    zstd = unique.topic("zstd")
    cluster.create_topic(zstd, 1)
    producer.send(zstd, 0, 0, 10, codec="zstd")
    said = checked(mirror)
    assert said.returncode == 0, said.stderr
    warnings = [line for line in said.stderr.splitlines() if line.startswith("warning: ")]
    assert sum(f"topic {headers}: its messages have headers" in line for line in warnings) == 1
    assert sum(f"topic {packed}: its messages have headers" in line for line in warnings) == 1
    assert sum(f"topic {mixed}: it holds transactions" in line for line in warnings) == 1
    assert sum(zstd in line and "UnsupportedCompressionType (76)" in line for line in warnings) == 1
    assert sum(f"and version is {CONVERTED}: brokers convert" in line for line in warnings) == 1
    assert len(warnings) == 5
