"""What replication loses and keeps: L1 to L6 of the broker model of logs (2.4), and who waits for it.

Real brokers show these only with a proxy between them; here followers' fetches are held.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.simulation.asking import Client, T, pass_until, plain
from tests.simulation.brokerfaults import run
from tests.simulation.brokers import SimCluster
from tests.simulation.process import Timeline

WITHOUT_EPOCHS = ("0.8.2.2", "0.9.0.1", "0.10.2.2")
WITH_EPOCHS = ("0.11.0.3", "1.1.1", "2.8.2", "3.9.1")
CLEAN = {"unclean.leader.election.enable": "false"}


def cluster_of(release: str, replicas: list[int], **settings: str) -> SimCluster:
    """A cluster with one topic of one partition, whose first replica leads it."""
    given = {**CLEAN, **{name.replace("_", "."): value for name, value in settings.items()}}
    cluster = SimCluster(Timeline(), Random(3), release, max(replicas), settings=given)
    assert cluster.create_topic("t", 1, assignments={0: replicas}) == 0
    assert pass_until(cluster, lambda: cluster.brokers[replicas[0]].leads(T) is not None)
    cluster.timeline.run_until(cluster.timeline.now + 1.0)
    return cluster


def produce(cluster: SimCluster, broker: int, acks: int = -1, count: int = 1, value: bytes = b"m") -> tuple[int, int]:
    data, version = plain(cluster.rules.release, count, value)
    answer: tuple[int, int] = Client(cluster, broker).produce(data, acks, version, timeout_ms=5000)
    return answer


def move(cluster: SimCluster, to: int) -> None:
    assert cluster.move_leader(T, to)
    assert pass_until(cluster, lambda: cluster.brokers[to].leads(T) is not None, 5)


@pytest.mark.parametrize("release", WITHOUT_EPOCHS + WITH_EPOCHS)
def test_to_0_10_two_clean_moves_lose_what_was_acknowledged(release: str) -> None:
    """L1: the follower cuts to its own high watermark, which lags."""
    cluster = cluster_of(release, [1, 2])
    assert produce(cluster, 1) == (0, 0)  # both have it; broker 2 has not heard of the high watermark yet
    assert cluster.log(T, 2).hw == 0
    cluster.hold_fetches(1)
    move(cluster, 2)
    cluster.hold_fetches(2)
    move(cluster, 1)
    assert pass_until(cluster, lambda: cluster.brokers[2].leads(T) is None, 5)
    cluster.kill(1)
    assert pass_until(cluster, lambda: cluster.brokers[2].leads(T) is not None, 60)
    assert cluster.unclean_elections == 0
    assert cluster.log(T).end == (0 if release in WITHOUT_EPOCHS else 1)


@pytest.mark.parametrize("release", WITHOUT_EPOCHS + WITH_EPOCHS)
def test_to_0_10_one_clean_move_among_three_loses_what_was_acknowledged(release: str) -> None:
    """L1': the replica that neither led nor leads cuts it."""
    cluster = cluster_of(release, [1, 2, 3])
    assert produce(cluster, 1) == (0, 0)
    for broker in (1, 2, 3):
        cluster.hold_fetches(broker)
    move(cluster, 3)
    cluster.timeline.run_until(cluster.timeline.now + 0.1)
    cluster.kill(1)
    cluster.kill(3)
    assert pass_until(cluster, lambda: cluster.brokers[2].leads(T) is not None, 60)
    assert cluster.unclean_elections == 0
    assert cluster.log(T).end == (0 if release in WITHOUT_EPOCHS else 1)


@pytest.mark.parametrize(("release", "joins_at"), [("2.0.0", 8), ("2.0.1", 10)])
def test_a_replica_joins_without_what_the_leader_began_with_only_to_2_0_0(release: str, joins_at: int) -> None:
    """L2: a fresh leader's high watermark lags, and a replica that has no more than that joins the ISR."""
    cluster = cluster_of(release, [2, 1, 3], replica_lag_time_max_ms="2000")
    assert produce(cluster, 2, count=8) == (0, 0)
    cluster.timeline.run_until(cluster.timeline.now + 1.5)
    cluster.hold_fetches(3)
    assert pass_until(cluster, lambda: 3 not in cluster.isr(T), 10)
    assert produce(cluster, 2, count=2) == (0, 8)
    assert cluster.log(T, 1).hw == 8
    cluster.hold_fetches(2)
    move(cluster, 1)
    cluster.release_fetches(3)
    assert pass_until(cluster, lambda: cluster.brokers[1].replicas[T].followers[3].end >= 8, 5)
    asked = cluster.brokers[1].replicas[T].followers[3].end
    assert (asked, 3 in cluster.isr(T)) == (8, joins_at == 8)
    assert pass_until(cluster, lambda: 3 in cluster.isr(T), 10)
    assert cluster.brokers[1].replicas[T].followers[3].end >= joins_at


@pytest.mark.parametrize("release", WITHOUT_EPOCHS + WITH_EPOCHS)
def test_acks_1_is_lost_with_its_leader(release: str) -> None:
    """L4."""
    cluster = cluster_of(release, [1, 2])
    cluster.hold_fetches(2)
    cluster.timeline.run_until(cluster.timeline.now + 0.6)
    assert produce(cluster, 1, acks=1) == (0, 0)
    cluster.kill(1)
    cluster.release_fetches(2)
    assert pass_until(cluster, lambda: cluster.brokers[2].leads(T) is not None, 60)
    assert produce(cluster, 2, acks=1, value=b"other") == (0, 0)
    cluster.start(1)
    assert pass_until(cluster, lambda: len(cluster.isr(T)) == 2, 60)
    assert [one.data for one in cluster.log(T, 1).entries] == [one.data for one in cluster.log(T, 2).entries]


@pytest.mark.parametrize("release", WITH_EPOCHS)
def test_a_leader_that_is_cut_off_takes_what_is_cut_later(release: str) -> None:
    """L5: acks 1 is answered 0, acks -1 with 7, as long as its ISR has the other."""
    cluster = cluster_of(release, [1, 2], replica_lag_time_max_ms="60000")
    cluster.isolate(1)
    assert pass_until(cluster, lambda: cluster.leader(T) == 2, 60)
    assert cluster.brokers[1].leads(T) is not None
    assert produce(cluster, 1, acks=1, value=b"lost")[0] == 0
    assert produce(cluster, 1, acks=-1, value=b"lost")[0] == 7
    assert produce(cluster, 2, acks=1, value=b"kept") == (0, 0)
    cluster.heal(1)
    assert pass_until(cluster, lambda: len(cluster.isr(T)) == 2, 60)
    assert [one.data for one in cluster.log(T, 1).entries] == [one.data for one in cluster.log(T, 2).entries]
    assert len(cluster.log(T, 1).entries) == 1


def test_a_machine_that_dies_loses_what_was_not_written() -> None:
    """L6: nothing is flushed; the one in-sync replica comes back with a shorter log, cleanly."""
    cluster = cluster_of("2.8.2", [1])
    assert produce(cluster, 1) == (0, 0)
    cluster.timeline.run_until(cluster.timeline.now + 30)
    assert produce(cluster, 1) == (0, 1)
    cluster.crash(1, unwritten_s=5.0)
    cluster.start(1)
    assert pass_until(cluster, lambda: cluster.brokers[1].leads(T) is not None, 60)
    assert cluster.log(T).end == 1


def test_a_frozen_broker_answers_when_it_is_thawed() -> None:
    cluster = cluster_of("2.8.2", [1])
    client = Client(cluster)
    cluster.freeze(1)
    data, version = plain("2.8.2", 1)
    number = client.send_set(data, 1, version)
    cluster.timeline.run_until(cluster.timeline.now + 5)
    assert client.produced(number) is None
    cluster.thaw(1)
    assert pass_until(cluster, lambda: client.produced(number) == (0, 0), 5)


def test_the_controller_moves_when_its_broker_dies_and_elects_then() -> None:
    cluster = cluster_of("0.10.2.2", [1, 2, 3])
    assert cluster.controller.broker == 1
    cluster.kill(1)
    assert pass_until(cluster, lambda: cluster.leader(T) in (2, 3), 60)
    assert cluster.controller.broker == 2


@pytest.mark.parametrize("release", ["0.8.2.2", "2.8.2"])
def test_a_broker_that_is_stopped_gives_up_what_it_leads_first(release: str) -> None:
    cluster = cluster_of(release, [1, 2])
    client = Client(cluster, 1)
    assert produce(cluster, 1, acks=1) == (0, 0)
    cluster.timeline.run_until(cluster.timeline.now + 1)
    cluster.stop(1)
    assert pass_until(cluster, lambda: cluster.brokers[2].leads(T) is not None, 1)
    assert pass_until(cluster, lambda: not client.open, 1)
    assert 1 not in cluster.controller.live
    assert pass_until(cluster, lambda: (cluster.isr(T), cluster.leader(T)) == ((2,), 2), 1)
    cluster.start(1)
    assert pass_until(cluster, lambda: cluster.isr(T) == (2, 1), 10)
    assert cluster.log(T, 1).end == 1


def test_without_a_controller_nothing_is_elected_and_leaders_go_on() -> None:
    cluster = cluster_of("2.8.2", [2, 1, 3], zookeeper_session_timeout_ms="60000")
    assert cluster.controller.broker == 1
    cluster.freeze(1)
    assert produce(cluster, 2, acks=1) == (0, 0)
    assert not cluster.move_leader(T, 3)
    assert cluster.create_topic("late", 1, 1) == 0
    cluster.timeline.run_until(cluster.timeline.now + 5)
    assert cluster.leader(("late", 0)) == -1
    cluster.thaw(1)
    assert pass_until(cluster, lambda: cluster.leader(("late", 0)) > 0, 1)


def test_one_seed_is_one_history() -> None:
    def history() -> list[bytes]:
        cluster = cluster_of("2.8.2", [1, 2, 3])
        for n in range(10):
            produce(cluster, cluster.leader(T), acks=1, value=b"%d" % n)
            cluster.freeze(n % 3 + 1)
            cluster.timeline.run_until(cluster.timeline.now + 12.0)
            cluster.thaw(n % 3 + 1)
            cluster.timeline.run_until(cluster.timeline.now + 1.0)
            pass_until(cluster, lambda: cluster.brokers[cluster.leader(T)].leads(T) is not None)
        return [b"%.9f" % cluster.timeline.now, *(one.data for one in cluster.log(T).entries)]

    assert history() == history()


@pytest.mark.parametrize("release", WITH_EPOCHS)
@pytest.mark.parametrize("seed", range(4))
def test_from_0_11_on_random_faults_lose_nothing_that_was_acknowledged_or_seen(release: str, seed: int) -> None:
    kept = run(release, seed)
    assert kept.acknowledged > 0
    assert kept[1:] == (0, 0, True)


@pytest.mark.parametrize("seed", range(4))
def test_without_zookeeper_random_faults_lose_nothing(seed: int) -> None:
    assert run("3.9.1", seed, kraft=True)[1:] == (0, 0, True)


@pytest.mark.parametrize("release", ["0.8.2.2", "2.8.2", "3.9.1"])
def test_a_partition_whose_replica_was_down_when_it_was_made_gets_a_leader_once_it_is_back(release: str) -> None:
    cluster = cluster_of(release, [1, 2])
    cluster.kill(2)
    assert pass_until(cluster, lambda: 2 not in cluster.controller.live, 60)
    assert cluster.create_topic("u", 1, assignments={0: [2]}) == 0
    cluster.timeline.run_until(cluster.timeline.now + 5.0)
    assert cluster.leader(("u", 0)) == -1
    cluster.start(2)
    assert pass_until(cluster, lambda: cluster.brokers[2].leads(("u", 0)) is not None, 60)
    assert cluster.isr(("u", 0)) == (2,)
