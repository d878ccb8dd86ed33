"""Footers of data files: number of rows, first and last offset.

A format that keeps this in its footer reads the footer; one that does not reads the file.  Each file by itself, AT_ONCE
at a time: by a reader of Python's where files are local, elsewhere by the Hadoop client of the JVM that Spark runs in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from sparkpipeline.errors import Mismatch

AT_ONCE = 8
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Footer:
    """Footer of a data file. rows: of the file; first, last: bounds of its column `offset`, None in a file without
    rows."""

    rows: int
    first: int | None = None
    last: int | None = None

    @classmethod
    def of(cls, rows: int, bounds: Iterable[tuple[int, int]]) -> Footer:
        """Make a footer. bounds: smallest and largest offset of each part of the file."""
        parts = list(bounds)
        return cls(rows, min(first for first, _ in parts), max(last for _, last in parts)) if parts else cls(rows)


def read_each(paths: Iterable[str], read: Callable[[str], T]) -> dict[str, T | Mismatch]:
    """Return the result of `read` for each file, by path, or the Mismatch that it raises."""

    def tried(path: str) -> T | Mismatch:
        try:
            return read(path)
        except Mismatch as torn:
            return torn

    listed = list(paths)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(listed, pool.map(tried, listed), strict=True))


def whole(found: Mapping[str, T | Mismatch]) -> dict[str, T]:
    """Return the results if every file is whole; raise the first Mismatch otherwise."""
    good: dict[str, T] = {}
    for path, one in found.items():
        if isinstance(one, Mismatch):
            raise one
        good[path] = one
    return good


def torn(path: str, what: str, exc: Exception) -> Mismatch:
    """Return the Mismatch for a file that its reader could not open.  what: the format's title."""
    said = (str(exc).strip() or type(exc).__name__).splitlines()[0]
    return Mismatch(f"is not a complete {what} file: {said}", file=path)
