"""What every `sparkpipeline` command does with errors of Spark's and with its report.  No Spark."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from py4j.protocol import Py4JError

from sparkpipeline.commands import cli
from sparkpipeline.commands.options import failure_reported, report_option
from sparkpipeline.errors import Refused


def raising(exc: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sparkpipeline load` raises it."""

    @click.command()
    @report_option
    def load(report: Path | None) -> None:
        with failure_reported(report, job="orders"):
            raise exc

    monkeypatch.setattr(cli._Later, "get_command", lambda self, ctx, name: load)


def test_what_spark_raises_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = "An error occurred while calling o57.save.\n: java.io.IOException: No space left on device\n\tat java.base"
    raising(Py4JError(text), monkeypatch)
    assert cli.outcome(["load"]) == 1
    assert capsys.readouterr().err == "error: Spark failed: java.io.IOException: No space left on device\n"


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(KeyError("positions"), monkeypatch)
    with pytest.raises(KeyError):
        cli.outcome(["load"])


def test_a_report_without_a_folder_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(Refused("reached"), monkeypatch)
    assert cli.outcome(["load", "--report", str(tmp_path / "missing" / "r.json")]) == 2
    assert f"there is no folder {tmp_path / 'missing'}" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_hides_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(Refused("another driver is at this job"), monkeypatch)
    (tmp_path / ".r.json.new").mkdir()
    assert cli.outcome(["load", "--report", str(tmp_path / "r.json")]) == 3
    err = capsys.readouterr().err
    assert "another driver is at this job" in err
    assert "cannot be written" in err


def test_the_report_of_a_failure_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(Refused("another driver is at this job"), monkeypatch)
    assert cli.outcome(["load", "--report", str(tmp_path / "r.json")]) == 3
    assert json.loads((tmp_path / "r.json").read_text())["outcome"] == "failed"


@pytest.mark.parametrize("args", [("--date", "2026-13-01"), ("--date", "2026-01-01", "--hour", "24")])
def test_a_day_or_an_hour_that_is_none_is_refused(
    args: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "orders.yaml"
    job.write_text(f"base: {tmp_path}/base\nbootstrap.servers: b:1\ntopics: [a]\n")
    assert cli.outcome(["load", "compact", str(job), *args]) == 2
    assert args[-2] in capsys.readouterr().err


def test_positions_that_are_no_text_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job, positions = tmp_path / "orders.yaml", tmp_path / "positions.json"
    job.write_text(f"base: {tmp_path}/base\nbootstrap.servers: b:1\ntopics: [a]\n")
    positions.write_bytes(b'{"a": {"0": \xff}}')
    assert cli.outcome(["load", "init", str(job), "--from-json", str(positions)]) == 2
    assert "option=--from-json: byte 12 is no UTF-8" in capsys.readouterr().err
