"""Files on a disk of this machine (or one that all machines mount), by the standard library alone.

Exclusive and whole by hard links: a file is written under a name of its own, synced, then linked to the name it was
made for, which fails where that is taken.  A crash between link and unlink leaves a second name, hidden by its dot.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from groundwork.failpoints import failpoint
from sparkpipeline.errors import Missing, OptionRefused, StorageFailed
from sparkpipeline.ledger.files import FileInfo

TEMPORARY = ".tmp"  # the end of a name that is not a file yet


def local_path(path: str) -> Path:
    """Return the path of a `file:` URI or a plain absolute path.  Raises OptionRefused for anything else."""
    if path.startswith("file:"):
        rest = path.removeprefix("file:")
        if rest.startswith("//"):
            host, slash, rest = rest.removeprefix("//").partition("/")
            if host not in ("", "localhost"):
                raise OptionRefused(f"names the machine {host}; a file: path is on this one (file:///…)", path=path)
            rest = slash + rest
        path = rest
    if not path.startswith("/"):
        raise OptionRefused("is not an absolute path of this machine (/… or file:///…)", path=path)
    return Path(path)


class LocalFiles:
    """Files of this machine; paths are `file:` URIs or plain absolute ones."""

    def exists(self, path: str) -> bool:
        with _storage_errors(path, "look for"):
            try:
                os.stat(local_path(path))
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def list(self, path: str) -> list[FileInfo]:
        at = local_path(path)
        with _storage_errors(path, "list"):
            try:
                with os.scandir(at) as entries:
                    found = [(entry.name, _stat(entry)) for entry in entries]
            except FileNotFoundError:
                return []
            except NotADirectoryError:
                return [_info(path, at.name, at.stat())] if at.exists() else []
            return sorted(_info(f"{path}/{name}", name, of) for name, of in found if of is not None)

    def create(self, path: str, data: bytes) -> bool:
        at = local_path(path)
        with _storage_errors(path, "create"):
            if at.exists():
                return False
            at.parent.mkdir(parents=True, exist_ok=True)
            draft = at.with_name(f".{at.name}.{uuid.uuid4().hex}{TEMPORARY}")
            try:
                with open(draft, "xb") as out:
                    out.write(data)
                    out.flush()
                    os.fsync(out.fileno())
                failpoint("files before link")
                return _linked(draft, at)
            finally:
                draft.unlink(missing_ok=True)

    def read(self, path: str) -> bytes:
        with _storage_errors(path, "read"):
            try:
                return local_path(path).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                raise Missing("file does not exist", file=path) from None

    def rename(self, source: str, target: str) -> bool:
        here, there = local_path(source), local_path(target)
        with _storage_errors(source, f"rename to {target}"):
            if not here.exists() or there.exists():
                return False
            there.parent.mkdir(parents=True, exist_ok=True)
            try:
                linked = _linked(here, there)
            except FileNotFoundError:
                return False  # another driver was quicker
            if linked:
                here.unlink(missing_ok=True)
            return linked

    def delete(self, path: str, recursive: bool = False) -> bool:
        at = local_path(path)
        with _storage_errors(path, "delete"):
            for _ in range(100):  # a task that still writes into the folder may add to it while we delete
                try:
                    if not stat.S_ISDIR(at.lstat().st_mode):
                        at.unlink()
                    elif recursive:
                        shutil.rmtree(at)
                    else:
                        at.rmdir()
                    return True
                except (FileNotFoundError, NotADirectoryError):
                    if not at.exists():
                        return False
                except OSError as exc:
                    if not recursive or exc.errno != errno.ENOTEMPTY:
                        raise
            raise StorageFailed("another process writes into the folder faster than it is deleted", file=path)

    def sync(self, path: str) -> None:
        at = local_path(path)
        with _storage_errors(path, "sync"):
            for one in (at, at.parent):
                _synced(one)


def _linked(source: Path, target: Path) -> bool:
    """Give a file a second name; return False if that is taken."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    _synced(target.parent)
    return True


def _synced(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as exc:
        if exc.errno != errno.EINVAL:  # some network mounts sync no folders
            raise
    finally:
        os.close(handle)


def _stat(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat()
    except FileNotFoundError:
        return None  # deleted since it was listed


def _info(path: str, name: str, of: os.stat_result) -> FileInfo:
    is_folder = stat.S_ISDIR(of.st_mode)
    return FileInfo(path, name, 0 if is_folder else of.st_size, is_folder, of.st_mtime_ns // 1_000_000)


@contextmanager
def _storage_errors(path: str, doing: str) -> Iterator[None]:
    """Convert OSErrors to one sentence."""
    try:
        yield
    except PermissionError as exc:
        hint = (
            "its folder is not ours to write, or the disk has no hard links"
            if exc.errno == errno.EPERM
            else "not permitted"
        )
        raise StorageFailed(f"cannot {doing} it: {exc.strerror} ({hint})", file=path) from exc
    except OSError as exc:
        raise StorageFailed(f"cannot {doing} it: {exc.strerror or exc}", file=path) from exc
