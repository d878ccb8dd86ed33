"""Collects the facts about a cluster for `migrate check` (checks.ClusterFacts).  Reads only, and creates nothing."""

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

RECENT_MS = 120_000  # a younger offset node was written by a member that commits every minute, or more often
NOT_ALLOWED = (29, 30, 31)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFacts:
    """Facts that only the operator knows.

    release           release of every broker, if given; wanted_replicas: of __consumer_offsets
    retention_ms      offsets.retention.minutes of the brokers; downtime_ms: the longest time that groups will be
                      stopped
    long_retention_ms retention that the copy requests; keepalive: whether the copy is committed again
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
    *,
    zookeeper: str,
    groups: Sequence[str],
    snapshots: Iterable[GroupSnapshot],
    operator: OperatorFacts,
) -> ClusterFacts:
    """Collect the facts.  groups: names in Kafka; the first one's coordinator is looked up if that creates nothing."""
    session = admin.session
    partitions = cluster.view.topics.get(OFFSETS_TOPIC)
    topic = None
    if partitions is not None:
        numbered = {int(str(partition)): each for partition, each in partitions.items()}
        led = {n: each.leader if each.leader in cluster.brokers else None for n, each in numbered.items()}
        topic = OffsetsTopic({n: each.replicas for n, each in numbered.items()}, led)
    elif cluster.keeps_offsets:
        there = [int(str(partition)) for partition in cluster.topics[OFFSETS_TOPIC].partitions] or [0]
        topic = OffsetsTopic(dict.fromkeys(there, ()), dict.fromkeys(there))  # in ZooKeeper, but no broker reports it
    refused: dict[str, str] = {}
    error = _coordinator(admin, cluster, groups, refused) if partitions else None
    return ClusterFacts(
        zookeeper,
        consumers_there=session is not None and session.children(CONSUMERS) is not None,
        brokers_there=session is not None and bool(session.children("/brokers/ids")),
        releases=dict.fromkeys(sorted(cluster.brokers), operator.release),
        offsets_topic=topic,
        wanted_replicas=operator.wanted_replicas,
        coordinator_error=error,
        retention_ms=operator.retention_ms,
        downtime_ms=operator.downtime_ms,
        long_retention_ms=operator.long_retention_ms,
        keepalive=operator.keepalive,
        clock_ahead_ms=clock_ahead_ms(admin.clock_ms(), snapshots),
        refused=refused,
    )


def clock_ahead_ms(now_ms: int, snapshots: Iterable[GroupSnapshot]) -> int | None:
    """Return how far this machine's clock is ahead of ZooKeeper's, as far as existing nodes show it.

    The apparent age of the youngest offset node includes the difference of the clocks.  A node from the future shows
    that this clock is behind; one that was just written shows that the clocks agree; an old one shows nothing.
    """
    youngest = max((row.mtime_ms for each in snapshots for row in each.zookeeper.values()), default=None)
    if youngest is None or now_ms - youngest > RECENT_MS:
        return None
    return min(0, now_ms - youngest)


def _coordinator(admin: AdminClient, cluster: Cluster, groups: Sequence[str], refused: dict[str, str]) -> str | None:
    """Return why the coordinator of one of the groups cannot be found; "" when it was found."""
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
