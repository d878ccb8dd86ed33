"""Execution of a plan, common to all commands that write offsets: show, refuse, confirm, keep an undo file, write.

1  the plan, before -> after by partition and store, goes to stdout; the reasons to stderr
2  refused (exit 3, nothing is written): the group has members (unless --force-active), or an offset may not be written
3  confirmed by --execute, or a yes at the terminal; --dry-run always wins
4  the stores are read again if the confirmation took time; changed ones are refused
5  the undo file is on the disk before the first write
6  Kafka is written, then ZooKeeper, and each write is read back; a failed one is reported (exit 4)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import click

from groundwork.output import EXIT, Progress, fail, write
from groundwork.sentences import counted
from groupadmin.apply.undofile import kafka_of, keep_undo, merged, nodes_of, outside, undo_command
from groupadmin.apply.writes import WriteResult, apply_writes, store_writes
from groupadmin.commands.editoptions import Edit, tell_some
from groupadmin.plan.changes import Change, refused, restorable
from groupadmin.snapshot.cluster import AdminClient, Cluster
from groupadmin.snapshot.model import BOTH, GroupSnapshot, active_members, held_by
from groupadmin.snapshot.reader import members_now, read_snapshots
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.commands.common import print_note
from zkconsumer.commands.options import go_ahead
from zkconsumer.offsets.store import NONE, Committed, Unknown

PLAN = ("group", "topic", "partition", "store", "before", "after", "action")


def show_plan(changes: Iterable[Change], output: str) -> None:
    """Print the plan to stdout."""
    write(plan_rows(changes), PLAN, output)


def plan_rows(changes: Iterable[Change]) -> list[tuple[object, ...]]:
    """Return the rows in the order of PLAN: one for each store of each partition."""
    rows: list[tuple[object, ...]] = []
    for change in changes:
        partition = change.tp.partition if isinstance(change.tp.partition, int) else str(change.tp.partition)
        for store, before in sorted(change.before.items()):
            action: str = "unchanged" if change.action == "write" and store not in change.stores else change.action
            if action == "write" and change.after is None:
                action = "delete"
            after = None if change.after is None else shown(change.after)
            rows.append((change.group, change.tp.topic, partition, store, shown(before), after, action))
    return rows


def shown(there: Committed) -> object:
    """Return an offset for the output: None for none, a text for an unreadable one."""
    return there if isinstance(there, int) else None if there is NONE else "unreadable"


def execute_plan(
    admin: AdminClient,
    cluster: Cluster,
    snapshots: Mapping[str, GroupSnapshot],
    changes: Sequence[Change],
    *,
    edit: Edit,
    texts: Mapping[tuple[str, TopicPartition], str] | None = None,
    show: Callable[[Sequence[Change], str], object] = show_plan,
) -> bool:
    """Run steps 1 to 6 for a plan; return whether it was executed.  show: prints the plan.

    Ends the command with 3 when it is refused, and with 4 when a write failed.
    """
    show(changes, edit.output)
    sys.stdout.flush()  # before what follows on stderr
    tell_some(change.why for change in changes)
    writes = [change for change in changes if change.action == "write"]
    tell_some(_left_alone(snapshots[change.group], change) for change in merged(changes))
    _refuse(changes, [snapshots[group] for group in dict.fromkeys(c.group for c in writes)], edit)
    if not writes:
        print_note("nothing to write: the stores hold it already" if changes else "nothing to write")
        return False
    groups = list(dict.fromkeys(change.group for change in writes))
    whose = f"group {groups[0]}" if len(groups) == 1 else counted(len(groups), "group")
    began = time.monotonic()
    what = f"write {counted(sum(len(change.stores) for change in writes), 'offset')} of {whose}"
    if not go_ahead(edit.execute, what, edit.dry_run):
        return False
    _look_again(admin, cluster, writes, edit=edit, whole=time.monotonic() - began > 0.5)
    undo = keep_undo(admin, snapshots, writes, edit.undo_dir)
    print_note(f"undo: {undo_command(admin, undo, writes)}")  # before the writes, which may be interrupted
    done = _write(admin, cluster, snapshots, writes=writes, edit=edit, texts=texts)
    report(done)
    if any(row.state != "written" for row in done):
        fail(f"{sum(row.state != 'written' for row in done)} of {len(done)} failed, see above", EXIT["partly"])
    return True


def _left_alone(each: GroupSnapshot, change: Change) -> str:
    """Return a sentence when the other store has an offset of the group and is not written; else nothing."""
    others = [store for store in BOTH if store not in change.before and held_by(each, change.tp, store) is not NONE]
    if not others or isinstance(held_by(each, change.tp, others[0]), Unknown):
        return ""
    return (
        f"group {change.group} has positions in {others[0]} too, which are left as they are: for members that keep "
        "both stores the larger counts"
    )


def _refuse(changes: Sequence[Change], snapshots: Sequence[GroupSnapshot], edit: Edit) -> None:
    wrong = refused(changes)
    if wrong:
        fail(
            f"{len(wrong)} of {counted(len(changes), 'position')} refused, so nothing is written{_ways_out(wrong)}",
            EXIT["refused"],
        )
    refuse_coordinated(snapshots, {store for change in changes for store in change.stores})
    refuse_active(snapshots, edit.force_active)


def _ways_out(wrong: Sequence[Change]) -> str:
    """Return the options of the running command for offsets outside the log (Kafka's tools have others)."""
    if not any(change.after is not None and outside(change.after, change) for change in wrong):
        return ""
    offered = {name for option in click.get_current_context().command.params for name in option.opts}
    if "--clamp" in offered:
        return "; --clamp moves those outside the log to its nearer end, --skip-out-of-range leaves them alone"
    if "--keep-out-of-range" in offered:
        return "; --keep-out-of-range writes those outside the log as they are"
    return ""


def refuse_coordinated(snapshots: Iterable[GroupSnapshot], stores: Collection[StoreName]) -> None:
    """Refuse to write Kafka's offsets of groups with members that Kafka coordinates, and of share groups (exit 3).

    Brokers take offsets of such a group from its members alone, so that there is nothing to be forced.
    """
    for each in snapshots if "kafka" in stores else ():
        if each.share:
            fail(
                f"group {each.group} is a share group, whose offsets have requests of their own: use Kafka's"
                " kafka-share-groups; nothing was written",
                EXIT["refused"],
            )
        members = [name for name in each.kafka_members or () if not name.startswith("(")]
        if members:
            fail(
                f"group {each.group} has {counted(len(members), 'member')} that Kafka coordinates, {members[0]} for"
                " one, and brokers take the offsets of an active group from its members alone: stop them first; nothing"
                " was written",
                EXIT["refused"],
            )


def refuse_active(snapshots: Iterable[GroupSnapshot], force: bool) -> None:
    """Refuse groups with members (exit 3); with force they are only reported."""
    active = [text for text in map(active_members, snapshots) if text is not None]
    tell_some(active)
    if active and not force:
        fail(
            f"{counted(len(active), 'active group')}: what is written would be overwritten, or not "
            "be seen; stop the members first, or give --force-active",
            EXIT["refused"],
        )


def _look_again(admin: AdminClient, cluster: Cluster, writes: Sequence[Change], *, edit: Edit, whole: bool) -> None:
    """Refuse when groups have new members or, with whole, when offsets have changed since the plan."""
    groups = list(dict.fromkeys(change.group for change in writes))
    came = {group: members for group, members in members_now(admin, cluster, groups).items() if members}
    if came and not edit.force_active:
        group, members = next(iter(came.items()))
        fail(f"group {group} has members now, {members[0]} for one; nothing was written", EXIT["refused"])
    if not whole:
        return  # versions are compared when the nodes are written
    also = {group: [change.tp for change in writes if change.group == group] for group in groups}
    now = read_snapshots(admin, groups, cluster, also=also, wide=False, bounds=False)
    refuse_coordinated(now.values(), {store for change in writes for store in change.stores})
    refuse_active(now.values(), edit.force_active)
    for change in writes:
        for store, before in change.before.items():
            there = held_by(now[change.group], change.tp, store)
            if there != before and restorable(before):
                fail(
                    f"group {change.group}, {change.tp}: {store} held {shown(before)} and holds {shown(there)} now; "
                    "nothing was written, make the plan again",
                    EXIT["refused"],
                )


# writing --------------------------------------------------------------------------------------------------------------


def _write(
    admin: AdminClient,
    cluster: Cluster,
    snapshots: Mapping[str, GroupSnapshot],
    *,
    writes: Sequence[Change],
    edit: Edit,
    texts: Mapping[tuple[str, TopicPartition], str] | None,
) -> list[WriteResult]:
    wanted = store_writes(writes, nodes_of(snapshots), kafka_of(snapshots), texts)
    with Progress("writing offsets", len(wanted)) as progress:
        return apply_writes(admin, cluster, wanted, retention_ms=edit.retention_ms, progress=progress.update)


def report(done: Sequence[WriteResult]) -> None:
    """Print the results to stderr: a count, and a line for each failed write."""
    tell_some(
        f"group {row.write.group}, {row.write.tp} in {row.write.store}: {row.state}: {row.why}"
        for row in done
        if row.why
    )
    written = sum(row.state == "written" for row in done)
    print_note(f"{written} of {counted(len(done), 'offset')} written and read back")
