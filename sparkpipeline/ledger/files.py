"""Interface of file systems for a ledger: six methods, and sync() for local disks.

Paths are texts as Spark takes them: a URI without percent escapes (`file:///warehouse/a b`, `hdfs://host:8020/orders`).
A ledger relies on these properties:

    create   exclusive, and whole or not at all: of two at once one wins, and no crash leaves half a file under the name
    rename   of one file, never over an existing one; the source's folder may be gone a moment later
    list     sees what was created and renamed before (HDFS, disks and S3 since 2020 do)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, order=True)
class FileInfo:
    """Entry of a folder.  size in bytes, modified_ms since 1970 (of folders it may be 0); path begins as asked."""

    path: str
    name: str
    size: int
    is_folder: bool
    modified_ms: int


class Files(Protocol):
    """File system.  Every method raises StorageFailed if it refuses or does not answer."""

    def exists(self, path: str) -> bool:
        """True if a file or folder of that name exists."""
        ...

    def list(self, path: str) -> list[FileInfo]:
        """Return the entries of a folder by name, a file's own entry for a file, nothing if it does not exist."""
        ...

    def create(self, path: str, data: bytes) -> bool:
        """Make a file with these bytes, and the folders above it; return False if one of that name exists."""
        ...

    def read(self, path: str) -> bytes:
        """Return all bytes of a file.  Raises Missing."""
        ...

    def rename(self, source: str, target: str) -> bool:
        """Move a file, making the folders above the target; return False if the source is missing or the target
        exists."""
        ...

    def delete(self, path: str, recursive: bool = False) -> bool:
        """Delete a file, or a folder with all that is in it; return False if it did not exist.

        Raises StorageFailed for a folder that is not empty, unless recursive."""
        ...

    def sync(self, path: str) -> None:
        """Make the file's bytes survive a power failure; does nothing if closing a file already guarantees that."""
        ...


def info(files: Files, path: str) -> FileInfo | None:
    """Return the entry of one file; None if it does not exist, or is a folder."""
    entries = files.list(path)
    return entries[0] if len(entries) == 1 and entries[0].path == path and not entries[0].is_folder else None


def walk(files: Files, folder: str) -> Iterator[FileInfo]:
    """Yield all files below a folder, in the order of their paths."""
    for entry in files.list(folder):
        if entry.is_folder:
            yield from walk(files, entry.path)
        else:
            yield entry
