"""Offset map in a file: lines that are only appended, and that survive kill -9.

Synced lines stay.  A process that dies leaves at most one incomplete line, at the end, and a power cut some garbage
there: neither was relied upon, so a reader ignores both, and a writer cuts them off.  Garbage before valid lines is
MapDamaged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from zkconsumer.errors import ConsumerError
from zkconsumer.offsetmap.records import OffsetMap, Record, gathered
from zkconsumer.offsetmap.text import Header, MapDamaged, read_header, read_line

LINES_AT_ONCE = 2000  # takes some milliseconds


@dataclass(frozen=True, slots=True)
class MapFile:
    """A map as read from a file.  header None: nothing was written yet.  length: bytes of its complete lines."""

    header: Header | None
    records: tuple[Record, ...]
    length: int

    @property
    def map(self) -> OffsetMap:
        return gathered(self.records)


def read_map(path: str | os.PathLike[str], pause: Callable[[], object] = lambda: None) -> MapFile:
    """Read a map, even while a mirror writes it.  Raises ConsumerError and MapDamaged.

    pause() is called regularly, so that other greenlets can run.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as why:
        raise ConsumerError(f"offset map {path} cannot be read: {why.strerror}") from why
    return understood(data, str(path), pause)


def understood(
    data: bytes, name: str, pause: Callable[[], object] = lambda: None, header: Header | None = None
) -> MapFile:
    """Return the map in some bytes; name: for errors.  header: that of the map, for bytes that do not begin with it."""
    records: list[Record] = []
    length = at = 0
    bad: tuple[int, str] | None = None  # the first invalid line, and why
    for number, line in enumerate(_lines(data), start=1):
        at += len(line) + 1
        if not number % LINES_AT_ONCE:
            pause()
        try:
            text = line.decode()
            record = read_line(text) if header is not None else None
            header = header or read_header(text)
        except ValueError as why:  # also for data that is not UTF-8 or not JSON
            if number == 1 and b"\0" not in line:
                raise MapDamaged(f"offset map {name}: {why}; name another file") from None
            bad = bad or (number, str(why))
            continue
        if bad is not None:
            raise MapDamaged(f"offset map {name}: line {bad[0]}: {bad[1]}; and what follows makes sense again: "
                             "check it, or move it away and let the mirror begin a new one")  # fmt: skip
        if record is not None:
            records.append(record)
        length = at
    return MapFile(header, tuple(records), length)


def _lines(data: bytes) -> Iterator[bytes]:
    """Yield complete lines without their ends."""
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        yield data[at:end]
        at = end + 1
