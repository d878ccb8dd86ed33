"""Nodes of ZooKeeper that are read once, and again only after they have changed: a watch on each tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from zkconsumer.session.nodes import Read
from zkconsumer.session.zkcalls import Closed, Node
from zkconsumer.session.zksession import ZkSession

T = TypeVar("T")


class WatchedNodes:
    """Nodes of one session.  A lost connection makes all of them unknown again.

    changed: paths that were read; the caller clears it.
    """

    def __init__(self, session: ZkSession) -> None:
        self._session = session
        self._nodes: dict[str, Read | None] = {}
        self._lists: dict[str, tuple[str, ...] | None] = {}
        self.closed: Closed = {}  # nodes that are closed to us, which are asked for again each time, and why
        self.changed: set[str] = set()
        self._fired: set[str] = set()  # while a question is in flight
        self._lost = False  # the connection, meanwhile

    def nodes(self, paths: Iterable[str]) -> dict[str, Read | None]:
        """Return nodes by path, without closed ones.  Raises ZooKeeperAway."""
        return self._known(list(paths), self._nodes, self._read)

    def children(self, paths: Iterable[str]) -> dict[str, tuple[str, ...] | None]:
        """Return the names below each path, sorted, without closed ones; None if the node does not exist.  Raises
        ZooKeeperAway."""
        return self._known(list(paths), self._lists, self._list)

    def forget(self, path: str) -> None:
        """Read a node again at the next question."""
        self._nodes.pop(path, None)

    def _known(self, paths: list[str], held: dict[str, T], ask: Callable[[list[str]], dict[str, T]]) -> dict[str, T]:
        known = {path: held[path] for path in paths if path in held}
        missing = [path for path in paths if path not in known]
        if missing:
            self._fired.clear()
            self._lost = False
            found = ask(missing)
            self.changed.update(missing)
            if not self._lost:  # a watch may have fired before its answer is kept here
                held |= {path: each for path, each in found.items() if path not in self._fired}
            known |= found
        return known

    def _read(self, paths: list[str]) -> dict[str, Read | None]:
        self._open(paths)
        nodes = self._session.read(paths, watch=self._fire, closed=self.closed)
        absent = [path for path, node in nodes.items() if node is None]
        for path, there in self._session.stat(absent, watch=self._fire).items():  # a watch on what is not there yet
            if there is not None:
                self._fired.add(path)
        return {path: _read(node) for path, node in nodes.items()}

    def _list(self, paths: list[str]) -> dict[str, tuple[str, ...] | None]:
        self._open(paths)
        lists = self._session.lists(paths, watch=self._fire, closed=self.closed)
        absent = [path for path, names in lists.items() if names is None]
        for path, there in self._session.stat(absent, watch=self._fire).items():
            if there is not None:
                self._fired.add(path)
        return {path: None if names is None else tuple(sorted(names)) for path, names in lists.items()}

    def _open(self, paths: Iterable[str]) -> None:
        """Forget that these are closed: they are asked for again."""
        for path in paths:
            self.closed.pop(path, None)

    def _fire(self, path: str, itself: bool) -> None:
        if not itself:
            self._lost = True
            self._nodes.clear()
            self._lists.clear()
        self._fired.add(path)
        self._nodes.pop(path, None)
        self._lists.pop(path, None)


def _read(node: Node | None) -> Read | None:
    if node is None:
        return None
    times = (node.mzxid, node.czxid, node.mtime_ms, node.ctime_ms)
    return Read(node.data, node.version, *times, node.owner, 0)
