"""`zkconsumer offsets set | reset | import | delete | copy-group`.

offsetplans has their plans, offsetedit executes them.  A reset has exactly one kind, with the option names of
kafka-consumer-groups (KIP-122).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from groundwork.commands import Command, as_argument
from groupadmin.commands.editoptions import Edit, edit_options, usage_errors
from groupadmin.commands.offsetedit import execute_plan
from groupadmin.commands.offsetplans import (
    changes_of,
    copied,
    delete_plan,
    import_plan,
    one_group,
    reset_plan,
    rows_of,
    two_groups,
)
from groupadmin.commands.offsetviews import FILE, rows_to_write
from groupadmin.plan.resets import (
    ByDuration,
    Current,
    Earliest,
    FromRows,
    Latest,
    Reset,
    ShiftBy,
    ToDatetime,
    ToOffset,
    from_rows,
)
from groupadmin.snapshot.cluster import read_cluster
from zkconsumer.commands.common import print_note
from zkconsumer.commands.options import group_name, group_option
from zkconsumer.options.arguments import parse_assignments, parse_duration, parse_position, parse_shift, parse_time

F = TypeVar("F", bound=Callable[..., Any])
_KINDS = (
    click.option("--to-earliest", is_flag=True, help="To the start of the log."),
    click.option("--to-latest", is_flag=True, help="To the log end."),
    click.option("--to-current", is_flag=True, help="To the committed offset; to the log end where there is none."),
    click.option("--to-offset", metavar="N", help="To this offset."),
    click.option("--shift-by", metavar="N", help="By N messages; backwards when N is negative."),
    click.option(
        "--to-datetime", metavar="TIME", help="To the first message at that time: ISO, or s/ms/ns since 1970."
    ),
    click.option("--by-duration", metavar="90m|PT1H30M", help="To the first message that long ago."),
    click.option("--from-file", type=FILE, help="To the offsets in a file."),
)


@dataclass(frozen=True, slots=True)
class ResetAsked:
    """The reset options as given."""

    to_earliest: bool
    to_latest: bool
    to_current: bool
    to_offset: str | None
    shift_by: str | None
    to_datetime: str | None
    by_duration: str | None
    from_file: Path | None

    def kind_for(self, group: str) -> Reset:
        """Return the reset kind; for a file the group's offsets in it.  The interpretation of a time is reported.

        Raises UsageError for none or several kinds, WrongUsage, and FileUnclear."""
        given = list(self._given(group))
        if len(given) != 1:
            kinds = "--to-earliest, -latest, -current, -offset or -datetime, --shift-by, --by-duration, --from-file"
            raise click.UsageError(f"exactly one of {kinds} is expected, {len(given)} are given")
        return given[0]

    def _given(self, group: str) -> Iterator[Reset]:
        if self.to_earliest:
            yield Earliest()
        if self.to_latest:
            yield Latest()
        if self.to_current:
            yield Current()
        if self.to_offset is not None:
            yield ToOffset(parse_position(self.to_offset))
        if self.shift_by is not None:
            yield ShiftBy(parse_shift(self.shift_by))
        if self.to_datetime is not None:
            moment = parse_time(self.to_datetime)
            if moment.note:
                print_note(moment.note)
            yield ToDatetime(moment.ms)
        if self.by_duration is not None:
            yield ByDuration(parse_duration(self.by_duration))
        if self.from_file is not None:
            yield from_rows(rows_of(rows_to_write(self.from_file).rows, group), group)


reset_options = as_argument("reset", ResetAsked, _KINDS)  # passes ResetAsked as reset
topics_option = click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC[:0,1]", help="A topic, or these partitions of it; repeatable."
)
all_topics_option = click.option("--all-topics", is_flag=True, help="Every partition that the group has an offset of.")


@click.command(
    "set",
    cls=Command,
    examples=[
        "zkconsumer offsets set -z zk1:2181/kafka -b kafka1:9092 --group billing orders:0=123 orders:1,2=0",
        "zkconsumer offsets set -z zk1:2181/kafka --group billing orders:0=123 --execute",
    ],
)
@click.argument("assignments", nargs=-1, required=True, metavar="TOPIC:PARTITION=POSITION...")
@group_option()
@edit_options
def set_command(
    assignments: tuple[str, ...],
    group: str,
    edit: Edit,
) -> None:
    """Set offsets of a group: the next message to read."""
    with usage_errors():
        positions = parse_assignments(assignments)
    with edit.cluster.client() as admin:
        cluster = read_cluster(admin)
        found = one_group(admin, cluster, group, positions)
        changes = changes_of(admin, cluster, found, kind=FromRows(dict(positions)), tps=list(positions), edit=edit)
        execute_plan(admin, cluster, {group: found}, changes, edit=edit)


@click.command(
    "reset",
    cls=Command,
    examples=[
        "zkconsumer offsets reset -z zk1:2181/kafka -b kafka1:9092 --group billing --topic orders --to-earliest",
        "zkconsumer offsets reset -z zk1:2181/kafka --group billing --all-topics --by-duration PT1H --execute",
    ],
)
@group_option()
@topics_option
@all_topics_option
@reset_options
@edit_options
def reset_command(
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    reset: ResetAsked,
    edit: Edit,
) -> None:
    """Reset a group's offsets to a time, an offset or an end.

    As kafka-consumer-groups --reset-offsets: by one kind, on --topic or --all-topics.

    Brokers before 0.10.1 look up times by segment file: the offset is up to a segment too early, never too late.
    """
    with usage_errors():
        kind = reset.kind_for(group)
    with edit.cluster.client() as admin:
        cluster, found, changes = reset_plan(admin, group, kind, topics=topics, all_topics=all_topics, edit=edit)
        execute_plan(admin, cluster, {group: found}, changes, edit=edit)


@click.command(
    "import",
    cls=Command,
    examples=[
        "zkconsumer offsets import billing.json -z zk1:2181/kafka -b kafka1:9092",
        "zkconsumer offsets import billing.txt -z zk1:2181/kafka --group billing --execute",
    ],
)
@click.argument("file", type=FILE)
@group_option(required=False, help="Group of rows that name no group; of a file with several groups, only this one.")
@click.option("--zero-means-missing", is_flag=True, help="Treat each 0 in the file as no offset (kafka-utils).")
@click.option("--keep-out-of-range", is_flag=True, help="Write offsets outside the log as they are: for undoing.")
@edit_options
def import_command(
    file: Path,
    group: str | None,
    zero_means_missing: bool,
    keep_out_of_range: bool,
    edit: Edit,
) -> None:
    """Write the offsets in a file to the stores.

    The file is an export, an undo file, or a file of another tool; its kind is detected.

    Rows with the state of each store restore it, deletions included; rows with an offset only are written to the
    stores where the group has offsets now, or to --store.
    """
    with usage_errors():
        read = rows_to_write(file, zero_means_missing, by_store=True)
    chosen = replace(edit, out_of_range="keep") if keep_out_of_range else edit
    with edit.cluster.client() as admin:
        if read.cluster is not None and admin.session is not None and read.cluster != admin.session.connect:
            print_note(f"{file.name} is from {read.cluster}, and will be written to {admin.session.connect}")
        cluster, found, changes, written = import_plan(admin, read.rows, group, chosen)
        execute_plan(admin, cluster, found, changes, edit=chosen, texts=written)


@click.command(
    "delete",
    cls=Command,
    examples=[
        "zkconsumer offsets delete -z zk1:2181/kafka -b kafka1:9092 --group billing --topic orders",
        "zkconsumer offsets delete -z zk1:2181/kafka --group billing --all-topics --execute",
    ],
)
@group_option()
@topics_option
@all_topics_option
@edit_options
def delete_command(
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    edit: Edit,
) -> None:
    """Delete offsets of a group.

    Also for topics that do not exist any more; then auto.offset.reset decides.

    Kafka before 2.4 has no request for that: the offsets get an expiry in the past, and Kafka deletes them at its next
    check.
    """
    with edit.cluster.client() as admin:
        cluster, found, changes = delete_plan(admin, group, topics=topics, all_topics=all_topics, edit=edit)
        execute_plan(admin, cluster, {group: found}, changes, edit=edit)


@click.command(
    "copy-group",
    cls=Command,
    examples=[
        "zkconsumer offsets copy-group billing billing-test -z zk1:2181/kafka -b kafka1:9092",
        "zkconsumer offsets copy-group billing billing-test -z zk1:2181/kafka --store zookeeper --execute",
    ],
)
@click.argument("source", callback=group_name)
@click.argument("target", callback=group_name)
@click.option("--merge", is_flag=True, help="Overwrite offsets that the target group already has.")
@edit_options
def copy_command(
    source: str,
    target: str,
    merge: bool,
    edit: Edit,
) -> None:
    """Copy the offsets of a group to another group.

    From SOURCE to TARGET in each store; with --store, those that count are written there.
    """
    two_groups(source, target)
    with edit.cluster.client() as admin:
        cluster = read_cluster(admin)
        found = one_group(admin, cluster, source)
        mine, changes = copied(admin, cluster, found, target, merge=merge, stores=edit.stores, policy=edit.out_of_range)
        held = {(target, tp): row.metadata for tp, row in found.kafka.items() if row.metadata}
        execute_plan(admin, cluster, {target: mine}, changes, edit=edit, texts=held)
