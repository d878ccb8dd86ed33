"""Outages while a mirror runs, on real clusters: the lag stays true or is unknown, the status line names what is out of
reach, and the log has one warning at the beginning and one line at the end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from localkafka import tools
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.kraft import KraftBroker
from localkafka.load import Mixture
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring import MIXED, PLAIN_ONLY, Mirror, filled

pytestmark = pytest.mark.real

SMALL_QUEUES = dict.fromkeys(("fetch.message.max.bytes", "fetch.growth.max.bytes"), 100_000) | {
    "queued.max.bytes": 200_000
}
WIDE = Mixture(keyed=0.0, codecs=(0,), value_bytes=1_000)


def with_source_options(mirror: Mirror, options: Mapping[str, object], source: int = 0) -> Mirror:
    settings = yaml.safe_load(mirror.file.read_text())
    settings["sources"][source] |= options
    mirror.file.write_text(yaml.safe_dump(settings))
    return mirror


def status(mirror: Mirror) -> str:
    """The newest status line."""
    lines = [line for line in mirror.said().splitlines() if " msg/s, " in line]
    return lines[-1] if lines else ""


def lines(mirror: Mirror, level: str, *parts: str) -> list[str]:
    """Log lines of a level with all of these in them."""
    found = [line for line in mirror.said().splitlines() if f"level={level} " in line and " msg/s, " not in line]
    return [line for line in found if all(part in line for part in parts)]


def test_the_lag_stays_true_while_the_target_hangs_and_the_line_says_why(
    source: ClusterClient, own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    target = own_cluster(brokers=1)
    load = filled(source, {topic: 2}, 100, PLAIN_ONLY)
    mirror = Mirror(
        tmp_path, source, target, unique.group(), topic, target_options={"request.timeout.ms": 2000}
    )  # fmt: skip
    with with_source_options(mirror, SMALL_QUEUES):
        mirror.wait_all_committed([topic])
        target.node(0).pause()
        load.produce(topic, 2, 1_000, WIDE)  # more than the queues hold
        mirror.wait_for(lambda: "target: broker 0" in status(mirror), "the status line to name the broker")
        load.produce(topic, 2, 3_000, WIDE)  # nothing of this is fetched
        mirror.wait_for(lambda: "lag 4,000," in status(mirror), f"the whole lag: {status(mirror)}")
        assert re.search(r"target: broker 0 \(.*\): no byte within \S+ s.* \(for \d+ s\)", status(mirror))
        target.node(0).resume()
        mirror.wait_all_committed([topic])
        mirror.wait_for(lambda: "target:" not in status(mirror), "the outage to leave the status line")
        assert mirror.stop()[0] == 0
    [warning] = lines(mirror, "warning", "target: ")
    assert "may be stored twice" in warning
    assert len(lines(mirror, "info", "target: broker 0", "answers again after")) == 1


def test_the_lag_of_a_dead_source_broker_is_unknown_and_each_source_says_its_own(
    source: ClusterClient, target: ClusterClient, own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    topic, other = unique.topic("dying"), unique.topic("living")
    dying = own_cluster(brokers=1)
    filled(dying, {topic: 3}, 300, PLAIN_ONLY)
    filled(source, {other: 1}, 100, PLAIN_ONLY)
    mirror = Mirror(tmp_path, dying, target, unique.group(), f"{topic}|{other}")
    settings = yaml.safe_load(mirror.file.read_text())
    settings["sources"].append({"name": "dc2", "zookeeper.connect": source.zookeeper, "group.id": mirror.group})
    mirror.file.write_text(yaml.safe_dump(settings))
    with mirror:
        mirror.wait_all_committed([topic])
        mirror.wait_for(lambda: "lag 0," in status(mirror), "lag 0")
        dying.node(0).kill()
        mirror.wait_for(lambda: "lag unknown," in status(mirror), "the lag to be unknown", 20)
        assert "; source dc1: broker 0 (" in status(mirror)
        assert "source dc2:" not in status(mirror)
        dying.node(0).restart()
        filled(dying, {}, 0, seed=2).produce(topic, 3, 300, MIXED)
        mirror.wait_all_committed([topic])
        mirror.wait_for(lambda: "lag 0," in status(mirror), "lag 0 again")
        assert mirror.stop()[0] == 0
    assert "source dc1:" not in status(mirror)
    [warning] = lines(mirror, "warning", "outage: ")
    assert "source dc1: outage: broker 0 (" in warning
    assert "; 3 partitions cannot be read until that is over" in warning
    assert len(lines(mirror, "info", "source dc1: over: broker 0 (", "over after ")) == 1
    assert not lines(mirror, "warning", "source dc2: ")
    assert lines(mirror, "info", "source dc2: rebalance: reading 1 partition ")


# ---- target topics ---------------------------------------------------------------------------------------------


def test_a_target_topic_that_is_deleted_is_created_again_at_once(
    source: ClusterClient, own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    topic, other = unique.topic(), unique.topic("other")
    target = own_cluster(brokers=1, settings={"delete.topic.enable": "true", "num.partitions": "1"})
    load = filled(source, {topic: 3, other: 1}, 300, PLAIN_ONLY)
    with Mirror(tmp_path, source, target, unique.group(), f"{topic}|{other}") as mirror:
        mirror.wait_all_committed([topic, other])
        tools.topic_command(target, "--delete", "--topic", topic)
        zk = target.registry().zk
        wait_until(lambda: zk.exists(f"/brokers/topics/{topic}") is None, 30, "the topic to be deleted")
        began = time.monotonic()
        load.produce(topic, 3, 300, PLAIN_ONLY)
        mirror.wait_for(lambda: mirror.arrived(topic) >= 300, "what came later to arrive in the new topic")
        assert time.monotonic() - began < 20
        mirror.wait_all_committed([topic, other])
        assert len(target.registry().partitions(topic)) == 3  # as at the start, not the broker's own number
        assert mirror.stop()[0] == 0
    said = f"source dc1: topic {topic} waits: target topic {topic} is gone; looking for it, and creating it again"
    assert len(lines(mirror, "warning", said)) == 1
    assert len(lines(mirror, "info", f"topic {topic} flows again: the target has 3 partitions")) == 1
    assert "create it there" not in mirror.said()


def test_a_topic_that_kraft_creates_by_its_name_is_no_warning_and_is_created_again(
    source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    load = filled(source, {topic: 2}, 200, PLAIN_ONLY)
    with KraftBroker(tmp_path / "kraft", settings={"num.partitions": "2"}) as target:
        target_section = {
            "metadata.broker.list": target.brokers,
            "target.zookeeper.connect": None,
            "target.version": "3.9",
        }
        with Mirror(tmp_path, source, source, unique.group(), topic, target_options=target_section) as mirror:
            mirror.wait_all_committed([topic])
            assert "does not create it" not in mirror.said()
            assert not lines(mirror, "warning", "waits")
            target.topics("--delete", "--topic", topic)
            began = time.monotonic()
            load.produce(topic, 2, 200, PLAIN_ONLY)
            mirror.wait_all_committed([topic])
            assert time.monotonic() - began < 20
            assert mirror.stop()[0] == 0
        assert len(lines(mirror, "warning", f"topic {topic} waits: target topic {topic} is gone")) <= 1
        assert "create it there" not in mirror.said()
