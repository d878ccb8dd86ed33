"""Compiled loop that writes the records of a batch: see kafkawire.formats.compiled.

data                       bytes that the positions refer to
key_at, key_size ...       one item per row; a size of -1 is null
stamps                     timestamps in ms; of length 0: no row has one
header_at, header_size     header blocks, a size of 0 or less: no headers; length 0: no row has any
out                        large enough for all rows
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkawire.formats.memory import copy

RECORD_BYTES = 40  # of a record besides key, value and headers, at most


def put(out: Any, at: Any, number: Any) -> Any:
    """Write a number as a varint, and return where the next field begins."""
    rest = np.uint64(number << 1) ^ np.uint64(number >> 63)
    while rest > np.uint64(0x7F):
        out[at] = np.uint8(rest & np.uint64(0x7F) | np.uint64(0x80))
        rest >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


def length(number: Any) -> Any:
    """Return the bytes of a number as a varint."""
    rest = np.uint64(number << 1) ^ np.uint64(number >> 63)
    size = 1
    while rest > np.uint64(0x7F):
        rest >>= np.uint64(7)
        size += 1
    return size


put_number: Any = None  # the compiled put() that records() calls
length_of: Any = None  # the compiled length()


def records(
    data: Any,
    key_at: Any,
    key_size: Any,
    value_at: Any,
    value_size: Any,
    stamps: Any,
    header_at: Any,
    header_size: Any,
    since: Any,
    until: Any,
    number: Any,
    first: Any,
    out: Any,
    at: Any,
) -> tuple[Any, Any]:
    """Write the rows since..until at byte `at`, and return (their end, the largest timestamp).

    number: offset delta of the first row.  first: timestamp of the batch's first record.
    """
    timed, headed = stamps.shape[0] > 0, header_at.shape[0] > 0
    newest = np.int64(-1)
    for n in range(since, until):
        stamp = np.int64(-1)
        if timed:
            stamp = max(stamps[n], np.int64(-1))
            newest = max(newest, stamp)
        delta = stamp - first
        key, value = key_size[n], value_size[n]
        block = header_size[n] if headed else np.int64(0)
        body = 1 + length_of(delta) + length_of(number) + length_of(key) + length_of(value)
        at = put_number(out, at, body + max(key, 0) + max(value, 0) + max(block, 1))
        out[at] = 0
        at = put_number(out, put_number(out, at + 1, delta), number)
        number += 1
        at = put_number(out, at, key)
        if key > 0:
            copy(out, at, data, key_at[n], key)
            at += key
        at = put_number(out, at, value)
        if value > 0:
            copy(out, at, data, value_at[n], value)
            at += value
        if block > 0:
            copy(out, at, data, header_at[n], block)
            at += block
        else:
            out[at] = 0
            at += 1
    return at, newest
