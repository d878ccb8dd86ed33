"""Report of a migration as markdown or JSON: counts, times, partitions, undo commands.

Pure: it is made from the plan, the journal and the checks.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any

from groundwork.sentences import counted, iso
from groupadmin.migrate.journal import Standing
from groupadmin.migrate.planfile import plan_document
from groupadmin.migrate.rules.checks import Check
from groupadmin.migrate.rules.groupplan import GroupPlan, Plan, PlanRow
from groupadmin.migrate.rules.states import COMMANDS, commands_from
from zkconsumer.offsets.migrationmarker import BY_KAFKA, Phase
from zkconsumer.offsets.store import NONE, Committed

SCHEMA = "zkconsumer.migration.report/1"


@dataclass(frozen=True, slots=True)
class Reported:
    """Input of a report.

    standings   by group; an absent group was planned and not begun
    undo_files  files with the state before each copy, by group
    plan_file   the plan's name in undo commands
    connect     options for the cluster: ("-z", "zk1:2181/kafka", "-b", "kafka1:9092")
    partial     a part could not be read, so the report is incomplete
    """

    plan: Plan
    standings: Mapping[str, Standing]
    _: KW_ONLY
    checks: Sequence[Check] = ()
    undo_files: Mapping[str, str] = field(default_factory=dict)
    plan_file: str = "plan.json"
    connect: tuple[str, ...] = ()
    partial: bool = False


def phase_of(reported: Reported, group: str) -> Phase:
    """Return the phase of a group."""
    standing = reported.standings.get(group)
    return standing.phase if standing is not None else Phase.PLANNED


def undo_commands(reported: Reported, plan: GroupPlan) -> list[str]:
    """Return the commands, and comments, that roll a group back from its phase, in order."""
    phase, undo = phase_of(reported, plan.group), reported.undo_files.get(plan.group)
    go_back = _command(
        reported, "migrate", "rollback", "--plan", reported.plan_file, "--group", plan.group, "--execute"
    )
    if phase in (Phase.PLANNED, Phase.CHECKED):
        return ["# nothing was written"]
    if phase is Phase.ROLLED_BACK:
        return ["# nothing is left to undo"]
    if phase in (Phase.COPIED, Phase.VERIFIED):
        put_back = _command(reported, "offsets", "import", undo, "--group", plan.group, "--execute") if undo else None
        return [go_back, *([f"# or, store by store: {put_back}"] if put_back else [])]
    if phase in (Phase.DUAL, Phase.DUAL_BACK):
        return [go_back, "# then bounce the members, one by one, to offsets.storage=zookeeper"]
    if phase in BY_KAFKA:
        take_back = _command(
            reported, "migrate", "takeback", "--plan", reported.plan_file, "--group", plan.group, "--execute"
        )
        return [
            "# stop every member first",
            take_back,
            "# then start the members in ZooKeeper with offsets.storage=kafka, dual.commit.enabled=false; "
            "or, with all of them stopped, back to ZooKeeper's offsets:",
            go_back,
            "# then start them with offsets.storage=zookeeper",
        ]
    if phase in (Phase.COPIED_BACK, Phase.VERIFIED_BACK):
        return [go_back, "# then start the members with offsets.storage=zookeeper"]
    return [
        "# live: bounce the members, one by one, to offsets.storage=kafka with dual.commit.enabled=true; "
        "or stop all of them",
        go_back,
        "# then bounce or start them with offsets.storage=zookeeper",
    ]


def _command(reported: Reported, *words: str) -> str:
    if not all(word.isprintable() for word in words):  # a line break in a group's name would begin another command
        return "# the name of the group has characters that cannot be part of a command; do this with a program"
    return shlex.join(["zkconsumer", *words[:2], *reported.connect, *words[2:]])


# JSON -----------------------------------------------------------------------------------------------------------------


def as_json(reported: Reported) -> str:
    """Return the report as one JSON document: the plan with each group's phase, times, next commands and undo
    commands."""
    document = plan_document(reported.plan)
    document |= {"format": SCHEMA, "partial": reported.partial, "checks": [asdict(each) for each in reported.checks]}
    document["counts"] = _counts(reported)
    for said, plan in zip(document["groups"], reported.plan.groups, strict=True):
        said |= _standing(reported, plan)
    return json.dumps(document, indent=1) + "\n"


def _counts(reported: Reported) -> dict[str, Any]:
    groups = reported.plan.groups
    return {
        "groups": len(groups),
        "partitions": sum(len(plan.rows) for plan in groups),
        "open": sum(len(plan.open_rows) for plan in groups),
        "phases": dict(Counter(str(phase_of(reported, plan.group)) for plan in groups)),
        "actions": dict(Counter(row.action for plan in groups for row in plan.rows)),
    }


def _standing(reported: Reported, plan: GroupPlan) -> dict[str, Any]:
    standing = reported.standings.get(plan.group)
    phase = phase_of(reported, plan.group)
    return {
        "phase": phase,
        "past": [{"phase": each, "at_ms": at_ms} for each, at_ms in (standing.past if standing else ())],
        "interrupted": COMMANDS[standing.begun] if standing and standing.begun else None,
        "declined": None if standing is None or standing.declined is None else standing.declined.text,
        "written": standing.wrote if standing else 0,
        "lag": _lag(plan),
        "next": commands_from(phase),
        "undo": undo_commands(reported, plan),
        "undo_file": reported.undo_files.get(plan.group),
    }


def _lag(plan: GroupPlan) -> dict[str, int | None]:
    """Return the lag when the plan was made: by ZooKeeper's offsets, by Kafka's, and by the targets."""
    return {
        "zookeeper": _behind(plan, [row.held("zookeeper") for row in plan.rows]),
        "kafka": _behind(plan, [row.held("kafka") for row in plan.rows]),
        "planned": _behind(plan, [NONE if row.target is None else row.target for row in plan.rows]),
    }


def _behind(plan: GroupPlan, numbers: Sequence[Committed]) -> int | None:
    known = [
        max(0, row.bounds[1] - number)
        for row, number in zip(plan.rows, numbers, strict=True)
        if isinstance(number, int) and row.bounds is not None
    ]
    return sum(known) if known else None


# markdown -------------------------------------------------------------------------------------------------------------


def as_markdown(reported: Reported) -> str:
    """Return the report as markdown."""
    plan, counts = reported.plan, _counts(reported)
    lines = [f"# Migration {plan.plan_id}, {plan.direction}", ""]
    lines += [f"Planned {iso(plan.made_at_ms)} of {_cell(plan.cluster)}: {counted(counts['groups'], 'group')}, "]
    lines[-1] += f"{counted(counts['partitions'], 'partition')}, {counts['open']} open."
    if reported.partial:
        lines += ["", "**Not everything could be read: this report is incomplete.**"]
    lines += ["", *_table(["PHASE", "GROUPS"], sorted(counts["phases"].items()))]
    lines += ["", *_table(["ACTION", "PARTITIONS"], sorted(counts["actions"].items()))]
    if reported.checks:
        rows = [(row.outcome, row.id, row.group or "", row.text, row.remedy) for row in reported.checks]
        order = ("fail", "warn", "pass")
        rows.sort(key=lambda row: order.index(row[0]))
        lines += ["", "## Checks", "", *_table(["OUTCOME", "CHECK", "GROUP", "FOUND", "REMEDY"], rows)]
    for each in plan.groups:
        lines += ["", *_section(reported, each)]
    return "\n".join(lines) + "\n"


def _section(reported: Reported, plan: GroupPlan) -> list[str]:
    said, standing = _standing(reported, plan), reported.standings.get(plan.group)
    lines = [f"## {_cell(plan.group)}: {said['phase']}", ""]
    for phase, at_ms in standing.past if standing else ():
        lines.append(f"- {iso(at_ms)} {phase}")
    if standing is not None and standing.past:
        lines += [f"- took {_took(standing)}"]
    if said["interrupted"]:
        lines.append(f"- {said['interrupted']} was begun and did not end: repeat it")
    if said["declined"]:
        lines.append(f"- refused: {_cell(said['declined'])}")
    lag = ", ".join(f"{store} {behind}" for store, behind in said["lag"].items() if behind is not None)
    lines += [f"- lag when planned: {lag}"] if lag else []
    lines += [f"- next: {', '.join(said['next'])}"] if said["next"] else []
    header = [
        "TOPIC",
        "PARTITION",
        "ZOOKEEPER",
        "KAFKA",
        "LOG-START-OFFSET",
        "LOG-END-OFFSET",
        "ACTION",
        "TARGET",
        "WHY",
    ]
    lines += ["", *_table(header, [_cells(row) for row in plan.rows])]
    if plan.foreign:
        found = [(each.kind, each.path, each.found, each.text) for each in plan.foreign]
        lines += [
            "",
            "Nodes of other clients, left as they are:",
            "",
            *_table(["KIND", "NODE", "HOLDS", "LOOKS LIKE"], found),
        ]
    return [*lines, "", "To go back:", "", "```sh", *said["undo"], "```"]


def _took(standing: Standing) -> str:
    ms = standing.past[-1][1] - standing.past[0][1]
    return f"{ms / 1000:.1f} s" if ms < 120_000 else f"{ms / 60_000:.1f} min"


def _cells(row: PlanRow) -> tuple[object, ...]:
    start, end = row.bounds or ("-", "-")
    target = "-" if row.target is None else row.target
    action = f"{row.action} (open)" if row.open else row.action
    held = [_number(row.held("zookeeper")), _number(row.held("kafka"))]
    return (row.tp.topic, row.tp.partition, *held, start, end, action, target, row.why)


def _number(there: Committed) -> str:
    return str(there) if isinstance(there, int) else "-" if there is NONE else "unreadable"


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    lines = [header, ["---"] * len(header), *([_cell(cell) for cell in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def _cell(value: object) -> str:
    """Return a value escaped for a table cell: names and data may come from other clients."""
    text = str(value).replace("\\", "\\\\").replace("|", "\\|")
    return "".join(c if c.isprintable() else " " for c in text).strip()
