"""Nodes of ZooKeeper in bulk, with what their stat says: thousands are asked for before the first answer is waited for.

A node that vanished in between is None.  kazoo's exceptions are translated by ZkSession.ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from kazoo.exceptions import BadVersionError, NoNodeError, NotEmptyError

from zkconsumer.zkcalls import Outcome
from zkconsumer.zksession import ZkSession

ON_THE_WAY = 2000  # requests without an answer: more only fill buffers, and ZooKeeper reads no more than 1,000


class Read(NamedTuple):
    """A node as read.  owner: the session of an ephemeral one, 0 for a persistent one."""

    data: bytes
    version: int
    mzxid: int
    czxid: int
    mtime_ms: int
    ctime_ms: int
    owner: int
    children: int


def read_nodes(session: ZkSession, paths: Iterable[str]) -> dict[str, Read | None]:
    """The nodes, by path.  Raises ZooKeeperAway, and ConsumerError for a node that is closed to us."""
    return session.ask("read nodes", _many, list(paths), _get)


def list_children(session: ZkSession, paths: Iterable[str]) -> dict[str, list[str] | None]:
    """Names below each path, sorted; None where the node is not there."""
    return session.ask("list nodes", _many, list(paths), _children)


def delete_nodes(session: ZkSession, versions: Mapping[str, int]) -> dict[str, Outcome]:
    """Delete nodes of these versions (-1: any): EXISTS where one has children."""
    return session.ask("delete nodes", _deletes, versions)


def _many(client: Any, paths: Sequence[str], call: Callable[[Any, str], tuple[Any, Callable[[Any], Any]]]) -> Any:
    found: dict[str, Any] = {}
    for some in _slices(paths):
        asked = [(path, *call(client, path)) for path in some]
        for path, answer, read in asked:
            try:
                found[path] = read(answer.get())
            except NoNodeError:
                found[path] = None
    return found


def _get(client: Any, path: str) -> tuple[Any, Callable[[Any], Read]]:
    return client.get_async(path), _read


def _read(answer: Any) -> Read:
    data, stat = answer
    times = (stat.mzxid, stat.czxid, stat.mtime, stat.ctime)
    return Read(data or b"", stat.version, *times, stat.ephemeralOwner, stat.numChildren)


def _children(client: Any, path: str) -> tuple[Any, Callable[[Any], list[str]]]:
    return client.get_children_async(path), sorted


def _deletes(client: Any, versions: Mapping[str, int]) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for some in _slices(list(versions)):
        asked = [(path, client.delete_async(path, version=versions[path])) for path in some]
        for path, answer in asked:
            try:
                answer.get()
                found[path] = Outcome.DONE
            except NoNodeError:
                found[path] = Outcome.MISSING
            except BadVersionError:
                found[path] = Outcome.CHANGED
            except NotEmptyError:
                found[path] = Outcome.EXISTS
    return found


def _slices(paths: Sequence[str]) -> Iterator[list[str]]:
    every = iter(paths)
    while some := list(islice(every, ON_THE_WAY)):
        yield some
