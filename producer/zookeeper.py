"""Metadata from ZooKeeper (zookeeper.connect), kept current by watches, as in 0.7's producer.

    a broker registers or leaves      watch on /brokers/ids: the pool of connections follows
    a topic, or partitions, appear    watch on /brokers/topics and on each topic in use
    a leader changes                  the next response reports it, and the partition states are read again

For a topic that is not in ZooKeeper, metadata is requested from a broker by name, which creates the topic if brokers do
that.  If partitions belong to brokers (0.7), such a topic has partition 0 of each live broker, which creates it with
the first message.  Those partitions are kept together with those that brokers register later, as in the original's
producer. Everything here runs in one event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError
from kazoo.hosts import collect_hosts

from groundwork.kazoohandler import kazoo_handler
from groundwork.logs import KazooLog
from groundwork.openfiles import TooManyOpenFiles
from groundwork.tasks import deadline, tls_context
from groundwork.tlscontext import TlsUnusable
from groundwork.zksecurity import ZkSecurity
from groundwork.zkstart import last_trouble, started
from kafkawire.cluster.metadata import UNKNOWN_TOPIC, MetadataSource, Unreachable
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.cluster.zookeeper import BROKERS, TOPICS, missing_chroot, no_cluster, read_topics, read_view
from kafkawire.errors import LocalError, WireError
from kafkawire.model import BrokerPartition
from kafkawire.net.links import Links

if TYPE_CHECKING:
    from kafkawire.dialects import Dialect

log = logging.getLogger(__name__)
CLOSE_S = 3.0
OPTION = "zookeeper.connect"


class ZookeeperAway(WireError):
    """ZooKeeper does not answer now; the last metadata stays in use."""


class ZookeeperSource:
    """Metadata source (producer.targetleaders.Metadata) that reads ZooKeeper; changed() is called when a watch fires.

    access: ZooKeeper credentials and TLS.  Raises LocalError if its files, or the connect string, cannot be used.
    brokers: ids of the live brokers, as last read.
    """

    def __init__(
        self, connect: str, *, session_ms: int, connect_ms: int, access: ZkSecurity, dialect: Dialect, links: Links
    ) -> None:
        self.dialect = dialect
        self.brokers: frozenset[int] = frozenset()
        self.changed: Callable[[], object] = lambda: None
        self._connect, self._session_ms, self._connect_ms = connect, session_ms, connect_ms
        self._access = access
        try:
            collect_hosts(connect)
        except ValueError as exc:
            raise LocalError(f"zookeeper.connect '{connect}' is not host:port,host:port/chroot: {exc}") from None
        try:
            self._tls = access.tls.context(tls_context) if access.tls is not None else None
        except TlsUnusable as exc:
            raise LocalError(str(exc)) from None
        self._links = links
        self._zk: Any = None
        self._watched: set[str] = set()
        self._listed: set[str] = set()  # paths whose children are watched
        self._new: dict[str, frozenset[int]] = {}  # topics, with the brokers that had not registered them
        self._closed = False
        self._found = False  # brokers have registered in this ZooKeeper

    def read(self, topics: Sequence[str] | None, create: bool = True) -> ClusterView:
        """Return a view of the named topics (None: all), with errors of single topics. create: named topics that do not
        exist may be created.  Raises ZookeeperAway."""
        zk = self._started()
        try:
            with deadline(self._session_ms / 1000, "reading ZooKeeper"):
                names = read_topics(zk, self.dialect.znodes) if topics is None else list(topics)
                self._watch(zk, names)  # first, since missing nodes may be created later
                self._must_be_a_cluster(zk)
                view = read_view(zk, self.dialect.znodes, names)
        except NoAuthError as exc:
            raise ZookeeperAway(
                f"ZooKeeper at {self._connect} refuses: brokers' nodes cannot be read because of their ACL "
                "(zookeeper.auth)"
            ) from exc
        except (KazooException, TimeoutError) as exc:
            raise ZookeeperAway(f"ZooKeeper at {self._connect}: {type(exc).__name__}: {exc}") from exc
        self.brokers = frozenset(view.brokers)
        if self.dialect.partitions_by_broker:
            new = list(self._new) if topics is None else names
            view = self._with_new(new if create else [topic for topic in new if topic in self._new], view)
        missing = [name for name in names if not view.topics.get(name)]
        if not create:
            return replace(view, errors={**dict.fromkeys(missing, UNKNOWN_TOPIC), **view.errors})
        return view.merged(self._named(missing, view)) if missing and self.dialect.describes_itself else view

    def _must_be_a_cluster(self, zk: Any) -> None:
        """Raise Unreachable unless brokers have registered: a wrong connect string looks like a cluster without
        topics."""
        if self._found:
            return
        wrong = missing_chroot(zk, self._connect, OPTION) or no_cluster(zk, self._connect, OPTION)
        if wrong is not None:
            raise Unreachable(wrong)
        self._found = True

    def _with_new(self, topics: Sequence[str], view: ClusterView) -> ClusterView:
        """Return the view with partition 0 of each live broker added for topics that brokers have not, or had not,
        registered."""
        if not view.brokers:
            raise Unreachable(f"no broker is registered in ZooKeeper at {self._connect}")
        for topic in topics:
            if not view.topics.get(topic):
                self._new[topic] = self._new.get(topic, frozenset()) | self.brokers
        begun = {
            topic: {BrokerPartition(b, 0): PartitionView(b, (b,), (b,)) for b in sorted(brokers & self.brokers)}
            for topic, brokers in self._new.items()
            if topic in topics
        }
        kept = {topic: {**partitions, **view.topics.get(topic, {})} for topic, partitions in begun.items()}
        return ClusterView(view.brokers, {**view.topics, **kept}, view.errors)

    def _named(self, topics: Sequence[str], view: ClusterView) -> ClusterView:
        """Return the view with metadata from a broker for topics that are not in ZooKeeper: the request may create
        them."""
        if not view.brokers:
            raise Unreachable(f"no broker is registered in ZooKeeper at {self._connect}")
        bootstrap = [(broker.host, broker.port) for broker in view.brokers.values()]
        return MetadataSource(bootstrap, self.dialect, self._links).read(topics)

    def _started(self) -> Any:
        if self._zk is not None:
            return self._zk
        client = self._client()
        try:
            connected = started(client, self._connect_ms / 1000)
        except TooManyOpenFiles as exc:
            _stop(client)
            raise ZookeeperAway(f"ZooKeeper at {self._connect} cannot be reached: {exc}") from exc
        except BaseException:
            _stop(client)  # killed while waiting: otherwise kazoo would stop it at exit, in the wrong thread
            raise
        if not connected:
            trouble = last_trouble(client)
            _stop(client)
            why = f"; last error: {trouble}" if trouble else ""
            raise ZookeeperAway(
                f"ZooKeeper at {self._connect} does not answer within {self._connect_ms} ms (zookeeper.connect){why}"
            )
        if self._closed:
            _stop(client)
            raise ZookeeperAway("the producer is closed")
        self._zk = client
        return client

    def _client(self) -> Any:
        handler = kazoo_handler(self._tls)
        who = {**self._access.for_kazoo(), "logger": KazooLog()}
        return KazooClient(hosts=self._connect, timeout=self._session_ms / 1000, handler=handler, **who)

    def _watch(self, zk: Any, topics: Sequence[str]) -> None:
        """Set a self-renewing watch on each list and topic; its first call reports the state just read."""
        for path in (BROKERS, TOPICS):
            self._watch_children(zk, path)
        for topic in topics:
            if self.dialect.partitions_by_broker:
                self._watch_children(zk, f"{TOPICS}/{topic}")
            else:
                self._watch_node(zk, f"{TOPICS}/{topic}")

    def _watch_children(self, zk: Any, path: str) -> None:
        if path in self._listed:
            return
        if zk.exists(path) is None:
            self._watch_node(zk, path)  # fires when it is created
            if zk.exists(path) is None:
                return
        self._listed.add(path)
        zk.ChildrenWatch(path, self._listener())

    def _watch_node(self, zk: Any, path: str) -> None:
        if path not in self._watched:
            self._watched.add(path)
            zk.DataWatch(path, self._listener())

    def _listener(self) -> Callable[..., bool]:
        calls = 0

        def fired(*_: object) -> bool:
            nonlocal calls
            calls += 1
            if calls > 1:
                self.changed()
            return not self._closed

        return fired

    def close(self) -> None:
        self._closed = True
        client, self._zk = self._zk, None
        if client is not None:
            _stop(client)


def _stop(client: Any) -> None:
    try:
        with deadline(CLOSE_S, "closing a ZooKeeper session"):
            client.stop()
            client.close()
    except TimeoutError:
        log.warning("ZooKeeper did not answer the close of the producer's session, which will expire")
