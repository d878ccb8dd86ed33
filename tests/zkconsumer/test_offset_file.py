"""The file store: what was committed is there after any crash, and what cannot be understood is never overwritten."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from groundwork import clocks
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError, ForeignWrite
from zkconsumer.offsets.file import FileOffsets
from zkconsumer.offsets.store import NONE, Unknown
from zkconsumer.session.lease import Lease, LeaseOver

T0, T3 = TopicPartition("orders", 0), TopicPartition("orders", 3)


def held() -> Lease:
    lease = Lease(0.0)
    lease.beat_answered(clocks.moment(), 60.0)
    return lease


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "g.json"


def test_what_was_committed_is_read_by_the_next_process(path: Path):
    assert FileOffsets(path).commit("g", {T0: 0, T3: 87}, held()) == {T0: None, T3: None}
    assert FileOffsets(path).read("g", [T0, T3]) == {T0: 0, T3: 87}


def test_nothing_committed_is_none_but_a_missing_folder_is_an_error(path: Path, tmp_path: Path):
    assert FileOffsets(path).read("g", [T0]) == {T0: NONE}
    lost = FileOffsets(tmp_path / "not mounted" / "g.json")
    with pytest.raises(ConsumerError, match="not mounted does not exist"):
        lost.read("g", [T0])
    assert "No such file" in str(lost.commit("g", {T0: 1}, held())[T0])


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"version": 2, "group": "g", "offsets": {}}',
        b'{"version": 1, "group": "other", "offsets": {}}',
        b'{"version": 1, "group": "g"}',
        b'{"version": 1, "group": "g", "offsets": {"orders": [1]}}',
    ],
)
def test_a_file_nobody_understands_is_unknown_and_stays_as_it_is(path: Path, text: bytes):
    path.write_bytes(text)
    store = FileOffsets(path)
    found = store.read("g", [T0])[T0]
    assert isinstance(found, Unknown)
    assert str(path) in found.reason
    assert str(path) in str(store.commit("g", {T0: 5}, held())[T0])
    assert path.read_bytes() == text


@pytest.mark.parametrize("value", ["5", -1, 1.5, True, None])
def test_one_senseless_position_is_unknown_and_the_others_are_read(path: Path, value: object):
    path.write_text(json.dumps({"version": 1, "group": "g", "offsets": {"orders": {"0": value, "3": 7}}}))
    found = FileOffsets(path).read("g", [T0, T3])
    assert isinstance(found[T0], Unknown)
    assert repr(value) in found[T0].reason
    assert found[T3] == 7


def test_two_stores_of_one_group_keep_each_others_partitions(path: Path):
    a, b = FileOffsets(path), FileOffsets(path)
    a.read("g", [T0])
    b.read("g", [T3])
    assert a.commit("g", {T0: 1}, held()) == {T0: None}
    assert b.commit("g", {T3: 2}, held()) == {T3: None}
    assert a.read("g", [T0, T3]) == {T0: 1, T3: 2}


def test_a_foreign_write_is_noticed_once_and_the_second_commit_takes_ours(path: Path):
    a, b = FileOffsets(path), FileOffsets(path)
    a.read("g", [T0])
    b.commit("g", {T0: 100}, held())
    noticed = a.commit("g", {T0: 5, T3: 6}, held())
    assert isinstance(noticed[T0], ForeignWrite)
    assert noticed[T0].theirs == 100
    assert noticed[T3] is None
    assert b.read("g", [T0, T3]) == {T0: 100, T3: 6}
    assert a.commit("g", {T0: 5}, held()) == {T0: None}
    assert b.read("g", [T0]) == {T0: 5}


def test_nothing_is_written_once_the_lease_is_over(path: Path):
    store = FileOffsets(path)
    assert isinstance(store.commit("g", {T0: 5}, Lease())[T0], LeaseOver)
    assert not path.exists()


def test_a_crash_before_the_rename_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch):
    store = FileOffsets(path)
    store.commit("g", {T0: 5}, held())

    def crash(*_: object) -> None:
        raise OSError(5, "the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", crash)
        assert "the disk is gone" in str(store.commit("g", {T0: 6}, held())[T0])
    assert FileOffsets(path).read("g", [T0]) == {T0: 5}
    assert store.commit("g", {T0: 6}, held()) == {T0: None}
    assert FileOffsets(path).read("g", [T0]) == {T0: 6}


def test_the_new_file_is_on_the_disk_before_it_takes_the_old_ones_place(path: Path, monkeypatch: pytest.MonkeyPatch):
    order: list[str] = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("sync"), sync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append("rename"), replace(a, b))[1])
    FileOffsets(path).commit("g", {T0: 5}, held())
    assert order == ["sync", "rename", "sync"]


def test_a_position_that_is_there_already_is_not_written_again(path: Path, monkeypatch: pytest.MonkeyPatch):
    store = FileOffsets(path)
    store.commit("g", {T0: 5}, held())
    before = path.stat().st_ino
    assert store.commit("g", {T0: 5}, held()) == {T0: None}
    assert path.stat().st_ino == before


def test_a_file_locked_by_another_process_is_told_and_not_waited_for_long(path: Path):
    mine, theirs = FileOffsets(path), FileOffsets(path)
    with theirs._locked():
        began = time.monotonic()
        assert "another process" in str(mine.commit("g", {T0: 5}, held())[T0])
        assert time.monotonic() - began < 5
    assert mine.commit("g", {T0: 5}, held()) == {T0: None}
