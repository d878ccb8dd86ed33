"""Sums over messages by which two logs can be compared, computed by window from columns of messages.

    count        messages
    value_crcs   sum of the CRC-32 of their values, a null as 0, as in a load's manifest
    content      sum of their hashes: equal for the same messages in any order
    order        equal only for the same messages in the same order
    first, last  offsets; None if messages of several partitions are added up

kafkawire.fingerprints computes the hash of a message.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafkawire.fingerprints import HAS_NUMPY, MASK, Hashed
from sparkpipeline.audit.windows import HOUR_MS, Windows

ORDER_BASE = 0x9E3779B97F4A7C15  # odd, so that no power of it loses bits


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over some messages."""

    count: int = 0
    value_crcs: int = 0
    content: int = 0  # modulo 2**64
    order: int | None = 0  # modulo 2**64; None: of several partitions, whose messages have no common order
    first: int | None = None
    last: int | None = None

    def then(self, later: Figures) -> Figures:
        """Return the sums of these messages and of those that follow them in the same partition."""
        if not self.count or not later.count:
            return self if self.count else later
        order = None
        if self.order is not None and later.order is not None:
            order = (self.order * pow(ORDER_BASE, later.count, 1 << 64) + later.order) & MASK
        return Figures(*self._sums(later), order, self.first, later.last)

    def beside(self, other: Figures) -> Figures:
        """Return the sums of these messages and of those of another partition."""
        return Figures(*self._sums(other), None, None, None)

    def _sums(self, other: Figures) -> tuple[int, int, int]:
        content = (self.content + other.content) & MASK
        return self.count + other.count, self.value_crcs + other.value_crcs, content

    def same_messages(self, other: Figures) -> bool:
        """True if both are sums of the same messages, in any order."""
        return (self.count, self.value_crcs, self.content) == (other.count, other.value_crcs, other.content)

    def same(self, other: Figures) -> bool:
        """True if both are sums of the same messages, in the same order if both have one."""
        ordered = self.order is not None and other.order is not None
        return self.same_messages(other) and (not ordered or self.order == other.order)


# ---- of columns ------------------------------------------------------------------------------------------------------


def add(sums: dict[int, Figures], found: Hashed, windows: Windows, vector: bool = HAS_NUMPY) -> None:
    """Add these messages, which follow the earlier ones in their partition, to the sums by window."""
    sorted_out = _vector_figures(found, windows) if vector else _plain_figures(found, windows)
    for window, figures in sorted_out:
        sums[window] = sums.get(window, Figures()).then(figures)


# ---- pure Python -----------------------------------------------------------------------------------------------------


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


# ---- numpy -----------------------------------------------------------------------------------------------------------


def _vector_figures(found: Hashed, windows: Windows) -> Iterator[tuple[int, Figures]]:
    import numpy as np

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
        yield window, Figures(len(of_it), crc_sum, content, _order(hashes[of_it]), first, last)


def _order(hashes: Any) -> int:
    """Return the figure `order` of these messages."""
    import numpy as np

    return int((hashes * _powers(len(hashes))).sum(dtype=np.uint64)) & MASK


@functools.lru_cache(maxsize=64)
def _powers(count: int) -> Any:
    """Return ORDER_BASE to the powers count − 1 .. 0."""
    import numpy as np

    factors = np.full(count, ORDER_BASE, np.uint64)
    factors[:1] = 1
    return np.multiply.accumulate(factors)[::-1]
