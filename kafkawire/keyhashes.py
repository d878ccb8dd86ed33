"""Hashes of keys by which producers choose partitions, for one key or for all keys of columns.

    MURMUR2           murmur2 & 0x7fffffff, as the Java producer (org.apache.kafka.common.utils.Utils)
    ABSOLUTE          |Arrays.hashCode|, 0 for the smallest int32: DefaultPartitioner and ByteArrayPartitioner of 0.8.2
    MASKED            Arrays.hashCode & 0x7fffffff: DefaultPartitioner and ByteArrayPartitioner of 0.8.0 and 0.8.1
    ABSOLUTE_07       |Arrays.hashCode|, which fails for the smallest int32: the partitioner of 0.7

index(rule, key, n)      index of the partition, of n, that a key belongs to; FAILS if the rule has none
indexes(rule, keys, n)   indexes of many keys of one size at once; indexes_at(): of keys at equal distances
KeyIndexes(of_key, n)    indexes of many keys by any function of a key; recent ones are cached

The compiled form of index() for all rows of columns is Kernels.indexes (kafkawire.formats.keyloops).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from groundwork.java import bytes_hash

MURMUR2, ABSOLUTE, MASKED, ABSOLUTE_07 = range(4)
KEYLESS, FAILS = -1, -2  # in place of an index
REMEMBERED = 1 << 15  # keys whose index is kept
LARGEST = 128  # maximum size of such a key in bytes
QUICK = 24  # bytes of a key; hashing keys up to this size costs no more than a cache lookup
MANY = 32  # keys; for fewer, one call per key costs less
_LANE = 8  # bytes per key in a large integer
_BATCH = 4096  # keys per batch, which stays in the processor's cache
_POWERS: list[int] = [31**n for n in range(LARGEST + 1)]
_SIGN_FLIPPED = bytes(byte ^ 0x80 for byte in range(256))
_MASK = 0xFFFFFFFF
_INT_MIN = -(1 << 31)
_M = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """Return org.apache.kafka.common.utils.Utils.murmur2 as an unsigned number."""
    h = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def absolute(code: int) -> int:
    """Return |code|, 0 for the smallest int32."""
    return 0 if code == _INT_MIN else abs(code)


def index(rule: int, key: bytes, partitions: int) -> int:
    """Return the index of a key's partition; FAILS if ABSOLUTE_07 has none."""
    if rule == MURMUR2:
        return (murmur2(key) & 0x7FFFFFFF) % partitions
    code = bytes_hash(key)
    if rule == MASKED:
        return (code & 0x7FFFFFFF) % partitions
    if rule == ABSOLUTE_07 and code == _INT_MIN:
        return FAILS if partitions & (partitions - 1) else -code % partitions
    return absolute(code) % partitions


def indexes(rule: int, keys: Sequence[bytes], partitions: int) -> Sequence[int] | None:
    """Return index() of each key.  None if keys have to be hashed one by one: they are not all of one size from 1 to
    LARGEST bytes, or ABSOLUTE_07 may fail for one of them."""
    size = len(keys[0])
    if not 0 < size <= LARGEST or set(map(len, keys)) != {size}:
        return None
    return indexes_at(rule, b"".join(keys), 0, size, size, len(keys), partitions)


def indexes_at(
    rule: int, data: bytes, at: int, size: int, step: int, count: int, partitions: int
) -> Sequence[int] | None:
    """Return index() of each of `count` keys (at least one) of `size` bytes; the first begins at byte `at`, each next
    one `step` bytes later.  None if ABSOLUTE_07 may fail for one of them.

    A large integer has a lane of 64 bits for each key, so that one multiplication or addition computes all of them.
    Numbers in lanes have 32 bits: a product of two fits, and then its upper half is cleared.
    """
    found: list[bytes] = []
    codes_of = _murmur2_codes if rule == MURMUR2 else _java_codes
    for first in range(0, count, _BATCH):
        some = min(_BATCH, count - first)
        codes = codes_of(data, at + first * step, size, step, some)
        if rule in (ABSOLUTE, ABSOLUTE_07):
            negative = codes >> 31 & _ones(some)
            codes = (codes ^ negative * _MASK) + negative
            if rule == ABSOLUTE_07 and codes >> 31 & _ones(some):
                return None
        found.append(_remainders(codes & _lowest(31), partitions).to_bytes(_LANE * some, "little"))
    lanes = b"".join(found)
    if partitions <= 256:
        return lanes[::_LANE]
    numbers = array("Q", lanes)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _java_codes(data: bytes, at: int, size: int, step: int, count: int) -> int:
    """Return Arrays.hashCode of each key, as an unsigned number.

    It is a power of 31 and the sum of the signed bytes, each times a power of 31.  Of eight bytes at a time, adjacent
    ones are added to four numbers, these to two, and these to one.
    """
    begin = _alike_at_first(data, at, size, step, count)
    code, left = bytes_hash(data[at : at + begin]), size - begin
    # Bytes are read 128 too large, to be unsigned.
    code = code * _POWERS[left] - 128 * sum(_POWERS[:left])
    lanes = 0
    while begin < size:
        end = size - (size - begin - 1) // _LANE * _LANE
        places = reversed(range(begin, end))
        eight = _laid([_column(data, at + n, step, count).translate(_SIGN_FLIPPED) for n in places], count)
        if end - begin > 1:
            eight = (eight & _lowest(8, 16)) + _POWERS[1] * (eight >> 8 & _lowest(8, 16))
        if end - begin > 2:
            eight = (eight & _lowest(16, 32)) + _POWERS[2] * (eight >> 16 & _lowest(16, 32))
        if end - begin > 4:
            eight = (eight & _lowest(32)) + _POWERS[4] * (eight >> 32 & _lowest(32))  # less than 2 to the 43rd
        # The power is 0.58 times 2 to the 32nd, so the sum fits.
        lanes = (lanes & _lowest(32)) * (_POWERS[_LANE] & _MASK) + eight
        begin = end
    return (lanes & _lowest(32)) + (code & _MASK) * _ones(count) & _lowest(32)


def _murmur2_codes(data: bytes, at: int, size: int, step: int, count: int) -> int:
    """Return murmur2() of each key."""
    low, ones = _lowest(32), _ones(count)
    h = (0x9747B28C ^ size) * ones
    whole = size & ~3
    for begin in range(0, whole, 4):
        k = _laid([_column(data, at + n, step, count) for n in range(begin, begin + 4)], count) * _M & low
        k = (k ^ k >> 24 & _lowest(8)) * _M & low
        h = h * _M & low ^ k
    if size > whole:
        h = (h ^ _laid([_column(data, at + n, step, count) for n in range(whole, size)], count)) * _M & low
    h = (h ^ h >> 13 & _lowest(19)) * _M & low
    return h ^ h >> 15 & _lowest(17)


def _remainders(codes: int, partitions: int) -> int:
    """Return the remainder of each number of 31 bits divided by `partitions`."""
    bits = (partitions - 1).bit_length()
    if partitions == 1 << bits:
        return codes & _lowest(bits) if bits else 0
    # Multiplying with the inverse, rounded up, is exact for them, and has at most 63 bits.
    inverse = (1 << 31 + bits) // partitions + 1
    return codes - partitions * (codes * inverse >> 31 + bits & _lowest(33 - bits))


def _alike_at_first(data: bytes, at: int, size: int, step: int, count: int) -> int:
    """Return how many leading bytes all keys have in common, at most one less than their size."""
    first, last = data[at : at + size], data[at + (count - 1) * step :][:size]
    common = 0
    while common < size - 1 and first[common] == last[common]:
        if _column(data, at + common, step, count).count(first[common]) < count:
            break
        common += 1
    return common


def _column(data: bytes, at: int, step: int, count: int) -> bytes:
    """Return the byte at `at`, and the following bytes at distance `step`."""
    return data[at : at + (count - 1) * step + 1 : step]


def _laid(columns: Sequence[bytes], count: int) -> int:
    """Return the bytes of each key in its lane, the first column lowest."""
    lanes = bytearray(_LANE * count)
    for n, each in enumerate(columns):
        lanes[n::_LANE] = each
    return int.from_bytes(lanes, "little")


@lru_cache(maxsize=64)
def _lowest(bits: int, of: int = 64) -> int:
    """Return a mask of the lowest `bits` bits of each number of `of` bits, for all lanes."""
    return int.from_bytes(((1 << bits) - 1).to_bytes(of // 8, "little") * (_BATCH * 64 // of), "little")


@lru_cache(maxsize=8)
def _ones(count: int) -> int:
    """Return 1 in each of `count` lanes."""
    return _lowest(1) & (1 << 64 * count) - 1


class KeyIndexes(dict[bytes | None, int]):
    """Cache of the partition index of keys; KEYLESS for None. of_key(key, partitions) is called for unknown keys, and
    its exceptions are passed on.  At most REMEMBERED keys of at most LARGEST bytes are kept.

    rule: the rule that of_key() implements, by which many unknown keys are hashed at once; None: of_key() is another
    function.
    """

    def __init__(self, of_key: Callable[[bytes, int], int], partitions: int, rule: int | None = None) -> None:
        super().__init__()
        self._of_key = of_key
        self._partitions = partitions
        self._rule = rule

    def __missing__(self, key: bytes | None) -> int:
        if key is None:
            found = KEYLESS
        else:
            found = self._of_key(key, self._partitions)
            if len(key) > LARGEST:
                return found
        if len(self) >= REMEMBERED:
            self.clear()
        self[key] = found
        return found

    def add(self, keys: Sequence[bytes | None], found: list[int]) -> None:
        """Append the index of each key to `found`; if of_key() raises, the indexes before that key are there."""
        if self._rule is not None and len(keys) >= MANY:
            short = keys[0] is not None and len(keys[0]) <= QUICK and None not in keys
            hashed = indexes(self._rule, keys, self._partitions) if short else None  # type: ignore[arg-type]
            if hashed is not None:
                found += hashed
                return
            known = list(map(self.get, keys))
            missing = known.count(None)
            if not missing:
                found += known  # type: ignore[arg-type]  # as none is None
                return
            if missing >= MANY:
                self._learn({key for key, index in zip(keys, known, strict=True) if index is None} - {None})
        found.extend(map(self.__getitem__, keys))

    def _learn(self, keys: Iterable[bytes | None]) -> None:
        """Hash unknown keys, those of one size together, as long as the cache has space for them."""
        by_size: dict[int, list[bytes]] = {}
        for key in keys:
            if key is not None:
                by_size.setdefault(len(key), []).append(key)
        for alike in by_size.values():
            if len(alike) < MANY or len(alike) > REMEMBERED:
                continue
            learned = indexes(self._rule, alike, self._partitions) if self._rule is not None else None
            if learned is not None:
                if len(self) + len(alike) > REMEMBERED:
                    self.clear()
                self.update(zip(alike, learned, strict=True))
