"""`zkconsumer verify-rebalance GROUP`: check that every partition is owned by the right thread."""

from __future__ import annotations

import click

from groundwork.commands import Command, output_option
from groundwork.output import EXIT, fail, write
from groundwork.sentences import counted
from groundwork.tasks import now, sleep
from groundwork.zksecurity import ZooKeeper
from groupadmin.snapshot.cluster import AdminClient, read_cluster
from groupadmin.snapshot.coordinated import read_coordinated
from groupadmin.snapshot.groups import GroupNodes, read_group
from zkconsumer.commands.common import Connection, connected, print_note
from zkconsumer.commands.options import group_name, kafka_version_option, zookeeper_option
from zkconsumer.errors import NoSuchGroup
from zkconsumer.group.verify import Finding, GroupFacts, verify

COLUMNS = ("finding", "topic", "partition", "member", "fault", "text")
STRATEGIES = ("range", "roundrobin")
PAUSE_S = 0.5  # between two checks of --settle-s


@click.command(
    "verify-rebalance",
    cls=Command,
    examples=[
        "zkconsumer verify-rebalance billing -z zk1:2181/kafka",
        "zkconsumer verify-rebalance billing -z zk1:2181/kafka --strategy roundrobin",
        "zkconsumer verify-rebalance billing -z zk1:2181/kafka --settle-s 10 -o json",
        "zkconsumer verify-rebalance billing -z zk1:2181/kafka --members 3 --settle-s 60",
    ],
)
@click.argument("group", required=False, metavar="GROUP", callback=group_name)
@zookeeper_option()
@click.option(
    "--group", "named", metavar="GROUP", callback=group_name, help="Group to check, in place of the argument."
)
@click.option("--strategy", type=click.Choice(STRATEGIES), help="Partition assignment strategy (default: detected).")
@click.option(
    "--settle-s",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Repeat for this many seconds while there are faults, or no such group yet: a rebalance may be in progress.",
)
@click.option("--members", type=click.IntRange(min=1), help="Number of members that the group should have at least.")
@kafka_version_option
@output_option()
def verify_rebalance(
    group: str | None,
    named: str | None,
    zookeeper: ZooKeeper,
    strategy: str | None,
    settle_s: float,
    members: int | None,
    kafka_version: str,
    output: str,
) -> None:
    """Check the owners of a group against its assignment.

    Compares the owner nodes with the members and with the assignment that they should have, and prints faults.

    Exit code 0: healthy; 4: there are faults, fewer members, or it is not known; 5: no such group, or one that Kafka
    coordinates.  More threads than partitions are only reported.
    """
    if group is not None and named is not None:
        raise click.UsageError("the group is given twice: as the argument and by --group")
    group = group or named
    if group is None:
        raise click.UsageError("the group is missing: give it as the argument GROUP, or by --group")
    with connected(zookeeper, kafka_version) as reach:
        deadline = now() + settle_s
        while True:
            try:
                nodes, findings = _look(reach, group, strategy)
            except NoSuchGroup:
                if now() >= deadline:
                    _refuse_coordinated(reach, group)
                    raise
            else:
                few = members is not None and len(nodes.members) < members
                if now() >= deadline or not (few or any(finding.fault for finding in findings)):
                    break
            sleep(PAUSE_S)
        if not nodes.members:
            _refuse_coordinated(reach, group)
    for sentence in nodes.left_out:
        print_note(f"{sentence}: left out")
    write([_row(finding) for finding in findings], COLUMNS, output)
    faults = sum(finding.fault for finding in findings)
    print_note(
        f"group {group}: {counted(len(nodes.members), 'member')}, {counted(len(nodes.owners), 'owned partition')}, "
        f"{counted(faults, 'fault')}" + (f"; --members asks for {members}" if few else "")
    )
    if faults or few:
        click.get_current_context().exit(EXIT["partly"])


def _refuse_coordinated(reach: Connection, group: str) -> None:
    """End the command (5) for a group whose members Kafka coordinates: it has no owner nodes to check.  With 4 if that
    is not known."""
    admin = AdminClient(reach.session, reach.links, reach.dialect, tell=print_note)
    if not admin.coordinates:
        return
    found = read_coordinated(admin, read_cluster(admin), [group])[group]
    if found.members:
        fail(
            f"group {group} has no member in ZooKeeper, and {counted(len(found.members), 'member')} that Kafka"
            " coordinates, whose partitions have no owner nodes; `zkconsumer groups members -b BROKERS` shows them",
            EXIT["not found"],
        )
    if found.why:
        fail(
            f"group {group} has no member in ZooKeeper, and whether Kafka coordinates members of it is not known:"
            f" {found.why}",
            EXIT["partly"],
        )


def facts(nodes: GroupNodes) -> GroupFacts:
    """Return the facts about a group for verify()."""
    return GroupFacts(
        {member.consumer_id: member.streams for member in nodes.members if member.why is None},
        nodes.owners,
        nodes.partitions,
        {member.consumer_id: member.why for member in nodes.members if member.why is not None},
        {member.consumer_id for member in nodes.members if not member.session},
        nodes.sessionless,
    )


def _look(reach: Connection, group: str, strategy: str | None) -> tuple[GroupNodes, list[Finding]]:
    nodes = read_group(reach.session, reach.dialect, group)
    return nodes, verify(facts(nodes), strategy)


def _row(finding: Finding) -> tuple[object, ...]:
    """Return a row in the order of COLUMNS."""
    topic, partition = finding.tp if finding.tp is not None else (None, None)
    number = partition if isinstance(partition, int | None) else str(partition)
    return (finding.kind, topic, number, finding.member, finding.fault, finding.text)
