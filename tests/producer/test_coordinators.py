"""Coordinators that many producers ask together, while a broker hangs."""

from __future__ import annotations

import pytest

from groundwork.tasks import TaskGroup, connect, now
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol.transactionrequests import Coordinator as FoundCoordinator
from producer.coordinators import CONNECTIONS, Coordinators
from tests.fakes.coordinating import GroupCluster

T0 = TopicPartition("t", 0)
TIMEOUT_S = 0.5
GROUPS = [f"g{n}" for n in range(12 * CONNECTIONS)]


def test_a_broker_that_hangs_costs_all_that_wait_for_it_one_time_out_together() -> None:
    with GroupCluster({"t": 1}, brokers=2) as cluster:
        cluster.committed["t", 0] = 7
        brokers = [Broker(number, *address) for number, address in cluster.addresses.items()]
        links = Links("test", connect, int(TIMEOUT_S * 1000))
        asked = Coordinators(lambda: brokers, links, dialect("0.10.2"))
        cluster.coordinator = 2
        cluster.hang(1)
        found: list[bool] = []

        def read(group: str) -> None:
            found.append(asked.shows(group, {T0: (7, "")}, lambda: True))

        tasks, began = TaskGroup(), now()
        reading = [tasks.spawn(group, read, group) for group in GROUPS]
        for task in reading:
            assert task.join(20)
        assert now() - began < 3 * TIMEOUT_S
        assert found == [True] * len(GROUPS)
        asked.close()


def test_the_next_look_up_of_a_coordinator_begins_at_the_next_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def call(asking: Coordinators, broker: Broker, request: object, key: str) -> FoundCoordinator:
        asked.append(broker.id)
        return FoundCoordinator(0, Broker(9, "old", 9092))

    monkeypatch.setattr(Coordinators, "_call", call)
    links = Links("test", timeout_ms=100)
    asking = Coordinators(lambda: [Broker(n, "here", n) for n in (1, 2)], links, dialect("2.8"))
    for _ in range(3):
        asking._coordinator("t", True)
        asking._known.clear()
    assert asked == [1, 2, 1]
    links.close()
