"""How a job's files are written: formats by options, what files say of themselves, and that a job keeps its format.
No Spark; real files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from kafkawire.dialects import dialect
from sparkpipeline.errors import Mismatch, OptionRefused
from sparkpipeline.ledger.base import open_files
from sparkpipeline.ledger.exactlyonce import advance
from sparkpipeline.ledger.footers import Footer
from sparkpipeline.ledger.formats import FORMATS, by_ending, footers, of_facts
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import BatchFile, Manifest, Plan, StagedBatch
from sparkpipeline.load.config import LoadConfig, config_of
from sparkpipeline.load.facts import JobState
from sparkpipeline.load.loadplan import INIT, LOAD
from sparkpipeline.load.outputformat import check_output, output_after, output_work
from sparkpipeline.stages.pipelinefile import read_pipeline
from sparkpipeline.stages.preview import Preview
from tests.sparkpipeline.ledgerworld import BASE
from tests.sparkpipeline.memoryfiles import MemoryFiles

ROWS = {"offset": [7, 5, 9], "value": [b"", None, b"x"]}


def config(**options: object) -> LoadConfig:
    values = {name.replace("_", "."): value for name, value in options.items()}
    return config_of({"base": BASE, "bootstrap.servers": "b:1", "topics": ["t"], **values}, "job.yaml")


@pytest.mark.parametrize(
    ("options", "name", "codec"),
    [
        ({}, "parquet", "snappy"),
        ({"compression": "zstd"}, "parquet", "zstd"),
        ({"output_format": "orc"}, "orc", "snappy"),
        ({"output_format": "orc", "compression": "gzip"}, "orc", "zlib"),
        ({"output_format": "json"}, "json", "gzip"),
        ({"output_format": "json", "json_values": "text", "compression": "none"}, "json-text", "none"),
    ],
)
def test_options_choose_a_format_and_its_codec(options: dict[str, str], name: str, codec: str) -> None:
    found = config(**options)
    assert (found.format.name, found.codec) == (name, codec)


# ---- what files say --------------------------------------------------------------------------------------------------


def written(folder: Path, ending: str) -> Path:
    path, table = folder / f"a b{ending}", pa.table(ROWS)
    if ending == ".parquet":
        parquet.write_table(table, path, row_group_size=2)
    elif ending == ".orc":
        orc.write_table(table, str(path))
    else:
        text = "".join(json.dumps({"offset": offset}) + "\n" for offset in ROWS["offset"]).encode()
        path.write_bytes(gzip.compress(text) if ending.endswith(".gz") else text)
    return path


@pytest.mark.parametrize("ending", [".parquet", ".orc", ".json", ".json.gz"])
def test_a_file_says_rows_and_offsets_and_a_torn_one_is_told(ending: str, tmp_path: Path) -> None:
    path = written(tmp_path, ending)
    fmt = by_ending(path.name)
    assert footers(fmt, [f"file://{path}"], None, local=True) == {f"file://{path}": Footer(3, 5, 9)}
    torn = tmp_path / f"torn{ending}"
    torn.write_bytes(path.read_bytes()[:-5])
    assert isinstance(fmt.read_footers([str(torn)], None, local=True)[str(torn)], Mismatch)
    with pytest.raises(Mismatch, match=r"is not a complete (Parquet|ORC|JSON lines) file: \S"):
        footers(fmt, [str(torn)], None, local=True)


@pytest.mark.parametrize("line", [b"{}", b"[]", b'{"offset": "7"}', b'{"offset": true}', b"\xff"])
def test_a_line_without_an_offset_is_damage(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"offset": 7}\n' + line + b"\n")
    with pytest.raises(Mismatch, match=r"is not a complete JSON lines file: \S"):
        footers(FORMATS["json"], [str(path)], None, local=True)


def test_empty_files_have_no_offsets(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"")
    orc.write_table(pa.table({"offset": pa.array([], pa.int64())}), str(tmp_path / "a.orc"))
    for name in ("a.json", "a.orc"):
        assert footers(by_ending(name), [str(tmp_path / name)], None, local=True) == {str(tmp_path / name): Footer(0)}
    with pytest.raises(Mismatch, match=r"none of the endings \.parquet, \.orc, \.json, \.json\.gz"):
        by_ending("a.csv")


# ---- a job keeps its format ------------------------------------------------------------------------------------------


class Batches:
    """A ledger whose batches bring one empty file each.  facts None: as releases wrote them that knew Parquet alone."""

    def __init__(self, base: str | None = None) -> None:
        self.files = MemoryFiles() if base is None else open_files(base)
        self.ledger = Ledger(self.files, base or BASE)
        self.kind, self.work, self.facts = LOAD, {}, JobState().facts()
        self.fails = False

    def plan(self, ledger: Ledger, batch: int) -> Plan | None:
        return Plan(batch, self.kind, 0, dict(self.work))

    def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
        if self.fails:
            raise ValueError("the driver ended")
        if plan.kind == INIT:
            return StagedBatch((), self.facts, "app")
        assert self.files.create(f"{staging}/a", b"")
        return StagedBatch((BatchFile("a", f"data/a.g{plan.batch}.parquet", 0, 0),), self.facts, "app")

    def published(self, manifest: Manifest) -> None: ...

    def batch(self, found: LoadConfig | None, kind: str = LOAD) -> None:
        self.kind, self.work = kind, {} if found is None else output_work(found)
        before = JobState.of(self.ledger.state().newest).output
        output = before if found is None else output_after(before, found, dialect("0.8.2"))
        self.facts = JobState(output=output).facts()
        advance(self.ledger, self, lambda said: None)


def test_a_job_that_has_no_files_takes_any_format() -> None:
    batches = Batches()
    for options in ({}, {"output_format": "orc"}):
        check_output(batches.ledger, config(**options))
    batches.batch(None, kind=INIT)
    check_output(batches.ledger, config(output_format="orc"))


def test_a_job_keeps_the_format_of_its_first_batch_also_after_an_init() -> None:
    batches = Batches()
    batches.batch(config(output_format="json", json_values="text"))
    batches.batch(None, kind=INIT)
    check_output(batches.ledger, config(output_format="json", json_values="text"))
    newest = batches.ledger.state().newest
    assert newest is not None
    assert of_facts(newest.facts) is FORMATS["json-text"]
    for options, said in (({"output_format": "json"}, "json"), ({}, "parquet")):
        with pytest.raises(OptionRefused) as refused:
            check_output(batches.ledger, config(**options))
        assert str(refused.value) == (
            f"KAFKA08_OPTION option=output.format base={BASE}: the job's files are json with json.values text, and its"
            f" options say {said}: a job keeps the format that it began with; give it back, or load into another base"
        )


def test_an_open_plan_keeps_its_format_for_what_it_has_staged() -> None:
    batches = Batches()
    batches.fails = True
    with pytest.raises(ValueError, match="the driver ended"):
        batches.batch(config(output_format="orc"))
    check_output(batches.ledger, config(output_format="orc"))
    with pytest.raises(OptionRefused, match="the job's open plan is for orc, and its options say parquet"):
        check_output(batches.ledger, config())


def test_a_ledger_of_a_release_that_knew_parquet_alone_is_parquet() -> None:
    batches = Batches()
    batches.batch(None)
    assert "output" not in batches.facts
    check_output(batches.ledger, config())
    with pytest.raises(OptionRefused, match="files are parquet, and its options say orc"):
        check_output(batches.ledger, config(output_format="orc"))
    assert of_facts({}) is FORMATS["parquet"]


def test_the_plan_of_a_pipeline_shows_the_format_of_a_load_and_none_before_one_that_runs_elsewhere(
    tmp_path: Path,
) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(f"""
base: {tmp_path}/flow
loads:
  - {{name: here, job: {{base: {tmp_path}/here, bootstrap.servers: 'b:1', topics: [t], output.format: orc}}}}
  - {{name: elsewhere, base: {tmp_path}/elsewhere}}
  - {{name: later, base: {tmp_path}/later}}
""")
    Batches(f"{tmp_path}/elsewhere").batch(config(output_format="json"))
    nodes = Preview(pipeline=read_pipeline(str(file)), spark=None).nodes()
    assert [(found.output, found.last) for found in nodes] == [("orc", None), ("json", 1), (None, None)]


def test_columns_that_a_job_once_had_stay_known() -> None:
    first = output_after(None, config(include_headers=True), dialect("0.8.2"))
    second = output_after(first, config(), dialect("0.8.2"))
    assert second == first
    assert second["columns"].split(", ") == [
        "key binary", "value binary", "partition int", "offset bigint", "timestamp timestamp", "timestampType int",
        "headers array<struct<key:string,value:binary>>",
    ]  # fmt: skip
    assert "innerIndex int" in output_after(None, config(), dialect("0.7"))["columns"]
    assert JobState.of(None).columns is None
