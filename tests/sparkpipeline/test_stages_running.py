"""What a run reports, what an exception says, and the names of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkpipeline.commands import stages
from sparkpipeline.commands.cli import outcome
from sparkpipeline.ledger.manifests import BatchFile
from sparkpipeline.stages.pipelinerun import DONE, ELSEWHERE, FAILED, IDLE, LOST, WAITS, NodeReport, exit_of
from sparkpipeline.stages.preview import _numbers
from sparkpipeline.stages.stageprograms import first_line
from sparkpipeline.stages.work import staged_entries
from tests.sparkpipeline.memoryfiles import MemoryFiles


@pytest.mark.parametrize(
    ("results", "status"),
    [
        ((DONE, IDLE, ELSEWHERE), "done"),
        ((), "done"),
        ((ELSEWHERE, WAITS), "done"),
        ((DONE, FAILED), "partly"),
        ((IDLE, FAILED, WAITS), "partly"),
        ((LOST, FAILED), "partly"),
        ((LOST,), "partly"),
        ((LOST, IDLE, DONE), "partly"),
        ((FAILED, WAITS), "runtime"),
        ((ELSEWHERE, FAILED), "runtime"),
    ],
)
def test_a_run_is_partly_done_when_some_nodes_failed_or_were_lost(results: tuple[str, ...], status: str) -> None:
    assert exit_of(NodeReport(name="a", kind="stage", result=result) for result in results) == status


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[UNRESOLVED_COLUMN] no `a`.\nDid you mean b;\n'Project", "[UNRESOLVED_COLUMN] no `a`."),
        ("", "ValueError"),
        ("An error occurred while calling o57.save.\n: org.x.NotFound: kafka08\n\tat org", "org.x.NotFound: kafka08"),
        (
            "An error occurred while calling o57.save.\n: org.x.Failed: writing rows\n\tat org\nCaused by: org.x.Lost"
            "\n\tat org\nCaused by: java.io.IOException: No space left on device\n\tat java\n\t... 44 more",
            "org.x.Failed: writing rows: java.io.IOException: No space left on device",
        ),
        (
            "[PYTHON_EXCEPTION] An exception was thrown: Traceback (most recent call last):\n"
            '  File "a.py", line 3\n    x: int\nshop.errors.NoPrice: of 17\n SQLSTATE: 38000\n',
            "[PYTHON_EXCEPTION] An exception was thrown: shop.errors.NoPrice: of 17",
        ),
    ],
)
def test_of_a_stack_the_line_that_says_why(text: str, said: str) -> None:
    assert first_line(ValueError(text)) == said


def test_staged_files_are_listed_without_what_spark_puts_beside_them() -> None:
    files = MemoryFiles()
    uuid = "85567643-8c59-4b14-9a43-ca23072e7629"
    for name in ("_SUCCESS", f".part-00000-{uuid}-c000.parquet.crc", f"a=1/part-00000-{uuid}.c000.parquet"):
        files.create(f"mem:/s/{name}", b"1234")
    found = staged_entries("lines", 3, staging="mem:/s", files=files, footers=lambda paths: dict.fromkeys(paths, 7))
    assert found == [BatchFile(f"a=1/part-00000-{uuid}.c000.parquet", "data/a=1/lines-00000.g3.c000.parquet", 7, 4)]


def test_numbers_in_a_row_are_shown_as_one() -> None:
    assert _numbers([7, 1, 2, 3, 9, 10]) == "1-3, 7, 9-10"
    assert _numbers([]) == ""


@pytest.mark.parametrize("only", [[], ["--only", "lines"]])
def test_a_run_with_nothing_to_do_does_not_start_spark(
    only: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def started(*args: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(stages, "session", started)
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        f"base: {tmp_path}/base\nloads:\n  - {{name: orders, base: {tmp_path}/orders}}\n"
        "stages:\n  - {name: lines, inputs: [orders], sql: select offset from orders}\n"
    )
    assert outcome(["run", str(file), *only, "-o", "json"]) == 0
    rows = {row["name"]: row["result"] for row in json.loads(capsys.readouterr().out)}
    assert rows == {"orders": ELSEWHERE, "lines": WAITS} if not only else {"lines": WAITS}
