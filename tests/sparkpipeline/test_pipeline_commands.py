"""What every `sparkpipeline` command does with errors of Spark's and with its report.  No Spark."""

from __future__ import annotations

import errno
import json
import logging
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

from sparkpipeline.commands import cli
from sparkpipeline.commands import common as options
from sparkpipeline.commands.common import failure_reported, report_option
from sparkpipeline.commands.sparkprogress import SparkProgress
from sparkpipeline.errors import Refused
from sparkpipeline.ledger.manifests import Plan
from sparkpipeline.load.config import read_config
from sparkpipeline.load.job import open_ledger


def raising(exc: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sparkpipeline load` raises it."""

    @click.command()
    @report_option
    def load(report: Path | None) -> None:
        with failure_reported(report, job="orders"):
            raise exc

    monkeypatch.setitem(cli.cli.commands, "load", load)
    monkeypatch.delitem(cli.cli.later, "load")


def test_what_spark_raises_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = "An error occurred while calling o57.save.\n: java.io.IOException: No space left on device\n\tat java.base"
    raising(Py4JError(text), monkeypatch)
    assert cli.outcome(["load"]) == 1
    assert capsys.readouterr().err == "error: Spark failed: java.io.IOException: No space left on device\n"


@pytest.mark.parametrize("exc", [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("empty")])
def test_a_jvm_that_was_killed_is_told_as_such(
    exc: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as jvm:
        jvm.kill()
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=jvm))
        raising(exc, monkeypatch)
        assert cli.outcome(["load", "--report", str(tmp_path / "r.json")]) == 1
    assert capsys.readouterr().err.startswith("error: Spark's JVM was ended by SIGKILL: did memory run out")
    assert json.loads((tmp_path / "r.json").read_text())["error"].startswith("Spark's JVM was ended by SIGKILL")


def test_status_shows_the_ledger_where_the_cluster_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    job = tmp_path / "orders.yaml"
    job.write_text(f"base: {tmp_path}/base\nbootstrap.servers: 127.0.0.1:{port}\ntopics: [orders]\nretries: 0\n")
    ledger = open_ledger(read_config(job), None)
    assert ledger.put_plan(Plan(1, "load", 1, {"ranges": [], "tasks": []}))
    assert cli.outcome(["load", "status", str(job), "-o", "json"]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["open_plan"] == "load"
    assert "KAFKA08_UNREACHABLE" in shown.err


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(KeyError("positions"), monkeypatch)
    with pytest.raises(KeyError):
        cli.outcome(["load"])


def test_a_report_without_a_folder_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(Refused("reached"), monkeypatch)
    assert cli.outcome(["load", "--report", str(tmp_path / "missing" / "r.json")]) == 2
    assert f"folder {tmp_path / 'missing'} does not exist" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_hides_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(Refused("another driver is at this job"), monkeypatch)

    def full(draft: Path, path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sparkpipeline.commands.common.os.replace", full)
    assert cli.outcome(["load", "--report", str(tmp_path / "r.json")]) == 3
    err = capsys.readouterr().err
    assert "another driver is at this job" in err
    assert "r.json cannot be written: No space left on device" in err
    assert list(tmp_path.iterdir()) == []


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


class Context:
    """What SparkProgress asks of a Spark context."""

    def __init__(self) -> None:
        self.group = ""
        self.cancelled: list[str] = []

    def setJobGroup(self, group: str, what: str) -> None:
        self.group = group

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)

    def setLocalProperty(self, key: str, value: None) -> None: ...


class Session:
    def __init__(self) -> None:
        self.sparkContext = Context()
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def fake_session(monkeypatch: pytest.MonkeyPatch) -> Any:
    """options.session() with it in place of Spark, whose handler of ctrl-C it sets as Spark does."""
    made = Session()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def start(name: str, master: str | None, settings: object) -> Session:
        signal.signal(signal.SIGINT, lambda number, frame: pytest.fail("Spark's own handler was called"))
        return made

    monkeypatch.setattr(options, "spark_session", start)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_jobs_of_spark_before_files_are_deleted(
    number: signal.Signals, fake_session: Session, tmp_path: Path
) -> None:
    report, context = tmp_path / "r.json", fake_session.sparkContext
    with (
        pytest.raises(KeyboardInterrupt),
        failure_reported(report),
        options.session("orders", "local[1]") as spark,
        SparkProgress(spark).watch("batch 1: loading"),
    ):
        signal.raise_signal(number)
    assert context.cancelled == [context.group]
    assert fake_session.stopped
    assert json.loads(report.read_text())["error"] == "interrupted"


def test_what_py4j_logs_of_an_interrupted_call_is_not_shown(
    fake_session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    with options.session("orders", "local[1]"):
        logging.getLogger().error("KeyboardInterrupt while sending command.")
        logging.getLogger().error("anything else")
    assert [record.message for record in caplog.records] == ["anything else"]


def test_an_interrupt_that_ended_the_jvm_too_is_still_an_interrupt(
    fake_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemctl stop sends SIGTERM to every process of the unit."""

    def gone(*_: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(Session, "stop", gone)
    for name in ("cancelJobGroup", "setLocalProperty"):
        monkeypatch.setattr(Context, name, gone)
    with (
        pytest.raises(KeyboardInterrupt),
        options.session("orders", "local[1]") as spark,
        SparkProgress(spark).watch("batch 1: loading"),
    ):
        signal.raise_signal(signal.SIGTERM)
