"""TCP connections to names that have several addresses (RFC 8305).

The first address has a head start of HEAD_START_S, then the next one is tried beside it, and so on: an address that
does not answer costs its head start, and not the time-out.  All of them have one time-out together.  The one that
answers is tried first for the next ten minutes, if it was not the first anyway: names that are balanced by the order of
their addresses stay balanced.  Imports no gevent.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, zip_longest
from typing import Any

from groundwork import clocks
from groundwork.sockets import TimeLeft

HEAD_START_S = 0.25
LONGEST_S = 1e6  # a wait without end
REMEMBERED_S = 600.0  # RFC 8305, 9.1
REMEMBERED_MOST = 1000  # names
Address = tuple[str, int]
Found = tuple[Any, ...]  # a row of getaddrinfo
# By these the name servers answer that a name has no address.  Any other error means that they did not answer.
NO_ADDRESS = {getattr(socket, name, socket.EAI_NONAME) for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY")}
UNDER_WAY = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY, errno.EINTR)


class Connector:
    """Connects to the first of some addresses that answers, and remembers it.

    make       makes a socket of (family, kind, protocol): socket.socket, or that of a hub
    poll       makes what waits for several sockets: select.poll, or that of a hub
    """

    def __init__(self, make: Callable[[int, int, int], Any], poll: Callable[[], Any]) -> None:
        self._make, self._poll = make, poll
        self._worked: dict[Address, tuple[Any, float]] = {}  # which address of a name, and until when it counts

    def first(
        self, name: Address, found: Sequence[Found], timeout_s: float | None, receive_buffer_bytes: int = 0
    ) -> Any:
        """Return a socket that is connected to the first address that answers; timeout_s is also its time-out.

        found: what getaddrinfo gave for the name.  receive_buffer_bytes: size of the socket's buffer; 0: the operating
        system adapts it.  Raises OSError.
        """
        if not found:
            raise OSError(f"{name[0]} has no address")
        ordered = alternating(found)
        worked, until = self._worked.get(name, (None, 0.0))
        if clocks.boot() < until:
            ordered.sort(key=lambda row: row[4] != worked)
        opened, where = _Race(self._make, self._poll, ordered, timeout_s, receive_buffer_bytes).run()
        if where != ordered[0][4]:
            if len(self._worked) >= REMEMBERED_MOST:
                self._worked.clear()
            self._worked[name] = where, clocks.boot() + REMEMBERED_S
        opened.settimeout(timeout_s)
        return opened


class _Race:
    """The attempts of one connection."""

    def __init__(
        self,
        make: Callable[[int, int, int], Any],
        poll: Callable[[], Any],
        found: Iterable[Found],
        timeout_s: float | None,
        receive_buffer_bytes: int,
    ) -> None:
        self._make, self._poll, self._receive_buffer_bytes = make, poll, receive_buffer_bytes
        self._left = TimeLeft(LONGEST_S if timeout_s is None else timeout_s)
        self._waiting = deque(found)
        self._trying: list[tuple[Any, Any]] = []  # sockets and where they connect to
        self._refused = OSError("no address")

    def run(self) -> tuple[Any, Any]:
        """Return the first that is connected, and its address; all others are closed.  Raises OSError."""
        try:
            while True:
                if self._waiting:
                    self._begin(*self._waiting.popleft())
                next_at = clocks.boot() + HEAD_START_S
                while self._trying and not (self._waiting and clocks.boot() >= next_at):
                    connected = self._connected()
                    if connected is not None:
                        return connected
                    if not self._trying:
                        break
                    if not self._left.seconds:
                        raise TimeoutError("timed out")
                    self._wait(next_at - clocks.boot() if self._waiting else math.inf)
                if not (self._trying or self._waiting):
                    raise self._refused
        finally:
            for opened, _ in self._trying:
                opened.close()

    def _begin(self, family: int, kind: int, protocol: int, _: str, where: Any) -> None:
        opened = None
        try:
            opened = self._make(family, kind, protocol)
            self._trying.append((opened, where))
            opened.settimeout(0)
            if self._receive_buffer_bytes:  # before connecting: the first packet carries the window scale
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
            failed = opened.connect_ex(where)
            if failed and failed not in UNDER_WAY:
                raise OSError(failed, os.strerror(failed))
        except OSError as error:
            self._refuse(opened, error)

    def _refuse(self, opened: Any, error: OSError) -> None:
        self._refused = error
        self._trying = [each for each in self._trying if each[0] is not opened]
        if opened is not None:
            opened.close()

    def _connected(self) -> tuple[Any, Any] | None:
        """Return an attempt that is connected, or None; attempts that failed are dropped."""
        for each in list(self._trying):
            opened = each[0]
            failed = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if failed:
                self._refuse(opened, OSError(failed, os.strerror(failed)))
                continue
            try:
                opened.getpeername()
            except OSError:
                continue  # under way
            self._trying.remove(each)
            return each
        return None

    def _wait(self, at_most_s: float) -> None:
        at_most_s = max(0.0, min(at_most_s, self._left.seconds, self._left.slice_s))
        poll = self._poll()
        for opened, _ in self._trying:
            poll.register(opened.fileno(), select.POLLOUT)
        began = clocks.boot()
        poll.poll(math.ceil(at_most_s * 1000))
        self._left.waited(clocks.boot() - began, at_most_s)


def alternating(found: Sequence[Found]) -> list[Found]:
    """Return the addresses reordered: the first one's family and the other family in turn."""
    same = [row for row in found if row[0] == found[0][0]]
    other = [row for row in found if row[0] != found[0][0]]
    return [row for row in chain.from_iterable(zip_longest(same, other)) if row is not None]


# Looked up at each call: a program may be patched after this was imported.
_plain = Connector(lambda *kind: socket.socket(*kind), lambda: select.poll())


def of_dns(host: str, error: socket.gaierror) -> socket.gaierror:
    """Return the error of a look-up with a text that names the host and DNS."""
    what = f"DNS has no address of {host}" if error.errno in NO_ADDRESS else f"DNS did not answer for {host}"
    return socket.gaierror(error.errno, f"{what} ({error.strerror or error})")


def connect(address: Address, timeout: float | None = None) -> socket.socket:
    """Return a TCP connection that blocks its thread while it waits.  Each call resolves the name again.  Raises
    OSError."""
    try:
        found = socket.getaddrinfo(*address, 0, socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise of_dns(address[0], error) from None
    opened: socket.socket = _plain.first(address, found, timeout)
    return opened
