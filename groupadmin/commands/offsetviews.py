"""Reading and showing of groups and files, common to the commands about offsets.  Nothing is written."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from groundwork.output import EXIT, fail
from groundwork.sentences import counted
from groupadmin.commands.editoptions import tell_closed, tell_some
from groupadmin.commands.offsetedit import shown
from groupadmin.files.model import KafkaState, OffsetsFile, SavedRow, Source, WrittenKind, ZnodeState
from groupadmin.files.read import read_offsets
from groupadmin.files.write import torn, unsayable
from groupadmin.plan.undo import says_what
from groupadmin.snapshot import kafka as kafkaside
from groupadmin.snapshot.cluster import AdminClient, Cluster, read_cluster
from groupadmin.snapshot.groups import lag
from groupadmin.snapshot.model import BOTH, GroupSnapshot, counts, held_by, stores_of
from groupadmin.snapshot.reader import read_snapshots
from groupadmin.snapshot.tree import groups_in_zookeeper
from kafkawire.dialects import Store as StoreName
from kafkawire.model import BrokerPartition, TopicPartition
from zkconsumer.commands.common import print_note
from zkconsumer.commands.options import group_name
from zkconsumer.offsets.store import NONE, Committed, Unknown

GET = ("group", "topic", "partition", "committed", "start", "end", "lag", "store", "age")
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
F = TypeVar("F", bound=Callable[..., Any])
Keyed = dict[tuple[str, TopicPartition], object]


def groups_option(command: F) -> F:
    """Decorator: --group, repeatable, and --regex, passed as groups: tuple of str and regex: bool."""

    def named(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text for text in texts if group_name(ctx, param, text))

    regex = click.option("--regex", is_flag=True, help="--group is a regular expression for whole names.")
    group = click.option(
        "--group",
        "groups",
        multiple=True,
        metavar="GROUP",
        callback=named,
        help="Consumer group; repeatable.",
    )
    return group(regex(command))


def file_positions(path: Path, groups: tuple[str, ...]) -> Keyed:
    """Return the offsets in a file by group and partition; rows without a group count as those of the only --group."""
    file = read_file(path)
    found: Keyed = {}
    for row in file.rows:
        group = row.group or (groups[0] if len(groups) == 1 else None)
        if group is None:
            raise click.UsageError(f"{path} names no group: give one --group")
        if not groups or group in groups:
            found[group, row.tp] = row.position
    return found


def read_file(path: Path, zero_means_missing: bool = False) -> OffsetsFile:
    """Read an offsets file of any kind; its warnings go to stderr.  Raises FileUnclear."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"{path} is not text") from None
    file = read_offsets(text, zero_means_missing)
    for warning in file.warnings:
        print_note(f"{path.name}: {warning}")
    return file


def rows_to_write(path: Path, zero_means_missing: bool = False, by_store: bool = False) -> OffsetsFile:
    """Read an offsets file for writing its offsets, without rows that have no target (undo.says_what)."""
    file = read_file(path, zero_means_missing)
    rows = [row for row in file.rows if says_what(file, row, by_store)]
    left = [row for row in file.rows if not says_what(file, row, by_store)]
    if left:
        print_note(
            f"{path.name}: {counted(len(left), 'row has', 'rows have')} no position, the first {left[0].tp}: "
            "left as it is in the stores; "
            "`zkconsumer offsets delete` removes offsets"
        )
    return replace(file, rows=rows)


# reading --------------------------------------------------------------------------------------------------------------


def snapshots(
    admin: AdminClient, groups: Sequence[str], regex: bool, bounds: bool = True
) -> tuple[dict[str, GroupSnapshot], Cluster]:
    """Return the snapshots of the named or matching groups, or of all in ZooKeeper.  bounds: with log bounds.

    A group that is closed to us is left out (end_where_closed).  Ends the command when a group does not exist, and when
    all are closed.
    """
    cluster = read_cluster(admin)
    names = group_names(admin, groups, regex)
    found = read_snapshots(admin, names, cluster, bounds=bounds, closed=admin.closed)
    if not found:
        fail(next(iter(admin.closed.values())))
    tell_closed(admin)
    named = list(found) if groups and not regex else []  # matching ones were just listed
    unknown = [name for name in named if not known(admin, found[name])]
    if unknown:
        fail(f"group {', '.join(unknown)} is not known to {where_from(admin)}", EXIT["not found"])
    return found, cluster


def group_names(admin: AdminClient, groups: Sequence[str], regex: bool) -> list[str]:
    """Return the selected groups, sorted if matched by expression.  Ends the command when none matches."""
    if groups and not regex:
        return list(dict.fromkeys(groups))
    try:
        wanted = [re.compile(text) for text in groups or (".*",)]
    except re.error as e:
        raise click.UsageError(f"--group is not a regular expression: {e}") from None
    there = groups_in_zookeeper(admin.session) if admin.session is not None else groups_in_kafka(admin)
    names = [name for name in there if any(each.fullmatch(name) for each in wanted)]
    if not names:
        fail(f"no group of {where_from(admin)} matches", EXIT["not found"])
    return names


def groups_in_kafka(admin: AdminClient) -> list[str]:
    """Return the groups that the brokers list (0.9 and later: those with members, and from 0.10.1 on those with
    offsets).

    Ends the command for brokers that list none."""
    if not admin.coordinates:
        raise click.UsageError(
            f"without -z, groups of Kafka {admin.dialect.release} are named one by one with --group: its brokers list"
            " none"
        )
    return sorted(kafkaside.names(admin, read_cluster(admin)))


def known(admin: AdminClient, each: GroupSnapshot) -> bool:
    """True if any store has data of the group."""
    if admin.session is not None and admin.session.children(f"/consumers/{each.group}") is not None:
        return True
    return bool(each.kafka_members) or any(row.position is not NONE for row in each.kafka.values())


def where_from(admin: AdminClient) -> str:
    """Return the stores that were read, for a sentence."""
    if admin.session is None:
        return "Kafka"
    return (
        f"ZooKeeper at {admin.session.connect} or Kafka"
        if admin.keeps_kafka
        else f"ZooKeeper at {admin.session.connect}"
    )


def tell_odd(groups: Iterable[GroupSnapshot]) -> None:
    """Report on stderr what an operator would overlook: foreign nodes, 1.1.0's path, offsets of another log."""
    tell_some(f"group {each.group}: {text}" for each in groups for text in odd(each))


def odd(each: GroupSnapshot) -> Iterator[str]:
    """Yield a sentence for each finding of tell_odd()."""
    for one in each.foreign:
        yield f"foreign node {one.path} holds {one.found!r}: {one.text}"
    for tp, row in each.offset_path.items():
        yield (
            f"the folder /offset, beside /offsets, holds {shown(row.position)} for {tp}: brokers of 1.1.0 kept "
            "OffsetCommit v0 there, no other release reads it"
        )
    for tp in each.partitions():
        topic, former = each.topics.get(tp.topic), each.former_stores(tp)
        if topic is None or tp.partition not in topic.partitions:
            yield f"{tp} {_absent(tp)}; what is held for it is shown as it is"
        elif "zookeeper" in former:
            yield f"{tp}: its offset node is older than its topic, which was made again: a position of another log"
        if "kafka" in former:
            yield f"{tp}: its offset in Kafka is of an earlier topic of that name: a position of another log"
        bounds = each.bounds.get(tp)
        for store in BOTH:
            there = held_by(each, tp, store)
            if bounds is not None and isinstance(there, int) and not bounds[0] <= there <= bounds[1]:
                yield f"{tp}: {there} in {store} lies outside the log, which holds {bounds[0]} to {bounds[1]}"


def _absent(tp: TopicPartition) -> str:
    if isinstance(tp.partition, BrokerPartition):
        return f"is not there now: broker {tp.partition.broker} is not registered with it"
    return "does not exist (any more)"


def position_rows(
    each: GroupSnapshot, stores: Iterable[StoreName], ages: Mapping[TopicPartition, int]
) -> list[tuple[object, ...]]:
    """Return the rows in the order of GET.  ages: commit times in Kafka, ms."""
    rows: list[tuple[object, ...]] = []
    for tp in each.partitions():
        start, end = each.bounds.get(tp, (None, None))
        partition = tp.partition if isinstance(tp.partition, int) else str(tp.partition)
        held = {store: held_by(each, tp, store) for store in sorted(stores, reverse=True)}
        for store, there in held.items():
            if isinstance(there, Unknown):
                print_note(_named(there.reason, each.group, f"group {each.group}"))
            if there is not NONE:
                at_ms = written_at(each, tp, store, ages)
                rows.append(
                    (
                        each.group,
                        tp.topic,
                        partition,
                        shown(there),
                        start,
                        end,
                        lag(there, start, each.readable_end(tp, there)),
                        store,
                        age(at_ms, each),
                    )
                )
        if all(there is NONE for there in held.values()):
            rows.append((each.group, tp.topic, partition, None, start, end, None, None, None))
    return rows


def _named(reason: str, group: str, where: str) -> str:
    """Return a reason with its place, unless it names it itself."""
    return reason if reason.startswith(f"group {group}, ") else f"{where}: {reason}"


def written_at(
    each: GroupSnapshot, tp: TopicPartition, store: StoreName, ages: Mapping[TopicPartition, int]
) -> int | None:
    """Return the time of the last write of an offset in a store, ms since 1970."""
    if store == "kafka":
        return ages.get(tp)
    row = each.zookeeper.get(tp)
    return row.mtime_ms if row is not None else None


def age(at_ms: int | None, each: GroupSnapshot) -> str | None:
    """Return the time from then to the snapshot; None: not known."""
    return None if at_ms is None else since(at_ms, each.read_at_ms)


def since(at_ms: int, now_ms: int) -> str:
    """Return the time since then, in the largest suitable unit: 45s, 12m, 30h, 9d."""
    seconds = max(0, now_ms - at_ms) // 1000
    for unit, size, until in (("s", 1, 120), ("m", 60, 7200), ("h", 3600, 172800)):
        if seconds < until:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86400}d"


def saved(
    admin: AdminClient, groups: Iterable[GroupSnapshot], stores: tuple[StoreName, ...] | None = None
) -> OffsetsFile:
    """Return the groups as a file.  stores: source of the offsets; None: the group's stores."""
    rows: list[SavedRow] = []
    warnings: list[str] = []
    kept: set[StoreName] = set()
    for each in groups:
        counted = stores or stores_of(each, admin.session is not None)
        kept |= set(counted)
        for tp in each.partitions():
            there = counts(each, tp, counted)
            row = _saved_row(each, tp, there, counted)
            if isinstance(there, Unknown):
                warnings.append(_named(there.reason, each.group, f"group {each.group}, {tp}"))
                print_note(warnings[-1])
                if row.zookeeper is None and row.kafka is None:
                    continue  # a row without an offset would mean that there is none
            rows.append(row)
    source: Source = "dual" if len(kept) > 1 else "kafka" if "kafka" in kept else "zookeeper"
    where = admin.session.connect if admin.session is not None else ",".join(f"{h}:{p}" for h, p in admin.bootstrap)
    return OffsetsFile(
        "json", rows, warnings=warnings, cluster=where, exported_at_ms=int(time.time() * 1000), source=source
    )


def tell_unsayable(file: OffsetsFile, kind: WrittenKind) -> None:
    """Report on stderr which rows a file of this kind leaves out.  Call end_where_torn once the file is written."""
    none = sum(row.position is None for row in unsayable(file, kind))
    if none:
        print_note(f"{counted(none, 'partition')} without an offset left out, which {kind} cannot express")
    tell_some(
        f"group {row.group!r}, topic {row.topic!r}: left out, for ImportZkOffsets would cut {name!r} in two; use json"
        for row in file.rows
        if (name := torn(row, kind)) is not None
    )


def end_where_torn(file: OffsetsFile, kind: WrittenKind) -> None:
    """End the command with 4 where offsets were left out because of a name that the file cannot hold."""
    lost = sum(row.position is not None and torn(row, kind) is not None for row in file.rows)
    if lost:
        fail(f"{counted(lost, 'offset')} left out because of a name", EXIT["partly"])


def _saved_row(each: GroupSnapshot, tp: TopicPartition, there: Committed, stores: tuple[StoreName, ...]) -> SavedRow:
    start, end = each.bounds.get(tp, (None, None))
    node, kafka = each.zookeeper.get(tp), each.in_kafka(tp)
    in_zookeeper = None
    if "zookeeper" in stores and not isinstance(each.in_zookeeper(tp), Unknown):
        found = (node.mzxid, node.version, node.mtime_ms) if node is not None else (None, None, None)
        in_zookeeper = ZnodeState(_number(each.in_zookeeper(tp)), *found)
    in_kafka = None
    if "kafka" in stores and not isinstance(kafka.position, Unknown):
        in_kafka = KafkaState(_number(kafka.position), kafka.metadata or None)
    text = kafka.metadata or None
    return SavedRow(
        each.group,
        tp.topic,
        tp.partition,
        _number(there),
        metadata=text,
        zookeeper=in_zookeeper,
        kafka=in_kafka,
        log_start=start,
        log_end=end,
    )


def _number(there: Committed) -> int | None:
    return there if isinstance(there, int) else None
