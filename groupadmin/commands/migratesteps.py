"""`zkconsumer migrate copy | verify | cutover | handover | takeback | rollback`: steps, shown first and read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from groundwork.commands import Command, as_argument, execute_option, option_block, output_option
from groundwork.logs import log_of_command
from groundwork.output import EXIT, Progress, fail, write
from groundwork.sentences import counted
from groupadmin.commands.editoptions import ClusterOptions
from groupadmin.commands.migratebase import (
    DURATION,
    Files,
    OutOfRange,
    groups_of,
    groups_options,
    header,
    keep,
    migration_client,
    migration_options,
    plan_options,
    site_of,
)
from groupadmin.migrate.journal import open_journal, read_journal
from groupadmin.migrate.keepalive import keep_alive
from groupadmin.migrate.observation import StepOptions
from groupadmin.migrate.rules import states
from groupadmin.migrate.rules.groupplan import Plan
from groupadmin.migrate.rules.states import COMMANDS, Asked
from groupadmin.migrate.runner import NOT_WRITTEN, Outcome, Preview, StepRunner, preview
from groupadmin.migrate.selection import GroupSelection, answers
from groupadmin.migrate.site import Site
from zkconsumer.commands.common import at_interrupt, print_note
from zkconsumer.commands.options import go_ahead
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.migrationmarker import Phase
from zkconsumer.offsets.modes import MODES
from zkconsumer.options.arguments import DAY_MS

F = TypeVar("F", bound=Callable[..., Any])
COLUMNS = ("group", "step", "phase", "written", "refused", "remedy")
PREVIEW = ("group", "phase", "step", "positions", "refused", "remedy")
MISMATCH = {NOT_WRITTEN, states.AS_PLANNED.name, states.STORES_AGREE.name}
KEPT = (Phase.COPIED, Phase.VERIFIED, Phase.CUTOVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """Options that all steps have."""

    cluster: ClusterOptions
    place: Files
    wanted: GroupSelection
    options: StepOptions
    output: str


def _request(
    options: ClusterOptions,
    place: Files,
    wanted: GroupSelection,
    mode: tuple[str, ...],
    commit_interval: int,
    looks: int,
    look_every: int,
    wait: int,
    output: str,
    retention: int | None = None,
    on_out_of_range: OutOfRange | None = None,
) -> StepRequest:
    modes: dict[str, Any] = dict(answers(mode, MODES))
    step = StepOptions(
        gate_snapshots=looks,
        gate_every_ms=look_every,
        wait_ms=wait,
        commit_interval_ms=commit_interval,
        retention_ms=retention,
        answers=modes,
        back_out_of_range=on_out_of_range,
    )
    return StepRequest(cluster=options, place=place, wanted=wanted, options=step, output=output)


_STEP_OPTIONS = (
    click.option("--mode", multiple=True, metavar="[MEMBER=]MODE",
                 help="Offset mode of members that publish none (JVM members): zookeeper, dual or kafka."),
    click.option("--commit-interval", type=DURATION, default="60s", show_default=True,
                 help="The longest auto.commit.interval.ms of the members."),
    click.option("--looks", type=click.IntRange(min=1), default=4, show_default=True,
                 help="Number of consecutive checks that must find no active member."),
    click.option("--look-every", type=DURATION, default="1500ms", show_default=True, help="Time between those checks."),
    click.option("--wait", type=DURATION, default="10s", show_default=True,
                 help="How long to wait for members that are leaving."),
    output_option(),
)  # fmt: skip
step_options = option_block(  # of all steps; passes StepRequest as request
    migration_options, plan_options, groups_options, as_argument("request", _request, _STEP_OPTIONS)
)
RETENTION = click.option("--retention", type=DURATION, help="Offset retention of the copies, as 30d.")


@click.command(
    "copy",
    cls=Command,
    examples=[
        "zkconsumer migrate copy -z zk1:2181 --plan billing.json",
        "zkconsumer migrate copy -z zk1:2181 --plan billing.json --retention 30d --execute",
        "zkconsumer migrate copy -z zk1:2181 --plan all.json --keepalive --execute",
    ],
)
@step_options
@RETENTION
@click.option("--keepalive", is_flag=True, help="Keep running, and commit the copies again until members return.")
@click.option("--keepalive-every", type=DURATION, default="1h", show_default=True, help="Interval of --keepalive.")
@execute_option
def copy_command(request: StepRequest, keepalive: bool, keepalive_every: int, execute: bool) -> None:
    """Copy a plan's offsets to Kafka, and read them back.

    The group must have no members.
    """
    _step(request, "copy", execute, keepalive_every if keepalive else None)


@click.command(
    "verify",
    cls=Command,
    examples=[
        "zkconsumer migrate verify -z zk1:2181 --plan billing.json",
        "zkconsumer migrate verify -z zk1:2181 --plan billing.json --mode dual --commit-interval 60s",
        "zkconsumer migrate verify -z zk1:2181 --plan all.json --groups-regex 'etl-.*'",
    ],
)
@step_options
def verify_command(request: StepRequest) -> None:
    """Compare the stores with the plan and with the members.

    With members present, both stores must follow them.

    After a copy it is read back.  With members in dual, two snapshots are taken a commit interval apart.  After the
    cutover every member must be on Kafka, and ZooKeeper idle; after the handover every member must be one that Kafka
    coordinates.  The result goes into the journal and the group's marker node.
    """
    _step(request, "verify", execute=True)


@click.command(
    "cutover",
    cls=Command,
    examples=[
        "zkconsumer migrate cutover -z zk1:2181 --plan billing.json",
        "zkconsumer migrate cutover -z zk1:2181 --plan billing.json --execute",
        "zkconsumer migrate cutover -z zk1:2181 --plan billing.json --mode dual --execute",
    ],
)
@step_options
@RETENTION
@execute_option
def cutover_command(request: StepRequest, execute: bool) -> None:
    """Make Kafka's offsets count.

    From now on members may be started on Kafka alone.
    """
    _step(request, "cutover", execute)


@click.command(
    "handover",
    cls=Command,
    examples=[
        "zkconsumer migrate handover -z zk1:2181 --plan billing.json --kafka-version 2.8",
        "zkconsumer migrate handover -z zk1:2181 --plan billing.json --kafka-version 2.8 --execute",
    ],
)
@step_options
@execute_option
def handover_command(request: StepRequest, execute: bool) -> None:
    """Hand the coordination of a group to Kafka (0.9 and later).

    The group must have no members on either side.

    The offsets are in Kafka since the cutover and stay as they are.  From now on members may be started with
    coordination=kafka, or as consumers of 0.9 and later; members of ours that would register in ZooKeeper are
    refused.
    """
    _step(request, "handover", execute)


@click.command(
    "takeback",
    cls=Command,
    examples=[
        "zkconsumer migrate takeback -z zk1:2181 --plan billing.json --kafka-version 2.8",
        "zkconsumer migrate takeback -z zk1:2181 --plan billing.json --kafka-version 2.8 --execute",
    ],
)
@step_options
@execute_option
def takeback_command(request: StepRequest, execute: bool) -> None:
    """Take the coordination of a group back to ZooKeeper.

    The group must have no members on either side.

    The offsets stay in Kafka: start the members in ZooKeeper with offsets.storage=kafka, dual.commit.enabled=false.
    """
    _step(request, "takeback", execute)


@click.command(
    "rollback",
    cls=Command,
    examples=[
        "zkconsumer migrate rollback -z zk1:2181 --plan billing.json",
        "zkconsumer migrate rollback -z zk1:2181 --plan billing.json --execute",
        "zkconsumer migrate rollback -z zk1:2181 --plan billing.json --mode dual --execute",
    ],
)
@step_options
@click.option(
    "--on-out-of-range",
    type=click.Choice(("refuse", "clamp", "skip")),
    help="Out-of-range policy for offsets copied back (default: the plan's).",
)
@execute_option
def rollback_command(request: StepRequest, execute: bool) -> None:
    """Make ZooKeeper's offsets count again.

    By all steps that lead back from the group's phase.

    Before the cutover copies are deleted from Kafka.  After it a stopped group is copied back; a running one goes
    back through dual, so bounce its members to dual first.  A group that Kafka coordinates must be stopped: its
    coordination is taken back first.
    """
    _step(request, "rollback", execute)


# execution ----------------------------------------------------------------------------------------------------------


def _step(request: StepRequest, asked: Asked, execute: bool, keep_every_ms: int | None = None) -> None:
    with migration_client(request.cluster) as admin:
        plan = request.place.read()
        names = groups_of(plan, request.wanted)
        site = site_of(admin, plan, request.cluster.connect)
        if not execute and not _confirmed(request, asked, plan, site=site, names=names):
            return
        request = replace(
            request,
            options=replace(request.options, retention_ms=_retention(request, asked, len(names) == len(plan.groups))),
        )
        outcomes = _executed(request, asked, plan, site=site, names=names)
        _show(outcomes, request.output)
        if keep_every_ms is not None:
            _keep(request, plan, site, outcomes=outcomes, every_ms=keep_every_ms)
    _exit(asked, outcomes)


def _retention(request: StepRequest, asked: Asked, whole: bool = True) -> int | None:
    """Return the offset retention to ask Kafka for.  The cutover commits the copies again, and keeps them as long as
    the copy did: the last commit counts.  whole: it is asked of all groups of the plan; of some, the longest for any is
    kept.
    """
    path, wanted = request.place.retention, request.options.retention_ms
    if asked in ("copy", "cutover") and wanted is not None:
        longest = wanted if whole else max(wanted, _kept(path) or 0)
        keep(path, f"{longest}\n", "the offset retention")
    elif asked == "copy" and whole:
        path.unlink(missing_ok=True)
    elif asked == "cutover" and (wanted := _kept(path)) is not None:
        print_note(f"offset retention is {wanted / DAY_MS:.3g} d, as for the copy")
    return wanted


def _kept(path: Path) -> int | None:
    if not path.exists():
        return None
    try:
        return int(path.read_text(encoding="utf-8"))
    except ValueError:
        raise ConsumerError(f"{path} does not hold a number of ms; give --retention, for all groups") from None


def _confirmed(request: StepRequest, asked: Asked, plan: Plan, *, site: Site, names: Sequence[str]) -> bool:
    """Show the dry run; True if the operator confirms it.  Ends the command when every group is refused."""
    standings = read_journal(request.place.journal).standings
    rows = preview(site, plan, standings, options=request.options, asked=asked, groups=names)
    write([_preview_row(row) for row in rows], PREVIEW, request.output)
    able = [row for row in rows if row.step is not None and not row.refusals]
    refused = [row for row in rows if row.refusals]
    if not able and refused:
        fail(f"{asked} is refused for every group ({counted(len(refused), 'group')})", EXIT["refused"])
    if not able:
        print_note("nothing to do")
        return False
    count = sum(len(row.writes) for row in able)
    return go_ahead(
        False,
        f"{asked} {counted(len(able), 'group')}, {counted(count, 'position')}"
        + (f" ({counted(len(refused), 'group is', 'groups are')} refused)" if refused else ""),
    )


def _preview_row(row: Preview) -> tuple[object, ...]:
    refused = "; ".join(f"{each.name}: {each.text}" for each in row.refusals) or None
    step = COMMANDS[row.step] if row.step else None
    return (row.group, row.phase, step, len(row.writes), refused, row.refusals[0].remedy if row.refusals else None)


def _executed(request: StepRequest, asked: Asked, plan: Plan, *, site: Site, names: Sequence[str]) -> list[Outcome]:
    place = request.place
    batches = len(names) > request.options.at_once  # of one there is nothing to show before its end
    with open_journal(place.journal, header(plan)) as journal, Progress(f"{asked}: groups", len(names)) as progress:
        runner = StepRunner(
            site,
            plan,
            journal,
            undo=place.undo,
            options=request.options,
            checks=(),
            progress=progress.update if batches else lambda done: None,
            tell=print_note,
        )
        return runner.run(asked, names)


def _show(outcomes: Sequence[Outcome], output: str) -> None:
    rows = []
    for each in outcomes:
        refused = f"{each.refusal.name}: {each.refusal.text}" if each.refusal else None
        step = COMMANDS[each.step] if each.step else None
        rows.append((each.group, step, each.phase, each.written, refused, each.refusal and each.refusal.remedy))
        for note in each.notes:
            print_note(f"{each.group}: {note}")
    write(rows, COLUMNS, output)


def _keep(request: StepRequest, plan: Plan, site: Site, *, outcomes: Sequence[Outcome], every_ms: int) -> None:
    """Keep the copies from expiring until members return; the journal is unlocked meanwhile."""
    plans = {each.group: each for each in plan.groups}
    kept = [plans[each.group] for each in outcomes if each.phase in KEPT and each.refusal is None]
    if kept:
        print_note(
            f"{counted(len(kept), 'group is', 'groups are')} kept alive until they have members; "
            f"ctrl-C ends it, and they expire by the brokers' retention"
        )
        with at_interrupt("no longer kept", lambda: 0):
            log_of_command()
            keep_alive(site, kept, every_s=every_ms / 1000, retention_ms=request.options.retention_ms, tell=print_note)


def _exit(asked: Asked, outcomes: Sequence[Outcome]) -> None:
    refused = [each for each in outcomes if each.refusal is not None]
    if not refused:
        return
    names = ", ".join(
        f"{count} {name}" for name, count in Counter(r.refusal.name for r in refused if r.refusal).items()
    )
    some = len(refused) < len(outcomes) or any(each.written for each in refused)
    mismatch = any(each.refusal is not None and each.refusal.name in MISMATCH for each in refused)
    was = "was" if len(refused) == 1 else "were"
    fail(
        f"{asked}: {len(refused)} of {counted(len(outcomes), 'group')} {was} refused ({names})",
        EXIT["partly"] if some or mismatch else EXIT["refused"],
    )
