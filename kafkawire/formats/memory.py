"""Copies and stores of the compiled loops (compiled.py): bytes at any position of an array, without bounds checks.

Imported only if numba is installed.  Loads: checksums.loader.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def copy(typing: Any, out: Any, at: Any, data: Any, start: Any, size: Any) -> Any:
    """Copy `size` bytes that do not overlap.  A slice assignment in numba checks for overlap each time."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        places = []
        for n in (0, 2):
            array = context.make_array(signature.args[n])(context, builder, args[n])
            places.append(builder.gep(array.data, [args[n + 1]]))
        cgutils.raw_memcpy(builder, places[0], places[1], args[4], 1)
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64, types.int64), build


def storer(bits: int) -> Any:
    """Return a function that stores `bits` bits at any address, big endian."""

    def store(typing: Any, data: Any, at: Any, number: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, args[0])
            kind = ir.IntType(bits)
            pointer = builder.bitcast(builder.gep(array.data, [args[1]]), kind.as_pointer())
            value = builder.trunc(args[2], kind) if bits < 64 else args[2]
            builder.store(builder.bswap(value), pointer, align=1)
            return context.get_dummy_value()

        return types.void(data, types.int64, types.int64), build

    return intrinsic(store)
