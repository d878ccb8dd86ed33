"""kazoo's client with virtual time and a simulated server in place of its connection.

Everything else is kazoo's own: states and listeners, retries, makepath, transactions, chroots, recipes.  Watches are
lost with the connection, as kazoo loses them, and requests fail with it although they may have been carried out (Z20).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError, WriterNotClosedException
from kazoo.handlers.gevent import SequentialGeventHandler
from kazoo.protocol.serialization import (
    Close,
    CloseInstance,
    Create,
    Create2,
    Delete,
    GetChildren,
    GetChildren2,
    Ping,
    PingInstance,
    SetData,
    Sync,
    Transaction,
)
from kazoo.protocol.states import Callback, EventType, KeeperState, WatchedEvent

from groundwork.lookups import SOON_S
from tests.simulation.process import Process
from tests.simulation.zookeeper.ensemble import SimZookeeper
from tests.simulation.zookeeper.link import Connection, Link
from tests.simulation.zookeeper.server import Server

SESSION_S = 6.0
WRITES = (Create, Create2, SetData, Delete)
CONNECT_S = 1.0  # one try at a server that is alone
STOP_S = 10.0  # kazoo waits so long for the end of a connection


class Ordered(dict[Any, None]):
    """A set whose order is the one of a schedule."""

    def add(self, value: Any) -> None:
        self[value] = None

    def discard(self, value: Any) -> None:
        self.pop(value, None)


class SimHandler(SequentialGeventHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's handler, which the exit of Python does not wait for; exceptions of watchers fail the process."""

    _running: bool
    callback_queue: Any

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process

    def start(self) -> None:
        if not self._running:
            self._running = True
            self._workers.append(self.spawn(self._work, self.callback_queue))

    def stop(self) -> None:
        if self._running:
            self._running = False
            self.callback_queue.put(None)
            self._workers.clear()
            self.callback_queue = self.queue_impl()

    def _work(self, queue: Any) -> None:
        for call in iter(queue.get, None):
            try:
                call()
            except Exception as e:
                self._process.failed(e)


class SimClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """One client of a process.  link: its way to all servers; given: arguments of a KazooClient.

    break_at: after so many writes below a path the connection breaks off; whether the last of them arrives.
    """

    _child_watchers: dict[str, Any]
    _data_watchers: dict[str, Any]

    def __init__(
        self,
        process: Process,
        zookeeper: SimZookeeper,
        link: Link,
        hosts: str = "",
        timeout: float = SESSION_S,
        **given: Any,
    ) -> None:
        given["handler"] = SimHandler(process)
        super().__init__(hosts=hosts or zookeeper.connect, timeout=timeout, **given)
        self.link = link
        self.break_at: tuple[str, int, bool] | None = None
        self.state_listeners = Ordered()
        self._process = process
        self.zookeeper = zookeeper
        names = {f"{host}:{port}" for host, port in self.hosts}
        self._servers = [s for s in zookeeper.servers if s.name in names] or zookeeper.servers
        self._untried: list[Server] = []
        self._line: Connection | None = None
        self._tries = 0
        self._looked_up = False  # so there are last addresses
        self._heard_at = self._sent_at = process.timeline.now
        self._pinged = False  # and not answered

    def _reset_watchers(self) -> None:
        watchers = [
            watcher
            for by_path in (self._child_watchers, self._data_watchers)
            for each in by_path.values()
            for watcher in each
        ]
        self._child_watchers, self._data_watchers = defaultdict(Ordered), defaultdict(Ordered)
        event = WatchedEvent(EventType.NONE, self._state, None)
        for watcher in watchers:
            self.handler.dispatch_callback(Callback("watch", watcher, (event,)))

    # start and stop -----------------------------------------------------------------------------------------------

    def start_async(self) -> Any:
        if self._live.is_set():
            return self._live
        self._stopped.clear()
        self._connection.connection_stopped.clear()
        self.handler.start()
        self._session_callback(KeeperState.CONNECTING)
        self._connect()
        self._process.after(self._session_timeout / 6000, self._watch_over)
        return self._live

    def stop(self) -> None:
        if self._stopped.is_set():
            return
        self._stopped.set()
        if self._live.is_set():
            self._call(CloseInstance, None)
        else:
            self._ended()
        self.handler.stop()
        if not self._connection.connection_stopped.wait(max(STOP_S, self._session_timeout / 1000)):
            raise WriterNotClosedException("the connection did not end")

    def _ended(self) -> None:
        if self._line is not None:
            self._line.open = False
        self._session_callback(KeeperState.CLOSED)
        self._connection.connection_stopped.set()

    def command(self, cmd: bytes = b"ruok") -> str:
        if not self._live.is_set():
            raise ConnectionLoss("No connection to server")
        return f"Zookeeper version: {self.zookeeper.version}-0, built on 01/01/2014 00:00 GMT"

    # connection ---------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if self._live.is_set() or self._stopped.is_set():
            return
        self._tries += 1
        if self._state != KeeperState.CONNECTING:
            self._session_callback(KeeperState.CONNECTING)
        if self.link.silent:
            self._process.after(SOON_S, self._connect_to_last, self._tries)
        else:
            self._connect_to_server()

    def _connect_to_last(self, tries: int) -> None:
        """The look-up took too long; kazoo tries again where there are no last addresses."""
        if tries == self._tries and not self._live.is_set():
            if self._looked_up or not self.link.silent:
                self._connect_to_server()
            else:
                self._connect()

    def _connect_to_server(self) -> None:
        self._looked_up = True
        line = self._line = Connection(self, self._next_server())
        session_id = self._session_id
        self._process.timeline.after(
            self.link.delay(down=False), self.link.pass_on, lambda: self._reach(line, session_id)
        )
        timeout_s = CONNECT_S if len(self._servers) == 1 else self._session_timeout / 1000 / len(self._servers)
        self._process.after(timeout_s, self._connect_again, self._tries)

    def _next_server(self) -> Server:
        """kazoo goes through its shuffled servers, and shuffles them again."""
        if len(self._servers) == 1:
            return self._servers[0]
        if not self._untried:
            self._untried = [*self._servers]
            self.zookeeper.rng.shuffle(self._untried)
        return self._untried.pop()

    def _reach(self, line: Connection, session_id: int | None) -> None:
        if line is not self._line or not line.open:
            return
        if line.server.up:
            line.server.run(line.server.accept, line, session_id, self.last_zxid, self._session_timeout / 1000)
        else:  # refused
            self._process.timeline.after(self.link.delay(down=True), self.link.pass_on, lambda: self._refused(line))

    def _refused(self, line: Connection) -> None:
        self.hear(line, self.hung_up, (line,))

    def _connect_again(self, tries: int) -> None:
        if tries == self._tries and not self._live.is_set():
            if self._line is not None:
                self._line.open = False
            self._connect()

    def granted(self, line: Connection, session_id: int, timeout_s: float) -> None:
        self._session_id, self._session_passwd = session_id, b"simulated"
        self._connection.negotiated_s = timeout_s
        self._connection._socket = self  # for shutdown()
        self._pinged = False
        if self._stopped.is_set():
            self._ended()
            return
        self._session_callback(KeeperState.CONNECTED)
        self._flush()

    def session_over(self, line: Connection) -> None:
        line.open = False
        self._session_callback(KeeperState.EXPIRED_SESSION)
        self._connect()

    def hung_up(self, line: Connection) -> None:
        """The server has closed the connection, or refused it."""
        if self._live.is_set():
            self.reset()
        else:
            line.open = False
            self._after_loss()

    def _after_loss(self) -> None:
        if self._stopped.is_set():
            self._ended()
        elif self._untried:
            self._process.after(0.0, self._connect)
        else:
            self._process.after(0.05 + 0.2 * (self._tries % 3), self._connect)

    def _watch_over(self) -> None:
        """kazoo pings where it has sent nothing for a third of the time-out, and gives the connection up where nothing
        was sent or came for a third more; requests in between put that off, however long nothing is answered."""
        if self._stopped.is_set():
            return
        now, timeout_s = self._process.timeline.now, self._session_timeout / 1000
        if self._live.is_set() and now - self._sent_at >= timeout_s / 3:
            if not self._pinged:
                self._pinged = True
                self._call(PingInstance, None)
            elif now - self._heard_at >= timeout_s / 3:
                self.reset()
        self._process.after(timeout_s / 6, self._watch_over)

    def reset(self, still: int = 0) -> None:
        """The connection is gone; so many of the requests under way are still carried out."""
        line = self._line
        if line is None or not self._live.is_set():
            return
        line.open, line.still = False, still
        self._session_callback(KeeperState.CONNECTING)
        self._after_loss()

    def shutdown(self, how: int) -> None:
        """Of the socket: kazoo finds that the connection has ended."""
        self._process.after(0.0, self.reset)

    def hear(self, line: Connection, fn: Any, args: tuple[Any, ...]) -> None:
        """Something arrives from ZooKeeper, at the machine; the process may be frozen."""
        self._process.arrive(self._heard, line, fn, args)

    def _heard(self, line: Connection, fn: Any, args: tuple[Any, ...]) -> None:
        if line.open and line is self._line:
            self._heard_at = self._process.timeline.now
            fn(*args)

    # requests -----------------------------------------------------------------------------------------------------

    def _call(self, request: Any, async_object: Any) -> bool | None:
        """kazoo sends what is asked while it connects once it is connected, on whatever session that is."""
        if self._state == KeeperState.CLOSED:
            async_object.set_exception(ConnectionClosedError("Connection has been closed"))
            return False
        if self._state == KeeperState.EXPIRED_SESSION:
            async_object.set_exception(SessionExpiredError())
            return False
        self._queue.append((request, async_object))
        if self._live.is_set():
            self._flush()
        return None

    def _flush(self) -> None:
        line, timeline = self._line, self._process.timeline
        assert line is not None
        server = line.server
        while self._queue:
            request, async_object = self._queue.popleft()
            slot = (request, async_object, 0)
            self._pending.append(slot)
            self._sent_at = timeline.now
            line.up_at = max(line.up_at, timeline.now + self.link.delay(down=False))
            arrives = (server.receive, line, request, slot)
            timeline.at(line.up_at, self.link.pass_on, lambda arrives=arrives: server.run(*arrives))
            if self.break_at is not None:
                self._break(request)

    def _break(self, request: Any) -> None:
        """Within a row of writes the connection breaks off, if that is asked for."""
        if self.break_at is not None and isinstance(request, WRITES) and self.break_at[0] in request.path:
            below, left, arrives = self.break_at
            self.break_at = (below, left - 1, arrives) if left > 1 else None
            if self.break_at is None:
                under_way = len(self._pending)
                self._process.after(0.0, self.reset, under_way if arrives else under_way - 1)

    def answered(self, slot: Any, value: Any, error: Exception | None, zxid: int) -> None:
        assert self._pending[0] is slot, "answers keep the order of requests"
        self._pending.popleft()
        request, async_object, _ = slot
        if zxid > 0:
            self.last_zxid = zxid
        if type(request) is Close:
            self._ended()
        elif type(request) is Ping:
            self._pinged = False
        elif error is not None:
            async_object.set_exception(error)
        else:
            async_object.set(Transaction.unchroot(self, value) if type(request) is Transaction else value)
            watcher = getattr(request, "watcher", None)
            if watcher is not None and not self._stopped.is_set():
                lists = isinstance(request, (GetChildren, GetChildren2))
                (self._child_watchers if lists else self._data_watchers)[request.path].add(watcher)

    def fired(self, event: str, path: str) -> None:
        told: dict[Any, None] = {}
        if event == EventType.CHILD:
            told = self._child_watchers.pop(path, {})
        else:
            told = self._data_watchers.pop(path, {})
            if event == EventType.DELETED:
                told = {**told, **self._child_watchers.pop(path, {})}
        if not self._stopped.is_set():
            happened = WatchedEvent(event, self._state, self.unchroot(path))
            for watcher in told:
                self.handler.dispatch_callback(Callback("watch", watcher, (happened,)))

    def sync_async(self, path: str) -> Any:
        """kazoo's, without two futures of its own: a third of all requests are heartbeats."""
        if self.chroot:
            return super().sync_async(path)
        answer = self.handler.async_result()
        self._call(Sync(path), answer)
        return answer


def client_for(process: Process, zookeeper: SimZookeeper, link: Link, **given: Any) -> SimClient:
    """A client of the process in place of KazooClient(**given): its hosts may be a part of zookeeper.connect, with a
    chroot behind."""
    return SimClient(process, zookeeper, link, **given)
