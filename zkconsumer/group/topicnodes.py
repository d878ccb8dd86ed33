"""Topic nodes: the partitions of topics in ZooKeeper, read through a session, and watched if requested.

    0.8 and later   /brokers/topics/T      holds all partitions of T
    0.7             /brokers/topics/T/B    holds the number of partitions on broker B; exists while the broker lives

A watch fires when the partitions of a topic change, and when a missing topic appears.  A node that cannot be parsed, or
is closed to us, is left out, with a warning: the JVM's consumer counts no partitions of such a topic either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from groundwork.pauses import Pace
from kafkawire.cluster.zookeeper import BROKERS, closed_node, left_out, refuse_secured
from kafkawire.dialects import Dialect
from kafkawire.errors import NoListener, RemoteError
from kafkawire.interfaces import CountedZnodes, ListedZnodes
from kafkawire.model import PartitionId
from kafkawire.znodes.text import PAUSE_PARTITIONS
from zkconsumer.offsets.former import TopicCreation
from zkconsumer.session.zkcalls import Closed, Watch, ZkCalls
from zkconsumer.session.zksession import ZkSession

T = TypeVar("T")
Read = Callable[[Iterable[str], Watch | None, int | None], dict[str, T | None]]  # ZkCalls.read, .lists
Partitions = dict[str, list[PartitionId]]
Creations = dict[str, TopicCreation]


def read_topic_nodes(
    session: ZkCalls, dialect: Dialect, topics: Iterable[str], watch: Watch | None = None, session_id: int | None = None
) -> Partitions:
    """Return the partitions of each topic that exists, in the order of the range assignment.

    All partitions in the nodes count, whether their brokers live or not: the JVM's members assign the same ones.
    Raises ZooKeeperAway.
    """
    return read_topics(session, dialect, topics, watch, session_id)[0]


def read_topics(
    session: ZkCalls, dialect: Dialect, topics: Iterable[str], watch: Watch | None = None, session_id: int | None = None
) -> tuple[Partitions, Creations]:
    """Return the partitions of each topic that exists, as read_topic_nodes() does, and when each topic was created."""
    znodes, names = dialect.znodes, list(topics)
    created: Creations = {}
    if znodes.PARTITIONS_BY_BROKER:
        found = _counted(session, znodes, names, watch, session_id)
    else:
        found, created = _listed(session, znodes, names, watch, session_id)
    pace, done = Pace(PAUSE_PARTITIONS), 0
    in_order: Partitions = {}
    for topic, ids in found.items():
        pace.reached(done := done + len(ids))
        in_order[topic] = dialect.in_order(ids)
    return in_order, created


def read_creations(session: ZkCalls, dialect: Dialect, topics: Iterable[str]) -> Creations:
    """Return when each topic that exists was created; unknown for 0.7.  Raises ZooKeeperAway."""
    if dialect.partitions_by_broker:
        return {}
    paths = {dialect.znodes.topic_path(topic): topic for topic in topics}
    found = session.stat(paths)
    return {paths[path]: TopicCreation(node.czxid, node.ctime_ms) for path, node in found.items() if node is not None}


def _watched(
    session: ZkCalls, read: Read[T], paths: Iterable[str], watch: Watch | None, session_id: int | None
) -> dict[str, T | None]:
    """Return the nodes that exist; the others are watched until they are created, and one created meanwhile is read at
    once."""
    found = read(paths, watch, session_id)
    absent = [path for path, there in found.items() if there is None]
    if absent and watch is not None:
        stats = session.stat(absent, watch, session_id)
        created = [path for path, node in stats.items() if node is not None]
        found |= read(created, watch, session_id)
    return found


def _listed(
    session: ZkCalls, znodes: ListedZnodes, topics: list[str], watch: Watch | None, session_id: int | None
) -> tuple[Partitions, Creations]:
    paths = {znodes.topic_path(topic): topic for topic in topics}
    closed: Closed = {}
    found = _watched(session, partial(session.read, closed=closed), paths, watch, session_id)
    there = {paths[path]: node for path, node in found.items() if node is not None}
    partitions: Partitions = {}
    for topic, node in there.items():
        try:
            partitions[topic] = list(znodes.topic(node.data, f"topic {topic}"))
        except RemoteError as senseless:
            left_out(session, senseless)
    for path in closed:
        left_out(session, closed_node(path))
    stats = session.stat(closed, watch, session_id) if closed else {}  # they exist, and were not deleted
    there |= {paths[path]: node for path, node in stats.items() if node is not None}
    return partitions, {topic: TopicCreation(node.czxid, node.ctime_ms) for topic, node in there.items()}


def _counted(
    session: ZkCalls, znodes: CountedZnodes, topics: list[str], watch: Watch | None, session_id: int | None
) -> Partitions:
    paths = {znodes.topic_path(topic): topic for topic in topics}
    found = _watched(session, session.lists, paths, watch, session_id)
    brokers: dict[str, tuple[str, int]] = {}
    for path, names in found.items():
        for name in names or ():
            try:
                broker = znodes.broker_id(name, f"topic {paths[path]}")
            except RemoteError as senseless:
                left_out(session, senseless)
                continue
            brokers[znodes.count_path(paths[path], broker)] = (paths[path], broker)
    partitions: Partitions = {paths[path]: [] for path, names in found.items() if names is not None}
    for path, node in session.read(brokers, watch, session_id).items():
        if node is not None:  # otherwise the broker went after it was listed, and the watch reports that too
            topic, broker = brokers[path]
            try:
                count = znodes.count(node.data, f"topic {topic} on broker {broker}")
            except RemoteError as senseless:
                left_out(session, senseless)
                continue
            partitions[topic] += znodes.partitions(broker, count)
    return partitions


def no_brokers(session: ZkSession, dialect: Dialect) -> str | None:
    """Return a sentence if no broker is registered there, usually because of a wrong chroot, or if none has a plain
    listener.  Raises ZooKeeperAway."""
    if session.children(BROKERS):
        try:
            session.ask("read brokers", refuse_secured, dialect.znodes)
        except NoListener as secured:
            return f"{session.connect}: {secured}"
        return None
    return f"no brokers are registered under {session.connect}: is the chroot missing, or wrong?"
