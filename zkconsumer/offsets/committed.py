"""Which partitions a member's topics have, and which of them its group has committed to ZooKeeper."""

from __future__ import annotations

from kafkawire.cluster.zookeeper import TOPICS, read_partitions
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError, RemoteError
from kafkawire.model import TopicPartition
from kafkawire.znodes.group import Registration
from zkconsumer.errors import ConsumerError
from zkconsumer.filters import streams_by_topic
from zkconsumer.session.nodes import list_children
from zkconsumer.session.zksession import ZkSession


def committed_partitions(
    session: ZkSession, dialect: Dialect, group: str, registration: Registration, exclude_internal: bool
) -> list[TopicPartition]:
    """Those that have an offset node, sorted; of topics that exist.  A node that is no partition's is left out.

    Raises ZooKeeperAway, ConsumerError.
    """
    znodes = dialect.znodes
    topics = set(session.children(TOPICS) or ())
    folder = znodes.offsets(group, "-").rpartition("/")[0]
    kept = topics.intersection(session.children(folder) or ())
    read = streams_by_topic(registration, topics, exclude_internal)
    folders = {znodes.offsets(group, topic): topic for topic in sorted(kept.intersection(read))}
    found: list[TopicPartition] = []
    for path, names in list_children(session, folders).items():
        for name in names or ():
            try:
                found.append(TopicPartition(folders[path], dialect.partition(name)))
            except LocalError:
                continue
    return sorted(found)


def all_partitions(
    session: ZkSession, dialect: Dialect, registration: Registration, exclude_internal: bool
) -> list[TopicPartition]:
    """All of the topics that the member reads, sorted: Kafka may hold an offset of any of them.

    Raises ZooKeeperAway, ConsumerError.
    """
    topics = streams_by_topic(registration, set(session.children(TOPICS) or ()), exclude_internal)
    try:
        found = session.ask("read partitions", read_partitions, dialect.znodes, sorted(topics))
    except RemoteError as e:
        raise ConsumerError(f"which partitions there are cannot be told: {e}") from e
    return sorted(TopicPartition(topic, partition) for topic, ids in found.items() for partition in ids)
