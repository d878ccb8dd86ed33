"""Which partitions a group has committed to ZooKeeper, of the topics that a member reads."""

from __future__ import annotations

from kafkawire.cluster.zookeeper import TOPICS
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError
from kafkawire.model import TopicPartition
from kafkawire.v08.znodes import Registration
from zkconsumer.filters import streams_by_topic
from zkconsumer.groupworld.nodes import list_children
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
