"""zk-consumer-groups, zk-offset-export, zk-offset-import, zk-offset-checker: replacements for Kafka's own tools.

Options and output are those of ConsumerGroupCommand (2.x), ExportZkOffsets, ImportZkOffsets and ConsumerOffsetChecker
(0.8.2 and 0.7).  Where those write at once, these print the plan and require --execute, or a yes at the terminal;
without either they exit with 3, so that no script mistakes a dry run for the change.  They also have -z, --zk-config,
--zk-auth and the TLS options.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import click

from groundwork.commands import dry_run_option, execute_option
from groundwork.output import EXIT, fail, print_text, run_command, version_option, write, write_csv
from groupadmin.commands.editoptions import (
    ClusterOptions,
    Edit,
    cluster_options,
    end_where_closed,
    force_option,
    undo_dir_option,
    usage_errors,
)
from groupadmin.commands.groupedit import delete_groups
from groupadmin.commands.offsetedit import execute_plan, refuse_active
from groupadmin.commands.offsetplans import delete_plan, import_plan, reset_plan
from groupadmin.commands.offsetviews import (
    FILE,
    end_where_torn,
    groups_option,
    rows_to_write,
    saved,
    snapshots,
    tell_odd,
    tell_unsayable,
)
from groupadmin.commands.offsetwrite import ResetAsked, reset_options
from groupadmin.files.write import write_offsets
from groupadmin.plan.changes import Change, OutOfRangePolicy
from groupadmin.plan.resets import Reset
from groupadmin.snapshot.cluster import AdminClient
from groupadmin.snapshot.groups import host_of, lag
from groupadmin.snapshot.model import BOTH, GroupSnapshot, counts, stores_of
from groupadmin.snapshot.tree import groups_in_zookeeper
from zkconsumer.commands import pipes
from zkconsumer.commands.common import print_note
from zkconsumer.commands.options import go_ahead, group_option
from zkconsumer.offsets.store import Unknown

DESCRIBED = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)
RESET = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
CHECKED = "{:<15} {:<30} {:<3} {:<15} {:<15} {:<15} {}"


def describe_table(groups: Iterable[GroupSnapshot], connected: bool, tell: Callable[[str], object]) -> None:
    """Print `--describe`; for a group with two stores the larger offset, where its members would start."""
    rows: list[tuple[object, ...]] = []
    for each in groups:
        tell_odd([each])
        if not each.members and not each.owners and not each.kafka_members:
            print_note(f"Consumer group '{each.group}' has no active members.")
        stores = stores_of(each, connected)
        for tp in each.partitions():
            there = counts(each, tp, stores)
            if isinstance(there, Unknown):
                print_note(there.reason)
            _, end = each.bounds.get(tp, (None, None))
            owner = each.owners.get(tp)
            host = host_of(each.group, owner.rpartition("-")[0]) if owner is not None else None
            position = there if isinstance(there, int) else None
            rows.append(
                (each.group, tp.topic, str(tp.partition), position, end, lag(there, None, end), owner, host, None)
            )
    write(rows, DESCRIBED)


def new_offsets(changes: Sequence[Change], output: str) -> None:
    """Print a reset: GROUP TOPIC PARTITION NEW-OFFSET, or the CSV that --from-file reads."""
    rows = [(c.group, c.tp.topic, str(c.tp.partition), c.after) for c in changes if c.action in ("write", "unchanged")]
    if output == "csv":
        write_csv(row[1:] for row in rows)
    else:
        write(rows, RESET)


def checker_rows(each: GroupSnapshot, topics: Collection[str] | None) -> Iterator[str]:
    """Yield the lines of ConsumerOffsetChecker, header first; a missing offset is `unknown`, a missing owner `none`."""
    yield CHECKED.format("Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner")
    stores = stores_of(each)
    for tp in each.partitions():
        if topics is not None and tp.topic not in topics:
            continue
        there = counts(each, tp, stores)
        _, end = each.bounds.get(tp, (None, None))
        behind = lag(there, None, end)
        yield CHECKED.format(
            each.group,
            tp.topic,
            str(tp.partition),
            there if isinstance(there, int) else "unknown",
            "unknown" if end is None else end,
            "unknown" if behind is None else behind,
            each.owners.get(tp, "none"),
        )


def byte_rows(each: GroupSnapshot, topics: Collection[str] | None) -> Iterator[str]:
    """Yield the lines of 0.7's ConsumerOffsetChecker: a paragraph for each partition with a byte offset."""
    for tp in sorted(each.zookeeper, key=lambda tp: (tp.topic, str(tp.partition))):
        there = each.in_zookeeper(tp)
        if (topics is not None and tp.topic not in topics) or not isinstance(there, int):
            continue
        yield f"{each.group},{tp.topic},{tp.partition} (Group,Topic,BrokerId-PartitionId)"
        yield f"{'Owner = ':>20}{each.owners.get(tp, 'null')}"
        yield from _bytes("Consumer offset", there)
        if tp in each.bounds:
            _, end = each.bounds[tp]
            yield from _bytes("Log size", end)
            yield from _bytes("Consumer lag", end - there)
            yield ""


def _bytes(what: str, count: int) -> Iterator[str]:
    yield f"{f'{what} = ':>20}{count}"
    yield f"{'= ':>20}{count:,} ({count / 1024**3:,.2f}G)"


SAME = {
    "--zkconnect": "--zookeeper",
    "--zk.connect": "--zookeeper",
    "--zookeeper.connect": "--zookeeper",
    "--broker-list": "--brokers",
}
ALLOWED = "--list, --describe, --delete, --reset-offsets"


# ConsumerGroupCommand -------------------------------------------------------------------------------------------------


@click.command("zk-consumer-groups")
@version_option("zk-consumer-groups")
@cluster_options("Any brokers of the cluster, instead of ZooKeeper.")
@groups_option
@click.option("--list", "list_them", is_flag=True, help="List all groups.")
@click.option("--describe", is_flag=True, help="Print offsets and lag of groups.")
@click.option("--delete", is_flag=True, help="Delete groups, or with --topic their offsets of a topic.")
@click.option("--reset-offsets", is_flag=True, help="Reset the offsets of a group.")
@click.option("--all-groups", is_flag=True, help="Every group, with --describe.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:0,1]", help="With --reset-offsets and --delete.")
@click.option("--all-topics", is_flag=True, help="With --reset-offsets.")
@reset_options
@click.option("--export", is_flag=True, help="Print the result of --reset-offsets as CSV.")
@execute_option
@dry_run_option
@force_option
@undo_dir_option
@click.option("--offsets", is_flag=True, hidden=True)
@click.option("--timeout", hidden=True)
def consumer_groups(
    options: ClusterOptions,
    groups: tuple[str, ...],
    regex: bool,
    list_them: bool,
    describe: bool,
    delete: bool,
    reset_offsets: bool,
    all_groups: bool,
    topics: tuple[str, ...],
    all_topics: bool,
    reset: ResetAsked,
    export: bool,
    execute: bool,
    dry_run: bool,
    force_active: bool,
    undo_dir: Path,
    offsets: bool,
    timeout: str | None,
) -> None:
    """kafka-consumer-groups for groups in ZooKeeper and in Kafka, with old or new members."""
    if [list_them, describe, delete, reset_offsets].count(True) != 1:
        raise click.UsageError(f"exactly one of {ALLOWED} is expected")
    if not list_them and not groups and not (all_groups and describe):
        raise click.UsageError("--group is missing")
    edit = Edit(
        cluster=options,
        execute=execute,
        dry_run=dry_run,
        force_active=force_active,
        out_of_range="clamp",
        stores=None,
        undo_dir=undo_dir,
        retention_ms=None,
        output="csv" if export else "table",
    )
    kind = _only_one_group(groups, reset) if reset_offsets else None
    with options.client() as admin:
        if list_them:
            _list(admin)
        elif describe:
            found, _ = snapshots(admin, groups, regex)
            describe_table(found.values(), admin.session is not None, print_note)
            end_where_closed(admin)
        elif kind is not None:
            cluster, each, changes = reset_plan(admin, groups[0], kind, topics=topics, all_topics=all_topics, edit=edit)
            execute_plan(admin, cluster, {each.group: each}, changes, edit=edit, show=new_offsets)
        elif topics:
            _delete_positions(admin, groups, topics, edit)
        else:
            _delete_whole(admin, groups, regex, edit)


def _only_one_group(groups: Sequence[str], reset: ResetAsked) -> Reset:
    if len(groups) != 1:
        raise click.UsageError("--reset-offsets takes one --group")
    with usage_errors():
        return reset.kind_for(groups[0])


def _list(admin: AdminClient) -> None:
    """Run --list."""
    if admin.session is None:
        raise click.UsageError("--list reads ZooKeeper: give --zookeeper")
    for group in groups_in_zookeeper(admin.session):
        print_text(group)


def _delete_positions(admin: AdminClient, groups: Sequence[str], topics: Sequence[str], edit: Edit) -> None:
    """Run --delete with --topic."""
    for group in groups:
        cluster, each, changes = delete_plan(admin, group, topics=topics, all_topics=False, edit=edit)
        done = execute_plan(admin, cluster, {group: each}, changes, edit=edit)
        _wanted(done or not _writes(changes), edit)


def _delete_whole(admin: AdminClient, groups: Sequence[str], regex: bool, edit: Edit) -> None:
    """Run --delete: delete each group with all its data in both stores."""
    found, cluster = snapshots(admin, groups, regex)
    refuse_active(found.values(), edit.force_active)
    if _wanted(go_ahead(edit.execute, f"delete {', '.join(found)}", edit.dry_run), edit):
        delete_groups(admin, cluster, found, stores=BOTH, undo_dir=edit.undo_dir, force_active=edit.force_active)
    end_where_closed(admin)


def _wanted(done: bool, edit: Edit) -> bool:
    """End with 3 where Kafka's tool would have written and this one did not, except for --dry-run."""
    if not done and not edit.dry_run and not edit.execute:
        fail("nothing was done: Kafka's tool would have written at once, this one requires --execute", EXIT["refused"])
    return done


def _writes(changes: Sequence[Change]) -> bool:
    return any(change.action == "write" for change in changes)


# ExportZkOffsets, ImportZkOffsets -------------------------------------------------------------------------------------


@click.command("zk-offset-export")
@version_option("zk-offset-export")
@cluster_options(None, required=True)
@groups_option
@click.option("--output-file", type=click.Path(dir_okay=False, path_type=Path), help="File to write instead of stdout.")
def offset_export(options: ClusterOptions, groups: tuple[str, ...], regex: bool, output_file: Path | None) -> None:
    """ExportZkOffsets: print the offsets of groups in ZooKeeper (default: all groups), one per line."""
    with options.client() as admin:
        found, _ = snapshots(admin, groups, regex, bounds=False)
        tell_odd(found.values())
        file = saved(admin, found.values(), ("zookeeper",))
    tell_unsayable(file, "zk-export")
    text = write_offsets(file, "zk-export")
    if output_file is None:
        print_text(text, nl=False)
    else:
        try:
            output_file.write_text(text, encoding="utf-8")
        except OSError as why:
            fail(f"the offsets cannot be written to {output_file}: {why.strerror}")
    end_where_torn(file, "zk-export")
    end_where_closed(admin)


@click.command("zk-offset-import")
@version_option("zk-offset-import")
@cluster_options(None, required=True)
@click.option("--input-file", type=FILE, required=True, help="As ExportZkOffsets writes it; other forms are read too.")
@group_option(required=False, help="Group of rows that name no group; of a file with several groups, only this one.")
@execute_option
@dry_run_option
@force_option
@click.option("--keep-out-of-range", is_flag=True, help="Write offsets outside the log as they are.")
@undo_dir_option
def offset_import(
    options: ClusterOptions,
    input_file: Path,
    group: str | None,
    execute: bool,
    dry_run: bool,
    force_active: bool,
    keep_out_of_range: bool,
    undo_dir: Path,
) -> None:
    """ImportZkOffsets: write the offsets in a file to ZooKeeper, after a plan, for groups without members."""
    policy: OutOfRangePolicy = "keep" if keep_out_of_range else "refuse"
    edit = Edit(
        cluster=options,
        execute=execute,
        dry_run=dry_run,
        force_active=force_active,
        out_of_range=policy,
        stores=("zookeeper",),
        undo_dir=undo_dir,
        retention_ms=None,
        output="table",
    )
    with usage_errors():
        rows = rows_to_write(input_file, by_store=True).rows
    with options.client() as admin:
        cluster, found, changes, texts = import_plan(admin, rows, group, edit)
        done = execute_plan(admin, cluster, found, changes, edit=edit, texts=texts)
        _wanted(done or not _writes(changes), edit)


# ConsumerOffsetChecker ------------------------------------------------------------------------------------------------


@click.command("zk-offset-checker")
@version_option("zk-offset-checker")
@cluster_options(None, required=True)
@group_option()
@click.option("--topic", metavar="T,T", help="Topics, separated by commas (default: all of the group).")
@click.option("--broker-info", is_flag=True, help="Print the brokers, too.")
@click.option("--socket.timeout.ms", "socket_timeout", hidden=True)
@click.option("--retry.backoff.ms", "retry_backoff", hidden=True)
def offset_checker(
    options: ClusterOptions,
    group: str,
    topic: str | None,
    broker_info: bool,
    socket_timeout: str | None,
    retry_backoff: str | None,
) -> None:
    """ConsumerOffsetChecker: print offsets, log ends, lag and owners of a group.

    For a group with two stores the larger offset is printed, where its members would start.  With --kafka-version 0.7
    the output is that of 0.7.
    """
    with options.client() as admin:
        found, cluster = snapshots(admin, [group], False)
        topics = None if topic is None else [name for name in topic.split(",") if name]
        in_bytes = not admin.dialect.offsets.count_messages
        for line in (byte_rows if in_bytes else checker_rows)(found[group], topics):
            print_text(line)
        if broker_info or in_bytes:
            print_text("BROKER INFO")
            for broker in sorted(cluster.brokers.values(), key=lambda each: each.id):
                print_text(f"{broker.id} -> {broker.host}:{broker.port}")


# entry points ---------------------------------------------------------------------------------------------------------


def translated(args: Sequence[str]) -> list[str]:
    """Return the arguments with Kafka's option names replaced by this program's; values are unchanged."""
    found = []
    for arg in args:
        name, equals, value = arg.partition("=")
        found.append(SAME.get(name, name) + equals + value)
    return found


def outcome(command: click.Command, args: Sequence[str]) -> int:
    """Run one of the tools and return its exit code.  A full disk during output is reported in one sentence."""
    return pipes.printing(lambda: run_command(command, translated(args), command.name))
