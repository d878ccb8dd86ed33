"""Groups as they are in both stores now: a GroupSnapshot for each.  Reads only, and creates nothing.

    snapshots = look(world, ["billing"], read_cluster(world))

Order: ZooKeeper, then Kafka, then the ends of logs, many groups at once.  Kafka is asked through the leader of the
group's partition of __consumer_offsets, which is its coordinator, and only when that topic exists: a question for the
coordinator would create it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafkawire.model import TopicPartition
from zkconsumer.groupworld.world import Cluster, World
from zkconsumer.migration.snapshot import GroupSnapshot


def look(
    world: World,
    groups: Iterable[str],
    cluster: Cluster,
    *,
    to_groups: Mapping[str, str] | None = None,
    also: Mapping[str, Collection[TopicPartition]] | None = None,
    wide: bool | None = None,
    bounds: bool = True,
) -> dict[str, GroupSnapshot]:
    """A snapshot of each group, also of one that nobody knows (nothing is in it then).

    to_groups: its name in Kafka, where that is another.  also: partitions by group that Kafka, and the leaders, are
    asked for though ZooKeeper has nothing of them.  wide: ask Kafka for every partition there is, since a group may
    have positions of topics that ZooKeeper knows nothing of; None: where that is not too much.  bounds: of logs too.
    What could not be found out is Unknown or absent, and told.  Raises ZooKeeperAway.
    """
    raise NotImplementedError
