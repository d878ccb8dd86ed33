"""`zkconsumer verify-rebalance GROUP`: check that every partition is owned by the right thread."""

from __future__ import annotations

import click

from groundwork.commands import Command
from groundwork.output import EXIT, write
from groundwork.plural import counted
from groundwork.tasks import sleep
from groundwork.zksecurity import ZooKeeper
from groupadmin.snapshot.groups import GroupNodes, read_group
from zkconsumer.commands.common import Connection, connected, print_note
from zkconsumer.commands.options import group_name, kafka_version_option, output_option, zookeeper_option
from zkconsumer.group.verify import Finding, GroupFacts, verify

COLUMNS = ("finding", "topic", "partition", "member", "fault", "text")
STRATEGIES = ("range", "roundrobin")


@click.command(
    "verify-rebalance",
    cls=Command,
    examples=[
        "zkconsumer verify-rebalance billing -z zk1:2181/kafka",
        "zkconsumer verify-rebalance billing -z zk1:2181/kafka --strategy roundrobin",
        "zkconsumer verify-rebalance billing -z zk1:2181/kafka --settle-s 10 -o json",
    ],
)
@click.argument("group", callback=group_name)
@zookeeper_option()
@click.option("--strategy", type=click.Choice(STRATEGIES), help="Partition assignment strategy (default: detected).")
@click.option(
    "--settle-s",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Repeat for this many seconds while there are faults: a rebalance may be in progress.",
)
@kafka_version_option
@output_option()
def verify_rebalance(
    group: str, zookeeper: ZooKeeper, strategy: str | None, settle_s: float, kafka_version: str, output: str
) -> None:
    """Check the owners of a group against its assignment.

    Compares the owner nodes with the members and with the assignment that they should have, and prints faults.

    Exit code 0: healthy; 4: there are faults; 5: no such group.  More threads than partitions are only reported.
    """
    with connected(zookeeper, kafka_version) as reach:
        nodes, findings = _look(reach, group, strategy)
        left_s = settle_s
        while left_s > 0 and any(finding.fault for finding in findings):
            pause_s = min(0.5, left_s)
            sleep(pause_s)
            left_s -= pause_s
            nodes, findings = _look(reach, group, strategy)
    write([_row(finding) for finding in findings], COLUMNS, output)
    faults = sum(finding.fault for finding in findings)
    print_note(
        f"group {group}: {counted(len(nodes.members), 'member')}, {counted(len(nodes.owners), 'owned partition')}, "
        f"{counted(faults, 'fault')}"
    )
    if faults:
        click.get_current_context().exit(EXIT["partly"])


def facts(nodes: GroupNodes) -> GroupFacts:
    """The facts about a group for verify()."""
    return GroupFacts(
        {member.consumer_id: member.streams for member in nodes.members if member.why is None},
        nodes.owners,
        nodes.partitions,
        {member.consumer_id: member.why for member in nodes.members if member.why is not None},
    )


def _look(reach: Connection, group: str, strategy: str | None) -> tuple[GroupNodes, list[Finding]]:
    nodes = read_group(reach.session, reach.dialect, group)
    return nodes, verify(facts(nodes), strategy)


def _row(finding: Finding) -> tuple[object, ...]:
    """A row in the order of COLUMNS."""
    topic, partition = finding.tp if finding.tp is not None else (None, None)
    number = partition if isinstance(partition, int | None) else str(partition)
    return (finding.kind, topic, number, finding.member, finding.fault, finding.text)
