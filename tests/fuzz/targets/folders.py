"""What others may have written into the folder of a load, a stage or a backfill: its plans, manifests and marks."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sparkpipeline.backfill.backfillplan import BackfillPlan, Chunk, Copied, Done, Lane, Request
from sparkpipeline.errors import PipelineError
from sparkpipeline.ledger.manifests import BatchFile, Manifest, Plan, live_file
from sparkpipeline.ledger.schemas import struct_of
from sparkpipeline.load.compaction import FileGroup, groups_of, plan_of
from sparkpipeline.load.facts import JobState
from sparkpipeline.load.hourrules import HourRule, is_function, is_json_path
from sparkpipeline.load.loadplan import LOAD, LoadPlan, LogMark
from sparkpipeline.paths import Hour, is_below
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.stages.stageplan import StagePlan, TakenInput
from tests.fuzz.engine import QUICK_S, Target

FINAL = "data/topic=orders/date=2026-01-01/hour=08/orders+0+00000000000000000000+00000000000000000009.g1.c000.parquet"
SCHEMA = {"type": "struct", "fields": [
    {"name": "a", "type": {"type": "array", "elementType": "long", "containsNull": True}, "nullable": True,
     "metadata": {"comment": "x"}},
    {"name": "b", "type": {"type": "udt", "class": "a.B", "pyClass": "os.path", "sqlType": "string"}, "nullable": True,
     "metadata": {}},
]}  # fmt: skip


def _seeds() -> list[bytes]:
    rng = OffsetRange("orders", 0, 0, 9)
    rules = (HourRule("json", "$.meta.at", "iso"), HourRule("callable", None, "ms", "jobs.times:of"))
    loads = [
        LoadPlan(ranges=(rng,), tasks=(1,), positions={rng.tp: 9}, heads={rng.tp: 9}, rule=rule,
                 marks={rng.tp: LogMark(8, 1, 2, 3)})
        for rule in rules
    ]  # fmt: skip
    group = FileGroup(hour=Hour("orders", "2026-01-01", "08"), partition="0", start=0, until=9, rows=9, bytes=90,
                      files=(FINAL,))  # fmt: skip
    stage = StagePlan(
        stage="lines", mode="batch", partition_by=("date",), topics=("orders",), inputs={"o": TakenInput(1, "ab", (1,),
        (FINAL,))}, lookups={"c": TakenInput(3, "cd")}, partitions=(("2026-01-01",),),
    )  # fmt: skip
    plans = [Plan(1, LOAD, 5, load.work(), (FINAL,)) for load in loads]
    plans += [plan_of(2, 5, [group]), Plan(1, "stage", 5, stage.work())]
    facts = JobState(
        positions={rng.tp: 9}, output={"format": "parquet", "columns": "key binary, offset bigint"}
    ).facts()
    manifest = Manifest(
        batch=1, kind=LOAD, plan_hash=plans[0].hash, attempt=1, application="a", started_ms=1, committed_ms=2,
        files=(BatchFile("topic=orders/p=0/x", FINAL, 9, 90),), supersedes=(), facts={**facts, "schema": SCHEMA},
        version="1",
    )  # fmt: skip
    request = Request(source={"subscribe": "t", "kafka.sasl.password": "file:/x"}, target={"protocol": "0.8"})
    lane = Lane(0, "t", 0, 0, 9, 0)
    backfill = BackfillPlan(
        created_ms=1, request=request, source_release="0.8.2", target_release="0.8.2", lanes=(lane,), version="1"
    )
    done = Done.after(None, Chunk(0, 0, 0, 9), Copied(9, 90), 5)
    texts = [*(plan.text() for plan in plans), manifest.text(), backfill.text(), done.text()]
    return [text.encode() for text in texts] + [json.dumps([FINAL, 9, 90, 1]).encode()]


def folder_file(data: bytes) -> None:
    """A file of a folder, by each reader: a sentence, or nothing that names code or a file elsewhere."""
    text = data.decode(errors="replace")
    for read in (_plan, _manifest, _backfill):
        try:
            read(text)
        except PipelineError:
            pass
    try:
        assert is_below(live_file(json.loads(data)).final)
    except (TypeError, ValueError, RecursionError):
        pass


def _plan(text: str) -> None:
    plan = Plan.of(text)
    assert all(map(is_below, plan.supersedes))
    for read in (lambda: LoadPlan.of(plan).rule, lambda: groups_of(plan), lambda: StagePlan.of(plan.work, "plan 1")):
        try:
            found = read()
        except PipelineError:
            continue
        if isinstance(found, HourRule):
            assert found.field is None or is_json_path(found.field)
            assert found.function is None or is_function(found.function)


def _manifest(text: str) -> None:
    manifest = Manifest.of(text)
    assert all(is_below(file.staged) and is_below(file.final) for file in manifest.files)
    for read in (lambda: JobState.of(manifest), lambda: struct_of(manifest.facts.get("schema"), "f")):
        try:
            read()
        except PipelineError:
            continue


def _backfill(text: str) -> None:
    try:
        plan = BackfillPlan.of(text, "plan.json")
    except PipelineError:
        Done.of(text, "mark")
        return
    assert not [
        name for name in plan.request.source if "password" in name.lower() and name.lower().startswith("kafka.sasl")
    ]


TARGETS: Sequence[Target] = (Target("ledger-folders", _seeds, folder_file, (PipelineError,), QUICK_S),)
