"""ZooKeeper session of one connector, and the lease that limits how long it is trusted.  Keeps kazoo behind types.

    CONNECTED  ask, claim, commit
    SUSPENDED  the session may still live: keep reading until the lease is over, commit nothing, claim nothing
    LOST       our id and our claims are gone and others may own our partitions: drop everything, register again

The lease has its own heartbeat, because kazoo reports LOST only once it is connected again, and keeps the session
timeout it requested, not the one the server granted.  A heartbeat proves that the session was alive when it was *sent*:
the server starts counting again on receipt.  It is a `sync`, which the leader answers.  A read or a ping proves
nothing: a follower that lost its leader answers them for syncLimit ticks, 10 s by ZooKeeper's sample file, while the
majority ends the session (FinalRequestProcessor, Learner).  When the lease ends, our own timer calls `on_fence`, once
per lapse.  Timers stop while the machine is suspended: so the clocks are compared every LOOK_S, and after a jump a
heartbeat is sent at once.

Nothing is ever queued: a call made while not CONNECTED would run in the *next* session, so each call names the session
it belongs to and is refused (ZooKeeperAway) if that one is not connected.
"""

from __future__ import annotations

import enum
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from groundwork import clocks
from groundwork.kazoohandler import kazoo_handler
from groundwork.logs import KazooLog
from groundwork.openfiles import TooManyOpenFiles
from groundwork.tasks import Event, TaskGroup, deadline, now, sleep, tls_context
from groundwork.tlscontext import TlsUnusable
from groundwork.zksecurity import OPEN, ZkSecurity
from groundwork.zkstart import started
from kafkawire.cluster.zookeeper import missing_chroot
from zkconsumer.errors import ChrootMissing, ConsumerError, Unreachable, ZooKeeperAway
from zkconsumer.session.lease import STOOD_STILL, Lease
from zkconsumer.session.zkcalls import ZkCalls

log = logging.getLogger(__name__)

RECONNECT_MAX_S = 0.5  # kazoo's 60 s would keep us disconnected long after ZooKeeper is back
BEATS_PER_TIMEOUT = 12  # a 6 s session sends a heartbeat every 0.5 s
SILENT = 2 / 3  # fraction of the timeout after which kazoo gives up a connection on which it sends nothing
LOOK_S = 0.1  # interval between checks of the clocks
WAITING = "%s: nothing is delivered, sent or committed until %s answers a heartbeat; a clock jumped by %.1f s"
CLOSE_S = 1.5  # longest time for closing the session if ZooKeeper does not answer; at worst twice
NO_SESSION_CLOSE_S = 0.1  # likewise if there was never a session


class SessionState(enum.Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class _Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's connection, which remembers the session timeout that the server granted (2 to 20 of its ticks)."""

    negotiated_s = 0.0
    trouble = ""  # why the last try to connect failed
    _connection_routine: Any

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        try:
            read_ms, connect_ms = super()._connect(host, hostip, port)
        except Exception as e:
            self.trouble = str(e.__context__ or e) or type(e).__name__
            raise
        self.negotiated_s = read_ms * 3 / 2 / 1000  # kazoo reads with two thirds of the timeout
        return read_ms, connect_ms

    def drop(self) -> None:
        """Close the socket of a connection without responses; kazoo tries the next server."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def abandon(self) -> None:
        """End the connection's greenlet without waiting for a response that will not come."""
        if self._connection_routine is not None:
            self._connection_routine.kill(block=False)
            self._connection_routine = None
        self.connection_stopped.set()


class ZkSession(ZkCalls):
    """Successive ZooKeeper sessions of one connector; all calls are made in the hub.

    connect is `host:port,host:port/chroot`.  on_state(SessionState) and on_fence() must not block: they set flags.
    """

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        tasks: TaskGroup,
        lease: Lease,
        on_state: Callable[[SessionState], None] = lambda state: None,
        on_fence: Callable[[], None] = lambda: None,
        access: ZkSecurity = OPEN,
    ) -> None:
        super().__init__()
        self.connect = connect
        self.hosts = connect.partition("/")[0]
        self.lease = lease
        self.state = SessionState.LOST
        self.fenced = True  # True while there is no lease
        self._connection_timeout_s = connection_timeout_ms / 1000
        self._session_timeout_s = session_timeout_ms / 1000
        self._tasks = tasks
        self._on_state = on_state
        self._on_fence = on_fence
        self._access = access
        self._client: Any = None
        self._handler: Any = None
        self._wake_beat = Event()
        self._wake_fence = Event()
        self._unanswered = 0  # consecutive unanswered heartbeats

    # start and end ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect.  Raises Unreachable, ChrootMissing or ConsumerError; creates nothing."""
        tls = self._access.tls
        try:
            self._handler = handler = kazoo_handler(tls.context(tls_context) if tls is not None else None)
        except TlsUnusable as e:
            raise ConsumerError(str(e)) from None
        retry = KazooRetry(max_tries=-1, delay=0.05, max_delay=RECONNECT_MAX_S, sleep_func=handler.sleep_func)
        try:
            client = KazooClient(
                hosts=self.connect,
                timeout=self._session_timeout_s,
                handler=handler,
                connection_retry=retry,
                logger=KazooLog(),
                **self._access.for_kazoo(),
            )
        except ValueError as e:
            raise ConsumerError(f"zookeeper.connect '{self.connect}' is not host:port,host:port/chroot: {e}") from None
        client._connection = _Connection(client, client._conn_retry.copy(), logger=client.logger)
        client.add_listener(self._kazoo_state)
        self._client = client
        try:
            connected = started(client, self._connection_timeout_s)
        except TooManyOpenFiles as e:
            self.close()
            raise Unreachable(f"ZooKeeper at {self.hosts} is not reached: {e}") from e
        if not connected:
            why = self._trouble(" The last try: ")
            self.close()
            raise Unreachable(
                f"ZooKeeper at {self.hosts} does not answer within {self._connection_timeout_s:g} s "
                f"(zookeeper.connection.timeout.ms): is it running, and is zookeeper.connect right?{why}"
            )
        try:
            missing = self.ask("look for the chroot", missing_chroot, self.connect, "zookeeper.connect")
        except ZooKeeperAway as e:
            why = self._trouble(": ")
            self.close()
            raise Unreachable(f"{e} right after it began{why}") from e
        if missing is not None:
            self.close()
            raise ChrootMissing(missing)
        self._tasks.spawn("zookeeper-heartbeat", self._beat)
        self._tasks.spawn("zookeeper-fence", self._guard)
        self.first_beat()

    def first_beat(self) -> None:
        """Wait until the lease holds: nothing is delivered before."""
        deadline = now() + self._connection_timeout_s
        while self.fenced and now() < deadline:
            sleep(0.01)
        if self.fenced:
            raise Unreachable(f"ZooKeeper at {self.hosts} connected but does not answer{self._trouble(': ')}")

    def _trouble(self, begins: str) -> str:
        """Return why the last try to connect failed, as the end of a sentence, or ""."""
        trouble = self._client._connection.trouble if self._client is not None else ""
        return f"{begins}{trouble}" if trouble else ""

    def close(self) -> None:
        """End the session: ephemeral nodes vanish with it.  Takes at most CLOSE_S if ZooKeeper does not answer."""
        client, self._client = self._client, None
        if client is None:
            return
        client.remove_listener(self._kazoo_state)
        self.state = SessionState.LOST
        had_one = client._connection.negotiated_s > 0
        try:
            with deadline(CLOSE_S if had_one else NO_SESSION_CLOSE_S):
                client.stop()
        except TimeoutError:
            pass  # logged below
        if not client._connection.connection_stopped.is_set():
            if had_one:
                log.warning(
                    "ZooKeeper at %s did not answer the close request; the session ends by its time-out", self.hosts
                )
            client._connection.abandon()
            with deadline(CLOSE_S):
                self._handler.stop()
        client.close()

    @property
    def started(self) -> bool:
        return self._client is not None

    @property
    def session_id(self) -> int | None:
        """Return the session's id while CONNECTED, as `ephemeralOwner` shows it."""
        if self._client is None or self._client.client_id is None:
            return None
        found: int | None = self._client.client_id[0]
        return found

    @property
    def negotiated_s(self) -> float:
        """Return the session timeout that the server granted, in seconds."""
        return float(self._client._connection.negotiated_s) if self._client is not None else 0.0

    # the lease ----------------------------------------------------------------------------------------------------

    def _kazoo_state(self, state: str) -> None:
        """Handle kazoo's state in its connection's greenlet: only set flags."""
        self.state = {KazooState.CONNECTED: SessionState.CONNECTED, KazooState.SUSPENDED: SessionState.SUSPENDED}.get(
            state, SessionState.LOST
        )
        log.debug("ZooKeeper session at %s is %s", self.hosts, self.state.value)  # on_state reports it
        self._unanswered = 0
        if self.state is SessionState.LOST:
            self.lease.revoke(clocks.boot())
            self._fence()
        self._wake_beat.set()
        self._on_state(self.state)

    def _beat(self) -> None:
        """Send a heartbeat each twelfth of the session timeout; several may be in flight (a slow server is not dead).

        After SILENT of the timeout without a response the connection is dropped.  kazoo would keep it: it only pings
        after a while in which it sent nothing.  Heartbeats are counted, since responses may wait in the socket of a
        process that was stopped.
        """
        while self._client is not None:
            if self.session_id is not None:
                if self._unanswered >= BEATS_PER_TIMEOUT * SILENT:
                    log.warning("ZooKeeper at %s does not answer; connecting to the next server", self.hosts)
                    self._unanswered = 0
                    self._client._connection.drop()
                self._unanswered += 1
                sent = clocks.moment()
                try:
                    answer = self._client.sync_async("/")
                except KazooException:
                    pass  # closed in between; the next turn of the loop notices it
                else:
                    answer.rawlink(partial(self._beaten, sent))
            self._wake_beat.clear()
            self._wake_beat.wait(timeout=(self.negotiated_s or self._session_timeout_s) / BEATS_PER_TIMEOUT)

    def _beaten(self, sent: clocks.Moment, answer: Any) -> None:
        if answer.exception is not None or self.state is not SessionState.CONNECTED:
            return
        self._unanswered = 0
        self.lease.beat_answered(sent, self.negotiated_s)
        if self.lease.holds(clocks.moment()):
            self.fenced = False
        self._wake_fence.set()

    def _guard(self) -> None:
        """Fence when the lease ends, even while kazoo only reports SUSPENDED."""
        while self._client is not None:
            self._wake_fence.clear()
            if self.fenced:
                self._wake_fence.wait(timeout=1)
                continue
            moment = clocks.moment()
            if jump_s := self.lease.end_at_jump(moment):
                log.warning(WAITING, STOOD_STILL, f"ZooKeeper at {self.hosts}", jump_s)
                self._wake_beat.set()
            left = self.lease.ends_at - moment.at
            if left > 0:
                self._wake_fence.wait(timeout=min(left, LOOK_S))
            else:
                self._fence()

    def _fence(self) -> None:
        if not self.fenced:
            self.fenced = True
            self.lease.end_what_began()
            log.debug("lease over: no answer of ZooKeeper at %s in time", self.hosts)  # on_fence reports it
            self._on_fence()

    def _connected(self, session_id: int | None) -> Any:
        current = self.session_id
        if self._client is None or current is None:
            raise ZooKeeperAway(f"the session with ZooKeeper at {self.hosts} is {self.state.value}")
        if session_id is not None and session_id != current:
            raise ZooKeeperAway(f"the session {session_id:#x} with ZooKeeper at {self.hosts} is over")
        return self._client
