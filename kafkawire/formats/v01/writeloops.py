"""Compiled loop that writes plain entries of formats v0 and v1: see kafkawire.formats.compiled.

data                       bytes that the positions refer to
key_at, key_size ...       one item per row; a size of -1 is null
stamps, types              timestamps in ms, and 1 if a broker set it; length 0: no row has one
kept                       the rows are in plain entries of this format: an entry is copied with its
                           checksum, unless its timestamp or attributes have to change
numbered                   copied entries get new offsets, like all others
out                        as long as total() of the sizes and ENTRY_BYTES a row
"""

from __future__ import annotations

from typing import Any

from kafkawire.formats.memory import copy, storer

ENTRY_BYTES = 34  # of an entry besides key and value, at most

put_i32 = storer(32)
_put_i64 = storer(64)
crc: Any = None  # the compiled checksum that entries() calls


def entries(
    data: Any,
    key_at: Any,
    key_size: Any,
    value_at: Any,
    value_size: Any,
    stamps: Any,
    types: Any,
    kept: bool,
    numbered: bool,
    since: Any,
    until: Any,
    magic: Any,
    number: Any,
    out: Any,
    at: Any,
    table: Any,
) -> tuple[Any, Any]:
    """Write the rows since..until at byte `at`, and return (their end, the largest timestamp).

    number: offset of the first row; the others follow it.
    """
    timed = stamps.shape[0] > 0
    newest = -1
    head = 22 + 8 * magic
    for n in range(since, until):
        begin = at
        if kept:
            entry_at = key_at[n] - head
            if data[entry_at + 17] == 0 and (magic == 0 or (types[n] <= 0 and stamps[n] >= -1)):
                size = head + 4 + max(key_size[n], 0) + max(value_size[n], 0)
                copy(out, at, data, entry_at, size)
                if numbered:
                    _put_i64(out, at, number)
                if timed:
                    newest = max(newest, stamps[n])
                number += 1
                at += size
                continue
        _put_i64(out, at, number)
        out[at + 16] = magic
        out[at + 17] = 0
        at += 18
        if timed:
            newest = max(newest, stamps[n])
        if magic:
            _put_i64(out, at, max(stamps[n], -1) if timed else -1)
            at += 8
        key, value = key_size[n], value_size[n]
        put_i32(out, at, key)
        at += 4
        if key > 0:
            copy(out, at, data, key_at[n], key)
            at += key
        put_i32(out, at, value)
        at += 4
        if value > 0:
            copy(out, at, data, value_at[n], value)
            at += value
        put_i32(out, begin + 8, at - begin - 12)
        put_i32(out, begin + 12, crc(out, begin + 16, at, table))
        number += 1
    return at, newest
