"""Durable files: written whole or not at all, on the disk when the call returns, with a mode of their own.

    PRIVATE     0600   what the program alone reads again, undo files, locks
    READABLE    0644   what other programs read: offset maps, journals and plans of a migration
    folders     0700   those that are made here

The umask takes bits away and never adds any: a shell with umask 0 opens nothing to others.

A draft has a name of its own, whoever else writes the file: process numbers are not unique, as each container has a 1.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PRIVATE = 0o600
READABLE = 0o644
FOLDER = 0o700
LONGEST = 200  # characters of a draft's name that are the file's; file systems take 255 bytes
STALE_S = 86400.0  # a draft of that age is of a process that was killed

_DRAFT = re.compile(r"\..+\.([0-9]+|[0-9a-f]{32})\.draft")
_swept: set[Path] = set()  # folders without stale drafts


def write_new(path: Path, text: str, mode: int = PRIVATE) -> None:
    """Write a file that does not exist.  Raises FileExistsError, OSError."""
    _written(path, text, mode)
    sync_folder(path.parent)


def replace(path: Path, text: str, mode: int = PRIVATE, before: Callable[[], object] = lambda: None) -> None:
    """Write a file, or put another in its place.  Raises OSError; the file is as it was then.

    before()   is called when the text is on the disk, and before the file takes its name; what it raises is raised
    """
    if path.parent not in _swept:
        _swept.add(path.parent)
        sweep(path.parent)
    draft = path.with_name(f".{path.name[:LONGEST]}.{uuid.uuid4().hex}.draft")
    try:
        _written(draft, text, mode)
        before()
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def sweep(folder: Path) -> None:
    """Delete drafts of processes that were killed."""
    with suppress(OSError):
        for each in folder.iterdir():
            if _DRAFT.fullmatch(each.name) and time.time() - each.stat().st_mtime > STALE_S:
                each.unlink(missing_ok=True)


def _written(path: Path, text: str, mode: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(file, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk.  Raises OSError."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, each for this user alone.  Raises OSError."""
    missing: list[Path] = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=FOLDER, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(20, os.strerror(20), str(folder))
