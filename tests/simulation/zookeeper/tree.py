"""Nodes of one server, and what a request makes of them.

Node        data and stat of one znode; never changed, so that all servers share it
Change      path, the node as it is from now on (None: it is gone), and the event that watches get
Tree        nodes as one server knows them
Draft       the tree with what is proposed and not yet committed: a leader checks requests against it
            (PrepRequestProcessor's outstanding changes)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    KazooException,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.serialization import CheckVersion, Create, Create2, Delete, SetACL, SetData, Transaction
from kazoo.protocol.states import EventType, ZnodeStat

EPHEMERAL, SEQUENCE = 1, 2  # flags of a create


class Session:
    """alive: its beginning is committed, and its end is not."""

    __slots__ = ("alive", "id", "timeout_s")

    def __init__(self, session_id: int, timeout_s: float) -> None:
        self.id = session_id
        self.timeout_s = timeout_s
        self.alive = False


class Node(NamedTuple):
    data: bytes | None
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int = 0
    ephemeralOwner: int = 0


class Change(NamedTuple):
    path: str
    node: Node | None
    event: str


def parent_of(path: str) -> str:
    """The path of the parent; "" for the root, whose children have no common node here."""
    return path.rpartition("/")[0]


class Tree:
    """zxid: of the last transaction that was applied."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.children: dict[str, dict[str, None]] = {}
        self.created: dict[str, int] = {}  # children that a node ever had: their sequence numbers (Z25)
        self.zxid = 0

    def below(self, path: str) -> list[str]:
        return list(self.children.get("" if path == "/" else path, ()))

    def apply(self, change: Change) -> None:
        path, node, event = change
        if node is None:
            del self.nodes[path]
            parent, _, name = path.rpartition("/")
            self.children[parent].pop(name, None)
        else:
            self.nodes[path] = node
            if event == EventType.CREATED:
                parent, _, name = path.rpartition("/")
                self.children.setdefault(parent, {})[name] = None
                self.created[parent] = self.created.get(parent, 0) + 1

    def stat(self, path: str, node: Node) -> ZnodeStat:
        return ZnodeStat(
            node.czxid,
            node.mzxid,
            node.ctime,
            node.mtime,
            node.version,
            self.created.get(path, 0),
            0,
            node.ephemeralOwner,
            len(node.data or b""),
            len(self.children.get(path, ())),
            node.mzxid,
        )

    def copy(self) -> Tree:
        made = Tree()
        made.nodes, made.created, made.zxid = dict(self.nodes), dict(self.created), self.zxid
        made.children = {path: dict(names) for path, names in self.children.items()}
        return made


class Draft:
    """session, zxid, at_ms: of the request that is prepared; changes: what it comes to."""

    def __init__(self, tree: Tree, outstanding: Sequence[Change], session: int, zxid: int, at_ms: int) -> None:
        self.changes: list[Change] = []
        self._tree = tree
        self._drafted: dict[str, Node | None] = {change.path: change.node for change in outstanding}
        self._created = [parent_of(c.path) for c in outstanding if c.event == EventType.CREATED]
        self._session, self._zxid, self._at_ms = session, zxid, at_ms

    def node(self, path: str) -> Node | None:
        return self._drafted[path] if path in self._drafted else self._tree.nodes.get(path)

    def prepare(self, request: Any) -> Any:
        """What the request is answered with.  Raises KazooException; nothing is changed then."""
        kind = type(request)
        if kind is Create or kind is Create2:
            return self._create(request)
        if kind is SetData:
            return self._set(request.path, request.data, request.version)
        if kind is Delete:
            return self._delete(request.path, request.version)
        if kind is CheckVersion:
            self._found(request.path, request.version)
            return True
        if kind is SetACL:
            return self._set(request.path, self._found(request.path).data, -1)
        assert kind is Transaction, f"{request} is no write"
        return self._all(request.operations)

    def _all(self, operations: Sequence[Any]) -> list[Any]:
        """All of them under one zxid, or none: the one that fails has its error, earlier ones are rolled back (Z23)."""
        answers: list[Any] = []
        for n, operation in enumerate(operations):
            try:
                answers.append(self.prepare(operation))
            except KazooException as e:
                self.changes.clear()
                left = len(operations) - n - 1
                return [RolledBackError() for _ in range(n)] + [e] + [RuntimeInconsistency() for _ in range(left)]
        return answers

    def _create(self, request: Any) -> Any:
        path = request.path
        parent = parent_of(path)
        above = self.node(parent) if parent else None
        if parent and above is None:
            raise NoNodeError(path)
        if request.flags & SEQUENCE:
            path += f"{self._tree.created.get(parent, 0) + self._created.count(parent):010d}"
        if self.node(path) is not None:
            raise NodeExistsError(path)
        if above is not None and above.ephemeralOwner:
            raise NoChildrenForEphemeralsError(path)
        owner = self._session if request.flags & EPHEMERAL else 0
        node = Node(request.data, self._zxid, self._zxid, self._at_ms, self._at_ms, 0, owner)
        self._change(path, node, EventType.CREATED)
        if type(request) is Create:
            return path
        return path, ZnodeStat(
            node.czxid, node.mzxid, node.ctime, node.mtime, 0, 0, 0, owner, len(node.data or b""), 0, 0
        )

    def _set(self, path: str, data: bytes | None, version: int) -> Any:
        old = self._found(path, version)
        node = Node(data, old.czxid, self._zxid, old.ctime, self._at_ms, old.version + 1, old.ephemeralOwner)
        self._change(path, node, EventType.CHANGED)
        return self._tree.stat(path, node)

    def _delete(self, path: str, version: int) -> Any:
        if path == "/":
            raise BadArgumentsError(path)
        self._found(path, version)
        if self._has_children(path):
            raise NotEmptyError(path)
        self._change(path, None, EventType.DELETED)
        return True

    def _found(self, path: str, version: int = -1) -> Node:
        node = self.node(path)
        if node is None:
            raise NoNodeError(path)
        if version not in (-1, node.version):
            raise BadVersionError(path)
        return node

    def _has_children(self, path: str) -> bool:
        there = self._tree.children.get(path, {})
        if not self._drafted:
            return bool(there)
        if any(node is not None and parent_of(each) == path for each, node in self._drafted.items()):
            return True
        return any(self.node(f"{path}/{name}") is not None for name in there)

    def _change(self, path: str, node: Node | None, event: str) -> None:
        self._drafted[path] = node
        if event == EventType.CREATED:
            self._created.append(parent_of(path))
        self.changes.append(Change(path, node, event))

    # somebody else's hand ------------------------------------------------------------------------------------------

    def write(self, path: str, data: bytes) -> None:
        old = self.node(path)
        if old is None:
            node = Node(data, self._zxid, self._zxid, self._at_ms, self._at_ms)
            self._change(path, node, EventType.CREATED)
        else:
            self._set(path, data, -1)

    def remove(self, path: str) -> None:
        """The node and all below it."""
        below = [each for each in (*self._tree.nodes, *self._drafted) if each.startswith(f"{path}/")]
        for each in [*sorted(dict.fromkeys(below), reverse=True), path]:
            if self.node(each) is not None:
                self._change(each, None, EventType.DELETED)

    # the end of a session ------------------------------------------------------------------------------------------

    def ephemerals(self) -> list[str]:
        """Paths of the nodes of the session."""
        nodes = {**self._tree.nodes, **self._drafted} if self._drafted else self._tree.nodes
        return [path for path, node in nodes.items() if node is not None and node.ephemeralOwner == self._session]

    def end_session(self) -> None:
        """All ephemeral nodes of the session go under one zxid (Z9)."""
        for path in self.ephemerals():
            self._change(path, None, EventType.DELETED)
