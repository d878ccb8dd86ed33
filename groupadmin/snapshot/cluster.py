"""Client of the admin tools, and the cluster as it reads it: brokers, topics, leaders.  Reads only.

    admin = AdminClient(reach.session, reach.links, reach.dialect, tuple(brokers))    reach: commands.common.connected
    cluster = read_cluster(admin)

Metadata is requested for all topics, never for one by name (that would create it).  So it is known whether
__consumer_offsets exists before Kafka is asked for an offset.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

from groundwork.tasks import now, sleep
from groupadmin.snapshot.model import TopicRow
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.leaders import LeaderSource, MetadataLeaders
from kafkawire.cluster.metadata import MetadataSource, Unreachable
from kafkawire.cluster.retry import LEADERS_AGAIN
from kafkawire.cluster.view import ClusterView
from kafkawire.cluster.zookeeper import (
    TOPICS,
    ZookeeperLeaders,
    closed_node,
    no_cluster,
    read_brokers,
    refuse_other_generation,
    what_is_wrong,
)
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError, RemoteError
from kafkawire.model import Broker, PartitionId, TopicPartition
from kafkawire.net.links import Links
from kafkawire.net.security import Security, security_of
from kafkawire.protocol import apis
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from zkconsumer.errors import NoBrokers, OtherCluster
from zkconsumer.group.topicnodes import read_topic_nodes
from zkconsumer.session.nodes import read_nodes
from zkconsumer.session.zkcalls import Closed
from zkconsumer.session.zksession import ZkSession

Tell = Callable[[str], object]


def discard(text: str) -> None:
    """Ignore the sentence."""


@dataclass(frozen=True, slots=True)
class AdminClient:
    """Connections to ZooKeeper and the brokers; all calls come from one thread of the hub.

    session     None: Kafka only
    bootstrap   brokers to use; empty: those registered in ZooKeeper
    tell        called with a sentence about data that could not be read
    closed      groups that a read of many left out, since a node of theirs is closed to us, and why
    clock_ms    ms since the epoch
    """

    session: ZkSession | None
    links: Links
    dialect: Dialect
    _: KW_ONLY
    bootstrap: Sequence[tuple[str, int]] = ()
    tell: Tell = discard
    closed: dict[str, str] = field(default_factory=dict)
    clock_ms: Callable[[], int] = lambda: int(time.time() * 1000)
    now: Callable[[], float] = now
    sleep: Callable[[float], object] = sleep

    @property
    def security(self) -> Security:
        """Return the TLS and login of the connections to brokers."""
        return security_of(self.links.connect)

    @property
    def keeps_kafka(self) -> bool:
        """True if brokers of this release keep offsets in Kafka."""
        return self._speaks(apis.OFFSET_FETCH.key)

    @property
    def coordinates(self) -> bool:
        """True if brokers of this release have groups of 0.9's consumer protocol."""
        return self._speaks(apis.DESCRIBE_GROUPS.key)

    def _speaks(self, api_key: int) -> bool:
        try:
            self.dialect.speaks(api_key)
        except LocalError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster at one moment.  topics: existing ones; view: leaders by the brokers (without topics: no broker
    answered)."""

    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, TopicRow] = field(default_factory=dict)
    view: ClusterView = field(default_factory=ClusterView)

    @property
    def keeps_offsets(self) -> bool:
        """True if __consumer_offsets exists."""
        return OFFSETS_TOPIC in self.topics

    @property
    def partitions(self) -> dict[str, tuple[PartitionId, ...]]:
        """Return the partitions by topic, in order."""
        return {topic: row.partitions for topic, row in self.topics.items()}

    def has(self, tp: TopicPartition) -> bool:
        """True if the partition exists."""
        return tp.topic in self.topics and tp.partition in self.topics[tp.topic].partitions


def read_cluster(admin: AdminClient) -> Cluster:
    """Read the cluster from ZooKeeper and its brokers.

    Raises ZooKeeperAway; OtherGeneration when the registered brokers are of another generation than the dialect;
    Unreachable when brokers were named and none of them answers; NoBrokers when none ever registered in this ZooKeeper;
    OtherCluster when the named brokers are not those in ZooKeeper.  When no broker is registered, or no registered one
    answers, that is reported and the view is empty.
    """
    session = admin.session
    brokers = session.ask("read brokers", read_brokers, admin.dialect.znodes) if session is not None else {}
    if session is not None and not brokers:
        session.ask("read brokers", refuse_other_generation, admin.dialect.znodes)
    topics = _topics(admin, session) if session is not None else {}
    if session is not None and admin.bootstrap and not brokers:
        _must_have_brokers(session)
    view = _view(admin, brokers)
    if session is not None and admin.bootstrap:
        _must_be_one(session.connect, brokers, view.brokers)
    for topic in {*view.topics, *view.errors}:
        row = topics.get(topic, TopicRow(()))
        if not row.partitions:
            topics[topic] = replace(row, partitions=tuple(view.partitions(topic)))
    return Cluster({**brokers, **view.brokers}, topics, view)


def _must_have_brokers(session: ZkSession) -> None:
    """Refuse a ZooKeeper without brokers: offsets would be written below a path that no member reads."""
    wrong = session.ask("look for brokers", no_cluster, session.connect, "-z")
    if wrong is not None:
        raise NoBrokers(wrong)


def _must_be_one(zookeeper: str, registered: Mapping[int, Broker], answered: Mapping[int, Broker]) -> None:
    """Refuse brokers of another cluster than ZooKeeper's: with equal names one store of each would be written."""
    known = {(broker.host.lower(), broker.port) for broker in registered.values()}
    there = {(broker.host.lower(), broker.port) for broker in answered.values()}
    if known and there and not known & there:
        raise OtherCluster(
            f"-b and -z are not of one cluster: ZooKeeper {zookeeper} has brokers {_some(known)}, and those that were "
            f"asked report that they are {_some(there)}; leave out -b, or see whether the chroot of -z is right"
        )


def _some(addresses: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{host}:{port}" for host, port in sorted(addresses)[:3])


def brokers_of(admin: AdminClient, cluster: Cluster) -> list[Broker]:
    """Return the brokers to send requests to, those with an id first."""
    named = [Broker(-1 - n, host, port) for n, (host, port) in enumerate(admin.bootstrap)]
    return [*cluster.brokers.values(), *named]


def _topics(admin: AdminClient, session: ZkSession) -> dict[str, TopicRow]:
    names = sorted(session.children(TOPICS) or ())
    closed: Closed = {}
    nodes = read_nodes(session, [f"{TOPICS}/{name}" for name in names], closed)
    for path in closed:  # the brokers' metadata has it
        admin.tell(closed_node(path))
    znodes = admin.dialect.znodes
    if znodes.PARTITIONS_BY_BROKER:
        counted = read_topic_nodes(session, admin.dialect, names)
        return {
            name: TopicRow(tuple(ids)) for name, ids in counted.items() if nodes.get(f"{TOPICS}/{name}") is not None
        }
    # An ACL does not hide that a topic exists, and when it was created.
    stats = session.stat(closed)
    found = {
        name: TopicRow((), stat.czxid, stat.ctime_ms)
        for name in names
        if (stat := stats.get(f"{TOPICS}/{name}")) is not None
    }
    for name in names:
        node = nodes.get(f"{TOPICS}/{name}")
        if node is None:
            continue  # deleted after the listing, or closed to us
        try:
            ids = admin.dialect.in_order(znodes.topic(node.data, f"topic {name}"))
        except RemoteError as senseless:
            admin.tell(f"{what_is_wrong(senseless)}: left out")
            ids = []  # it exists all the same
        found[name] = TopicRow(tuple(ids), node.czxid, node.ctime_ms)
    return found


def client_of(admin: AdminClient, cluster: Cluster) -> KafkaClient:
    """Return a client for the brokers of a cluster; its view is used until a leader in it proves wrong."""
    addresses = [(broker.host, broker.port) for broker in cluster.brokers.values()]
    return KafkaClient(_source(admin, addresses), admin.links, admin.dialect, retry=LEADERS_AGAIN, view=cluster.view)


def _source(admin: AdminClient, addresses: Sequence[tuple[str, int]]) -> LeaderSource:
    """Return the metadata from the brokers if they serve it, else from ZooKeeper."""
    if admin.session is not None and not admin.dialect.describes_itself:
        return ZookeeperLeaders(admin.session.ask, admin.dialect.znodes)
    return MetadataLeaders(MetadataSource(addresses, admin.dialect, admin.links))


def _view(admin: AdminClient, brokers: Mapping[int, Broker]) -> ClusterView:
    addresses = list(admin.bootstrap) or [(broker.host, broker.port) for broker in brokers.values()]
    if not addresses:
        assert admin.session is not None, "without ZooKeeper brokers are named"
        where = f"no brokers are registered under {admin.session.connect}: is the chroot missing, or wrong?"
        admin.tell(f"{where}  Log end offsets and offsets in Kafka cannot be read")
        return ClusterView()
    try:
        return _source(admin, addresses).read(None)
    except Unreachable as why:
        if admin.bootstrap:
            raise
        admin.tell(str(why))
        return ClusterView()
