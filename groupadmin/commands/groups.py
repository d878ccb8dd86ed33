"""`zkconsumer groups`: list groups, their members, and the lag of each partition, in both stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import click

from groundwork.commands import Group, output_option
from groundwork.output import EXIT, fail, write
from groupadmin.commands.editoptions import BROKERS, ClusterOptions, cluster_options, end_where_closed, tell_closed
from groupadmin.commands.groupedit import delete_command, rename_command
from groupadmin.commands.offsetviews import age, known, tell_odd, where_from, written_at
from groupadmin.commands.unblock import unblock_command
from groupadmin.snapshot import kafka as kafkaside
from groupadmin.snapshot.cluster import AdminClient, Cluster, read_cluster
from groupadmin.snapshot.coordinated import CoordinatedGroup, CoordinatedMember, read_coordinated
from groupadmin.snapshot.groups import GroupMember, GroupNodes, GroupRow, describe, list_groups, read_group
from groupadmin.snapshot.kafka import SHARE, commit_times, groups_in_log
from groupadmin.snapshot.model import GroupSnapshot
from groupadmin.snapshot.reader import read_snapshots
from kafkawire.model import TopicPartition
from zkconsumer.commands.common import print_note, print_unit
from zkconsumer.commands.options import group_option
from zkconsumer.errors import NoSuchGroup
from zkconsumer.group.membership import Surplus, surplus
from zkconsumer.group.topicnodes import no_brokers
from zkconsumer.group.verify import SESSIONLESS
from zkconsumer.offsets.modenode import read_modes
from zkconsumer.offsets.modes import MemberMode, ModeUnreadable
from zkconsumer.offsets.store import NONE, Unknown

# list -----------------------------------------------------------------------------------------------------------------

Listed = tuple[str, int | None, int | None]


def kafka_groups(admin: AdminClient) -> dict[str, tuple[int | None, str | None]]:
    """Return the groups in Kafka, with the number of topics with an offset, and the protocol type of groups that it
    coordinates.

    The number is None where the records were not all read, and for share groups, whose offsets are elsewhere.

    Call it last: reading the offsets topic blocks.
    """
    cluster = read_cluster(admin)
    types = kafkaside.names(admin, cluster) if admin.coordinates else {}
    log = groups_in_log(admin, cluster)
    topics = {group: len({tp.topic for tp in held}) for group, held in log.offsets.items()} if log is not None else {}
    whole = log is not None and not log.missing and not log.unknown
    return {
        group: (topics.get(group, 0 if whole and types.get(group) != SHARE else None), types.get(group) or None)
        for group in sorted({*types, *topics})
    }


def beside_kafka(
    listed: Sequence[Listed],
    in_kafka: Mapping[str, tuple[int | None, str | None]],
    kafka_members: Mapping[str, int | None] | None = None,
) -> list[tuple[str, int | None, int | None, str, str | None]]:
    """Return the groups in ZooKeeper and in Kafka as one list; the members are ZooKeeper's.

    kafka_members: number of members of the groups that only Kafka has, as far as known."""
    members_of = kafka_members or {}
    rows: list[tuple[str, int | None, int | None, str, str | None]] = []
    for group, members, topics in listed:
        there = in_kafka.get(group)
        rows.append((group, members, topics, "both" if there else "zookeeper", there[1] if there else None))
    names = {row[0] for row in listed}
    alone = {group: row for group, row in in_kafka.items() if group not in names}
    rows += [(group, members_of.get(group), n, "kafka", protocol) for group, (n, protocol) in alone.items()]
    return sorted(rows, key=lambda row: row[0])


def member_counts(admin: AdminClient, groups: Sequence[str]) -> dict[str, int | None]:
    """Number of members of groups that Kafka coordinates; None where it is not known.  Before 0.9 nothing."""
    if not admin.coordinates:
        return {}
    found = read_coordinated(admin, read_cluster(admin), groups)
    return {name: None if each.why else len(each.members) for name, each in found.items()}


# describe -------------------------------------------------------------------------------------------------------------


def read_both(admin: AdminClient, group: str) -> tuple[GroupNodes, GroupSnapshot | None]:
    """Return the group's nodes, and a snapshot of both stores.  Raises NoSuchGroup when neither has it,
    ZooKeeperAway."""
    session = admin.session
    assert session is not None, "the command asks for -z"
    cluster = read_cluster(admin)
    held = read_snapshots(admin, [group], cluster)[group]
    try:
        nodes = read_group(session, admin.dialect, group)
    except NoSuchGroup:
        if not known(admin, held):
            raise
        nodes = GroupNodes(
            group,
            members=(),
            partitions={},
            owners={},
            committed=[tp for tp, row in held.kafka.items() if row.position is not NONE],
        )
    if cluster.keeps_offsets and admin.keeps_kafka and not cluster.view.brokers:
        print_note("no broker answers: the offsets in Kafka are not known")
    return nodes, held


def both_rows(admin: AdminClient, rows: Sequence[GroupRow], held: GroupSnapshot) -> list[tuple[object, ...]]:
    """Return the rows in the order of groups.COLUMNS: one for each store with an offset of a partition.

    An offset in Kafka never replaces ZooKeeper's.
    """
    tell_odd([held])
    ages = commit_times(admin, read_cluster(admin), held)
    in_rows = {TopicPartition(row.topic, row.partition) for row in rows}
    more = [tp for tp in held.kafka if tp not in in_rows and held.kafka[tp].position is not NONE]
    ends = {tp: end for tp, (_, end) in held.bounds.items()}
    every = [*rows, *(GroupRow(tp.topic, tp.partition, None, NONE, end=ends.get(tp)) for tp in more)]
    found = []
    for row in every:
        tp = TopicPartition(row.topic, row.partition)
        row = replace(row, start=held.bounds.get(tp, (None, None))[0])
        kafka = held.in_kafka(tp).position
        if row.committed is not NONE or kafka is NONE:
            row = replace(row, readable=held.readable_end(tp, row.committed))
            found.append(partition_row(row, "zookeeper", age(written_at(held, tp, "zookeeper", ages), held)))
        if kafka is not NONE and not (isinstance(kafka, Unknown) and tp not in held.kafka):
            readable = held.readable_end(tp, kafka)
            there = replace(row, committed=kafka, readable=readable)
            found.append(partition_row(there, "kafka", age(written_at(held, tp, "kafka", ages), held)))
    return found


LIST = ("group", "members", "topics")
LIST_BOTH = (*LIST, "store", "protocol")
COLUMNS = ("topic", "partition", "owner", "committed", "end", "lag", "store", "age")
MEMBERS = ("member", "host", "pattern", "subscription", "streams", "session", "mode", "problem")
KAFKA_MEMBERS = ("member", "client", "host", "subscription", "partitions", "problem")
LEADERS = "Brokers to ask for leaders, instead of ZooKeeper; without -z: of a group in Kafka alone."


@click.group(
    cls=Group,
    examples=[
        "zkconsumer groups list -z zk1:2181/kafka -b kafka1:9092",
        "zkconsumer groups describe -z zk1:2181/kafka --group billing",
        "zkconsumer groups delete -z zk1:2181/kafka --group billing --execute",
    ],
)
def groups() -> None:
    """List, describe and change consumer groups."""


for _each in (delete_command, rename_command, unblock_command):
    groups.add_command(_each)


@groups.command(
    "list",
    examples=[
        "zkconsumer groups list -z zk1:2181/kafka",
        "zkconsumer groups list -z zk1:2181/kafka -b kafka1:9092 -o json",
    ],
)
@cluster_options("Brokers: list their groups, too; without -z theirs alone.")
@output_option()
def list_command(options: ClusterOptions, output: str) -> None:
    """Print all groups with their numbers of members and topics.

    With -b also the groups in Kafka: by ListGroups from 0.9 on, and by the records of __consumer_offsets (on 0.8.2
    only by these).
    """
    with options.client() as admin:
        found: list[Listed] = []
        if admin.session is not None:
            rows = list_groups(admin.session, admin.dialect, admin.closed)
            tell_closed(admin)
            if not rows and (hint := no_brokers(admin.session, admin.dialect)):
                fail(hint, EXIT["runtime"])
            found = [(row.group, row.members, row.topics) for row in rows]
        if not options.brokers:
            write(found, LIST, output)
            end_where_closed(admin)
            return
        in_kafka = kafka_groups(admin)
        alone = sorted(in_kafka.keys() - {row[0] for row in found})
        both = beside_kafka(found, in_kafka, member_counts(admin, alone))
    write(both, LIST_BOTH, output)
    end_where_closed(admin)


@groups.command(
    "describe",
    examples=[
        "zkconsumer groups describe -z zk1:2181/kafka --group billing",
        "zkconsumer groups describe -b kafka1:9092 --group billing",
    ],
)
@cluster_options(LEADERS)
@group_option()
@output_option()
def describe_command(options: ClusterOptions, group: str, output: str) -> None:
    """Print owner, committed offset and lag of each partition.

    There is a row for each store with an offset, and the time since it was written.  A thread without a partition,
    because its topic has fewer partitions than threads, is a row without partition.

    With -b alone ZooKeeper is not asked: the owners are the members that Kafka coordinates (0.9 and later).
    """
    with options.client() as admin:
        session = admin.session
        if session is None:
            shown, idle_members = kafka_rows(admin, group)
            write([*shown, *idle_members], COLUMNS, output)
            return
        nodes, held = read_both(admin, group)
        rows = describe(session, admin.links, admin.dialect, [nodes], brokers=options.brokers, tell=print_note)[group]
        shown = both_rows(admin, rows, held) if held is not None else [partition_row(row) for row in rows]
        if held is not None and held.kafka_members:
            print_note(f"Kafka coordinates members of group {group}: {kafka_members(held)}; -b without -z shows them")
    unreadable = [member for member in nodes.members if member.why is not None]
    for member in unreadable:
        print_note(f"member {member.consumer_id} cannot be read, so no member of the group can rebalance: {member.why}")
    for tp in sorted(nodes.sessionless, key=str):
        print_note(f"the owner node of {tp}: {SESSIONLESS}")
    idle = surplus(nodes.threads, nodes.partitions)
    for each in idle:
        print_note(str(each))
    write([*shown, *idle_rows(idle)], COLUMNS, output)
    print_unit(admin.dialect)


@groups.command(
    "members",
    examples=[
        "zkconsumer groups members -z zk1:2181/kafka --group billing",
        "zkconsumer groups members -b kafka1:9092 --group billing -o json",
    ],
)
@cluster_options(f"{BROKERS}  Without -z: members that Kafka coordinates.")
@group_option()
@output_option()
def members_command(options: ClusterOptions, group: str, output: str) -> None:
    """Print the members of a group.

    Host, subscription, streams and session of each, and why a node cannot be read.

    A node with session - outlives its member: `groups unblock` deletes it.  The mode is where a member commits its
    offsets: zookeeper, dual or kafka; JVM members publish none.

    With -b alone: the members that Kafka coordinates (0.9 and later), with client id and assigned partitions.
    """
    with options.client() as admin:
        if admin.session is None:
            found = coordinated(admin, read_cluster(admin), group)
            write([coordinated_row(member) for member in found.members], KAFKA_MEMBERS, output)
            print_note(str(found))
            return
        nodes = read_group(admin.session, admin.dialect, group)
        for sentence in nodes.left_out:
            admin.tell(f"{sentence}: left out")
        modes = read_modes(admin.session, group)
    for member in nodes.members:
        if not member.session:
            print_note(f"the id node of member {member.consumer_id}: {SESSIONLESS}")
    write([member_row(member, modes.get(member.consumer_id)) for member in nodes.members], MEMBERS, output)


# groups that Kafka coordinates ----------------------------------------------------------------------------------------


def coordinated(admin: AdminClient, cluster: Cluster, group: str) -> CoordinatedGroup:
    """Return a group by its coordinator.  Ends the command for brokers that have none, and when it is not known."""
    if not admin.coordinates:
        fail(
            f"brokers of Kafka {admin.dialect.release} coordinate no groups, their members are in ZooKeeper: give -z,"
            " or the release with --kafka-version",
            EXIT["usage"],
        )
    found = read_coordinated(admin, cluster, [group])[group]
    if found.why:
        fail(str(found), EXIT["runtime"])
    if not found.there:
        fail(f"group {group} is not known to its coordinator", EXIT["not found"])
    return found


def kafka_rows(admin: AdminClient, group: str) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """Return the rows in the order of COLUMNS for a group in Kafka alone, and a row for each member without a
    partition.

    Ends the command when Kafka knows nothing of the group."""
    cluster = read_cluster(admin)
    found = None
    if admin.coordinates:
        found = read_coordinated(admin, cluster, [group])[group]
        print_note(str(found))
    owners = found.owners if found is not None else {}
    topics = found.topics if found is not None else set()
    reads = {TopicPartition(topic, p) for topic in topics for p in cluster.partitions.get(topic, ())}
    held = read_snapshots(admin, [group], cluster, also={group: reads})[group]
    if not known(admin, held) and not (found is not None and found.there):
        fail(f"group {group} is not known to {where_from(admin)}", EXIT["not found"])
    tell_odd([held])
    ages = commit_times(admin, cluster, held)
    rows = []
    for tp in held.partitions():
        start, end = held.bounds.get(tp, (None, None))
        at = held.in_kafka(tp).position
        readable = held.readable_end(tp, at)
        row = GroupRow(tp.topic, tp.partition, owners.get(tp), at, end=end, start=start, readable=readable)
        rows.append(partition_row(row, "kafka", age(written_at(held, tp, "kafka", ages), held)))
    idle = [member for member in found.members if not member.partitions] if found is not None else []
    return rows, [(None, None, member.member_id, *[None] * 5) for member in idle]


def coordinated_row(member: CoordinatedMember) -> tuple[object, ...]:
    """Return a row in the order of KAFKA_MEMBERS."""
    by_topic: dict[str, list[str]] = {}
    for tp in member.partitions:
        by_topic.setdefault(tp.topic, []).append(str(tp.partition))
    assigned = " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items())
    subscribed = ",".join(member.topics) or None
    return (member.member_id, member.client_id, member.host, subscribed, assigned or None, member.why or None)


def kafka_members(held: GroupSnapshot) -> str:
    """Return the members in Kafka, shortened."""
    names = held.kafka_members or ()
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def partition_row(row: GroupRow, store: str | None = "zookeeper", age: str | None = None) -> tuple[object, ...]:
    """Return a row in the order of COLUMNS; the reason for an unreadable offset goes to stderr."""
    if isinstance(row.committed, Unknown):
        print_note(f"{row.topic}/{row.partition}: {row.committed.reason}")
    committed = row.committed if isinstance(row.committed, int) else None
    partition = row.partition if isinstance(row.partition, int) else str(row.partition)
    where = store if row.committed is not NONE else None
    return (row.topic, partition, row.owner, committed, row.end, row.lag, where, age)


def idle_rows(idle: list[Surplus]) -> list[tuple[object, ...]]:
    """Return a row without a partition for each thread without one."""
    return [(each.topic, None, thread, *[None] * 5) for each in idle for thread in each.idle]


def member_row(member: GroupMember, shown: MemberMode | ModeUnreadable | None) -> tuple[object, ...]:
    """Return a row in the order of MEMBERS; the reason for an unreadable mode goes to stderr."""
    if isinstance(shown, ModeUnreadable):
        print_note(str(shown))
    mode = shown.mode if isinstance(shown, MemberMode) else None
    found = member.registration
    subscription = ",".join(found.subscription) if found is not None else None
    streams = sum(found.subscription.values()) if found is not None else None
    session = f"{member.session:#x}" if member.session else None
    pattern = found.pattern if found is not None else None
    return (member.consumer_id, member.host, pattern, subscription, streams, session, mode, member.why)
