"""Outages of what is read: one event when one begins, one when it is over, however many partitions and tries."""

from __future__ import annotations

from kafkawire.model import Broker, TopicPartition
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.outages import GRACE_S, Outages

ONE, TWO = Broker(1, "h1", 9092), Broker(2, "h2", 9092)
TPS = [TopicPartition("orders", n) for n in range(12)]
REFUSED = "broker 1 (h1:9092): connecting: Connection refused"


class World:
    def __init__(self) -> None:
        self.events: list[ConsumerEvent] = []
        self.outages = Outages(self.events.append)

    def told(self) -> list[str]:
        said, self.events[:] = [str(event) for event in self.events], []
        return said


def test_a_broker_that_hung_is_lost_since_it_was_asked() -> None:
    world = World()
    world.outages.lost(ONE, TPS, "no answer within 30 s", 100.0, since=70.0)
    assert world.outages.summary(100.0) == "broker 1 (h1:9092): no answer within 30 s (for 30 s, 12 partitions)"
    world.outages.answered(TPS, 101.0)
    assert world.told()[-1] == "over: broker 1 (h1:9092): over after 31.0 s"


def test_a_broker_that_is_lost_is_one_outage_until_its_last_partition_is_answered_for() -> None:
    world = World()
    world.outages.lost(ONE, TPS, REFUSED, 100.0)
    assert world.told() == [f"outage: {REFUSED}; 12 partitions cannot be read until that is over"]
    for at in range(101, 140):  # tried again and again, and then its registration is gone
        world.outages.lost(ONE, TPS[:3], REFUSED, at)
        for tp in TPS:
            world.outages.leaderless(tp, "its leader, broker 1, is not registered", at)
        world.outages.report_due(at)
    assert world.told() == []
    assert world.outages.summary(140.0) == f"{REFUSED} (for 40 s, 12 partitions)"
    world.outages.answered(TPS[1:], 141.0)
    assert world.told() == []
    world.outages.answered(TPS, 141.5)
    assert world.told() == ["over: broker 1 (h1:9092): over after 41.5 s"]
    assert world.outages.summary(142.0) == ""


def test_an_election_is_no_outage_and_a_leader_that_stays_away_is_one() -> None:
    world = World()
    for tp in TPS:
        world.outages.leaderless(tp, "it has no leader", 100.0)
    world.outages.report_due(100.0 + GRACE_S / 2)
    world.outages.answered(TPS[1:], 101.0)
    assert (world.told(), world.outages.summary(101.5)) == ([], "")
    world.outages.report_due(100.0 + GRACE_S)
    assert world.told() == ["outage: orders/0: it has no leader; 1 partition cannot be read until that is over"]
    world.outages.leaderless(TPS[5], "it has no leader", 110.0)  # one more is the same outage
    world.outages.report_due(120.0)
    assert world.told() == []
    world.outages.answered(TPS, 121.0)
    assert world.told() == ["over: partitions without a leader: over after 21.0 s"]


def test_an_election_that_is_quick_is_told_at_neither_end() -> None:
    world = World()
    world.outages.leaderless(TPS[0], "it has no leader", 100.0)
    world.outages.answered(TPS, 100.5)
    world.outages.report_due(200.0)
    assert world.told() == []


def test_two_brokers_are_two_outages() -> None:
    world = World()
    world.outages.lost(ONE, TPS[:6], REFUSED, 100.0)
    world.outages.lost(TWO, TPS[6:], "broker 2 (h2:9092): no answer within 4 s", 110.0)
    assert len(world.told()) == 2
    assert world.outages.summary(120.0).count("6 partitions") == 2
    world.outages.answered(TPS[6:], 121.0)
    assert world.told() == ["over: broker 2 (h2:9092): over after 11.0 s"]


def test_partitions_that_others_read_now_end_their_outage_here() -> None:
    world = World()
    world.outages.lost(ONE, TPS, REFUSED, 100.0)
    world.told()
    world.outages.forget(TPS, 103.0)
    [said] = world.told()
    assert said.startswith("over: broker 1 (h1:9092): over after 3.0 s; the last of its partitions is not read here")


def test_a_broker_that_nothing_is_read_from_is_no_outage() -> None:
    world = World()
    world.outages.lost(ONE, [], REFUSED, 100.0)
    world.outages.report_due(200.0)
    assert (world.told(), world.outages.summary(200.0)) == ([], "")


def test_a_partition_whose_next_leader_dies_too_is_an_outage_of_that_one() -> None:
    world = World()
    world.outages.lost(ONE, TPS[:1], REFUSED, 100.0)
    world.outages.lost(TWO, TPS[:1], "broker 2 (h2:9092): connecting: Connection refused", 104.0)
    kinds = [event.kind for event in world.events]
    assert kinds == ["outage", "over", "outage"]
