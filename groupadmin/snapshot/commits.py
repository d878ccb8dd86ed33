"""When a group's positions in Kafka were committed: only the records of __consumer_offsets say so."""

from __future__ import annotations

from groupadmin.snapshot.cluster import Cluster, World
from groupadmin.snapshot.model import GroupSnapshot
from kafkawire.errors import LocalError, WireError
from kafkawire.model import TopicPartition
from zkconsumer.offsets.offsetlog import OffsetLog, read_offset_log

ONE_GROUP_S = 3.0  # the session is not kept alive meanwhile, so it is shorter than its time-out
EVERY_GROUP_S = 60.0


def commit_times(world: World, cluster: Cluster, each: GroupSnapshot) -> dict[TopicPartition, int]:
    """ms since 1970 by partition; absent where the log does not say, or not in time.  To be asked last: it blocks."""
    if not any(isinstance(row.position, int) for row in each.kafka.values()):
        return {}
    name = each.to_group or each.group
    log = _log(world, cluster, name, ONE_GROUP_S)
    held = log.offsets.get(name, {}) if log is not None else {}
    return {tp: stored.commit_ms for tp, stored in held.items() if stored.commit_ms is not None}


def groups_in_log(world: World, cluster: Cluster) -> OffsetLog | None:
    """Everything in __consumer_offsets, None when it does not exist or cannot be read; what is missing is told.

    To be asked last: it blocks, and the ZooKeeper session may be over after it.
    """
    return _log(world, cluster, None, EVERY_GROUP_S)


def _log(world: World, cluster: Cluster, group: str | None, timeout_s: float) -> OffsetLog | None:
    if not (world.keeps_kafka and cluster.keeps_offsets):
        return None
    addresses = list(world.bootstrap) or [(broker.host, broker.port) for broker in cluster.brokers.values()]
    try:
        log = read_offset_log(addresses, world.dialect.release, group, timeout_s)
    except (WireError, LocalError) as why:
        world.tell(f"__consumer_offsets cannot be read, so commit times in Kafka are missing: {why}")
        return None
    for text in log.missing:
        world.tell(f"read only in part: {text}")
    return log
