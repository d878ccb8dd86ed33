"""`zkconsumer groups`: which groups there are, their members, and the lag of each partition, in both stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from groundwork.output import EXIT, fail, write
from groundwork.zksecurity import ZooKeeper
from groupadmin.commands.groupedit import delete_command, rename_command
from groupadmin.commands.offsetviews import age, known, tell_odd, written_at
from groupadmin.snapshot import kafka as kafkaside
from groupadmin.snapshot.cluster import AdminClient, read_cluster
from groupadmin.snapshot.groups import GroupMember, GroupNodes, GroupRow, describe, list_groups, read_group
from groupadmin.snapshot.kafka import commit_times, groups_in_log
from groupadmin.snapshot.model import GroupSnapshot
from groupadmin.snapshot.reader import read_snapshots
from kafkawire.model import TopicPartition
from zkconsumer.commands.common import must_tell, reaching, tell, tell_unit
from zkconsumer.commands.options import (
    brokers_option,
    group_option,
    kafka_version_option,
    output_option,
    zookeeper_option,
)
from zkconsumer.errors import NoSuchGroup
from zkconsumer.group.membership import Surplus, surplus
from zkconsumer.group.topicnodes import no_brokers
from zkconsumer.offsets.modenode import read_modes
from zkconsumer.offsets.modes import MemberMode, ModeUnreadable
from zkconsumer.offsets.store import NONE, Unknown

# list -----------------------------------------------------------------------------------------------------------------

Listed = tuple[str, int | None, int | None]


def kafka_groups(admin: AdminClient) -> dict[str, tuple[int, str | None]]:
    """Groups that Kafka has: topics with a position, and the protocol type of those that it coordinates.

    To be asked last: reading the offsets topic blocks.
    """
    cluster = read_cluster(admin)
    types = kafkaside.names(admin, cluster) if admin.coordinates else {}
    log = groups_in_log(admin, cluster)
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


def read_both(admin: AdminClient, group: str) -> tuple[GroupNodes, GroupSnapshot | None]:
    """The group's nodes, and what both stores hold.  Raises NoSuchGroup where neither knows it, ZooKeeperAway."""
    session = admin.session
    assert session is not None, "the command asks for -z"
    cluster = read_cluster(admin)
    held = read_snapshots(admin, [group], cluster)[group]
    try:
        nodes = read_group(session, admin.dialect, group)
    except NoSuchGroup:
        if not known(admin, held):
            raise
        nodes = GroupNodes(group, (), {}, {}, [tp for tp, row in held.kafka.items() if row.position is not NONE])
    if cluster.keeps_offsets and admin.keeps_kafka and not cluster.view.brokers:
        tell("no broker answers: what Kafka holds is not known")
    return nodes, held


def both_rows(admin: AdminClient, rows: Sequence[GroupRow], held: GroupSnapshot) -> list[tuple[object, ...]]:
    """In the order of groups.COLUMNS: a row for each store that holds a position of a partition.

    A number that Kafka holds never stands in place of ZooKeeper's.
    """
    from groupadmin.commands.groups import partition_row

    tell_odd([held])
    ages = commit_times(admin, read_cluster(admin), held)
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


LIST = ("group", "members", "topics")
LIST_BOTH = (*LIST, "store", "protocol")
COLUMNS = ("topic", "partition", "owner", "committed", "end", "lag", "store", "age")
MEMBERS = ("member", "host", "pattern", "subscription", "streams", "session", "mode", "problem")
LEADERS = "Ask these brokers who leads what, instead of ZooKeeper."


@click.group()
def groups() -> None:
    """Look at consumer groups, delete and rename them."""


for _each in (delete_command, rename_command):
    groups.add_command(_each)


@groups.command("list")
@zookeeper_option()
@brokers_option("Also the groups that Kafka knows, asked of these brokers.")
@kafka_version_option
@output_option()
def list_command(zookeeper: ZooKeeper, brokers: list[tuple[str, int]], kafka_version: str, output: str) -> None:
    """Print all groups, how many members each has now and how many topics it read.

    With -b also those that Kafka has: by ListGroups from 0.9 on, and by what __consumer_offsets holds (which is all
    that tells of them on 0.8.2).
    """
    must_tell(brokers, kafka_version)
    with reaching(zookeeper, kafka_version) as reach:
        rows = list_groups(reach.session, reach.dialect)
        if not rows and (hint := no_brokers(reach.session, reach.dialect)):
            fail(hint, EXIT["runtime"])
        found = [(row.group, row.members, row.topics) for row in rows]
        admin = AdminClient(reach.session, reach.links, reach.dialect, tuple(brokers), tell)
        both = beside_kafka(found, kafka_groups(admin)) if brokers else []
    write(both if brokers else found, LIST_BOTH if brokers else LIST, output)


@groups.command("describe")
@zookeeper_option()
@brokers_option(LEADERS)
@group_option()
@kafka_version_option
@output_option()
def describe_command(
    zookeeper: ZooKeeper, brokers: list[tuple[str, int]], group: str, kafka_version: str, output: str
) -> None:
    """Print topic, partition, owner, committed offset, end of the log and lag of each partition of a group.

    A row for each store that holds a position, and how long ago it was written.
    A thread that has nothing to read, because its topic has fewer partitions than threads, is a row without partition.
    """
    must_tell(brokers, kafka_version)
    with reaching(zookeeper, kafka_version) as reach:
        admin = AdminClient(reach.session, reach.links, reach.dialect, tuple(brokers), tell)
        nodes, held = read_both(admin, group)
        rows = describe(reach.session, reach.links, reach.dialect, [nodes], brokers, tell)[group]
        shown = both_rows(admin, rows, held) if held is not None else [partition_row(row) for row in rows]
    unreadable = [member for member in nodes.members if member.why is not None]
    for member in unreadable:
        tell(f"member {member.consumer_id} cannot be read, so nobody in the group can divide: {member.why}")
    idle = surplus(nodes.threads, nodes.partitions)
    for each in idle:
        tell(str(each))
    write([*shown, *idle_rows(idle)], COLUMNS, output)
    tell_unit(admin.dialect)


@groups.command("members")
@zookeeper_option()
@group_option()
@kafka_version_option
@output_option()
def members_command(zookeeper: ZooKeeper, group: str, kafka_version: str, output: str) -> None:
    """Print who is in a group: host, subscription, streams, the session that holds the node, and why one is unreadable.

    A session of - is a node that outlives its member: somebody has to delete it.  The mode is where a member keeps its
    offsets: zookeeper, dual or kafka; JVM members show none.
    """
    with reaching(zookeeper, kafka_version) as reach:
        nodes = read_group(reach.session, reach.dialect, group)
        modes = read_modes(reach.session, group)
    write([member_row(member, modes.get(member.consumer_id)) for member in nodes.members], MEMBERS, output)


def partition_row(row: GroupRow, store: str | None = "zookeeper", age: str | None = None) -> tuple[object, ...]:
    """In the order of COLUMNS; why a committed offset is no number goes to stderr."""
    if isinstance(row.committed, Unknown):
        tell(f"{row.topic}/{row.partition}: {row.committed.reason}")
    committed = row.committed if isinstance(row.committed, int) else None
    partition = row.partition if isinstance(row.partition, int) else str(row.partition)
    where = store if row.committed is not NONE else None
    return (row.topic, partition, row.owner, committed, row.end, row.lag, where, age)


def idle_rows(idle: list[Surplus]) -> list[tuple[object, ...]]:
    """A row without a partition for each thread that gets none."""
    return [(each.topic, None, thread, *[None] * 5) for each in idle for thread in each.idle]


def member_row(member: GroupMember, shown: MemberMode | ModeUnreadable | None) -> tuple[object, ...]:
    """In the order of MEMBERS; why a mode cannot be read goes to stderr."""
    if isinstance(shown, ModeUnreadable):
        tell(str(shown))
    mode = shown.mode if isinstance(shown, MemberMode) else None
    found = member.registration
    subscription = ",".join(found.subscription) if found is not None else None
    streams = sum(found.subscription.values()) if found is not None else None
    session = f"{member.session:#x}" if member.session else None
    pattern = found.pattern if found is not None else None
    return (member.consumer_id, member.host, pattern, subscription, streams, session, mode, member.why)
