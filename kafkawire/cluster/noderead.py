"""Many ZooKeeper nodes read at once, through any started KazooClient.

Every read asks for a window of its nodes before it waits for the first answer (kazoo's *_async): a thousand partitions
cost five round trips, not a thousand.  A node that vanished in between is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kazoo.exceptions import NoNodeError

WINDOW = 200  # nodes asked for at a time: whoever shares the client waits behind no more than that


def children(zk: Any, path: str) -> list[str]:
    """Names of the children; none where there is no such node."""
    try:
        return list(zk.get_children(path))
    except NoNodeError:
        return []


def children_of(zk: Any, paths: Iterable[str]) -> dict[str, list[str]]:
    """Names of the children of each node that is there."""
    return {path: list(names) for path, names in _asked(zk.get_children_async, paths).items()}


def read(zk: Any, paths: Iterable[str]) -> dict[str, bytes]:
    """The data of each node that is there; empty where it holds null, as the topic nodes of the original 0.7 do."""
    return {path: found[0] or b"" for path, found in _asked(zk.get_async, paths).items()}


def _asked(ask: Callable[[str], Any], paths: Iterable[str]) -> dict[str, Any]:
    waiting, found = list(paths), dict[str, Any]()
    for at in range(0, len(waiting), WINDOW):
        asked = [(path, ask(path)) for path in waiting[at : at + WINDOW]]
        for path, answer in asked:
            try:
                found[path] = answer.get()
            except NoNodeError:
                continue
    return found
