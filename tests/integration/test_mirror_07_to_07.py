"""From one 0.7 cluster into another: wrappers as they are, nothing committed that is not confirmed, whoever dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.model import BrokerPartition
from localkafka.seven import tools
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring07 import Mirror07, damaged, fill, judged
from tests.integration.sevens import owners

pytestmark = pytest.mark.real
Starter = Callable[..., Cluster07]


def target_section(target: Cluster07) -> dict[str, object]:
    return {"target.version": "0.7.2", "target.zookeeper.connect": target.zookeeper, "request.timeout.ms": 3000}


def arrived(target: Cluster07, topic: str) -> int:
    return sum(map(len, target.values(topic).values()))


def test_entries_arrive_as_they_are_and_each_source_partition_in_one_place(
    cluster07: Starter, unique: Unique, tmp_path: Path
) -> None:
    patient = {"zk.sessiontimeout.ms": 8000}  # a broker that is away for a moment is no target for that time
    source, target = cluster07(partitions={0: 2, 1: 1}), cluster07(partitions={4: 2, 5: 2}, settings=patient)
    topic = unique.topic()
    total = fill(source, topic, 600)
    mirror = Mirror07(tmp_path, source, target_section(target), unique.group(), topic)
    code, told = mirror.checked()
    assert (code, "missing, its brokers make it" in told, "pass-through: same format" in told) == (0, True, True), told
    assert "acknowledges nothing" in told
    with mirror:
        mirror.wait_all_committed()
        mirror.wait_said("pass-through: same format; all of a source partition goes to one partition")
        assert mirror.stop()[0] == 0
    there = target.values(topic)
    assert {str(partition) for partition in there} == {"4-0", "4-1", "5-0", "5-1"}
    found = judged(source.values(topic), there)
    assert (found.source, found.lost, found.duplicates, found.phantoms) == (total, 0, 0, 0)
    assert (found.out_of_order, found.split) == (0, 0)
    assert sum(source.ends(topic).values()) == sum(
        target.ends(topic).values()
    )  # byte for byte: nothing was packed anew


def test_kills_of_the_mirror_and_of_a_target_broker_lose_nothing(
    cluster07: Starter, unique: Unique, tmp_path: Path
) -> None:
    source, target = cluster07(partitions={0: 1, 1: 2}), cluster07(partitions={0: 1, 1: 1})
    topic = unique.topic()
    total = fill(source, topic, 3000)
    options, small = {"offset.commit.interval.ms": 200}, {"fetch.message.max.bytes": 8192}
    with Mirror07(tmp_path, source, target_section(target), unique.group(), topic, options, small) as mirror:
        mirror.wait_for(lambda: arrived(target, topic) > total // 6, "a sixth")
        mirror.kill()
        mirror.start()
        mirror.wait_for(lambda: arrived(target, topic) > total // 2, "a half")
        target.node(1).kill()
        target.node(1).restart()
        total += fill(source, topic, 300, first=3000)
        mirror.wait_all_committed(timeout_s=60)
        assert mirror.stop()[0] == 0
    found = judged(source.values(topic), target.values(topic))
    assert (found.source, found.lost, found.phantoms) == (total, 0, 0), mirror.said()
    assert found.duplicates < total


def test_what_a_target_of_0_7_would_drop_without_a_word_parks_its_partition(
    cluster07: Starter, unique: Unique, tmp_path: Path
) -> None:
    source, target = cluster07(partitions={0: 2}, settings={"max.message.size": 2000000}), cluster07()
    topic = unique.topic()
    source.produce(topic, 0, 0, [b"small", b"x" * 1_500_000, b"after"])
    source.produce(topic, 0, 1, [b"y" * 700_000, b"z" * 700_000], codec="gzip")
    big = {"fetch.message.max.bytes": 2_000_000}
    with Mirror07(tmp_path, source, target_section(target), unique.group(), topic, more=big) as mirror:
        mirror.wait_said("parked 1")
        mirror.wait_for(lambda: arrived(target, topic) == 3, "three")
        assert mirror.stop()[0] == 0
    assert sorted(len(value) for values in target.values(topic).values() for value in values) == [5, 700_000, 700_000]
    assert mirror.committed().get(BrokerPartition(0, 0), 0) <= 10 + 5


def test_a_damaged_wrapper_parks_its_partition_and_the_others_flow(
    cluster07: Starter, unique: Unique, tmp_path: Path
) -> None:
    source, target, topic = cluster07(partitions={0: 2}), cluster07(), unique.topic()
    source.produce(topic, 0, 0, [b"before"])
    source.produce(topic, 0, 0, [b"in", b"the", b"wrapper"], codec="gzip")
    source.produce(topic, 0, 1, [b"neighbour"])
    damaged(source, topic, BrokerPartition(0, 0), 16 + 30)
    options = {"parked.retry.ms": 0}
    with Mirror07(tmp_path, source, target_section(target), unique.group(), topic, options) as mirror:
        mirror.wait_said("parked 1", 60)
        mirror.wait_for(lambda: arrived(target, topic) >= 2, "two")
        assert mirror.stop()[0] == 0
    assert mirror.committed()[BrokerPartition(0, 0)] <= 16
    assert set(values(target, topic)) == {b"before", b"neighbour"}


@pytest.mark.kafka07
@pytest.mark.parametrize("kind07", ["original"], indirect=True)
def test_the_originals_mirror_and_ours_copy_the_same_side_by_side_and_in_one_group(
    cluster07: Starter, unique: Unique, tmp_path: Path
) -> None:
    source, theirs, ours = cluster07(partitions={0: 2, 1: 2}), cluster07(), cluster07()
    topic, group = unique.topic(), unique.group()
    total = fill(source, topic, 300)
    with tools.mirror_maker([source], theirs, whitelist=topic, group=f"{group}-theirs") as original:
        with Mirror07(tmp_path, source, target_section(ours), f"{group}-ours", topic) as mirror:
            mirror.wait_all_committed(timeout_s=60)
            wait_until(lambda: arrived(theirs, topic) >= total, 60, original.log_end)
            assert mirror.stop()[0] == 0
        original.stop()
    here = Counter(values(source, topic))
    assert Counter(values(ours, topic)) == here
    assert Counter(values(theirs, topic)) == here

    shared = cluster07()
    with (
        tools.mirror_maker([source], shared, whitelist=topic, group=group) as original,
        Mirror07(tmp_path, source, target_section(shared), group, topic) as mirror,
    ):
        mirror.wait_for(lambda: len(set(owned(source, group, topic))) == 2, "two owners", 60)
        total += fill(source, topic, 300, first=300)
        wait_until(lambda: len(set(values(shared, topic))) == total, 60, original.log_end)
        assert mirror.stop()[0] == 0
        original.stop()
    assert set(values(shared, topic)) == set(values(source, topic))


def values(cluster: Cluster07, topic: str) -> list[bytes]:
    return [value for found in cluster.values(topic).values() for value in found]


def owned(source: Cluster07, group: str, topic: str) -> list[str]:
    """Members that own the four partitions; none while one is free."""
    names = [thread.rpartition("-")[0] for thread in owners(source._reader(), group, topic).values()]
    return names if len(names) == 4 else []
