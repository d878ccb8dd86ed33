"""The six methods a ledger needs of a file system, whatever it is; and one more for disks that forget.

Paths are texts as Spark takes them: a URI without percent escapes (`file:///warehouse/a b`, `hdfs://host:8020/orders`).
What a ledger relies on:

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
    """One entry of a folder.  size in bytes, modified_ms since 1970 (of folders it may be 0); path begins as asked."""

    path: str
    name: str
    size: int
    is_folder: bool
    modified_ms: int


class Files(Protocol):
    """One file system.  Every method raises StorageFailed where it refuses or does not answer."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""
        ...

    def list(self, path: str) -> list[FileInfo]:
        """The entries of a folder by name, a file's own entry for a file, nothing for what is not there."""
        ...

    def create(self, path: str, data: bytes) -> bool:
        """Make a file with these bytes, and the folders above it; False when there is one of that name already."""
        ...

    def read(self, path: str) -> bytes:
        """All bytes of a file.  Raises Missing."""
        ...

    def rename(self, source: str, target: str) -> bool:
        """Move a file, making the folders above the target; False when the source is gone or the target is there."""
        ...

    def delete(self, path: str, recursive: bool = False) -> bool:
        """Delete a file, or a folder with all that is in it; False when it was not there.

        Raises StorageFailed for a folder that is not empty, unless recursive."""
        ...

    def sync(self, path: str) -> None:
        """The file's bytes outlast a power failure from now on; nothing to do where closing a file says that much."""
        ...


def info(files: Files, path: str) -> FileInfo | None:
    """The entry of one file; None when it is not there, or is a folder."""
    entries = files.list(path)
    return entries[0] if len(entries) == 1 and entries[0].path == path and not entries[0].is_folder else None


def walk(files: Files, folder: str) -> Iterator[FileInfo]:
    """All files below a folder, in the order of their paths."""
    for entry in files.list(folder):
        if entry.is_folder:
            yield from walk(files, entry.path)
        else:
            yield entry
