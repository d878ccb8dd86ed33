"""ZooKeeper's nodes of a cluster: brokers, topics, leaders, as brokers write them; and what clients write there.

Registry   writes them, and finds topics that clients have made, grown or asked to delete
Nodes      a tree of paths for clusters whose ZooKeeper nobody simulates
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.simulation.brokers.metadata import Address
from tests.simulation.brokers.replica import LeaderAndIsr, Tp

IDS, TOPICS, CONFIGS, DELETIONS, CONTROLLER = (
    "/brokers/ids", "/brokers/topics", "/config/topics", "/admin/delete_topics", "/controller",
)  # fmt: skip


class Node:
    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Nodes:
    """What a cluster asks of a SimZookeeper: put, remove, nodes, below."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._children: dict[str, dict[str, None]] = {}

    def put(self, path: str, data: bytes) -> None:
        if path in self.nodes:
            self.nodes[path].data = data
            return
        self.nodes[path] = Node(data)
        parent, _, name = path.rpartition("/")
        self._children.setdefault(parent, {})[name] = None

    def remove(self, path: str) -> None:
        if self.nodes.pop(path, None) is not None:
            parent, _, name = path.rpartition("/")
            self._children[parent].pop(name, None)

    def below(self, path: str) -> list[str]:
        return list(self._children.get(path, ()))


class Registry:
    """zookeeper: a SimZookeeper, or Nodes.  old: brokers register as 0.8 does, without endpoints."""

    def __init__(self, zookeeper: Any, old: bool) -> None:
        self._zookeeper = zookeeper
        self._old = old
        self._known: dict[str, bytes] = {}  # nodes of topics as they were written or seen
        for path in ("/brokers", IDS, TOPICS, "/admin", DELETIONS, "/config", CONFIGS):
            self._put_once(path)

    def _put_once(self, path: str) -> None:
        if path not in self._zookeeper.nodes:
            self._zookeeper.put(path, b"")

    def _put(self, path: str, node: Mapping[str, Any]) -> bytes:
        """Write a node unless it says the same already; its data."""
        data = json.dumps(node, separators=(",", ":")).encode()
        if path not in self._zookeeper.nodes or self._zookeeper.nodes[path].data != data:
            self._zookeeper.put(path, data)
        return data

    def _remove(self, path: str) -> None:
        if path in self._zookeeper.nodes:
            self._zookeeper.remove(path)

    def broker(self, id: int, address: Address, now_ms: int) -> None:
        host, port = address
        node: dict[str, Any] = {"jmx_port": -1, "timestamp": str(now_ms), "host": host, "version": 1, "port": port}
        if not self._old:
            node |= {"endpoints": [f"PLAINTEXT://{host}:{port}"], "version": 2}
        self._put(f"{IDS}/{id}", node)

    def no_broker(self, id: int) -> None:
        self._remove(f"{IDS}/{id}")

    def controller(self, id: int, now_ms: int) -> None:
        self._put(CONTROLLER, {"version": 1, "brokerid": id, "timestamp": str(now_ms)})

    def no_controller(self) -> None:
        self._remove(CONTROLLER)

    def topic(self, name: str, replicas: Sequence[Sequence[int]], configs: Mapping[str, str]) -> None:
        if configs:
            self._put(f"{CONFIGS}/{name}", {"version": 1, "config": dict(configs)})
        listed = {str(number): list(ids) for number, ids in enumerate(replicas)}
        self._known[name] = self._put(f"{TOPICS}/{name}", {"version": 1, "partitions": listed})

    def state(self, tp: Tp, said: LeaderAndIsr) -> None:
        folder = f"{TOPICS}/{tp[0]}/partitions"
        for path in (folder, f"{folder}/{tp[1]}"):
            self._put_once(path)
        node = {"controller_epoch": 1, "leader": said.leader, "version": 1, "leader_epoch": said.epoch}
        self._put(f"{folder}/{tp[1]}/state", node | {"isr": list(said.isr)})

    def no_topic(self, name: str, partitions: int) -> None:
        folder = f"{TOPICS}/{name}/partitions"
        for number in range(partitions):
            self._remove(f"{folder}/{number}/state")
            self._remove(f"{folder}/{number}")
        for path in (folder, f"{TOPICS}/{name}", f"{CONFIGS}/{name}", f"{DELETIONS}/{name}"):
            self._remove(path)

    def written(self) -> Iterator[tuple[str, list[list[int]], dict[str, str]]]:
        """Name, replicas by partition and settings of the topics that a client has written since the last call."""
        nodes = self._zookeeper.nodes
        there = self._zookeeper.below(TOPICS)
        # One that was removed may be there for a moment yet, and is no topic of a client.
        self._known = {name: data for name, data in self._known.items() if name in there}
        for name in there:
            data = nodes[f"{TOPICS}/{name}"].data
            if data and self._known.get(name) != data:
                self._known[name] = data
                listed = _json(data, "partitions")
                numbers = range(len(listed))
                if listed and all(str(number) in listed for number in numbers):
                    config = nodes.get(f"{CONFIGS}/{name}")
                    own = {} if config is None else _json(config.data, "config")
                    settings = {str(key): str(value) for key, value in own.items()}
                    yield name, [list(listed[str(number)]) for number in numbers], settings

    def unwanted(self) -> list[str]:
        """Topics that a client has asked to delete."""
        return list(self._zookeeper.below(DELETIONS))

    def no_deletion(self, name: str) -> None:
        self._remove(f"{DELETIONS}/{name}")


def _json(data: bytes | None, field: str) -> dict[str, Any]:
    """A field of a node; empty where there is none."""
    try:
        found = json.loads(data or b"{}").get(field)
    except (ValueError, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}
