"""`zkconsumer offsets translate`: move a group to the cluster that its topics are mirrored to.

1  read the map, then the target's log ends, then the group's offsets and the source's log ends: in this order no
   message counts as read, or as copied, that was not
2  groupadmin.translation: a safe offset and a bound for each target partition, or the reason why there is none
3  plan and execute, as every command that writes offsets (offsetedit)

The --source options name the cluster that the group leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from groundwork.commands import Command, as_argument
from groundwork.output import EXIT, fail, write
from groundwork.sentences import counted
from groundwork.zksecurity import ZooKeeper
from groupadmin.commands.editoptions import ClusterOptions, Edit, edit_options, stores_named, tell_some
from groupadmin.commands.offsetedit import execute_plan, plan_rows
from groupadmin.commands.offsetplans import planned
from groupadmin.commands.offsetviews import known, tell_odd
from groupadmin.plan.changes import Change
from groupadmin.plan.resets import Bounds, Problem, TargetOffset
from groupadmin.snapshot.cluster import AdminClient, Cluster, client_of, read_cluster
from groupadmin.snapshot.logends import log_bounds
from groupadmin.snapshot.model import GroupSnapshot, active_members, counts, held_by, stores_of
from groupadmin.snapshot.reader import read_snapshots
from groupadmin.translation import Facts, Safe, translated
from kafkawire.model import TopicPartition
from zkconsumer.commands.common import print_note
from zkconsumer.commands.options import (
    _addresses,
    _release,
    connect_string,
    group_name,
    group_option,
)
from zkconsumer.offsetmap.file import read_map
from zkconsumer.offsetmap.records import OffsetMap, merged
from zkconsumer.offsetmap.topic import Slots, read_topic
from zkconsumer.offsets.store import Unknown

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Source:
    """Options of the source cluster.  store: the store whose offsets count; None: by the members' modes."""

    cluster: ClusterOptions
    store: str | None


def _source(
    source: str | None,
    source_config: Path | None,
    source_brokers: list[tuple[str, int]],
    source_version: str,
    source_store: str | None,
) -> Source:
    zookeeper = _zookeeper(source, source_config)
    if zookeeper is None and not source_brokers:
        raise click.UsageError("--source (ZooKeeper of the cluster that the group reads now) is missing")
    return Source(ClusterOptions(zookeeper, source_version, source_brokers), source_store)


def _zookeeper(connect: str | None, file: Path | None) -> ZooKeeper | None:
    from zkconsumer.commands.zkconfig import read_values, zookeeper_of

    if file is None:
        return None if connect is None else ZooKeeper(connect)
    values, jvm = read_values(file)
    return zookeeper_of(connect, values, file.name, jvm)


source_options = as_argument(  # passes Source as source
    "source",
    _source,
    [
        click.option(
            "--source",
            metavar="HOST:PORT/CHROOT",
            callback=connect_string,
            help="ZooKeeper of the source cluster, which the group reads now.",
        ),
        click.option(
            "--source-config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Consumer options for the source, .yaml or .properties: zookeeper.connect, .auth, .ssl.*",
        ),
        click.option(
            "--source-brokers",
            metavar="HOST:PORT,…",
            callback=_addresses,
            help="Brokers of the source (default with --source: those that are registered).",
        ),
        click.option(
            "--source-version",
            default="0.8.2",
            show_default=True,
            callback=_release,
            help="Release of the source's brokers.",
        ),
        click.option(
            "--source-store",
            type=click.Choice(("zookeeper", "kafka", "both")),
            help="Offset store on the source (default: what the members' modes say, else where it has offsets).",
        ),
    ],
)


PLAN = ("group", "topic", "partition", "store", "before", "after", "from", "repeats", "action")
Rows = dict[TopicPartition, Safe | Problem]


@click.command(
    "translate",
    cls=Command,
    examples=[
        "zkconsumer offsets translate --map orders.offsetmap --source zk1:2181 -z zk2:2181 --group billing",
        "zkconsumer offsets translate --map orders.offsetmap --source zk1:2181 -z zk2:2181 --group billing --execute",
    ],
)
@click.option(
    "--map",
    "maps",
    multiple=True,
    required=True,
    metavar="FILE|TOPIC",
    help="Offset map of the mirror: a file (one --map for each mirror of its group), or a topic of the target.",
)
@group_option(help="Name of the group on the source cluster.")
@click.option(
    "--to-group", metavar="GROUP", callback=group_name, help="Name of the group on the target (default: the same)."
)
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic of the target; repeatable.")
@source_options
@edit_options
def translate_command(
    maps: tuple[str, ...],
    group: str,
    to_group: str | None,
    topics: tuple[str, ...],
    source: Source,
    edit: Edit,
) -> None:
    """Set a group's offsets in a mirror's target by its offset map.

    Moves the group to the cluster that its topics are mirrored to.

    --source is the cluster that it reads now, -z and -b are the cluster that is written.  There it will read every
    message that it had not read, and at most `repeats` messages of a partition twice.  Stop the group first.
    """
    with edit.cluster.client() as target, source.cluster.client() as origin:
        mine = to_group or group
        cluster = read_cluster(target)
        offsets = merged(_map(target, cluster, name) for name in maps)
        rows = _translated(
            target, cluster, origin, group=group, offsets=offsets, source=source, topics=topics, force=edit.force_active
        )
        found = read_snapshots(target, [mine], cluster, also={mine: list(rows)})[mine]
        tell_odd([found])
        if not known(target, found):
            print_note(f"group {mine} is not known yet on the target: it would be a new one")
        changes = _changes(target, cluster, found, rows=rows, edit=edit)
        execute_plan(target, cluster, {mine: found}, changes, edit=edit, show=partial(_show, rows))


def _map(target: AdminClient, cluster: Cluster, name: str) -> OffsetMap:
    """Return the offset map in a file, or in a topic of the target."""
    if Path(name).is_file():
        return read_map(name).map
    if name not in cluster.topics:
        raise click.UsageError(f"--map {name} is neither a file nor a topic of the target")
    return read_topic(client_of(target, cluster), name, Slots(), sleep=target.sleep, now=target.now).map


def _translated(
    target: AdminClient,
    cluster: Cluster,
    origin: AdminClient,
    *,
    group: str,
    offsets: OffsetMap,
    source: Source,
    topics: Sequence[str],
    force: bool,
) -> Rows:
    """Return a row for each partition of the target topics that the group's partitions feed."""
    there = {topic: [TopicPartition(topic, p) for p in ps] for topic, ps in cluster.partitions.items()}
    fed = {name for topic in {tp.topic for tp in offsets.periods} for name in (topic, *offsets.names(topic))}
    ends = log_bounds(target, cluster, [tp for topic in fed for tp in there.get(topic, ())])
    read, logs = _read(origin, group, offsets=offsets, source=source, force=force)
    rows = translated(offsets, Facts(ends, logs, read), there)
    chosen = {tp: row for tp, row in rows.items() if not topics or tp.topic in topics}
    if not chosen:
        fail(f"no partition that group {group} reads is in the map, or none for --topic", EXIT["refused"])
    return chosen


def _read(
    origin: AdminClient, group: str, *, offsets: OffsetMap, source: Source, force: bool
) -> tuple[dict[TopicPartition, int], Mapping[TopicPartition, Bounds]]:
    """Return the group's offsets in the source for topics in the map, and the bounds of these logs."""
    cluster = read_cluster(origin)
    mapped = {tp.topic for tp in offsets.periods}
    wanted = [TopicPartition(topic, p) for topic in mapped for p in cluster.partitions.get(topic, ())]
    found = read_snapshots(origin, [group], cluster, also={group: wanted})[group]
    tell_odd([found])
    if not known(origin, found):
        fail(f"group {group} is not known on the source cluster", EXIT["not found"])
    active = active_members(found)
    if active is not None and not force:
        fail(f"on the source cluster {active}; stop it first, or give --force-active", EXIT["refused"])
    stores = stores_named(source.store) or stores_of(found, origin.session is not None)
    at = {tp: counts(found, tp, stores) for tp in found.partitions() if tp.topic in mapped}
    unread = [f"{tp}: {each.reason}" for tp, each in at.items() if isinstance(each, Unknown)]
    if unread:
        tell_some(unread)
        fail(f"{counted(len(unread), 'position')} of group {group} on the source cannot be read", EXIT["refused"])
    former = [f"{tp}: {at[tp]} is of an earlier topic" for tp in at if found.former_stores(tp).intersection(stores)]
    if former:
        tell_some(former)
        fail(
            f"{counted(len(former), 'position')} of group {group} committed before the topic was created again; give"
            " the group positions in the new log first (zkconsumer offsets reset on the source cluster)",
            EXIT["refused"],
        )
    others = sorted({tp.topic for tp in found.partitions() if _has_position(found, tp)} - mapped)
    if others:
        print_note(f"topics that are not in the map are left out: {', '.join(others)}")
    read = {tp: each for tp, each in at.items() if isinstance(each, int)}
    # The high watermark of a leader that was just elected may be lower than what was mirrored.
    wanted = [tp for tp in {*wanted, *at} if cluster.has(tp)]
    return read, log_bounds(origin, cluster, wanted, read, replicated=False)


def _has_position(found: GroupSnapshot, tp: TopicPartition) -> bool:
    """True if either store of the source holds an offset."""
    return any(isinstance(held_by(found, tp, store), int) for store in ("kafka", "zookeeper"))


def _changes(target: AdminClient, cluster: Cluster, found: GroupSnapshot, *, rows: Rows, edit: Edit) -> list[Change]:
    stores = edit.stores or stores_of(found, target.session is not None)
    after: dict[TopicPartition, TargetOffset | Problem] = {
        tp: row if isinstance(row, Problem) else TargetOffset(row.position, _note(tp, row)) for tp, row in rows.items()
    }
    return planned(cluster, found, after, stores=stores, policy=edit.out_of_range)


def _note(tp: TopicPartition, safe: Safe) -> str:
    return f"{tp}: {safe.note}" if safe.note else ""


def _show(rows: Rows, changes: Sequence[Change], output: str) -> None:
    """Print the plan, with the origin of each offset (the map, or the start of the log) and the bound of messages that
    are read twice."""
    shown = []
    for change in changes:
        row = rows[change.tp]
        safe = row if isinstance(row, Safe) else None
        more = (("map" if safe.mapped else "log start"), safe.repeats) if safe is not None else (None, None)
        shown += [(*each[:6], *more, each[6]) for each in plan_rows([change])]
    write(shown, PLAN, output)
    total = sum(row.repeats for row in rows.values() if isinstance(row, Safe))
    are = "is" if total == 1 else "are"
    print_note(f"at most {counted(total, 'message')} of {counted(len(rows), 'partition')} {are} read twice")
