"""The journal of a migration: a file that is only ever added to, and says after any crash where each group is.

What append() was given holds once it returns: it is on the disk.  A process that is killed leaves at most one line cut
short, at the end: such a line was never relied upon, and is cut off when the journal is opened again.  Damage anywhere
else is JournalDamaged: then somebody has to look.  One process at a time writes it (a lock on the file, which the
kernel takes back from the dead); anybody may read it.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from groupadmin.migrate.events import (
    FORMAT,
    Event,
    Header,
    JournalDamaged,
    Reached,
    Standing,
    follow,
    header_line,
    line_of,
    read_header,
    read_line,
    replay,
)
from groupadmin.migrate.states import MigrationRefused
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.marker import Phase

HEAD = f'{{"format": "{FORMAT}"'.encode()


class JournalFailed(ConsumerError):
    """The disk refused; what was to be written does not hold, and nothing more is written by this process."""


@dataclass(frozen=True, slots=True)
class Journalled:
    """A journal as read.  header None: there is none, or its first line was cut short.  torn: an end was cut short.

    length: bytes of whole lines.
    """

    header: Header | None
    events: tuple[tuple[int, Event], ...]
    torn: bool
    length: int

    @property
    def standings(self) -> dict[str, Standing]:
        """Where each group is.  Raises JournalDamaged."""
        return replay(self.events)


def read_journal(path: str | os.PathLike[str]) -> Journalled:
    """A journal as it is now, also while another process writes it.  Raises ConsumerError, JournalDamaged."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        return Journalled(None, (), False, 0)
    except OSError as why:
        raise ConsumerError(f"journal {path} cannot be read: {why}") from why
    return understood(data, path)


def understood(data: bytes, path: str | os.PathLike[str]) -> Journalled:
    """The same from bytes; path is for the message."""
    *lines, rest = data.split(b"\n")
    length, torn = len(data) - len(rest), bool(rest)
    if lines and not _whole(lines[-1]):  # a power cut may leave a last line whose middle never reached the disk
        length, torn = length - len(lines.pop()) - 1, True
    if not lines:
        if data[: len(HEAD)] != HEAD[: len(data)]:  # it would be cut off, and it is not ours
            raise JournalDamaged(f"{path} is there and is no journal of a migration; name another file")
        return Journalled(None, (), torn, 0)
    try:
        texts = [line.decode() for line in lines]
        header = read_header(texts[0])
        events = tuple(read_line(text, number) for number, text in enumerate(texts[1:], start=2))
    except UnicodeDecodeError as why:
        raise JournalDamaged(f"journal {path} holds bytes that are no text ({why}); look at it by hand") from None
    except JournalDamaged as why:
        raise JournalDamaged(
            f"journal {path}: {why}; look at it by hand, or plan again into a new journal: what is in the stores counts"
        ) from None
    return Journalled(header, events, torn, length)


def _whole(line: bytes) -> bool:
    return line.startswith(b"{") and line.endswith(b"}") and b"\0" not in line


class Journal:
    """A journal that is written.  Make one with `open_journal`; close it, or use it as a context manager.

    standings: where each group is, as of the last append that returned.
    """

    def __init__(self, path: Path, file: int, header: Header, count: int, standings: dict[str, Standing]) -> None:
        self.path = path
        self.header = header
        self.standings = standings
        self._file = file
        self._count = count
        self._lock = threading.Lock()
        self._failed: Exception | None = None

    def begin(self, groups: Iterable[str], at_ms: int) -> None:
        """Note groups as planned that are not in it yet: all of them with one write."""
        self.append([Reached(g, None, Phase.PLANNED) for g in groups if g not in self.standings], at_ms)

    def append(self, events: Iterable[Event], at_ms: int) -> None:
        """Add events; they hold when this returns.

        Raises JournalFailed; JournalDamaged for what does not follow from what is there, before it writes anything.
        """
        with self._lock:
            if self._failed is not None:
                raise JournalFailed(f"journal {self.path} failed before ({self._failed}); start again to go on")
            listed = list(events)
            after: dict[str, Standing] = {}
            for event in listed:
                was = after.get(event.group) or self.standings.get(event.group)
                after[event.group] = follow(was, at_ms, event)
            lines = [line_of(event, self._count + n, at_ms) for n, event in enumerate(listed, start=1)]
            if lines:
                self._write("".join(f"{line}\n" for line in lines))
            self._count += len(lines)
            self.standings |= after

    def _write(self, text: str) -> None:
        try:
            _write_all(self._file, text.encode())
            os.fsync(self._file)
        except OSError as why:
            self._failed = why  # how much of it is on the disk is not known: the next process reads it and goes on
            raise JournalFailed(f"journal {self.path} cannot be written: {why}; nothing more is done") from why

    def close(self) -> None:
        """Give up the lock."""
        if self._file >= 0:
            os.close(self._file)
            self._file, self._failed = -1, self._failed or ValueError("it was closed")

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def open_journal(path: str | os.PathLike[str], header: Header) -> Journal:
    """The journal of this plan, begun or gone on with.  Its folder must exist.

    Raises MigrationRefused when another process has it or it is of another plan; JournalDamaged; ConsumerError.
    """
    place = Path(path)
    try:
        file = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as why:
        raise ConsumerError(f"journal {place} cannot be opened: {why}") from why
    try:
        return _opened(place, file, header)
    except OSError as why:
        os.close(file)
        raise JournalFailed(f"journal {place} cannot be written: {why}") from why
    except BaseException:
        os.close(file)
        raise


def _opened(path: Path, file: int, header: Header) -> Journal:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MigrationRefused(
            "journal in use", f"another process works with {path}", "wait until it ends, or stop it"
        ) from None
    found = understood(_read_all(file), path)
    if found.header is not None and found.header.plan != header.plan:
        raise MigrationRefused(
            "journal of another plan",
            f"{path} belongs to plan {found.header.plan}, not to {header.plan}",
            "go on with that plan, or name a new journal",
        )
    if found.torn:
        os.ftruncate(file, found.length)
    os.lseek(file, 0, os.SEEK_END)
    if found.header is None:
        _write_all(file, f"{header_line(header)}\n".encode())
    os.fsync(file)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # that there is such a file at all
    finally:
        os.close(folder)
    return Journal(path, file, found.header or header, len(found.events), found.standings)


def _read_all(file: int) -> bytes:
    os.lseek(file, 0, os.SEEK_SET)
    parts = []
    while part := os.read(file, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def now_ms() -> int:
    """The time that goes into a journal."""
    return time.time_ns() // 1_000_000
