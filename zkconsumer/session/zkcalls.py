"""Reads and writes of ZooKeeper nodes, pipelined and typed; hides kazoo's futures and exceptions.

Each call takes many nodes at once and sends WINDOW requests before it waits for the first response.  The result of a
write is a WriteOutcome, not an exception; a connection that is lost meanwhile is ZooKeeperAway: the outcome is unknown.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.protocol.states import EventType
from kazoo.security import OPEN_ACL_UNSAFE

from zkconsumer.errors import ConsumerError, NodeClosed, ZooKeeperAway

WINDOW = 200  # kazoo answers in order, and a heartbeat must not wait for thousands of requests

GONE = (ConnectionLoss, SessionExpiredError, ConnectionClosedError, OperationTimeoutError)

T = TypeVar("T")
Before = Callable[[], object]  # called before each window of requests; if it raises, the window is not sent
Closed = dict[str, str]  # filled by a read with the nodes that are closed to us: path -> reason
Watch = Callable[[str, bool], None]  # path, and whether the node itself changed (False: only the connection did)


class Node(NamedTuple):
    """A znode as read.  owner: the session id of an ephemeral node, 0 for a persistent one.

    czxid, ctime_ms: its creation; mzxid, mtime_ms: the last write of its data; 0 if the node is known from our own
    write.
    """

    data: bytes
    version: int
    owner: int
    czxid: int = 0
    ctime_ms: int = 0
    mzxid: int = 0
    mtime_ms: int = 0


class WriteOutcome(enum.Enum):
    """The outcome of one of several pipelined writes."""

    DONE = "done"
    EXISTS = "exists"
    MISSING = "missing"
    CHANGED = "changed"  # the node has another version


class ZkCalls:
    """Calls of a session.  session_id names the session they belong to: in another one they are refused."""

    hosts: str

    def __init__(self) -> None:
        self._watches: dict[Watch, Callable[[Any], None]] = {}

    def _connected(self, session_id: int | None) -> Any:
        """Return the kazoo client.  Raises ZooKeeperAway unless that session (None: any) is CONNECTED."""
        raise ZooKeeperAway("there is no session")

    def ask(self, what: str, fn: Callable[..., T], *args: Any) -> T:
        """Return fn(kazoo client, *args), for reads that are written against kazoo (kafkawire.cluster.zookeeper)."""
        client = self._connected(None)
        try:
            return fn(client, *args)
        except GONE as e:
            raise self._away(what, e) from None
        except KazooException as e:
            raise self._refused(what, e) from e

    def _watcher(self, watch: Watch | None) -> Callable[[Any], None] | None:
        """Return kazoo's form of a watch; the same object for the same watch, so that kazoo keeps one per path."""
        if watch is None:
            return None
        if watch not in self._watches:

            def fire(event: Any) -> None:
                watch(event.path or "", event.type != EventType.NONE)

            self._watches[watch] = fire
        return self._watches[watch]

    def _answer(self, what: str, result: Any) -> Any:
        """Return the response of one call, or the kazoo exception that refuses it; a lost session is ZooKeeperAway."""
        try:
            return result.get()
        except (NoNodeError, NodeExistsError, BadVersionError) as e:
            return e
        except GONE as e:
            raise self._away(what, e) from None
        except KazooException as e:
            raise self._refused(what, e) from e

    def _away(self, what: str, e: Exception) -> ZooKeeperAway:
        return ZooKeeperAway(f"{what}: the connection to ZooKeeper at {self.hosts} was lost ({_say(e)})")

    def _refused(self, what: str, e: Exception) -> ConsumerError:
        if isinstance(e, NoAuthError):
            return self.closed(what)
        return ConsumerError(f"{what}: ZooKeeper at {self.hosts} refused: {_say(e)}")

    def closed(self, what: str) -> NodeClosed:
        """Return the error of a call that a node's ACL refused.  what: the call and its path."""
        return NodeClosed(
            f"{what}: ZooKeeper at {self.hosts} refused: NoAuthError; the node is closed to us: see zookeeper.auth"
        )

    def _gather(
        self,
        what: str,
        session_id: int | None,
        paths: Iterable[str],
        ask: Callable[[Any, str], Any],
        before: Before = lambda: None,
        closed: Closed | None = None,
    ) -> dict[str, Any]:
        """Return all responses by path; ask(client, path) sends one request.  A window is always waited for as a whole,
        so that no request is left in flight when one reports that the session was lost; then no further window is sent.
        A node that is closed to us does not keep the others from being read: it is left out if `closed` is given,
        otherwise the first such error is raised at the end."""
        answers: dict[str, Any] = {}
        waiting = list(paths)
        failed: ConsumerError | None = None
        for at in range(0, len(waiting), WINDOW):
            client = self._connected(session_id)
            before()
            asked = [(path, ask(client, path)) for path in waiting[at : at + WINDOW]]
            away: ZooKeeperAway | None = None
            for path, result in asked:
                try:
                    answers[path] = self._answer(f"{what} {path}", result)
                except ZooKeeperAway as e:
                    away = away or e
                except NodeClosed as e:
                    if closed is None:
                        failed = failed or e
                    else:
                        closed[path] = str(e)
                except ConsumerError as e:
                    failed = failed or e
            if away is not None:
                raise away
        if failed is not None:
            raise failed
        return answers

    def children(self, path: str, watch: Watch | None = None, session_id: int | None = None) -> list[str] | None:
        """Return the names below path, unsorted; None if it does not exist (then nothing is watched)."""
        client = self._connected(session_id)
        found = self._answer(f"list {path}", client.get_children_async(path, self._watcher(watch)))
        return None if isinstance(found, NoNodeError) else list(found)

    def lists(
        self,
        paths: Iterable[str],
        watch: Watch | None = None,
        session_id: int | None = None,
        closed: Closed | None = None,
    ) -> dict[str, list[str] | None]:
        """Return the names below each path, pipelined; None for one that does not exist (then nothing is watched).

        closed: filled with the nodes that are closed to us, which are left out; without it NodeClosed is raised.
        """
        watcher = self._watcher(watch)
        answers = self._gather(
            "list", session_id, paths, lambda client, path: client.get_children_async(path, watcher), closed=closed
        )
        return {path: None if isinstance(found, NoNodeError) else list(found) for path, found in answers.items()}

    def read(
        self,
        paths: Iterable[str],
        watch: Watch | None = None,
        session_id: int | None = None,
        closed: Closed | None = None,
    ) -> dict[str, Node | None]:
        """Return the nodes, pipelined; None for one that does not exist (then nothing is watched).

        closed: filled with the nodes that are closed to us, which are left out; without it NodeClosed is raised.
        """
        watcher = self._watcher(watch)
        answers = self._gather(
            "read", session_id, paths, lambda client, path: client.get_async(path, watcher), closed=closed
        )
        return {
            path: None if isinstance(found, NoNodeError) else _node(found[0] or b"", found[1])
            for path, found in answers.items()
        }

    def stat(
        self, paths: Iterable[str], watch: Watch | None = None, session_id: int | None = None
    ) -> dict[str, Node | None]:
        """Return the nodes without data; a watch also waits for a node that does not exist."""
        watcher = self._watcher(watch)
        answers = self._gather("stat", session_id, paths, lambda client, path: client.exists_async(path, watcher))
        return {
            path: None if found is None or isinstance(found, NoNodeError) else _node(b"", found)
            for path, found in answers.items()
        }

    def create(
        self,
        nodes: Mapping[str, bytes],
        ephemeral: bool = False,
        session_id: int | None = None,
        before: Before = lambda: None,
    ) -> dict[str, WriteOutcome]:
        """Create nodes, pipelined, with their data in the same call; missing parents are made persistent."""

        def ask(client: Any, path: str) -> Any:
            return client.create_async(path, nodes[path], ephemeral=ephemeral)

        answers = self._gather("create", session_id, nodes, ask, before)
        orphans = [path for path, found in answers.items() if isinstance(found, NoNodeError)]
        outcome = {
            path: WriteOutcome.EXISTS if isinstance(f, NodeExistsError) else WriteOutcome.DONE
            for path, f in answers.items()
        }
        if orphans:
            self._make_parents({path.rpartition("/")[0] for path in orphans}, session_id)
            again = self._gather("create", session_id, orphans, ask, before)
            outcome |= {path: _outcome(found) for path, found in again.items()}
        return outcome

    def _make_parents(self, paths: set[str], session_id: int | None) -> None:
        for path in sorted(paths):
            so_far = ""
            for name in path.strip("/").split("/"):
                so_far += "/" + name
                client = self._connected(session_id)
                acl = OPEN_ACL_UNSAFE if so_far == f"/{name}" else None  # None: the default of the session's nodes
                self._answer(f"create {so_far}", client.create_async(so_far, b"", acl=acl))  # an existing node is fine

    def write(
        self,
        nodes: Mapping[str, tuple[bytes, int]],
        session_id: int | None = None,
        before: Before = lambda: None,
    ) -> dict[str, WriteOutcome | int]:
        """Set (data, expected version) of nodes, pipelined; return the new version, or MISSING or CHANGED."""

        def ask(client: Any, path: str) -> Any:
            data, version = nodes[path]
            return client.set_async(path, data, version=version)

        return {
            path: found.version if not isinstance(found, KazooException) else _outcome(found)
            for path, found in self._gather("write", session_id, nodes, ask, before).items()
        }

    def replace(self, path: str, version: int, data: bytes, session_id: int | None = None) -> WriteOutcome:
        """Delete an ephemeral node of the expected version and create it with other data, pipelined: this fires watches
        on the children of its parent, which new data alone would not do.  CHANGED, MISSING: nothing was changed."""
        client = self._connected(session_id)
        gone, made = client.delete_async(path, version=version), client.create_async(path, data, ephemeral=True)
        outcome = _outcome(self._answer(f"delete {path}", gone))
        created = _outcome(self._answer(f"create {path}", made))
        return outcome if outcome is not WriteOutcome.DONE else created

    def delete(self, nodes: Mapping[str, int], session_id: int | None = None) -> dict[str, WriteOutcome]:
        """Delete nodes of the expected version, pipelined; MISSING or CHANGED if they are not as expected."""

        def ask(client: Any, path: str) -> Any:
            return client.delete_async(path, version=nodes[path])

        return {path: _outcome(found) for path, found in self._gather("delete", session_id, nodes, ask).items()}


def _node(data: bytes, stat: Any) -> Node:
    return Node(data, stat.version, stat.ephemeralOwner, stat.czxid, stat.ctime, stat.mzxid, stat.mtime)


def _outcome(found: Any) -> WriteOutcome:
    if isinstance(found, NodeExistsError):
        return WriteOutcome.EXISTS
    if isinstance(found, NoNodeError):
        return WriteOutcome.MISSING
    return WriteOutcome.CHANGED if isinstance(found, BadVersionError) else WriteOutcome.DONE


def _say(e: BaseException) -> str:
    return f"{type(e).__name__}: {e}" if str(e) else type(e).__name__
