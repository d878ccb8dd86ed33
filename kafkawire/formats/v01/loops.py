"""Compiled loops over plain entries of formats v0 and v1: see kafkawire.formats.compiled.

    segments    one row each: begin, end, magic, start, shift, stamped (0|1), appended_ms, is pinned (0|1), pinned
    out         offsets, key_at, key_size, value_at, value_size, and if any segment has format v1 timestamps and
                their types: rows as long as there can be messages

They return the number of messages and where they stopped; pure Python reads that entry again to say why.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkawire.formats.checksums import loader

DONE, DAMAGED, TOO_LARGE = range(3)  # TOO_LARGE: an offset that may exceed int64 after its shift
UNTIMED, TIMED = 5, 7  # columns
FIELDS = 9
_FAR = np.int64(1 << 62)

_i32 = loader(32, True)
_i64 = loader(64, True)
_kind = loader(16, True)  # magic and attributes
crc: Any = None  # the compiled checksum that index() calls


def index(data: Any, segments: Any, out: Any, check: bool, table: Any) -> tuple[int, int, int, int]:
    """Fill out, and return (messages found, outcome, segment and position where it stopped)."""
    n = 0
    timed = out.shape[0] == TIMED
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
            if check and np.int64(crc(data, at + 16, after, table)) != np.int64(_i32(data, at + 12)) & 0xFFFFFFFF:
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
            if timed:
                out[5, n] = out[6, n] = -1
                if magic:
                    out[5, n] = appended_ms if stamped else _i64(data, at + 18)
                    out[6, n] = 1 if stamped else data[at + 17] >> 3 & 1
            n += 1
            at = after
    return n, DONE, 0, 0


def hop(data: Any, at: Any, kind: int, least: int, last: int, ascending: bool) -> tuple[int, int, int]:
    """Return (end of complete entries of one kind, their number, offset of the last): the inner loop of scanning.scan.

    ascending: stop also where an offset is not larger than the previous one, which is `last` for the first entry.
    """
    total = data.shape[0]
    entries = 0
    before = np.int64(0)
    reached = np.int64(last)
    found: Any = np.int64(0)
    while at + 26 <= total:
        size = np.int64(_i32(data, at + 8))
        end = at + 12 + size
        if _kind(data, at + 16) != kind or size < least or end > total:
            break
        offset = np.int64(_i64(data, at))
        if ascending and offset <= reached:
            break
        entries += 1
        if size == before:
            # Two entries of one size make more likely: read eight together, so that their memory accesses overlap.
            step = end - at
            while end + 8 * step <= total:
                same = True
                higher = offset
                for n in range(8):
                    next_one = np.int64(_i64(data, end + n * step))
                    same &= (_i32(data, end + n * step + 8) == size) & (_kind(data, end + n * step + 16) == kind)
                    same &= (next_one > higher) | (not ascending)
                    higher = next_one
                if not same:
                    break
                entries += 8
                end += 8 * step
                offset = higher
        found = reached = offset
        before = size
        at = end
    return at, entries, found
