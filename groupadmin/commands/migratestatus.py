"""`zkconsumer migrate status`: the phase of each group, or the whole report of a plan.  Only reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from groundwork.commands import Command, output_option
from groundwork.output import print_file, write
from groundwork.sentences import iso
from groundwork.zksecurity import ZooKeeper
from groupadmin.commands.migratebase import (
    Files,
    clear_refusals,
    files,
    groups_of,
    groups_options,
    keep,
    said_release,
)
from groupadmin.migrate.journal import Standing, read_journal
from groupadmin.migrate.report import Reported, as_json, as_markdown
from groupadmin.migrate.rules.checks import Check
from groupadmin.migrate.rules.groupplan import Plan
from groupadmin.migrate.rules.states import COMMANDS, StepName, commands_from
from groupadmin.migrate.selection import GroupSelection, chosen
from groupadmin.migrate.site import Marked, read_markers
from groupadmin.snapshot.tree import groups_in_zookeeper
from zkconsumer.commands.common import clear_errors, connected, print_note
from zkconsumer.commands.options import brokers_option, kafka_version_option, zookeeper_option
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.migrationmarker import Phase

COLUMNS = ("group", "phase", "since", "node", "written", "interrupted", "refused", "next")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_PATH = click.Path(dir_okay=False, path_type=Path)


@click.command(
    "status",
    cls=Command,
    examples=[
        "zkconsumer migrate status --plan billing.json",
        "zkconsumer migrate status -z zk1:2181",
        "zkconsumer migrate status -z zk1:2181 --plan all.json --groups-regex 'etl-.*' -o json",
        "zkconsumer migrate status --plan billing.json --report md --out billing.md",
    ],
)
@zookeeper_option(required=False)
@click.option(
    "--plan", "plan_file", type=_FILE, metavar="FILE", help="Plan file; its journal says which phase each group is in."
)
@groups_options
@output_option()
@click.option(
    "--report",
    type=click.Choice(("md", "json")),
    help="Print the whole report of the plan instead: each partition as planned, done and refused, and undo commands.",
)
@click.option("--out", type=_PATH, metavar="FILE", help="File for the report.  [default: stdout]")
@brokers_option("Brokers, for the undo commands in the report.")
@kafka_version_option
def status_command(
    zookeeper: ZooKeeper | None,
    plan_file: Path | None,
    wanted: GroupSelection,
    output: str,
    report: str | None,
    out: Path | None,
    brokers: list[tuple[str, int]],
    kafka_version: str,
) -> None:
    """Print the migration phase of each group.

    From a plan's journal, from the migration nodes in ZooKeeper, or from both.  The column `next` names the commands of
    `zkconsumer migrate` that lead on from a phase.
    """
    if zookeeper is None and plan_file is None:
        raise click.UsageError("give --plan, or -z for the nodes in ZooKeeper, or both")
    release = said_release(kafka_version)
    _fit_together(plan_file, zookeeper, report=report, out=out, brokers=brokers, release=release)
    place = files(plan_file) if plan_file is not None else None
    if place is not None and report is not None:
        _print_report(place, wanted, brokers=brokers, release=release, form=report, out=out)
    else:
        _print_phases(place, wanted, zookeeper, output)


def _fit_together(
    plan: Path | None,
    zookeeper: ZooKeeper | None,
    *,
    report: str | None,
    out: Path | None,
    brokers: list[tuple[str, int]],
    release: str | None,
) -> None:
    """Raise click.UsageError for options without effect."""
    if report is not None and plan is None:
        raise click.UsageError("--report is made from a plan and its journal: give --plan")
    if report is not None and zookeeper is not None:
        raise click.UsageError("--report is made from the plan and its journal alone: leave out -z, or print the table")
    for given, option in ((out, "--out"), (brokers, "--brokers"), (release, "--kafka-version")):
        if report is None and given:
            raise click.UsageError(f"{option} is for a report: add --report md, or --report json")


def _print_phases(place: Files | None, wanted: GroupSelection, zookeeper: ZooKeeper | None, output: str) -> None:
    with clear_errors(), clear_refusals():
        names = groups_of(place.read(), wanted) if place is not None else None
        standings = read_journal(place.journal).standings if place is not None else {}
    marked: Mapping[str, Marked] = {}
    if zookeeper is not None:
        with connected(zookeeper) as reach, clear_refusals():
            marked = read_markers(reach.session, names or _there(groups_in_zookeeper(reach.session), wanted, zookeeper))
    if names is None:
        names = [name for name, each in marked.items() if each.version is not None]
    write([_row(name, standings.get(name), marked.get(name), place is None) for name in names], COLUMNS, output)
    for name in names:
        if name in marked and marked[name].unclear:
            print_note(marked[name].unclear)


def _print_report(
    place: Files,
    wanted: GroupSelection,
    *,
    brokers: list[tuple[str, int]],
    release: str | None,
    form: str,
    out: Path | None,
) -> None:
    with clear_errors(), clear_refusals():
        plan = place.read()
        names = set(groups_of(plan, wanted))
        reported = _reported(
            place,
            replace(plan, groups=tuple(g for g in plan.groups if g.group in names)),
            _connect(plan, brokers, release),
        )
    text = as_json(reported) if form == "json" else as_markdown(reported)
    if out is None:
        print_file(text)
        return
    keep(out, text, "the report")
    print_note(f"the report is in {out}")


def _there(names: Sequence[str], wanted: GroupSelection, zookeeper: ZooKeeper) -> list[str]:
    if not names:
        return []
    return chosen(wanted if wanted.anything else replace(wanted, everything=True), names, zookeeper.connect)


def _row(name: str, standing: Standing | None, marked: Marked | None, by_node: bool) -> tuple[object, ...]:
    marker = marked.marker if marked is not None else None
    node = f"{marker.phase} ({marker.plan})" if marker else "unclear" if marked and marked.unclear else None
    if by_node:
        phase, since = (marker.phase, iso(marker.at_ms)) if marker else (None, None)
        return (name, phase, since, node, None, None, None, _next(phase) if phase else None)
    if standing is None:
        return (name, Phase.PLANNED, None, node, 0, None, None, _next(Phase.PLANNED))
    declined = f"{standing.declined.name}: {standing.declined.text}" if standing.declined else None
    since = iso(standing.since_ms)
    begun = COMMANDS[standing.begun] if standing.begun else None
    return (name, standing.phase, since, node, standing.wrote, begun, declined, _next(standing.phase))


def _next(phase: Phase) -> str | None:
    return ", ".join(commands_from(phase)) or None


def _connect(plan: Plan, brokers: Sequence[tuple[str, int]], release: str | None) -> tuple[str, ...]:
    """Return the options for the cluster in printed commands, without credentials."""
    found = ["-z", plan.cluster]
    if brokers:
        found += ["-b", ",".join(f"{host}:{port}" for host, port in brokers)]
    return (*found, "--kafka-version", release) if release is not None else tuple(found)


def _reported(place: Files, plan: Plan, connect: tuple[str, ...]) -> Reported:
    names = [each.group for each in plan.groups]
    checks = [row for row in read_checks(place) if row.group is None or row.group in names]
    undo = place.undo.files(names, StepName.COPY)
    return Reported(
        plan,
        read_journal(place.journal).standings,
        checks=checks,
        undo_files=undo,
        plan_file=str(place.plan),
        connect=connect,
    )


# the last check -----------------------------------------------------------------------------------------------------


def keep_checks(place: Files, rows: Sequence[Check]) -> None:
    """Keep the results of the last check beside the plan, for the report."""
    keep(place.checks, json.dumps([asdict(row) for row in rows], indent=1) + "\n", "the results of the check")


def read_checks(place: Files) -> list[Check]:
    """Return the results of the last check; none without a check.  Raises ConsumerError."""
    try:
        return [Check(**row) for row in json.loads(place.checks.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as why:
        raise ConsumerError(f"{place.checks} cannot be read ({why}); check again, or delete it") from None
