"""TCP proxy whose faults can be switched while connections are open.

    with Proxy(("127.0.0.1", 9092)) as proxy:
        connect(proxy.address)
        proxy.delay(40); proxy.clear(); proxy.reset()

The faults delay, throttle, blackhole, slice and cut of a direction ("to_target", "to_client" or "both"), and link, last
until another fault of the same kind, or clear().  reset, half_close and forget apply once, to the open connections;
refuse closes the listener until clear().  Each proxy runs in one thread, with plain sockets.
"""

from __future__ import annotations

import contextlib
import errno
import math
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal

from localkafka import ports

CHUNK = 64 * 1024
HELD = 1024 * 1024  # bytes read and not yet passed on; a full flow stops reading, so the sender blocks
TICK_S = 0.02  # a throttled flow writes at once what this time allows


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Faults of one direction; the default is none."""

    delay_s: float = 0  # every byte arrives this much later
    bytes_per_s: float = math.inf
    together: bool = False  # all connections share that rate, as they share a link
    blackhole: bool = False  # no byte passes, but connections stay open
    slice_bytes: int = CHUNK  # no write is larger
    gap_s: float = 0  # between two writes
    cut_after: int | None = None  # bytes after which the connection is closed


Tap = Callable[[memoryview], None]


class Pace:
    """Pace of a throttled flow, or of several that share a link."""

    def __init__(self) -> None:
        self.next = 0.0

    def passed(self, due: float, now: float, seconds: float) -> None:
        """Record that bytes passed that were due at `due` and occupy the link for `seconds`.

        Their transmission began when they were due and the link was free.  A late wake-up is compensated by at most a
        tick; bytes that the sink did not accept are not.
        """
        self.next = max(now - TICK_S, due, self.next) + seconds


class Flow:
    """Bytes from source to sink.  Not thread-safe: the proxy's loop calls it under its lock.

    passed   bytes written to sink so far          ended   the end of file was passed on
    read_at  when something last came from source, or the connection was opened
    cut_at   limit of passed; at the limit the flow is `cut`
    """

    def __init__(self, source: socket.socket, sink: socket.socket, fault: Fault, link: Pace) -> None:
        """link: the pace of all flows in this direction, for faults that say `together`."""
        self.source = source
        self.sink = sink
        self.passed = 0
        self.read_at = time.monotonic()
        self.ended = False
        self.cut_at: int | None = None
        self._held: deque[tuple[float, memoryview]] = deque()  # (when it is due, bytes); no bytes: the end of file
        self._held_bytes = 0
        self.tap: Tap | None = None
        self._source_ended = False
        self._link, self._own = link, Pace()
        self._pace = self._own
        self._paused_until = 0.0
        self.set(fault, recount=True)

    @property
    def cut(self) -> bool:
        return self.cut_at is not None and self.passed >= self.cut_at

    def set(self, fault: Fault, recount: bool) -> None:
        """Apply this fault; with recount, a cut counts from here."""
        self.fault = fault
        if recount:
            self.cut_at = None if fault.cut_after is None else self.passed + fault.cut_after
        self._pace = self._link if fault.together else self._own
        self._own.next = self._paused_until = 0.0
        if not fault.delay_s:
            self._held = deque((0.0, data) for _, data in self._held)

    @property
    def reads(self) -> bool:
        """True if it wants to read from source now."""
        return not self._source_ended and not self.fault.blackhole and self._held_bytes < HELD

    def writes_at(self) -> float:
        """Return the time from which it wants to write; infinity when there is nothing to write."""
        if not self._held or self.fault.blackhole:
            return math.inf
        return max(self._held[0][0], self._pace.next, self._paused_until)

    def read(self) -> None:
        """Read from source.  Raises OSError when the connection broke."""
        data = self.source.recv(CHUNK)
        self.read_at = time.monotonic()
        self._held.append((self.read_at + self.fault.delay_s, memoryview(data)))
        self._held_bytes += len(data)
        self._source_ended = not data

    def end(self) -> None:
        """Pass on an end of file that source did not send, which closes half of the connection."""
        self._source_ended = True
        self._held.append((0.0, memoryview(b"")))

    def write(self) -> None:
        """Write to sink what is due and allowed.  Raises OSError when the connection broke."""
        now = time.monotonic()
        if self.writes_at() > now:
            return
        due, data = self._held.popleft()
        if not data:
            self.ended = True
            self.sink.shutdown(socket.SHUT_WR)
            return
        written = self.sink.send(data[: self._allowed()])
        self.passed += written
        if self.tap is not None:
            self.tap(data[:written])
        self._held_bytes -= written
        if written < len(data):
            self._held.appendleft((due, data[written:]))
        self._pace.passed(due, now, written / self.fault.bytes_per_s)
        self._paused_until = now + self.fault.gap_s

    def _allowed(self) -> int:
        allowed = self.fault.slice_bytes
        if self.fault.bytes_per_s < math.inf:
            allowed = min(allowed, max(1, int(self.fault.bytes_per_s * TICK_S)))
        if self.cut_at is not None:
            allowed = min(allowed, self.cut_at - self.passed)
        return allowed


Direction = Literal["to_target", "to_client", "both"]
Address = tuple[str, int]
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
TO_TARGET, TO_CLIENT = 0, 1
WHICH = {"to_target": (TO_TARGET,), "to_client": (TO_CLIENT,), "both": (TO_TARGET, TO_CLIENT)}
ABORT = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close sends a reset


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of a proxy: connections accepted so far, connections open now, bytes passed on so far in each
    direction."""

    connections: int
    open: int
    bytes_to_target: int
    bytes_to_client: int


class _Pair:
    """A client's connection and the proxy's to the target; connecting until the target has accepted."""

    def __init__(
        self, client: socket.socket, target: socket.socket, faults: Sequence[Fault], links: Sequence[Pace]
    ) -> None:
        self.client = client
        self.target = target
        self.connecting = True
        self.forgotten = False
        self.flows = (
            Flow(client, target, faults[TO_TARGET], links[TO_TARGET]),
            Flow(target, client, faults[TO_CLIENT], links[TO_CLIENT]),
        )

    def close(self, abort: bool) -> None:
        for end in (self.client, self.target):
            if abort:
                with contextlib.suppress(OSError):  # the other side has closed it
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
            end.close()


class Proxy:
    """A listener on 127.0.0.1 whose connections are forwarded to target.

    target   address for new connections; may be changed       port   port to listen on; 0: any free one
    tap      called for each new connection; what it returns is called in the proxy's thread with the bytes that the
             target was given, in order.  None: nothing is watched
    Clients connect to .address; .counters has connections and bytes.  close(), or the end of `with`, ends it.
    """

    def __init__(self, target: Address, port: int = 0) -> None:
        self.target = target
        self.tap: Callable[[], Tap] | None = None
        self._port = ports.reserve(port)
        self._faults = [Fault(), Fault()]
        self._links = (Pace(), Pace())
        self._pairs: list[_Pair] = []
        self._accepted = 0
        self._passed_before = [0, 0]  # by closed connections
        self._closed = False
        self._lock = threading.Lock()
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        self._listener: socket.socket | None = self._listen()
        self._thread = threading.Thread(target=self._run, name=f"proxy {self.address}", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Proxy {self.connect} to {self.target[0]}:{self.target[1]}, {self._faults}>"

    @property
    def address(self) -> Address:
        return (ports.HOST, self._port.number)

    @property
    def connect(self) -> str:
        """Return the address as text, for connect strings."""
        return f"{ports.HOST}:{self._port.number}"

    @property
    def counters(self) -> Counters:
        with self._lock:
            passed = [self._passed_before[d] + sum(pair.flows[d].passed for pair in self._pairs) for d in (0, 1)]
            return Counters(self._accepted, len(self._pairs), *passed)

    # -- faults ------------------------------------------------------------------------------------------------------

    def delay(self, ms: float, direction: Direction = "both") -> None:
        """Delay every byte by ms without limiting the rate (up to a megabyte in flight)."""
        self._set_fault(direction, delay_s=ms / 1000)

    def throttle(self, bytes_per_s: float, direction: Direction = "both") -> None:
        """Limit each connection to this many bytes per second."""
        self._set_fault(direction, bytes_per_s=bytes_per_s, together=False)

    def link(self, bytes_per_s: float, round_trip_ms: float) -> None:
        """Act as a long link: half the round trip each way, and `bytes_per_s` for all connections together."""
        self._set_fault("both", delay_s=round_trip_ms / 2000, bytes_per_s=bytes_per_s, together=True)

    def blackhole(self, direction: Direction = "both") -> None:
        """Hold back all bytes and ends of file; connects succeed.  After clear() everything passes."""
        self._set_fault(direction, blackhole=True)

    def slice(self, bytes_per_write: int, gap_ms: float = 1, direction: Direction = "both") -> None:
        """Limit each write, with a pause after it, so that the receiver gets pieces."""
        self._set_fault(direction, slice_bytes=bytes_per_write, gap_s=gap_ms / 1000)

    def cut(self, after_bytes: int, direction: Direction = "to_client") -> None:
        """Close each connection, also later ones, after this many more bytes."""
        self._set_fault(direction, cut_after=after_bytes)

    def refuse(self) -> None:
        """Refuse new connections; open ones stay."""
        with self._changed():
            if self._listener is not None:
                self._listener.shutdown(socket.SHUT_RDWR)  # otherwise it would keep listening while the loop polls it
                self._listener.close()
                self._listener = None

    def reset(self, forgotten: bool = False) -> int:
        """Reset every open connection at both ends, or only those affected by forget(), and return their number."""
        with self._changed():
            pairs = [pair for pair in self._pairs if pair.forgotten or not forgotten]
            for pair in pairs:
                self._drop(pair, abort=True)
            return len(pairs)

    def half_close(self, direction: Direction = "to_client") -> None:
        """Close one half of every open connection: the receiver reads an end of file, and may still send."""
        with self._changed():
            for pair in self._pairs:
                for way in WHICH[direction]:
                    pair.flows[way].end()

    def forget(self, idle_s: float = 0) -> int:
        """Permanently hold back all bytes of open connections that were idle for that long, as a NAT does that forgot
        them; other and later connections pass.  Return the number of forgotten ones."""
        with self._changed():
            before = time.monotonic() - idle_s
            idle = [pair for pair in self._pairs if all(flow.read_at <= before for flow in pair.flows)]
            for pair in idle:
                pair.forgotten = True
                for flow in pair.flows:
                    flow.set(Fault(blackhole=True), recount=False)
            return len(idle)

    def clear(self) -> None:
        """Remove all faults, and listen again."""
        with self._changed():
            self._faults = [Fault(), Fault()]
            self._apply(WHICH["both"], recount=True)
            if self._listener is None:
                self._listener = self._listen()

    def close(self) -> None:
        """Close all connections and release the port; a second call changes nothing."""
        if self._closed:
            return
        with self._changed():
            self._closed = True
        self._thread.join(10)
        self._wake.close()  # not in the loop, which may end between the lock and the wake
        self._woken.close()
        self._port.release()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- the loop ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _changed(self) -> Iterator[None]:
        """Change state that the loop reads, under the lock, and wake the loop."""
        with self._lock:
            yield
        with contextlib.suppress(BlockingIOError):  # full of wake-ups already
            self._wake.send(b"w")

    def _set_fault(self, direction: Direction, **change: Any) -> None:
        with self._changed():
            for way in WHICH[direction]:
                self._faults[way] = replace(self._faults[way], **change)
            self._apply(WHICH[direction], recount="cut_after" in change)

    def _apply(self, ways: tuple[int, ...], recount: bool) -> None:
        for pair in self._pairs:
            if pair.forgotten:
                continue
            for way in ways:
                pair.flows[way].set(self._faults[way], recount)

    def _listen(self) -> socket.socket:
        listener = socket.create_server(self.address, backlog=128)
        listener.setblocking(False)
        return listener

    def _run(self) -> None:
        """The thread: wait for sockets without the lock, then move bytes with it."""
        while True:
            with selectors.PollSelector() as selector:
                with self._lock:
                    if self._closed:
                        break
                    interests, timeout_s = self._interests()
                    for end, events in interests.items():  # with the lock: reset() closes them
                        selector.register(end, events)
                ready = {key.fileobj: events for key, events in selector.select(timeout_s)}
            with self._lock:
                self._step(ready)
        for pair in list(self._pairs):
            self._drop(pair, abort=False)
        if self._listener is not None:
            self._listener.close()

    def _interests(self) -> tuple[dict[socket.socket, int], float | None]:
        """Return the events to wait for on each socket, and the time until the next held byte is due."""
        now, next_due = time.monotonic(), math.inf
        wanted = {self._woken: READ}
        if self._listener is not None:
            wanted[self._listener] = READ
        for pair in self._pairs:
            if pair.connecting:
                wanted[pair.target] = WRITE
                continue
            for flow in pair.flows:
                due = flow.writes_at()
                if due <= now:
                    wanted[flow.sink] = wanted.get(flow.sink, 0) | WRITE
                else:
                    next_due = min(next_due, due)
                if flow.reads:
                    wanted[flow.source] = wanted.get(flow.source, 0) | READ
        return wanted, None if next_due == math.inf else next_due - now

    def _step(self, ready: Mapping[Any, int]) -> None:
        if self._woken in ready:
            self._woken.recv(4096)
        if self._listener is not None and self._listener in ready:
            self._accept(self._listener)
        self._pairs = self._pairs[1:] + self._pairs[:1]  # the connections take turns in using a link first
        for pair in list(self._pairs):
            try:
                if pair.connecting:
                    self._connected(pair, ready)
                else:
                    self._move(pair, ready)
            except OSError:
                self._drop(pair, abort=True)  # an error of one side resets the other, too

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return  # the client has closed it already
        target = socket.socket()
        for end in (client, target):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._accepted += 1
        pair = _Pair(client, target, self._faults, self._links)
        if self.tap is not None:
            pair.flows[TO_TARGET].tap = self.tap()
        self._pairs.append(pair)
        if target.connect_ex(self.target) not in (0, errno.EINPROGRESS):
            self._drop(pair, abort=True)

    def _connected(self, pair: _Pair, ready: Mapping[Any, int]) -> None:
        if pair.target in ready:
            failed = pair.target.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if failed:
                raise OSError(failed, "the target cannot be reached")
            pair.connecting = False

    def _move(self, pair: _Pair, ready: Mapping[Any, int]) -> None:
        for flow in pair.flows:
            with contextlib.suppress(BlockingIOError):
                if flow.reads and ready.get(flow.source, 0) & READ:
                    flow.read()
                if ready.get(flow.sink, 0) & WRITE:
                    flow.write()
        if any(flow.cut for flow in pair.flows) or all(flow.ended for flow in pair.flows):
            self._drop(pair, abort=False)

    def _drop(self, pair: _Pair, abort: bool) -> None:
        self._pairs.remove(pair)
        for way, flow in enumerate(pair.flows):
            self._passed_before[way] += flow.passed
        pair.close(abort)
