"""A sender that is told which brokers are live, as one that finds its cluster by ZooKeeper is."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from groundwork.tasks import TaskGroup
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.dialects import Dialect, dialect
from kafkawire.model import Broker
from producer.config import ProducerConfig
from producer.sender import Sender
from tests.fakes.broker import FakeCluster
from tests.fakes.tickets import Ticket
from tests.producer.running import TP, WAIT_S, part, until


class Nodes:
    """What is in ZooKeeper.  chosen_after: reads for which a partition whose leader is gone still names it."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.live = {number: Broker(number, "127.0.0.1", port) for number, port in cluster.ports.items()}
        self.leader, self.chosen_after = 1, 0

    @property
    def dialect(self) -> Dialect:
        return dialect("0.8.2")

    def read(self, topics: Sequence[str] | None) -> ClusterView:
        if self.leader not in self.live:
            self.chosen_after -= 1
            if self.chosen_after < 0:
                self.leader = 2
        return ClusterView(dict(self.live), {"t": {0: PartitionView(self.leader)}})


def test_a_leader_that_left_is_looked_for_until_another_one_is_chosen() -> None:
    """The broker's node goes before the controller has chosen; no request is under way whose answer would tell."""
    with FakeCluster({"t": 1}, brokers=2) as cluster:
        nodes, tasks, events = Nodes(cluster), TaskGroup(), []
        config = ProducerConfig(
            brokers=tuple(cluster.bootstrap), retries=-1, linger_ms=0, retry_backoff_ms=5, reconnect_ms=20
        )
        sender = Sender(
            nodes, config, tasks, events=lambda level, said: events.append((level, said)), by_name=True,
            live=lambda: frozenset(nodes.live),
        )  # fmt: skip
        try:
            sender.submit(part(b"before"), Ticket())
            assert sender.flush(WAIT_S), events
            cluster.stop(1)
            cluster.move("t", 0, 2)
            nodes.chosen_after = 5
            del nodes.live[1]
            sender.leaders.refresh()  # the watch of the brokers' nodes
            until(lambda: nodes.chosen_after < 5)
            sender.submit(part(b"after", first=101), Ticket())
            assert sender.flush(WAIT_S), events
            assert cluster.values(TP.topic, 0) == [b"before", b"after"]
            assert [said for level, said in events if level > logging.WARNING] == []
        finally:
            sender.close(0.0)
            assert tasks.stop(WAIT_S) == []
