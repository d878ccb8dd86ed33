"""What ZooKeeper and the brokers say about a consumer group: who owns what, what is committed, how far behind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkawire.dialects import Dialect
from kafkawire.model import PartitionId, TopicPartition
from kafkawire.net.links import Links
from zkconsumer.errors import ConsumerError
from zkconsumer.logends import log_ends
from zkconsumer.offsets.store import Committed
from zkconsumer.offsets.zookeeper import position
from zkconsumer.zksession import ZkSession


class NoSuchGroup(ConsumerError):
    """ZooKeeper has no node of the group."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One partition of a group.  committed is a position, NONE or Unknown; None elsewhere: nobody, or not known."""

    topic: str
    partition: PartitionId
    owner: str | None
    committed: Committed
    end: int | None

    @property
    def lag(self) -> int | None:
        """Messages from the committed position to the end of the log."""
        if not isinstance(self.committed, int) or self.end is None:
            return None
        return max(0, self.end - self.committed)


def describe(session: ZkSession, links: Links, dialect: Dialect, group: str) -> list[GroupRow]:
    """A row for each partition of what the group owns or committed, sorted.  Raises NoSuchGroup, ZooKeeperAway."""
    znodes = dialect.znodes
    folders = [znodes.owners(group, "-").rpartition("/")[0], znodes.offsets(group, "-").rpartition("/")[0]]
    listed = [session.children(folder) for folder in folders]
    if all(names is None for names in listed) and session.children(znodes.ids(group)) is None:
        raise NoSuchGroup(f"group {group} is not known to ZooKeeper at {session.connect}")
    topics = sorted({topic for names in listed for topic in names or ()})
    tps = _partitions(session, dialect, group, topics)
    owners = session.read([znodes.owner(group, tp) for tp in tps])
    offsets = session.read([znodes.offset(group, tp) for tp in tps])
    ends = log_ends(session, links, dialect, tps)
    rows = []
    for tp in tps:
        owner, path = owners[znodes.owner(group, tp)], znodes.offset(group, tp)
        name = owner.data.decode("utf-8", "replace") if owner is not None else None
        rows.append(GroupRow(tp.topic, tp.partition, name, position(path, offsets[path]), ends.get(tp)))
    return rows


def _partitions(session: ZkSession, dialect: Dialect, group: str, topics: Iterable[str]) -> list[TopicPartition]:
    """Those the topic has now, and those the group has nodes of."""
    znodes = dialect.znodes
    found: list[TopicPartition] = []
    for topic in topics:
        path = znodes.topic_path(topic)
        node = session.read([path])[path]
        ids: set[PartitionId] = set(znodes.topic(node.data, path)) if node is not None else set()
        for folder in (znodes.owners(group, topic), znodes.offsets(group, topic)):
            ids |= {dialect.partition(name) for name in session.children(folder) or ()}
        found += [TopicPartition(topic, partition) for partition in dialect.in_order(ids)]
    return found
