"""Reader of a cluster's broker and topic nodes in ZooKeeper, and the clean-up after a kill -9.

A killed broker's /brokers/ids/N and /controller stay until its session expires (seconds).  A broker restarted before
that hangs without leaders (0.8) or exits (later).  So its nodes are deleted first, but only those of the session in
which the dead process was registered, never those of a living broker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kafkawire.cluster import zookeeper
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.model import PartitionId
from kafkawire.znodes import v08 as znodes
from localkafka import ports
from localkafka.errors import LocalKafkaError


@dataclass(frozen=True, slots=True)
class Registered:
    """A broker's id node: its advertised address, and the session that owns the node."""

    host: str
    port: int
    session: int


class Registry:
    """Reads one cluster's nodes through a started KazooClient inside its chroot."""

    def __init__(self, zk: KazooClient) -> None:
        self.zk = zk

    def brokers(self) -> list[int]:
        """Return the ids of registered brokers, including recently killed ones."""
        return sorted(zookeeper.read_brokers(self.zk, znodes))

    def broker(self, broker: int) -> Registered | None:
        """Return the registration of this id, or None."""
        node = self._read(znodes.broker_path(broker))
        if node is None:
            return None
        read = znodes.broker(broker, node[0])
        return Registered(read.host, read.port, node[1])

    def controller(self) -> int | None:
        """Return the controller's broker id."""
        node = self._read(znodes.CONTROLLER)
        return None if node is None else znodes.controller(node[0])

    def view(self, topic: str) -> ClusterView:
        """Return the brokers, and one topic with replicas, leaders and in-sync replicas."""
        return zookeeper.read_view(self.zk, znodes, [topic])

    def partitions(self, topic: str) -> Mapping[PartitionId, PartitionView]:
        """Return every partition of a topic; empty if the topic does not exist."""
        return self.view(topic).topics.get(topic, {})

    def led_by(self, broker: int, others: Collection[int]) -> list[str]:
        """Return the partitions led by this broker although one of the others is in sync, as topic/partition.  A
        partition that no other broker has stays with it: a controller elected after its death does not change that
        node."""
        view = zookeeper.read_view(self.zk, znodes, zookeeper.read_topics(self.zk, znodes))
        every = ((topic, p, seen) for topic, partitions in view.topics.items() for p, seen in partitions.items())
        return [f"{topic}/{p}" for topic, p, seen in every if seen.leader == broker and {*seen.isr} & {*others}]

    def forget_dead(self, broker: int, last_session: int, last_port: int) -> bool:
        """Delete the nodes of a broker process that has ended; return True if there were any.

        The process must be known to have ended.  last_session: the session of its last known registration (0: none);
        last_port: the port it advertised.  Raises LocalKafkaError when the node belongs to another process.
        """
        node = self.broker(broker)
        if node is None:
            return False
        registered_again = node.port == last_port and not ports.answers(node.host, node.port)
        if node.session != last_session and not registered_again:
            raise LocalKafkaError(
                f"broker {broker} is registered at {node.host}:{node.port} by another process "
                f"(session {node.session:#x}); stop that one, or give this cluster its own chroot"
            )
        controller = self._read(znodes.CONTROLLER)
        if controller is not None and controller[1] == node.session:
            self._delete(znodes.CONTROLLER)
        self._delete(znodes.broker_path(broker))
        return True

    def _read(self, path: str) -> tuple[bytes, int] | None:
        """Return the node's data and the session that owns it (0: persistent node)."""
        try:
            data, stat = self.zk.get(path)
        except NoNodeError:
            return None
        return data or b"", stat.ephemeralOwner

    def _delete(self, path: str) -> None:
        try:
            self.zk.delete(path)
        except NoNodeError:
            pass  # the session expired in between, which deleted the node
