"""`zkconsumer migrate` where no cluster is needed: wrong command lines, status and reports of what is on the disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from groundwork.output import EXIT, Failure
from groundwork.zksecurity import ZooKeeper
from groupadmin.commands.editoptions import ClusterOptions
from groupadmin.commands.migratebase import files
from groupadmin.commands.migratestatus import keep_checks
from groupadmin.commands.migratesteps import StepRequest, _exit, _retention
from groupadmin.migrate.observation import StepOptions
from groupadmin.migrate.planfile import plan_text
from groupadmin.migrate.rules.checks import Check
from groupadmin.migrate.rules.states import MigrationRefused, StepName
from groupadmin.migrate.runner import Outcome
from groupadmin.migrate.selection import GroupSelection
from tests.fakes.migrationsite import GROUPS, LastingWorld, Mortal, drive, planned
from zkconsumer.commands.cli import cli
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.migrationmarker import Phase

PLAN = ("--plan", "plan.json")


def migrate(*args: str) -> Result:
    return CliRunner().invoke(cli, ["migrate", *args])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a plan, and a journal of a migration that was cut over."""
    monkeypatch.chdir(tmp_path)
    world = LastingWorld()
    plan = planned(world)
    Path("plan.json").write_text(plan_text(plan), encoding="utf-8")
    drive(world, tmp_path / "plan.journal.jsonl", plan, Mortal(), ("check", "copy", "verify", "cutover"))
    Path("undo").rename("plan.undo")
    return tmp_path


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("plan", "-z", "zk:1"), "which groups"),
        (("plan", "-z", "zk:1", "--group", "a/b"), "no group can be called that"),
        (("copy", "-z", "zk:1"), "--plan"),
        (("copy", "-z", "zk:1", "--plan", "none.json"), "does not exist"),
        (("copy", "-z", "zk:1", *PLAN, "--retention", "30"), "no unit"),
        (("copy", *PLAN), "-z"),
        (("status",), "--plan"),
    ],
)
def test_wrong_command_lines_end_with_2_and_say_what_is_wrong(folder: Path, args: tuple[str, ...], says: str):
    done = migrate(*args)
    assert done.exit_code == 2, done.output
    assert says in done.stderr


def test_a_plan_that_was_changed_by_hand_is_refused(folder: Path):
    text = Path("plan.json").read_text(encoding="utf-8")
    Path("plan.json").write_text(text.replace('"target": 50', '"target": 49'), encoding="utf-8")
    done = migrate("status", *PLAN)
    assert done.exit_code == 2
    assert "changed after it was made" in done.stderr


def test_status_says_where_each_group_is_and_what_comes_next(folder: Path):
    rows = json.loads(migrate("status", *PLAN, "-o", "json").stdout)
    assert [(row["group"], row["phase"]) for row in rows] == [(group, "cutover") for group in sorted(GROUPS)]
    assert rows[0]["next"] == "verify, handover, rollback"
    one = json.loads(migrate("status", *PLAN, "--group", "mail", "-o", "json").stdout)
    assert [row["group"] for row in one] == ["mail"]
    assert migrate("status", *PLAN, "--group", "nobody").exit_code == 5


def test_a_plan_nobody_began_is_planned(folder: Path):
    Path("plan.journal.jsonl").unlink()
    rows = json.loads(migrate("status", *PLAN, "-o", "json").stdout)
    assert {row["phase"] for row in rows} == {"planned"}
    assert not Path("plan.journal.jsonl").exists()


def test_a_report_has_the_last_check_and_commands_that_run(folder: Path):
    keep_checks(
        files(Path("plan.json")),
        [Check("brokers", "warn", "not known", "say it"), Check("x", "fail", "y", "", "gone")],
    )
    done = migrate("status", "--report", "md", *PLAN, "-b", "k:9092", "--kafka-version", "0.10.2", "--group", "mail")
    assert "| warn | brokers |" in done.stdout
    assert "gone" not in done.stdout
    reach = "-z zk:2181 -b k:9092 --kafka-version 0.10.2"
    assert f"zkconsumer migrate rollback {reach} --plan plan.json --group mail --execute" in done.stdout
    assert migrate("status", "--report", "json", *PLAN, "--out", "report.json").exit_code == 0
    document = json.loads(Path("report.json").read_text(encoding="utf-8"))
    assert document["counts"]["phases"] == {"cutover": 3}
    assert document["groups"][0]["undo_file"] == str(Path("plan.undo") / "audit.copy.json")


def test_a_report_that_cannot_be_written_says_so(folder: Path):
    done = migrate("status", "--report", "md", *PLAN, "--out", str(folder / "nowhere" / "r.md"))
    assert done.exit_code == 1
    assert "cannot be written" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-z", "h:1", "--report", "md"], "--report is made from a plan and its journal: give --plan"),
        ([*PLAN, "-z", "h:1", "--report", "md"], "leave out -z, or print the table"),
        ([*PLAN, "--out", "r.md"], "--out is for a report: add --report md"),
        ([*PLAN, "-b", "k:9092"], "--brokers is for a report"),
        ([*PLAN, "--kafka-version", "0.9.0"], "--kafka-version is for a report"),
    ],
)
def test_options_of_a_report_are_refused_where_they_would_change_nothing(folder: Path, words: list[str], said: str):
    done = migrate("status", *words)
    assert (done.exit_code, said in done.stderr) == (2, True)


def test_a_plan_that_cannot_be_kept_is_refused_before_anything_is_read(folder: Path):
    done = migrate("plan", "-z", "127.0.0.1:1", "--all", "--plan", str(folder / "nowhere" / "p.json"))
    assert done.exit_code == 1
    assert f"there is no folder {folder / 'nowhere'}" in done.stderr


def test_what_is_no_file_is_written_to_and_stays_what_it_is(folder: Path):
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert migrate("status", "--report", "md", *PLAN, "--out", "pipe").exit_code == 0
    assert os.read(reader, 11) == b"# Migration"
    os.close(reader)
    assert Path("pipe").is_fifo()


def test_the_cutover_keeps_positions_as_long_as_the_copy_did(folder: Path):
    place = files(Path("plan.json"))

    def asking(retention_ms: int | None) -> StepRequest:
        return StepRequest(
            cluster=ClusterOptions(ZooKeeper("zk:2181"), "0.9"),
            place=place,
            wanted=GroupSelection(),
            options=StepOptions(retention_ms=retention_ms),
            output="table",
        )

    assert _retention(asking(None), "cutover") is None
    assert _retention(asking(30), "copy") == 30
    assert _retention(asking(None), "cutover") == 30
    assert _retention(asking(40), "cutover") == 40
    assert _retention(asking(None), "rollback") is None
    place.retention.write_text("x")
    with pytest.raises(ConsumerError, match="--retention"):
        _retention(asking(None), "cutover")
    assert _retention(asking(None), "copy") is None
    assert _retention(asking(None), "cutover") is None
    assert _retention(asking(30), "copy", whole=False) == 30
    assert _retention(asking(None), "copy", whole=False) is None  # of other groups: those of before keep theirs
    assert _retention(asking(7), "copy", whole=False) == 7
    assert _retention(asking(None), "cutover", whole=False) == 30


@pytest.mark.parametrize(
    ("refused", "others", "said", "code"),
    [
        (1, 0, "copy: 1 of 1 group was refused (1 active group)", "refused"),
        (1, 2, "copy: 1 of 3 groups was refused (1 active group)", "partly"),
        (2, 1, "copy: 2 of 3 groups were refused (2 active group)", "partly"),
    ],
)
def test_the_last_sentence_counts_the_groups_that_were_refused(refused: int, others: int, said: str, code: str):
    why = MigrationRefused("active group", "a member is there", "stop it")
    outcomes = [Outcome("g", StepName.COPY, Phase.CHECKED, refusal=why)] * refused
    with pytest.raises(Failure) as ended:
        _exit("copy", [*outcomes, *[Outcome("h", StepName.COPY, Phase.COPIED)] * others])
    assert (ended.value.message, ended.value.exit_code) == (said, EXIT[code])
