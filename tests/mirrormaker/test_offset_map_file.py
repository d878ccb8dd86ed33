"""The file of an offset map while it is written: torn ends, a full disk, a bound, and whose it is."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from groundwork.executor import ThreadExecutor
from groundwork.hub import CallersHub
from groundwork.tasks import Task, TaskGroup, deadline, sleep
from kafkawire.model import Part, TopicPartition
from mirrormaker.offsetmap import file
from mirrormaker.offsetmap.checkpoints import Checkpoint
from mirrormaker.offsetmap.file import MIN_ENTRIES, FileStorage, MapInUse, MapUnwritable, thinned
from mirrormaker.offsetmap.recorder import AGAIN_S, MapRecorder
from mirrormaker.offsetmap.tickets import part_tickets
from zkconsumer.errors import ConsumerError
from zkconsumer.fetching.position import Reset
from zkconsumer.offsetmap.file import read_map
from zkconsumer.offsetmap.records import Begun, Entry, Reached, gathered
from zkconsumer.offsetmap.text import Header

S, T = TopicPartition("t", 0), TopicPartition("t", 0)
HEADER = Header("dc1", "mirror")


def entries(first: int, last: int, on: int = 10) -> list[Entry]:
    return [Entry(S, T, n, n + on, n + on) for n in range(first, last)]


def recorder(folder: Path, every: int = 100, needed: bool = False) -> MapRecorder:
    return MapRecorder(FileStorage(folder / "m", HEADER, 1 << 20), every, needed=needed)


class Share:
    """One ownership period."""

    period = "period"
    topic = None
    reset: Reset | None = None

    @property
    def ended(self) -> Callable[[], bool]:
        return lambda: False

    def holding(self) -> Callable[[], bool]:
        return lambda: True


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


def sent(period: Any, at: int, base: int) -> None:
    """Ten messages up to position at, stored from base on."""
    ticket = Silent()
    [(_, own)] = part_tickets((Part(T, b"", 0, 0, 10),), ticket, period, at)
    own.placed(10, base, True)
    own.done()
    assert ticket.dones == 1


def test_after_a_torn_end_it_goes_on_with_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "m"
    storage = FileStorage(path, HEADER, 1 << 20)
    storage.append([Begun(S, 0, 1, True), *entries(0, 3)])
    storage.close()
    path.write_bytes(path.read_bytes()[:-4])
    storage = FileStorage(path, HEADER, 1 << 20)
    assert storage.map.last(S, T) == entries(1, 2)[0]
    storage.append([Reached(S, 9)])
    storage.close()
    assert read_map(path).records == (Begun(S, 0, 1, True), *entries(0, 2), Reached(S, 9))


def test_one_process_writes_it_and_only_of_one_flow(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path / "m", HEADER, 1 << 20)
    with pytest.raises(MapInUse, match="written by another process: give each mirror a folder of its own"):
        FileStorage(tmp_path / "m", HEADER, 1 << 20)
    storage.close()
    with pytest.raises(MapInUse, match=r"belongs to source dc1, group mirror, not to dc2, mirror: move it away"):
        FileStorage(tmp_path / "m", Header("dc2", "mirror"), 1 << 20)
    with pytest.raises(ConsumerError, match="cannot be opened: No such file or directory"):
        FileStorage(tmp_path / "nowhere" / "m", HEADER, 1 << 20)


def test_it_is_cut_to_half_its_bound_and_loses_nothing_that_came_meanwhile(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path / "m", HEADER, 40_000)
    storage.append([Begun(S, 0, 1, True), *entries(0, 5000)])
    assert storage.too_large
    late = iter(entries(5000, 6000))
    storage.cut(lambda: storage.append([next(late)]))
    storage.sync()
    there = read_map(tmp_path / "m")
    assert there.length == storage.size == (tmp_path / "m").stat().st_size < 22_000
    positions = [entry.position for entry in there.map.periods[S][0].entries[T]]
    came = next(late).position
    assert positions[0] == 0
    assert positions[-1] == came - 1
    assert positions == sorted(set(positions))
    gaps = [b - a for a, b in pairwise(positions)]
    assert gaps[-1] == 1
    assert gaps[0] == max(gaps)
    storage.append([Reached(S, 7000)])
    storage.close()
    assert read_map(tmp_path / "m").records[-1] == Reached(S, 7000)


def test_what_is_thinned_out_keeps_the_ends_of_each_period() -> None:
    records = [Begun(S, 0, 1, True), *entries(0, 400), Reached(S, 500), Begun(S, 300, 2, True), *entries(300, 310, 500)]
    left = gathered(thinned(gathered(records), 0.2)).periods[S]
    assert [period.begun.position for period in left] == [0, 300]
    first = [entry.position for entry in left[0].entries[T]]
    assert (first[0], first[-1], left[0].reached) == (0, 399, 500)
    assert len(first) <= 82
    assert len(left[1].entries[T]) == 10 <= MIN_ENTRIES


def test_a_full_disk_stops_the_map_and_not_the_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    kept = recorder(tmp_path, every=5)
    period = kept.period(_set(0), Share(), True)
    sent(period, 10, 1000)
    kept.before_commit({S: 10})
    write = os.write

    def full(file: int, data: bytes) -> int:
        write(file, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    sent(period, 20, 1010)
    sent(period, 30, 1020)
    assert "No space left on device; mirroring goes on, and the map has a hole from here" in caplog.text
    monkeypatch.undo()
    kept._resume_writing()  # what its timer does
    sent(period, 40, 1030)
    assert kept.before_commit({S: 40}) is None
    kept.close()
    periods = read_map(tmp_path / "m").map.periods[S]
    assert [(period.begun.position, period.reached) for period in periods] == [(0, 10), (10, 40)]
    assert periods[1].entries[T][-1] == Entry(S, T, 40, 1040, 1040)


def test_where_the_map_is_needed_nothing_is_committed_until_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """The group would be beyond the last checkpoint, and what the target holds behind that would be nobody's."""
    kept = recorder(tmp_path, every=5, needed=True)
    period = kept.period(_set(0), Share(), True)
    with monkeypatch.context() as full:
        full.setattr(os, "write", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        sent(period, 20, 1010)
        assert "nothing is committed until it is" in str(kept.before_commit({S: 20}))
    assert "No space left on device; nothing is committed until it can, and the map has a hole" in caplog.text
    kept._resume_writing()  # what its timer does
    assert kept.before_commit({S: 20}) is None
    kept.close()


def test_a_period_that_needs_its_checkpoint_begins_once_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent behind no checkpoint, its messages would be nobody's after a kill -9."""
    kept, tasks = recorder(tmp_path, every=5), TaskGroup()
    with monkeypatch.context() as full:
        full.setattr(os, "write", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        begun = tasks.spawn("begin", lambda: kept.begin(S, T, period=object(), owned=lambda: True, offset=7, end=1000))
        assert not begun.join(3 * AGAIN_S)
    kept._resume_writing()  # what its timer does
    assert begun.join(20)
    assert kept.checkpoint(S, T) == Checkpoint(7, 1000)
    kept.close()
    assert read_map(tmp_path / "m").map.periods[S][-1].entries[T] == [Entry(S, T, 7, 1000, 1000)]


def test_a_map_that_the_disk_does_not_take_at_the_start_is_told_and_can_be_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(os, "write", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(MapUnwritable, match="m cannot be written: No space left on device"):
            recorder(tmp_path)
    recorder(tmp_path).close()


class Disk:
    """A disk that syncs when it is told to, beside a hub; recorder: of a map that is kept there."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers, self.asked = threading.Event(), 0
        self._sync = os.fdatasync
        self.hub = CallersHub()
        self.hub.start()
        self.thread, self.tasks = ThreadExecutor(self.hub), TaskGroup()
        self.recorder = MapRecorder(self.thread.call(FileStorage, folder / "m", HEADER, 1 << 20, self.thread), 1)
        monkeypatch.setattr(os, "fdatasync", self._waits)

    def _waits(self, file: int) -> None:
        self.asked += 1
        assert self.answers.wait(20)
        self._sync(file)

    def until(self, condition: Callable[[], object]) -> None:
        with deadline(10, "what the disk does"):
            while not condition():
                sleep(0.01)

    def commits(self, at: int) -> Task:
        return self.tasks.spawn(f"commit {at}", self.recorder.before_commit, {S: at})

    def close(self) -> None:
        self.answers.set()
        self.recorder.close()
        self.thread.close()
        self.hub.stop()
        self.tasks.stop(5)


def test_commits_wait_for_a_disk_that_syncs_slowly_and_the_event_loop_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path, monkeypatch)
    period = disk.recorder.period(_set(0), Share(), True)
    sent(period, 10, 1000)
    first = disk.commits(10)
    disk.until(lambda: disk.asked == 1)
    sent(period, 20, 1010)
    second = disk.commits(20)
    for _ in range(5):
        sleep(0.01)  # turns of the loop, in which a heartbeat would be sent
    assert not first.ended
    assert not second.ended
    disk.answers.set()
    assert first.join(10)
    assert second.join(10)
    assert disk.asked == 2  # what came after the first had begun is not on the disk by it
    assert Entry(S, T, 20, 1020, 1020) in read_map(tmp_path / "m").records
    disk.close()


def test_a_disk_that_does_not_answer_stops_the_map_and_not_the_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(file, "WAIT_S", 0.1)
    disk = Disk(tmp_path, monkeypatch)
    period = disk.recorder.period(_set(0), Share(), True)
    sent(period, 10, 1000)
    assert disk.commits(10).join(10)
    assert (
        "cannot be written: the disk took longer than 0.1 s; mirroring goes on, and the map has a hole" in caplog.text
    )
    sent(period, 20, 1010)
    assert disk.commits(20).join(10)
    disk.recorder._resume_writing()  # what its timer does
    assert disk.recorder._failing
    disk.answers.set()
    disk.until(lambda: disk.recorder._resume_writing() or not disk.recorder._failing)
    sent(period, 30, 1020)
    disk.recorder.before_commit({S: 30})
    disk.close()
    periods = read_map(tmp_path / "m").map.periods[S]
    assert [(period.begun.position, period.reached) for period in periods] == [(0, 10), (20, 30)]


def test_a_sync_that_waits_behind_another_has_the_whole_time_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(file, "WAIT_S", 1.5)
    disk = Disk(tmp_path, monkeypatch)
    monkeypatch.setattr(os, "fdatasync", lambda _: time.sleep(1.0))
    period = disk.recorder.period(_set(0), Share(), True)
    sent(period, 10, 1000)
    first = disk.commits(10)
    sleep(0.1)  # it is in flight
    sent(period, 20, 1010)
    second = disk.commits(20)
    assert first.join(10)
    assert second.join(10)
    assert "has a hole" not in caplog.text
    disk.close()


def test_a_disk_that_refuses_in_its_thread_is_told_at_the_next_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    disk = Disk(tmp_path, monkeypatch)
    disk.answers.set()
    monkeypatch.setattr(os, "write", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    period = disk.recorder.period(_set(0), Share(), True)
    sent(period, 10, 1000)
    disk.recorder.before_commit({S: 10})
    assert "cannot be written: No space left on device; mirroring goes on" in caplog.text
    disk.close()


def test_a_map_that_cannot_be_cut_for_now_has_no_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    kept = recorder(tmp_path, every=5)
    period = kept.period(_set(0), Share(), True)
    sent(period, 10, 1000)

    def full(pause: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kept._storage, "cut", full)
    kept._cut()
    assert "cannot be cut: No space left on device; it grows, and is tried again every 60 s" in caplog.text
    sent(period, 20, 1010)
    kept.before_commit({S: 20})
    kept.close()
    assert [(each.begun.position, each.reached) for each in read_map(tmp_path / "m").map.periods[S]] == [(0, 20)]


def test_its_newest_exact_entry_is_the_checkpoint_to_resume_from(tmp_path: Path) -> None:
    kept = recorder(tmp_path)
    assert kept.checkpoint(S, T) is None
    kept.begin(S, T, period="period", owned=lambda: True, offset=7, end=1000)
    assert kept.checkpoint(S, T) == Checkpoint(7, 1000)
    period = kept.period(_set(7), Share(), True)
    sent(period, 17, 1000)
    assert kept.checkpoint(S, T) == Checkpoint(7, 1000)
    kept.before_commit({S: 17})
    kept.close()
    again = recorder(tmp_path)
    assert again.checkpoint(S, T) == Checkpoint(17, 1010)
    again.close()


def test_a_period_that_begins_behind_what_no_response_told_of_keeps_its_checkpoint(tmp_path: Path) -> None:
    """A connection broke behind a batch that is stored: its end was read, and the next start needs the checkpoint."""
    kept = recorder(tmp_path, needed=True)
    sent(kept.period(_set(0), Share(), True), 10, 100)
    kept.begin(S, T, period="second", owned=lambda: True, offset=20, end=120)
    assert kept.before_commit({S: 20}) is None
    kept.close()
    again = recorder(tmp_path)
    assert again.checkpoint(S, T) == Checkpoint(20, 120)
    again.close()


def test_a_target_that_was_made_anew_forgets_what_was_known_of_it(tmp_path: Path) -> None:
    kept = recorder(tmp_path, every=100)
    period = kept.period(_set(0), Share(), True)
    sent(period, 10, 5000)
    kept.before_commit({S: 10})
    sent(period, 20, 0)
    kept.before_commit({S: 20})
    kept.close()
    there = read_map(tmp_path / "m")
    assert Entry(S, T, 10, 5010, 5010) in there.records
    assert there.map.periods[S][0].entries[T] == [Entry(S, T, 10, 0, 0), Entry(S, T, 20, 10, 10)]


def _set(start: int) -> Any:
    from kafkawire.formats.v01 import messages as v08

    rows = [(start + n, None, b"v", None) for n in range(2)]
    return v08.message_set("t", 0, start, memoryview(v08.encode(rows)), 100)[0]


def begin_at(path: Path, at: int) -> int:
    """The offset in the target from which on all lies that a reader at a source offset has not read."""
    found = [e for p in read_map(path).map.periods[S] for entries in p.entries.values() for e in entries]
    return max(entry.low for entry in found if entry.position <= at)


def test_messages_that_share_a_source_offset_and_are_sent_one_by_one_lie_behind_its_checkpoint(tmp_path: Path) -> None:
    """A wrapper of 0.7 at 100 holds three messages: the source goes on at 100 behind all but the last."""
    kept = recorder(tmp_path, every=1)
    period = kept.period(_set(0), Share(), True)
    for resume_at, base in ((100, 500), (100, 510), (100, 520), (200, 530)):
        sent(period, resume_at, base)
        kept.before_commit({S: resume_at})
    kept.close()
    assert [begin_at(tmp_path / "m", at) for at in (0, 100, 200)] == [500, 510, 540]


def test_a_period_that_begins_within_an_entry_has_no_checkpoint_before_its_end(tmp_path: Path) -> None:
    """Some messages of a wrapper of 0.7 at 100 are in the target already (resume: target-end)."""
    kept = recorder(tmp_path, every=1)
    kept.begin(S, T, period=Share.period, owned=lambda: True, offset=100, end=None)
    period = kept.period(_set(100), Share(), True)
    sent(period, 200, 500)
    sent(period, 300, 510)
    kept.before_commit({S: 300})
    kept.close()
    found = [entry for period in read_map(tmp_path / "m").map.periods[S] for entry in period.entries[T]]
    assert min((entry.position, entry.low) for entry in found) == (200, 510)
