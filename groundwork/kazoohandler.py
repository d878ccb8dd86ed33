"""kazoo's gevent handler with five changes: wake-ups, selects, names, TLS and forks.

Wake-ups.  kazoo writes a byte for each queued call and reads one for each that it sends.  A socket pair takes about 280
such bytes; then a writer waits, and kazoo fails in two ways: gevent refuses a second greenlet that has to wait, and
kazoo's bare except catches the kill of one that waits there.  Either way a call stays queued without its byte, and from
then on every response comes that many calls late.  Heartbeats are late too, so the lease ends in a healthy session.
Here the bytes are counted, and one byte is in the pair while the count is not 0.  No writer ever waits.

Selects.  kazoo selects four times a request; gevent's select costs ten times as much as a poll of a ready socket.

Names.  kazoo would look its hosts up at each reconnect with a call that blocks: a name server that is silent would stop
the hub, and with it the fence, for half a minute a name.

TLS.  kazoo would connect and make the TLS handshake with a blocking socket: a server that does not respond would stop
the hub, and with it the fence.

Forks.  kazoo would continue in a forked child, on the connection of the parent: each takes answers of the other, and
both lose the session.
"""

from __future__ import annotations

import atexit
import random
import select
import socket
import threading
from collections.abc import Callable, Collection
from typing import Any
from weakref import WeakSet

from kazoo.handlers.gevent import SequentialGeventHandler

from groundwork.forks import abandon, not_in_a_fork
from groundwork.lookups import SOON_S, ZOOKEEPER
from groundwork.sockets import real_poll
from groundwork.tasks import connect

SELECTS_AT_ONCE = 16  # kazoo's, before other greenlets run: four requests


class _Count:
    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class WriteEnd:
    def __init__(self, end: Any, count: _Count) -> None:
        self._end = end
        self._count = count

    def send(self, data: bytes) -> int:
        if self._count.bytes == 0:
            self._end.send(b"\0")
        self._count.bytes += len(data)
        return len(data)

    def close(self) -> None:
        self._end.close()


class ReadEnd:
    def __init__(self, end: Any, count: _Count) -> None:
        self._end = end
        self._count = count

    def fileno(self) -> int:
        number: int = self._end.fileno()
        return number

    def recv(self, size: int) -> bytes:
        """Return up to `size` bytes; wait for the first."""
        if self._count.bytes == 0:
            self._end.recv(1, socket.MSG_PEEK)  # returns empty when the other end was closed
        taken = min(size, self._count.bytes)
        if taken == self._count.bytes > 0:
            self._end.recv(1)
        self._count.bytes -= taken
        return b"\0" * taken

    def close(self) -> None:
        self._end.close()


def wakeups(pair: tuple[Any, Any]) -> tuple[ReadEnd, WriteEnd]:
    """Return counting read and write ends for the socket pair that kazoo's handler makes; both are used in one hub."""
    count = _Count()
    reads, writes = pair
    return ReadEnd(reads, count), WriteEnd(writes, count)


def ready_now(reads: Collection[Any], writes: Collection[Any]) -> tuple[list[Any], list[Any]] | None:
    """Return the sockets that can be read, and written, without waiting; None when there are none, or polling fails."""
    poll = real_poll()
    try:
        for end in {*reads, *writes}:
            poll.register(end, select.POLLIN * (end in reads) | select.POLLOUT * (end in writes))
        ready = dict(poll.poll(0))  # a closed connection counts as both: the next read or write finds out
        readable = [end for end in reads if ready.get(end.fileno(), 0) & ~select.POLLOUT]
        writable = [end for end in writes if ready.get(end.fileno(), 0) & ~select.POLLIN]
    except (AttributeError, OSError, TypeError, ValueError):
        return None  # closed: kazoo's own select raises what kazoo expects
    return (readable, writable) if readable or writable else None


def kazoo_handler(tls: Any = None) -> Any:
    """Return the `handler` argument of a KazooClient in this thread's hub.

    tls: a groundwork.tasks.tls_context, for connections that are TLS.
    """

    class Handler(SequentialGeventHandler):  # type: ignore[misc]  # kazoo has no types
        at_once = 0  # consecutive selects in which no other greenlet ran

        def __init__(self) -> None:
            super().__init__()
            self._made: WeakSet[Any] = WeakSet()  # connections
            self._spawned: WeakSet[Any] = WeakSet()
            self._thread_id = threading.get_ident()
            not_in_a_fork(self, tasks=True)

        def _after_fork(self) -> None:
            """End all greenlets of the client, and give its connection up without a goodbye."""
            atexit.unregister(self.stop)
            if threading.get_ident() == self._thread_id:  # else their hub has no thread in this process
                for each in (*self._spawned, *self._workers):
                    each.kill(block=False)
            for opened in list(self._made):
                abandon(opened)

        def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            spawned = super().spawn(func, *args, **kwargs)
            self._spawned.add(spawned)
            return spawned

        def create_socket_pair(self) -> Any:
            return wakeups(super().create_socket_pair())

        def select(self, reads: Any, writes: Any, errors: Any, timeout: float | None = None) -> Any:
            """Poll first, since gevent's select costs ten times as much.  Poll again at a time-out: the response may
            have come while the process was stopped."""
            if self.at_once < SELECTS_AT_ONCE:
                ready = ready_now(reads, writes)
                if ready is not None:
                    self.at_once += 1
                    return (*ready, [])
            self.at_once = 0
            found = super().select(reads, writes, errors, timeout)
            if not any(found) and (ready := ready_now(reads, writes)) is not None:
                return (*ready, [])
            return found

        def addresses(self, client: Any) -> list[tuple[str, str, int]]:
            """Return name, address and port of each server that the client may connect to, in the order to try them.

            A name that is not answered soon is left out; kazoo asks again, and finds the same look-up.  Raises OSError
            when nothing is left.
            """
            hosts = [(host.strip(), port) for host, port in client.hosts]
            found: list[tuple[str, str, int]] = []
            failed: OSError | None = None
            for (host, port), rows in zip(hosts, ZOOKEEPER.all_addresses(hosts, SOON_S), strict=True):
                if isinstance(rows, OSError):
                    failed = rows
                    client.logger.warning("the look-up of %s failed: %s", host, failed)
                else:
                    found += [(host, row[4][0], port) for row in rows]
            if failed is not None and not found:
                raise failed
            if client.randomize_hosts:
                random.shuffle(found)
            return found

        def create_connection(self, address: tuple[str, int], hostname: str, timeout: float, **_: object) -> Any:
            opened = connect(address, timeout)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._made.add(opened)
            return opened

    if tls is None:
        return Handler()

    class TlsHandler(Handler):
        def create_connection(self, address: tuple[str, int], hostname: str, timeout: float, **_: object) -> Any:
            plain = super().create_connection(address, hostname, timeout)
            try:
                wrapped = tls.wrap_socket(plain, server_hostname=hostname)  # the timeout covers the handshake, too
                self._made.add(wrapped)
                return wrapped
            except BaseException:
                plain.close()
                raise

        def select(self, reads: Any, writes: Any, errors: Any, timeout: float | None = None) -> Any:
            held = [end for end in reads if hasattr(end, "pending") and end.pending()]  # already received and decrypted
            return (held, [], []) if held else super().select(reads, writes, errors, timeout)

    return TlsHandler()
