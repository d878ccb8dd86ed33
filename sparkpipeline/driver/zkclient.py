"""The cluster's ZooKeeper, on the driver only: a client, a lock, and the brokers and topics that are registered.

    with zookeeper("zk1:2181,zk2:2181/kafka") as zk:
        bootstrap_of(zk)
    Registry(options, dialect("0.7")).read()     brokers, and every topic with its partitions

Uses kazoo with its threads; executors get addresses and never use this.  All errors between `with` and its end are
errors of sparkpipeline.errors: no call waits much longer than timeout_s for an unavailable ZooKeeper.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.retry import KazooRetry

from groundwork.logs import KazooLog
from groundwork.openfiles import TooManyOpenFiles
from groundwork.tlscontext import TlsUnusable, plain_tls
from groundwork.zksecurity import OPEN, Tls, ZkSecurity
from groundwork.zkstart import last_trouble, started
from kafkawire.cluster.leaders import NoLeader
from kafkawire.cluster.metadata import Unreachable as NobodyResponds
from kafkawire.cluster.view import ClusterView
from kafkawire.cluster.zookeeper import read_brokers, read_topics, read_view
from kafkawire.dialects import UNASKED, Dialect, dialect
from kafkawire.errors import RemoteError
from kafkawire.model import Broker, TopicPartition
from kafkawire.znodes import v08 as znodes
from sparkpipeline.cluster.brokers import is_unknown
from sparkpipeline.errors import OptionRefused, Refused, Unreachable

log = logging.getLogger(__name__)

CONNECT = "zookeeper.connect"
RECONNECT_MAX_S = 1.0


class ZooKeeperFields(Protocol):
    """Options that describe a ZooKeeper: its address, credentials and timeout."""

    @property
    def security(self) -> ZkSecurity: ...
    @property
    def zookeeper_connect(self) -> str | None: ...
    @property
    def zookeeper_timeout_ms(self) -> int: ...


@contextmanager
def zookeeper_of(options: ZooKeeperFields) -> Iterator[KazooClient]:
    """Yield the client that options describe; zookeeper.connect must be set.  Raises the exceptions of zookeeper()."""
    connect, timeout_s = options.zookeeper_connect or "", options.zookeeper_timeout_ms / 1000
    with zookeeper(connect, options.security, timeout_s) as zk:
        yield zk


@contextmanager
def zookeeper(connect: str, access: ZkSecurity = OPEN, timeout_s: float = 10) -> Iterator[KazooClient]:
    """Yield a started client inside the chroot of connect, `host:port,host:port/chroot`.

    access     credentials and TLS
    timeout_s  of the session, and for connecting, at first and again

    Raises OptionRefused for an invalid connect string, Unreachable, Refused if ACLs forbid it; exceptions of kazoo in
    the body are converted the same way.
    """
    client = _client(connect, access, timeout_s)
    try:
        _start(client, connect, timeout_s)
        yield client
    except NoAuthError as exc:
        who = "give zookeeper.auth" if access.auth is None else "another identity than zookeeper.auth's created it"
        raise Refused(f"ZooKeeper at {connect} does not allow that: {who}", zookeeper=connect) from exc
    except (KazooException, KazooTimeoutError) as exc:
        why = f"{type(exc).__name__} {exc}".strip()
        raise Unreachable(f"ZooKeeper at {connect} does not answer any more: {why}", zookeeper=connect) from exc
    finally:
        _close(client)


def bootstrap_of(zk: KazooClient, protocol: str = znodes.PLAINTEXT) -> tuple[tuple[str, int], ...]:
    """Return the addresses of registered brokers, by id.  Raises Unreachable if there is none.

    protocol: the security protocol of the listeners."""
    brokers = read_brokers(zk, dialect(UNASKED).through(protocol).znodes)
    if not brokers:
        raise Unreachable(
            f"no broker with an address for kafka.security.protocol {protocol} is registered in ZooKeeper at"
            f" {_where(zk)} (those of Kafka 0.7 are read with protocol=0.7)"
        )
    return tuple((broker.host, broker.port) for _, broker in sorted(brokers.items()))


@dataclass(frozen=True, slots=True)
class Held:
    """State of a lock: true if it is ours, else it names the holder."""

    ours: bool
    by: str

    def __bool__(self) -> bool:
        return self.ours


@contextmanager
def lock(zk: KazooClient, path: str, who: str, wait_s: float = 0) -> Iterator[Held]:
    """Hold an ephemeral node that names `who`; its parents are created and stay.

    It only avoids wasted work: if our session is lost, others get the lock while we continue. wait_s: how long to wait
    for another holder; a killed holder keeps it until its session expires.
    """
    deadline = time.monotonic() + wait_s
    by = _taken(zk, path, who)
    while by is not None and (left := deadline - time.monotonic()) > 0:
        gone = threading.Event()
        if zk.exists(path, watch=lambda event, gone=gone: gone.set()) is not None:
            gone.wait(left)
        by = _taken(zk, path, who)
    try:
        yield Held(by is None, who if by is None else by)
    finally:
        if by is None:
            _give_back(zk, path)


@dataclass(frozen=True, slots=True)
class Registry:
    """Leaders from ZooKeeper, for brokers that do not describe each other (0.7): a LeaderSource for Brokers.

    options: address and credentials of ZooKeeper; spoken: the brokers' release.  Each read uses a separate session:
    nothing is kept between reads, and after an outage the next read just works.
    """

    reads_all: ClassVar[bool] = True

    options: ZooKeeperFields
    spoken: Dialect

    def read(self, tps: Collection[TopicPartition] | None = None) -> ClusterView:
        """Return the registered brokers and their partitions.

        Raises kafkawire's Unreachable, whose cause is our error; OptionRefused; Refused if nodes are not of this
        release."""
        try:
            return self._view()
        except Unreachable as away:
            raise NobodyResponds(away.sentence) from away

    def leader(self, view: ClusterView, tp: TopicPartition) -> Broker | NoLeader:
        """Return the leader: a broker that is down may return with its partitions; a registered one has no others."""
        return view.leader(tp) or NoLeader("it is not registered", lasting=is_unknown(view, tp))

    def _view(self) -> ClusterView:
        with zookeeper_of(self.options) as zk:
            try:
                return read_view(zk, self.spoken.znodes, read_topics(zk, self.spoken.znodes))
            except RemoteError as odd:
                raise Refused(
                    f"{odd}; are its brokers those of Kafka {self.spoken.release}, as protocol says?",
                    zookeeper=self.options.zookeeper_connect,
                ) from None

    def brokers(self) -> tuple[Broker, ...]:
        """Return the registered brokers, by id.  Raises OptionRefused, and Unreachable if there is none."""
        with zookeeper_of(self.options) as zk:
            found = read_brokers(zk, self.spoken.znodes)
        if not found:
            raise Unreachable("no broker is registered there", zookeeper=self.options.zookeeper_connect)
        return tuple(found[broker] for broker in sorted(found))


# ---- inside ----------------------------------------------------------------------------------------------------------


def _client(connect: str, access: ZkSecurity, timeout_s: float) -> KazooClient:
    try:
        handler = _Handler(access.tls)
        # A client that retries forever makes its callers wait forever: kazoo queues calls until it is connected again.
        retry = KazooRetry(max_tries=-1, delay=0.05, max_delay=RECONNECT_MAX_S, deadline=timeout_s)
        who = {**access.for_kazoo(), "logger": KazooLog()}
        return KazooClient(hosts=connect, timeout=timeout_s, handler=handler, connection_retry=retry, **who)
    except ValueError as exc:
        raise OptionRefused(f"{connect!r} is not host:port,host:port/chroot: {exc}", option=CONNECT) from None
    except TlsUnusable as exc:
        raise OptionRefused(str(exc), option="zookeeper.ssl") from None


def _start(client: KazooClient, connect: str, timeout_s: float) -> None:
    try:
        connected = started(
            client, timeout_s
        )  # client.start() would only warn of a missing chroot, which is an error here
    except TooManyOpenFiles as exc:
        raise Unreachable(f"ZooKeeper at {connect} cannot be reached: {exc}", zookeeper=connect) from exc
    if not connected:
        trouble = last_trouble(client)
        raise Unreachable(
            f"ZooKeeper at {connect} does not answer within {timeout_s:g} s: is it running, and is zookeeper.connect"
            f" right?{f' The last try: {trouble}' if trouble else ''}",
            zookeeper=connect,
        )
    if client.chroot and client.exists("/") is None:
        raise OptionRefused(
            f"ZooKeeper at {connect} answers, but has no {client.chroot}: is the path at the end right?", option=CONNECT
        )


def _close(client: KazooClient) -> None:
    """Close the client; a lock of the session ends with it, at the latest after its timeout."""
    try:
        client.stop()
        client.close()
    except (KazooException, KazooTimeoutError) as exc:
        log.warning("the session to ZooKeeper at %s was not closed: %s", _where(client), exc)


class _Handler(SequentialThreadingHandler):
    """kazoo handler with TLS as in the other commands: kazoo itself neither checks the host name nor accepts one file
    for certificate and key."""

    def __init__(self, tls: Tls | None) -> None:
        super().__init__()
        self._context = tls.context(plain_tls) if tls is not None else None

    def create_connection(self, address: tuple[str, int], hostname: str, timeout: float, **_: object) -> Any:
        plain = super().create_connection(address, timeout=timeout)
        if self._context is None:
            return plain
        try:
            return self._context.wrap_socket(plain, server_hostname=hostname)
        except BaseException:
            plain.close()
            raise


def _where(zk: KazooClient) -> str:
    hosts = ",".join(f"{host}:{port}" for host, port in zk.hosts)
    return f"{hosts}{zk.chroot}"


def _taken(zk: KazooClient, path: str, who: str) -> str | None:
    """Take the lock; return its holder if that is another session."""
    try:
        zk.create(path, who.encode(), ephemeral=True, makepath=True)
    except NodeExistsError:
        try:
            data, _ = zk.get(path)
        except NoNodeError:
            return "a process that just left"
        return (data or b"").decode("utf-8", "replace")
    return None


def _give_back(zk: KazooClient, path: str) -> None:
    """Release the lock if it is this session's: after a lost session it may belong to another."""
    try:
        found = zk.exists(path)
        if found is not None and zk.client_id is not None and found.ephemeralOwner == zk.client_id[0]:
            zk.delete(path, version=found.version)
    except (KazooException, KazooTimeoutError) as exc:
        log.warning("the lock %s is left to the end of the session: %s %s", path, type(exc).__name__, exc)
