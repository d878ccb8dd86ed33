"""ZooKeeper nodes in bulk, with their stat: sends thousands of requests before it waits for the first response.

A node that vanished in between is None.  kazoo's exceptions are translated by ZkSession.ask.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from kazoo.exceptions import BadVersionError, KazooException, NoAuthError, NoNodeError, NotEmptyError

from zkconsumer.session.zkcalls import Closed, WriteOutcome
from zkconsumer.session.zksession import ZkSession

WRITES_PER_TRANSACTION = 100  # a request may have at most 1 MB
VERSION = re.compile(r"Zookeeper version: (\d{1,9})\.(\d{1,9})", re.ASCII)
MAX_IN_FLIGHT = 2000  # requests: more would only fill buffers, and ZooKeeper reads no more than 1,000

T = TypeVar("T")


class Read(NamedTuple):
    """A node as read.  owner: the session of an ephemeral node, 0 for a persistent one."""

    data: bytes
    version: int
    mzxid: int
    czxid: int
    mtime_ms: int
    ctime_ms: int
    owner: int
    children: int


def read_nodes(session: ZkSession, paths: Iterable[str], closed: Closed | None = None) -> dict[str, Read | None]:
    """Return the nodes by path.  Raises ZooKeeperAway.

    closed: filled with the nodes that are closed to us, which are left out; without it NodeClosed is raised.
    """
    return _asked(session, "read", paths, _get, closed)


def list_children(
    session: ZkSession, paths: Iterable[str], closed: Closed | None = None
) -> dict[str, list[str] | None]:
    """Return the names below each path, sorted; None if the node does not exist.  For closed, see read_nodes."""
    return _asked(session, "list", paths, _children, closed)


def delete_nodes(session: ZkSession, versions: Mapping[str, int]) -> dict[str, WriteOutcome]:
    """Delete nodes of these versions (-1: any); EXISTS for a node with children."""
    return session.ask("delete nodes", _deletes, versions)


def write_nodes(
    session: ZkSession,
    fresh: Mapping[str, bytes],
    moved: Mapping[str, tuple[bytes, int]],
    gone: Mapping[str, int],
) -> dict[str, WriteOutcome]:
    """Create, set (data, version) and delete (version) nodes; their folders must exist.

    A hundred writes are one transaction, which costs as much as one write; if one of them meets an unexpected node, the
    transaction fails, and its writes are repeated one by one.  ZooKeeper 3.3 has no transactions: one by one there.
    """
    steps = [*((path, "create") for path in fresh), *((path, "set") for path in moved), *((p, "delete") for p in gone)]
    refused = session.ask("write nodes", _together, steps, fresh, moved, gone)
    outcomes = {path: WriteOutcome.DONE for path, _ in steps if path not in refused}
    outcomes |= session.create({path: data for path, data in fresh.items() if path in refused})
    for path, found in session.write({path: each for path, each in moved.items() if path in refused}).items():
        outcomes[path] = found if isinstance(found, WriteOutcome) else WriteOutcome.DONE
    return outcomes | delete_nodes(session, {path: version for path, version in gone.items() if path in refused})


def _together(
    client: Any,
    steps: Sequence[tuple[str, str]],
    fresh: Mapping[str, bytes],
    moved: Mapping[str, tuple[bytes, int]],
    gone: Mapping[str, int],
) -> set[str]:
    """Write in transactions, pipelined; return the paths that are not written."""
    if not _takes_transactions(client):
        return {path for path, _ in steps}
    asked = []
    for some in _slices(steps, WRITES_PER_TRANSACTION):
        transaction = client.transaction()
        for path, what in some:
            if what == "create":
                transaction.create(path, fresh[path])
            elif what == "set":
                transaction.set_data(path, *moved[path])
            else:
                transaction.delete(path, gone[path])
        asked.append((some, transaction.commit_async()))
    refused: set[str] = set()
    for some, answer in asked:
        if any(isinstance(each, Exception) for each in answer.get()):
            refused |= {path for path, _ in some}
    return refused


def _takes_transactions(client: Any) -> bool:
    """Return True unless the server says that it is ZooKeeper 3.3 or older.

    Kafka 0.7 and 0.8.0 came with 3.3.  It drops a transaction without a response (ZOOKEEPER-965), and the responses
    that follow no longer match their requests.  A server that does not report its release is a later one, in which
    these commands must be allowed.
    """
    try:
        said = VERSION.search(client.command(b"srvr"))
    except (KazooException, OSError):
        return True
    return said is None or (int(said[1]), int(said[2])) >= (3, 4)


def _asked(
    session: ZkSession,
    what: str,
    paths: Iterable[str],
    call: Callable[[Any, str], tuple[Any, Callable[[Any], T]]],
    closed: Closed | None,
) -> dict[str, T | None]:
    found: dict[str, T | None] = {}
    refused: list[str] = session.ask(f"{what} nodes", _many, list(paths), call, found)
    for path in refused:
        why = session.closed(f"{what} {path}")
        if closed is None:
            raise why
        closed[path] = str(why)
    return found


def _many(
    client: Any,
    paths: Sequence[str],
    call: Callable[[Any, str], tuple[Any, Callable[[Any], T]]],
    found: dict[str, T | None],
) -> list[str]:
    """Fill in the results by path; return the paths of nodes that are closed to us."""
    closed: list[str] = []
    for some in _slices(paths):
        asked = [(path, *call(client, path)) for path in some]
        for path, answer, read in asked:
            try:
                found[path] = read(answer.get())
            except NoNodeError:
                found[path] = None
            except NoAuthError:
                closed.append(path)
    return closed


def _get(client: Any, path: str) -> tuple[Any, Callable[[Any], Read]]:
    return client.get_async(path), _read


def _read(answer: Any) -> Read:
    data, stat = answer
    times = (stat.mzxid, stat.czxid, stat.mtime, stat.ctime)
    return Read(data or b"", stat.version, *times, stat.ephemeralOwner, stat.numChildren)


def _children(client: Any, path: str) -> tuple[Any, Callable[[Any], list[str]]]:
    return client.get_children_async(path), sorted


def _deletes(client: Any, versions: Mapping[str, int]) -> dict[str, WriteOutcome]:
    found: dict[str, WriteOutcome] = {}
    for some in _slices(list(versions)):
        asked = [(path, client.delete_async(path, version=versions[path])) for path in some]
        for path, answer in asked:
            try:
                answer.get()
                found[path] = WriteOutcome.DONE
            except NoNodeError:
                found[path] = WriteOutcome.MISSING
            except BadVersionError:
                found[path] = WriteOutcome.CHANGED
            except NotEmptyError:
                found[path] = WriteOutcome.EXISTS
    return found


def _slices(each: Sequence[T], size: int = MAX_IN_FLIGHT) -> Iterator[list[T]]:
    every = iter(each)
    while some := list(islice(every, size)):
        yield some
