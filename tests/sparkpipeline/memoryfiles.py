"""Files in memory: every method is one step, so that tests can stop drivers between any two of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sparkpipeline.errors import Missing, StorageFailed
from sparkpipeline.ledger.files import FileInfo


class Kept(dict[str, bytes]):
    """What there is; changes counts what was done to it."""

    changes = 0

    def __setitem__(self, path: str, data: bytes) -> None:
        self.changes += 1
        super().__setitem__(path, data)

    def __delitem__(self, path: str) -> None:
        self.changes += 1
        super().__delitem__(path)


class MemoryFiles:
    """path -> bytes.  step is called before each method; what it raises is raised."""

    def __init__(self, kept: Kept | None = None, step: Callable[[], None] = lambda: None) -> None:
        self.kept = Kept() if kept is None else kept
        self.step = step
        self._lock = threading.Lock()

    def exists(self, path: str) -> bool:
        self.step()
        with self._lock:
            return path in self.kept or self._folder(path)

    def list(self, path: str) -> list[FileInfo]:
        self.step()
        with self._lock:
            if path in self.kept:
                return [self._info(path)]
            below = {f"{path}/{rest.split('/')[0]}" for rest in self._below(path)}
            return sorted(self._info(entry) for entry in below)

    def create(self, path: str, data: bytes) -> bool:
        self.step()
        with self._lock:
            if path in self.kept or self._folder(path):
                return False
            self._parents(path, f"cannot create it: {path}")
            self.kept[path] = data
            return True

    def read(self, path: str) -> bytes:
        self.step()
        with self._lock:
            if path not in self.kept:
                raise Missing("file does not exist", file=path)
            return self.kept[path]

    def rename(self, source: str, target: str) -> bool:
        self.step()
        with self._lock:
            if source not in self.kept or target in self.kept or self._folder(target):
                return False
            self._parents(target, f"cannot rename to {target} it: below a file", source)
            data = self.kept[source]
            del self.kept[source]
            self.kept[target] = data
            return True

    def delete(self, path: str, recursive: bool = False) -> bool:
        self.step()
        with self._lock:
            if path in self.kept:
                del self.kept[path]
                return True
            below = self._below(path)
            if below and not recursive:
                raise StorageFailed("cannot delete it: it is not empty", file=path)
            for rest in below:
                del self.kept[f"{path}/{rest}"]
            return bool(below)

    def sync(self, path: str) -> None:
        self.step()

    def _below(self, path: str) -> list[str]:
        return [kept.removeprefix(f"{path}/") for kept in self.kept if kept.startswith(f"{path}/")]

    def _folder(self, path: str) -> bool:
        return any(kept.startswith(f"{path}/") for kept in self.kept)

    def _info(self, path: str) -> FileInfo:
        is_folder = path not in self.kept
        size = 0 if is_folder else len(self.kept[path])
        return FileInfo(path, path.rpartition("/")[2], size, is_folder, 1_800_000_000_000)

    def _parents(self, path: str, why: str, of: str | None = None) -> None:
        parts = path.split("/")
        if any("/".join(parts[:n]) in self.kept for n in range(1, len(parts))):
            raise StorageFailed(why, file=of or path)
