"""Log of one partition: segment files, their flushed part, and retention.

    FOLDER/TOPIC-PARTITION/00000000000000000000.kafka    named by the byte offset of its first byte
    start .. high    flushed: readers see it             high .. size    appended, not yet visible to readers

Not thread-safe: the broker's only thread calls it.  "Flushed" only moves `high`, without fsync: the kernel keeps the
bytes of a killed process, and only a crash of the machine could lose them.
Source: kafka.log.Log and kafka.message.FileMessageSet of 0.7.2.
"""

from __future__ import annotations

import itertools
import os
import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from localkafka.errors import LocalKafkaError
from localkafka.seven import entries
from localkafka.seven.entries import Refused

SUFFIX = ".kafka"
LATEST, EARLIEST = -1, -2


class OutOfRange(Exception):
    """A byte offset below the first segment or beyond the flushed end."""


class Segment:
    """One open file of a log."""

    def __init__(self, path: Path, start: int) -> None:
        self.path = path
        self.start = start
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self.size = os.fstat(self._file).st_size
        self.high = self.size
        self.first_append: float | None = None  # of this process

    def __repr__(self) -> str:
        return f"<Segment {self.path.name}, {self.high} of {self.size} bytes flushed>"

    @property
    def end(self) -> int:
        """Return the byte offset after its flushed bytes."""
        return self.start + self.high

    @property
    def modified_ms(self) -> float:
        return os.fstat(self._file).st_mtime_ns / 1_000_000

    def append(self, data: memoryview) -> None:
        while data:  # a signal may interrupt a write
            written = os.write(self._file, data)
            self.size += written
            data = data[written:]

    def read(self, at: int, count: int) -> bytes:
        return os.pread(self._file, count, at)

    def recover(self) -> int:
        """Truncate at the first incomplete or damaged entry, and return the number of bytes removed.  Raises
        Refused."""
        data = os.pread(self._file, self.size, 0)
        valid = entries.recovered(memoryview(data))
        cut = self.size - valid
        if cut:
            os.ftruncate(self._file, valid)
        self.size = self.high = valid
        return cut

    def touch(self) -> None:
        os.utime(self._file)

    def close(self) -> None:
        os.close(self._file)


class Log:
    """A partition's segments in a folder, created if missing; see the module."""

    def __init__(self, folder: Path, *, file_size: int, roll_ms: int, flush_interval: int, recover: bool) -> None:
        self.folder = folder
        self._file_size = file_size
        self._roll_ms = roll_ms
        self._flush_interval = flush_interval
        self._unflushed = 0  # messages
        self.last_flush = time.monotonic()
        self.cut = 0  # bytes that recovery removed
        folder.mkdir(parents=True, exist_ok=True)
        self.segments = self._load(recover)

    def __repr__(self) -> str:
        return f"<Log {self.folder.name} {self.segments[0].start}..{self.end}>"

    @property
    def size(self) -> int:
        """Return the flushed bytes on disk."""
        return sum(segment.high for segment in self.segments)

    @property
    def end(self) -> int:
        """Return the flushed end: the next byte offset for a reader."""
        return self.segments[-1].end

    def append(self, data: memoryview, messages: int) -> None:
        """Append checked entries with this number of messages; begin a new segment first when the file is over its
        size."""
        last = self.segments[-1]
        if last.size > self._file_size or _older(last.first_append, self._roll_ms):
            last = self.roll()
        if data:
            last.append(data)
            last.first_append = last.first_append or time.monotonic()
        self._unflushed += messages
        if self._unflushed >= self._flush_interval:
            self.flush()

    def flush(self) -> None:
        """Make all appended bytes visible to readers."""
        if self._unflushed == 0:
            return
        last = self.segments[-1]
        last.high = last.size
        self._unflushed = 0
        self.last_flush = time.monotonic()

    def roll(self) -> Segment:
        """Begin a new segment at the flushed end, and return it."""
        self.flush()
        path = self.folder / name(self.end)
        path.unlink(missing_ok=True)
        self.segments.append(Segment(path, self.end))
        return self.segments[-1]

    def read(self, position: int, size: int) -> tuple[int, bytes]:
        """Return (announced number of bytes, bytes) from a byte offset: flushed bytes of one segment, at most `size`,
        truncated anywhere. A negative size is announced unchanged.  Raises OutOfRange."""
        if position < self.segments[0].start or position > self.end:
            raise OutOfRange(f"offset {position} is out of range {self.segments[0].start}..{self.end}")
        if position == self.end:
            return 0, b""
        segment = self.segments[bisect_right(self.segments, position, key=lambda one: one.start) - 1]
        at = position - segment.start
        promised = min(at + size, segment.high) - at
        return promised, segment.read(at, max(0, promised))

    def offsets_before(self, time_ms: int, most: int) -> list[int]:
        """Return starts of segments, the newest first, that were last written at or before a time (LATEST, EARLIEST, or
        ms since 1970); the flushed end counts as written now.  Raises Refused when `most` is negative."""
        known = [(segment.start, segment.modified_ms) for segment in self.segments]
        if self.segments[-1].high > 0:
            known.append((self.end, time.time() * 1000))
        if time_ms == LATEST:
            index = len(known) - 1
        elif time_ms == EARLIEST:
            index = 0
        else:
            index = max((n for n, (_, written) in enumerate(known) if int(written) <= time_ms), default=-1)
        count = min(most, index + 1)
        if count < 0:
            raise Refused(f"{most} offsets wanted")
        return [known[index - n][0] for n in range(count)]

    def delete_while(self, old: Callable[[Segment], bool]) -> int:
        """Delete the oldest segments while `old` is true, and return their number.  If all are old, a new segment
        begins; an empty last one stays instead, and counts as written now."""
        doomed = 0
        view = list(self.segments)
        while doomed < len(view) and old(view[doomed]):
            doomed += 1
        if doomed == len(view):
            if view[-1].high > 0:
                self.roll()
            else:
                view[-1].touch()
                doomed -= 1
        for segment in view[:doomed]:
            segment.close()
            segment.path.unlink()
        del self.segments[:doomed]
        return doomed

    def close(self) -> None:
        for segment in self.segments:
            segment.close()

    def _load(self, recover: bool) -> list[Segment]:
        found = sorted(self.folder.glob(f"*{SUFFIX}"), key=lambda path: int(path.name.removesuffix(SUFFIX)))
        segments = [Segment(path, int(path.name.removesuffix(SUFFIX))) for path in found]
        if not segments:
            return [Segment(self.folder / name(0), 0)]
        for older, newer in itertools.pairwise(segments):
            if older.end != newer.start:
                raise LocalKafkaError(f"the following segments don't validate: {older.path}, {newer.path}")
        if recover:
            try:
                self.cut = segments[-1].recover()
            except Refused as refused:
                raise LocalKafkaError(f"{segments[-1].path} cannot be recovered: {refused}") from refused
        return segments


def name(start: int) -> str:
    """Return a segment's file name."""
    return f"{start:020d}{SUFFIX}"


def _older(since: float | None, ms: int) -> bool:
    return since is not None and (time.monotonic() - since) * 1000 > ms
