"""Neighbouring entries of one size and layout: how many of them there are, by a few calls for all of them."""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.primitives import Bytes

FEW = 8  # entries: for less it is quicker to look at each


def alike(data: Bytes, at: int, step: int, count: int, places: Iterable[int]) -> int:
    """How many of `count` entries of `step` bytes have the bytes at these places that the first has."""
    for place in places:
        first = bytes(data[at + place : at + place + 1])
        column = bytes(data[at + place : at + count * step : step])
        count = len(column) - len(column.lstrip(first))
    return count
