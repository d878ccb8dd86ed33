"""The file of an offset map while it is written: torn ends, a full disk, a bound, and whose it is."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kafkawire.model import Part, TopicPartition
from mirrormaker.offsetmap.checkpoints import Checkpoint
from mirrormaker.offsetmap.file import FEWEST, FileStorage, MapInUse, thinned
from mirrormaker.offsetmap.recorder import MapRecorder
from mirrormaker.offsetmap.tickets import part_tickets
from zkconsumer.errors import ConsumerError
from zkconsumer.offsetmap.file import read_map
from zkconsumer.offsetmap.records import Begun, Entry, Reached, gathered
from zkconsumer.offsetmap.text import Header

S, T = TopicPartition("t", 0), TopicPartition("t", 0)
HEADER = Header("dc1", "mirror")


def entries(first: int, last: int, on: int = 10) -> list[Entry]:
    return [Entry(S, T, n, n + on, n + on) for n in range(first, last)]


def keeper(folder: Path, every: int = 100) -> MapRecorder:
    return MapRecorder(FileStorage(folder / "m", HEADER, 1 << 20), every, {})


class Silent:
    """A ticket that counts."""

    def __init__(self) -> None:
        self.dones = 0

    def may_send(self) -> bool:
        return True

    def reached(self, resume_at: int) -> None: ...

    def done(self) -> None:
        self.dones += 1

    def failed(self, reason: Exception, resume_at: int | None) -> None: ...


def sent(following: Any, at: int, base: int) -> None:
    """Ten messages up to position at, stored from base on."""
    ticket = Silent()
    [own] = part_tickets((Part(T, b"", 0, 0, 10),), ticket, following, at)
    own.placed(10, base, True)
    own.done()
    assert ticket.dones == 1


def test_after_a_torn_end_it_goes_on_with_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "m"
    writer = FileStorage(path, HEADER, 1 << 20)
    writer.append([Begun(S, 0, 1, True), *entries(0, 3)])
    writer.close()
    path.write_bytes(path.read_bytes()[:-4])
    writer = FileStorage(path, HEADER, 1 << 20)
    assert writer.map.last(S, T) == entries(1, 2)[0]
    writer.append([Reached(S, 9)])
    writer.close()
    assert read_map(path).records == (Begun(S, 0, 1, True), *entries(0, 2), Reached(S, 9))


def test_one_process_writes_it_and_only_of_one_flow(tmp_path: Path) -> None:
    writer = FileStorage(tmp_path / "m", HEADER, 1 << 20)
    with pytest.raises(MapInUse, match="written by another process: give each mirror a folder of its own"):
        FileStorage(tmp_path / "m", HEADER, 1 << 20)
    writer.close()
    with pytest.raises(MapInUse, match=r"is of source dc1, group mirror, not of dc2, mirror: move it away"):
        FileStorage(tmp_path / "m", Header("dc2", "mirror"), 1 << 20)
    with pytest.raises(ConsumerError, match="cannot be opened: No such file or directory"):
        FileStorage(tmp_path / "nowhere" / "m", HEADER, 1 << 20)


def test_it_is_cut_to_half_its_bound_and_loses_nothing_that_came_meanwhile(tmp_path: Path) -> None:
    writer = FileStorage(tmp_path / "m", HEADER, 40_000)
    writer.append([Begun(S, 0, 1, True), *entries(0, 5000)])
    assert writer.too_large
    late = iter(entries(5000, 6000))
    writer.cut(lambda: writer.append([next(late)]))
    writer.sync()
    there = read_map(tmp_path / "m")
    assert there.length == writer.size == (tmp_path / "m").stat().st_size < 22_000
    positions = [entry.position for entry in there.map.stints[S][0].entries[T]]
    came = next(late).position
    assert positions[0] == 0
    assert positions[-1] == came - 1
    assert positions == sorted(set(positions))
    gaps = [b - a for a, b in pairwise(positions)]
    assert gaps[-1] == 1
    assert gaps[0] == max(gaps)
    writer.append([Reached(S, 7000)])
    writer.close()
    assert read_map(tmp_path / "m").records[-1] == Reached(S, 7000)


def test_what_is_thinned_out_keeps_the_ends_of_each_stint() -> None:
    records = [Begun(S, 0, 1, True), *entries(0, 400), Reached(S, 500), Begun(S, 300, 2, True), *entries(300, 310, 500)]
    left = gathered(thinned(gathered(records), 0.2)).stints[S]
    assert [stint.begun.position for stint in left] == [0, 300]
    first = [entry.position for entry in left[0].entries[T]]
    assert (first[0], first[-1], left[0].reached) == (0, 399, 500)
    assert len(first) <= 82
    assert len(left[1].entries[T]) == 10 <= FEWEST


def test_a_full_disk_stops_the_map_and_not_the_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    keep = keeper(tmp_path, every=5)
    following = keep.follow(_set(0), "stint", lambda: True, True)
    sent(following, 10, 1000)
    keep.before_commit({S: 10})
    write = os.write

    def full(file: int, data: bytes) -> int:
        write(file, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    sent(following, 20, 1010)
    sent(following, 30, 1020)
    assert "No space left on device; mirroring goes on, and the map has a hole from here" in caplog.text
    monkeypatch.undo()
    keep._begin_anew()  # what its timer does
    sent(following, 40, 1030)
    keep.before_commit({S: 40})
    keep.close()
    stints = read_map(tmp_path / "m").map.stints[S]
    assert [(stint.begun.position, stint.reached) for stint in stints] == [(0, 10), (10, 40)]
    assert stints[1].entries[T][-1] == Entry(S, T, 40, 1040, 1040)


def test_its_newest_exact_entry_is_the_point_to_resume_from(tmp_path: Path) -> None:
    keep = keeper(tmp_path)
    assert keep.point(S, T) is None
    keep.go_on(S, "stint", lambda: True, 7, T, 1000)
    assert keep.point(S, T) == Checkpoint(7, 1000)
    following = keep.follow(_set(7), "stint", lambda: True, True)
    sent(following, 17, 1000)
    assert keep.point(S, T) == Checkpoint(7, 1000)
    keep.before_commit({S: 17})
    keep.close()
    again = keeper(tmp_path)
    assert again.point(S, T) == Checkpoint(17, 1010)
    again.close()


def test_a_target_that_was_made_anew_forgets_what_was_known_of_it(tmp_path: Path) -> None:
    keep = keeper(tmp_path, every=100)
    following = keep.follow(_set(0), "stint", lambda: True, True)
    sent(following, 10, 5000)
    keep.before_commit({S: 10})
    sent(following, 20, 0)
    keep.before_commit({S: 20})
    keep.close()
    there = read_map(tmp_path / "m")
    assert Entry(S, T, 10, 5010, 5010) in there.records
    assert there.map.stints[S][0].entries[T] == [Entry(S, T, 10, 0, 0), Entry(S, T, 20, 10, 10)]


def _set(start: int) -> Any:
    from kafkawire.formats.v01 import messages as v08

    rows = [(start + n, None, b"v", None) for n in range(2)]
    return v08.message_set("t", 0, start, memoryview(v08.encode(rows)), 100)[0]
