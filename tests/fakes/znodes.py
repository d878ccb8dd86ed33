"""A ZooKeeper in memory, behind the session that the commands look with: nodes with versions and zxids.

    zk = FakeZookeeper({"/consumers/g/offsets/t/0": b"5"})     parents are made
    zk.nodes[path].data, zk.set(path, data), zk.delete(path)   somebody else's hand
    zk.session()                                               a ZkSession as far as reads and writes go
    zk.calls                                                   (what, path) of each call, in order
    zk.closed.add(path)                                        an ACL that lets nobody read the node

Leaves out: sessions, watches, ephemerals, other ACLs, being away.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kazoo.exceptions import BadVersionError, NoAuthError, NodeExistsError, NoNodeError, NotEmptyError

from zkconsumer.session.zkcalls import ZkCalls


@dataclass
class FakeNode:
    data: bytes | None
    czxid: int
    mzxid: int
    mtime: int
    ctime: int
    version: int = 0
    ephemeralOwner: int = 0
    numChildren: int = 0


@dataclass
class Answer:
    value: Any = None
    error: Exception | None = None

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class FakeSession(ZkCalls):
    def __init__(self, zookeeper: FakeZookeeper) -> None:
        super().__init__()
        self.hosts = self.connect = "fake:2181"
        self.session_id = 1
        self._zookeeper = zookeeper

    def _connected(self, session_id: int | None) -> Any:
        return self._zookeeper


class FakeTransaction:
    """All of it, or nothing."""

    def __init__(self, zookeeper: FakeZookeeper) -> None:
        self._zookeeper = zookeeper
        self._steps: list[tuple[str, tuple[Any, ...]]] = []

    def create(self, path: str, data: bytes) -> None:
        self._steps.append(("create_async", (path, data)))

    def set_data(self, path: str, data: bytes, version: int) -> None:
        self._steps.append(("set_async", (path, data, version)))

    def delete(self, path: str, version: int) -> None:
        self._steps.append(("delete_async", (path, version)))

    def commit_async(self) -> Answer:
        before = copy.deepcopy(self._zookeeper.nodes)
        answers = [getattr(self._zookeeper, name)(*args) for name, args in self._steps]
        if any(answer.error is not None for answer in answers):
            self._zookeeper.nodes = before
        return Answer([answer.error or answer.value for answer in answers])


@dataclass(eq=False)
class FakeZookeeper:
    filled: Mapping[str, bytes] = field(default_factory=dict)
    now_ms: int = 1_000_000

    def __post_init__(self) -> None:
        self.zxid = 0
        self.calls: list[tuple[str, str]] = []
        self.nodes: dict[str, FakeNode] = {}
        self.closed: set[str] = set()
        for path, data in self.filled.items():
            self.set(path, data)

    def session(self) -> Any:
        return FakeSession(self)

    def set(self, path: str, data: bytes | None) -> None:
        """Write a node; its parents too where they are missing, null as zkclient makes them."""
        parent = path.rpartition("/")[0]
        if parent and parent not in self.nodes:
            self.set(parent, None)
        self.zxid += 1
        if path in self.nodes:
            node = self.nodes[path]
            node.data, node.mzxid, node.mtime, node.version = data, self.zxid, self.now_ms, node.version + 1
        else:
            self.nodes[path] = FakeNode(data, self.zxid, self.zxid, self.now_ms, self.now_ms)

    def delete(self, path: str) -> None:
        """Delete a node and all below it."""
        for each in [each for each in self.nodes if each == path or each.startswith(path + "/")]:
            del self.nodes[each]

    def below(self, path: str) -> list[str]:
        """Names of the children."""
        return [each[len(path) + 1 :] for each in self.nodes if each.rpartition("/")[0] == path]

    # kazoo's calls ------------------------------------------------------------------------------------------------

    def get_async(self, path: str, watch: Any = None) -> Answer:
        self.calls.append(("get", path))
        if path not in self.nodes:
            return Answer(error=NoNodeError(path))
        if path in self.closed:
            return Answer(error=NoAuthError())
        node = self.nodes[path]
        node.numChildren = len(self.below(path))
        return Answer((node.data, node))

    def exists_async(self, path: str, watch: Any = None) -> Answer:
        return Answer(self.nodes.get(path))

    def sync_async(self, path: str) -> Answer:
        return Answer(path)

    def get_children_async(self, path: str, watch: Any = None) -> Answer:
        self.calls.append(("list", path))
        if path in self.closed:
            return Answer(error=NoAuthError())
        return Answer(self.below(path)) if path in self.nodes else Answer(error=NoNodeError(path))

    def get_children(self, path: str) -> list[str]:
        return list(self.get_children_async(path).get())

    def create_async(self, path: str, data: bytes, ephemeral: bool = False, acl: Any = None) -> Answer:
        self.calls.append(("create", path))
        if path in self.nodes:
            return Answer(error=NodeExistsError(path))
        parent = path.rpartition("/")[0]
        if parent and parent not in self.nodes:
            return Answer(error=NoNodeError(path))
        self.set(path, data)
        return Answer(path)

    def set_async(self, path: str, data: bytes, version: int = -1) -> Answer:
        self.calls.append(("set", path))
        refused = self._refused(path, version)
        if refused is not None:
            return refused
        self.set(path, data)
        return Answer(self.nodes[path])

    def delete_async(self, path: str, version: int = -1) -> Answer:
        self.calls.append(("delete", path))
        refused = self._refused(path, version)
        if refused is not None:
            return refused
        if self.below(path):
            return Answer(error=NotEmptyError(path))
        del self.nodes[path]
        return Answer(True)

    def command(self, word: bytes) -> str:
        return "Zookeeper version: 3.4.6-1569965, built on 02/20/2014 09:09 GMT"

    def transaction(self) -> FakeTransaction:
        return FakeTransaction(self)

    def _refused(self, path: str, version: int) -> Answer | None:
        if path not in self.nodes:
            return Answer(error=NoNodeError(path))
        return Answer(error=BadVersionError(path)) if version not in (-1, self.nodes[path].version) else None
