"""`sparkpipeline backfill` between two real 0.8.2.2 clusters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundwork import failpoints
from kafkawire.cluster.addresses import parse_addresses
from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from producer.partitioners import murmur2_partitioner
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.commands.cli import outcome
from sparkpipeline.driver.groupoffsets import read_offset_nodes, read_offsets
from tests.conftest import Unique
from tests.integration.mirroring import Mirror
from tests.integration.sparktopics import everything, produce, simple, stored

pytestmark = [pytest.mark.real, pytest.mark.spark]

GZIP, SNAPPY = 1, 2


def rows(first: int, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Keyed, with a null key and a null value now and then."""
    return [
        (None if n % 13 == 5 else b"key-%d" % (n % 40), None if n % 17 == 3 else b"value %08d" % n * (1 + n % 5))
        for n in range(first, first + count)
    ]


def pairs(messages: list[tuple[int, bytes | None, bytes | None]]) -> list[tuple[bytes | None, bytes | None]]:
    return [(key, value) for _, key, value in messages]


def clusters(source: ClusterClient, target: ClusterClient, topic: str) -> list[str]:
    return ["--source-zookeeper", source.zookeeper, "--target-brokers", target.brokers, "--topics", topic,
            "--target-option", "kafka.request.timeout.ms=1500"]  # fmt: skip


@pytest.fixture
def topic(source: ClusterClient, target: ClusterClient, unique: Unique) -> str:
    """Three partitions: plain, gzip, and snappy behind plain; the target has messages of its own already."""
    name = unique.topic("orders")
    for cluster in (source, target):
        cluster.create_topic(name, partitions=3)
    for partition, codecs in enumerate(((0,), (GZIP,), (0, SNAPPY))):
        for n, codec in enumerate(codecs):
            produce(source, TopicPartition(name, partition), rows(n * 4000, 4000), codec)
    produce(target, TopicPartition(name, 0), rows(0, 100))
    return name


def test_ranges_are_copied_exactly_and_the_mirror_goes_on_at_their_ends(
    spark: Any, source: ClusterClient, target: ClusterClient, unique: Unique, topic: str, tmp_path: Path, capsys: Any
) -> None:
    group, folder, report = unique.group("mirror"), str(tmp_path / "backfill"), tmp_path / "report.json"
    # Ends inside wrappers of 500 messages, and inside chunks.
    start, until = {"0": -2, "1": 777, "2": 3210}, {"0": -1, "1": 3333, "2": 7654}
    command = ["backfill", folder, *clusters(source, target, topic), "--group", group, "--chunk", "1000",
               "--start", json.dumps({topic: start}), "--until", json.dumps({topic: until})]  # fmt: skip
    assert outcome(command) == 0
    assert not (tmp_path / "backfill").exists()
    assert outcome([*command, "--execute", "--report", str(report)]) == 0
    wanted = {0: rows(0, 100) + rows(0, 4000), 1: rows(777, 3333 - 777), 2: rows(3210, 790) + rows(4000, 3654)}
    assert {p: pairs(found) for p, found in everything(target, topic).items()} == wanted
    tps = [TopicPartition(topic, p) for p in range(3)]
    assert read_offset_nodes(source.zk(), group, tps) == dict(zip(tps, (4000, 3333, 7654), strict=True))
    told = json.loads(report.read_text())
    assert told["messages"] == 4000 + 2556 + 4444
    assert (told["may_repeat"], told["failures"]) == (0, [])
    assert told["handed_over"]
    capsys.readouterr()
    assert outcome(["backfill", folder]) == 0
    assert "nothing is left to do: handed over at" in capsys.readouterr().err
    assert outcome([*command, "--chunk", "999"]) == 3
    # The mirror begins exactly there: what lies behind the ends of the ranges, and nothing again.
    produce(source, TopicPartition(topic, 0), rows(9000, 50))
    with Mirror(tmp_path, source, target, group, topic) as mirror:
        mirror.wait_all_committed([topic])
    behind = {0: rows(9000, 50), 1: rows(3333, 667), 2: rows(7654, 346)}
    assert {p: pairs(found) for p, found in everything(target, topic).items()} == {
        p: wanted[p] + behind[p] for p in wanted
    }


def test_keys_choose_their_partitions_in_a_topic_with_fewer(
    spark: Any, source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    name = unique.topic("keyed")
    source.create_topic(name, partitions=3)
    target.create_topic(name, partitions=2)
    for partition in range(3):
        produce(source, TopicPartition(name, partition), rows(partition * 1000, 1000), GZIP)
    command = ["backfill", str(tmp_path / "b"), *clusters(source, target, name), "--execute", "--chunk", "400"]
    assert outcome(command) == 5  # identity: the target has too few partitions
    assert outcome([*command, "--partitioning", "key", "--partitioner", "murmur2", "--codec", "snappy"]) == 0
    found = everything(target, name)
    assert sorted(pairs(found[0]) + pairs(found[1]), key=repr) == sorted(rows(0, 3000), key=repr)
    for partition, messages in found.items():
        assert {murmur2_partitioner(key, 2) for _, key, _ in messages if key is not None} == {partition}
        for first in range(0, 3000, 1000):  # of one source partition: in order
            own = [pair for pair in rows(first, 1000) if pair in set(pairs(messages)) and pair[0] and pair[1]]
            assert [pair for pair in pairs(messages) if pair in set(own)] == own


def test_a_run_that_breaks_is_gone_on_with_and_repeats_nothing(
    spark: Any, source: ClusterClient, target: ClusterClient, unique: Unique, topic: str, tmp_path: Path
) -> None:
    group, folder = unique.group("mirror"), str(tmp_path / "backfill")
    command = ["backfill", folder, *clusters(source, target, topic), "--group", group, "--offsets-storage", "dual",
               "--chunk", "1500", "--execute"]  # fmt: skip
    failpoints.arm("backfill after copy=raise@3")
    try:
        with pytest.raises(Exception, match="backfill after copy"):
            outcome(command)
    finally:
        failpoints.arm("")
    assert outcome(["backfill", folder, "--execute"]) == 0
    assert {p: pairs(found) for p, found in everything(target, topic).items()} == {
        0: rows(0, 100) + rows(0, 4000), 1: rows(0, 4000), 2: rows(0, 4000) + rows(4000, 4000),
    }  # fmt: skip
    tps = [TopicPartition(topic, p) for p in range(3)]
    ends = dict(zip(tps, (4000, 4000, 8000), strict=True))
    assert read_offset_nodes(source.zk(), group, tps) == ends
    access = ClusterAccess(tuple(parse_addresses(source.brokers, "brokers")), "0.8.2")
    assert read_offsets(group, tps, "kafka", access=access) == ends


def test_a_daemon_at_work_is_named_and_nothing_is_done(
    spark: Any, source: ClusterClient, target: ClusterClient, unique: Unique, topic: str, tmp_path: Path, capsys: Any
) -> None:
    group = unique.group("mirror")
    zk = source.zk()
    zk.create(f"/consumers/{group}/owners/{topic}/1", b"mirror_host-1-0", ephemeral=True, makepath=True)
    command = ["backfill", str(tmp_path / "b"), *clusters(source, target, topic), "--group", group, "--execute"]
    assert outcome(command) == 3
    assert f"topic={topic} partition=1 group={group}: mirror_host-1-0 reads it" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()
    assert stored(target, topic, 1) == []


def test_messages_of_0_8_go_to_0_10_and_its_newer_ones_back(
    spark: Any, source: ClusterClient, own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    newer = own_cluster(version="0.10.2.2", brokers=1)
    name = unique.topic("across")
    for cluster in (source, newer):
        cluster.create_topic(name, partitions=1)
    produce(source, TopicPartition(name, 0), rows(0, 1000), GZIP)
    assert outcome(["backfill", str(tmp_path / "there"), *clusters(source, newer, name), "--execute"]) == 0
    assert pairs(stored(newer, name, 0)) == rows(0, 1000)
    # One row with a timestamp, one without; then the rest goes back to brokers that know no timestamps.
    frame = spark.sql("select 'stamped' value, timestamp_millis(1425445567890) timestamp union all "
                      "select 'now' value, null timestamp").coalesce(1)  # fmt: skip
    options = {"kafka.bootstrap.servers": newer.brokers, "topic": name, "includeTimestamps": "true"}
    frame.write.format("kafka08").mode("append").options(**options).save()
    with simple(newer, TopicPartition(name, 0)) as consumer:
        stamps = [message.timestamp_ms for message in consumer.fetch(name, 0, 1000, 1 << 20).messages()]
    assert stamps[0] == 1425445567890
    assert stamps[1] is not None
    assert stamps[1] > stamps[0]
    back = ["backfill", str(tmp_path / "back"), "--source-brokers", newer.brokers, "--target-brokers", source.brokers,
            "--topics", name, "--start", json.dumps({name: {"0": 990}}), "--execute"]  # fmt: skip
    assert outcome(back) == 0
    assert pairs(stored(source, name, 0))[1000:] == [*rows(990, 10), (None, b"stamped"), (None, b"now")]
