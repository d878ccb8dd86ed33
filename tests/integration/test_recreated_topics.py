"""A source topic that is deleted and created again: the committed offset is of the old log, and nothing of the new one
may be skipped by it.  On real 0.8.2.2 brokers with delete.topic.enable."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.load import GZIP, Mixture
from localkafka.waiting import wait_until
from sparkpipeline.driver.groupoffsets import read_offsets, write_offsets
from sparkpipeline.driver.zkclient import zookeeper
from sparkpipeline.errors import OffsetOutOfRange
from sparkpipeline.load.operations import InitWanted, run_operation
from tests.conftest import Unique
from tests.integration.mapmoves import mapped, translate
from tests.integration.mirroring import PLAIN_ONLY, Mirror, filled, values
from tests.integration.readers import Reader, committed, config, wait_for_messages
from tests.integration.sparkloads import job
from zkconsumer.connector import ConsumerConnector
from zkconsumer.listeners import ConsumerListener
from zkconsumer.offsets.store import FormerOffset
from zkconsumer.simple import SimpleConsumer

pytestmark = pytest.mark.real

STORAGE: dict[str, dict[str, object]] = {
    "zookeeper": {},
    "dual": {"offsets_storage": "kafka", "dual_commit_enabled": True},
    "kafka": {"offsets_storage": "kafka", "dual_commit_enabled": False},
}


@pytest.fixture(scope="module")
def deleting(zk_server) -> Iterator[Cluster]:  # type: ignore[no-untyped-def]
    """A cluster whose topics can be deleted."""
    settings = {"delete.topic.enable": "true", "file.delete.delay.ms": "0", "auto.create.topics.enable": "false"}
    with Cluster(zookeeper=zk_server, settings=settings) as cluster:
        yield cluster


def delete(cluster: ClusterClient, topic: str) -> None:
    zk = cluster.zk()
    zk.create(f"/admin/delete_topics/{topic}", b"")
    wait_until(lambda: zk.exists(f"/brokers/topics/{topic}") is None, 60, f"{topic} to be deleted")


def zkconsumer(*argv: str) -> None:
    subprocess.run([sys.executable, "-m", "zkconsumer.commands.main", *argv], check=True, timeout=60)


def test_a_mirror_that_was_stopped_copies_all_of_the_new_log(
    deleting: Cluster, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    filled(deleting, {topic: 1}, 2000, PLAIN_ONLY)
    with Mirror(tmp_path, deleting, target, unique.group(), topic) as mirror:
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
    delete(deleting, topic)
    filled(deleting, {topic: 1}, 3000, PLAIN_ONLY, seed=2)
    with mirror:
        mirror.wait_arrived(topic, 5000)
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
    assert values(target, topic, 0)[2000:] == values(deleting, topic, 0)
    [line] = [line for line in mirror.said().splitlines() if f"{topic}/0 at 2000: " in line]
    assert "level=warning" in line
    assert "of the topic that was created at" not in line
    assert "committed to ZooKeeper at 20" in line
    assert "was created again at 20" in line
    with mirror:  # the new log's own offset counts from now on
        filled(deleting, {}, 0).produce(topic, 1, 10, PLAIN_ONLY)
        mirror.wait_arrived(topic, 5010)
        assert mirror.stop()[0] == 0
    assert mirror.arrived(topic) == 5010


@pytest.mark.parametrize("sees_it_vanish", [True, False])
def test_a_running_mirror_copies_all_of_the_new_log(
    deleting: Cluster, target: ClusterClient, unique: Unique, tmp_path: Path, sees_it_vanish: bool
) -> None:
    """It is frozen until the new log is as long as the old one was: so it never sees a position out of range."""
    topic = unique.topic()
    filled(deleting, {topic: 2}, 8000, PLAIN_ONLY)
    with Mirror(tmp_path, deleting, target, unique.group(), topic) as mirror:
        mirror.wait_all_committed([topic])
        if sees_it_vanish:
            delete(deleting, topic)
            mirror.wait_said("was deleted")
        mirror.signal(signal.SIGSTOP)
        if not sees_it_vanish:
            delete(deleting, topic)
        filled(deleting, {topic: 2}, 8000, PLAIN_ONLY, seed=2)
        mirror.signal(signal.SIGCONT)
        mirror.wait_arrived(topic, 16000)
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
    for partition in (0, 1):
        assert values(target, topic, partition)[4000:] == values(deleting, topic, partition)
    said = mirror.said()
    for partition in (0, 1):
        assert f"{topic}/{partition} at 4000: " in said


def test_an_offset_map_of_the_old_log_leaves_out_nothing_of_the_new_one(
    deleting: Cluster, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    """With resume: target-end everything before the map's last point counts as being in the target."""
    topic, reads = unique.topic(), unique.group("reads")
    settings = {"resume": "target-end", **mapped(tmp_path)}
    options = {"request.timeout.ms": 1500}
    filled(deleting, {topic: 1}, 2000, PLAIN_ONLY)
    with Mirror(tmp_path, deleting, target, unique.group(), topic, settings, options) as mirror:
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
    with Reader(deleting.zookeeper, reads, {topic: 1}) as reader:
        wait_for_messages(2000, reader)
        reader.stop()
    delete(deleting, topic)
    filled(deleting, {topic: 1}, 3000, PLAIN_ONLY, seed=2)
    with mirror:
        mirror.wait_arrived(topic, 5000)
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
    assert values(target, topic, 0)[2000:] == values(deleting, topic, 0)
    refused = translate(mirror, reads, tmp_path, "--execute")
    assert refused.returncode == 3
    assert f"{topic}/0: 2000 is of an earlier topic" in refused.stderr
    # Written once more it is a position of the new log: behind the 2000 of before, and so many of the new ones.
    undo = ("--undo-dir", str(tmp_path))
    zkconsumer("offsets", "set", "-z", deleting.zookeeper, "--group", reads, f"{topic}:0=2000", "--execute", *undo)
    done = translate(mirror, reads, tmp_path, "--execute")
    assert done.returncode == 0, done.stderr
    assert 2000 <= committed(target, reads, topic)[0] <= 4000


@pytest.mark.parametrize("storage", STORAGE)
def test_a_group_begins_the_new_log_by_its_reset_policy(deleting: Cluster, unique: Unique, storage: str) -> None:
    topic, group, options = unique.topic(), unique.group(), STORAGE[storage]
    filled(deleting, {topic: 1}, 20, PLAIN_ONLY)
    with Reader(deleting.zookeeper, group, {topic: 1}, **options) as before:
        wait_for_messages(20, before)
        before.stop()
    delete(deleting, topic)
    load = filled(deleting, {topic: 1}, 30, PLAIN_ONLY, seed=2)
    with Reader(deleting.zookeeper, group, {topic: 1}, **options) as after:
        wait_for_messages(30, after)
        [told] = after.kinds("reset")
        assert f"{topic}/0 at 20: " in told
        assert " was created again at " in told
        after.stop()
    load.produce(topic, 1, 5, PLAIN_ONLY)
    with Reader(deleting.zookeeper, group, {topic: 1}, **options) as again:
        wait_for_messages(5, again)
        assert [got.offset for got in again.got] == list(range(30, 35))
        assert not again.kinds("reset")
        again.stop()


def test_a_running_member_begins_the_new_log_by_its_reset_policy(deleting: Cluster, unique: Unique) -> None:
    topic, group, options = unique.topic(), unique.group(), STORAGE["dual"]
    filled(deleting, {topic: 1}, 20, PLAIN_ONLY)
    with Reader(deleting.zookeeper, group, {topic: 1}, **options) as reader:
        wait_for_messages(20, reader)
        delete(deleting, topic)
        filled(deleting, {topic: 1}, 30, PLAIN_ONLY, seed=2)
        wait_for_messages(50, reader)
        assert [got.offset for got in reader.got] == [*range(20), *range(30)]
        reader.stop()
    assert committed(deleting, group, topic) == {0: 30}


def test_the_same_number_in_the_new_log_is_written_again(deleting: Cluster, unique: Unique) -> None:
    """auto.offset.reset=largest ends at the number that the old offset node holds: unless it is written, the next start
    skips what came meanwhile."""
    topic, group = unique.topic(), unique.group()
    filled(deleting, {topic: 1}, 20, PLAIN_ONLY)
    with Reader(deleting.zookeeper, group, {topic: 1}) as before:
        wait_for_messages(20, before)
        before.stop()
    delete(deleting, topic)
    load = filled(deleting, {topic: 1}, 20, PLAIN_ONLY, seed=2)
    with Reader(deleting.zookeeper, group, {topic: 1}, auto_offset_reset="largest") as skips:
        wait_until(lambda: skips.kinds("gap"), 10, "the jump")
        assert "20 messages before it are not read (largest)" in skips.kinds("gap")[0]
        skips.stop()
    load.produce(topic, 1, 7, PLAIN_ONLY)
    with Reader(deleting.zookeeper, group, {topic: 1}, auto_offset_reset="largest") as after:
        wait_for_messages(7, after)
        after.stop()


def test_an_offset_that_names_no_topic_goes_by_its_commit_time(deleting: Cluster, unique: Unique) -> None:
    """As a JVM member commits to Kafka: without metadata, many times over."""
    topic, group = unique.topic(), unique.group()
    filled(deleting, {topic: 2}, 400, PLAIN_ONLY)
    host, port = deleting.brokers.split(",")[0].split(":")

    def commit(**at: int) -> None:
        with SimpleConsumer(host, int(port)) as consumer:
            coordinator = consumer.coordinator(group)
        with SimpleConsumer(coordinator.host, coordinator.port) as consumer:
            wanted = {TopicPartition(topic, int(name[1:])): n for name, n in at.items()}
            assert consumer.commit_offsets(group, wanted, "kafka")

    commit(p0=20, p1=20)
    delete(deleting, topic)
    load = filled(deleting, {topic: 2}, 400, PLAIN_ONLY, seed=2)
    commit(p1=25)
    with Reader(deleting.zookeeper, group, {topic: 1}, **STORAGE["kafka"]) as reader:
        wait_for_messages(375, reader)
        [told] = reader.kinds("reset")
        assert f"{topic}/0 at 20: committed to Kafka at 20" in told
        assert Counter(got.tp.partition for got in reader.got) == {0: 200, 1: 175}
        load.produce(topic, 1, 1, PLAIN_ONLY)
        wait_for_messages(376, reader)
        reader.stop()


def read_and_recreated(deleting: Cluster, unique: Unique) -> tuple[str, str]:
    """A topic, and a group that committed 20 in its old log; the log of today has 30 messages."""
    topic, group = unique.topic(), unique.group()
    filled(deleting, {topic: 1}, 20, PLAIN_ONLY)
    with Reader(deleting.zookeeper, group, {topic: 1}) as before:
        wait_for_messages(20, before)
        before.stop()
    delete(deleting, topic)
    filled(deleting, {topic: 1}, 30, PLAIN_ONLY, seed=2)
    return topic, group


def test_a_policy_of_fail_parks_what_belongs_to_another_log(deleting: Cluster, unique: Unique) -> None:
    topic, group = read_and_recreated(deleting, unique)
    with Reader(deleting.zookeeper, group, {topic: 1}, auto_offset_reset="fail") as reader:
        wait_until(lambda: reader.kinds("parked"), 10, "it to be parked")
        assert "it is invalid in the new log (auto.offset.reset=fail)" in reader.kinds("parked")[0]
        assert not reader.got


def test_a_listener_is_asked_where_the_new_log_begins(deleting: Cluster, unique: Unique) -> None:
    class Asked(ConsumerListener):
        def out_of_range(self, tp: TopicPartition, position: int, earliest: int, latest: int) -> int:
            asked.append((tp, position, earliest, latest))
            return 10

    asked: list[object] = []
    topic, group = read_and_recreated(deleting, unique)
    with ConsumerConnector(config(deleting.zookeeper, group), "own", listener=Asked()) as consumer:
        [stream] = consumer.create_message_streams({topic: 1})[topic]
        assert next(iter(stream)).offset == 10
    assert asked == [(TopicPartition(topic, 0), 20, 0, 30)]


@pytest.mark.spark
@pytest.mark.parametrize("knows_zookeeper", [True, False])
def test_a_load_refuses_the_new_log_until_it_is_told_where_to_go_on(
    spark: Any, deleting: Cluster, unique: Unique, tmp_path: Path, knows_zookeeper: bool
) -> None:
    """By the topic's node in ZooKeeper, or by the message before the job's position."""
    topic = unique.topic()
    options = {"zookeeper_connect": deleting.zookeeper} if knows_zookeeper else {}
    load = job(deleting, tmp_path, spark, topics=[topic], out_of_range="earliest", **options)
    filled(deleting, {topic: 1}, 20, PLAIN_ONLY)
    assert [manifest.rows for manifest in load.run().manifests] == [20]
    assert load.run().manifests == ()
    delete(deleting, topic)
    filled(deleting, {topic: 1}, 30, Mixture(keyed=1.0, codecs=(GZIP,), value_bytes=50), seed=2)
    said = "was created again at" if knows_zookeeper else "the log holds another message at 19 than the one"
    with pytest.raises(OffsetOutOfRange, match=said) as raised:
        load.run()
    [wanted] = re.findall(r"--from-json '([^']*)'", str(raised.value))
    positions = {TopicPartition(topic, int(p)): at for p, at in json.loads(wanted)[topic].items()}
    run_operation(load.config, spark, load.told.append, InitWanted(positions=positions, replace=True))
    assert [manifest.rows for manifest in load.run().manifests] == [30]
    assert load.run().manifests == ()
    load.check()


def test_spark_does_not_start_at_a_group_of_the_old_log(deleting: Cluster, unique: Unique) -> None:
    topic, group = read_and_recreated(deleting, unique)
    tp = TopicPartition(topic, 0)
    with zookeeper(deleting.zookeeper) as zk:
        found = read_offsets(group, [tp], "zookeeper", zk=zk)[tp]
        assert isinstance(found, FormerOffset)
        assert found.position == 20
        assert write_offsets(group, {tp: 20}, "zookeeper", zk=zk) == {
            tp: None
        }  # said by somebody: it counts from now on
        assert read_offsets(group, [tp], "zookeeper", zk=zk) == {tp: 20}
