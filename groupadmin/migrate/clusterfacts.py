"""What `migrate check` needs to know of a cluster, looked at without leaving a trace: checks.ClusterFacts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from groupadmin.apply.writes import coordinator
from groupadmin.migrate.rules.checks import HOUR_MS, ClusterFacts, OffsetsTopic
from groupadmin.snapshot.cluster import AdminClient, Cluster
from groupadmin.snapshot.model import GroupSnapshot
from kafkawire.errors import BrokerError, WireError
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from kafkawire.znodes.group import CONSUMERS

RECENT_MS = 120_000  # an offset node that is younger was written by a member that commits each minute, or oftener
NOT_ALLOWED = (29, 30, 31)


@dataclass(frozen=True, slots=True)
class Told:
    """What only the operator knows.

    release           of every broker, where it was said; wanted_replicas of __consumer_offsets
    retention_ms      offsets.retention.minutes of the brokers; downtime_ms: how long groups will be stopped at most
    long_retention_ms what the copy asks for; keepalive: whether it is committed again
    """

    release: str | None = None
    wanted_replicas: int = 3
    retention_ms: int | None = None
    downtime_ms: int = HOUR_MS
    long_retention_ms: int | None = None
    keepalive: bool = False


def cluster_facts(
    admin: AdminClient,
    cluster: Cluster,
    zookeeper: str,
    groups: Sequence[str],
    snapshots: Iterable[GroupSnapshot],
    told: Told,
) -> ClusterFacts:
    """groups: names in Kafka, of which one is asked for its coordinator, when that creates nothing."""
    session = admin.session
    partitions = cluster.view.topics.get(OFFSETS_TOPIC)
    topic = None
    if partitions is not None:
        numbered = {int(str(partition)): each for partition, each in partitions.items()}
        led = {n: each.leader if each.leader in cluster.brokers else None for n, each in numbered.items()}
        topic = OffsetsTopic({n: each.replicas for n, each in numbered.items()}, led)
    elif cluster.keeps_offsets:
        there = [int(str(partition)) for partition in cluster.topics[OFFSETS_TOPIC].partitions] or [0]
        topic = OffsetsTopic(dict.fromkeys(there, ()), dict.fromkeys(there))  # ZooKeeper has it and no broker tells
    refused: dict[str, str] = {}
    error = _coordinator(admin, cluster, groups, refused) if partitions else None
    return ClusterFacts(
        zookeeper,
        consumers_there=session is not None and session.children(CONSUMERS) is not None,
        brokers_there=session is not None and bool(session.children("/brokers/ids")),
        releases=dict.fromkeys(sorted(cluster.brokers), told.release),
        offsets_topic=topic,
        wanted_replicas=told.wanted_replicas,
        coordinator_error=error,
        retention_ms=told.retention_ms,
        downtime_ms=told.downtime_ms,
        long_retention_ms=told.long_retention_ms,
        keepalive=told.keepalive,
        clock_ahead_ms=clock_ahead_ms(admin.clock_ms(), snapshots),
        refused=refused,
    )


def clock_ahead_ms(now_ms: int, snapshots: Iterable[GroupSnapshot]) -> int | None:
    """How far our clock is ahead of ZooKeeper's, as far as nodes show it without writing one.

    The youngest offset node is as old as it looks, less what our clock is ahead.  One from the future shows that we
    are behind; one that was just written that the clocks agree; an old one shows nothing.
    """
    youngest = max((row.mtime_ms for each in snapshots for row in each.zookeeper.values()), default=None)
    if youngest is None or now_ms - youngest > RECENT_MS:
        return None
    return min(0, now_ms - youngest)


def _coordinator(admin: AdminClient, cluster: Cluster, groups: Sequence[str], refused: dict[str, str]) -> str | None:
    """Why the coordinator of one of the groups cannot be found; "" when it can."""
    if not groups:
        return None
    asked = coordinator(admin, cluster)
    try:
        asked.find(groups[0])
    except BrokerError as why:
        if why.code in NOT_ALLOWED:
            refused[f"the coordinator of group {groups[0]}"] = str(why)
        return str(why)
    except WireError as why:
        return str(why)
    return ""
