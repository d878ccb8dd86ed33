"""Pipelines on Spark: SQL and Python stages over loaded files, rewinds, failures, crashes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groundwork import failpoints
from sparkpipeline.errors import Mismatch, OptionRefused
from sparkpipeline.ledger.exactlyonce import POINTS
from sparkpipeline.ledger.parquet import row_counts
from sparkpipeline.stages.pipelinerun import exit_of, idle_reports
from sparkpipeline.stages.preview import Preview
from tests.integration.stagepipelines import CHAIN, Orders, Place

pytestmark = [pytest.mark.real, pytest.mark.spark]


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")


def results(place: Place) -> dict[str, str]:
    return {name: report.result for name, report in place.run().items()}


def test_batches_go_through_the_chain_once_and_a_rewind_runs_what_lies_below(tmp_path: Path, spark: Any) -> None:
    place = Place(tmp_path, spark)
    place.orders.load([("08", 1), ("08", 2), ("09", 3)])
    reports = place.run()
    assert {name: (report.result, report.batches, report.rows) for name, report in reports.items()} == {
        "orders": ("runs elsewhere", (), 0), "lines": ("done", (1,), 3),
        "counts": ("done", (1,), 2), "days": ("done", (1,), 1),
    }  # fmt: skip
    place.assert_true()
    assert {row["topic"] for row in place.rows("lines")} == {"2015"}
    place.orders.load([("09", 4), ("09", 5)])
    place.orders.compact("08")
    preview = {found.node.name: found.row() for found in Preview(pipeline=place.pipeline, spark=None).nodes()}
    assert (preview["lines"]["batches"], preview["lines"]["rows"], preview["lines"]["replaces"]) == (
        "orders 2",
        2,
        None,
    )
    assert preview["counts"]["does"] == "nothing to do, then follows lines"
    assert place.run()["counts"].files == 1  # the hour that was touched
    place.assert_true()
    place.orders.rewind("09", [("09", 13), ("10", 14)])
    reports = place.run()
    assert reports["lines"].replaced == 2  # both of its batches took rows of that hour
    place.assert_true()
    assert set(results(place).values()) == {"nothing to do", "runs elsewhere"}
    idle = idle_reports(Preview(pipeline=place.pipeline, spark=None).nodes())
    assert idle is not None
    assert {report.name: report.result for report in idle} == results(place)
    assert idle_reports(Preview(pipeline=place.pipeline, spark=None, again=["lines"]).nodes()) is None


def test_a_stage_that_fails_stops_what_reads_it_and_no_sibling(tmp_path: Path, spark: Any) -> None:
    place = Place(tmp_path, spark, CHAIN + "  - {{name: other, inputs: [orders], sql: select offset from orders}}\n")
    place.orders.load([("08", 1), ("08", 2)])
    right = (tmp_path / "pipeline.yaml").read_text()
    (tmp_path / "pipeline.yaml").write_text(right.replace("select topic, partition,", "select tropic, partition,"))
    reports = place.run()
    assert {name: report.result for name, report in reports.items()} == {
        "orders": "runs elsewhere", "lines": "failed", "counts": "waits", "days": "waits", "other": "done",
    }  # fmt: skip
    assert reports["counts"].reason == "lines failed"
    assert reports["lines"].reason is not None
    assert reports["lines"].reason.startswith(
        "KAFKA08_STAGE_FAILED stage=lines: its SQL cannot be run: [UNRESOLVED_COLUMN"
    )
    assert "\n" not in reports["lines"].reason
    assert exit_of(reports.values()) == "partly"
    # Mended, the very plan is carried out with the query that is there now.
    (tmp_path / "pipeline.yaml").write_text(right)
    assert results(place) == {
        "orders": "runs elsewhere", "lines": "done", "counts": "done", "days": "done", "other": "nothing to do",
    }  # fmt: skip
    place.assert_true()


PYTHON = """
base: {base}
loads:
  - {{name: orders, base: {base}/orders}}
stages:
  - name: small
    inputs: [orders]
    batch.column: brought_by
    python: stagefunctions_{tag}:below
    arguments: {{limit: 3}}
  - name: looked_up
    inputs: [orders]
    lookups: [small]
    sql: select o.offset, s.offset is not null as small from orders o left join small s on o.offset = s.offset
"""
FUNCTIONS = """
def below(spark, inputs, limit):
    return inputs["orders"].where(f"offset < {limit}").select("offset", "brought_by")

def nothing(spark, inputs):
    return None

def breaks(spark, inputs):
    raise KeyError("colour")
"""


def test_python_functions_lookups_and_the_column_of_a_rows_batch(tmp_path: Path, spark: Any, unique: Any) -> None:
    yaml = PYTHON.replace("{tag}", unique.tag)
    (tmp_path / f"stagefunctions_{unique.tag}.py").write_text(FUNCTIONS)
    place = Place(tmp_path, spark, yaml)
    place.orders.load([("08", 1), ("08", 3)])
    place.run()
    place.orders.load([("08", 2)])
    assert results(place) == {"orders": "runs elsewhere", "small": "done", "looked_up": "done"}
    assert sorted((row["offset"], row["brought_by"]) for row in place.rows("small")) == [(1, 1), (2, 2)]
    assert sorted((row["offset"], row["small"]) for row in place.rows("looked_up")) == [
        (1, True),
        (2, True),
        (3, False),
    ]
    place.orders.load([("08", 0)])
    for name, said in (("nothing", "returned NoneType, not a DataFrame"), ("breaks", "raised KeyError: 'colour'")):
        place.write(yaml.replace(":below", f":{name}").replace("arguments: {{limit: 3}}", ""))
        report = place.run(only=("small",))["small"]
        assert report.reason == f"KAFKA08_STAGE_FAILED stage=small: stagefunctions_{unique.tag}:{name} {said}"
    assert exit_of([report]) == "runtime"


def test_what_cannot_run_is_refused_before_anything_runs(tmp_path: Path, spark: Any) -> None:
    place = Place(tmp_path, spark, CHAIN.replace("select date, sum(lines)", "selec date, sum(lines)"))
    place.orders.load([("08", 1)])
    with pytest.raises(OptionRefused, match=r"stage=days: its SQL is not a query: \[PARSE_SYNTAX_ERROR\]"):
        place.run()
    with pytest.raises(
        OptionRefused, match=r"option=--only: 'dayz' is not a load or stage of the pipeline; did you mean 'days'\?"
    ):
        place.run(only=("dayz",))
    assert place.ledger("lines").state().next_batch == 1


def test_a_partition_that_was_not_given_is_not_written(tmp_path: Path, spark: Any) -> None:
    place = Place(tmp_path, spark, CHAIN.replace("select date, hour, count", "select date, '23' as hour, count"))
    place.orders.load([("08", 1)])
    report = place.run()["counts"]
    assert report.reason is not None
    assert "wrote rows to date=2026-01-31/hour=23, which is not one of its partitions" in report.reason
    assert place.rows("counts") == []


def test_the_jvm_reads_the_same_footers_where_files_are_not_local(tmp_path: Path, spark: Any) -> None:
    orders = Orders(tmp_path)
    orders.load([("08", 1), ("08", 2), ("09", 3)])
    paths = [orders.ledger.path(path) for path in orders.ledger.live_files()]
    counts = row_counts(paths, spark, local=False)
    assert sorted(counts.values()) == [1, 2]
    assert counts == row_counts(paths, spark, local=True)
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(b"PAR1")
    for local in (True, False):
        with pytest.raises(Mismatch, match=r"file=file://\S+torn\.parquet: is not a complete Parquet file"):
            row_counts([f"file://{torn}"], spark, local)


def test_a_changed_query_writes_all_anew_when_it_is_told(tmp_path: Path, spark: Any) -> None:
    place = Place(tmp_path, spark)
    for n in (1, 2):
        place.orders.load([("08", n)])
        place.run()
    report = place.run(again=("lines",))["lines"]
    assert (report.batches, report.replaced, report.rows) == ((3,), 2, 2)
    place.assert_true()


CASES = [("counts", "ledger after commit")]  # tests/sparkpipeline/test_stages_chain.py tries all without Spark
STEPS = ("stage after write", *POINTS)
NOT_PASSED = ("ledger before trash", "ledger during snapshot")  # batches that supersede; every 50th
MORE = [(victim, point) for point in STEPS for victim in ("lines", "counts", "days") if (victim, point) not in CASES]


@pytest.mark.parametrize(
    ("victim", "point"), [*CASES, *(pytest.param(*case, marks=pytest.mark.faults) for case in MORE)]
)
def test_a_crash_with_a_rewind_behind_it_loses_nothing_and_doubles_nothing(
    tmp_path: Path, spark: Any, victim: str, point: str
) -> None:
    place = Place(tmp_path, spark)
    place.orders.load([("08", 1), ("09", 2)])
    place.run()
    place.orders.load([("09", 3)])
    for name in ("lines", "counts", "days"):
        failpoints.arm(f"{point}=raise@1" if name == victim else "")
        report = place.run(only=(name,))[name]
        failpoints.arm("")
        if name == victim:
            break
    assert report.result == "failed" or point in NOT_PASSED
    place.orders.rewind("09", [("09", 12), ("09", 13)])
    assert "failed" not in results(place).values()
    place.assert_true()
