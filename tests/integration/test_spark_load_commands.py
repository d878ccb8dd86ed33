"""`sparkpipeline load` as an operator types it, in this process and in the tests' Spark session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.waiting import wait_until
from sparkpipeline.commands.cli import outcome
from tests.conftest import Unique
from tests.integration.sparkloads import events
from tests.integration.sparktopics import produce

pytestmark = [pytest.mark.real, pytest.mark.spark]

TEN = 1767261600000  # 2026-01-01T10:00Z


def test_a_job_from_its_first_plan_to_a_damaged_disk(
    spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = unique.topic()
    source.create_topic(topic)
    events(source, TopicPartition(topic, 0), [TEN, TEN + 1, TEN + 3600_000])
    job, report = tmp_path / "orders.yaml", tmp_path / "report.json"
    job.write_text(yaml.safe_dump({
        "base": str(tmp_path / "base"), "bootstrap.servers": source.brokers, "topics": [topic],
        "time.from": "json", "time.field": "$.meta.at",
    }))  # fmt: skip

    def run(name: str, *args: str, code: int = 0) -> Any:
        assert outcome(["load", name, str(job), *args]) == code, capsys.readouterr().err
        out = capsys.readouterr().out
        return json.loads(out) if "json" in args else out

    (planned,) = run("plan", "--dry-run", "-o", "json")
    assert (planned["kind"], planned["start"], planned["until"]) == ("load", 0, 3)
    (batch,) = run("run", "--report", str(report), "-o", "json")
    assert (batch["rows"], batch["files"], batch["gaps"]) == (3, 2, 0)
    written = json.loads(report.read_text())
    assert (written["job"], written["outcome"], written["batches"]) == ("orders", "done", [batch])
    assert len(written["closed"]) == 2
    assert run("run", "-o", "json") == []
    status = run("status", "-o", "json")
    assert (status["rows"], status["last_batch"]) == (3, 1)
    assert [(row["topic"], row["lag"], row["kept"]) for row in status["topics"]] == [(topic, 0, 3)]
    events(source, TopicPartition(topic, 0), [TEN])
    run("status", "--max-lag", "1")
    run("status", "--max-lag", "0", code=6)
    assert len(run("files", "-o", "json")) == 2
    run("verify")
    rewound = run("rewind", "--topic", topic, "--to", "2026-01-01T11:00Z", "--dry-run", "-o", "json")
    assert [(row["start"], row["until"]) for row in rewound] == [(0, 3)]
    run("run")
    assert [row["kind"] for row in run("compact", "--date", "2026-01-01", "-o", "json")] == ["compact"]
    run("abandon", "9", code=3)
    run("init", code=2)
    victim = next((tmp_path / "base" / "data").rglob("*.parquet"))
    victim.write_bytes(victim.read_bytes()[:-1])
    findings = run("verify", "-o", "json", code=4)
    assert {row["what"] for row in findings} == {"size", "footer"}


def test_what_is_wrong_in_a_file_ends_with_2_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "orders.yaml"
    job.write_text("base: /x\nbootstrap.servers: b:1\ntopcs: [a]\n")
    assert outcome(["load", "run", str(job)]) == 2
    assert "orders.yaml: option 'topcs' is unknown; did you mean 'topics'?" in capsys.readouterr().err


def test_a_run_in_a_process_of_its_own_says_what_it_has_to_say_and_nothing_else(
    source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    """From any folder: stdout is data, stderr the job's own lines, without Spark's log and PySpark's tracebacks."""
    topic = unique.topic()
    source.create_topic(topic)
    produce(source, TopicPartition(topic, 0), [(b"k", b"v%d" % n) for n in range(100)])
    job = tmp_path / "orders.yaml"
    job.write_text(yaml.safe_dump({
        "base": str(tmp_path / "base"), "bootstrap.servers": source.brokers, "topics": [topic],
    }))  # fmt: skip
    command = [sys.executable, "-m", "sparkpipeline", "load", "run", str(job), "--master", "local[2]", "-o", "json"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, cwd=tmp_path, env=env, check=False)
    assert done.returncode == 0, done.stderr
    (batch,) = json.loads(done.stdout)
    assert (batch["rows"], batch["files"]) == (100, 1)
    assert done.stderr.splitlines() == [
        "batch 1: 100 offsets in 1 range, 1 task", "batch 1: load, attempt 1",
        f"batch 1: none of 100 rows of {topic} has a timestamp: all are in the hour of the plan",
    ]  # fmt: skip


def test_ctrl_c_while_spark_starts_leaves_no_jvm_behind(source: ClusterClient, unique: Unique, tmp_path: Path) -> None:
    """A JVM that is there before it is known where it listens is the moment at which it would go on by itself."""
    topic = unique.topic()
    source.create_topic(topic)
    job = tmp_path / "orders.yaml"
    job.write_text(yaml.safe_dump({
        "base": str(tmp_path / "base"), "bootstrap.servers": source.brokers, "topics": [topic],
    }))  # fmt: skip
    command = [sys.executable, "-m", "sparkpipeline", "load", "run", str(job), "--master", "local[2]"]
    mark = f"OF_THIS_TEST={unique.tag}"
    env = {**os.environ, "OF_THIS_TEST": unique.tag}
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=env
    )
    wait_until(lambda: "java" in marked(mark), 120, "a JVM", every_s=0.02)
    started.send_signal(signal.SIGINT)
    out, said = started.communicate(timeout=240)
    assert (started.returncode, out, said.split()) == (130, "", ["interrupted"])
    wait_until(lambda: not marked(mark), 60, lambda: f"the end of {marked(mark)}")


def marked(mark: str) -> list[str]:
    """Names of the processes whose environment has this."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "comm").read_text().strip())
    return found
