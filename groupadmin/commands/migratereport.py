"""`zkconsumer migrate status | report`: where groups are; what became of them, with the way back.  Both only read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from groundwork.output import write
from groundwork.zksecurity import ZooKeeper
from groupadmin.commands.migratebase import (
    Files,
    clear_refusals,
    files,
    groups_of,
    groups_options,
    keep,
    plan_options,
    said_release,
    undo_folder,
)
from groupadmin.migrate.checks import Check
from groupadmin.migrate.groupplan import Plan
from groupadmin.migrate.journal import Standing, read_journal
from groupadmin.migrate.report import Reported, as_json, as_markdown
from groupadmin.migrate.selection import Wanted, chosen
from groupadmin.migrate.site import Marked, read_markers
from groupadmin.migrate.states import StepName, steps_from
from groupadmin.snapshot.tree import groups_in_zookeeper
from zkconsumer.commands.common import clear_errors, reaching, tell
from zkconsumer.commands.options import brokers_option, kafka_version_option, output_option, zookeeper_option
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.marker import Phase
from zkconsumer.spelling import iso

COLUMNS = ("group", "phase", "since", "node", "written", "interrupted", "refused", "next")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("status")
@zookeeper_option(required=False)
@click.option(
    "--plan", "plan_file", type=_FILE, metavar="FILE", help="Plan file; its journal says which phase each group is in."
)
@click.option("--journal", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Its journal.")
@groups_options
@output_option()
def status_command(
    zookeeper: ZooKeeper | None,
    plan_file: Path | None,
    journal: Path | None,
    wanted: Wanted,
    output: str,
) -> None:
    """Print where groups are: by a plan's journal, by the nodes that migrations leave in ZooKeeper, or by both.

    \b
    zkconsumer migrate status --plan billing.json
    zkconsumer migrate status -z zk1:2181
    zkconsumer migrate status -z zk1:2181 --plan all.json --groups-regex 'etl-.*' -o json
    """
    if zookeeper is None and plan_file is None:
        raise click.UsageError("give --plan, or -z for the nodes in ZooKeeper, or both")
    with clear_errors(), clear_refusals():
        place = files(plan_file, journal) if plan_file is not None else None
        names = groups_of(place.read(), wanted) if place is not None else None
        standings = read_journal(place.journal).standings if place is not None else {}
    marked: Mapping[str, Marked] = {}
    if zookeeper is not None:
        with reaching(zookeeper) as reach, clear_refusals():
            marked = read_markers(reach.session, names or _there(groups_in_zookeeper(reach.session), wanted, zookeeper))
    if names is None:
        names = [name for name, each in marked.items() if each.version is not None]
    write([_row(name, standings.get(name), marked.get(name), place is None) for name in names], COLUMNS, output)
    for name in names:
        if name in marked and marked[name].unclear:
            tell(marked[name].unclear)


def _there(names: Sequence[str], wanted: Wanted, zookeeper: ZooKeeper) -> list[str]:
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
    return (name, standing.phase, since, node, standing.wrote, standing.begun, declined, _next(standing.phase))


def _next(phase: Phase) -> str | None:
    return ", ".join(dict.fromkeys(step.name for step in steps_from(phase))) or None


@click.command("report")
@plan_options
@brokers_option("Brokers, for the commands that the report shows.")
@kafka_version_option
@groups_options
@click.option("-o", "--output", type=click.Choice(("md", "json")), default="md", show_default=True, help="Its form.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Where; else on stdout.")
def report_command(
    place: Files,
    brokers: list[tuple[str, int]],
    kafka_version: str,
    wanted: Wanted,
    output: str,
    out: Path | None,
) -> None:
    """Write what was planned, done and refused, each partition, and the commands that undo it.

    \b
    zkconsumer migrate report --plan billing.json
    zkconsumer migrate report --plan billing.json --out billing.md
    zkconsumer migrate report --plan all.json -o json
    """
    with clear_errors(), clear_refusals():
        plan = place.read()
        names = set(groups_of(plan, wanted))
        reported = _reported(
            place,
            replace(plan, groups=tuple(g for g in plan.groups if g.group in names)),
            _connect(plan, brokers, kafka_version),
        )
    text = as_json(reported) if output == "json" else as_markdown(reported)
    if out is None:
        click.echo(text, nl=False)
        return
    keep(out, text, "the report")
    tell(f"the report is in {out}")


def _connect(plan: Plan, brokers: Sequence[tuple[str, int]], kafka_version: str) -> tuple[str, ...]:
    """The options that reach the cluster, for commands that are shown; who we are there is not told."""
    found = ["-z", plan.cluster]
    if brokers:
        found += ["-b", ",".join(f"{host}:{port}" for host, port in brokers)]
    release = said_release(kafka_version)
    return (*found, "--kafka-version", release) if release is not None else tuple(found)


def _reported(place: Files, plan: Plan, connect: tuple[str, ...]) -> Reported:
    names = [each.group for each in plan.groups]
    checks = [row for row in read_checks(place) if row.group is None or row.group in names]
    undo = undo_folder(place).files(names, StepName.COPY)
    return Reported(plan, read_journal(place.journal).standings, checks, undo, str(place.plan), connect)


# what check found -----------------------------------------------------------------------------------------------------


def keep_checks(place: Files, rows: Sequence[Check]) -> None:
    """Keep the rows of the last check beside the plan, for the report."""
    keep(place.checks, json.dumps([asdict(row) for row in rows], indent=1) + "\n", "what was found")


def read_checks(place: Files) -> list[Check]:
    """The rows of the last check; none when nobody checked.  Raises ConsumerError."""
    try:
        return [Check(**row) for row in json.loads(place.checks.read_text(encoding="utf-8"))]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as why:
        raise ConsumerError(f"{place.checks} cannot be read ({why}); check again, or delete it") from None
