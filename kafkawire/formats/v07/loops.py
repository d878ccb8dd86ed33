"""The loops over plain entries of 0.7 as they are compiled: see kafkawire.formats.compiled.

    segments    one row each: begin, end, magic (-2 | -1), shift, is pinned (0|1), pinned
    out         offsets, value_at, value_size: rows as long as there are messages

They say how many messages they found and where they stopped: there the checksum is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkawire.formats.checksums import loader

COLUMNS = 3
FIELDS = 6

_i32 = loader(32, True)
crc: Any = None  # the compiled checksum: what index() calls


def index(data: Any, segments: Any, out: Any, check: bool, table: Any) -> tuple[int, int, int]:
    """(messages found, segment and byte where it stopped; segment -1: nowhere)."""
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
    """(where complete plain entries of one format end that begin before `limit`, how many): the inner loop of scanning
    and of cutting."""
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
