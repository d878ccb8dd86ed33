"""Nodes that are watched are read once, and again after they have changed, or may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from groupadmin.snapshot.watchednodes import WatchedNodes
from zkconsumer.session.zkcalls import Closed, Node, Watch


class Session:
    """A tree; watches as ZooKeeper keeps them: each fires once.  asked: paths of each read or list."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.shut: set[str] = set()
        self.watches: dict[str, Watch] = {}
        self.asked: list[list[str]] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def _told(self, paths: list[str], watch: Watch, closed: Closed) -> list[str]:
        self.asked.append(paths)
        closed.update(dict.fromkeys(self.shut.intersection(paths), "closed to us"))
        return [path for path in paths if path not in self.shut]

    def read(self, paths: Iterable[str], watch: Watch, closed: Closed) -> dict[str, Node | None]:
        found = {path: self._node(path, watch) for path in self._told(list(paths), watch, closed)}
        self.meanwhile()
        return found

    def lists(self, paths: Iterable[str], watch: Watch, closed: Closed) -> dict[str, list[str] | None]:
        open_ones = self._told(list(paths), watch, closed)
        return {path: self._names(path) if self._node(path, watch) else None for path in open_ones}

    def stat(self, paths: Iterable[str], watch: Watch) -> dict[str, Node | None]:
        self.watches |= dict.fromkeys(paths, watch)
        return {path: self._node(path, watch) for path in paths}

    def _node(self, path: str, watch: Watch) -> Node | None:
        if path not in self.data:
            return None
        self.watches[path] = watch
        return Node(self.data[path], 0, 0)

    def _names(self, path: str) -> list[str]:
        return [other.rpartition("/")[2] for other in self.data if other.rpartition("/")[0] == path]

    def set(self, path: str, data: bytes) -> None:
        for changed in (path, path.rpartition("/")[0]):
            if changed == path or path not in self.data:
                self.fire(changed)
        self.data[path] = data

    def fire(self, path: str) -> None:
        if path in self.watches:
            self.watches.pop(path)(path, True)

    def lose(self) -> None:
        watches, self.watches = self.watches, {}
        for watch in watches.values():
            watch("", False)


@pytest.fixture
def session() -> Session:
    found = Session()
    found.data = {"/g": b"", "/g/0": b"1", "/g/1": b"2"}
    return found


def watched(session: Any) -> WatchedNodes:
    return WatchedNodes(session)


def data(nodes: WatchedNodes, *paths: str) -> dict[str, bytes | None]:
    return {path: None if node is None else node.data for path, node in nodes.nodes(paths).items()}


def test_only_what_changed_is_read_again_also_what_was_not_there(session: Session) -> None:
    nodes = watched(session)
    assert data(nodes, "/g/0", "/g/1", "/g/2") == {"/g/0": b"1", "/g/1": b"2", "/g/2": None}
    session.set("/g/1", b"3")
    session.set("/g/2", b"4")
    session.asked.clear()
    assert data(nodes, "/g/0", "/g/1", "/g/2") == {"/g/0": b"1", "/g/1": b"3", "/g/2": b"4"}
    assert session.asked == [["/g/1", "/g/2"]]
    assert nodes.children(["/g", "/h"]) == {"/g": ("0", "1", "2"), "/h": None}
    session.asked.clear()
    assert nodes.children(["/g"]) == {"/g": ("0", "1", "2")}
    session.set("/g/3", b"5")
    assert nodes.children(["/g"]) == {"/g": ("0", "1", "2", "3")}
    assert session.asked == [["/g"]]


@pytest.mark.parametrize("happens", ["changed", "lost"])
def test_what_changes_between_an_answer_and_its_keeping_is_read_again(session: Session, happens: str) -> None:
    nodes = watched(session)
    assert data(nodes, "/g/0") == {"/g/0": b"1"}
    session.meanwhile = (lambda: session.set("/g/1", b"9")) if happens == "changed" else session.lose
    assert data(nodes, "/g/0", "/g/1") == {"/g/0": b"1", "/g/1": b"2"}
    session.meanwhile = lambda: None
    session.data["/g/1"] = b"9"
    assert data(nodes, "/g/1") == {"/g/1": b"9"}


def test_a_closed_node_is_left_out_and_asked_for_each_time(session: Session) -> None:
    nodes = watched(session)
    session.shut = {"/g/0", "/g"}
    assert data(nodes, "/g/0", "/g/1") == {"/g/1": b"2"}
    assert nodes.children(["/g"]) == {}
    assert set(nodes.closed) == {"/g/0", "/g"}
    session.shut.clear()
    assert data(nodes, "/g/0", "/g/1") == {"/g/0": b"1", "/g/1": b"2"}
    assert nodes.children(["/g"]) == {"/g": ("0", "1")}
    assert not nodes.closed
