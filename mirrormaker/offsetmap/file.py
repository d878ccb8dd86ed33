"""An offset map that is kept in a file: append, sync, and cut to a bound.

    append   in the page cache soon: from then on it survives kill -9 of this process
    sync     on the disk: on a timer and before each commit, so that no power cut leaves a commit without its map
    cut      once larger than max_bytes, half the entries go, in steps that let other tasks run; what is appended
             meanwhile is copied over before the new file takes the old one's place

A disk may keep a write or a sync waiting for seconds, and all leases with it if the hub waited.  So a thread does both,
in the order in which they were asked for.

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
from functools import partial
from pathlib import Path

from groundwork.durable import PRIVATE, READABLE, sync_folder
from groundwork.executor import AtOnce, Executor
from groundwork.failpoints import failpoint
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.offsetmap.file import LINES_AT_ONCE, read_map, understood
from zkconsumer.offsetmap.records import Begun, Entry, OffsetMap, Period, Reached, Record
from zkconsumer.offsetmap.text import Header, header_line, line_of

SUFFIX = ".offsetmap"
MAX_PERIODS = 200  # of a source partition
WAIT_S = 10.0  # a commit waits that long for one call of the disk
CLOSE_S = 2.0
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
    """A map in a file.  path's folder must exist.  Making one blocks; so it is made in a thread where a hub must go on.

    disk: runs what may wait for the disk, in order: at once, or in a thread beside the hub.

    OSError: the disk refused, or took longer than WAIT_S for one call; what was appended since the last sync may be
    lost.
    """

    def __init__(self, path: Path, header: Header, max_bytes: int, disk: Executor | None = None) -> None:
        self.path = path
        self._header = header
        self._max_bytes = max_bytes
        self._disk = disk if disk is not None else AtOnce()
        self._appended = 0  # calls of append
        self._cutting = False
        # What the disk's thread knows, which alone changes it:
        self._written = self._synced = 0  # how many of these calls are in the page cache, and on the disk
        self._refused: OSError | None = None  # nothing is written then until mend()
        self._file = self._locked()
        try:
            self.map, self.size = self._opened()
        except BaseException as why:  # the source may be tried again: then the lock must be free
            os.close(self._file)
            os.close(self._lock)
            if isinstance(why, OSError):
                raise MapUnwritable(f"offset map {self.path} cannot be written: {why.strerror}") from why
            raise

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
            size += _write_all(self._file, header_line(self._header).encode())
            os.fdatasync(self._file)
            sync_folder(self.path.parent)
        return there.map, size

    def append(self, records: Sequence[Record]) -> None:
        """Add records; after kill -9 they are there, once the disk's thread has come to them.

        Raises OSError, also for what was appended before.
        """
        self._raise()
        self._appended += 1
        self._disk.post(self._append_now, "".join(map(line_of, records)).encode())
        self._raise()

    def _append_now(self, data: bytes) -> None:
        if self._refused is not None:
            return  # a line that was cut short may be the last one
        try:
            self.size += _write_all(self._file, data)
            self._written += 1
        except OSError as why:
            self._refused = why

    def sync(self) -> None:
        """What was appended is on the disk when this returns."""
        if self._synced < self._appended or self._refused is not None:
            self._disk.call_within(WAIT_S, "the disk", self._sync_now, self._appended)

    def _sync_now(self, wanted: int) -> None:
        """An error is kept: the disk tells it once, and who waited may be gone."""
        self._raise()
        if self._synced >= wanted:
            return  # by a sync that was asked for after these were appended, too
        try:
            failpoint("offset map sync")
            os.fdatasync(self._file)
            self._synced = self._written
        except OSError as why:
            self._refused = why
            raise

    def mend(self) -> None:
        """After the disk refused: cut off a line that was cut short, and try whether it takes more now."""
        self._disk.call_within(WAIT_S, "the disk", self._mend_now, self._appended)

    def _mend_now(self, appended: int) -> None:
        os.ftruncate(self._file, self.size)
        os.fdatasync(self._file)
        self._written = self._synced = appended
        self._refused = None

    def _raise(self) -> None:
        if self._refused is not None:
            raise OSError(self._refused.errno, self._refused.strerror)

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
        there = understood(self._disk.call(self.path.read_bytes), str(self.path), pause)
        records = thinned(there.map, self._max_bytes / 2 / max(1, there.length))
        beside = self.path.with_name(f"{self.path.name}.new")
        new = self._disk.call(_opened_anew, beside)
        try:
            size = self._disk.call(_write_all, new, header_line(self._header).encode())
            for first in range(0, len(records), LINES_AT_ONCE):
                lines = "".join(map(line_of, records[first : first + LINES_AT_ONCE])).encode()
                size += self._disk.call(_write_all, new, lines)
                pause()
            self._disk.call(os.fdatasync, new)
            self._disk.call(self._replace_now, beside, new, size, there.length)
        except OSError:
            self._disk.call(os.close, new)
            self._disk.call(partial(beside.unlink, missing_ok=True))  # a disk without room needs it
            raise
        self._disk.call(sync_folder, self.path.parent)

    def _replace_now(self, beside: Path, new: int, size: int, since: int) -> None:
        """Put the new file in the place of the old one, with what was appended to that from `since` on."""
        self._raise()
        size += _write_all(new, os.pread(self._file, self.size - since, since))
        os.fdatasync(new)
        os.replace(beside, self.path)
        os.close(self._file)
        self._file, self.size, self._synced = new, size, self._written

    def close(self) -> None:
        """Sync and close.  Raises OSError."""
        self._disk.call_within(CLOSE_S, "the disk", self._close_now)

    def _close_now(self) -> None:
        try:
            self._sync_now(self._appended)
        finally:
            os.close(self._file)
            os.close(self._lock)


def _opened_anew(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, READABLE)


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
