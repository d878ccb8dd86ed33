"""The loops over plain entries, compiled (numba, extra `fast`).  Imported only where numba is; they hold no GIL.

    segments    one row each: begin, end, magic, start, shift, stamped (0|1), appended_ms, is pinned (0|1), pinned
    out         offsets, key_at, key_size, value_at, value_size, timestamps: rows as long as there can be messages

It says how many messages it found and where it stopped; why, is told by the pure form, which reads that entry again.
CRC-32 is in checksumming.py.
"""

from __future__ import annotations

import hashlib
import logging
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types

from kafkawire.primitives import Bytes
from kafkawire.v08 import checksumming
from kafkawire.v08.checksumming import best, loader, tables

log = logging.getLogger(__name__)

DONE, DAMAGED, TOO_LARGE = range(3)  # TOO_LARGE: an offset that int64 may not hold once it is shifted
COLUMNS, FIELDS = 6, 9
_SMALL = 512  # bytes of a slice at any place; larger ones are copied twice for nothing
_FAR = np.int64(1 << 62)

Index = Callable[[Any, Any, Any, bool, Any], tuple[int, int, int, int]]
Hop = Callable[[Any, int, int, int], tuple[int, int, int]]

_TABLES = tables()
_i32 = loader(32, True)
_i64 = loader(64, True)


def _index(data: Any, segments: Any, out: Any, check: bool, table: Any) -> tuple[int, int, int, int]:
    """(messages found, outcome, segment and position where it stopped)."""
    n = 0
    for s in range(segments.shape[0]):
        at, end, magic, start, shift, stamped, appended_ms, is_pinned, pinned = segments[s]
        head = 22 + 8 * magic
        while at < end:
            offset = _i64(data, at)
            if shift != 0 and (offset >= _FAR or offset <= -_FAR):
                return n, TOO_LARGE, s, at
            offset += shift
            after = at + 12 + _i32(data, at + 8)
            if offset < start:
                at = after
                continue
            if check and np.int64(_crc(data, at + 16, after, table)) != np.int64(_i32(data, at + 12)) & 0xFFFFFFFF:
                return n, DAMAGED, s, at
            key_at = at + head
            key_size = np.int64(_i32(data, key_at - 4))
            value_at = key_at + 4
            if key_size != -1:
                value_at += key_size
                if key_size < 0 or value_at > after:
                    return n, DAMAGED, s, at
            value_size = np.int64(_i32(data, value_at - 4))
            if value_at + value_size != after and (value_size != -1 or value_at != after):
                return n, DAMAGED, s, at
            out[0, n] = pinned if is_pinned else offset
            out[1, n] = key_at
            out[2, n] = key_size
            out[3, n] = value_at
            out[4, n] = value_size
            out[5, n] = -1
            if magic:
                out[5, n] = appended_ms if stamped else _i64(data, at + 18)
            n += 1
            at = after
    return n, DONE, 0, 0


def _hop(data: Any, at: Any, kind: int, least: int) -> tuple[int, int, int]:
    """(where complete entries of one kind end, how many, offset of the last): the inner loop of scanning.scan."""
    total = data.shape[0]
    entries = last = 0
    while at + 26 <= total:
        size = np.int64(_i32(data, at + 8))
        end = at + 12 + size
        if np.int64(data[at + 16]) << 8 | np.int64(data[at + 17]) != kind or size < least or end > total:
            break
        entries += 1
        last = _i64(data, at)
        at = end
    return at, entries, last


class Kernels:
    """The compiled loops, called with what Python has."""

    def __init__(self, index: Index, hop: Hop) -> None:
        self._index = index
        self._hop = hop

    def hop(self, buffer: Bytes, at: int, kind: int, least: int) -> tuple[int, int, int]:
        """Past complete entries of one kind (magic and attributes) of a size from least on: see _hop."""
        return self._hop(_octets(buffer), at, kind, least)

    def cut(self, data: Bytes, starts: memoryview, sizes: memoryview) -> list[bytes | None] | None:
        """Slices of one size, in a third of the time slices take; None where that does not help, or sizes differ."""
        every = np.asarray(sizes)
        size = int(every[0]) if len(every) else 0
        if size <= 0 or (every != size).any():
            return None
        places = np.asarray(starts)
        step = int(places[1] - places[0]) if len(places) > 1 else size
        if (np.diff(places) == step).all():
            evenly: list[bytes | None] = np.ndarray((len(places),), f"V{size}", data, int(places[0]), (step,)).tolist()
            return evenly
        if size > _SMALL:
            return None
        # An item of `size` bytes at every byte: taking some of them copies each at once.
        windows = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
        taken: list[bytes | None] = windows[places].tolist()
        return taken

    def index(self, data: Bytes, rows: list[tuple[int, ...]], most: int, check: bool) -> Found | None:
        """The messages of segments, of which there are `most` at most; None: an offset does not fit int64."""
        try:
            segments = np.array(rows, dtype=np.int64).reshape(len(rows), FIELDS)
        except OverflowError:
            return None
        out = np.empty((COLUMNS, most), dtype=np.int64)
        count, outcome, segment, at = self._index(_octets(data), segments, out, check, _TABLES)
        if outcome == TOO_LARGE:
            return None
        columns = [row[:count].data for row in out]
        return Found(columns, (segment, at) if outcome == DAMAGED else None)


class Found(NamedTuple):
    columns: list[memoryview]
    damaged: tuple[int, int] | None  # segment and position of the first damage


def _octets(buffer: Bytes) -> Any:
    """A buffer as the kernels were compiled for: read only."""
    octets = np.frombuffer(buffer, np.uint8)
    octets.flags.writeable = False
    return octets


def load(cache: Path | None) -> Kernels:
    """Compile (a second or a few), or load what was compiled (0.2 s); it is kept in the folder `cache`, if any.

    Raises RuntimeError when what comes out is wrong.
    """
    if cache is not None:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(cache / _sources())
        try:
            return _checked(_build(cache=True))
        except Exception as exc:  # a full disk, a file cut by a crash: numba raises whatever it meets
            log.warning("compiled kernels in %s are of no use: %s; compiling for this process only", cache, exc)
        finally:
            numba.config.CACHE_DIR = before
    return _checked(_build(cache=False))


def _sources() -> str:
    """Names what is compiled.  numba looks at the file of a function, not at those of the functions it calls."""
    files = (Path(__file__), Path(checksumming.__file__))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def _build(cache: bool) -> Kernels:
    global _crc
    octets = types.Array(types.uint8, 1, "C", readonly=True)
    table = types.Array(types.uint32, 2, "C")
    numbers = types.Array(types.int64, 2, "C")
    options = {"nogil": True, "cache": cache}
    _crc = numba.njit(types.uint64(octets, types.int64, types.int64, table), **options)(best())
    found = types.UniTuple(types.int64, 4)
    index: Index = numba.njit(found(octets, numbers, numbers, types.boolean, table), **options)(_index)
    three = types.UniTuple(types.int64, 3)
    hop: Hop = numba.njit(three(octets, types.int64, types.int64, types.int64), **options)(_hop)
    return Kernels(index, hop)


_crc: Any = None  # the compiled checksum: what _index calls


def _checked(made: Kernels) -> Kernels:
    """Held against zlib once: what a cache gives back was compiled somewhere else."""
    for size in (49, 1049):  # checksums of long and of short messages are computed in different ways
        value = bytes(n % 251 for n in range(size))
        body = b"\x00\x00\xff\xff\xff\xff" + size.to_bytes(4, "big") + value
        start = (7).to_bytes(8, "big") + (len(body) + 4).to_bytes(4, "big")
        entry = start + zlib.crc32(body).to_bytes(4, "big") + body
        found = made.index(entry, [(0, len(entry), 0, 0, 0, 0, 0, 0, 0)], 1, True)
        right = found is not None and not found.damaged and [x[0] for x in found.columns] == [7, 22, -1, 26, size, -1]
        if not right or made.hop(entry, 0, 0, 14) != (len(entry), 1, 7):
            raise RuntimeError("a compiled kernel computes nonsense")
    return made
