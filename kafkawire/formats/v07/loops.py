"""Compiled loops over plain entries of 0.7: see kafkawire.formats.compiled.

    segments    one row each: begin, end, magic (-2 | -1), shift, is pinned (0|1), pinned
    out         offsets, value_at, value_size: rows as long as there are messages

They return the number of messages and where they stopped, because a checksum is wrong there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkawire.formats.checksums import loader

COLUMNS = 3
FIELDS = 6

_i32 = loader(32, True)
crc: Any = None  # the compiled checksum that index() calls


def index(data: Any, segments: Any, out: Any, check: bool, table: Any) -> tuple[int, int, int]:
    """Fill out, and return (messages found, segment and byte where it stopped; segment -1: no damage)."""
    n = 0
    for s in range(segments.shape[0]):
        at, end, magic, shift, is_pinned, pinned = segments[s]
        overhead = 11 + magic
        while at < end:
            value_at = at + overhead
            after = at + 4 + np.int64(_i32(data, at))
            stored = np.int64(_i32(data, value_at - 4)) & 0xFFFFFFFF
            if check and np.int64(crc(data, value_at, after, table)) != stored:
                return n, s, at
            out[0, n] = pinned if is_pinned else at + shift
            out[1, n] = value_at
            out[2, n] = after - value_at
            n += 1
            at = after
    return n, -1, 0


def hop(data: Any, at: Any, magic: int, limit: int) -> tuple[int, int]:
    """Return (end of the complete plain entries of one format that begin before `limit`, their number): the inner loop
    of scanning and cutting."""
    total = data.shape[0]
    entries = 0
    while at < limit and at + 9 <= total:
        length = np.int64(_i32(data, at))
        end = at + 4 + length
        if data[at + 4] != magic + 2 or length < 7 + magic or end > total or (magic == -1 and data[at + 5] & 3):
            break
        entries += 1
        at = end
    return at, entries
