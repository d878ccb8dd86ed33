"""A member whose subscription nobody can read: the leader gives it nothing, and the others their partitions."""

from __future__ import annotations

from kafkawire.model import TopicPartition
from kafkawire.protocol.subscriptions import assignment_bytes
from localkafka.waiting import wait_until
from tests.fakes.coordinating import GroupCluster
from zkconsumer.daemonconnector import DaemonConnector
from zkconsumer.events import ConsumerEvent
from zkconsumer.filters import Whitelist

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_member_that_cannot_be_read_gets_nothing_and_is_named_once() -> None:
    events: list[ConsumerEvent] = []
    with GroupCluster({"t": 2}, brokers=1) as cluster:
        cluster.beside["x-1"] = b"\xff"
        values: dict[str, object] = {
            "group.id": "g",
            "coordination": "kafka",
            "bootstrap.servers": cluster.bootstrap,
            "kafka.version": "0.10.1",
            "auto.offset.reset": "smallest",
            "rebalance.backoff.ms": 100,
        }
        connector = DaemonConnector(values, on_event=events.append)
        try:
            connector.create_message_streams_by_filter(Whitelist("t"), 1)
            wait_until(lambda: connector.settled, 20, "the member to own what it can")
            assert cluster.assigned == {"m1": assignment_bytes([T0, T1]), "x-1": assignment_bytes([])}
            connector.change_filter(Whitelist("t|u"), 10.0)  # a second rebalance
            assert cluster.generation > 1
            said = [event.text for event in events if "x-1" in event.text]
            assert len(said) == 1, said
            assert "member x-1 (client c, host h)" in said[0]
            assert "gets no partitions" in said[0]
            cluster.assigned["x-1"] = b"\xff"
            assert set(connector.owners(["t"]).values()) == {"m1"}
        finally:
            connector.shutdown()
