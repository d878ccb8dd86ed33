"""What a stranger writes into the folder of a load, a stage or a backfill names no code, no SQL and no file outside."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkpipeline.backfill.backfillplan import BackfillPlan, Request
from sparkpipeline.errors import LedgerDamaged, PipelineError, Refused
from sparkpipeline.ledger.attempts import PORTIONS, Attempts
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import BatchFile, Manifest, Plan
from sparkpipeline.ledger.schemas import struct_of
from sparkpipeline.ledger.snapshots import Snapshots
from sparkpipeline.load.config import LoadConfig, config_of
from sparkpipeline.load.facts import JobState
from sparkpipeline.load.hourrules import HourRule
from sparkpipeline.load.job import JobContext, LoadWork
from sparkpipeline.load.loadplan import COMPACT, LOAD, LoadPlan
from sparkpipeline.load.portions import PortionFolder
from sparkpipeline.paths import Layout
from sparkpipeline.ranges import OffsetRange
from tests.fuzz.targets import folders
from tests.sparkpipeline.ledgerworld import BASE
from tests.sparkpipeline.memoryfiles import MemoryFiles

ORDERS = OffsetRange("orders", 0, 0, 9)
OUTSIDE = (
    "data/../../../etc/x.g1.parquet", "/etc/x.g1.parquet", "data//x.g1", "data/./x.g1", "other/x.g1", "data/x\0.g1",
    "data/{../..,x}/y.g1", "data/*/x.g1", "data/[a]/x.g1", "data/?/x.g1", "data\\x.g1", "",
)  # fmt: skip


def config(**options: object) -> LoadConfig:
    values = {name.replace("_", "."): value for name, value in options.items()}
    return config_of({"base": BASE, "bootstrap.servers": "b:1", "topics": ["orders"], **values}, "job.yaml")


def load_plan(rule: dict[str, Any] | None = None, rng: OffsetRange = ORDERS) -> Plan:
    work = LoadPlan(ranges=(rng,), tasks=(1,), positions={rng.tp: 9}, heads={rng.tp: 9}).work()
    return Plan(1, LOAD, 0, {**work, **({} if rule is None else {"time": rule})})


def carried_out(plan: Plan, found: LoadConfig) -> None:
    """Execute a plan as the driver does that finds it open in its folder; there is no cluster and no Spark."""
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app-1"))
    cluster: Any = SimpleNamespace()
    ledger = Ledger(MemoryFiles(), BASE)
    assert ledger.put_plan(plan)
    job = JobContext(config=found, spark=spark, tell=lambda said: None, cluster=cluster, ledger=ledger)
    LoadWork(job).execute(plan, ledger.staging(1, 1), 1)


# ---- a plan's rule for hours -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"time_from": "callable", "time_callable": "json:dumps"}])
def test_a_plan_calls_no_function_but_the_one_of_the_configuration(options: dict[str, str]) -> None:
    plan = load_plan({"source": "callable", "field": None, "unit": "ms", "function": "shutil:move"})
    with pytest.raises(
        Refused, match=r"batch=1: the plan takes hours from shutil:move, and time\.callable is .*abandon"
    ):
        carried_out(plan, config(**options))


@pytest.mark.parametrize(
    "rule",
    [
        {"source": "json", "field": "$.a'), java_method('java.lang.System', 'exit', '1", "unit": "ms"},
        {"source": "json", "field": None, "unit": "ms"},
        {"source": "json", "field": ["$.a"], "unit": "ms"},
        {"source": "json", "field": "$.a", "unit": "days"},
        {"source": "json", "field": "$.a", "unit": ["ms"]},
        {"source": "shell", "field": None, "unit": "ms"},
        {"source": ["json"], "field": "$.a", "unit": "ms"},
        {"source": "callable", "function": "os:system; x"},
        {"source": "callable", "function": None},
        {"source": "message", "more": 1},
        ["json"],
    ],
)
def test_a_rule_that_no_options_say_is_no_plan(rule: Any) -> None:
    with pytest.raises(LedgerDamaged, match=r"batch=1: is not a plan of a load: .*; abandon it"):
        LoadPlan.of(load_plan(rule))


def test_a_rule_of_the_options_comes_back_whatever_they_say_now() -> None:
    """A restart with another field changes nothing: it is data, and checked as the option is."""
    for rule in (
        HourRule("json", "$.meta.at", "iso"),
        HourRule("callable", None, "ms", "json:dumps"),
        HourRule("plan"),
    ):
        work = replace(LoadPlan.of(load_plan()), rule=rule)
        assert LoadPlan.of(Plan(1, LOAD, 0, work.work())).rule == rule


def test_a_plan_reads_no_topic_that_is_not_the_jobs() -> None:
    with pytest.raises(Refused, match=r"batch=1: the plan reads salaries/0, which is not one of the job's .*abandon"):
        carried_out(load_plan(rng=OffsetRange("salaries", 0, 0, 9)), config())


# ---- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_file_of_the_ledger_names_a_path_outside_of_its_data(path: str) -> None:
    manifest = Manifest(
        batch=1, kind=LOAD, plan_hash="h", attempt=1, application="app", started_ms=1, committed_ms=1,
        files=(BatchFile("topic=t/x", "data/x.g1", 1, 1),), supersedes=(), facts={}, version="1",
    )  # fmt: skip
    staged = () if path.startswith("other/") else (replace(manifest, files=(BatchFile(path, "data/x.g1", 1, 1),)),)
    for bad in (replace(manifest, files=(BatchFile("x", path, 1, 1),)), replace(manifest, supersedes=(path,)), *staged):
        with pytest.raises(LedgerDamaged, match=r"file=the manifest: is not a manifest of a ledger: "):
            Manifest.of(bad.text())
    with pytest.raises(LedgerDamaged, match=r"file=the plan: is not a plan of a ledger: "):
        Plan.of(Plan(1, LOAD, 0, {}, (path,)).text())
    assert Manifest.of(manifest.text()) == manifest


@pytest.mark.parametrize("line", [*([path, 1, 1, 1] for path in OUTSIDE), ["data/x.g1", "1", 1, 1], ["data/x.g1"], 7])
def test_a_snapshot_names_no_path_outside_of_its_data(line: Any) -> None:
    files, layout = MemoryFiles(), Layout(BASE)
    data = gzip.compress(f"{json.dumps(line)}\n".encode())
    files.create(layout.snapshot_files(1), data)
    head = {"abandoned": [], "bytes": 1, "crc32": zlib.crc32(data), "files": 1, "format": 1, "newest": 1, "rows": 1}
    files.create(layout.snapshot(1), json.dumps({**head, "through": 1}).encode())
    snapshots = Snapshots(files, layout)
    with pytest.raises(LedgerDamaged, match=r"is not the live files of a ledger .*delete both files"):
        snapshots.live(snapshots.newest())


def test_a_compaction_reads_the_files_that_it_supersedes_and_no_others() -> None:
    group = {"topic": "t", "date": "2026-01-01", "hour": "08", "partition": "0", "start": 0, "until": 9, "rows": 9,
             "bytes": 9, "files": ["data/../../secret.g1.parquet"]}  # fmt: skip
    with pytest.raises(LedgerDamaged, match=r"batch=1: is not a plan of a compaction: .*; abandon it"):
        carried_out(Plan(1, COMPACT, 0, {"groups": [group]}), config())


@pytest.mark.parametrize(
    ("name", "path"),
    [("00000-00001", "../../../../etc/x"), ("00000-99999999999", "x"), ("00001-00001", "x"), ("-0001-00001", "x")],
)
def test_a_finished_portion_is_of_the_plan_and_brings_no_file_from_outside(name: str, path: str) -> None:
    files = MemoryFiles()
    folder = PortionFolder(files, f"{BASE}/s-2", "hash", config())
    seen = {"rows": 1, "numbers": 0, "begun": 1, "crcs": 1}
    row = {"made_by": folder._made_by, "seen": seen, "files": {path: 1}}
    files.create(f"{BASE}/s-1/{PORTIONS}/{name}.json", json.dumps(row).encode())
    assert folder.finished([f"{BASE}/s-1"], tasks=3) == []


def test_a_claim_names_a_process_and_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr("sparkpipeline.ledger.attempts.Path", lambda path: opened.append(path) or Path(path))
    files, layout = MemoryFiles(), Layout(BASE)
    attempts = Attempts(files, layout, lambda: 1)
    attempts.claim(1)
    claim = json.loads(files.read(layout.claim(1, 1)))
    files.kept[layout.claim(1, 1)] = json.dumps({**claim, "pid": f"../{tmp_path}/fifo"}).encode()
    attempts.sweep(1, False, lambda said: None)
    assert opened
    assert not [path for path in opened if "fifo" in str(path)]


# ---- types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", ["offset bigint, x int DEFAULT java_method('a', 'b')", "offset int", "key", "", 7])
def test_a_manifest_names_no_column_that_a_load_does_not_have(columns: object) -> None:
    facts = {**JobState().facts(), "output": {"format": "parquet", "columns": columns}}
    manifest: Any = SimpleNamespace(batch=1, facts=facts)
    with pytest.raises(LedgerDamaged, match="batch=1: its facts are not those of a load"):
        JobState.of(manifest)


UDT = {"type": "udt", "class": None, "pyClass": "shutil.Planted", "serializedClass": "gASVAA==", "sqlType": "string"}


def struct(kind: Any, **more: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": "a", "type": kind, "nullable": True, "metadata": {}, **more}]}


@pytest.mark.parametrize(
    "schema",
    [
        struct(UDT), struct({"type": "array", "elementType": UDT, "containsNull": True}), struct(struct(UDT)),
        struct({"type": "map", "keyType": "string", "valueType": UDT, "valueContainsNull": True}),
        struct("java_method('a', 'b')"), struct(7), {"type": "struct"}, [], None, "string",
    ],
)  # fmt: skip
def test_a_schema_in_a_folder_loads_no_class(schema: Any) -> None:
    with pytest.raises(PipelineError, match="file=f: "):
        struct_of(schema, "f")


def test_a_schema_in_a_folder_holds_no_expressions() -> None:
    found = struct_of(struct("long", metadata={"EXISTS_DEFAULT": "java_method('a', 'b')"}), "f")
    assert [(field.name, field.dataType.simpleString(), field.metadata) for field in found] == [("a", "bigint", {})]


# ---- a backfill ------------------------------------------------------------------------------------------------------


def test_the_plan_of_a_backfill_names_no_code_and_no_secret() -> None:
    """The callable gets tokens in the driver and the executors; `file:` of a password reads any file."""
    code = {"Kafka.Sasl.Oauthbearer.Callback": "os:system", "kafka.sasl.password": "file:/etc/shadow"}
    request = Request(source={"subscribe": "t"}, target={})
    plan = BackfillPlan(
        created_ms=1, request=request, source_release="0.8.2", target_release="0.8.2", lanes=(), version="1"
    )
    document = json.loads(plan.text())
    document["request"]["source"] |= code
    assert BackfillPlan.of(json.dumps(document), "plan.json") == plan


# ---- any value -------------------------------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (
    None, True, -1, 2**70, 1e308, float("inf"), float("nan"), "", "²", "x", "..", "../..", "a\0b", "9" * 5000, [], {},
    ["a"], {"a": 1}, [[1]],
)  # fmt: skip


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield from places(inner, (*at, step))


def put(value: Any, at: tuple[Any, ...], odd: object) -> Any:
    if not at:
        return odd
    changed = value.copy()
    changed[at[0]] = put(value[at[0]], at[1:], odd)
    return changed


@pytest.mark.parametrize("valid", folders._seeds())
def test_any_value_in_a_file_of_a_folder_is_a_sentence_or_harmless(valid: bytes) -> None:
    document = json.loads(valid)
    for at in places(document):
        for odd in ODD:
            folders.folder_file(json.dumps(put(document, at, odd)).encode())
