"""Compiled loop over the records of batches: see kafkawire.formats.compiled.

    segments    one row each: begin, end, records, start, base offset, last offset, first timestamp, stamped (0|1),
                appended_ms
    out         offsets, key_at, key_size, value_at, value_size, timestamps, their types, header_at, header_size: rows
                as long as there can be messages

It returns the number of messages, whether any has headers, and where it stopped; columns.py reads that record again in
pure Python to say why.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

COLUMNS = 9
FIELDS = 9


def _number(data: Any, at: Any, end: Any) -> tuple[Any, Any]:
    """Return (a zigzag number, where the next field begins: -1 if it does not end before `end` or in ten bytes)."""
    number = np.uint64(0)
    shift = np.uint64(0)
    while at < end:
        byte = np.uint64(data[at])
        at += 1
        number |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1)), np.int64(at)
        shift += np.uint64(7)
        if shift > np.uint64(63):
            break
    return np.int64(0), np.int64(-1)


number = numba.njit(_number)


def _behind_headers(data: Any, at: Any, end: Any, count: Any) -> Any:
    """Return where `count` headers end; -1 if they do not end before `end`."""
    for _ in range(count):
        size, at = number(data, at, end)
        if at < 0 or size < 0 or size > end - at:
            return np.int64(-1)
        size, at = number(data, at + size, end)
        if at < 0 or size > end - at:
            return np.int64(-1)
        at += max(size, 0)
    return np.int64(at)


behind_headers = numba.njit(_behind_headers)


def index(data: Any, segments: Any, out: Any) -> tuple[Any, Any, Any, Any]:
    """Fill out, and return (messages found, those with headers, segment (-1: done) and position where it stopped)."""
    n = 0
    with_headers = 0
    for s in range(segments.shape[0]):
        at, end, count, start, base, last, first_ms, stamped, appended_ms = segments[s]
        before = np.int64(-1)
        for _ in range(count):
            record = at
            length, at = number(data, at, end)
            if at < 0 or length < 1 or length > end - at:
                return n, with_headers, s, record
            after = at + length
            time, at = number(data, at + 1, after)
            if at < 0:
                return n, with_headers, s, record
            delta, at = number(data, at, after)
            if at < 0 or delta <= before or delta > last - base:
                return n, with_headers, s, record
            before = delta
            if base + delta < start:
                at = after
                continue
            stamp = first_ms + time
            if ((first_ms ^ stamp) & (time ^ stamp)) < 0:
                return n, with_headers, s, record
            key_size, key_at = number(data, at, after)
            if key_at < 0 or key_size > after - key_at:
                return n, with_headers, s, record
            value_size, value_at = number(data, key_at + max(key_size, 0), after)
            if value_at < 0 or value_size > after - value_at:
                return n, with_headers, s, record
            header_at = value_at + max(value_size, 0)
            headers, at = number(data, header_at, after)
            if at < 0 or headers < 0 or headers > after - at:
                return n, with_headers, s, record
            at = behind_headers(data, at, after, headers)
            if at != after:
                return n, with_headers, s, record
            out[0, n] = base + delta
            out[1, n] = key_at
            out[2, n] = max(key_size, -1)
            out[3, n] = value_at
            out[4, n] = max(value_size, -1)
            out[5, n] = appended_ms if stamped else stamp
            out[6, n] = stamped
            out[7, n] = header_at
            out[8, n] = after - header_at if headers else 0
            with_headers += headers > 0
            n += 1
        if at != end:
            return n, with_headers, s, at
    return n, with_headers, -1, 0
