"""Short ZooKeeper session: to probe a cluster before its group is joined, and to create a missing target topic.

No session is kept, so none can be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError

from groundwork.kazoohandler import kazoo_handler
from groundwork.logs import KazooLog
from groundwork.openfiles import TooManyOpenFiles
from groundwork.tasks import deadline, tls_context
from groundwork.tlscontext import TlsUnusable
from groundwork.zksecurity import OPEN, ZkSecurity
from groundwork.zkstart import last_trouble, started
from kafkawire.cluster.zookeeper import missing_chroot
from zkconsumer.errors import ChrootMissing, ConsumerError, Unreachable
from zkconsumer.session.zkcalls import GONE

CONNECT_S = 6.0  # one try to reach a ZooKeeper
SESSION_S = 10.0
GOODBYE_S = 3.0


@contextmanager
def zookeeper_session(option: str, connect: str, timeout_s: float, access: ZkSecurity = OPEN) -> Iterator[Any]:
    """Yield a started kazoo client, which is closed after the block.

    option: the option with the connect string; access: credentials and TLS.

    Raises Unreachable if no server answers in time, ChrootMissing, and ConsumerError for any other refusal.
    """
    hosts = connect.partition("/")[0]
    try:
        handler = kazoo_handler(access.tls.context(tls_context) if access.tls is not None else None)
        who = {**access.for_kazoo(), "logger": KazooLog()}
        client = KazooClient(hosts=connect, timeout=SESSION_S, handler=handler, **who)
    except TlsUnusable as exc:
        raise ConsumerError(str(exc)) from None
    except ValueError as exc:
        raise ConsumerError(f"{option} '{connect}' is not host:port,host:port/chroot: {exc}") from None
    try:
        if not started(client, timeout_s):
            trouble = last_trouble(client)
            raise Unreachable(
                f"ZooKeeper at {hosts} does not answer within {timeout_s:g} s: is it running, and is {option} right?"
                f"{f' The last try: {trouble}' if trouble else ''}"
            )
        missing = missing_chroot(client, connect, option)
        if missing is not None:
            raise ChrootMissing(missing)
        yield client
    except TooManyOpenFiles as exc:
        raise Unreachable(f"ZooKeeper at {hosts} is not reached: {exc}") from exc
    except GONE as exc:  # the caller retries requests that may have been executed
        raise Unreachable(f"ZooKeeper at {hosts}: the connection was lost ({type(exc).__name__})") from exc
    except NoAuthError as exc:
        auth = option.removesuffix("connect") + "auth"
        raise ConsumerError(f"ZooKeeper at {hosts} refused: NoAuthError; a node is closed to us: see {auth}") from exc
    except KazooException as exc:
        raise ConsumerError(f"ZooKeeper at {hosts}: {type(exc).__name__}: {exc}") from exc
    finally:
        _say_goodbye(client)


def _say_goodbye(client: Any) -> None:
    try:
        with deadline(GOODBYE_S, "closing a ZooKeeper session"):
            client.stop()
            client.close()
    except TimeoutError:
        pass  # it held nothing; the server expires it
