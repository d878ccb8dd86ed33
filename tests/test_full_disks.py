"""Files that a running program writes, on a disk that is full or read-only: a sentence, the file as it was, and on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groundwork.durable import replace
from groundwork.lineserver import LineServer
from groundwork.tasks import TaskGroup
from kafkawire.model import TopicPartition
from mirrormaker.control.keptfile import KeptFile, KeptFileUnreadable
from mirrormaker.limits import Pause
from mirrormaker.offsetmap.file import FileStorage, MapUnwritable
from mirrormaker.statefolder import StateFolderUnwritable, must_be_writable
from tests.disks import full, names, on_a_small_disk, read_only
from zkconsumer.errors import ConsumerError
from zkconsumer.offsetmap.file import read_map
from zkconsumer.offsetmap.records import Begun, Entry
from zkconsumer.offsetmap.text import Header
from zkconsumer.offsets.file import FileOffsets
from zkconsumer.session.lease import Lease

T0 = TopicPartition("t", 0)
HEADER = Header("dc1", "mirror")
BOTH = ((full, "No space left on device"), (read_only, "Read-only file system"))


NAMES = ["replaced", "offsets", "limits", "probe", "map_opened", "map_appended", "map_cut", "socket"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_a_disk_that_refuses_is_a_sentence_and_leaves_the_file_as_it_was(name: str, tmp_path: Path) -> None:
    on_a_small_disk(globals()[name], tmp_path)


def replaced(disk: Path) -> None:
    replace(disk / "file", "before")
    for refusing, why in BOTH:
        with refusing(disk):
            with pytest.raises(OSError, match=why):
                replace(disk / "file", "after" * 1000)
            assert ((disk / "file").read_text(), names(disk)) == ("before", ["file"])
    replace(disk / "file", "after")
    assert (disk / "file").read_text() == "after"


def offsets(disk: Path) -> None:
    store, lease = FileOffsets(disk / "offsets.json"), Lasting()
    assert store.commit("g", {T0: 1}, lease) == {T0: None}
    for refusing, why in BOTH:
        with refusing(disk):
            refused = store.commit("g", {T0: 2}, lease)[T0]
            assert isinstance(refused, ConsumerError)
            assert "cannot be written" in str(refused)
            assert why in str(refused)
            assert json.loads((disk / "offsets.json").read_text())["offsets"] == {"t": {"0": 1}}
    assert store.commit("g", {T0: 3}, lease) == {T0: None}
    assert FileOffsets(disk / "offsets.json").read("g", [T0]) == {T0: 3}
    assert names(disk) == ["offsets.json", "offsets.json.lock"]


def limits(disk: Path) -> None:
    kept = KeptFile(disk, {"dc1": "mirror"})
    pause = Pause(source="dc1", topic="t", kept=True)
    kept.write([pause])
    for refusing, why in BOTH:
        with refusing(disk):
            with pytest.raises(KeptFileUnreadable, match=f"cannot be written: {why}"):
                kept.write([pause, Pause(source="dc1", topic="u", kept=True)])
            assert kept.read() == [pause]
    kept.write([])
    assert (kept.read(), names(disk)) == ([], ["limits.json"])


def probe(disk: Path) -> None:
    for refusing, why in BOTH:
        with refusing(disk), pytest.raises(StateFolderUnwritable, match=f"cannot be written: {why}"):
            must_be_writable("mirror.state.folder", disk)
        assert names(disk) == []
    must_be_writable("mirror.state.folder", disk)


def map_opened(disk: Path) -> None:
    """A source whose map cannot be opened is tried again in the same process."""
    for refusing, why in BOTH:
        with refusing(disk):
            for _ in range(2):
                with pytest.raises(MapUnwritable, match=why):
                    FileStorage(disk / "m", HEADER, 1 << 20)
    FileStorage(disk / "m", HEADER, 1 << 20).close()
    assert read_map(disk / "m").header == HEADER


def map_appended(disk: Path) -> None:
    storage = FileStorage(disk / "m", HEADER, 1 << 20)
    storage.append([Begun(T0, 0, 1, True), *entries(0, 10)])
    with full(disk):
        with pytest.raises(OSError, match="No space left"):
            storage.append(entries(10, 3000))
        storage.mend()
    storage.append(entries(3000, 3001))
    storage.close()
    positions = [each.position for each in read_map(disk / "m").map.periods[T0][0].entries[T0]]
    assert positions == [*range(10), 3000]


def map_cut(disk: Path) -> None:
    """A map that cannot be cut, which needs room for a second one, holds what it held and is written further."""
    storage = FileStorage(disk / "m", HEADER, 10_000)
    storage.append([Begun(T0, 0, 1, True), *entries(0, 600)])
    with full(disk):
        with pytest.raises(OSError, match="No space left"):
            storage.cut(lambda: None)
        assert names(disk) == ["m", "m.lock"]
    storage.append(entries(600, 601))
    assert [each.position for each in read_map(disk / "m").map.periods[T0][0].entries[T0]] == list(range(601))
    storage.cut(lambda: None)
    storage.close()
    assert (disk / "m").stat().st_size < 6000


def socket(disk: Path) -> None:
    tasks = TaskGroup()
    server = LineServer(tasks, lambda line: [line])
    with read_only(disk), pytest.raises(OSError, match="Read-only file system"):
        server.start(disk / "s")
    server.start(disk / "s")
    server.close()
    tasks.stop(1)


def entries(first: int, last: int) -> list[Entry]:
    return [Entry(T0, T0, n, n, n) for n in range(first, last)]


class Lasting(Lease):
    def check(self, now: float) -> None:
        """Raise nothing."""
