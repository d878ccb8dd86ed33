"""Keys and values copied side by side, for the compiled form (compiled.py).  Imported only where numba is.

starts, sizes   of one column of kafkawire.columns, from row `since` to `until`; a size of -1 is null
out             bytes, filled from `at` on
ends            int32, one more than rows: row n is out[ends[n] : ends[n + 1]]
bits            a bit a row, lowest first: whether it is there.  Zero when it comes in
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def _copy(typing: Any, out: Any, at: Any, data: Any, start: Any, size: Any) -> Any:
    """size bytes; they do not overlap.  What numba makes of slices looks whether they do, for each."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        places = []
        for n in (0, 2):
            array = context.make_array(signature.args[n])(context, builder, args[n])
            places.append(builder.gep(array.data, [args[n + 1]]))
        cgutils.raw_memcpy(builder, places[0], places[1], args[4], 1)
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64, types.int64), build


def gather(
    data: Any, starts: Any, sizes: Any, since: Any, until: Any, out: Any, at: Any, ends: Any, row: Any, bits: Any
) -> tuple[Any, Any]:
    """(where out is filled to, how many are null)."""
    nulls = 0
    for n in range(since, until):
        size = sizes[n]
        if size >= 0:
            _copy(out, at, data, starts[n], size)
            at += size
            bits[row >> 3] |= np.uint8(1 << (row & 7))
        else:
            nulls += 1
        row += 1
        ends[row] = at
    return at, nulls


def total(sizes: Any, since: Any, until: Any) -> Any:
    """Bytes of those that are not null."""
    found = np.int64(0)
    for n in range(since, until):
        found += max(sizes[n], 0)
    return found


def alike(starts: Any, sizes: Any) -> tuple[Any, Any]:
    """(the size that all of at least one have, or -2; the distance from each start to the next, or 0)."""
    size, last = sizes[0], starts.shape[0] - 1
    step = starts[1] - starts[0] if last else max(size, 1)
    same, even = True, True
    for n in range(last):
        same &= sizes[n + 1] == size
        even &= starts[n + 1] - starts[n] == step
    return size if same else -2, step if even else 0


def ascends(numbers: Any, since: Any, until: Any) -> Any:
    """Whether none is smaller than the one before it."""
    down = 0
    for n in range(since + 1, until):
        down += numbers[n] < numbers[n - 1]
    return down == 0
