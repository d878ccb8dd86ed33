"""Starting a kazoo client so that too few file descriptors neither break it nor look like a ZooKeeper that is away."""

from __future__ import annotations

from typing import Any

from groundwork.openfiles import TooManyOpenFiles, none_left, too_many


def started(client: Any, timeout_s: float) -> bool:
    """Whether a KazooClient that was not started yet is connected in time.

    Raises TooManyOpenFiles.  In each case stop() and close() of the client may be called.
    """
    trouble = _watched(client)
    try:
        begun = client.start_async()
    except OSError as exc:
        client._stopped.set()  # it did not begin: its stop() would write to the socket that could not be made
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
    """The sentence of its last try to connect, "" where that had another reason: a list of one."""
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
        """kazoo expects that a name does not resolve, and tries again; any other error would end its connection for
        good, without a word to the client."""
        try:
            return hosts()
        except OSError as exc:
            trouble[0] = too_many(exc)
            return []

    client.handler.create_connection = create_connection
    client._connection._expand_client_hosts = expand_client_hosts
    return trouble
