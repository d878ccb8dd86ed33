"""Hashes of messages out of columns, and their sums by window.  numpy where it is there, and pure Python with the same
results where it is not: an executor may have no more than pyspark and pyarrow.
"""

from __future__ import annotations

import importlib.util
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafkawire.columns import Columns, Field, Part, as_list, checksums
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
    rows = bisect_left(columns.offsets, start), bisect_left(columns.offsets, until)  # offsets never descend
    return _vector_hashed(columns, *rows) if vector else _plain_hashed(columns, *rows)


def add(sums: dict[int, Figures], found: Hashed, windows: Windows, vector: bool = HAS_NUMPY) -> None:
    """Add the figures of these messages to those of the ones before them, window by window."""
    sorted_out = _vector_figures(found, windows) if vector else _plain_figures(found, windows)
    for window, figures in sorted_out:
        sums[window] = sums.get(window, Figures()).then(figures)


# ---- pure Python ---------------------------------------------------------------------------------------------------


def _plain_hashed(columns: Columns, since: int, until: int) -> Hashed:
    key_crcs, value_crcs = (array("q", numbers) for numbers in _checksums(columns, since, until))
    sizes = (as_list(size[since:until]) for size in (columns.key_size, columns.value_size))
    hashes = [
        message_hash(key_crc, key_size, value_crc, value_size)
        for key_crc, key_size, value_crc, value_size in zip(key_crcs, next(sizes), value_crcs, next(sizes), strict=True)
    ]
    stamps = columns.timestamps_ms
    times = None if stamps is None else as_list(stamps[since:until])
    return Hashed(as_list(columns.offsets[since:until]), value_crcs, hashes, times)


def _checksums(columns: Columns, since: int, until: int) -> tuple[memoryview, memoryview]:
    """Of keys, and of values."""
    part = [Part(columns, since, until)]
    key, value = (memoryview(checksums(part, field).numbers).cast("B").cast("q") for field in (Field.KEY, Field.VALUE))
    return key, value


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


def _vector_hashed(columns: Columns, since: int, until: int) -> Hashed:
    import numpy as np

    from sparkpipeline.audit.vectors import mixed

    cut = slice(since, until)
    key_crcs, value_crcs = (np.asarray(numbers).view(np.uint64) for numbers in _checksums(columns, since, until))
    key_size, value_size = (np.asarray(sizes[cut], np.int64) for sizes in (columns.key_size, columns.value_size))
    hashes = mixed(key_crcs, key_size, value_crcs, value_size)
    stamps = columns.timestamps_ms
    times = None if stamps is None else np.asarray(stamps[cut], np.int64)
    return Hashed(np.asarray(columns.offsets[cut], np.int64), value_crcs, hashes, times)


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
