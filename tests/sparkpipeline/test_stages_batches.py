"""`sparkpipeline stages`: the batches of a pipeline, and giving one up.  No Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkpipeline.commands import cli
from sparkpipeline.errors import LedgerDamaged
from sparkpipeline.ledger.exactlyonce import advance
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.local import LocalFiles
from sparkpipeline.ledger.reports import batches_of
from tests.sparkpipeline.stagechains import Chain

FLOW = """
base: {folder}
loads: [{{name: orders, base: {folder}/orders}}]
stages: [{{name: lines, inputs: [orders], sql: select 1}}]
"""


class Stops(Exception):
    pass


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    """Two batches of a load; of its stage one that is published and one that is planned only."""
    chain = Chain(tmp_path)
    (tmp_path / "stages").mkdir()
    chain.ledger = lambda name: Ledger(  # type: ignore[method-assign]
        LocalFiles(), f"file://{tmp_path}/{'orders' if name == 'orders' else f'stages/{name}'}"
    )
    chain.happen("load")
    advance(chain.ledger("lines"), chain.work("lines"), chain.told.append)
    chain.happen("load")
    work = chain.work("lines")
    work.execute = stops  # type: ignore[method-assign]
    with pytest.raises(Stops):
        advance(chain.ledger("lines"), work, chain.told.append)
    file = tmp_path / "flow.yaml"
    file.write_text(FLOW.format(folder=tmp_path))
    return file


def stops(*_: object) -> Any:
    raise Stops


def listed(capsys: pytest.CaptureFixture[str], flow: Path, *options: str) -> list[tuple[str, int, str]]:
    assert cli.outcome(["stages", "list", str(flow), "-o", "json", *options]) == 0
    return [(row["name"], row["batch"], row["state"]) for row in json.loads(capsys.readouterr().out)]


def test_batches_are_listed_with_what_became_of_them(flow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys, flow) == [
        ("orders", 1, "published"), ("orders", 2, "published"), ("lines", 1, "published"), ("lines", 2, "open"),
    ]  # fmt: skip
    assert listed(capsys, flow, "--only", "lines", "--last", "1") == [("lines", 2, "open")]


def test_an_open_batch_is_given_up_and_planned_anew(flow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    give_up = ["stages", "abandon", str(flow), "lines", "2"]
    assert cli.outcome(give_up) == 0
    assert "only a plan, nothing was done" in capsys.readouterr().err
    assert listed(capsys, flow, "--only", "lines")[-1] == ("lines", 2, "open")
    assert cli.outcome([*give_up, "--why", "poison", "--execute"]) == 0
    assert "batch 2 of lines is abandoned" in capsys.readouterr().err
    assert listed(capsys, flow, "--only", "lines")[-1] == ("lines", 2, "abandoned")
    ledger = Ledger(LocalFiles(), f"file://{flow.parent}/stages/lines")
    assert batches_of(ledger, 1)[0].why == "poison"
    assert cli.outcome([*give_up, "--execute"]) == 3
    assert "it is not open" in capsys.readouterr().err


@pytest.mark.parametrize(("stage", "batch", "status"), [("lines", "1", 3), ("orders", "2", 2), ("lins", "2", 2)])
def test_what_is_no_open_batch_of_a_stage_is_refused(flow: Path, stage: str, batch: str, status: int) -> None:
    assert cli.outcome(["stages", "abandon", str(flow), stage, batch, "--execute"]) == status


def test_a_commit_that_is_not_published_yet_is_told(flow: Path) -> None:
    ledger = Ledger(LocalFiles(), f"file://{flow.parent}/orders")
    ledger.files.delete(ledger.layout.done(2))
    assert [row.state for row in batches_of(ledger, 5)] == ["published", "committed"]
    assert batches_of(ledger, 5)[1].rows == ledger.manifest(2).rows


def test_a_plan_that_cannot_be_read_is_listed_so(flow: Path) -> None:
    plan = flow.parent / "stages" / "lines" / "_load" / "plans" / "00000002.json"
    plan.write_text("{")
    (row,) = batches_of(Ledger(LocalFiles(), f"file://{flow.parent}/stages/lines"), 1)
    assert (row.state, row.kind) == ("open", None)
    assert row.why is not None
    assert str(LedgerDamaged.code) in row.why
