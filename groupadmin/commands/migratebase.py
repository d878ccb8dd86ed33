"""Common parts of the commands of `zkconsumer migrate`: options, the plan and the files beside it, the cluster.

PLAN.json             the plan
PLAN.journal.jsonl    the phase of each group
PLAN.checks.json      results of the last check
PLAN.undo/            state before each write
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from groundwork.commands import as_argument
from groundwork.durable import READABLE, replace
from groundwork.output import EXIT, fail, failing
from groupadmin.commands.editoptions import ClusterOptions, cluster_options
from groupadmin.migrate.journal import JournalHeader
from groupadmin.migrate.planfile import PlanUnclear, read_plan
from groupadmin.migrate.rules.groupplan import Plan
from groupadmin.migrate.rules.states import MigrationRefused
from groupadmin.migrate.selection import GroupSelection, chosen
from groupadmin.migrate.site import Site
from groupadmin.migrate.undofolder import UndoFolder
from groupadmin.snapshot.cluster import AdminClient
from kafkawire.dialects import expected
from zkconsumer.commands.common import at_interrupt
from zkconsumer.commands.options import group_name
from zkconsumer.errors import ConsumerError, NoSuchGroup
from zkconsumer.options.arguments import WrongUsage, parse_duration

OutOfRange = Literal["refuse", "clamp", "skip"]
AGAIN = "interrupted; what was done is in the journal: the same command continues from there"
CODES: dict[type[Exception], int] = {
    MigrationRefused: EXIT["refused"],
    WrongUsage: EXIT["usage"],
    PlanUnclear: EXIT["usage"],
    NoSuchGroup: EXIT["not found"],
}


class Duration(click.ParamType[int]):
    """Option type: a duration such as 30d, 12h, 90m, 250ms, PT1H30M; in ms."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_duration(value)
        except WrongUsage as why:
            self.fail(str(why), param, ctx)


DURATION = Duration()


# options --------------------------------------------------------------------------------------------------------------


def _names(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        group_name(ctx, param, text)
    return texts


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
migration_options = cluster_options("Brokers to ask, instead of those in ZooKeeper.", required=True)
plan_options = as_argument(  # of an existing plan; passes Files as place
    "place",
    lambda plan_file: files(plan_file),
    [click.option("--plan", "plan_file", required=True, metavar="FILE", type=_FILE, help="Plan file.")],
)
groups_options = as_argument(  # passes GroupSelection as wanted
    "wanted",
    lambda group, groups_regex, everything, exclude: GroupSelection(group, groups_regex, everything, exclude),
    [
        click.option("--group", multiple=True, metavar="GROUP", callback=_names, help="Group; repeatable."),
        click.option("--groups-regex", metavar="REGEX", help="All groups whose whole name matches."),
        click.option("--all", "everything", is_flag=True, help="All groups."),
        click.option(
            "--exclude", multiple=True, metavar="REGEX", help="Leave out groups whose whole name matches; repeatable."
        ),
    ],
)


# files ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a plan."""

    plan: Path
    journal: Path
    checks: Path
    retention: Path
    undo: UndoFolder

    def read(self) -> Plan:
        """Read the plan.  Raises PlanUnclear, ConsumerError."""
        try:
            text = self.plan.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as why:
            raise ConsumerError(f"plan {self.plan} cannot be read: {why}") from why
        try:
            return read_plan(text)
        except PlanUnclear as why:
            raise PlanUnclear(f"{self.plan}: {why}") from None


def keep(path: Path, text: str, what: str) -> None:
    """Write a file atomically, which others may read; anything but a regular file, such as /dev/stdout, is written to.
    Ends the command with a sentence when that fails."""
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            replace(path, text, READABLE)
    except OSError as why:
        fail(f"{what} cannot be written to {path}: {why.strerror}", EXIT["runtime"])


def files(plan: Path) -> Files:
    """Return the files of a plan, which are beside it."""
    journal, checks, retention, undo = map(plan.with_suffix, (".journal.jsonl", ".checks.json", ".retention", ".undo"))
    return Files(plan, journal, checks, retention, UndoFolder(undo))


def header(plan: Plan) -> JournalHeader:
    """Return the header of the plan's journal."""
    return JournalHeader(plan.plan_id, plan.cluster, plan.direction, time.time_ns() // 1_000_000)


# the cluster ----------------------------------------------------------------------------------------------------------


@contextmanager
def clear_refusals() -> Iterator[None]:
    """End the command with the sentence and the exit code of a migration's own errors."""
    with failing(CODES):
        yield


@contextmanager
def migration_client(options: ClusterOptions) -> Iterator[AdminClient]:
    """Open the client for the cluster; errors in the block end the command with a sentence, and ctrl-C says how to
    continue."""
    if not expected(options.kafka_version).offsets.count_messages:
        fail(
            f"Kafka {options.kafka_version} keeps no offsets, and its positions are bytes: there is no Kafka storage to"
            " migrate to; `zkconsumer offsets translate` takes a group to a newer cluster",
            EXIT["refused"],
        )
    with options.client() as admin, clear_refusals(), at_interrupt(AGAIN):
        yield admin


def site_of(admin: AdminClient, plan: Plan, connect: str) -> Site:
    """Return the cluster of a plan.  Raises MigrationRefused when -z names another one."""
    if connect != plan.cluster:
        raise MigrationRefused(
            "plan of another cluster",
            f"the plan is of {plan.cluster}, and -z is {connect}",
            "give -z as it was given to `zkconsumer migrate plan`",
        )
    return Site(admin, len(plan.groups))


def groups_of(plan: Plan, wanted: GroupSelection) -> list[str]:
    """Return the selected groups of a plan (default: all).  Raises as chosen()."""
    names = [each.group for each in plan.groups]
    if not wanted.anything:
        wanted = GroupSelection(everything=True, exclude=wanted.exclude)
    return chosen(wanted, names, "the plan")


def said_release(kafka_version: str) -> str | None:
    """Return --kafka-version if it was given, else None: the default says nothing about the brokers."""
    source = click.get_current_context().get_parameter_source("kafka_version")
    return None if source is click.core.ParameterSource.DEFAULT else kafka_version
