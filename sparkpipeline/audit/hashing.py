"""Hashes of messages out of columns, and their sums by window.  numpy where it is there, and pure Python with the same
results where it is not: an executor may have no more than pyspark and pyarrow.
"""

from __future__ import annotations

import importlib.util
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafkawire.columns import Columns
from sparkpipeline.audit.figures import MASK, ORDER_BASE, Figures, message_hash
from sparkpipeline.audit.windows import HOUR_MS, Windows

HAS_NUMPY = importlib.util.find_spec("numpy") is not None


@dataclass(frozen=True, slots=True, eq=False)
class Hashed:
    """The messages of one set from a first to a last offset: columns of equal length."""

    offsets: Any  # a Column, or an array of int64
    value_crcs: Any
    hashes: Any  # of uint64
    timestamps_ms: Any  # None where no message has one


def hashed(columns: Columns, start: int, until: int, vector: bool = HAS_NUMPY) -> Hashed:
    """The hashes of its messages with start <= offset < until.  vector False: without numpy."""
    return _vector_hashed(columns, start, until) if vector else _plain_hashed(columns, start, until)


def add(sums: dict[int, Figures], found: Hashed, windows: Windows, vector: bool = HAS_NUMPY) -> None:
    """Add the figures of these messages to those of the ones before them, window by window."""
    sorted_out = _vector_figures(found, windows) if vector else _plain_figures(found, windows)
    for window, figures in sorted_out:
        sums[window] = sums.get(window, Figures()).then(figures)


# ---- pure Python ---------------------------------------------------------------------------------------------------


def _plain_hashed(columns: Columns, start: int, until: int) -> Hashed:
    at = [n for n, offset in enumerate(columns.offsets) if start <= offset < until]
    keys, values = columns.keys(), columns.values()
    key_crcs = [zlib.crc32(keys[n] or b"") for n in at]
    value_crcs = [zlib.crc32(values[n] or b"") for n in at]
    hashes = [
        message_hash(key_crc, columns.key_size[n], value_crc, columns.value_size[n])
        for n, key_crc, value_crc in zip(at, key_crcs, value_crcs, strict=True)
    ]
    stamps = columns.timestamps_ms
    offsets = [columns.offsets[n] for n in at]
    return Hashed(offsets, value_crcs, hashes, None if stamps is None else [stamps[n] for n in at])


def _plain_figures(found: Hashed, windows: Windows) -> Iterator[tuple[int, Figures]]:
    sums: dict[int, list[int]] = {}  # count, value_crcs, content, order, first, last
    stamps = found.timestamps_ms
    for n, offset in enumerate(found.offsets):
        stamp = -1 if stamps is None else stamps[n]
        if windows.bounded and not windows.holds(stamp):
            continue
        sum_ = sums.setdefault(windows.of(offset, stamp), [0, 0, 0, 0, offset, offset])
        sum_[0] += 1
        sum_[1] += found.value_crcs[n]
        sum_[2] += found.hashes[n]
        sum_[3] = sum_[3] * ORDER_BASE + found.hashes[n] & MASK
        sum_[5] = offset
    for window, (count, value_crcs, content, order, first, last) in sums.items():
        yield window, Figures(count, value_crcs, content & MASK, order, first, last)


# ---- numpy ---------------------------------------------------------------------------------------------------------


def _vector_hashed(columns: Columns, start: int, until: int) -> Hashed:
    import numpy as np

    from sparkpipeline.audit.vectors import crcs, mixed

    offsets = np.asarray(columns.offsets, np.int64)
    cut = slice(int(np.searchsorted(offsets, start)), int(np.searchsorted(offsets, until)))  # offsets never descend
    key_size = np.asarray(columns.key_size, np.int64)[cut]
    value_size = np.asarray(columns.value_size, np.int64)[cut]
    key_crcs = crcs(columns.data, np.asarray(columns.key_at, np.int64)[cut], key_size)
    value_crcs = crcs(columns.data, np.asarray(columns.value_at, np.int64)[cut], value_size)
    stamps = columns.timestamps_ms
    hashes = mixed(key_crcs, key_size, value_crcs, value_size)
    return Hashed(offsets[cut], value_crcs, hashes, None if stamps is None else np.asarray(stamps, np.int64)[cut])


def _vector_figures(found: Hashed, windows: Windows) -> Iterator[tuple[int, Figures]]:
    import numpy as np

    from sparkpipeline.audit.vectors import in_order

    offsets, hashes, value_crcs = (np.asarray(column) for column in (found.offsets, found.hashes, found.value_crcs))
    stamps = found.timestamps_ms
    times = np.full(len(offsets), -1, np.int64) if stamps is None else np.asarray(stamps)
    looked_at = np.ones(len(offsets), bool)
    if windows.from_ms is not None:
        looked_at &= times >= windows.from_ms
    if windows.to_ms is not None:
        looked_at &= times < windows.to_ms
    blocks = -1 - offsets // windows.block if windows.block else np.full(len(offsets), -1, np.int64)
    numbers = np.where(times >= 0, times // HOUR_MS, blocks) if windows.by_hour else blocks
    for window in np.unique(numbers[looked_at]).tolist():
        of_it = np.flatnonzero(looked_at & (numbers == window))
        first, last = int(offsets[of_it[0]]), int(offsets[of_it[-1]])
        content = int(hashes[of_it].sum(dtype=np.uint64))
        crc_sum = int(value_crcs[of_it].sum(dtype=np.uint64))
        yield window, Figures(len(of_it), crc_sum, content, in_order(hashes[of_it]), first, last)
