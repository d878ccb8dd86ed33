"""Groups that Kafka coordinates (0.9 and later): state, strategy, members with what they read.  Reads only.

    found = read_coordinated(admin, read_cluster(admin), ["billing"])

By DescribeGroups to each group's coordinator, which is not looked up but computed, and by ConsumerGroupDescribe or
ShareGroupDescribe for groups of 4.x's newer protocols (snapshot/kafka.py).  ZooKeeper is not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from groupadmin.snapshot import kafka as kafkaside
from groupadmin.snapshot.cluster import AdminClient, Cluster
from kafkawire.errors import WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.protocol.subscriptions import PROTOCOL_TYPE, read_assignment, read_subscription


@dataclass(frozen=True, slots=True)
class CoordinatedMember:
    """A member as its coordinator has it.  host: as the broker sees it, /10.0.0.7 without the slash.

    topics, partitions: subscribed and assigned; why: they cannot be read, or a consumer did not write them.
    """

    member_id: str
    client_id: str
    host: str
    _: KW_ONLY
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class CoordinatedGroup:
    """A group as its coordinator has it.

    state      Stable, PreparingRebalance, CompletingRebalance (AwaitingSync before 0.11), Empty (0.10.1), Dead
    strategy   partition assignment of its members; empty while they rebalance
    why        why it is not known; state and members are empty then
    """

    group: str
    state: str
    _: KW_ONLY
    protocol_type: str = ""
    strategy: str = ""
    members: tuple[CoordinatedMember, ...] = ()
    coordinator: Broker | None = None
    why: str = ""

    @property
    def owners(self) -> dict[TopicPartition, str]:
        """Return the member ids by assigned partition."""
        return {tp: member.member_id for member in self.members for tp in member.partitions}

    @property
    def topics(self) -> set[str]:
        """Return the topics that members read now."""
        return {topic for member in self.members for topic in (*member.topics, *(tp.topic for tp in member.partitions))}

    @property
    def there(self) -> bool:
        """True if the coordinator knows the group: with members, or without since its offsets are kept (0.10.1)."""
        return bool(self.members) or (self.state not in ("", kafkaside.DEAD))

    def __str__(self) -> str:
        if self.why:
            return f"group {self.group}: {self.why}"
        by = f", coordinated by {self.coordinator}" if self.coordinator is not None else ""
        strategy = f", strategy {self.strategy}" if self.strategy else ""
        return f"group {self.group}: {self.state}{strategy}{by}"


def read_coordinated(admin: AdminClient, cluster: Cluster, groups: Iterable[str]) -> dict[str, CoordinatedGroup]:
    """Return each of these groups; Dead where its coordinator does not know it, and where __consumer_offsets does not
    exist.

    The release must coordinate groups (AdminClient.coordinates).
    """
    names = list(dict.fromkeys(groups))
    if not cluster.keeps_offsets:
        return {name: CoordinatedGroup(name, kafkaside.DEAD) for name in names}
    rows = kafkaside.described(admin, cluster, names)
    return {name: _group(name, *rows[name]) for name in names}


def _group(name: str, broker: Broker | None, row: Mapping[str, Any] | str) -> CoordinatedGroup:
    if isinstance(row, str):
        return CoordinatedGroup(name, "", coordinator=broker, why=row)
    consumers = row["protocol_type"] == PROTOCOL_TYPE
    return CoordinatedGroup(
        name,
        row["state"],
        protocol_type=row["protocol_type"],
        strategy=row["protocol"],
        members=tuple(_member(each, consumers) for each in row["members"]),
        coordinator=broker,
    )


def _member(row: Mapping[str, Any], consumers: bool) -> CoordinatedMember:
    member = CoordinatedMember(row["member_id"], row["client_id"], row["client_host"].lstrip("/"))
    if "partitions" in row:  # a newer protocol
        return replace(member, topics=tuple(sorted(row["topics"])), partitions=tuple(sorted(row["partitions"])))
    if not consumers:
        return member
    topics: Sequence[str] = ()
    partitions: Sequence[TopicPartition] = ()
    why = ""
    try:
        if len(row["metadata"]):  # none while the group rebalances
            topics = read_subscription(row["metadata"]).topics
        partitions = read_assignment(row["assignment"])
    except WireError as senseless:
        why = str(senseless)
    return CoordinatedMember(
        member.member_id,
        member.client_id,
        member.host,
        topics=tuple(sorted(topics)),
        partitions=tuple(sorted(partitions)),
        why=why,
    )
