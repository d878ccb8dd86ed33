"""CRC-32 for the compiled loops (compiled.py): functions that numba compiles to machine code.  Imported only if numba
is installed.

    _crc32_tables    sixteen bytes a step by sixteen tables: 1 GB/s, everywhere
    _crc32_folded    carry-less multiplication, where the processor has it (pclmulqdq): 64 bytes a step, then 16, and
                     what is left by the tables: 5 GB/s in messages of 100 bytes, more than 10 in those of 1 KB

Folding: sixteen bytes are a polynomial of degree 127; shifting it by n bits and adding it to the bytes there does not
change the remainder, and takes one multiplication by x^n mod P per half (Intel's white paper of 2009, reflected).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

Crc = Callable[[Any, int, int, Any], Any]  # (octets, from, to, tables) -> the checksum

# x^n mod P for the lower and the upper half, reflected: shifts sixteen bytes by 64, and by 16.
_BY_64 = (0x154442BD4, 0x1C6E41596)
_BY_16 = (0x1751997D0, 0x0CCAA009E)
_LANES = 4  # states folded side by side, so that the multiplier can start a new pair while it works on others

_I64 = ir.IntType(64)
_PAIR = ir.VectorType(_I64, 2)


def tables() -> Any:
    """Return tables with table[k][b]: the effect of byte b on the checksum when k bytes follow it."""
    made = np.zeros((16, 256), dtype=np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        made[0, byte] = value
    for k in range(1, 16):
        before = made[k - 1]
        made[k] = before >> np.uint32(8) ^ made[0][before & np.uint32(0xFF)]
    return made


def loader(bits: int, swapped: bool) -> Any:
    """Return a function that loads `bits` bits from any address, little endian, or big endian if swapped."""

    def load(typing: Any, data: Any, at: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.bitcast(_octet(context, builder, signature, args), ir.IntType(bits).as_pointer())
            value = builder.load(pointer, align=1)
            return builder.bswap(value) if swapped else value

        return (types.Integer.from_bitwidth(bits, swapped))(data, types.int64), build

    return intrinsic(load)


def _octet(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Return the address of byte args[1] of the array args[0]."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


_u64 = loader(64, False)


def _by_tables(a: Any, b: Any, table: Any) -> Any:
    """Return the checksum of sixteen bytes, before the last inversion: a holds the first eight, combined with the
    state."""
    low, n8 = np.uint64(0xFF), np.uint64(8)
    return np.uint64(
        table[15, a & low]
        ^ table[14, a >> n8 & low]
        ^ table[13, a >> np.uint64(16) & low]
        ^ table[12, a >> np.uint64(24) & low]
        ^ table[11, a >> np.uint64(32) & low]
        ^ table[10, a >> np.uint64(40) & low]
        ^ table[9, a >> np.uint64(48) & low]
        ^ table[8, a >> np.uint64(56)]
        ^ table[7, b & low]
        ^ table[6, b >> n8 & low]
        ^ table[5, b >> np.uint64(16) & low]
        ^ table[4, b >> np.uint64(24) & low]
        ^ table[3, b >> np.uint64(32) & low]
        ^ table[2, b >> np.uint64(40) & low]
        ^ table[1, b >> np.uint64(48) & low]
        ^ table[0, b >> np.uint64(56)]
    )


_sixteen = numba.njit(_by_tables, inline="always")


def _by_bytes(data: Any, at: Any, end: Any, crc: Any, table: Any) -> Any:
    """Return the checksum after the remaining bytes, fewer than sixteen."""
    low, n8 = np.uint64(0xFF), np.uint64(8)
    if at + 8 <= end:
        crc = _sixteen(np.uint64(0), _u64(data, at) ^ crc, table)
        at += 8
    while at < end:
        crc = crc >> n8 ^ np.uint64(table[0, (crc ^ np.uint64(data[at])) & low])
        at += 1
    return crc


_rest = numba.njit(_by_bytes, inline="always")


def _crc32_tables(data: Any, at: int, end: int, table: Any) -> Any:
    crc = top = np.uint64(0xFFFFFFFF)
    while at + 16 <= end:
        crc = _sixteen(_u64(data, at) ^ crc, _u64(data, at + 8), table)
        at += 16
    return _rest(data, at, end, crc, table) ^ top


def _crc32_folded(data: Any, at: int, end: int, table: Any) -> Any:
    crc = top = np.uint64(0xFFFFFFFF)
    steps = (end - at) >> 4
    if steps > 0:
        a, b = _fold(data, at, steps)
        crc = _sixteen(a, b, table)
        at += steps << 4
    return _rest(data, at, end, crc, table) ^ top


# ---- folding, in LLVM's own words: numba has no 128 bits --------------------------------------------------------


@intrinsic  # type: ignore[untyped-decorator]
def _fold(typing: Any, data: Any, at: Any, steps: Any) -> Any:
    """Return sixteen bytes, as two numbers, with the remainder of `steps` (at least one) times sixteen bytes at
    `at`."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        blocks = builder.bitcast(_octet(context, builder, signature, args), _PAIR.as_pointer())
        state = cgutils.alloca_once(builder, _PAIR)
        begun = cgutils.alloca_once_value(builder, ir.Constant(_I64, 1))
        top = ir.Constant(_PAIR, [0xFFFFFFFF, 0])
        with builder.if_else(builder.icmp_signed(">=", args[2], ir.Constant(_I64, 2 * _LANES))) as (many, few):
            with many:
                builder.store(_side_by_side(builder, blocks, args[2], top), state)
                builder.store(builder.and_(args[2], ir.Constant(_I64, -_LANES)), begun)
            with few:
                builder.store(builder.xor(_block(builder, blocks, ir.Constant(_I64, 0)), top), state)
        with cgutils.for_range(builder, args[2], start=builder.load(begun)) as loop:
            moved = _moved(builder, builder.load(state), _BY_16)
            builder.store(builder.xor(moved, _block(builder, blocks, loop.index)), state)
        found = builder.load(state)
        halves = [builder.extract_element(found, ir.Constant(ir.IntType(32), n)) for n in (0, 1)]
        return context.make_tuple(builder, signature.return_type, halves)

    return types.UniTuple(types.uint64, 2)(data, types.int64, types.int64), build


def _side_by_side(builder: Any, blocks: Any, steps: Any, top: Any) -> Any:
    """Fold the largest multiple of _LANES blocks in that many states, and join these into one."""
    lanes = [cgutils.alloca_once(builder, _PAIR) for _ in range(_LANES)]
    for n, lane in enumerate(lanes):
        first = _block(builder, blocks, ir.Constant(_I64, n))
        builder.store(builder.xor(first, top) if n == 0 else first, lane)
    with cgutils.for_range(builder, builder.ashr(steps, ir.Constant(_I64, 2)), start=ir.Constant(_I64, 1)) as loop:
        begin = builder.mul(loop.index, ir.Constant(_I64, _LANES))
        for n, lane in enumerate(lanes):
            block = _block(builder, blocks, builder.add(begin, ir.Constant(_I64, n)))
            builder.store(builder.xor(_moved(builder, builder.load(lane), _BY_64), block), lane)
    state = builder.load(lanes[0])
    for lane in lanes[1:]:
        state = builder.xor(_moved(builder, state, _BY_16), builder.load(lane))
    return state


def _block(builder: Any, blocks: Any, n: Any) -> Any:
    return builder.load(builder.gep(blocks, [n]), align=1)


def _moved(builder: Any, state: Any, by: tuple[int, int]) -> Any:
    half = ir.IntType(8)
    kind = ir.FunctionType(_PAIR, [_PAIR, _PAIR, half])
    multiply = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.pclmulqdq")
    factors = ir.Constant(_PAIR, list(by))
    low = builder.call(multiply, [state, factors, ir.Constant(half, 0x00)])
    high = builder.call(multiply, [state, factors, ir.Constant(half, 0x11)])
    return builder.xor(low, high)


def best() -> Crc:
    """Return the fastest implementation for the processor that numba compiles for."""
    features = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    return _crc32_folded if "+pclmul" in features else _crc32_tables
