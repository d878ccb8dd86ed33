"""Portions of a batch: how tasks are grouped, and what the next attempt takes over of one that died.  No Spark."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from sparkpipeline.ledger.attempts import PORTIONS, Attempts
from sparkpipeline.ledger.local import LocalFiles
from sparkpipeline.load.config import LoadConfig, config_of
from sparkpipeline.load.portions import Portion, PortionFolder, portions_of
from sparkpipeline.load.staging import Observed
from sparkpipeline.paths import Layout

SEEN = Observed(rows=3, numbers=3, begun=1, crcs=99, covered=17)
PATH = "topic=t/p=0/date=2026-01-01/hour=10/part-00000-x.c000.parquet"
FILES = LocalFiles()


def config(**options: object) -> LoadConfig:
    values = {name.replace("_", "."): value for name, value in options.items()}
    return config_of({"base": "/w", "bootstrap.servers": "b:1", "topics": ["t"], **values}, "job.yaml")


def test_a_small_batch_is_one_portion_and_a_large_one_has_a_task_for_every_core_in_each() -> None:
    assert portions_of([10, 20, 5], [], 1000, 2) == [Portion(0, 3)]
    assert portions_of([60] * 6, [], 100, 2) == [Portion(0, 2), Portion(2, 4), Portion(4, 6)]
    assert portions_of([600] * 5, [], 100, 2) == [Portion(0, 2), Portion(2, 5)]  # not one of a single task
    assert portions_of([600] * 6, [Portion(1, 3)], 100, 1) == [
        Portion(0, 1), Portion(3, 4), Portion(4, 5), Portion(5, 6)
    ]  # fmt: skip
    assert portions_of([600], [Portion(0, 1)], 100, 1) == []


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=40), st.sets(st.integers(0, 39)), st.integers(1, 2000),
    st.integers(1, 9),
)  # fmt: skip
def test_every_task_is_in_exactly_one_portion(sizes: list[int], done: set[int], size: int, cores: int) -> None:
    taken = [Portion(task, task + 1) for task in done if task < len(sizes)]
    found = portions_of(sizes, taken, size, cores)
    assert sorted(task for one in [*found, *taken] for task in one.tasks) == list(range(len(sizes)))
    assert found == sorted(found)


def staged(base: Path, attempt: int, portion: Portion, data: bytes = b"rows") -> None:
    file = base / f"_load/staging/00000001-{attempt}/{PORTIONS}/{portion.name}/{PATH}"
    file.parent.mkdir(parents=True)
    file.write_bytes(data)


def folder(base: Path, attempt: int, plan: str = "hash", **options: object) -> PortionFolder:
    return PortionFolder(FILES, Layout(f"file://{base}").staging(1, attempt), plan, config(**options))


def attempts(base: Path) -> Attempts:
    return Attempts(FILES, Layout(f"file://{base}"), lambda: 0)


def test_what_an_attempt_finished_is_moved_to_the_next_one_and_the_rest_is_not(tmp_path: Path) -> None:
    those, done, begun = attempts(tmp_path), Portion(0, 2), Portion(2, 4)
    assert those.claim(1) == 1
    for portion in (done, begun):
        staged(tmp_path, 1, portion)
    folder(tmp_path, 1).keep(done, SEEN, {PATH: 4})
    assert those.left(1) == []  # its driver may live
    assert those.give_up(1, 1)
    left = those.left(1)
    assert [path.rpartition("/")[2] for path in left] == ["00000001-1"]
    mine = folder(tmp_path, those.claim(1))
    [found] = mine.finished(left, 9)
    assert (found.portion, found.seen, found.files) == (done, SEEN, {PATH: 4})
    assert mine.take(found, left)
    assert (tmp_path / f"_load/staging/00000001-2/{PORTIONS}/00000-00002/{PATH}").read_bytes() == b"rows"
    assert not (tmp_path / f"_load/staging/00000001-1/{PORTIONS}/00000-00002/{PATH}").exists()


def test_a_driver_that_dies_while_it_takes_over_leaves_all_of_it_to_the_next(tmp_path: Path) -> None:
    those, one = attempts(tmp_path), Portion(0, 1)
    other = PATH.replace("hour=10", "hour=11")
    those.claim(1)
    staged(tmp_path, 1, one)
    (tmp_path / f"_load/staging/00000001-1/{PORTIONS}/{one.name}/{other}").parent.mkdir(parents=True)
    (tmp_path / f"_load/staging/00000001-1/{PORTIONS}/{one.name}/{other}").write_bytes(b"more rows")
    folder(tmp_path, 1).keep(one, SEEN, {PATH: 4, other: 9})
    those.give_up(1, 1)
    second = folder(tmp_path, those.claim(1))
    [found] = second.finished(those.left(1), 9)
    staging = Layout(f"file://{tmp_path}").folder("staging")
    assert FILES.rename(f"{staging}/00000001-1/{PORTIONS}/{one.name}/{PATH}", f"{second.path(one)}/{PATH}")
    those.give_up(1, 2)
    third, left = folder(tmp_path, those.claim(1)), those.left(1)
    assert [path[-1] for path in left] == ["2", "1"]
    [found] = third.finished(left, 9)
    assert third.take(found, left)


def test_nothing_is_taken_over_of_another_plan_or_other_options_or_with_a_file_that_is_cut(tmp_path: Path) -> None:
    those, one = attempts(tmp_path), Portion(0, 1)
    those.claim(1)
    staged(tmp_path, 1, one)
    folder(tmp_path, 1).keep(one, SEEN, {PATH: 4})
    those.give_up(1, 1)
    left = those.left(1)
    assert folder(tmp_path, 2, plan="another").finished(left, 9) == []
    assert folder(tmp_path, 2, include_headers=True).finished(left, 9) == []
    record = tmp_path / f"_load/staging/00000001-1/{PORTIONS}/{one.name}.json"
    text = record.read_text()
    record.write_text(text[:-9])
    assert folder(tmp_path, 2).finished(left, 9) == []
    record.write_text(text)
    (tmp_path / f"_load/staging/00000001-1/{PORTIONS}/{one.name}/{PATH}").write_bytes(b"row")
    mine = folder(tmp_path, 2)
    [found] = mine.finished(left, 9)
    assert not mine.take(found, left)


def test_an_attempt_that_goes_to_its_commit_leaves_nothing_to_take(tmp_path: Path) -> None:
    those, one = attempts(tmp_path), Portion(0, 1)
    those.claim(1)
    staged(tmp_path, 1, one)
    folder(tmp_path, 1).keep(one, SEEN, {PATH: 4})
    assert those.seal(1, 1)
    assert not those.give_up(1, 1)
    assert those.left(1) == []
