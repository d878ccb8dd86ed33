"""The nodes of brokers and topics where nobody simulates their ZooKeeper: a tree of paths."""

from __future__ import annotations


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
