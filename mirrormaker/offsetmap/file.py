"""Offset map in a file: append, sync, and cut to a size limit.

    append   soon in the page cache: from then it survives kill -9 of this process
    sync     on the disk: on a timer and before each commit, so that a power cut never leaves a commit without its map
    cut      once larger than max_bytes, half the entries are removed, in steps that let other tasks run; records that
             are appended meanwhile are copied before the new file replaces the old one

A disk may delay a write or a sync for seconds; if the hub waited for it, all leases would lapse.  So a thread does
both, in the order of the calls.

One process writes a map (a lock, which the kernel releases when the process dies).

Which entries are removed (thinned(), pure): for each ownership period and target partition, the newest half stays, and
every second entry of the older half is removed, repeatedly until the map is small enough.  So recent offsets keep their
precision, and old ones lose half of it each time: the printed bound grows, but they stay safe.  The first and the last
entry of a period always stay.  If there are too many periods, the oldest are removed; offsets before the first
remaining one are then refused.
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
WAIT_S = 10.0  # longest time that a commit waits for one call of the disk
CLOSE_S = 2.0
MIN_ENTRIES = 16  # of a period and target partition: fewer are not thinned out


def file_of(folder: Path, source: str, worker: int = 1) -> Path:
    """Return the path of a source's map; each of several workers has its own, the first that of a single daemon."""
    of_worker = f".worker{worker}" if worker > 1 else ""
    return folder / f"{source.replace('/', '_')}{of_worker}{SUFFIX}"


class MapInUse(ConsumerError):
    """Raised when another process writes this map, or when it belongs to another flow."""


class MapUnwritable(ConsumerError):
    """Raised when the file cannot be created or written."""


class FileStorage:
    """Map in a file.  The path's folder must exist.  The constructor blocks, so it runs in a thread if a hub must
    continue.

    disk: runs calls that may wait for the disk, in order: at once, or in a thread.

    Methods raise OSError if the disk refused, or took longer than WAIT_S for one call; then records appended since the
    last sync may be lost.
    """

    def __init__(self, path: Path, header: Header, max_bytes: int, disk: Executor | None = None) -> None:
        self.path = path
        self._header = header
        self._max_bytes = max_bytes
        self._disk = disk if disk is not None else AtOnce()
        self._appended = 0  # calls of append
        self._cutting = False
        # State that only the disk's thread changes:
        self._written = self._synced = 0  # how many of these calls are in the page cache, and on the disk
        self._refused: OSError | None = None  # nothing is written after an error until mend()
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
        """Return the map in the file, after cutting off an incomplete last line."""
        there = read_map(self.path)
        if there.header is not None and there.header != self._header:
            raise MapInUse(
                f"offset map {self.path} belongs to source {there.header.source}, group {there.header.group}, not to "
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
        """Add records; they survive kill -9 once the disk's thread has written them.

        Raises OSError, also for records that were appended before.
        """
        self._raise()
        self._appended += 1
        self._disk.post(self._append_now, "".join(map(line_of, records)).encode())
        self._raise()

    def _append_now(self, data: bytes) -> None:
        if self._refused is not None:
            return  # the last line may be incomplete
        try:
            self.size += _write_all(self._file, data)
            self._written += 1
        except OSError as why:
            self._refused = why

    def sync(self) -> None:
        """Return once everything appended is on the disk."""
        if self._synced < self._appended or self._refused is not None:
            self._disk.call_within(WAIT_S, "the disk", self._sync_now, self._appended)

    def _sync_now(self, wanted: int) -> None:
        """Sync in the disk's thread.  An error is kept: the disk reports it only once, and the caller may be gone."""
        self._raise()
        if self._synced >= wanted:
            return  # a later sync, requested after these were appended, has done it
        try:
            failpoint("offset map sync")
            os.fdatasync(self._file)
            self._synced = self._written
        except OSError as why:
            self._refused = why
            raise

    def mend(self) -> None:
        """Recover after an error of the disk: cut off an incomplete line, and check whether the disk accepts writes
        now."""
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
        """Thin the map out to half its size limit.  pause() is called between steps: other tasks may append."""
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
            self._disk.call(partial(beside.unlink, missing_ok=True))  # a full disk needs the space
            raise
        self._disk.call(sync_folder, self.path.parent)

    def _replace_now(self, beside: Path, new: int, size: int, since: int) -> None:
        """Replace the old file by the new one, with the records appended to the old one after `since`."""
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
    """Return the records of a map reduced to about this share of its entries (0 to 1)."""
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
            break  # nothing more can be removed
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
