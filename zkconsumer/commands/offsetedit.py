"""What every command that writes positions does: show the plan, refuse, ask, keep the way back, write, read back.

1  the plan, before -> after by partition and store, on stdout; why, on stderr
2  refused (exit 3, nothing is written): somebody is in the group (--force-active), or a position may not be written
3  go_ahead: --execute, or a yes at the terminal; --dry-run always wins
4  the stores are looked at again where somebody took time to answer; what changed is refused
5  the undo file, on the disk before the first write
6  Kafka, then ZooKeeper, each write read back; what is not as wished is told, exit 4
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from groundwork.output import EXIT, Progress, fail, write
from kafkawire.dialects import Store as StoreName
from kafkawire.dialects import dialect
from kafkawire.model import TopicPartition
from zkconsumer.commands.common import link_pool, reaching, tell
from zkconsumer.commands.options import execute_option, go_ahead, output_option
from zkconsumer.groupworld.look import look, members_now
from zkconsumer.groupworld.stores import BOTH, held_by, who_is_there
from zkconsumer.groupworld.world import Cluster, World
from zkconsumer.groupworld.write import Written, carry_out, orders
from zkconsumer.migration.snapshot import GroupSnapshot, KafkaRow, ZkRow
from zkconsumer.offsetfiles.model import FileUnclear, ZnodeState
from zkconsumer.offsetfiles.write import write_offsets
from zkconsumer.offsetplan.changes import Change, OutOfRangePolicy, refused
from zkconsumer.offsetplan.spelling import NotThere, WrongUsage, parse_duration
from zkconsumer.offsetplan.undo import undo_file
from zkconsumer.offsets.store import NONE, Committed, Unknown
from zkconsumer.session.access import ZooKeeper

PLAN = ("group", "topic", "partition", "store", "before", "after", "action")
MOST_SENTENCES = 40
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Edit:
    """The options of every command that writes.  stores: as asked for, None: those the group keeps."""

    execute: bool
    dry_run: bool
    force_active: bool
    out_of_range: OutOfRangePolicy
    stores: tuple[StoreName, ...] | None
    undo_dir: Path
    retention_ms: int | None
    output: str


def edit_options(command: F) -> F:
    """The options of Edit, handed on as edit."""

    @wraps(command)
    def with_edit(
        *args: Any,
        execute: bool,
        dry_run: bool,
        force_active: bool,
        clamp: bool,
        skip_out_of_range: bool,
        store: str | None,
        undo_dir: Path,
        retention: str | None,
        output: str,
        **others: Any,
    ) -> Any:
        if clamp and skip_out_of_range:
            raise click.UsageError("--clamp and --skip-out-of-range are two answers to one question: give one")
        policy: OutOfRangePolicy = "clamp" if clamp else "skip" if skip_out_of_range else "refuse"
        with usage_errors():
            kept = parse_duration(retention) if retention is not None else None
        edit = Edit(execute, dry_run, force_active, policy, stores_named(store), undo_dir, kept, output)
        return command(*args, edit=edit, **others)

    wrapped: Any = with_edit
    for option in reversed(_EDIT):
        wrapped = option(wrapped)
    return cast(F, wrapped)


store_option = click.option(
    "--store",
    type=click.Choice(("zookeeper", "kafka", "both")),
    help="Where; without: as the modes of the members tell, else where the group has positions now.",
)
undo_dir_option = click.option(
    "--undo-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Folder for the file that undoes it; without: the current one.",
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only the plan; wins over --execute.")
force_option = click.option(
    "--force-active", is_flag=True, help="Write though somebody is in the group, who may overwrite it at once."
)
_EDIT = (
    store_option,
    execute_option,
    dry_run_option,
    force_option,
    click.option("--clamp", is_flag=True, help="Move positions outside the log to its nearer end."),
    click.option("--skip-out-of-range", is_flag=True, help="Leave partitions alone whose position is outside the log."),
    click.option("--retention", metavar="30d", help="How long Kafka is to keep the positions; as it does without."),
    undo_dir_option,
    output_option(),
)


def stores_named(store: str | None) -> tuple[StoreName, ...] | None:
    """--store; None where it is not given."""
    return None if store is None else BOTH if store == "both" else tuple(s for s in BOTH if s == store)


@contextmanager
def usage_errors() -> Iterator[None]:
    """What makes no sense whatever the stores hold ends with the usage code; so does a file nobody can read.

    A topic or partition that is not there ends like a group that is not."""
    try:
        yield
    except NotThere as e:
        fail(str(e), EXIT["not found"])
    except (WrongUsage, FileUnclear) as e:
        raise click.UsageError(str(e)) from None


@contextmanager
def world_of(
    zookeeper: ZooKeeper | None, brokers: Sequence[tuple[str, int]], kafka_version: str, needs_zookeeper: bool = False
) -> Iterator[World]:
    """The stores that -z and -b reach; what WrongUsage and FileUnclear say in the block ends it with the usage code."""
    if zookeeper is None and (not brokers or needs_zookeeper):
        raise click.UsageError("-z (ZooKeeper) is missing" if needs_zookeeper else "-z (ZooKeeper) or -b is missing")
    said: set[str] = set()

    def once(text: str) -> None:
        if text not in said:
            said.add(text)
            tell(text)

    if zookeeper is None:
        with link_pool() as links, usage_errors():
            yield World(None, links, dialect(kafka_version), tuple(brokers), once)
    else:
        with reaching(zookeeper, kafka_version) as reach, usage_errors():
            yield World(reach.session, reach.links, reach.dialect, tuple(brokers), once)


def tell_some(texts: Iterable[str]) -> None:
    """Each sentence once, on stderr; of very many only the first, and how many more there are."""
    said = [text for text in dict.fromkeys(texts) if text]
    for text in said[:MOST_SENTENCES]:
        tell(text)
    if len(said) > MOST_SENTENCES:
        tell(f"and {len(said) - MOST_SENTENCES} more like these")


# the plan -------------------------------------------------------------------------------------------------------------


def show_plan(changes: Iterable[Change], output: str) -> None:
    """The plan on stdout."""
    write(plan_rows(changes), PLAN, output)


def plan_rows(changes: Iterable[Change]) -> list[tuple[object, ...]]:
    """In the order of PLAN: a row for each store of each partition."""
    rows: list[tuple[object, ...]] = []
    for change in changes:
        partition = change.tp.partition if isinstance(change.tp.partition, int) else str(change.tp.partition)
        for store, before in sorted(change.before.items()):
            action: str = "unchanged" if change.action == "write" and store not in change.stores else change.action
            if action == "write" and change.after is None:
                action = "delete"
            rows.append((change.group, change.tp.topic, partition, store, shown(before), change.after, action))
    return rows


def shown(there: Committed) -> object:
    """A position for the output: none is None, what cannot be read says so."""
    return there if isinstance(there, int) else None if there is NONE else "unreadable"


def carry(
    world: World,
    cluster: Cluster,
    snapshots: Mapping[str, GroupSnapshot],
    changes: Sequence[Change],
    edit: Edit,
    texts: Mapping[tuple[str, TopicPartition], str] | None = None,
    show: Callable[[Sequence[Change], str], object] = show_plan,
) -> bool:
    """Steps 1 to 6 for a plan; whether it was carried out.  show: prints the plan.

    Ends the command with a refusal (3), or, when something is not as wished afterwards, with 4.
    """
    show(changes, edit.output)
    sys.stdout.flush()  # before what follows on stderr
    tell_some(change.why for change in changes)
    writes = [change for change in changes if change.action == "write"]
    tell_some(_left_alone(snapshots[change.group], change) for change in merged(changes))
    _refuse(changes, [snapshots[group] for group in dict.fromkeys(c.group for c in writes)], edit)
    if not writes:
        tell("nothing to write: the stores hold it already" if changes else "nothing to write")
        return False
    groups = list(dict.fromkeys(change.group for change in writes))
    whose = f"group {groups[0]}" if len(groups) == 1 else f"{len(groups)} groups"
    began = time.monotonic()
    what = f"write {sum(len(change.stores) for change in writes)} offsets of {whose}"
    if edit.dry_run:
        tell(f"only a plan, nothing was done; without --dry-run: {what}")
        return False
    if not go_ahead(edit.execute, what):
        return False
    _look_again(world, cluster, writes, edit, whole=time.monotonic() - began > 0.5)
    undo = keep_undo(world, snapshots, writes, edit.undo_dir)
    tell(f"undo: {undo_command(world, undo, writes)}")  # before the writes: somebody may interrupt them
    done = _write(world, cluster, snapshots, writes, edit, texts)
    report(done)
    if any(row.state != "written" for row in done):
        fail(
            f"{sum(row.state != 'written' for row in done)} of {len(done)} are not as wished, see above", EXIT["partly"]
        )
    return True


def _left_alone(each: GroupSnapshot, change: Change) -> str:
    """A sentence where the other store has a position of a group, and is not among those written; else nothing."""
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
            f"{len(wrong)} of {len(changes)} positions are refused, so nothing is written{_ways_out(wrong)}",
            EXIT["refused"],
        )
    refuse_active(snapshots, edit.force_active)


def _ways_out(wrong: Sequence[Change]) -> str:
    """What the command offers for positions outside the log: Kafka's spellings of it do not offer the same."""
    if not any(change.after is not None and _outside(change.after, change) for change in wrong):
        return ""
    offered = {name for option in click.get_current_context().command.params for name in option.opts}
    if "--clamp" in offered:
        return "; --clamp moves those outside the log to its nearer end, --skip-out-of-range leaves them alone"
    if "--keep-out-of-range" in offered:
        return "; --keep-out-of-range writes those outside the log as they are"
    return ""


def refuse_active(snapshots: Iterable[GroupSnapshot], force: bool) -> None:
    """Refuse groups that somebody is in (exit 3); with force that is only told."""
    active = [text for text in map(who_is_there, snapshots) if text is not None]
    tell_some(active)
    if active and not force:
        fail(
            f"{len(active)} active group{'s' if len(active) > 1 else ''}: what is written would be overwritten, or not "
            "be seen; stop the members first, or give --force-active",
            EXIT["refused"],
        )


def _look_again(world: World, cluster: Cluster, writes: Sequence[Change], edit: Edit, whole: bool) -> None:
    """Nothing may have changed since the plan: members always, positions where somebody thought about it."""
    groups = list(dict.fromkeys(change.group for change in writes))
    came = {group: members for group, members in members_now(world, cluster, groups).items() if members}
    if came and not edit.force_active:
        group, members = next(iter(came.items()))
        fail(f"group {group} has members now, {members[0]} for one; nothing was written", EXIT["refused"])
    if not whole:
        return  # versions are compared when the nodes are written
    also = {group: [change.tp for change in writes if change.group == group] for group in groups}
    now = look(world, groups, cluster, also=also, wide=False, bounds=False)
    refuse_active(now.values(), edit.force_active)
    for change in writes:
        for store, before in change.before.items():
            there = held_by(now[change.group], change.tp, store)
            if there != before and not isinstance(before, Unknown):
                fail(
                    f"group {change.group}, {change.tp}: {store} held {shown(before)} and holds {shown(there)} now; "
                    "nothing was written, make the plan again",
                    EXIT["refused"],
                )


# writing --------------------------------------------------------------------------------------------------------------


def _write(
    world: World,
    cluster: Cluster,
    snapshots: Mapping[str, GroupSnapshot],
    writes: Sequence[Change],
    edit: Edit,
    texts: Mapping[tuple[str, TopicPartition], str] | None,
) -> list[Written]:
    wanted = orders(writes, nodes_of(snapshots), kafka_of(snapshots), texts)
    with Progress("writing offsets", len(wanted)) as progress:
        return carry_out(world, cluster, wanted, edit.retention_ms, progress.update)


def nodes_of(snapshots: Mapping[str, GroupSnapshot]) -> dict[tuple[str, TopicPartition], ZkRow]:
    return {(group, tp): row for group, each in snapshots.items() for tp, row in each.zookeeper.items()}


def kafka_of(snapshots: Mapping[str, GroupSnapshot]) -> dict[tuple[str, TopicPartition], KafkaRow]:
    return {
        (group, tp): each.in_kafka(tp)
        for group, each in snapshots.items()
        for tp in {*each.kafka, *each.zookeeper, *(each.partitions() if each.kafka_absent else ())}
    }


def report(done: Sequence[Written]) -> None:
    """What became of it, on stderr: a count, and a line for each that is not as wished."""
    tell_some(
        f"group {row.order.group}, {row.order.tp} in {row.order.store}: {row.state}: {row.why}"
        for row in done
        if row.why
    )
    written = sum(row.state == "written" for row in done)
    tell(f"{written} of {len(done)} offsets written and read back")


def keep_undo(world: World, snapshots: Mapping[str, GroupSnapshot], writes: Sequence[Change], folder: Path) -> Path:
    """The undo file, on the disk when this returns.  Ends the command when it cannot be written."""
    nodes = {key: ZnodeState(None, row.mzxid, row.version, row.mtime_ms) for key, row in nodes_of(snapshots).items()}
    texts = {key: row.metadata for key, row in kafka_of(snapshots).items() if row.metadata}
    cluster = world.session.connect if world.session is not None else ",".join(f"{h}:{p}" for h, p in world.bootstrap)
    text = write_offsets(undo_file(merged(writes), cluster, world.clock_ms(), nodes, texts), "json")
    groups = sorted({change.group for change in writes})
    name = (
        "".join(c if c.isalnum() or c in "._-" else "_" for c in groups[0])
        if len(groups) == 1
        else f"{len(groups)}-groups"
    )
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(world.clock_ms() / 1000))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _kept(folder, f"undo-{name[:100]}-{stamp}", text)
    except OSError as e:
        fail(f"the undo file cannot be written to {folder}: {e.strerror}; nothing was written, give another --undo-dir")


def _kept(folder: Path, name: str, text: str) -> Path:
    """A new file, never one that is there; it and its folder are on the disk."""
    for number in range(1000):
        path = folder / (f"{name}.json" if number == 0 else f"{name}-{number}.json")
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            continue
        with os.fdopen(file, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        held = os.open(folder, os.O_RDONLY)
        os.fsync(held)
        os.close(held)
        return path
    raise FileExistsError(17, f"{name} is there a thousand times")


def merged(changes: Iterable[Change]) -> list[Change]:
    """One change for each partition of a group, with what all its stores hold."""
    found: dict[tuple[str, TopicPartition], Change] = {}
    for change in changes:
        key = (change.group, change.tp)
        before = {**found[key].before, **change.before} if key in found else change.before
        found[key] = replace(change, before=before)
    return list(found.values())


def undo_command(world: World, undo: Path, writes: Sequence[Change]) -> str:
    """What an operator types to bring back what was there."""
    words = ["zkconsumer", "offsets", "import", str(undo)]
    if world.session is not None:
        words += ["-z", world.session.connect]
    if world.bootstrap:
        words += ["-b", ",".join(f"{host}:{port}" for host, port in world.bootstrap)]
    if any(_outside(before, change) for change in writes for before in change.before.values()):
        words.append("--keep-out-of-range")
    return shlex.join([*words, "--kafka-version", world.dialect.release, "--execute"])


def _outside(before: Committed, change: Change) -> bool:
    if not isinstance(before, int):
        return False
    return change.bounds is None or not change.bounds[0] <= before <= change.bounds[1]
