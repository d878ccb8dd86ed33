"""Coordinators that many producers ask together, while a broker hangs."""

from __future__ import annotations

import pytest

from groundwork.tasks import TaskGroup, connect, now
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from producer import coordinators
from producer.coordinators import CONNECTIONS, Coordinators
from tests.fakes.coordinating import GroupCluster

T0 = TopicPartition("t", 0)
TIMEOUT_S = 0.5
GROUPS = [f"g{n}" for n in range(12 * CONNECTIONS)]


def test_a_broker_that_hangs_costs_all_that_wait_for_it_one_time_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinators, "MATERIALIZED_S", 0.0)
    with GroupCluster({"t": 1}, brokers=2) as cluster:
        cluster.committed["t", 0] = 7
        brokers = [Broker(number, *address) for number, address in cluster.addresses.items()]
        links = Links("test", connect, int(TIMEOUT_S * 1000))
        asked = Coordinators(lambda: brokers, links, dialect("0.10.2"))
        cluster.coordinator = 2
        cluster.hang(1)
        found: list[int] = []

        def read(group: str) -> None:
            answer = asked.committed(group, lambda: True)
            assert answer is not None
            found.append(answer[T0].offset)

        tasks, began = TaskGroup(), now()
        reading = [tasks.spawn(group, read, group) for group in GROUPS]
        for task in reading:
            assert task.join(20)
        assert now() - began < 3 * TIMEOUT_S
        assert found == [7] * len(GROUPS)
        asked.close()
