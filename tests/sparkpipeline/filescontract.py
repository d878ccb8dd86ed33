"""What a ledger relies on, asked of any Files: the same questions to a disk, to Spark's client and to a real HDFS."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sparkpipeline.errors import Missing, StorageFailed
from sparkpipeline.ledger.files import Files, info, walk

Promise = Callable[[Files, str], None]
NAMES = ("plain", "topic=orders", "a b", "t+3+0017.g1.c000.snappy.parquet", "100%25", "é", "a#b", "a,b;c&d")


def a_file_is_made_once_with_its_folders(files: Files, base: str) -> None:
    path = f"{base}/_load/plans/1.json"
    assert not files.exists(path)
    assert files.create(path, b"first")
    assert not files.create(path, b"second")
    assert files.read(path) == b"first"
    assert files.exists(path)
    assert files.exists(f"{base}/_load/plans")


def nothing_else_is_left_where_a_file_was_made(files: Files, base: str) -> None:
    assert files.create(f"{base}/made/one", b"")
    assert not files.create(f"{base}/made/one", b"x" * 100_000)
    assert [(entry.name, entry.size) for entry in files.list(f"{base}/made")] == [("one", 0)]


def bytes_come_back_as_they_were(files: Files, base: str) -> None:
    data = bytes(range(256)) * 5_000
    assert files.create(f"{base}/bytes", data)
    assert files.read(f"{base}/bytes") == data


def of_many_makers_one_wins_and_its_file_is_whole(files: Files, base: str) -> None:
    won: list[int] = []
    ready = threading.Barrier(8)

    def make(number: int) -> None:
        ready.wait(10)
        if files.create(f"{base}/raced", b"%d" % number * 50_000):
            won.append(number)

    makers = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(60)
    assert len(won) == 1
    assert files.read(f"{base}/raced") == b"%d" % won[0] * 50_000


def what_is_not_there_is_said_so(files: Files, base: str) -> None:
    with pytest.raises(Missing, match=r"KAFKA08_NO_FILE file=.*/nowhere: file does not exist"):
        files.read(f"{base}/nowhere")
    assert files.list(f"{base}/nowhere") == []
    assert not files.delete(f"{base}/nowhere")
    assert not files.delete(f"{base}/nowhere", recursive=True)
    assert not files.rename(f"{base}/nowhere", f"{base}/somewhere")
    assert info(files, f"{base}/nowhere") is None


def a_rename_makes_folders_and_replaces_nothing(files: Files, base: str) -> None:
    assert files.create(f"{base}/from/a", b"a")
    assert files.create(f"{base}/from/b", b"b")
    assert files.rename(f"{base}/from/a", f"{base}/to/date=2026-01-01/a")
    assert not files.exists(f"{base}/from/a")
    assert not files.rename(f"{base}/from/b", f"{base}/to/date=2026-01-01/a")
    assert files.read(f"{base}/to/date=2026-01-01/a") == b"a"
    assert files.read(f"{base}/from/b") == b"b"
    assert not files.rename(f"{base}/from/a", f"{base}/to/date=2026-01-01/b")
    files.delete(f"{base}/to", recursive=True)
    assert files.rename(f"{base}/from/b", f"{base}/to/date=2026-01-01/b"), "also into a folder that was deleted since"


def of_many_renames_to_one_name_one_wins(files: Files, base: str) -> None:
    for number in range(8):
        assert files.create(f"{base}/staged/{number}", b"%d" % number)
    won: list[int] = []
    ready = threading.Barrier(8)

    def move(number: int) -> None:
        ready.wait(10)
        if files.rename(f"{base}/staged/{number}", f"{base}/final/one"):
            won.append(number)

    movers = [threading.Thread(target=move, args=(number,)) for number in range(8)]
    for mover in movers:
        mover.start()
    for mover in movers:
        mover.join(60)
    assert len(won) == 1
    assert files.read(f"{base}/final/one") == b"%d" % won[0]
    assert len(files.list(f"{base}/staged")) == 7


def a_listing_says_name_size_and_kind(files: Files, base: str) -> None:
    assert files.create(f"{base}/seen/b", b"123")
    assert files.create(f"{base}/seen/a/deep", b"12345")
    listed = files.list(f"{base}/seen")
    assert [(e.path, e.name, e.size, e.is_folder) for e in listed] == [
        (f"{base}/seen/a", "a", 0, True),
        (f"{base}/seen/b", "b", 3, False),
    ]
    assert listed[1].modified_ms > 1_700_000_000_000
    alone = info(files, f"{base}/seen/b")
    assert alone is not None
    assert (alone.path, alone.name, alone.size, alone.is_folder) == (f"{base}/seen/b", "b", 3, False)
    assert info(files, f"{base}/seen/a") is None
    assert info(files, f"{base}/seen") is None
    assert [entry.path for entry in walk(files, f"{base}/seen")] == [f"{base}/seen/a/deep", f"{base}/seen/b"]


def a_folder_of_one_file_is_not_taken_for_the_file(files: Files, base: str) -> None:
    assert files.create(f"{base}/same/same", b"1")
    assert info(files, f"{base}/same") is None
    assert [entry.path for entry in files.list(f"{base}/same")] == [f"{base}/same/same"]


def a_folder_with_something_in_it_is_deleted_only_on_purpose(files: Files, base: str) -> None:
    assert files.create(f"{base}/full/deep/one", b"1")
    with pytest.raises(StorageFailed):
        files.delete(f"{base}/full")
    assert files.exists(f"{base}/full/deep/one")
    assert files.delete(f"{base}/full", recursive=True)
    assert not files.exists(f"{base}/full")
    assert files.create(f"{base}/file", b"1")
    assert files.delete(f"{base}/file")
    assert not files.exists(f"{base}/file")


def odd_names_are_names(files: Files, base: str) -> None:
    for name in NAMES:
        assert files.create(f"{base}/odd/{name}/{name}", name.encode())
        assert files.rename(f"{base}/odd/{name}/{name}", f"{base}/odd/{name}/again {name}")
        assert files.read(f"{base}/odd/{name}/again {name}") == name.encode()
    assert sorted(entry.name for entry in files.list(f"{base}/odd")) == sorted(NAMES)


def a_refusal_is_one_sentence_that_names_the_file(files: Files, base: str) -> None:
    assert files.create(f"{base}/file", b"1")
    with pytest.raises(StorageFailed, match=r"KAFKA08_STORAGE file=.*/file/below: cannot create it: \S") as refused:
        files.create(f"{base}/file/below", b"2")
    assert "\n" not in str(refused.value)
    assert files.create(f"{base}/other", b"1")
    with pytest.raises(StorageFailed, match=r"KAFKA08_STORAGE file=.*/other: cannot rename to .*/file/below it: \S"):
        files.rename(f"{base}/other", f"{base}/file/below")
    files.sync(f"{base}/other")


PROMISES: tuple[Promise, ...] = (
    a_file_is_made_once_with_its_folders,
    nothing_else_is_left_where_a_file_was_made,
    bytes_come_back_as_they_were,
    of_many_makers_one_wins_and_its_file_is_whole,
    what_is_not_there_is_said_so,
    a_rename_makes_folders_and_replaces_nothing,
    of_many_renames_to_one_name_one_wins,
    a_listing_says_name_size_and_kind,
    a_folder_of_one_file_is_not_taken_for_the_file,
    a_folder_with_something_in_it_is_deleted_only_on_purpose,
    odd_names_are_names,
    a_refusal_is_one_sentence_that_names_the_file,
)
every_promise = pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
