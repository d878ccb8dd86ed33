"""Compiled loops that hash keys and group rows: see kafkawire.formats.compiled.

Rows are rows `since` to `until` of kafkawire.columns. kafkawire.keyhashes describes the rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkawire.formats.checksums import loader
from kafkawire.keyhashes import ABSOLUTE, FAILS, MASKED, MURMUR2

_MASK = np.int64(0xFFFFFFFF)
_M = np.int64(0x5BD1E995)
_MOST = 0x80000000
_u32 = loader(32, False)


def indexes(
    data: Any, key_at: Any, key_size: Any, since: Any, until: Any, rule: Any, groups: Any, keyless: Any, out: Any
) -> Any:
    """Write the group of each row by the hash of its key, `keyless` for a row without one, or FAILS; return the
    smallest of all."""
    least: Any = np.int64(0)
    code: Any = np.int64(0)
    for n in range(since, until):
        size, at = key_size[n], key_at[n]
        if size < 0:
            out[n - since] = keyless
            least = min(least, keyless)
            continue
        if rule == MURMUR2:
            code = np.int64(0x9747B28C) ^ size
            whole = at + (size & ~3)
            end = at + size
            while at < whole:
                k = np.int64(_u32(data, at)) * _M & _MASK
                k = (k ^ k >> 24) * _M & _MASK
                code = (code * _M & _MASK) ^ k
                at += 4
            if at < end:
                rest = np.int64(0)
                for m in range(end - at):
                    rest |= np.int64(data[at + m]) << (8 * m)
                code = (code ^ rest) * _M & _MASK
            code = (code ^ code >> 13) * _M & _MASK
            code = (code ^ code >> 15) & 0x7FFFFFFF
        else:
            code = np.int64(1)
            for m in range(at, at + size):
                code = code * 31 + ((np.int64(data[m]) ^ 0x80) - 0x80) & _MASK
            if rule == MASKED:
                code &= 0x7FFFFFFF
            elif code == _MOST:
                if rule == ABSOLUTE:
                    code = np.int64(0)
                elif groups & (groups - 1):
                    out[n - since] = least = FAILS
                    continue
            elif code > _MOST:
                code = (_MASK + 1) - code
        out[n - since] = code % groups
    return least


def grouped(found: Any, key_size: Any, value_size: Any, header_size: Any, firsts: Any, sizes: Any, order: Any) -> None:
    """Order rows by group; rows of one group keep their order.

    found: the group of each row.  firsts: begin of each group in `order`, and at the end the number of rows.  sizes:
    bytes of keys, values and headers of each group.  firsts and sizes must be zero initially.
    """
    rows, groups, headed = found.shape[0], sizes.shape[0], header_size.shape[0] > 0
    for n in range(rows):
        group = found[n]
        firsts[group + 1] += 1
        sizes[group] += max(key_size[n], 0) + max(value_size[n], 0) + (max(header_size[n], 0) if headed else 0)
    for group in range(groups):
        firsts[group + 1] += firsts[group]
    ends = firsts.copy()
    for n in range(rows):
        group = found[n]
        order[ends[group]] = n
        ends[group] += 1
