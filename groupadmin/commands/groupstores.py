"""What Kafka adds to `zkconsumer groups list` and `describe`: its groups, its positions beside those of ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupadmin.commands.offsetlook import age, known, tell_odd, written_at
from groupadmin.snapshot import kafka as kafkaside
from groupadmin.snapshot.cluster import World, read_cluster
from groupadmin.snapshot.commits import commit_times, groups_in_log
from groupadmin.snapshot.groups import GroupNodes, GroupRow, read_group
from groupadmin.snapshot.model import GroupSnapshot
from groupadmin.snapshot.reader import look
from kafkawire.model import TopicPartition
from zkconsumer.commands.common import tell
from zkconsumer.errors import NoSuchGroup
from zkconsumer.offsets.store import NONE, Unknown

# list -----------------------------------------------------------------------------------------------------------------

Listed = tuple[str, int | None, int | None]


def kafka_groups(world: World) -> dict[str, tuple[int, str | None]]:
    """Groups that Kafka has: topics with a position, and the protocol type of those that it coordinates.

    To be asked last: reading the offsets topic blocks.
    """
    cluster = read_cluster(world)
    types = kafkaside.names(world, cluster) if world.coordinates else {}
    log = groups_in_log(world, cluster)
    topics = {group: len({tp.topic for tp in held}) for group, held in log.offsets.items()} if log is not None else {}
    return {group: (topics.get(group, 0), types.get(group) or None) for group in sorted({*types, *topics})}


def beside_kafka(
    listed: Sequence[Listed], in_kafka: Mapping[str, tuple[int, str | None]]
) -> list[tuple[str, int | None, int | None, str, str | None]]:
    """The groups of ZooKeeper and those of Kafka in one list; members are those that ZooKeeper knows."""
    rows: list[tuple[str, int | None, int | None, str, str | None]] = []
    for group, members, topics in listed:
        there = in_kafka.get(group)
        rows.append((group, members, topics, "both" if there else "zookeeper", there[1] if there else None))
    names = {row[0] for row in listed}
    rows += [(group, None, n, "kafka", protocol) for group, (n, protocol) in in_kafka.items() if group not in names]
    return sorted(rows, key=lambda row: row[0])


# describe -------------------------------------------------------------------------------------------------------------


def read_both(world: World, group: str) -> tuple[GroupNodes, GroupSnapshot | None]:
    """The group's nodes, and what both stores hold.  Raises NoSuchGroup where neither knows it, ZooKeeperAway."""
    session = world.session
    assert session is not None, "the command asks for -z"
    cluster = read_cluster(world)
    held = look(world, [group], cluster)[group]
    try:
        nodes = read_group(session, world.dialect, group)
    except NoSuchGroup:
        if not known(world, held):
            raise
        nodes = GroupNodes(group, (), {}, {}, [tp for tp, row in held.kafka.items() if row.position is not NONE])
    if cluster.keeps_offsets and world.keeps_kafka and not cluster.view.brokers:
        tell("no broker answers: what Kafka holds is not known")
    return nodes, held


def both_rows(world: World, rows: Sequence[GroupRow], held: GroupSnapshot) -> list[tuple[object, ...]]:
    """In the order of groups.COLUMNS: a row for each store that holds a position of a partition.

    A number that Kafka holds never stands in place of ZooKeeper's.
    """
    from groupadmin.commands.groups import partition_row

    tell_odd([held])
    ages = commit_times(world, read_cluster(world), held)
    in_rows = {TopicPartition(row.topic, row.partition) for row in rows}
    more = [tp for tp in held.kafka if tp not in in_rows and held.kafka[tp].position is not NONE]
    ends = {tp: end for tp, (_, end) in held.bounds.items()}
    every = [*rows, *(GroupRow(tp.topic, tp.partition, None, NONE, ends.get(tp)) for tp in more)]
    found = []
    for row in every:
        tp = TopicPartition(row.topic, row.partition)
        kafka = held.in_kafka(tp).position
        if row.committed is not NONE or kafka is NONE:
            found.append(partition_row(row, "zookeeper", age(written_at(held, tp, "zookeeper", ages), held)))
        if kafka is not NONE and not (isinstance(kafka, Unknown) and tp not in held.kafka):
            there = GroupRow(row.topic, row.partition, row.owner, kafka, row.end)
            found.append(partition_row(there, "kafka", age(written_at(held, tp, "kafka", ages), held)))
    return found
