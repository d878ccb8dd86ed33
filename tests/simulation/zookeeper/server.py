"""One ZooKeeper server: its tree, the connections of clients, and the order in which their requests are answered.

Reads and pings are answered from the server's own tree; writes, syncs and sessions go to the leader, and are answered
when the server applies what became of them (broker-model-coordinators Z1, Z3).  A request that waits for the leader
holds up all that come after it on the server (to 3.4; Z19), or on the connection (from 3.5).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import NoNodeError, SessionMovedError
from kazoo.protocol.serialization import (
    Auth,
    Close,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    Ping,
    Transaction,
)
from kazoo.protocol.states import EventType, ZnodeStat
from kazoo.security import OPEN_ACL_UNSAFE

from tests.simulation.zookeeper.link import Connection
from tests.simulation.zookeeper.tree import Change, Session, Tree

if TYPE_CHECKING:
    from tests.simulation.zookeeper.ensemble import SimZookeeper
    from tests.simulation.zookeeper.quorum import Following, Leadership

READS = {Exists, GetACL, GetChildren, GetChildren2, GetData, Ping, Auth}


class Proposal:
    """A transaction.  asked: the request that it answers; ends: the session that ends with it; opens: the session that
    begins with it, and its connection; acks: servers that have it on their disks."""

    __slots__ = ("acks", "answer", "asked", "changes", "committed", "ends", "error", "opens", "zxid")

    def __init__(self, zxid: int, asked: Asked | None) -> None:
        self.zxid = zxid
        self.asked = asked
        self.ends: Session | None = None
        self.opens: tuple[Session, Connection] | None = None
        self.changes: list[Change] = []
        self.answer: Any = None
        self.error: Exception | None = None
        self.acks = 0
        self.committed = False


class Asked:
    """One request that a server has taken and not yet answered.  slot: what its client knows it by; done: the leader
    has done its part."""

    __slots__ = ("answer", "connection", "done", "error", "request", "session", "slot", "zxid")

    def __init__(self, connection: Connection, session: Session, request: Any, slot: Any) -> None:
        self.connection = connection
        self.session = session
        self.request = request
        self.slot = slot
        self.done = False
        self.answer: Any = None
        self.error: Exception | None = None
        self.zxid = 0


class Server:
    """up: it runs.  serving: it has a leader, or is one, and takes clients."""

    def __init__(self, number: int, ensemble: SimZookeeper) -> None:
        self.number = number
        self.name = f"zookeeper-{number + 1}:2181"
        self.ensemble = ensemble
        self.tree = Tree()
        self.up = self.serving = True
        self.frozen = False
        self.leadership: Leadership | None = None
        self.following: Following | None = None
        self.logged: deque[Proposal] = deque()  # on its disk, and not known to be committed
        self.touched: dict[int, float] = {}  # sessions since the leader's last ping
        self.connections: dict[Connection, None] = {}
        self._data_watches: dict[str, dict[Connection, None]] = {}
        self._child_watches: dict[str, dict[Connection, None]] = {}
        self._lane: deque[Asked] = deque()
        self._backlog: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()

    # what arrives -------------------------------------------------------------------------------------------------

    def run(self, fn: Callable[..., object], *args: Any) -> None:
        """Something has arrived: do it, or once the server is continued (SIGCONT)."""
        if self.frozen:
            self._backlog.append((fn, args))
        elif self.up:
            fn(*args)

    def thaw(self) -> None:
        """SIGCONT: what arrived meanwhile is done now."""
        self.frozen = False
        while self._backlog and not self.frozen:
            fn, args = self._backlog.popleft()
            if self.up:
                fn(*args)

    def accept(self, connection: Connection, session_id: int | None, last_zxid: int, timeout_s: float) -> None:
        """A client asks for a session, or for its own again.  A server that knows less than it refuses (Z14)."""
        if not self.serving or last_zxid > self.tree.zxid:
            self.hang_up(connection)
            return
        self.connections[connection] = None
        self.ensemble.quorum.open_session(self, connection, session_id, timeout_s)

    def opened(self, connection: Connection, session: Session, alive: bool) -> None:
        """The leader has answered for the session."""
        if not connection.served:
            return
        if alive:
            connection.session = session
            self._send(connection, connection.client.granted, connection, session.id, session.timeout_s)
        else:
            self._send(connection, connection.client.session_over, connection)
            self._forget(connection)

    def receive(self, connection: Connection, request: Any, slot: Any) -> None:
        session = connection.session
        if session is None or not connection.served:
            return
        if not connection.open:
            if connection.still <= 0:
                return
            connection.still -= 1
        if not self._touch(session, connection):
            return
        kind = type(request)
        if kind in READS:
            asked = Asked(connection, session, request, slot)
            if self._waits(connection):
                self._lane.append(asked)
            else:
                self._read(asked)
        elif kind is Transaction and not self.ensemble.knows_multi:
            pass  # 3.3 drops what it does not know (Z23)
        else:
            asked = Asked(connection, session, request, slot)
            self._lane.append(asked)
            self.ensemble.quorum.to_leader(self, asked)

    def _touch(self, session: Session, connection: Connection) -> bool:
        """The session was heard of; whether this server goes on with the request."""
        term = self.leadership
        if term is None:
            self.touched[session.id] = 0.0
            return True
        if session.id not in term.heard or session.id in term.closing:
            return False
        if term.owners.get(session.id) is not connection and self.ensemble.quorum.alone:
            return False
        term.heard[session.id] = self.ensemble.timeline.now
        return True

    # answers ------------------------------------------------------------------------------------------------------

    def _waits(self, connection: Connection) -> bool:
        if not self._lane:
            return False
        return self.ensemble.one_lane or any(asked.connection is connection for asked in self._lane)

    def finish(self, asked: Asked, answer: Any, error: Exception | None, zxid: int) -> None:
        """The leader's part of a request is done: answer it, and those that waited behind it."""
        asked.done, asked.answer, asked.error, asked.zxid = True, answer, error, zxid
        self._drain()

    def _drain(self) -> None:
        lane = self._lane
        if not self.ensemble.one_lane:
            self._drain_lanes()
            return
        while lane and (lane[0].done or type(lane[0].request) in READS):
            self._finish(lane.popleft())

    def _drain_lanes(self) -> None:
        """Each connection on its own."""
        held: dict[Connection, None] = {}
        kept: deque[Asked] = deque()
        for asked in self._lane:
            if asked.connection not in held and (asked.done or type(asked.request) in READS):
                self._finish(asked)
            else:
                held[asked.connection] = None
                kept.append(asked)
        self._lane = kept

    def _finish(self, asked: Asked) -> None:
        if type(asked.request) in READS:
            self._read(asked)
        elif isinstance(asked.error, SessionMovedError):
            self.hang_up(asked.connection)  # a connection-level error (FinalRequestProcessor)
        else:
            self._answer(asked, asked.answer, asked.error, asked.zxid)
            if type(asked.request) is Close and asked.error is None:
                self._forget(asked.connection)

    def _read(self, asked: Asked) -> None:
        connection, request, tree = asked.connection, asked.request, self.tree
        kind = type(request)
        if kind is Ping or kind is Auth:
            self._answer(asked, True, None, 0)
            return
        path = request.path
        node = tree.nodes.get(path)
        if node is None and path != "/":
            if kind is Exists and request.watcher is not None:
                self._data_watches.setdefault(path, {})[connection] = None
            self._answer(asked, None, None if kind is Exists else NoNodeError(path), tree.zxid)
            return
        answer: Any = tree.stat(path, node) if node is not None else ROOT
        if kind is GetData:
            answer = ((node.data if node is not None else b""), answer)
        elif kind is GetChildren or kind is GetChildren2:
            names = tree.below(path)
            answer = names if kind is GetChildren else (names, answer)
            if request.watcher is not None:
                self._child_watches.setdefault(path, {})[connection] = None
        elif kind is GetACL:
            answer = (OPEN_ACL_UNSAFE, answer)
        if kind in (GetData, Exists) and request.watcher is not None:
            self._data_watches.setdefault(path, {})[connection] = None
        self._answer(asked, answer, None, tree.zxid)

    def _answer(self, asked: Asked, value: Any, error: Exception | None, zxid: int) -> None:
        connection = asked.connection
        if connection.served:
            self._send(connection, connection.client.answered, asked.slot, value, error, zxid)

    def _send(self, connection: Connection, fn: Callable[..., object], *args: Any) -> None:
        client, timeline = connection.client, self.ensemble.timeline
        connection.down_at = max(connection.down_at, timeline.now + client.link.delay(down=True))
        timeline.at(connection.down_at, client.link.pass_on, lambda: client.hear(connection, fn, args))

    # transactions -------------------------------------------------------------------------------------------------

    def apply(self, proposal: Proposal) -> None:
        """A committed transaction: the tree, then watches, then the answer to who asked here."""
        tree = self.tree
        tree.zxid = proposal.zxid
        for change in proposal.changes:
            tree.apply(change)
            self._fire(change.path, change.event)
        ended = proposal.ends
        if ended is not None:
            for connection in [each for each in self.connections if each.session is ended]:
                if proposal.asked is None or proposal.asked.connection is not connection:
                    self.hang_up(connection)
        asked = proposal.asked
        if asked is not None and asked.connection.server is self:
            self.finish(asked, proposal.answer, proposal.error, proposal.zxid)
        if proposal.opens is not None and proposal.opens[1].server is self:
            self.opened(proposal.opens[1], proposal.opens[0], True)

    def commit(self, proposal: Proposal) -> None:
        """The leader says that most servers have it."""
        assert self.logged[0] is proposal, "commits keep the order of proposals"
        self.logged.popleft()
        self.apply(proposal)

    @property
    def last_logged(self) -> int:
        return self.logged[-1].zxid if self.logged else self.tree.zxid

    def _fire(self, path: str, event: str) -> None:
        told = self._data_watches.pop(path, {})
        if event == EventType.DELETED:
            told = {**told, **self._child_watches.pop(path, {})}
        for connection in told:
            if connection.served:
                self._send(connection, connection.client.fired, event, path)
        if event != EventType.CHANGED:
            parent = path.rpartition("/")[0] or "/"
            for connection in self._child_watches.pop(parent, {}):
                if connection.served:
                    self._send(connection, connection.client.fired, EventType.CHILD, parent)

    # the end of connections ---------------------------------------------------------------------------------------

    def hang_up(self, connection: Connection) -> None:
        """Close a connection; the client hears of it."""
        if connection.served:
            self._send(connection, connection.client.hung_up, connection)
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        connection.served = False
        self.connections.pop(connection, None)

    def hang_up_all(self) -> None:
        """It lost its leader, or died: all connections go, and what waits for an answer is forgotten (Z18)."""
        for connection in list(self.connections):
            self.hang_up(connection)
        self._lane.clear()
        self.touched.clear()
        self._data_watches.clear()
        self._child_watches.clear()


ROOT = ZnodeStat(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
