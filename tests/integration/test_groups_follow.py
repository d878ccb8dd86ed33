"""Groups of the source follow a mirror: their offsets are at the target, translated, while their members run."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mapmoves import mapped, mark, part_read
from tests.integration.mirroring import KEYED, MIXED, Mirror, filled
from tests.integration.readers import Reader, committed, wait_for_messages
from zkconsumer.offsetmap.mirrored import mirrored_path, read_mirrored
from zkconsumer.offsets.coordinator import Coordinator

pytestmark = pytest.mark.real


def groups(mirror: Mirror) -> dict[str, dict[str, object]]:
    """The groups that status shows, by name."""
    argv = [sys.executable, "-m", "mirrormaker.commands.main", "status", str(mirror.file), "-o", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    if done.returncode:
        return {}
    return {row["group"]: row for row in json.loads(done.stdout)["groups"]}


def wait_state(mirror: Mirror, group: str, state: str, reason: str = "") -> dict[str, object]:
    def there() -> bool:
        row = groups(mirror).get(group, {})
        return row.get("state") == state and reason in str(row.get("reason"))

    wait_until(there, 40, lambda: f"{group} to be {state}: {groups(mirror)}\n{mirror.said_last()}")
    return groups(mirror)[group]


@pytest.mark.parametrize("there", [4, 3])
def test_a_group_whose_source_is_lost_reads_on_at_the_target_and_little_twice(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, there: int
) -> None:
    topic, group = unique.topic(), unique.group("billing")
    mixture = MIXED if there == 4 else KEYED  # with fewer partitions there the keys decide
    load = filled(source, {topic: 4}, 2000, mixture)
    target.create_topic(topic, there)
    kept = (
        mapped(tmp_path) if there == 4 else {"offset.map.topic": unique.topic("map"), "offset.map.every.messages": 200}
    )
    options = {**kept, "offset.map.every.ms": 500, "groups": "billing.*", "groups.interval.ms": 1000}
    with Mirror(tmp_path, source, target, unique.group(), topic, options) as mirror:
        with load.in_background({topic: mixture}, 4, 300), Reader(source.zookeeper, group, {topic: 1}) as reader:
            wait_for_messages(1500, reader)
            wait_until(lambda: len(committed(target, group, topic)) == there, 40, lambda: f"{groups(mirror)}")
            reader.stop()
        read = committed(source, group, topic)
        mirror.wait_all_committed([topic])
        wait_state(mirror, group, "following")
        zk = target.registry().zk
        wait_until(  # the last translation: of the offsets that the members committed as they stopped
            lambda: (
                {
                    (str(fed.source.partition), fed.position)
                    for p in range(there)
                    for fed in read_mirrored("", zk.get(mirrored_path(group, TopicPartition(topic, p)))[0]).read
                }
                == {(str(p), at) for p, at in read.items()}
            ),
            40,
            lambda: f"{read}: {groups(mirror)}",
        )
        row = wait_state(mirror, group, "following")
        assert row["partitions"] == there
        mirror.kill()
    wanted = {
        (int(str(tp.partition)), n)
        for tp, end in log_end_offsets(source, [topic]).items()
        for n in range(read[int(str(tp.partition))], end)
    }
    with Reader(target.zookeeper, group, {topic: 1}) as reader:
        wait_until(lambda: wanted <= {mark(each.value) for each in reader.got}, 40, "all that was not read")
        reader.stop()
    again = [mark(each.value) for each in reader.got if mark(each.value) not in wanted]
    repeats = row["repeats"]
    assert isinstance(repeats, int)
    assert len(again) <= repeats <= 4 * 3 * 1000, "at most what status had said, of which each map interval is one part"


def test_offsets_of_others_and_of_live_members_are_left_alone_and_said(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, live, moved = unique.topic(), unique.group("live"), unique.group("moved")
    load = filled(source, {topic: 1}, 500)
    target.create_topic(topic, 1)
    for group in (live, moved):
        part_read(source, topic, group, random.Random(1), 300)
    options = {**mapped(tmp_path), "groups": f"{live},{moved}", "groups.interval.ms": 1000, "groups.prefix": "dc1."}
    with Mirror(tmp_path, source, target, unique.group(), topic, options) as mirror:
        for group in (live, moved):
            wait_state(mirror, group, "following")
        zk = target.registry().zk
        paths = {group: f"/consumers/dc1.{group}/offsets/{topic}/0" for group in (live, moved)}
        zk.set(paths[moved], b"7")
        with Reader(target.zookeeper, f"dc1.{live}", {topic: 1}) as reader:
            wait_until(reader.owns, 30, "a member at the target")
            load.produce(topic, 1, 10, MIXED)
            mirror.wait_all_committed([topic])
            for group in (live, moved):  # they go on at the source
                source.registry().zk.set(f"/consumers/{group}/offsets/{topic}/0", b"505")
            wait_state(mirror, live, "left alone", "it has members at the target")
            wait_state(mirror, moved, "left alone", "holds 7, which this mirror did not write")
            reader.stop()
        assert zk.get(paths[moved])[0] == b"7"
        wait_state(mirror, live, "left alone", "which this mirror did not write")
        assert mirror.stop()[0] == 0


def test_a_group_follows_into_kafkas_store_and_a_commit_of_somebody_else_is_left_alone(
    source: ClusterClient, own_cluster, unique: Unique, tmp_path: Path
) -> None:
    target = own_cluster(version="3.9.1", brokers=1, settings={"offsets.topic.replication.factor": "1"})
    topic, group = unique.topic(), unique.group("billing")
    load = filled(source, {topic: 2}, 500)
    target.create_topic(topic, 2)
    read = part_read(source, topic, group, random.Random(3), 300)
    options = {**mapped(tmp_path), "groups": group, "groups.interval.ms": 1000, "groups.rename": {group: "invoices"}}
    only = {"target.zookeeper.connect": None}
    with Mirror(tmp_path, source, target, unique.group(), topic, options, only) as mirror:
        row = wait_state(mirror, group, "following")
        assert (row["target_group"], row["partitions"]) == ("invoices", 2)
        links = Links("test", timeout_ms=10_000)
        (address,) = target.brokers.split(",")
        host, port = address.split(":")
        store = Coordinator(lambda: [Broker(0, host, int(port))], links, dialect("3.9.1"))
        tps = [TopicPartition(topic, p) for p in range(2)]
        held = store.fetch("invoices", tps, "kafka")
        assert all(isinstance(at, int) and at <= read[int(str(tp.partition))] for tp, at in held.items())
        assert store.commit("invoices", {tps[0]: (3, "")}, "kafka") == {tps[0]: None}
        load.produce(topic, 2, 20, MIXED)
        mirror.wait_all_committed([topic])
        for tp, end in log_end_offsets(source, [topic]).items():
            source.registry().zk.set(f"/consumers/{group}/offsets/{topic}/{tp.partition}", b"%d" % end)
        wait_state(mirror, group, "left alone", f"{topic}/0: kafka holds 3, which this mirror did not write")
        assert store.fetch("invoices", tps[:1], "kafka") == {tps[0]: 3}
        links.close()
        assert mirror.stop()[0] == 0
