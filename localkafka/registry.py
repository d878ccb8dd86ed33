"""What a cluster's brokers wrote into ZooKeeper, and the rule after a kill -9.

A killed broker's /brokers/ids/N and /controller stay until its session ends (seconds).  A restart before that hangs
leaderless (0.8) or exits (later), so its nodes are deleted first, but never those of a broker that lives: what is
deleted belongs to the session in which the dead process was registered.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from localkafka import ports
from localkafka.errors import LocalKafkaError

IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"


@dataclass(frozen=True, slots=True)
class Registered:
    """A broker's id node: where it says it is, and the session that holds the node."""

    host: str
    port: int
    session: int


@dataclass(frozen=True, slots=True)
class State:
    """A partition: the leader (-1: none), the in-sync replicas, and the replicas assigned to it."""

    leader: int
    isr: frozenset[int]
    replicas: frozenset[int]


class Registry:
    """Reads one cluster's nodes through a started KazooClient that is in its chroot."""

    def __init__(self, zk: KazooClient) -> None:
        self.zk = zk

    def brokers(self) -> dict[int, Registered]:
        """Every registered broker by id."""
        found = {int(name): self.broker(int(name)) for name in self._children(IDS)}
        return {broker: node for broker, node in found.items() if node is not None}

    def broker(self, broker: int) -> Registered | None:
        node = self._read(f"{IDS}/{broker}")
        if node is None:
            return None
        document, session = node
        return Registered(document["host"], document["port"], session)

    def controller(self) -> int | None:
        """The controller's broker id."""
        node = self._read(CONTROLLER)
        return None if node is None else int(node[0]["brokerid"])

    def partitions(self, topic: str) -> dict[int, State]:
        """Every partition of a topic; empty when the topic is unknown."""
        node = self._read(f"{TOPICS}/{topic}")
        if node is None:
            return {}
        return {int(p): self._state(topic, int(p), replicas) for p, replicas in node[0]["partitions"].items()}

    def topics(self) -> list[str]:
        return sorted(self._children(TOPICS))

    def led_by(self, broker: int) -> list[str]:
        """The partitions whose leader is this broker, as topic/partition."""
        every = ((topic, self.partitions(topic)) for topic in self.topics())
        return [f"{topic}/{p}" for topic, states in every for p, state in states.items() if state.leader == broker]

    def forget_dead(self, broker: int, last_session: int, last_port: int) -> bool:
        """Delete what a process that has ended left behind; True when there was something.

        broker's process must be known to have ended; last_session is the one in which it was last seen registered
        (0: never), last_port the one it advertised.  Raises LocalKafkaError when the node belongs to somebody else.
        """
        node = self.broker(broker)
        if node is None:
            return False
        registered_again = node.port == last_port and not ports.answers(node.host, node.port)
        if node.session != last_session and not registered_again:
            raise LocalKafkaError(
                f"broker {broker} is registered at {node.host}:{node.port} by another process "
                f"(session {node.session:#x}); stop that one, or give this cluster a chroot of its own"
            )
        controller = self._read(CONTROLLER)
        if controller is not None and controller[1] == node.session:
            self._delete(CONTROLLER)
        self._delete(f"{IDS}/{broker}")
        return True

    def _state(self, topic: str, partition: int, replicas: list[int]) -> State:
        node = self._read(f"{TOPICS}/{topic}/partitions/{partition}/state")
        if node is None:
            return State(-1, frozenset(), frozenset(replicas))
        return State(node[0]["leader"], frozenset(node[0]["isr"]), frozenset(replicas))

    def _read(self, path: str) -> tuple[dict[str, Any], int] | None:
        """The node's document and the session that owns it (0: none does)."""
        try:
            data, stat = self.zk.get(path)
        except NoNodeError:
            return None
        return json.loads(data), stat.ephemeralOwner

    def _children(self, path: str) -> list[str]:
        try:
            return list(self.zk.get_children(path))
        except NoNodeError:
            return []

    def _delete(self, path: str) -> None:
        try:
            self.zk.delete(path)
        except NoNodeError:
            pass  # the session ended in between, which is as good
