"""The journal: what it was given holds after any crash, and nothing beyond; what makes no sense is not believed."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from groupadmin.migrate import journal as journal_file
from groupadmin.migrate.journal import (
    Begun,
    Declined,
    JournalDamaged,
    JournalFailed,
    JournalHeader,
    Reached,
    Standing,
    Wrote,
    open_journal,
    read_journal,
    understood,
)
from groupadmin.migrate.rules.states import MigrationRefused, StepName
from kafkawire.model import BrokerPartition, TopicPartition
from tests import children
from tests.fakes.migrationworld import GROUPS, Process, World, planned
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.migrationmarker import Phase

P, S = Phase, StepName
HEADER = JournalHeader("abc", "zk:2181/kafka", "to-kafka", 1)
EVENTS = [
    Begun("gr\u00fcn", S.CHECK),
    Reached("gr\u00fcn", S.CHECK, P.CHECKED),
    Begun("gr\u00fcn", S.COPY),
    Wrote("gr\u00fcn", S.COPY, "kafka", TopicPartition("t", 0), before=None, after=5),
    Wrote("gr\u00fcn", S.COPY, "kafka", TopicPartition("t", BrokerPartition(1, 0)), before=7, after=None),
    Declined("gr\u00fcn", S.COPY, "active group", 'members "a"\nare there'),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def test_what_was_appended_is_read_back(path: Path):
    with open_journal(path, HEADER) as journal:
        journal.begin(["gr\u00fcn"], 1)
        journal.append(EVENTS, 2)
    found = read_journal(path)
    assert found.header == HEADER
    assert [event for _, event in found.events] == [Reached("gr\u00fcn", None, P.PLANNED), *EVENTS]
    assert not found.torn
    (standing,) = found.standings.values()
    assert standing == Standing(
        P.CHECKED, 2, begun=S.COPY, wrote=2, past=((P.PLANNED, 1), (P.CHECKED, 2)), declined=EVENTS[-1]
    )


def test_a_reader_sees_what_is_there_while_another_writes(path: Path):
    with open_journal(path, HEADER) as journal:
        journal.begin(["a"], 1)
        assert read_journal(path).standings["a"].phase is P.PLANNED


def test_no_journal_is_no_standing(path: Path):
    found = read_journal(path)
    assert (found.header, found.standings, found.torn) == (None, {}, False)


def test_two_runs_at_once_are_refused_and_the_dead_hold_no_lock(path: Path):
    program = f"""
import sys
from groupadmin.migrate.journal import JournalHeader
from groupadmin.migrate.journal import open_journal
journal = open_journal({str(path)!r}, JournalHeader("abc", "zk:2181/kafka", "to-kafka", 1))
journal.begin(["a"], 1)
print("open", flush=True)
sys.stdin.read()
"""
    with children.started([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"open\n"
        with pytest.raises(MigrationRefused, match="journal in use"):
            open_journal(path, HEADER)
        child.kill()
        child.wait(timeout=20)
    with open_journal(path, HEADER) as journal:
        assert journal.standings["a"].phase is P.PLANNED


def test_the_journal_of_another_plan_is_refused(path: Path):
    open_journal(path, HEADER).close()
    with pytest.raises(MigrationRefused, match="belongs to plan abc, not to xyz"):
        open_journal(path, JournalHeader("xyz", "zk:2181/kafka", "to-kafka", 1))


def test_begun_groups_are_not_begun_again(path: Path):
    with open_journal(path, HEADER) as journal:
        journal.begin(["a"], 1)
        journal.append([Reached("a", S.CHECK, P.CHECKED)], 2)
        journal.begin(["a", "b"], 3)
    assert {g: s.phase for g, s in read_journal(path).standings.items()} == {"a": P.CHECKED, "b": P.PLANNED}


def test_2000_groups_are_begun_with_one_sync(path: Path, monkeypatch: pytest.MonkeyPatch):
    syncs = []
    monkeypatch.setattr(os, "fsync", syncs.append)
    with open_journal(path, HEADER) as journal:
        before = len(syncs)
        journal.begin([f"g{n}" for n in range(2000)], 1)
        assert len(syncs) == before + 1
    assert len(read_journal(path).standings) == 2000


# cut anywhere ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The journal of a whole migration of a group, there and back."""
    path = tmp_path_factory.mktemp("whole") / "journal.jsonl"
    world = World()
    Process(world, path, planned(world, ["billing"])).run()
    return path.read_bytes()


def test_cut_at_every_byte_it_says_what_was_reached_and_nothing_beyond(whole: bytes):
    reached, ends = [{}], [0]
    for line in whole.splitlines(keepends=True):
        ends.append(ends[-1] + len(line))
        reached.append(understood(whole[: ends[-1]], "x").standings)
    for cut in range(len(whole) + 1):
        lines = max(n for n, at in enumerate(ends) if at <= cut)
        found = understood(whole[:cut], "x")
        assert found.standings == reached[lines]
        assert found.length == ends[lines]
        assert found.torn == (cut != ends[lines])
    assert len(whole) > 2500


def test_cut_at_every_byte_of_its_head_and_tail_it_is_gone_on_with(whole: bytes, path: Path):
    header = understood(whole, path).header
    cuts = [
        *range(len(whole.split(b"\n", 1)[0]) + 2),
        *range(len(whole) - 150, len(whole) + 1),
        *range(0, len(whole), 199),
    ]
    for cut in cuts:
        path.write_bytes(whole[:cut])
        before = understood(whole[:cut], path).standings
        with open_journal(path, header) as journal:
            assert journal.standings == before
            journal.append([Reached(f"new{cut}", None, P.PLANNED)], 9)
        after = read_journal(path)
        assert not after.torn
        assert after.standings == before | {f"new{cut}": Standing(P.PLANNED, 9, past=((P.PLANNED, 9),))}


def test_a_last_line_whose_middle_never_reached_the_disk_is_cut_off(whole: bytes):
    *lines, last, _ = whole.split(b"\n")
    holed = b"\n".join([*lines, last[:10] + b"\0" * (len(last) - 11) + b"}", b""])
    found = understood(holed, "x")
    assert found.torn
    assert found.standings == understood(b"\n".join([*lines, b""]), "x").standings


# damage ---------------------------------------------------------------------------------------------------------------


def test_damage_elsewhere_is_not_repaired(whole: bytes):
    lines = whole.splitlines(keepends=True)
    for n in (1, 5, len(lines) - 2):
        for damaged in (lines[n][:20] + b"\n", b"\xff" + lines[n][1:], b"[]\n", b""):
            with pytest.raises(JournalDamaged, match="journal x"):
                understood(b"".join([*lines[:n], damaged, *lines[n + 1 :]]), "x")


def test_a_line_twice_or_missing_is_noticed(whole: bytes):
    lines = whole.splitlines(keepends=True)
    for wrong in ([*lines[:4], lines[3], *lines[4:]], [*lines[:4], *lines[5:]]):
        with pytest.raises(JournalDamaged, match="lines are missing, or twice"):
            understood(b"".join(wrong), "x")


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "done"},
        {"phase": "married"},
        {"step": "cutover"},
        {"step": None},
        {"event": "wedding"},
        {"group": "somebody else"},
    ],
)
def test_a_phase_that_no_step_leads_to_is_not_believed(path: Path, change):
    with open_journal(path, HEADER) as journal:
        journal.begin(["a"], 1)
        journal.append([Reached("a", S.CHECK, P.CHECKED)], 2)
    *lines, last = path.read_text().splitlines()
    path.write_text("\n".join([*lines, json.dumps(json.loads(last) | change)]) + "\n")
    with pytest.raises(JournalDamaged):
        _ = read_journal(path).standings


def test_what_does_not_follow_is_refused_before_it_is_written(path: Path):
    with open_journal(path, HEADER) as journal:
        journal.begin(["a"], 1)
        before = path.read_bytes()
        for wrong in (Reached("a", S.CUTOVER, P.CUTOVER), Reached("a", S.CHECK, P.COPIED), Begun("nobody", S.CHECK)):
            with pytest.raises(JournalDamaged):
                journal.append([Begun("a", S.CHECK), wrong], 2)
        assert path.read_bytes() == before
        assert journal.standings["a"] == Standing(P.PLANNED, 1, past=((P.PLANNED, 1),))


@pytest.mark.parametrize("text", ["shopping list", '{"some": "json"}\n', '{"format": "zkconsumer.offsets/1"}\n'])
def test_another_file_is_never_taken_for_a_journal_and_stays_as_it_is(path: Path, text: str):
    path.write_text(text)
    with pytest.raises(JournalDamaged):
        open_journal(path, HEADER)
    assert path.read_text() == text


def test_a_folder_that_is_not_there_is_an_error_with_its_name(tmp_path: Path):
    with pytest.raises(ConsumerError, match="nowhere/journal"):
        open_journal(tmp_path / "nowhere" / "journal", HEADER)


def test_a_full_disk_ends_the_run_and_the_next_one_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch):
    whole_write = journal_file._write_all

    def full(file: int, data: bytes) -> None:
        whole_write(file, data[:7])
        raise OSError(errno.ENOSPC, "No space left on device")

    with open_journal(path, HEADER) as journal:
        journal.begin(["a"], 1)
        with monkeypatch.context() as patch:
            patch.setattr(journal_file, "_write_all", full)
            with pytest.raises(JournalFailed, match="No space left"):
                journal.append([Reached("a", S.CHECK, P.CHECKED)], 2)
        assert journal.standings["a"].phase is P.PLANNED
        with pytest.raises(JournalFailed, match="failed before"):
            journal.append([Reached("a", S.CHECK, P.CHECKED)], 2)
    with open_journal(path, HEADER) as journal:
        assert journal.standings["a"].phase is P.PLANNED
        journal.append([Reached("a", S.CHECK, P.CHECKED)], 3)
    assert read_journal(path).standings["a"].phase is P.CHECKED


def test_a_closed_journal_takes_nothing(path: Path):
    journal = open_journal(path, HEADER)
    journal.close()
    journal.close()
    with pytest.raises(JournalFailed):
        journal.begin(GROUPS, 1)
