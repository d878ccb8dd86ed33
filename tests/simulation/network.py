"""The network between simulated processes and brokers: connections that are late, cut, lost, half open, slow.

    Network      who listens where, and the paths
    Path         all connections from one process to one address: what a schedule does to them
    Connection   one of them: two pipes, each in order, and what has become of its ends
    SimSocket    the client's end, as far as kafkawire.net.transport.PlainTransport uses a socket: slices and time-outs
                 are the product's own
    Wire, Peer   the broker's end

A machine goes on while a process of it is frozen: what arrives waits.  A process that is killed leaves its machine to
end its connections, behind what it has sent.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from hashlib import blake2b
from random import Random
from typing import Any, Protocol

import gevent
from gevent.hub import Waiter

from tests.simulation.process import Process, Timeline

LATENCY_S, JITTER_S = 0.0003, 0.0005
SEND_BUFFER_BYTES = 256 << 10  # sent and not yet taken by the other side
SYN_AGAIN_S = (1.0, 2.0, 4.0, 8.0, 16.0)  # a SYN that is not answered is sent again
RESEND_S = 0.3  # what was held back by a cut comes so much later at most
_ENDED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR | select.POLLNVAL
_TIMED_OUT = object()
_BREAK = bytes(bytearray(b"the connection breaks here"))  # by its identity: in a pipe, nobody's bytes

Address = tuple[str, int]


class Wire(Protocol):
    """What a broker does to a connection."""

    def send(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class Peer(Protocol):
    """What the network does to a broker."""

    def received(self, data: bytes) -> None:
        """Bytes have come, cut anywhere."""

    def closed(self) -> None:
        """The client's end is gone."""


Open = Callable[[Wire], Peer]  # raises ConnectionRefusedError


class Path:
    """cut: nothing arrives, TCP sends it again once it is healed.  refusing: as without a listener.  silent: no SYN
    arrives.  slow_up_s, slow_down_s: later by that.  bytes_per_s: the broker takes no more; 0: all.  torn: frames come
    in pieces."""

    def __init__(self, network: Network) -> None:
        self.cut = self.refusing = self.silent = self.torn = False
        self.slow_up_s = self.slow_down_s = 0.0
        self.bytes_per_s = 0.0
        self.connections: dict[Connection, None] = {}  # that are not over at both ends
        self._network = network

    def heal(self) -> None:
        """Everything arrives again; what was held back, each connection's when TCP sends it again."""
        self.cut = self.refusing = self.silent = self.torn = False
        self.slow_up_s = self.slow_down_s = self.bytes_per_s = 0.0
        network = self._network
        for connection in self.connections:
            for pipe in (connection.up, connection.down):
                if pipe.held:
                    network.timeline.after(RESEND_S * network.rng.random(), pipe.release)

    def reset(self) -> None:
        """Something on the way resets each connection: what is under way is gone."""
        for connection in [*self.connections]:
            connection.reset()

    def half_open(self) -> None:
        """The way of each connection is gone, and no end is told."""
        for connection in self.connections:
            connection.up.gone = connection.down.gone = True

    def cut_frame(self, share: float) -> None:
        """Of the next that a client sends only this share arrives, then the connection is reset."""
        for connection in self.connections:
            connection.up.breaks_at = share

    def lose_answer(self) -> None:
        """The next that a broker answers does not arrive: the connection is reset, the request was carried out."""
        for connection in self.connections:
            connection.down.breaks_at = 0.0

    def late_copy(self, after_s: float) -> None:
        """The next that a client sends has its connection reset, and arrives at the broker so much later."""
        for connection in self.connections:
            connection.up.late_s = after_s


class Pipe:
    """One direction of a connection.  gone: nothing arrives any more, and nobody is told.  breaks_at: this share of
    what is sent next arrives, then the connection is reset.  late_s: what is sent next arrives so much later, and the
    client is told at once that the connection is reset."""

    __slots__ = ("breaks_at", "busy_until", "connection", "gone", "held", "is_up", "late_s", "under_way")

    def __init__(self, connection: Connection, is_up: bool) -> None:
        self.connection = connection
        self.is_up = is_up
        self.busy_until = 0.0
        self.under_way = 0  # bytes
        self.gone = False
        self.breaks_at: float | None = None
        self.late_s: float | None = None
        self.held: deque[bytes | None] = deque()

    def send(self, data: bytes | None) -> None:
        """None: the end of the connection, behind everything."""
        connection = self.connection
        path, network = connection.path, connection.network
        if self.late_s is not None and data is not None:
            late_s, self.late_s = self.late_s, None
            connection.arrives_late(data, late_s)
            return
        if self.breaks_at is not None and data is not None:
            data, self.breaks_at = data[: int(len(data) * self.breaks_at)], None
            if data:
                self._send(data)
            data = _BREAK
        if path.torn and data is not None and data is not _BREAK and len(data) > 1:
            at = network.rng.randrange(1, len(data))
            self._send(data[:at])
            data = data[at:]
        self._send(data)

    def _send(self, data: bytes | None) -> None:
        connection = self.connection
        path, network = connection.path, connection.network
        at = network.timeline.now + network.latency() + (path.slow_up_s if self.is_up else path.slow_down_s)
        at = max(at, self.busy_until)
        if data is not None:
            self.under_way += len(data)
            if self.is_up and path.bytes_per_s:
                at += len(data) / path.bytes_per_s
        self.busy_until = at
        network.timeline.at(at, self._arrive, data)

    def _arrive(self, data: bytes | None) -> None:
        if self.connection.path.cut or self.held:
            self.held.append(data)
        else:
            self._deliver(data)

    def release(self) -> None:
        held, self.held = self.held, deque()
        for data in held:
            self._arrive(data)

    def _deliver(self, data: bytes | None) -> None:
        connection = self.connection
        if self.gone:
            return
        if data is _BREAK:
            connection.reset()
            return
        if data is not None:
            self.under_way -= len(data)
        if connection.network.trace is not None:
            connection.network.note(connection, self.is_up, data)
        if self.is_up:
            connection.at_broker(data)
        else:
            connection.at_client(data)


class Connection:
    """peer: the broker's end, once the SYN has come there."""

    def __init__(self, network: Network, path: Path, process: Process, address: Address, number: int) -> None:
        self.network = network
        self.path = path
        self.process = process
        self.address = address
        self.number = number
        self.up, self.down = Pipe(self, True), Pipe(self, False)
        self.socket = SimSocket(self)
        self.peer: Peer | None = None
        self.client_open = True
        self.broker_open = False

    # the broker's end: a Wire -------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        if self.broker_open:
            self.down.send(data)

    def close(self) -> None:
        """The broker ends the connection."""
        if self.broker_open:
            self.broker_open = False
            self.down.send(None)
            self._over()

    def at_broker(self, data: bytes | None) -> None:
        if self.client_open:
            self.process.arrive(self.socket.taken)
        if not self.broker_open or self.peer is None:
            if data is not None and self.client_open:
                self.network.timeline.after(self.network.latency(), self.at_client_reset)
        elif data is not None:
            self.peer.received(data)
        else:
            self.broker_open = False
            self.peer.closed()
            self._over()

    # the client's end ---------------------------------------------------------------------------------------------

    def at_client(self, data: bytes | None) -> None:
        if self.client_open:
            self.process.arrive(self.socket.received, data)
        elif data is not None and self.broker_open:  # its machine answers for nobody: a reset
            self.broker_open = False
            if self.peer is not None:
                self.peer.closed()
            self._over()

    def at_client_reset(self) -> None:
        if self.client_open:
            self.process.arrive(
                self.socket.broken, ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            )

    def client_closed(self, tells: bool = True, aborts: bool = False) -> None:
        """The client has closed it, or its machine for a process that is gone.  tells: what it sent still arrives, and
        the end behind it; False: its machine is gone, too.  aborts: what it sent and is not there yet is dropped."""
        if self.client_open:
            self.client_open = False
            if aborts and tells and self.broker_open and not self.path.cut:
                self.reset()
            elif aborts:
                self.up.gone = self.down.gone = True
            elif tells:
                self.up.send(None)
            else:
                self.up.gone = self.down.gone = True
            self._over()

    def reset(self) -> None:
        """Both ends are told that it is over."""
        self.up.gone = self.down.gone = True
        self.at_client_reset()
        if self.broker_open:
            self.broker_open = False
            if self.peer is not None:
                self.peer.closed()
        self._over()

    def arrives_late(self, data: bytes, after_s: float) -> None:
        """What the client has sent waits at the broker, and its connection is reset; what was sent before arrives."""
        self.up.gone = self.down.gone = True
        self.at_client_reset()
        self.network.timeline.after(after_s, self._arrived_late, data)

    def _arrived_late(self, data: bytes) -> None:
        if self.broker_open and self.peer is not None:
            self.broker_open = False
            self.peer.received(data)
            self.peer.closed()
            self._over()

    def _over(self) -> None:
        if not self.client_open and not self.broker_open:
            self.path.connections.pop(self, None)


class Network:
    """trace: a hash of each thing that arrived; None: none is kept."""

    def __init__(self, timeline: Timeline, rng: Random, *, traced: bool = False) -> None:
        self.timeline = timeline
        self.rng = rng
        self.trace = blake2b() if traced else None
        self.paths: dict[tuple[str, Address], Path] = {}
        self._listening: dict[Address, Open] = {}
        self._connections = 0

    def listen(self, address: Address, opens: Open) -> None:
        """A broker, or what stands for one, is there from now on; whether it is up is its own affair."""
        self._listening[address] = opens

    def path(self, process: str, address: Address) -> Path:
        return self.paths.get((process, address)) or self.paths.setdefault((process, address), Path(self))

    def latency(self) -> float:
        return LATENCY_S + JITTER_S * self.rng.random()

    def note(self, connection: Connection, is_up: bool, data: bytes | None) -> None:
        assert self.trace is not None
        where = f"{self.timeline.now:.6f} {connection.process.name} {connection.number} {is_up} {data is None} "
        self.trace.update(where.encode() + (data or b""))

    def gone(self, process: Process, tells: bool = True) -> None:
        """A process is gone; tells: its machine is not, and ends its connections."""
        for (name, _), path in self.paths.items():
            if name == process.name:
                for connection in [each for each in path.connections if each.process is process]:
                    connection.client_closed(tells, connection.socket.aborts)

    # connecting ---------------------------------------------------------------------------------------------------

    def connect(self, process: Process, address: Address, timeout_s: float | None) -> SimSocket:
        """In a greenlet of the process.  Raises OSError."""
        self._connections += 1
        path = self.path(process.name, address)
        made = Connection(self, path, process, address, self._connections)
        path.connections[made] = None
        self.timeline.after(self.latency() + path.slow_up_s, self._syn, made, 0)
        try:
            made.socket.wait_connected(timeout_s)
        except BaseException:
            made.socket.close()
            raise
        return made.socket

    def _syn(self, made: Connection, tries: int) -> None:
        path = made.path
        if not made.client_open:
            path.connections.pop(made, None)
            return
        if path.cut or path.silent:
            if tries < len(SYN_AGAIN_S):
                self.timeline.after(SYN_AGAIN_S[tries], self._syn, made, tries + 1)
            return
        opens = self._listening.get(made.address)
        answer: OSError | None = None
        try:
            if opens is None or path.refusing:
                raise ConnectionRefusedError
            made.peer = opens(made)
            made.broker_open = True
        except ConnectionRefusedError:
            answer = ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self.timeline.after(self.latency() + path.slow_down_s, self._syn_ack, made, answer)

    def _syn_ack(self, made: Connection, answer: OSError | None) -> None:
        if made.client_open:
            made.process.arrive(made.socket.connected, answer)


class SimSocket:
    """The client's end of a connection, in its process."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._timeout_s: float | None = None
        self._least = 1
        self._is_connected = False
        self._is_closed = False
        self._shut = False
        self.aborts = False  # SO_LINGER
        self._ended = False
        self._error: OSError | None = None
        self._came: deque[memoryview] = deque()
        self._bytes = 0
        self._reader: Any = None
        self._writer: Any = None

    # what the network brings; in the hub of the process -----------------------------------------------------------

    def connected(self, refused: OSError | None) -> None:
        if refused is not None:
            self.broken(refused)
        else:
            self._is_connected = True
            self._wake()

    def received(self, data: bytes | None) -> None:
        if data is None:
            self._ended = True
        else:
            self._came.append(memoryview(data))
            self._bytes += len(data)
        if self._reader is not None and (self._bytes >= self._least or self._ended):
            self._reader.switch(None)

    def taken(self) -> None:
        if self._writer is not None:
            self._writer.switch(None)

    def broken(self, error: OSError) -> None:
        if self._error is None and not self._is_closed:
            self._error = error  # behind what has come
            self._wake()

    def _wake(self) -> None:
        for waiter in (self._reader, self._writer):
            if waiter is not None:
                waiter.switch(None)

    # what a socket does -------------------------------------------------------------------------------------------

    def wait_connected(self, timeout_s: float | None) -> None:
        until = None if timeout_s is None else self.connection.network.timeline.now + timeout_s
        while not self._is_connected:
            self._check()
            left = None if until is None else until - self.connection.network.timeline.now
            if left is not None and left <= 0:
                raise TimeoutError("timed out")
            self._wait("_writer", left)

    def settimeout(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s

    def setsockopt(self, level: int, name: int, value: int | bytes) -> None:
        if (level, name) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT):
            self._least = int(value)
        elif (level, name) == (socket.SOL_SOCKET, socket.SO_LINGER):
            self.aborts = value == struct.pack("ii", 1, 0)

    def fileno(self) -> int:
        return -1 if self._is_closed else 1_000_000 + self.connection.number

    def sendmsg(self, buffers: Sequence[bytes | memoryview]) -> int:
        connection = self.connection
        pipe = connection.up
        while True:
            self._check()
            room = SEND_BUFFER_BYTES - pipe.under_way
            if room > 0:
                data = b"".join(buffers)
                if len(data) > room:
                    data = data[:room]
                pipe.send(data)
                return len(data)
            if self._timed_out("_writer"):
                raise TimeoutError("timed out")

    def sendall(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            at += self.sendmsg([data[at:]])

    def recv(self, size: int) -> bytes:
        place = bytearray(size)
        return bytes(place[: self.recv_into(memoryview(place))])

    def recv_into(self, place: memoryview) -> int:
        least = 1  # what is there is taken at once; who waits, waits for more
        while self._bytes < least:
            if not self._bytes:
                self._check()
            if self._ended or self._shut or self._error is not None:
                break
            least = min(self._least, len(place))
            if self._bytes >= least:
                break
            if self._timed_out("_reader"):
                raise TimeoutError("timed out")
        count, room = 0, len(place)
        came = self._came
        while came and count < room:
            view = came[0]
            some = min(len(view), room - count)
            place[count : count + some] = view[:some]
            count += some
            if some == len(view):
                came.popleft()
            else:
                came[0] = view[some:]
        self._bytes -= count
        return count

    def ready(self, events: int) -> bool:
        """As groundwork.sockets.ready."""
        if self._is_closed:
            return False
        if self._error is not None:
            return True
        if self._ended and events & (_ENDED | select.POLLIN):
            return True
        if events & select.POLLIN and self._bytes >= self._least:
            return True
        return bool(events & select.POLLOUT) and self.connection.up.under_way < SEND_BUFFER_BYTES

    def shutdown(self, how: int) -> None:
        self._shut = True

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._came.clear()
            self.connection.client_closed(aborts=self.aborts)
            loop = gevent.get_hub().loop
            for waiter in (self._reader, self._writer):
                if waiter is not None:
                    loop.run_callback(waiter.switch, None)

    def _check(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, "File descriptor was closed in another greenlet")
        if self._error is not None:
            raise type(self._error)(*self._error.args)

    def _timed_out(self, which: str) -> bool:
        return self._wait(which, self._timeout_s) is _TIMED_OUT

    def _wait(self, which: str, timeout_s: float | None) -> Any:
        hub: Any = gevent.get_hub()
        waiter: Any = Waiter(hub)
        setattr(self, which, waiter)
        if timeout_s is None:
            try:
                return waiter.get()
            finally:
                setattr(self, which, None)
        timer = hub.loop.timer(timeout_s)
        timer.start(waiter.switch, _TIMED_OUT)
        try:
            return waiter.get()
        finally:
            timer.stop()
            setattr(self, which, None)
