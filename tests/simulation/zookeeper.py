"""ZooKeeper in virtual time: tests.fakes.znodes with sessions, ephemeral nodes, watches and connections between.

SimZookeeper   the ensemble, as one: one write after the other, each client's requests in their order, a watch event
               before the answer that shows the change
Link           the way between one member and ZooKeeper: cut (what is sent is kept until it is whole again), slow,
               broken off within a row of writes, or with name servers that are silent
SimClient      kazoo's client as far as ZkSession uses it: states, watches that are lost with the connection,
               requests that fail with it although they may have been carried out
SimSession     the real ZkSession (heartbeat, lease, fence) on such a client
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from gevent.event import AsyncResult
from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import EventType, KazooState, WatchedEvent

from groundwork.lookups import SOON_S
from tests.fakes.znodes import FakeZookeeper
from tests.simulation.process import Process, Timeline
from zkconsumer.session.zksession import ZkSession

SESSION_S = 6.0
TICK_S = 0.5  # sessions end with a tick, never early
READ_TIMEOUT_S = SESSION_S * 2 / 3  # kazoo gives a silent connection up
WRITES = ("create_async", "set_async", "delete_async")

Touched = Callable[[str, bytes | None, int, bool], None]  # path, data, session, whether it was deleted


@dataclass(eq=False)
class Session:
    id: int
    heard_at: float
    connection: Connection | None = None
    alive: bool = True


class Link:
    """rng: of the whole schedule, so that a seed is a schedule."""

    def __init__(self, timeline: Timeline, rng: Random) -> None:
        self.cut = False
        self.slow_up_s = self.slow_down_s = 0.0
        self.silent = False  # name servers do not answer
        self._timeline = timeline
        self._rng = rng
        self._held: list[Callable[[], object]] = []

    def delay(self, down: bool) -> float:
        return 0.0004 + 0.002 * self._rng.random() + (self.slow_down_s if down else self.slow_up_s)

    def pass_on(self, arrive: Callable[[], object]) -> None:
        """Something has come to the end of its way; where that is cut it waits (TCP sends again)."""
        if self.cut:
            self._held.append(arrive)
        else:
            arrive()

    def heal(self) -> None:
        self.cut = False
        held, self._held = self._held, []
        for arrive in held:
            self._timeline.after(0.0, arrive)


class Connection:
    """One TCP connection.  open: at the client's end.  still: after that, so many requests under way still arrive."""

    def __init__(self, client: SimClient) -> None:
        self.client = client
        self.session: Session | None = None
        self.open = True
        self.still = 0
        self.up_at = self.down_at = 0.0


class SimZookeeper(FakeZookeeper):
    def __init__(self, timeline: Timeline, rng: Random, touched: Touched = lambda path, data, session, gone: None):
        super().__init__()
        self.sessions: dict[int, Session] = {}
        self._timeline = timeline
        self._rng = rng
        self._touched = touched
        self._data_watches: dict[str, dict[Connection, None]] = {}
        self._child_watches: dict[str, dict[Connection, None]] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._ids = 100

    # nodes: what the fake does, with an index of children ---------------------------------------------------------

    def set(self, path: str, data: bytes | None) -> None:
        fresh = path not in self.nodes
        super().set(path, data)
        if fresh:
            parent, _, name = path.rpartition("/")
            self._children.setdefault(parent, {})[name] = None

    def below(self, path: str) -> list[str]:
        return list(self._children.get(path, ()))

    def put(self, path: str, data: bytes) -> None:
        """The controller's hand: topics and their partitions."""
        fresh = path not in self.nodes
        self.set(path, data)
        self._fire(path, EventType.CREATED if fresh else EventType.CHANGED)

    # sessions -----------------------------------------------------------------------------------------------------

    def connect(self, connection: Connection, session_id: int | None) -> None:
        """A client asks for a session, or for its own again."""
        if session_id is None:
            self._ids += 1
            session = self.sessions[self._ids] = Session(self._ids, self._timeline.now)
            self._watch_over(session)
        else:
            session = self.sessions[session_id]
        if session.alive:
            session.heard_at = self._timeline.now
            session.connection = connection
            connection.session = session
            self._send(connection, connection.client.connected, connection, session.id)
        else:
            self._send(connection, connection.client.expired, connection)

    def expire(self, session: Session) -> None:
        """The session is over: its ephemeral nodes go."""
        if not session.alive:
            return
        session.alive = False
        for path in [path for path, node in self.nodes.items() if node.ephemeralOwner == session.id]:
            self._remove(path, session.id)
        if session.connection is not None:
            self._send(session.connection, session.connection.client.closed, session.connection)

    def _watch_over(self, session: Session) -> None:
        silent_s = self._timeline.now - session.heard_at
        if silent_s >= SESSION_S:
            self.expire(session)
        elif session.alive:
            wait_s = SESSION_S - silent_s + 0.001 + TICK_S * self._rng.random()
            self._timeline.after(wait_s, self._watch_over, session)

    # requests -----------------------------------------------------------------------------------------------------

    def receive(self, connection: Connection, what: str, args: tuple[Any, ...], watched: bool, answer: Any) -> None:
        session = connection.session
        if session is None or not session.alive or session.connection is not connection:
            return
        if not connection.open:
            if connection.still <= 0:
                return
            connection.still -= 1
        session.heard_at = self._timeline.now
        if what == "close":
            self.expire(session)
            return
        found = getattr(self, what)(*args)
        value, error = found.value, found.error
        path = args[0]
        if what in WRITES and error is None:
            self._written(what, args, session.id)
        elif watched:
            if what == "get_children_async":
                if error is None:
                    self._child_watches.setdefault(path, {})[connection] = None
            elif error is None:
                self._data_watches.setdefault(path, {})[connection] = None
        if what == "get_async" and error is None:
            value = (value[0], copy.copy(value[1]))
        elif value is not None and what in ("exists_async", "set_async"):
            value = copy.copy(value)
        self._send(connection, connection.client.answered, answer, value, error, what, path)

    def _written(self, what: str, args: tuple[Any, ...], session_id: int) -> None:
        path = args[0]
        if what == "create_async":
            if args[2]:
                self.nodes[path].ephemeralOwner = session_id
            self._touched(path, args[1], session_id, False)
            self._fire(path, EventType.CREATED)
        elif what == "set_async":
            self._touched(path, args[1], session_id, False)
            self._fire(path, EventType.CHANGED)
        else:
            self._gone(path, session_id)

    def _remove(self, path: str, session_id: int) -> None:
        del self.nodes[path]
        self._gone(path, session_id)

    def _gone(self, path: str, session_id: int) -> None:
        parent, _, name = path.rpartition("/")
        self._children[parent].pop(name, None)
        self._touched(path, None, session_id, True)
        self._fire(path, EventType.DELETED)

    def _fire(self, path: str, event: str) -> None:
        parent = path.rpartition("/")[0]
        told = self._data_watches.pop(path, {})
        if event == EventType.DELETED:
            told |= self._child_watches.pop(path, {})
        for connection in told:
            self._send(connection, connection.client.fired, event, path)
        if event != EventType.CHANGED:
            for connection in self._child_watches.pop(parent, {}):
                self._send(connection, connection.client.fired, EventType.CHILD, parent)

    def _send(self, connection: Connection, fn: Callable[..., object], *args: Any) -> None:
        client = connection.client
        connection.down_at = max(connection.down_at, self._timeline.now + client.link.delay(down=True))
        self._timeline.at(connection.down_at, client.link.pass_on, lambda: client.hear(connection, fn, args))

    # the arguments that kazoo names -------------------------------------------------------------------------------

    def create_async(self, path: str, data: bytes, ephemeral: bool = False, acl: Any = None) -> Any:
        return super().create_async(path, data)


class _Negotiated:
    def __init__(self) -> None:
        self.negotiated_s = 0.0


class SimClient:
    """on_state(KazooState) is called as kazoo calls its listeners.  All of it runs in the member's process."""

    def __init__(self, process: Process, server: SimZookeeper, link: Link, on_state: Callable[[str], None]) -> None:
        self.client_id: tuple[int, bytes] | None = None
        self.link = link
        self.break_at: tuple[str, int, bool] | None = None  # after so many writes below a path; whether the last counts
        self._connection = _Negotiated()
        self._process = process
        self._server = server
        self._on_state = on_state
        self._line: Connection | None = None
        self._connected = False
        self._lost = True
        self._tries = 0
        self._looked_up = False  # so there are last addresses
        self._heard_at = process.timeline.now
        self._waiting: dict[Any, None] = {}
        self._data_watchers: dict[str, dict[Any, None]] = {}
        self._child_watchers: dict[str, dict[Any, None]] = {}

    # connection ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        self._connect()
        self._process.after(SESSION_S / 6, self._watch_over)

    def _connect(self) -> None:
        if self._connected:
            return
        self._tries += 1
        if self.link.silent:
            self._process.after(SOON_S, self._connect_to_last, self._tries)
        else:
            self._connect_to_server()

    def _connect_to_last(self, tries: int) -> None:
        """The look-up took too long; kazoo tries again where there are no last addresses."""
        if tries == self._tries and not self._connected:
            if self._looked_up or not self.link.silent:
                self._connect_to_server()
            else:
                self._connect()

    def _connect_to_server(self) -> None:
        self._looked_up = True
        line = self._line = Connection(self)
        session_id = self.client_id[0] if self.client_id is not None else None
        self._process.timeline.after(
            self.link.delay(down=False), self.link.pass_on, lambda: self._reach(line, session_id)
        )
        self._process.after(1.0, self._connect_again, self._tries)

    def _reach(self, line: Connection, session_id: int | None) -> None:
        if line is self._line and line.open:
            self._server.connect(line, session_id)

    def _connect_again(self, tries: int) -> None:
        if tries == self._tries and not self._connected:
            if self._line is not None:
                self._line.open = False
            self._connect()

    def connected(self, line: Connection, session_id: int) -> None:
        self.client_id = (session_id, b"")
        self._connection.negotiated_s = SESSION_S
        self._connected, self._lost = True, False
        self._on_state(KazooState.CONNECTED)

    def expired(self, line: Connection) -> None:
        line.open = False
        self.client_id = None
        self._lost = True
        self._on_state(KazooState.LOST)
        self._connect()

    def closed(self, line: Connection) -> None:
        self.reset()

    def _watch_over(self) -> None:
        if self._connected and self._process.timeline.now - self._heard_at > READ_TIMEOUT_S:
            self.reset()
        self._process.after(SESSION_S / 6, self._watch_over)

    def reset(self, still: int = 0) -> None:
        """The connection is gone; so many of the requests under way are still carried out."""
        line = self._line
        if line is None or not self._connected:
            return
        line.open, line.still = False, still
        self._connected = False
        waiting, self._waiting = self._waiting, {}
        watchers = [
            w for by_path in (self._data_watchers, self._child_watchers) for each in by_path.values() for w in each
        ]
        self._data_watchers, self._child_watchers = {}, {}
        self._on_state(KazooState.SUSPENDED)
        for answer in waiting:
            answer.set_exception(ConnectionLoss())
        for watcher in watchers:
            watcher(WatchedEvent(EventType.NONE, "CONNECTING", None))
        self._process.after(0.05 + 0.2 * (self._tries % 3), self._connect)

    def hear(self, line: Connection, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Something arrives from ZooKeeper, at the machine; the process may be frozen."""
        self._process.arrive(self._heard, line, fn, args)

    def _heard(self, line: Connection, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        if line.open and line is self._line:
            self._heard_at = self._process.timeline.now
            fn(*args)

    def answered(self, answer: Any, value: Any, error: Exception | None, what: str, path: str) -> None:
        self._waiting.pop(answer, None)
        watcher = answer.watcher
        if watcher is not None and (error is None):
            kind = self._child_watchers if what == "get_children_async" else self._data_watchers
            kind.setdefault(path, {})[watcher] = None
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set(value)

    def fired(self, event: str, path: str) -> None:
        told: dict[Any, None] = {}
        if event == EventType.CHILD:
            told = self._child_watchers.pop(path, {})
        else:
            told = self._data_watchers.pop(path, {})
            if event == EventType.DELETED:
                told |= self._child_watchers.pop(path, {})
        for watcher in told:
            watcher(WatchedEvent(event, "CONNECTED", path))

    def goodbye(self) -> None:
        self._ask("close", ("/",), None)

    # kazoo's calls ------------------------------------------------------------------------------------------------

    def _ask(self, what: str, args: tuple[Any, ...], watcher: Any) -> Any:
        answer = Answered(watcher)
        line = self._line
        if not self._connected or line is None:
            answer.set_exception(SessionExpiredError())
            return answer
        self._waiting[answer] = None
        line.up_at = max(line.up_at, self._process.timeline.now + self.link.delay(down=False))
        request = (line, what, args, watcher is not None, answer)
        self._process.timeline.at(line.up_at, self.link.pass_on, lambda: self._server.receive(*request))
        self._break(what, args[0])
        return answer

    def _break(self, what: str, path: str) -> None:
        """Within a row of writes the connection breaks off, if that is asked for."""
        if self.break_at is not None and what in WRITES and self.break_at[0] in path:
            below, left, arrives = self.break_at
            self.break_at = (below, left - 1, arrives) if left > 1 else None
            if self.break_at is None:
                under_way = len(self._waiting)
                self._process.after(0.0, self.reset, under_way if arrives else under_way - 1)

    def get_async(self, path: str, watch: Any = None) -> Any:
        return self._ask("get_async", (path,), watch)

    def exists_async(self, path: str, watch: Any = None) -> Any:
        return self._ask("exists_async", (path,), watch)

    def sync_async(self, path: str) -> Any:
        return self._ask("sync_async", (path,), None)

    def get_children_async(self, path: str, watch: Any = None) -> Any:
        return self._ask("get_children_async", (path,), watch)

    def create_async(self, path: str, data: bytes, acl: Any = None, ephemeral: bool = False) -> Any:
        return self._ask("create_async", (path, data, ephemeral), None)

    def set_async(self, path: str, data: bytes, version: int = -1) -> Any:
        return self._ask("set_async", (path, data, version), None)

    def delete_async(self, path: str, version: int = -1) -> Any:
        return self._ask("delete_async", (path, version), None)


class Answered(AsyncResult):  # type: ignore[misc]  # gevent has no types
    def __init__(self, watcher: Any) -> None:
        super().__init__()
        self.watcher = watcher


class SimSession(ZkSession):
    """begin() in the place of start(): it has no address to connect to."""

    def begin(self, process: Process, server: SimZookeeper, link: Link) -> SimClient:
        client = self._client = SimClient(process, server, link, self._kazoo_state)
        client.open()
        self._tasks.spawn("zookeeper-heartbeat", self._beat)
        self._tasks.spawn("zookeeper-fence", self._guard)
        return client

    def close(self) -> None:
        if self._client is not None:
            self._client.goodbye()
