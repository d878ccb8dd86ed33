"""What the load commands print and when they alarm; what the terminal shows.  No Spark."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from groundwork.commands import go_ahead
from kafkawire.model import TopicPartition
from sparkpipeline.commands import loadrows
from sparkpipeline.commands.common import failure_reported, spark_options, write_report
from sparkpipeline.commands.sparkprogress import RowsRead, SparkProgress, line
from sparkpipeline.errors import OptionRefused, Refused
from sparkpipeline.ledger.exactlyonce import Advance, Outcome
from sparkpipeline.ledger.manifests import BatchFile, Manifest, Plan
from sparkpipeline.load.facts import JobState
from sparkpipeline.load.job import LoadOutcome
from sparkpipeline.load.loadplan import LoadPlan, LogBounds, flat
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.source.offsetbounds import by_topic

A, B = TopicPartition("a", 0), TopicPartition("a", 10)


def test_lag_and_what_the_log_still_keeps_of_the_loaded() -> None:
    standing = JobState(positions={A: 50, B: 7}, passed={A: 1_000, B: 2_000}, averages={})
    (row,) = loadrows.of_topics(standing, {A: LogBounds(40, 60), B: LogBounds(9, 10)})
    # What was deleted before it was loaded does not wait any more; and nothing of what was loaded is left there.
    assert (row["partitions"], row["lag"], row["kept"], row["passed"]) == (2, 11, 0, "1970-01-01T00:00:01.000Z")
    (offline,) = loadrows.of_topics(standing, None)
    assert (offline["lag"], offline["kept"]) == (None, None)


def test_alarms_name_what_is_over_its_threshold() -> None:
    summary: dict[str, Any] = {"age_minutes": 90, "plan_age_minutes": 31, "next_batch": 7}
    topics = [{"lag": 10}, {"lag": None}]
    assert loadrows.alarms(summary, topics, max_lag=10, max_age=90, max_plan_age=31) == []
    assert loadrows.alarms(summary, topics, max_lag=9, max_age=89, max_plan_age=30) == [
        "10 messages wait, more than 9",
        "messages wait and the last batch is 90 minutes old",
        "the plan of batch 7 is open for 31 minutes: its runs fail",
    ]
    assert loadrows.alarms(summary, topics, max_lag=9, max_age=None, max_plan_age=None, unit="bytes") == [
        "10 bytes wait, more than 9"
    ]
    idle = [{"lag": 0}]  # an old batch is no alarm while nothing waits
    assert loadrows.alarms(summary, idle, max_lag=None, max_age=0, max_plan_age=None) == []


def test_a_batch_is_a_row_with_its_gaps() -> None:
    facts = {
        "ranges": [{"gaps": 3, "no_time": 4}, {"gaps": 0, "no_time": 1}],
        "gaps": [{"start": 5, "until": 9}],
        "late": 2,
    }
    manifest = Manifest(
        batch=4,
        kind="load",
        plan_hash="h",
        attempt=1,
        application="app",
        started_ms=1000,
        committed_ms=3000,
        files=(BatchFile("s", "f", 100, 9),),
        supersedes=(),
        facts=facts,
        version="1",
    )
    row = loadrows.of_manifest(manifest)
    assert (row["ranges"], row["rows"], row["gaps"], row["late"], row["rows_per_s"]) == (2, 100, 7, 2, 50)
    assert row["no_time"] == 5
    facts["ranges"] = [{"gaps": 3}]  # of a release that did not count them
    assert loadrows.of_manifest(manifest)["no_time"] is None
    assert tuple(row) == loadrows.BATCH


def test_a_plan_is_a_row_for_each_range() -> None:
    work = LoadPlan(
        ranges=(OffsetRange("a", 0, 1, 4), OffsetRange("a", 10, 0, 9)), tasks=(2,), positions={A: 4}, heads={A: 4}
    )
    plan = Plan(3, "load", 0, work.work())
    assert LoadPlan.of(Plan.of(plan.text())) == work
    assert [(row["partition"], row["offsets"], row["task"]) for row in loadrows.of_plan(plan)] == [
        ("0", 3, 0),
        ("10", 9, 0),
    ]
    assert loadrows.of_plan(Plan(3, "init", 0, {})) == [{"batch": 3, "kind": "init"}]


def test_positions_come_back_from_json_in_order_of_partitions() -> None:
    assert json.dumps(by_topic({B: 2, A: 1})) == '{"a": {"0": 1, "10": 2}}'
    assert flat(json.loads(json.dumps(by_topic({B: 2, A: 1})))) == {A: 1, B: 2}


def test_the_terminal_shows_tasks_rows_rate_and_time_left() -> None:
    assert line("batch 1", 0, 8, 800, 0, 3.2) == "batch 1: 0/8 tasks, 3 s"
    assert line("batch 1", 2, 8, 4_000_000, 400_000_000, 10.0) == (
        "batch 1: 2/8 tasks, about 1,000,000 of 4,000,000 rows (25 %), 100,000 rows/s, 10.0 MB/s, 30 s left"
    )
    assert line("batch 1", 0, 0, 0, 0, 1.0) == "batch 1, 1 s"


def test_rows_of_running_tasks_give_rate_and_time_left_from_their_last_report() -> None:
    read = RowsRead(1_000_000, 10.0)
    assert line("batch 1", 0, 1, 4_000_000, 400_000_000, 14.0, read) == (
        "batch 1: 0/1 tasks, 1,000,000 of 4,000,000 rows read (25 %), 100,000 rows/s, 10.0 MB/s, 26 s of reading left"
    )
    late = line("batch 1", 0, 1, 4_000_000, 0, 90.0, read)  # the next report is overdue
    assert late == "batch 1: 0/1 tasks, 1,000,000 of 4,000,000 rows read (25 %), 100,000 rows/s, 0 s of reading left"


def test_a_task_that_has_read_all_and_still_writes_is_not_at_its_end() -> None:
    assert line("batch 1", 0, 1, 1000, 0, 12.0, RowsRead(999, 10.0)).endswith("(99 %), 100 rows/s, 0 s of reading left")
    for count in (1000, 1001):
        assert line("batch 1", 0, 1, 1000, 0, 12.0, RowsRead(count, 10.0)) == (
            f"batch 1: 0/1 tasks, {count:,} of 1,000 rows read (100 %), 100 rows/s, tasks are finishing"
        )


def test_rows_that_nobody_has_reported_are_unknown_and_not_0() -> None:
    assert line("batch 1", 0, 8, 800, 0, 3.2, RowsRead()) == "batch 1: 0/8 tasks, no rows reported yet, 3 s"
    assert line("batch 1", 2, 8, 800, 0, 10.0, RowsRead()) == (
        "batch 1: 2/8 tasks, about 200 of 800 rows (25 %), 20 rows/s, 30 s left"
    )


def test_of_a_load_without_a_count_of_rows_the_rows_read_are_shown_and_the_time_by_tasks() -> None:
    """Offsets of 0.7 are bytes: how many messages there are shows when they are read."""
    read = RowsRead(500, 5.0)
    assert line("batch 1", 0, 8, 0, 80_000_000, 6.0, read) == "batch 1: 0/8 tasks, 500 rows read, 100 rows/s, 6 s"
    assert line("batch 1", 2, 8, 0, 80_000_000, 10.0, read) == (
        "batch 1: 2/8 tasks, 500 rows read, 100 rows/s, 2.0 MB/s, 30 s left"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_jobs_of_the_block_are_followed_and_the_group_is_given_back() -> None:
    """Also where Spark's status store cannot be read: that is said once."""
    asked, local = threading.Event(), {}
    polls: list[str] = []
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda group: [polls.append(group) or (len(polls) > 4 and asked.set()) or 1],
        getJobInfo=lambda job: SimpleNamespace(stageIds=[5, 6]),
        getStageInfo=lambda stage: SimpleNamespace(numTasks=4, numCompletedTasks=1) if stage == 5 else None,
    )
    context = SimpleNamespace(
        setJobGroup=lambda group, what: local.update({"spark.jobGroup.id": group}),
        setLocalProperty=lambda key, value: local.update({key: value}),
        statusTracker=lambda: tracker,
    )
    shown = Terminal()
    with SparkProgress(SimpleNamespace(sparkContext=context), shown).watch("loading", 4, 100, 0):
        assert str(local["spark.jobGroup.id"]).startswith("sparkpipeline-")
        assert asked.wait(30)
    assert local["spark.jobGroup.id"] is None
    assert "loading: 1/4 tasks, about 25 of 100 rows (25 %)" in shown.getvalue()
    assert shown.getvalue().count("Spark does not report what running tasks have read (AttributeError)") == 1


def test_settings_of_spark_are_pairs() -> None:
    @click.command()
    @spark_options
    def command(master: str | None, conf: dict[str, str]) -> None:
        click.echo(f"{master} {conf}")

    run = CliRunner().invoke
    assert (
        run(command, ["--master", "local[2]", "--conf", "a=b=c", "--conf", "d="]).output
        == "local[2] {'a': 'b=c', 'd': ''}\n"
    )
    refused = run(command, ["--conf", "nothing"])
    assert refused.exit_code == 2
    assert "'nothing' is not KEY=VALUE" in refused.output


def test_nothing_is_done_without_execute_or_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert go_ahead(True, "do it")
    assert not go_ahead(True, "do it", dry_run=True)
    assert not go_ahead(False, "do it")
    assert "with --execute: do it" in capsys.readouterr().err


def test_a_report_is_whole_or_refused(tmp_path: Path) -> None:
    write_report(None, {})
    write_report(tmp_path / "report.json", {"rows": 1})
    assert json.loads((tmp_path / "report.json").read_text()) == {"rows": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
    with pytest.raises(Refused), failure_reported(tmp_path / "report.json", job="orders"):
        raise Refused("another driver is at this job", lock="/x")
    assert json.loads((tmp_path / "report.json").read_text()) == {
        "job": "orders", "outcome": "failed", "error": "KAFKA08_REFUSED lock=/x: another driver is at this job"
    }  # fmt: skip
    with pytest.raises(OptionRefused, match="--report"):
        write_report(tmp_path / "no" / "report.json", {})


def test_a_run_that_finished_an_earlier_plan_and_found_nothing_new_has_done_something() -> None:
    manifest = Manifest(
        batch=1,
        kind="load",
        plan_hash="",
        attempt=1,
        application="app",
        started_ms=0,
        committed_ms=1,
        files=(),
        supersedes=(),
        facts={},
        version="1",
    )
    done, idle = Advance(Outcome.DONE, 1, manifest, 1, again=True), Advance(Outcome.IDLE)
    assert LoadOutcome((done, idle)).outcome == Outcome.DONE
    assert LoadOutcome((idle,)).outcome == Outcome.IDLE
    assert LoadOutcome((done, Advance(Outcome.LOST, 2))).outcome == Outcome.LOST
