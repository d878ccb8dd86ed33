"""A TCP proxy between any two parts, with faults that can be switched while connections are open.

    with Proxy(("127.0.0.1", 9092)) as proxy:
        connect(proxy.address)
        proxy.delay(40); proxy.clear(); proxy.reset()

Faults of a direction ("to_target", "to_client", or "both") are kept until another one of the same kind, or clear():
delay, throttle, blackhole, slice, cut.  reset and half_close happen once, to the open connections; refuse closes the
listener until clear().  One thread of its own per proxy; plain sockets.
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal

from localkafka import ports
from localkafka.flow import Fault, Flow

Direction = Literal["to_target", "to_client", "both"]
Address = tuple[str, int]
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
TO_TARGET, TO_CLIENT = 0, 1
WHICH = {"to_target": (TO_TARGET,), "to_client": (TO_CLIENT,), "both": (TO_TARGET, TO_CLIENT)}
ABORT = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close sends a reset


@dataclass(frozen=True, slots=True)
class Counters:
    """connections: accepted so far; open: now; bytes: passed on so far, each way."""

    connections: int
    open: int
    bytes_to_target: int
    bytes_to_client: int


class _Pair:
    """A client's connection and ours to the target; connecting until the target has answered."""

    def __init__(self, client: socket.socket, target: socket.socket, faults: list[Fault]) -> None:
        self.client = client
        self.target = target
        self.connecting = True
        self.flows = (Flow(client, target, faults[TO_TARGET]), Flow(target, client, faults[TO_CLIENT]))

    def close(self, abort: bool) -> None:
        for end in (self.client, self.target):
            if abort:
                with contextlib.suppress(OSError):  # the other side was quicker
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
            end.close()


class Proxy:
    """A listener on 127.0.0.1 whose connections go on to target.

    target   where new connections go; may be changed          port   to listen on, 0 for any
    .address is where clients connect to; .counters say what went through.  close(), or `with`, ends it.
    """

    def __init__(self, target: Address, port: int = 0) -> None:
        self.target = target
        self._port = ports.reserve(port)
        self._faults = [Fault(), Fault()]
        self._pairs: list[_Pair] = []
        self._accepted = 0
        self._passed_before = [0, 0]  # by connections that are closed
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
        """The address as text, for connect strings."""
        return f"{ports.HOST}:{self._port.number}"

    @property
    def counters(self) -> Counters:
        with self._lock:
            passed = [self._passed_before[d] + sum(pair.flows[d].passed for pair in self._pairs) for d in (0, 1)]
            return Counters(self._accepted, len(self._pairs), *passed)

    # -- faults ------------------------------------------------------------------------------------------------------

    def delay(self, ms: float, direction: Direction = "both") -> None:
        """Every byte arrives ms later; the rate stays (up to a megabyte on its way)."""
        self._suffer(direction, delay_s=ms / 1000)

    def throttle(self, bytes_per_s: float, direction: Direction = "both") -> None:
        """Each connection passes at most this much a second."""
        self._suffer(direction, bytes_per_s=bytes_per_s)

    def blackhole(self, direction: Direction = "both") -> None:
        """Nothing passes and nobody is told, closing included; connects succeed.  After clear() all of it passes."""
        self._suffer(direction, blackhole=True)

    def slice(self, bytes_per_write: int, gap_ms: float = 1, direction: Direction = "both") -> None:
        """No write is larger, with a pause after each, so that the receiver sees the pieces."""
        self._suffer(direction, slice_bytes=bytes_per_write, gap_s=gap_ms / 1000)

    def cut(self, after_bytes: int, direction: Direction = "to_client") -> None:
        """Close each connection, the coming ones too, when this many more bytes have passed."""
        self._suffer(direction, cut_after=after_bytes)

    def refuse(self) -> None:
        """Refuse new connections; the open ones stay."""
        with self._changed():
            if self._listener is not None:
                self._listener.shutdown(socket.SHUT_RDWR)  # a closed one listens on while the loop polls it
                self._listener.close()
                self._listener = None

    def reset(self) -> int:
        """Reset every open connection at both ends; how many they were."""
        with self._changed():
            pairs = list(self._pairs)
            for pair in pairs:
                self._drop(pair, abort=True)
            return len(pairs)

    def half_close(self, direction: Direction = "to_client") -> None:
        """End one half of every open connection: the receiver reads an end of file, and may go on sending."""
        with self._changed():
            for pair in self._pairs:
                for way in WHICH[direction]:
                    pair.flows[way].end()

    def clear(self) -> None:
        """No faults any more, and listening."""
        with self._changed():
            self._faults = [Fault(), Fault()]
            self._apply(WHICH["both"], recount=True)
            if self._listener is None:
                self._listener = self._listen()

    def close(self) -> None:
        """Close everything and give the port back; a second call changes nothing."""
        if self._closed:
            return
        with self._changed():
            self._closed = True
        self._thread.join(10)
        self._wake.close()  # not by the loop: it may end between our lock and our wake
        self._woken.close()
        self._port.release()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- the loop ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _changed(self) -> Iterator[None]:
        """Change something the loop looks at; it looks again at once."""
        with self._lock:
            yield
        with contextlib.suppress(BlockingIOError):  # full of wakes already
            self._wake.send(b"w")

    def _suffer(self, direction: Direction, **change: Any) -> None:
        with self._changed():
            for way in WHICH[direction]:
                self._faults[way] = replace(self._faults[way], **change)
            self._apply(WHICH[direction], recount="cut_after" in change)

    def _apply(self, ways: tuple[int, ...], recount: bool) -> None:
        for pair in self._pairs:
            for way in ways:
                pair.flows[way].set(self._faults[way], recount)

    def _listen(self) -> socket.socket:
        listener = socket.create_server(self.address, backlog=128)
        listener.setblocking(False)
        return listener

    def _run(self) -> None:
        """The thread: wait for what the state allows, without the lock; then move bytes, with it."""
        while True:
            with selectors.PollSelector() as selector:
                with self._lock:
                    if self._closed:
                        break
                    interests, timeout_s = self._interests()
                    for end, events in interests.items():  # with the lock: who resets closes them
                        selector.register(end, events)
                ready = {key.fileobj: events for key, events in selector.select(timeout_s)}
            with self._lock:
                self._step(ready)
        for pair in list(self._pairs):
            self._drop(pair, abort=False)
        if self._listener is not None:
            self._listener.close()

    def _interests(self) -> tuple[dict[socket.socket, int], float | None]:
        """What each socket is waited for, and after how long the next held byte is due."""
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
        for pair in list(self._pairs):
            try:
                if pair.connecting:
                    self._connected(pair, ready)
                else:
                    self._move(pair, ready)
            except OSError:
                self._drop(pair, abort=True)  # what broke one side breaks the other in the same way

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return  # the client has given up already
        target = socket.socket()
        for end in (client, target):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._accepted += 1
        pair = _Pair(client, target, self._faults)
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
