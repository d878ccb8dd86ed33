"""The arithmetic of figures.py on numpy arrays.  Imported only where numpy is."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from sparkpipeline.audit.figures import MASK, MIX_1, MIX_2, ORDER_BASE, SIZES

_U64 = np.uint64


def mixed(key_crcs: Any, key_sizes: Any, value_crcs: Any, value_sizes: Any) -> Any:
    """figures.message_hash of each."""
    sizes = (key_sizes + 1).astype(_U64) << _U64(32) | (value_sizes + 1).astype(_U64)
    x = (key_crcs << _U64(32) | value_crcs) + sizes * _U64(SIZES)
    x = (x ^ x >> _U64(30)) * _U64(MIX_1)
    x = (x ^ x >> _U64(27)) * _U64(MIX_2)
    return x ^ x >> _U64(31)


def in_order(hashes: Any) -> int:
    """The figure `order` of these messages."""
    return int((hashes * _powers(len(hashes))).sum(dtype=_U64)) & MASK


@functools.lru_cache(maxsize=64)
def _powers(count: int) -> Any:
    """ORDER_BASE to the powers count − 1 .. 0."""
    factors = np.full(count, ORDER_BASE, _U64)
    factors[:1] = 1
    return np.multiply.accumulate(factors)[::-1]
