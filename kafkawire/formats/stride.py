"""Comparison of neighbouring entries of one size by columns of bytes: a scan in pure Python skips a thousand of them
without a line of Python for each.  Sets that pass through a mirror are only scanned.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.primitives import Bytes

FEW = 8  # entries; fewer are quicker to read one by one
_GLANCE = 64  # entries that are compared first


def alike(data: Bytes, at: int, step: int, count: int, places: Iterable[int]) -> int:
    """Return how many of the first `count` entries of `step` bytes have the same bytes as the first one at these
    places."""
    places = tuple(places)
    if count > _GLANCE:  # if sizes change every few entries, all following entries would be compared repeatedly
        few = _alike(data, at, step, _GLANCE, places)
        if few < _GLANCE:
            return few
    return _alike(data, at, step, count, places)


def _alike(data: Bytes, at: int, step: int, count: int, places: Iterable[int]) -> int:
    for place in places:
        first = bytes(data[at + place : at + place + 1])
        column = bytes(data[at + place : at + count * step : step])
        if column != first * count:  # comparing all at once is quicker than one by one
            count = len(column) - len(column.lstrip(first))
    return count
