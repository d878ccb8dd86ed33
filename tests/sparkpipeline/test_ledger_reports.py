"""What an operator is told: files as of a batch, status, and a ledger held against its disk."""

from __future__ import annotations

from collections import Counter

import pytest

from sparkpipeline.errors import Missing, Refused
from sparkpipeline.ledger.exactlyonce import advance
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import Plan
from sparkpipeline.ledger.reports import VisibleFile, files_of, status_of
from sparkpipeline.ledger.verification import Verdict, verify
from tests.sparkpipeline.ledgerworld import BASE, CopyWork, rows_in
from tests.sparkpipeline.memoryfiles import MemoryFiles

HEADS = (40, 30)
LOG = f"{BASE}/_load"


def world(*rewinds: tuple[int, int] | None) -> MemoryFiles:
    """A batch for each, that loads or rewinds."""
    files = MemoryFiles()
    for rewind in rewinds:
        advance(Ledger(files, BASE, snapshot_every=2), CopyWork(files, HEADS, rewind=rewind), lambda _: None)
    return files


def ledger(files: MemoryFiles) -> Ledger:
    return Ledger(files, BASE, clock=lambda: 1_900_000_000_000)


def read(files: MemoryFiles, rows: list[VisibleFile]) -> Counter[tuple[int, int]]:
    return rows_in(files, [row.path for row in rows])


def test_files_are_those_of_the_manifests_each_row_once() -> None:
    files = world(None, None, (0, 4))
    rows = files_of(ledger(files))
    assert read(files, rows) == Counter((p, offset) for p in (0, 1) for offset in range(20))
    assert {row.where for row in rows} == {"data"}
    assert [row.path for row in rows] == sorted(row.path for row in rows)
    assert sum(row.rows for row in rows) == 40
    assert all(files.kept[row.path] and len(files.kept[row.path]) == row.bytes for row in rows)


def test_files_as_of_a_batch_can_be_read_while_the_trash_has_them() -> None:
    files = world(None, None, (0, 4), None)
    rows = files_of(ledger(files), as_of=2)
    assert read(files, rows) == Counter((p, offset) for p in (0, 1) for offset in range(20))
    assert Counter(row.where for row in rows)["trash"] > 0
    assert {row.batch for row in rows} == {1, 2}
    assert files_of(ledger(files), as_of=0) == []
    Ledger(files, BASE, trash_keep_s=0, clock=lambda: 2_000_000_000_000_000).drop_trash()
    with pytest.raises(Missing, match=r"file=data/topic=orders/.*: batch 3 superseded it, and it has left the trash"):
        files_of(ledger(files), as_of=2)
    assert len(files_of(ledger(files), as_of=3)) == len(ledger(files).live_files(3))


@pytest.mark.parametrize("as_of", [-1, 3, 99])
def test_there_are_no_files_of_a_batch_that_is_not_there(as_of: int) -> None:
    with pytest.raises(Refused, match=f"batch={as_of}: there are batches up to 2"):
        files_of(ledger(world(None, None)), as_of)


def test_files_on_their_way_are_said_to_be() -> None:
    files = world(None, None, None)
    del files.kept[f"{LOG}/done/00000003.json"]
    assert {(row.batch, row.where) for row in files_of(ledger(files))} == {(1, "data"), (2, "data"), (3, "moving")}


def test_status_of_an_empty_and_of_a_busy_ledger() -> None:
    empty = status_of(ledger(MemoryFiles()))
    assert (empty.next_batch, empty.newest, empty.open_kind, empty.files, empty.attempts) == (1, None, None, 0, ())
    files = world(None, None, (1, 0))
    Ledger(files, BASE).put_plan(Plan(4, "load", 1_899_999_940_000, {}))
    assert Ledger(files, BASE).claim(4) == 1
    status = status_of(ledger(files))
    assert (status.next_batch, status.open_kind, status.plan_age_ms) == (4, "load", 60_000)
    assert [(attempt.attempt, attempt.sealed) for attempt in status.attempts] == [(1, None)]
    assert str(status.attempts[0]).startswith("attempt 1 at batch 4 by ")
    assert (status.files, status.rows) == (len(ledger(files).live_files()), 40)
    assert (status.snapshot, status.trash, status.unpublished, status.abandoned) == (2, (3,), (), ())
    Ledger(files, BASE).abandon(4, "why not")
    assert status_of(ledger(files)).abandoned == (4,)


# verify


def found(verdict: Verdict) -> list[tuple[str, str]]:
    return [(finding.what, finding.file.removeprefix(BASE)) for finding in verdict.findings]


def test_a_sound_ledger_is_good() -> None:
    for files in (MemoryFiles(), world(None), world(None, None, (0, 4), None)):
        before = dict(files.kept)
        verdict = verify(ledger(files))
        assert (verdict.findings, verdict.good, verdict.busy) == ((), True, False)
        assert files.kept == before
    assert (verdict.batches, verdict.rows) == (4, 60)


def test_what_is_wrong_with_the_files_is_found() -> None:
    files = world(None, None)
    first, second, *_ = sorted(path for path in files.kept if path.startswith(f"{BASE}/data/"))
    del files.kept[first]
    files.kept[second] += b"x"
    files.kept[f"{BASE}/data/topic=orders/copy.parquet"] = b""
    files.kept[f"{BASE}/data/topic=orders/_SUCCESS"] = b""
    files.kept[f"{BASE}/data/topic=orders/.hidden.crc"] = b""
    verdict = verify(ledger(files))
    assert not verdict.good
    assert found(verdict) == sorted(
        [
            ("missing", first.removeprefix(BASE)),
            ("size", second.removeprefix(BASE)),
            ("orphan", "/data/topic=orders/copy.parquet"),
        ]
    )


def test_what_is_wrong_with_the_ledger_is_found() -> None:
    files = world(None, None, None)
    files.kept[f"{LOG}/commits/00000002.json"] = files.kept[f"{LOG}/commits/00000002.json"][:-5]
    files.kept[f"{LOG}/commits/00000005.json"] = files.kept[f"{LOG}/commits/00000003.json"]
    files.kept[f"{LOG}/done/00000009.json"] = b"{}"
    del files.kept[f"{LOG}/plans/00000001.json"]
    verdict = verify(ledger(files))
    assert not verdict.good
    wrong = found(verdict)
    for expected in [
        ("torn", "/_load/commits/00000002.json"),
        ("torn", "/_load/commits/00000005.json"),
        ("gap", "/_load/commits/00000004.json"),
        ("gap", "/_load/plans/00000001.json"),
        ("gap", "/_load/plans/00000005.json"),
        ("contradiction", "/_load/done/00000009.json"),
        ("contradiction", "/_load/snapshots/00000002.json"),
    ]:
        assert expected in wrong


def test_a_plan_that_was_changed_after_its_commit_is_found() -> None:
    files = world(None, None)
    files.kept[f"{LOG}/plans/00000001.json"] = Plan(1, "copy", 1, {}).text().encode()
    files.kept[f"{LOG}/plans/00000003.json"] = b"{"
    assert found(verify(ledger(files))) == [
        ("contradiction", "/_load/commits/00000001.json"),
        ("torn", "/_load/plans/00000003.json"),
    ]


def test_a_snapshot_that_says_something_else_is_found() -> None:
    files = world(None, None, None)
    other = world(None, None, (0, 0))
    for end in ("json", "files.gz"):
        files.kept[f"{LOG}/snapshots/00000002.{end}"] = other.kept[f"{LOG}/snapshots/00000002.{end}"]
    assert verify(ledger(files)).good, "the same batches, the same snapshot"
    Ledger(other, BASE).snapshots.write(3, 3, frozenset(), {})
    files.kept[f"{LOG}/snapshots/00000003.json"] = other.kept[f"{LOG}/snapshots/00000003.json"]
    files.kept[f"{LOG}/snapshots/00000003.files.gz"] = other.kept[f"{LOG}/snapshots/00000003.files.gz"]
    assert found(verify(ledger(files))) == [("contradiction", "/_load/snapshots/00000003.json")]
    files.kept[f"{LOG}/snapshots/00000003.json"] = b"torn"
    assert found(verify(ledger(files))) == [("torn", "/_load/snapshots/00000003.json")]


def test_foreign_files_and_leftovers_do_no_harm_and_are_named() -> None:
    files = world(None, None)
    files.kept[f"{LOG}/commits/notes.txt"] = b""
    files.kept[f"{LOG}/plans/.00000003.json.abc.tmp"] = b""
    files.kept[f"{LOG}/staging/00000001-7/part"] = b""
    files.kept[f"{LOG}/trash/mine/file"] = b""
    verdict = verify(ledger(files))
    assert verdict.good
    assert found(verdict) == [
        ("foreign", "/_load/commits/notes.txt"),
        ("foreign", "/_load/trash/mine"),
        ("leftover", "/_load/plans/.00000003.json.abc.tmp"),
        ("leftover", "/_load/staging/00000001-7"),
    ]


def test_a_ledger_that_is_being_published_says_that_it_is_busy() -> None:
    files = world(None, None, None)
    del files.kept[f"{LOG}/done/00000003.json"]
    assert verify(ledger(files)).busy
    files = world(None)
    Ledger(files, BASE).put_plan(Plan(2, "copy", 1, {}))
    Ledger(files, BASE).abandon(2, "")
    assert not verify(ledger(files)).busy
