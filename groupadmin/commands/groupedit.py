"""`zkconsumer groups delete | rename`: plan first, active groups refused, undo file kept."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from groundwork.commands import Command, dry_run_option, execute_option, output_option
from groundwork.output import EXIT, fail, write
from groundwork.sentences import counted
from groupadmin.apply.undofile import kafka_of, keep_undo, undo_command
from groupadmin.apply.writes import StoreWrite, delete_from_kafka, deletes_groups
from groupadmin.commands.editoptions import (
    ClusterOptions,
    Edit,
    cluster_options,
    edit_options,
    end_where_closed,
    force_option,
    stores_named,
    undo_dir_option,
    usage_errors,
)
from groupadmin.commands.offsetedit import execute_plan, refuse_active, refuse_coordinated, report
from groupadmin.commands.offsetplans import copied, two_groups
from groupadmin.commands.offsetviews import age, groups_option, snapshots, tell_odd
from groupadmin.plan.changes import Change, restorable
from groupadmin.snapshot.cluster import AdminClient, Cluster
from groupadmin.snapshot.model import BOTH, GroupSnapshot, held_by
from groupadmin.snapshot.reader import read_snapshots
from groupadmin.snapshot.tree import delete_tree, everything_below
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from kafkawire.znodes.group import CONSUMERS
from zkconsumer.commands.common import print_note
from zkconsumer.commands.options import go_ahead, group_name
from zkconsumer.offsets.store import NONE
from zkconsumer.options.arguments import parse_duration
from zkconsumer.session.nodes import delete_nodes, read_nodes

PLAN = ("group", "zookeeper", "kafka", "youngest", "action")


@click.command(
    "delete",
    cls=Command,
    examples=[
        "zkconsumer groups delete -z zk1:2181/kafka -b kafka1:9092 --group billing",
        "zkconsumer groups delete -z zk1:2181/kafka --group 'console-consumer-.*' --regex --inactive-for 30d --execute",
    ],
)
@cluster_options()
@groups_option
@click.option("--storage", type=click.Choice(("zookeeper", "kafka", "both")), default="both", show_default=True)
@click.option(
    "--inactive-for",
    metavar="30d",
    help="Only groups without a commit or member in ZooKeeper for that long, by ZooKeeper's clock; one that never"
    " committed goes by the age of its node.",
)
@execute_option
@dry_run_option
@force_option
@undo_dir_option
@output_option()
def delete_command(
    options: ClusterOptions,
    groups: tuple[str, ...],
    regex: bool,
    storage: str,
    inactive_for: str | None,
    execute: bool,
    dry_run: bool,
    force_active: bool,
    undo_dir: Path,
    output: str,
) -> None:
    """Delete groups from ZooKeeper, and their offsets from Kafka.

    All nodes of a group in ZooKeeper go.

    Kafka before 1.1 deletes the offsets at its next check, within ten minutes by default.  Groups with members are
    refused.  The undo file restores the offsets.  With --inactive-for, groups of unknown age are left alone: those
    with nodes of other clients and, unless with --storage zookeeper, those with offsets in Kafka.
    """
    if not groups:
        raise click.UsageError("--group is missing (with --regex, '.*' is all of them)")
    with usage_errors():
        quiet_ms = parse_duration(inactive_for) if inactive_for is not None else None
    stores = stores_named(storage) or BOTH
    with options.client() as admin:
        found, cluster = snapshots(admin, groups, regex)
        youngest = _youngest(admin, found)
        quiet = {
            name for name, each in found.items() if quiet_ms is None or _quiet(each, youngest[name], quiet_ms, stores)
        }
        chosen = {name: found[name] for name in found if name in quiet}
        write([_row(each, youngest[name], stores, name in chosen) for name, each in found.items()], PLAN, output)
        sys.stdout.flush()  # before what follows on stderr
        if quiet_ms is not None and "kafka" in stores:
            _tell_ageless(each for each in found.values() if _in_kafka(each))
        tell_odd(chosen.values())
        refuse_coordinated(chosen.values(), stores)
        refuse_active(chosen.values(), force_active)
        what = f"delete {counted(len(chosen), 'group')} in {' and '.join(sorted(stores))}"
        if not chosen:
            print_note("nothing to delete")
        elif go_ahead(execute, what, dry_run):
            if quiet_ms is not None:
                _refuse_young(admin, chosen, youngest, quiet_ms)
            delete_groups(admin, cluster, chosen, stores=stores, undo_dir=undo_dir, force_active=force_active)
    end_where_closed(admin)


def delete_groups(
    admin: AdminClient,
    cluster: Cluster,
    groups: dict[str, GroupSnapshot],
    *,
    stores: Sequence[StoreName],
    undo_dir: Path,
    force_active: bool,
) -> None:
    """Delete groups, after a last check for members.  Ends the command with 4 when nodes or offsets are left.

    The undo file has the offsets as they are now: the operator may have been asked for a while.  With DeleteGroups it
    has those of all partitions, however many groups there are, since all of them are deleted.
    """
    also = {name: each.partitions() for name, each in groups.items()}
    whole = "kafka" in stores and deletes_groups(admin)
    now = read_snapshots(admin, groups, cluster, also=also, wide=whole, bounds=False)
    refuse_coordinated(now.values(), stores)
    refuse_active(now.values(), force_active)
    writes = [change for name, each in now.items() for change in _gone(each, stores, groups[name])]
    if writes:
        undo = keep_undo(admin, now, writes, undo_dir)
        print_note(f"undo: {undo_command(admin, undo, writes)}")
    left = []
    if "kafka" in stores:
        held = kafka_of(now)
        gone = [
            StoreWrite(change.group, change.tp, "kafka", None, held=held.get((change.group, change.tp)))
            for change in writes
            if change.before.get("kafka", NONE) is not NONE
        ]
        if gone:
            done = delete_from_kafka(admin, cluster, gone)
            report(done)
            left += [f"{row.write.tp} of group {row.write.group} in Kafka" for row in done if row.state != "written"]
    if "zookeeper" in stores and admin.session is not None:
        for group in groups:
            left += delete_tree(admin.session, group, everything_below(admin.session, group), force_active)
    if left:
        some = ", ".join(left[:3]) + (f" and {len(left) - 3} more" if len(left) > 3 else "")
        fail(f"not (yet) gone: {some}", EXIT["partly"])
    print_note(f"{counted(len(groups), 'group')} deleted")


@click.command(
    "rename",
    cls=Command,
    examples=[
        "zkconsumer groups rename billing invoices -z zk1:2181/kafka -b kafka1:9092",
        "zkconsumer groups rename billing invoices -z zk1:2181/kafka --execute",
    ],
)
@click.argument("old", callback=group_name)
@click.argument("new", callback=group_name)
@edit_options
def rename_command(
    old: str,
    new: str,
    edit: Edit,
) -> None:
    """Copy the offsets of a group to another name, then delete it.

    The offsets of OLD are copied to NEW in each store and read back before OLD is deleted.

    NEW may have no offsets yet.  OLD keeps its offsets until all are copied.
    """
    two_groups(old, new)
    with edit.cluster.client() as admin:
        found, cluster = snapshots(admin, [old], False)
        source = found[old]
        tell_odd([source])
        refuse_coordinated([source], edit.stores or BOTH)
        refuse_active([source], edit.force_active)
        mine, changes = copied(admin, cluster, source, new, merge=False, stores=edit.stores, policy=edit.out_of_range)
        left = [change for change in changes if change.action == "skipped"]
        if left:
            fail(
                f"{counted(len(left), 'position')} would not be copied, the first of {left[0].tp} "
                f"({left[0].why}), and go "
                f"with {old} all the same: use `zkconsumer offsets copy-group`, or --clamp",
                EXIT["refused"],
            )
        texts: dict[tuple[str, TopicPartition], str] = {
            (new, tp): row.metadata for tp, row in source.kafka.items() if row.metadata
        }
        if execute_plan(admin, cluster, {new: mine}, changes, edit=edit, texts=texts):
            delete_groups(
                admin,
                cluster,
                {old: source},
                stores=edit.stores or BOTH,
                undo_dir=edit.undo_dir,
                force_active=edit.force_active,
            )


def _gone(each: GroupSnapshot, stores: Sequence[StoreName], planned: GroupSnapshot) -> list[Change]:
    """Return the offsets that are deleted with a group, as changes for the undo file.  planned: its snapshot of before;
    what cannot be read any more is taken from there."""
    found = []
    for tp in each.partitions():
        before = {}
        for store in stores:
            there = held_by(each, tp, store)
            before[store] = there if restorable(there) else held_by(planned, tp, store)
        held = tuple(store for store, there in before.items() if there is not NONE)
        if held:
            bounds = planned.bounds.get(tp)
            found.append(Change(each.group, tp, before, None, bounds=bounds, action="write", why="", stores=held))
    return found


def _youngest(admin: AdminClient, groups: Mapping[str, GroupSnapshot]) -> dict[str, int | None]:
    """Return when each group last wrote an offset to ZooKeeper, ms since 1970; of one that never did, when its node was
    created.  None: not known, since other clients' nodes may hold its offsets, or it is not in ZooKeeper."""
    found = {
        name: max((row.mtime_ms for rows in (each.zookeeper, each.offset_path) for row in rows.values()), default=None)
        for name, each in groups.items()
    }
    homes = {f"{CONSUMERS}/{name}": name for name, at in found.items() if at is None and not groups[name].foreign}
    if admin.session is not None:
        for path, node in read_nodes(admin.session, homes).items():
            found[homes[path]] = None if node is None else node.ctime_ms
    return found


def _quiet(each: GroupSnapshot, youngest: int | None, for_ms: int, stores: Sequence[StoreName]) -> bool:
    """True if the data to delete is that old.  A group that continued in Kafka has old nodes, and is not inactive."""
    if "kafka" in stores and _in_kafka(each):
        return False
    return youngest is not None and each.read_at_ms - youngest >= for_ms


def _refuse_young(
    admin: AdminClient, groups: Mapping[str, GroupSnapshot], youngest: Mapping[str, int | None], for_ms: int
) -> None:
    """Refuse (exit 3) groups that are not that old by ZooKeeper's clock, which wrote the times.

    ZooKeeper tells its time only by what is written: an ephemeral node in a group that is deleted next.
    """
    assert admin.session is not None, "a group without a node has no age"
    path = f"{CONSUMERS}/{next(iter(groups))}/deleting"
    admin.session.create({path: b""}, ephemeral=True)
    node = read_nodes(admin.session, [path])[path]
    delete_nodes(admin.session, {path: -1})
    if node is None:
        fail(f"ZooKeeper's time is not known: {path} vanished; nothing was deleted, try again", EXIT["refused"])
    for name, each in groups.items():
        at = youngest[name]
        if at is None or node.ctime_ms - at < for_ms:
            ago = age(at, replace(each, read_at_ms=node.ctime_ms))
            fail(
                f"this machine's clock is ahead of ZooKeeper's, by which group {name} was written {ago} ago: nothing"
                " was deleted; synchronize the clocks (NTP)",
                EXIT["refused"],
            )


def _in_kafka(each: GroupSnapshot) -> bool:
    """True if Kafka has, or may have, offsets of the group."""
    return any(row.position is not NONE for row in each.kafka.values())


def _tell_ageless(groups: Iterable[GroupSnapshot]) -> None:
    names = [each.group for each in groups]
    if names:
        print_note(
            f"{counted(len(names), 'group')}, {names[0]} for one, {'has' if len(names) == 1 else 'have'} offsets in "
            "Kafka, which does not tell how old they are: "
            "left alone; --storage zookeeper deletes their nodes only, without --inactive-for they are deleted whole"
        )


def _row(each: GroupSnapshot, youngest: int | None, stores: Sequence[StoreName], chosen: bool) -> tuple[object, ...]:
    """Return a row in the order of PLAN, with the number of offsets in each store."""
    held = [sum(held_by(each, tp, store) is not NONE for tp in each.partitions()) for store in ("zookeeper", "kafka")]
    return (each.group, *held, age(youngest, each), "delete" if chosen else "left alone")
