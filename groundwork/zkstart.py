"""Start of a kazoo client that survives what would end kazoo's connection for good.

too few file descriptors    reported as such
what cannot be understood   a response of another size, number or kind than any, an error that kazoo does not know,
                            credentials that are refused: kazoo ends the loop of its connection, the client is
                            closed for ever, without an event.  Here the connection is lost: one sentence, and
                            another one RETRY_S later
too large                   a response of more than MAX_RESPONSE_BYTES, for which kazoo would make room
"""

from __future__ import annotations

import logging
from typing import Any

from kazoo.protocol.connection import STOP_CONNECTING
from kazoo.protocol.states import KeeperState
from kazoo.retry import ForceRetryError

from groundwork.openfiles import TooManyOpenFiles, none_left, too_many

log = logging.getLogger(__name__)

MAX_RESPONSE_BYTES = 64 << 20  # ZooKeeper's own limit for a node is 1 MiB; lists of children are larger
RETRY_S = 1.0
STEPS = 10  # a stop is seen so often meanwhile


class ResponseUnreadable(Exception):
    """No ZooKeeper sends a response of this size."""


def started(client: Any, timeout_s: float) -> bool:
    """Start a KazooClient; whether it is connected within `timeout_s`.

    Raises TooManyOpenFiles.  In every case the caller may call stop() and close() of the client.
    """
    trouble = _watched(client)
    _surviving(client)
    try:
        begun = client.start_async()
    except OSError as exc:
        client._stopped.set()  # not started: its stop() would write to a socket that does not exist
        client.handler.stop()
        if sentence := too_many(exc):
            raise TooManyOpenFiles(sentence) from exc
        raise
    if begun.wait(timeout=timeout_s):
        return True
    if sentence := trouble[-1] or none_left():
        raise TooManyOpenFiles(sentence)
    return False


def last_trouble(client: Any) -> str:
    """Return why the last attempt of a started client failed; "" if it is not known."""
    return str(getattr(client._connection, "trouble", ""))


def _surviving(client: Any) -> None:
    """The client's connection, made to go on after an exception that kazoo does not handle."""
    connection = client._connection
    connect_loop, read = connection._connect_loop, connection._read

    def surviving_loop(retry: Any) -> Any:
        try:
            if connect_loop(retry) is STOP_CONNECTING and client._stopped.is_set():
                return STOP_CONNECTING
            why = "it refuses our credentials"  # AUTH_FAILED: the session is over
        except ForceRetryError:
            raise
        except Exception as exc:
            why = f"it answered what cannot be understood ({type(exc).__name__}: {exc})"
            if client._state != KeeperState.CONNECTING:
                client._session_callback(KeeperState.CONNECTING)  # calls in flight end with ConnectionLoss
        hosts = ",".join(f"{host}:{port}" for host, port in client.hosts)
        log.error("ZooKeeper at %s: %s; another connection in %g s", hosts, why, RETRY_S)
        for _ in range(STEPS):
            if client._stopped.is_set():
                return STOP_CONNECTING
            connection.retry_sleeper.sleep_func(RETRY_S / STEPS)
        raise ForceRetryError(why)

    def bounded_read(length: int, timeout: float) -> Any:
        if not 0 <= length <= MAX_RESPONSE_BYTES:
            raise ResponseUnreadable(f"a response of {length} bytes, where at most {MAX_RESPONSE_BYTES} are taken")
        return read(length, timeout)

    connection._connect_loop, connection._read = surviving_loop, bounded_read


def _watched(client: Any) -> list[str]:
    """Return a list of one sentence about the client's last attempt to connect, "" unless descriptors were missing."""
    trouble = [""]
    connect, blocking = client.handler.create_connection, client._connection._expand_client_hosts
    addresses = getattr(client.handler, "addresses", None)  # of a hub; kazoo's own look-ups block, as a thread may

    def create_connection(*args: Any, **named: Any) -> Any:
        try:
            opened = connect(*args, **named)
        except OSError as exc:
            trouble[0] = too_many(exc)
            client._connection.trouble = str(exc) or type(exc).__name__
            raise
        trouble[0] = ""
        return opened

    def expand_client_hosts() -> Any:
        """kazoo retries a name that does not resolve; any other error would end its connection for good, and the
        client would not learn of it."""
        try:
            return addresses(client) if addresses is not None else blocking()
        except OSError as exc:
            trouble[0] = too_many(exc)
            client._connection.trouble = exc.strerror or str(exc)  # a session tells it with its last try to connect
            return []

    client.handler.create_connection = create_connection
    client._connection._expand_client_hosts = expand_client_hosts
    return trouble
