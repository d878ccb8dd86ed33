"""Clusters whose release no option names: what they take, topics made by the controller, and rolls under a mirror."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from kafkawire.cluster.metadata import MetadataSource, NothingKnown
from kafkawire.cluster.release import ask_release
from kafkawire.cluster.retry import Backoff, RetryPolicy
from kafkawire.cluster.topicadmin import ControllerRefused, TopicAdmin
from kafkawire.cluster.versions import ClusterVersions, negotiated
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol.adminrequests import NewTopic
from localkafka import releases
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.kraft import KraftBroker
from localkafka.load import Load
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt
from tests.conftest import Unique
from tests.integration.mirroring import KEYED, MIXED, Mirror, filled
from tests.matrix.foreign import read_by_librdkafka
from zkconsumer.simple import SimpleConsumer

pytestmark = pytest.mark.real

AGAIN = RetryPolicy(retries=None, backoff=Backoff(0.1, 1.0), timeout_s=20.0)
RELEASES = ("0.9.0.1", "0.10.2.2", "2.8.2", "4.3.1")


@pytest.fixture(params=RELEASES)
def brokers(request: pytest.FixtureRequest, zk_server: ZooKeeperAt, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A broker of each kind: its release, its address."""
    version = request.param
    if releases.release(version).kraft:
        with KraftBroker(tmp_path / "kraft", version) as broker:
            yield version, broker.brokers
    else:
        with Cluster(version=version, zookeeper=zk_server) as cluster:
            yield version, cluster.brokers


def address(text: str) -> tuple[str, int]:
    host, _, port = text.partition(":")
    return host, int(port)


def answers(metadata: MetadataSource) -> bool:
    try:
        metadata.read(None)
    except NothingKnown:
        return False
    return True


def test_what_a_broker_says_is_its_row_and_topics_and_offsets_go_by_what_it_takes(
    brokers: tuple[str, str], unique: Unique
) -> None:
    version, at = brokers
    row, topic = dialect(version), unique.topic()
    found = ask_release(Broker(0, *address(at)), timeout_ms=20000)
    for key, spoken in row.versions.items():
        lowest, highest = found.taken[key]
        assert lowest <= spoken <= highest, (key, spoken)
    asked = negotiated([found])
    assert (asked.versions, asked.formats) == (row.versions, row.formats)

    versions = ClusterVersions()
    links = Links("test", versions.connect(socket.create_connection), 20000)
    metadata = MetadataSource([address(at)], versions.dialect, links)
    admin = TopicAdmin(metadata, links, versions.dialect, retry=AGAIN)
    wait_until(lambda: answers(metadata), 30, "the broker to know of itself")  # not at once behind its start
    assert versions.dialect.versions == row.versions
    assert (admin.creates, admin.grows) == (row.number >= (0, 10, 1), row.number >= (1, 0))
    if admin.creates:
        topics_by_the_controller(admin, metadata, topic)
    links.end()

    tp = TopicPartition(topic if admin.creates else unique.topic("auto"), 0)
    with SimpleConsumer(*address(at), timeout_ms=20000) as consumer:
        consumer.topic_metadata([tp.topic])  # makes the one of 0.9
        wait_until(lambda: consumer.topic_metadata([tp.topic]).leader(tp), 30, "a leader")
        assert (consumer.earliest(tp), consumer.latest(tp)) == (0, 0)
        group = unique.group()
        assert consumer.commit_offsets(group, {tp: (7, "seven")}, "kafka") == [tp]
        assert consumer.fetch_offsets(group, [tp, tp._replace(partition=99)], "kafka")[tp] == 7
        assert consumer._coordinator.commit(group, {tp: (8, "")}, "kafka", retention_ms=3_600_000) == {tp: None}
        assert consumer.fetch_offsets(group, [tp], "kafka") == {tp: 8}


def topics_by_the_controller(admin: TopicAdmin, metadata: MetadataSource, topic: str) -> None:
    settings = {"retention.ms": "123456789", "cleanup.policy": "compact"}
    assert admin.create(topic, NewTopic(3, 1, settings))
    assert not admin.create(topic, NewTopic(5, 1))
    wait_until(lambda: len(metadata.read(None).partitions(topic)) == 3, 20, "three partitions")
    if admin.describes:
        assert admin.settings([topic, f"{topic}-none"]) == {topic: settings}
    if admin.grows:
        admin.grow(topic, 5)
        admin.grow(topic, 4)  # it has more
        wait_until(lambda: len(metadata.read(None).partitions(topic)) == 5, 20, "five partitions")
    with pytest.raises(ControllerRefused, match=rf"topic {topic}-more: InvalidReplicationFactor \(38\): .*replicas"):
        admin.create(f"{topic}-more", NewTopic(1, 3))
    with pytest.raises(ControllerRefused, match=r"InvalidConfig \(40\)"):
        admin.create(f"{topic}-odd", NewTopic(1, 1, {"no.such.setting": "1"}))
    if admin.validates:
        assert admin.create(f"{topic}.a", NewTopic(1, 1))
        wait_until(lambda: metadata.read(None).partitions(f"{topic}.a"), 20, "the topic")
        asked = {f"{topic}{end}": NewTopic(1, copies) for end, copies in (("_a", 1), ("-b", 1), ("-c", 3))}
        refused = {name: why.code for name, why in admin.refused(asked).items()}
        assert refused == {f"{topic}_a": 17, f"{topic}-c": 38}  # the first one by its name: "_" is "." in a metric
        assert not metadata.read(None).topics.keys() & asked.keys()


# ---- under a mirror --------------------------------------------------------------------------------------------------


def rolled(mirror: Mirror, load: Load, topic: str, stop: Callable[[], object], start: Callable[[], object]) -> None:
    """While the target is away messages are fetched and wait, in the format of before; then come some more."""
    outage = "level=warning at=mirrormaker.target"
    before = mirror.said().count(outage)
    stop()
    load.produce(topic, 3, 1500, KEYED)
    mirror.wait_for(lambda: mirror.said().count(outage) > before, "the outage", 90)
    start()
    load.produce(topic, 3, 500, KEYED)
    mirror.wait_all_committed([topic], 150)


def lost(load: Load, brokers: str, topic: str) -> tuple[int, int]:
    """Messages that are missing in the target, and those that are there; as librdkafka reads it."""
    wanted = {f"{tp} #{n} ".encode() for tp, count in load.numbers.items() for n in range(count) if tp.topic == topic}
    there = [cast("bytes", row[5]).rstrip(b".") for row in read_by_librdkafka(brokers, [topic])]
    return len(wanted - set(there)), len(there)


def test_a_target_that_becomes_4_x_under_a_mirror_loses_nothing(
    source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    """What waits in queues is of formats that 4.x takes no more; the topic is made by the controller."""
    topic = unique.topic()
    load = filled(source, {topic: 3}, 2000, MIXED)
    with KraftBroker(tmp_path / "kraft", "3.9.1", settings={"auto.create.topics.enable": "false"}) as target:
        section = {
            "metadata.broker.list": target.brokers,
            "target.zookeeper.connect": None,
            "target.topic.configs": "retention.ms=3600000",
        }
        with Mirror(tmp_path, source, source, unique.group(), topic, target_options=section) as mirror:
            mirror.wait_all_committed([topic])
            assert "3 partitions, replication 1 (with retention.ms=3600000; other settings" in mirror.said()

            def start() -> None:
                target.release = releases.release("4.3.1")
                target.start(90)

            rolled(mirror, load, topic, target.stop, start)
            assert "target: now used as Kafka 4.2, before as 3.9" in mirror.said()
            assert mirror.stop()[0] == 0
        assert lost(load, target.brokers, topic)[0] == 0
        assert "retention.ms=3600000" in target.topics("--describe", "--topic", topic)
        checked = subprocess.run(
            [COMMAND, "check", "--online", mirror.file], capture_output=True, text=True, timeout=60
        )
        assert checked.returncode == 0
        assert "Kafka 4.2 or later, used as 4.2" in checked.stderr
        assert "target: Produce v8, Fetch v11" in checked.stderr
        assert "stored as they are: 2; written: 2" in checked.stderr


NEWER = pytest.param("2.8.2", "3.9.1", marks=pytest.mark.faults)  # as the other, where no format changes


@pytest.mark.parametrize(("old", "new"), [("0.10.2.2", "0.11.0.3"), NEWER])
def test_a_source_that_is_rolled_under_a_mirror_loses_nothing(
    own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path, old: str, new: str
) -> None:
    """One broker after the other, as Kafka's notes on upgrades say it: in between the cluster is of two releases."""
    topic = unique.topic()
    before, after = old.rpartition(".")[0], new.rpartition(".")[0].replace("0.11.0", "0.11")
    during = {"inter.broker.protocol.version": before, "log.message.format.version": before}
    source = own_cluster(version=old, brokers=2, settings=during)
    target = own_cluster(version="2.8.2", brokers=1)
    load = filled(source, {topic: 4}, 1000, MIXED)
    with Mirror(tmp_path, source, target, unique.group(), topic) as mirror:
        mirror.wait_all_committed([topic])
        for node in source.nodes:
            node.stop()
            node.release = releases.release(new)
            node.restart()
            load.produce(topic, 4, 1000, MIXED)
            mirror.wait_all_committed([topic], 90)
        mirror.wait_said(f"source dc1: now used as Kafka {after}, before as {before}")
        assert mirror.stop()[0] == 0
    assert lost(load, target.brokers, topic)[0] == 0
