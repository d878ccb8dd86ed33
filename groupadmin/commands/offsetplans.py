"""Plans of the commands that write offsets: they read the stores and plan the changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import click

from groundwork.output import EXIT, fail
from groundwork.sentences import counted
from groupadmin.commands.editoptions import Edit
from groupadmin.commands.offsetviews import known, tell_odd
from groupadmin.files.model import SavedRow
from groupadmin.plan.changes import Change, OutOfRangePolicy, plan_changes
from groupadmin.plan.resets import FromRows, Problem, Reset, ShiftBy, TargetOffset, asked_time, target_offsets
from groupadmin.plan.undo import by_store, texts
from groupadmin.snapshot.cluster import AdminClient, Cluster, read_cluster
from groupadmin.snapshot.logends import at_time, on_borders
from groupadmin.snapshot.model import GroupSnapshot, counts, held_by, stores_of
from groupadmin.snapshot.reader import read_snapshots
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.commands.common import print_note
from zkconsumer.offsets.store import NONE, Committed
from zkconsumer.options.arguments import Chosen, WrongUsage, existing, parse_partitions


def reset_plan(
    admin: AdminClient, group: str, kind: Reset, *, topics: Sequence[str], all_topics: bool, edit: Edit
) -> tuple[Cluster, GroupSnapshot, list[Change]]:
    """Return the plan of a reset.  Raises WrongUsage for topics that do not exist, or when none is chosen."""
    chosen = [parse_partitions(text) for text in topics]
    if all_topics == bool(topics) and not isinstance(kind, FromRows):
        raise WrongUsage("give --topic TOPIC[:0,1] or --all-topics")
    cluster = read_cluster(admin)
    tps = existing(chosen, cluster.partitions)
    if isinstance(kind, FromRows) and not tps:
        tps = list(kind.positions)
    found = one_group(admin, cluster, group, tps)
    if all_topics and not isinstance(kind, FromRows):
        tps = [tp for tp in found.partitions() if cluster.has(tp)]
    return cluster, found, changes_of(admin, cluster, found, kind=kind, tps=tps, edit=edit)


def import_plan(
    admin: AdminClient, rows: Sequence[SavedRow], group: str | None, edit: Edit
) -> tuple[Cluster, dict[str, GroupSnapshot], list[Change], dict[tuple[str, TopicPartition], str]]:
    """Return the plan of an import, with the metadata for Kafka.  Raises WrongUsage when rows name no group."""
    if group is None and any(row.group is None for row in rows):
        raise WrongUsage("the file does not name the group of every row: give --group")
    groups = [group] if group is not None else list(dict.fromkeys(row.group for row in rows if row.group is not None))
    mine = {name: rows_of(rows, name) for name in groups} if len(groups) == 1 else _by_group(rows)
    cluster = read_cluster(admin)
    found = read_snapshots(
        admin, groups, cluster, also={name: [row.tp for row in mine[name]] for name in groups}, wide=False
    )
    changes: list[Change] = []
    written: dict[tuple[str, TopicPartition], str] = {}
    for name in groups:
        changes += _put_back(admin, cluster, found[name], rows=mine[name], chosen=edit.stores, policy=edit.out_of_range)
        written |= {(name, tp): text for tp, text in texts(mine[name], name).items()}
    return cluster, found, changes, written


def delete_plan(
    admin: AdminClient, group: str, *, topics: Sequence[str], all_topics: bool, edit: Edit
) -> tuple[Cluster, GroupSnapshot, list[Change]]:
    """Return the plan of a deletion.  Raises WrongUsage when no topic is chosen."""
    if all_topics == bool(topics):
        raise WrongUsage("give --topic TOPIC[:0,1] or --all-topics")
    chosen = [parse_partitions(text) for text in topics]
    cluster = read_cluster(admin)
    found = one_group(admin, cluster, group)
    meant = [tp for tp in found.partitions() if all_topics or any(_meant(each, tp) for each in chosen)]
    return cluster, found, changes_of(admin, cluster, found, kind=FromRows(dict.fromkeys(meant)), tps=meant, edit=edit)


def two_groups(source: str, target: str) -> None:
    """Refuse equal groups."""
    if source == target:
        raise click.UsageError(f"{source} is named twice: two groups are expected")


def copied(
    admin: AdminClient,
    cluster: Cluster,
    source: GroupSnapshot,
    target: str,
    *,
    merge: bool,
    stores: tuple[StoreName, ...] | None,
    policy: OutOfRangePolicy,
) -> tuple[GroupSnapshot, list[Change]]:
    """Return the target, and the changes that copy the source's offsets to it.  Ends the command when it has offsets
    already."""
    tps = [tp for tp in source.partitions() if cluster.has(tp)]
    gone = [tp for tp in source.partitions() if not cluster.has(tp)]
    if gone:
        print_note(
            f"{counted(len(gone), 'partition')} left out, which do not exist any more: {', '.join(map(str, gone[:3]))}"
        )
    mine = read_snapshots(admin, [target], cluster, also={target: tps})[target]
    held = [
        tp for tp in mine.partitions() if any(held_by(mine, tp, store) is not NONE for store in ("kafka", "zookeeper"))
    ]
    if held and not merge:
        fail(
            f"group {target} has positions of {counted(len(held), 'partition')} already, as of {held[0]}; "
            "`zkconsumer offsets copy-group --merge` overwrites them",
            EXIT["refused"],
        )
    kept = stores or stores_of(source, admin.session is not None)
    wanted_by: dict[StoreName, dict[TopicPartition, TargetOffset | Problem]] = {}
    for store in kept:
        wanted_by[store] = {}
        for tp in tps:
            there = counts(source, tp, ("kafka", "zookeeper")) if stores is not None else held_by(source, tp, store)
            if isinstance(there, int):
                wanted_by[store][tp] = TargetOffset(there)
            elif there is not NONE:
                wanted_by[store][tp] = Problem(f"{tp} of group {source.group}: {there.reason}")
    return mine, _by_store(admin, cluster, mine, wanted_by=wanted_by, policy=policy)


# common to them -------------------------------------------------------------------------------------------------------


def one_group(admin: AdminClient, cluster: Cluster, group: str, also: Collection[TopicPartition] = ()) -> GroupSnapshot:
    """Return the snapshot of a group.  An unknown group is reported, since it may be misspelt; without partitions in
    `also` it cannot be a new one, and ends the command."""
    found = read_snapshots(admin, [group], cluster, also={group: also})[group]
    tell_odd([found])
    if not known(admin, found):
        if not also:
            fail(f"group {group} is not known", EXIT["not found"])
        print_note(f"group {group} is not known yet: it would be a new one")
    return found


def changes_of(
    admin: AdminClient,
    cluster: Cluster,
    found: GroupSnapshot,
    *,
    kind: Reset,
    tps: Sequence[TopicPartition],
    edit: Edit,
) -> list[Change]:
    """Return the changes of a reset for these partitions.  Raises WrongUsage when the kind is not possible."""
    if isinstance(kind, ShiftBy) and not admin.dialect.offsets.count_messages:
        raise WrongUsage(
            "--shift-by counts messages, and offsets of 0.7 are bytes: it is not known where the message that many"
            " before begins; use --to-earliest, --to-latest, --to-datetime, or an offset that was committed once"
        )
    stores = edit.stores or stores_of(found, admin.session is not None)
    committed: dict[TopicPartition, Committed] = {tp: counts(found, tp, stores) for tp in tps}
    time_ms = asked_time(kind, admin.clock_ms())
    by_time = at_time(admin, cluster, tps, time_ms) if time_ms is not None else None
    after = target_offsets(kind, tps, committed, bounds=found.bounds, by_time=by_time, time_ms=time_ms)
    changes = planned(cluster, found, after, stores=stores, policy=edit.out_of_range)
    return on_borders(admin, cluster, changes, edit.out_of_range)


def _put_back(
    admin: AdminClient,
    cluster: Cluster,
    found: GroupSnapshot,
    *,
    rows: Sequence[SavedRow],
    chosen: tuple[StoreName, ...] | None,
    policy: OutOfRangePolicy,
) -> list[Change]:
    held: list[StoreName] = []
    if any(row.kafka is not None for row in rows):
        held.append("kafka")
    if any(row.zookeeper is not None for row in rows):
        held.append("zookeeper")
    stores = chosen or tuple(held) or stores_of(found, admin.session is not None)
    asked = by_store(rows, found.group, stores)
    return _by_store(admin, cluster, found, wanted_by={store: dict(asked[store]) for store in stores}, policy=policy)


def _by_store(
    admin: AdminClient,
    cluster: Cluster,
    found: GroupSnapshot,
    *,
    wanted_by: Mapping[StoreName, Mapping[TopicPartition, TargetOffset | Problem]],
    policy: OutOfRangePolicy,
) -> list[Change]:
    changes: list[Change] = []
    for store, after in wanted_by.items():
        changes += planned(cluster, found, after, stores=(store,), policy=policy)
    return on_borders(admin, cluster, changes, policy)


def planned(
    cluster: Cluster,
    found: GroupSnapshot,
    after: Mapping[TopicPartition, TargetOffset | Problem],
    *,
    stores: Sequence[StoreName],
    policy: OutOfRangePolicy,
) -> list[Change]:
    """Return the changes that write these targets to stores of a group.  Raises as plan_changes()."""
    return plan_changes(
        found.group,
        after,
        {tp: {store: held_by(found, tp, store) for store in stores} for tp in after},
        bounds=found.bounds,
        existing={tp for tp in after if cluster.has(tp)},
        stores=stores,
        out_of_range=policy,
        former=found.former_stores,
    )


def rows_of(rows: Iterable[SavedRow], group: str) -> list[SavedRow]:
    """Return the rows of one group; rows without a group count as its own.  Raises WrongUsage when there are none."""
    found = [row for row in rows if row.group in (None, group)]
    if not found:
        raise WrongUsage(f"the file has no row of group {group}")
    return found


def _by_group(rows: Iterable[SavedRow]) -> dict[str, list[SavedRow]]:
    found: dict[str, list[SavedRow]] = {}
    for row in rows:
        found.setdefault(row.group or "", []).append(row)
    return found


def _meant(chosen: Chosen, tp: TopicPartition) -> bool:
    return tp.topic == chosen.topic and (chosen.partitions is None or tp.partition in chosen.partitions)
