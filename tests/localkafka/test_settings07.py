"""What 0.7's settings and its home are told to be, and the sentences where they are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from groundwork.java import read_properties
from localkafka.errors import LocalKafkaError
from localkafka.seven import original
from localkafka.seven.cluster import Cluster07
from localkafka.seven.settings import settings

LEAST = {"brokerid": "3", "log.dir": "/data", "enable.zookeeper": "false"}


def test_the_defaults_are_the_originals() -> None:
    read = settings({"brokerid": "3", "log.dir": "/data", "zk.connect": "zk:2181/k"})
    assert (read.broker, read.port, read.zookeeper, read.session_ms) == (3, 6667, "zk:2181/k", 6000)
    assert (read.flush_interval, read.flush_ms.of("t"), read.flusher_ms) == (500, 3000, 3000)
    assert (read.max_message_size, read.max_request_size, read.partitions.of("t")) == (1_000_000, 104_857_600, 1)
    assert (read.file_size.of("t"), read.retention_ms.of("t"), read.retention_size.of("t")) == (
        1 << 30,
        604_800_000,
        -1,
    )
    assert (read.cleanup_ms, read.cleanup_delay_ms, read.roll_ms.of("t")) == (600_000, 60_000, 604_800_000)


def test_a_topic_may_have_its_own_number() -> None:
    text = "# ours\nnum.partitions = 2\ntopic.partition.count.map=orders:8,a.b:1\ntopic.log.retention.hours=orders:1\n"
    read = settings(LEAST | read_properties(text))
    assert [read.partitions.of(topic) for topic in ("orders", "a.b", "else")] == [8, 1, 2]
    assert [read.retention_ms.of(topic) for topic in ("orders", "else")] == [3_600_000, 604_800_000]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"brokerid": "one"}, "brokerid='one' is not a number"),
        ({"num.partitions": "0"}, "num.partitions=0 is less than 1"),
        ({"topic.partition.count.map": "a:x"}, "topic.partition.count.map='x' is not a number"),
        ({"test.release": "0.8.2"}, "test.release=0.8.2 is unknown; known: 0.7.0, 0.7.1, 0.7.2"),
        ({"enable.zookeeper": "true"}, "zk.connect is missing; give it, or enable.zookeeper=false"),
    ],
)
def test_what_no_broker_takes_is_told_by_its_name(change: dict[str, str], sentence: str) -> None:
    with pytest.raises(LocalKafkaError, match=sentence):
        settings(LEAST | change)


@pytest.mark.parametrize("missing", ["brokerid", "log.dir"])
def test_what_a_broker_cannot_do_without_is_told(missing: str) -> None:
    with pytest.raises(LocalKafkaError, match=f"missing required property '{missing}'"):
        settings({key: value for key, value in LEAST.items() if key != missing})


def test_a_home_is_a_build_or_a_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(original.HOME, raising=False)
    assert original.home() is None
    with pytest.raises(LocalKafkaError, match="KAFKA_07_HOME is not set"):
        original.class_path()
    monkeypatch.setenv(original.HOME, str(tmp_path))
    with pytest.raises(LocalKafkaError, match=r"has neither classes/kafka/Kafka\.class nor a kafka-0\.7\*\.jar"):
        original.class_path()
    for name in ("lib/zkclient.jar", "core/target/scala_2.8.0/kafka-0.7.2.jar", "classes/kafka/Kafka.class"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    built = [
        str(tmp_path / name) for name in ("classes", "lib/zkclient.jar", "core/target/scala_2.8.0/kafka-0.7.2.jar")
    ]
    assert original.class_path().split(os.pathsep) == built
    (tmp_path / "classes" / "kafka" / "Kafka.class").unlink()
    assert original.class_path().split(os.pathsep) == built[1:]


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"version": "0.7.9"}, "unknown 0.7 release '0.7.9'; known are 0.7.0, 0.7.1, 0.7.2"),
        ({"brokers": 0}, "of no brokers"),
        ({"kind": "java"}, "of the kind python or original, not 'java'"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused_and_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, object], sentence: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(LocalKafkaError, match=sentence):
        Cluster07(**wanted)  # type: ignore[arg-type]
    assert not list(tmp_path.glob("localkafka-*/.owner"))


@pytest.mark.thorough
def test_a_home_without_an_original_is_told_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(original.HOME, raising=False)
    cluster = Cluster07(kind="original")
    with pytest.raises(LocalKafkaError, match="KAFKA_07_HOME is not set"):
        cluster.start()
    assert not cluster.folder.exists()
