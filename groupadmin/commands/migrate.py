"""`zkconsumer migrate`: groups off ZooKeeper, and back.

    plan      what would become of each partition          copy      into Kafka, of stopped groups
    check     what stands in the way                        verify    read back; or that members commit to both stores
    status    where each group is                           cutover   from here on Kafka counts
    (--report: all of it, with undo commands)               rollback  ZooKeeper counts again

The order, and what to look at: docs/migration.md.
"""

from __future__ import annotations

import click

from groupadmin.commands.migrateplan import check_command, plan_command
from groupadmin.commands.migratestatus import status_command
from groupadmin.commands.migratesteps import copy_command, cutover_command, rollback_command, verify_command


@click.group()
def migrate() -> None:
    """Move consumer groups from ZooKeeper to Kafka, or back; planned first, and resumable."""


for command in (
    plan_command,
    check_command,
    copy_command,
    verify_command,
    cutover_command,
    rollback_command,
    status_command,
):
    migrate.add_command(command)
