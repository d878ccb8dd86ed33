"""delivery.guarantee: exactly-once on real clusters: whoever dies, a read_committed reader sees each message once."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from localkafka.client import ClusterClient, log_end_offsets
from localkafka.cluster import Cluster
from localkafka.kraft import KraftBroker
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring import MIXED
from tests.integration.oncecopies import Copies, Modern, OnceMirror, copies, load_of

pytestmark = pytest.mark.real

COUNT = 30_000
PARTITIONS = 4
ABORTS_SOON = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}  # it looks for these so often


@pytest.fixture(scope="module")
def targets(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], Modern]]:
    """A target of a release, shared by the tests of this module; none of them stops it."""
    made: dict[str, Cluster | KraftBroker] = {}

    def target(version: str) -> Modern:
        if version not in made:
            folder = tmp_path_factory.mktemp("target")
            four = version[0] == "4"
            made[version] = KraftBroker(folder, version) if four else Cluster(version=version, settings=ABORTS_SOON)
            made[version].start()
        return made[version]

    yield target
    for each in made.values():
        each.close()


def stored(target: Modern, topic: str) -> int:
    """What the logs of a topic of the target hold, marks of transactions included."""
    return sum(log_end_offsets(cast("ClusterClient", target), [topic]).values())


def once(count: int) -> Copies:
    return Copies(source=count, target=count, lost=0, duplicates=0, disordered=0)


def killed_under_load(
    source: ClusterClient, target: Modern, folder: Path, unique: Unique, kills: int, count: int = COUNT
) -> Copies:
    """Half is there, half comes in shares while the mirror is killed, each time once it has committed some of what it
    had not copied: the share that is being written sees to it that there is something."""
    topic, share = unique.topic(), count // 2 // kills
    load = load_of(source, topic, PARTITIONS, count - share * kills)
    with OnceMirror(folder, source, target, unique.group(), topic) as mirror:
        for kill in range(kills):
            with load.in_background({topic: MIXED}, PARTITIONS, share):
                mirror.wait_committed(mirror.committed() + (share if kill % 2 else 1))
                mirror.kill()
                mirror.start()
        mirror.wait_all()
        assert mirror.stop()[0] == 0
    return copies(source, target, topic, PARTITIONS)


@pytest.mark.parametrize(("version", "kills"), [pytest.param("2.8.2", 3, marks=pytest.mark.faults), ("4.3.1", 2)])
def test_a_mirror_that_is_killed_under_load_copies_each_message_once(
    source: ClusterClient, targets: Callable[[str], Modern], unique: Unique, tmp_path: Path, version: str, kills: int
) -> None:
    assert killed_under_load(source, targets(version), tmp_path, unique, kills) == once(COUNT)


@pytest.mark.faults
@pytest.mark.parametrize("version", ["2.8.2", "4.3.1"])
def test_thirty_kills(
    source: ClusterClient, targets: Callable[[str], Modern], unique: Unique, tmp_path: Path, version: str
) -> None:
    assert killed_under_load(source, targets(version), tmp_path, unique, kills=30, count=300_000) == once(300_000)


def test_a_member_that_wakes_up_after_its_partitions_moved_adds_nothing(
    source: ClusterClient, targets: Callable[[str], Modern], unique: Unique, tmp_path: Path
) -> None:
    """Both daemons write while partitions move; one is stopped for longer than its session and goes on sending."""
    topic, group, target = unique.topic(), unique.group(), targets("2.8.2")
    part = COUNT // 4
    load = load_of(source, topic, PARTITIONS, part)
    slow = {"transaction.interval.ms": 1000}  # it is stopped in the middle of transactions
    first = OnceMirror(tmp_path, source, target, group, topic, name="first", mirror=slow)
    second = OnceMirror(tmp_path, source, target, group, topic, name="second")
    ids = f"/consumers/{group}/ids"
    with first:
        first.wait_committed(1)
        with second:
            second.wait_said("event=owned")  # partitions moved from a member that goes on
            load.produce(topic, PARTITIONS, part, MIXED)
            first.signal(signal.SIGSTOP)
            wait_until(lambda: len(source.registry().zk.get_children(ids)) == 1, 30, "the session to end")
            load.produce(topic, PARTITIONS, part, MIXED)
            second.wait_all()
            first.signal(signal.SIGCONT)
            first.wait_said("lease over")
            load.produce(topic, PARTITIONS, COUNT - 3 * part, MIXED)
            second.wait_all()
            assert second.stop()[0] == 0
        first.wait_all()
        assert first.stop()[0] == 0
    assert copies(source, target, topic, PARTITIONS) == once(COUNT)


def test_a_mirror_with_transactions_is_followed_by_one_without_that_resumes_at_the_targets_end(
    source: ClusterClient, targets: Callable[[str], Modern], unique: Unique, tmp_path: Path
) -> None:
    """Behind the map's last checkpoint the target has transactions: committed, aborted, and one that is open."""
    topic, group, target = unique.topic(), unique.group(), targets("2.8.2")
    load = load_of(source, topic, PARTITIONS, COUNT // 4)
    kept = {"offset.map.folder": str(tmp_path), "offset.map.every.ms": 60_000, "offset.map.every.messages": 1_000_000}
    once_each = {**kept, "transaction.interval.ms": 700, "transaction.timeout.ms": 3000}
    with OnceMirror(tmp_path, source, target, group, topic, name="first", mirror=once_each) as mirror:
        mirror.wait_all()
        mirror.kill()
    late = {**once_each, "offset.commit.interval.ms": 600_000}  # what it copies is not committed at the source
    with OnceMirror(tmp_path, source, target, group, topic, name="late", mirror=late) as mirror:
        before = stored(target, topic)
        load.produce(topic, PARTITIONS, COUNT // 4, MIXED)
        mirror.wait_for(lambda: stored(target, topic) > before + COUNT // 8, "more messages in the target")
        mirror.kill()
    second = {**kept, "delivery.guarantee": "at-least-once", "resume": "target-end", "parked.retry.ms": 1000}
    with OnceMirror(tmp_path, source, target, group, topic, name="second", mirror=second) as mirror:
        mirror.wait_all()
        assert mirror.stop()[0] == 0
        assert len(re.findall("messages were there without an answer", mirror.said())) == PARTITIONS
        assert "event=resume-refused" not in mirror.said()
    assert copies(source, target, topic, PARTITIONS) == once(COUNT // 2)


def test_a_broker_of_the_target_that_dies_costs_nothing(
    source: ClusterClient, own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    """It leads partitions, coordinates transactions and groups; the other one takes all of that over."""
    topic = unique.topic()
    internal = {f"{name}.replication.factor": "2" for name in ("transaction.state.log", "offsets.topic", "default")} | {
        "transaction.state.log.min.isr": "1",
        "unclean.leader.election.enable": "false",
    }
    target = own_cluster(brokers=2, version="2.8.2", settings=internal)
    target.create_topic(topic, PARTITIONS, 2)
    load = load_of(source, topic, PARTITIONS, COUNT // 2)
    two = {"num.producer.connections": 2}
    with OnceMirror(tmp_path, source, target, unique.group(), topic, towards=two) as mirror:
        with load.in_background({topic: MIXED}, PARTITIONS, COUNT // 2):
            mirror.wait_committed(COUNT // 8)
            dying = target.wait_leader(topic, 0)
            target.node(dying).kill()
            target.wait_leader(topic, 0, other_than=dying)
        mirror.wait_all()
        target.node(dying).restart()
        assert mirror.stop()[0] == 0
    assert copies(source, target, topic, PARTITIONS) == once(COUNT)
