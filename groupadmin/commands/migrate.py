"""`zkconsumer migrate`: groups from ZooKeeper to Kafka, and back.

    plan      decide about each partition                   copy      copy offsets of stopped groups to Kafka
    check     find obstacles                                verify    read a copy back; or check commits to both stores
    status    phase of each group                           cutover   from now on Kafka's offsets count
    (--report: the whole report with undo commands)         handover  from now on Kafka coordinates the members
    rollback  ZooKeeper's offsets count again               takeback  ZooKeeper's members again, offsets stay in Kafka

The order of the commands, and what to watch: docs/migration.md.
"""

from __future__ import annotations

import click

from groundwork.commands import Group
from groupadmin.commands.migrateplan import check_command, plan_command
from groupadmin.commands.migratestatus import status_command
from groupadmin.commands.migratesteps import (
    copy_command,
    cutover_command,
    handover_command,
    rollback_command,
    takeback_command,
    verify_command,
)


@click.group(
    cls=Group,
    examples=[
        "zkconsumer migrate plan -z zk1:2181 --group billing --plan billing.json",
        "zkconsumer migrate check -z zk1:2181 --plan billing.json",
        "zkconsumer migrate copy -z zk1:2181 --plan billing.json --execute",
    ],
)
def migrate() -> None:
    """Move consumer groups from ZooKeeper to Kafka, or back.

    Planned first, and resumable.
    """


for command in (
    plan_command,
    check_command,
    copy_command,
    verify_command,
    cutover_command,
    handover_command,
    takeback_command,
    rollback_command,
    status_command,
):
    migrate.add_command(command)
