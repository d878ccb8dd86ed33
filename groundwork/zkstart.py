"""Start of a kazoo client that reports too few file descriptors as such, and survives them."""

from __future__ import annotations

from typing import Any

from groundwork.openfiles import TooManyOpenFiles, none_left, too_many


def started(client: Any, timeout_s: float) -> bool:
    """Start a KazooClient; whether it is connected within `timeout_s`.

    Raises TooManyOpenFiles.  In every case the caller may call stop() and close() of the client.
    """
    trouble = _watched(client)
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


def _watched(client: Any) -> list[str]:
    """A list of one sentence about the client's last attempt to connect, "" unless descriptors were missing."""
    trouble = [""]
    connect, hosts = client.handler.create_connection, client._connection._expand_client_hosts

    def create_connection(*args: Any, **named: Any) -> Any:
        try:
            opened = connect(*args, **named)
        except OSError as exc:
            trouble[0] = too_many(exc)
            raise
        trouble[0] = ""
        return opened

    def expand_client_hosts() -> Any:
        """kazoo retries a name that does not resolve; any other error would end its connection for good, and the
        client would not learn of it."""
        try:
            return hosts()
        except OSError as exc:
            trouble[0] = too_many(exc)
            return []

    client.handler.create_connection = create_connection
    client._connection._expand_client_hosts = expand_client_hosts
    return trouble
