"""`zkconsumer migrate plan` and `check`: the decision about each partition, and its checks.  Both only read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from groundwork.commands import Command, output_option
from groundwork.output import EXIT, Progress, fail, print_text, write
from groundwork.sentences import counted
from groupadmin.commands.editoptions import ClusterOptions, end_where_closed, tell_closed
from groupadmin.commands.migratebase import (
    DURATION,
    Files,
    files,
    groups_of,
    groups_options,
    header,
    keep,
    migration_client,
    migration_options,
    plan_options,
    said_release,
    site_of,
)
from groupadmin.commands.migratestatus import keep_checks
from groupadmin.migrate.clusterfacts import OperatorFacts, cluster_facts
from groupadmin.migrate.journal import open_journal, read_journal
from groupadmin.migrate.observation import StepOptions
from groupadmin.migrate.planfile import plan_text
from groupadmin.migrate.rules import states
from groupadmin.migrate.rules.checks import Check, check_cluster
from groupadmin.migrate.rules.groupplan import GroupPlan, Plan, Policies, make_plan, plan_group
from groupadmin.migrate.rules.states import MigrationRefused
from groupadmin.migrate.runner import Outcome, StepRunner
from groupadmin.migrate.selection import GroupSelection, chosen
from groupadmin.migrate.site import Site
from groupadmin.snapshot.cluster import AdminClient
from groupadmin.snapshot.tree import groups_in_zookeeper
from zkconsumer.commands.common import print_note
from zkconsumer.errors import NodeClosed, NoSuchGroup
from zkconsumer.offsets.store import NONE, Committed

AT_ONCE = 200
COLUMNS = (
    "group",
    "topic",
    "partition",
    "zookeeper",
    "version",
    "age_s",
    "kafka",
    "log_start",
    "log_end",
    "action",
    "target",
    "why",
)
CHECKS = ("outcome", "check", "group", "seen", "remedy")


@click.command(
    "plan",
    cls=Command,
    examples=[
        "zkconsumer migrate plan -z zk1:2181 --group billing --plan billing.json",
        "zkconsumer migrate plan -z zk1:2181 --groups-regex 'etl-.*' --prefer max --plan etl.json",
        "zkconsumer migrate plan -z zk1:2181 --all --exclude 'console-consumer-.*' --plan all.json",
    ],
)
@migration_options
@groups_options
@click.option("--plan", "plan_file", type=click.Path(dir_okay=False, path_type=Path), help="File to write the plan to.")
@click.option(
    "--prefer",
    type=click.Choice(("refuse", "max", "zookeeper", "kafka")),
    default="refuse",
    show_default=True,
    help="Which offset is used where both stores have one and they differ.",
)
@click.option(
    "--on-out-of-range",
    type=click.Choice(("refuse", "clamp", "skip")),
    default="refuse",
    show_default=True,
    help="What to do with an offset outside the log.",
)
@click.option(
    "--recreated",
    type=click.Choice(("refuse", "trust")),
    default="refuse",
    show_default=True,
    help="What to do with offsets that are older than their topic.",
)
@output_option()
def plan_command(
    options: ClusterOptions,
    wanted: GroupSelection,
    plan_file: Path | None,
    prefer: str,
    on_out_of_range: str,
    recreated: str,
    output: str,
) -> None:
    """Plan a migration to Kafka, and change nothing.

    Reads both stores, and plans for each partition what the migration would do.
    """
    if not wanted.anything:
        raise click.UsageError("which groups? Give --group, --groups-regex or --all")
    policies = Policies(prefer, on_out_of_range, recreated)  # type: ignore[arg-type]  # click checked them
    place = files(plan_file) if plan_file is not None else None
    _somewhere(place)
    with migration_client(options) as admin:
        _unused(place)
        plan = _planned(admin, options.connect, wanted=wanted, policies=policies)
        _unknown(plan, wanted, options.connect)
        if place is not None:
            keep(place.plan, plan_text(plan), "the plan")
    write(rows_of(plan, plan.made_at_ms), COLUMNS, output)
    _summary(plan, place)
    end_where_closed(admin)


def _somewhere(place: Files | None) -> None:
    """End the command, before groups are read, when the plan's folder does not exist."""
    if place is not None and not place.plan.parent.is_dir():
        fail(f"the plan cannot be kept in {place.plan}: there is no folder {place.plan.parent}", EXIT["runtime"])


def _unused(place: Files | None) -> None:
    """Refuse to overwrite a plan that was begun.  Raises MigrationRefused."""
    if place is None:
        return
    found = read_journal(place.journal)
    if found.header is not None and place.plan.exists():
        raise MigrationRefused(
            "plan in use", f"{place.plan} was begun: {place.journal} goes with it", "name another file for the new plan"
        )


def _planned(admin: AdminClient, connect: str, *, wanted: GroupSelection, policies: Policies) -> Plan:
    assert admin.session is not None
    there = set(groups_in_zookeeper(admin.session)) | set(wanted.groups)  # a group may exist in Kafka only
    names = chosen(wanted, there, connect)
    site = Site(admin, len(names))
    cluster = site.read_cluster()
    plans: list[GroupPlan] = []
    with Progress("planning groups", len(names)) as progress:
        for first in range(0, len(names), AT_ONCE):
            some = site.unplanned_snapshots(names[first : first + AT_ONCE])
            plans += [plan_group(snapshot, policies) for snapshot in some.values()]
            progress.update(len(plans))
    if why := next((admin.closed[name] for name in wanted.groups if name in admin.closed), None):
        raise NodeClosed(why)
    tell_closed(admin)
    if not cluster.keeps_offsets:
        print_note("__consumer_offsets does not exist, so Kafka holds no offsets; planning does not create it")
    return make_plan(plans, policies, "to-kafka", cluster=connect, at_ms=admin.clock_ms())


def _unknown(plan: Plan, wanted: GroupSelection, connect: str) -> None:
    """Raise NoSuchGroup for named groups without any data."""
    empty = [
        each.group
        for each in plan.groups
        if each.group in wanted.groups and not each.rows and not each.members and not each.foreign
    ]
    if empty:
        raise NoSuchGroup(f"group {', '.join(empty)} has no position and no member, in {connect} and in Kafka")


def rows_of(plan: Plan, now_ms: int) -> list[tuple[object, ...]]:
    """Return a row for each partition in the order of COLUMNS."""
    rows: list[tuple[object, ...]] = []
    for group in plan.groups:
        for row in group.rows:
            node, (start, end) = row.zookeeper, row.bounds or (None, None)
            age = None if node is None else max(0, now_ms - node.mtime_ms) // 1000
            partition = row.tp.partition if isinstance(row.tp.partition, int) else str(row.tp.partition)
            rows.append((
                group.group, row.tp.topic, partition, _said(row.held("zookeeper")),
                None if node is None else node.version, age, _said(row.held("kafka")), start, end,
                f"{row.action} (open)" if row.open else row.action, row.target, row.why or None,
            ))  # fmt: skip
    return rows


def _said(there: Committed) -> int | str | None:
    return there if isinstance(there, int) else None if there is NONE else "unreadable"


def _summary(plan: Plan, place: Files | None) -> None:
    partitions, open_rows = sum(len(g.rows) for g in plan.groups), sum(len(g.open_rows) for g in plan.groups)
    print_note(
        f"plan {plan.plan_id}: {counted(len(plan.groups), 'group')}, "
        f"{counted(partitions, 'partition')}, {open_rows} open"
    )
    for group in plan.groups:
        for each in group.foreign:
            print_note(f"{each.path} holds {each.found!r}: {each.text}; it is left as it is")
    if open_rows:
        print_note("groups with open partitions are not copied: choose with --prefer or --on-out-of-range")
    print_note(
        f"the plan is kept in {place.plan}" if place is not None else "the plan is not kept: name a file with --plan"
    )


# check ----------------------------------------------------------------------------------------------------------------


@click.command(
    "check",
    cls=Command,
    examples=[
        "zkconsumer migrate check -z zk1:2181 --plan billing.json",
        "zkconsumer migrate check -z zk1:2181 --plan billing.json --broker-retention 24h --downtime 4h",
        "zkconsumer migrate check -z zk1:2181 --plan all.json -o json",
    ],
)
@migration_options
@plan_options
@groups_options
@click.option(
    "--offsets-replicas",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Number of replicas that __consumer_offsets should have.",
)
@click.option("--broker-retention", type=DURATION, help="offsets.retention.minutes of the brokers, as 24h or 7d.")
@click.option("--downtime", type=DURATION, default="1h", show_default=True, help="How long groups will be stopped.")
@click.option("--retention", type=DURATION, help="Offset retention that the copy will ask Kafka for, as 30d.")
@click.option("--keepalive", is_flag=True, help="The copies will be committed again until members return.")
@output_option()
def check_command(
    options: ClusterOptions,
    place: Files,
    wanted: GroupSelection,
    offsets_replicas: int,
    broker_retention: int | None,
    downtime: int,
    retention: int | None,
    keepalive: bool,
    output: str,
) -> None:
    """Check for obstacles to a plan.

    Exit code 3 when there are any.  Only the journal is written.
    """
    operator = OperatorFacts(
        release=said_release(options.kafka_version),
        wanted_replicas=offsets_replicas,
        retention_ms=broker_retention,
        downtime_ms=downtime,
        long_retention_ms=retention,
        keepalive=keepalive,
    )
    with migration_client(options) as admin:
        plan = place.read()
        names = groups_of(plan, wanted)
        site = site_of(admin, plan, options.connect)
        rows, outcomes = _checked(site, place, plan, names=names, operator=operator)
    rows.sort(key=lambda row: (("fail", "warn", "pass").index(row.outcome), row.group or ""))
    if output == "table":  # passed checks of hundreds of groups would hide the failed ones
        passed = [row for row in rows if row.outcome == "pass" and row.group is not None]
        print_note(f"{counted(len(passed), 'row')} of single groups passed; -o json shows them")
        rows = [row for row in rows if row.outcome != "pass" or row.group is None]
    shown = [(row.outcome, row.id, row.group, row.text, row.remedy or None) for row in rows]
    if output == "table":  # a remedy is a command to copy: not in a column
        write([each[:-1] for each in shown], CHECKS[:-1])
        for row in rows:
            if row.remedy:
                print_text(f"{' '.join(filter(None, (row.group, row.id)))}: {row.remedy}")
    else:
        write(shown, CHECKS, output)
    refused = [each for each in outcomes if each.refusal is not None]
    for each in refused:
        if each.refusal is not None and each.refusal.name != states.CHECKS_PASS.name:
            print_note(f"{each.group}: {each.refusal}")
    if refused or any(row.outcome == "fail" for row in rows):
        fail(f"{len(refused)} of {counted(len(names), 'group')} cannot be migrated as they are", EXIT["refused"])


def _checked(
    site: Site, place: Files, plan: Plan, *, names: Sequence[str], operator: OperatorFacts
) -> tuple[list[Check], list[Outcome]]:
    plans = {each.group: each for each in plan.groups}
    sample = site.snapshots([plans[name] for name in names[:AT_ONCE]], only_presence=True)
    facts = cluster_facts(
        site.admin,
        site.read_cluster(),
        zookeeper=plan.cluster,
        groups=list(names),
        snapshots=sample.values(),
        operator=operator,
    )
    with open_journal(place.journal, header(plan)) as journal, Progress("checking groups", len(names)) as progress:
        runner = StepRunner(
            site,
            plan,
            journal,
            undo=place.undo,
            options=StepOptions(at_once=AT_ONCE),
            checks=check_cluster(facts),
            progress=progress.update,
            tell=print_note,
        )
        outcomes = runner.run("check", names)
    keep_checks(place, runner.checks)
    return runner.checks, outcomes
