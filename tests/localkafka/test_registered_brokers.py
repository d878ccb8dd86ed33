"""A broker that is not registered at the moment: what a cluster's client waits for instead of going on without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.model import Broker
from localkafka import client
from localkafka.client import ClusterClient

TOPIC = "orders"
REPLICAS = {TOPIC: {0: PartitionView(0, (0, 1), (0, 1))}}  # the controller has not yet heard that broker 1 is gone


class Watched(ClusterClient):
    """A cluster of two brokers whose registered ones are these, one set for each look at them; the last set stays."""

    def __init__(self, registered: Sequence[Iterable[int]]) -> None:
        super().__init__("0.8.2.2", "127.0.0.1:2181", "127.0.0.1:9092,127.0.0.1:9093", Path("/nowhere"))
        self.left = list(registered)

    def registry(self) -> Any:
        return SimpleNamespace(zk=None, brokers=lambda: sorted(self.ids()), view=self.view)

    def ids(self) -> Iterable[int]:
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]

    def view(self, topic: str) -> ClusterView:
        return ClusterView({n: Broker(n, "127.0.0.1", 9092 + n) for n in self.ids()}, REPLICAS)

    def _agree(self, topic: str, brokers: Iterable[Broker]) -> bool:
        return True


def test_a_topic_is_in_sync_once_each_of_its_replicas_is_registered() -> None:
    cluster = Watched([{0}, {0}, {0, 1}])
    cluster.wait_in_sync(TOPIC, 10)
    assert cluster.left == [{0, 1}]


def test_a_topic_is_created_on_all_brokers_and_known_to_all_once_they_are_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assigned: list[Mapping[int, Sequence[int]]] = []
    monkeypatch.setattr(
        client.topics, "create", lambda zk, name, assignment, config: assigned.append(assignment) or True
    )
    both = {0, 1}
    cluster = Watched([{0}, both, both, {0}, both])  # for the assignment, in sync, known to every broker
    cluster.create_topic(TOPIC, partitions=2)
    assert assigned == [{0: [0], 1: [1]}]
    assert cluster.left == [both]
