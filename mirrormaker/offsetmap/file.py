"""An offset map that is kept in a file: append, sync, and cut to a bound.

    append   in the page cache at once: it survives kill -9 of this process
    sync     on the disk: on a timer and before each commit, so that no power cut leaves a commit without its map
    cut      once larger than max_bytes, half the entries go, in steps that let other tasks run; what is appended
             meanwhile is copied over before the new file takes the old one's place

One process writes a map (a lock, which the kernel takes back from the dead).

Which entries go (thinned; pure): of each ownership period and target partition the newest half stays as it is and every
second of the older half goes, again and again until it is small enough.  So offsets of today keep their precision, and
old ones lose half of theirs each time: the bound that is printed for them grows, they stay safe.  The first and the
last entry of a period always stay.  Periods go, oldest first, where there are too many of them; offsets before the
first one that is left are refused then.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from groundwork.durable import PRIVATE, READABLE, sync_folder
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.offsetmap.file import LINES_AT_ONCE, read_map
from zkconsumer.offsetmap.records import Begun, Entry, OffsetMap, Period, Reached, Record
from zkconsumer.offsetmap.text import Header, header_line, line_of

SUFFIX = ".offsetmap"
MAX_PERIODS = 200  # of a source partition
MIN_ENTRIES = 16  # of a period and target partition: so few are not thinned out


def file_of(folder: Path, source: str, worker: int = 1) -> Path:
    """The map of a source; of several workers each has its own, the first that of a daemon alone."""
    of_worker = f".worker{worker}" if worker > 1 else ""
    return folder / f"{source.replace('/', '_')}{of_worker}{SUFFIX}"


class MapInUse(ConsumerError):
    """Another process writes this map, or it is of another flow."""


class MapUnwritable(ConsumerError):
    """The file cannot be made, or may not be written."""


class FileStorage:
    """A map in a file.  path's folder must exist.

    OSError: the disk refused; what was appended since the last sync may be lost.
    """

    def __init__(self, path: Path, header: Header, max_bytes: int) -> None:
        self.path = path
        self._header = header
        self._max_bytes = max_bytes
        self._unsynced = False
        self._cutting = False
        self._file = self._locked()
        self.map, self.size = self._opened()

    def _locked(self) -> int:
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, READABLE)
        except OSError as why:
            raise MapUnwritable(f"offset map {self.path} cannot be opened: {why.strerror}") from why
        beside = self.path.with_name(f"{self.path.name}.lock")
        try:
            lock = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        except OSError as why:
            os.close(file)
            raise MapUnwritable(f"lock {beside} of an offset map cannot be opened: {why.strerror}") from why
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            os.close(file)
            raise MapInUse(
                f"offset map {self.path} is written by another process: give each mirror a folder of its own "
                "(offset.map.folder)"
            ) from None
        self._lock = lock
        return file

    def _opened(self) -> tuple[OffsetMap, int]:
        """What is there, after a torn end was cut off."""
        there = read_map(self.path)
        if there.header is not None and there.header != self._header:
            raise MapInUse(
                f"offset map {self.path} is of source {there.header.source}, group {there.header.group}, not of "
                f"{self._header.source}, {self._header.group}: move it away, or set another offset.map.folder"
            )
        os.ftruncate(self._file, there.length)
        size = there.length
        if there.header is None:
            size += self._write(header_line(self._header))
            self._unsynced = True
            self.sync()
            sync_folder(self.path.parent)
        return there.map, size

    def append(self, records: Sequence[Record]) -> None:
        """Add records; after kill -9 they are there."""
        self.size += self._write("".join(map(line_of, records)))
        self._unsynced = True

    def sync(self) -> None:
        """What was appended is on the disk when this returns."""
        if self._unsynced:
            os.fdatasync(self._file)
            self._unsynced = False

    def mend(self) -> None:
        """After the disk refused: cut off a line that was cut short, and try whether it takes more now."""
        os.ftruncate(self._file, self.size)
        self._unsynced = True
        self.sync()

    @property
    def too_large(self) -> bool:
        return self.size > self._max_bytes and not self._cutting

    def cut(self, pause: Callable[[], object]) -> None:
        """Thin the map out until it is half its bound.  pause() is called between steps: other tasks may append."""
        self._cutting = True
        try:
            self._cut(pause)
        finally:
            self._cutting = False

    def _cut(self, pause: Callable[[], object]) -> None:
        there = read_map(self.path, pause)
        records = thinned(there.map, self._max_bytes / 2 / max(1, there.length))
        beside = self.path.with_name(f"{self.path.name}.new")
        new = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, READABLE)
        try:
            size = _write_all(new, header_line(self._header).encode())
            for first in range(0, len(records), LINES_AT_ONCE):
                size += _write_all(new, "".join(map(line_of, records[first : first + LINES_AT_ONCE])).encode())
                pause()
            os.fdatasync(new)
            since = os.pread(self._file, self.size - there.length, there.length)  # no other task runs from here on
            size += _write_all(new, since)
            os.fdatasync(new)
            os.replace(beside, self.path)
        except OSError:
            os.close(new)
            raise
        os.close(self._file)
        self._file, self.size = new, size
        sync_folder(self.path.parent)

    def close(self) -> None:
        """Sync and close.  Raises OSError."""
        try:
            self.sync()
        finally:
            os.close(self._file)
            os.close(self._lock)

    def _write(self, text: str) -> int:
        return _write_all(self._file, text.encode())


def _write_all(file: int, data: bytes) -> int:
    at = 0
    while at < len(data):
        at += os.write(file, data[at:])
    return at


def thinned(offsets: OffsetMap, share: float) -> list[Record]:
    """Records of a map that has at most about this share of the entries (0 to 1)."""
    kept = {
        source: [(period, dict(period.entries)) for period in periods[-MAX_PERIODS:]]
        for source, periods in offsets.periods.items()
    }
    total = sum(
        len(entries)
        for periods in offsets.periods.values()
        for period in periods
        for entries in period.entries.values()
    )
    while True:
        left = sum(len(entries) for periods in kept.values() for _, pairs in periods for entries in pairs.values())
        if left <= total * share:
            break
        before = left
        for periods in kept.values():
            for _, pairs in periods:
                for target, entries in pairs.items():
                    pairs[target] = _halved(entries)
        if before == sum(
            len(entries) for periods in kept.values() for _, pairs in periods for entries in pairs.values()
        ):
            break  # nothing can go any more
    return [record for periods in kept.values() for period, pairs in periods for record in _records(period, pairs)]


def _halved(entries: Sequence[Entry]) -> list[Entry]:
    if len(entries) <= MIN_ENTRIES:
        return list(entries)
    middle = len(entries) // 2
    return [*entries[:middle:2], *entries[middle:]]


def _records(period: Period, pairs: Mapping[TopicPartition, Sequence[Entry]]) -> Iterator[Record]:
    begun: Begun = period.begun
    yield begun
    for entries in pairs.values():
        yield from entries
    if period.reached > begun.position:
        yield Reached(begun.source, period.reached)
