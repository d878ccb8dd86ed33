"""Look-ups of host names, for whatever runs in an event loop.

The C library blocks while it looks a name up, for half a minute and more where the name servers are silent.  So a name
is looked up in a thread beside the event loop, and:

    one look-up of a name at a time   who asks meanwhile waits for the same one
    a deadline                        ends the wait, not the look-up, whose answer serves the next caller
    the last addresses of a name      are used while the name servers fail, or do not answer within SOON_S
    a number                          is not looked up
    threads for each purpose          so that names of brokers that hang keep no session with ZooKeeper away
"""

from __future__ import annotations

import _socket
import logging
import socket
from collections.abc import Sequence
from time import monotonic
from typing import Any

from groundwork.connecting import NO_ADDRESS, of_dns
from groundwork.plainthreads import PlainCall, PlainThreads

log = logging.getLogger(__name__)

THREADS = 32  # for each purpose: the names of a whole cluster may hang
LOOKUP_S = 15.0  # the deadline for a caller that has none
SOON_S = 1.0

Row = tuple[int, int, int, str, Any]  # of getaddrinfo: family, kind, protocol, "", socket address


class Lookups:
    """Look-ups for one purpose."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = PlainThreads(threads)
        self._last: dict[str, list[Row]] = {}
        self._unanswered: set[str] = set()  # names whose last addresses are in use

    def addresses(self, host: str, port: int, within_s: float | None = None) -> list[Row]:
        """Return the addresses of a host, for TCP, as rows of getaddrinfo.  Raises OSError, within that time."""
        (found,) = self.all_addresses([(host, port)], LOOKUP_S if within_s is None else within_s)
        if isinstance(found, OSError):
            raise found
        return found

    def all_addresses(self, hosts: Sequence[tuple[str, int]], within_s: float) -> list[list[Row] | OSError]:
        """Return the addresses of each of these hosts and ports, or its error.  All names are looked up at once."""
        until = monotonic() + within_s
        begun = [_numeric(host) or self._begin(host) for host, _ in hosts]
        found: list[list[Row] | OSError] = []
        for (host, port), rows in zip(hosts, begun, strict=True):
            try:
                at = rows if isinstance(rows, list) else self._answer(host, rows, max(0.0, until - monotonic()))
                found.append([(*row[:4], (row[4][0], port, *row[4][2:])) for row in at])
            except OSError as error:
                found.append(error)
        return found

    def _begin(self, host: str) -> PlainCall[list[Row]]:
        return self._threads.begin(lambda: self._look_up(host), host)

    def _look_up(self, host: str) -> list[Row]:
        """Look a name up, in a thread."""
        rows = self._last[host] = _getaddrinfo(host)
        return rows

    def _answer(self, host: str, call: PlainCall[list[Row]], within_s: float) -> list[Row]:
        last = self._last.get(host)
        try:
            rows = _result(host, call, within_s if last is None else min(within_s, SOON_S))
        except OSError as error:
            if isinstance(error, socket.gaierror) and error.errno in NO_ADDRESS:
                self._last.pop(host, None)
                raise
            if last is None:
                raise
            if host not in self._unanswered:
                self._unanswered.add(host)
                log.warning("the look-up of %s failed; using its last addresses: %s", host, error)
            return last
        if host in self._unanswered:
            self._unanswered.discard(host)
            log.info("the look-up of %s works again", host)
        return rows


def _result(host: str, call: PlainCall[list[Row]], within_s: float) -> list[Row]:
    if not call.wait(within_s):
        raise socket.gaierror(socket.EAI_AGAIN, f"no name server answered for {host} within {round(within_s, 1):g} s")
    try:
        return call.result()
    except OSError as error:
        raise type(error)(*error.args) from error  # an exception for each caller


def _numeric(host: str) -> list[Row] | None:
    """Return the row of a host that is a number; None for a name.  No name server is asked."""
    try:
        return _getaddrinfo(host, socket.AI_NUMERICHOST)
    except OSError:
        return None


def _getaddrinfo(host: str, flags: int = 0) -> list[Row]:
    try:
        return list(_socket.getaddrinfo(host, None, 0, socket.SOCK_STREAM, 0, flags))
    except socket.gaierror as error:
        if flags:
            raise
        raise of_dns(host, error) from None
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, f"{host!r} is not a host name") from None


BROKERS = Lookups()  # and every other peer but ZooKeeper
ZOOKEEPER = Lookups()
addresses = BROKERS.addresses
