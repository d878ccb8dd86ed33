"""Hashes of keys by which producers choose partitions, of one key or of all keys of some columns.

    MURMUR2           murmur2 & 0x7fffffff, as the Java producer (org.apache.kafka.common.utils.Utils)
    ABSOLUTE          |Arrays.hashCode|, 0 for the smallest int32: DefaultPartitioner and ByteArrayPartitioner of 0.8.2
    MASKED            Arrays.hashCode & 0x7fffffff: those of 0.8.0 and 0.8.1
    ABSOLUTE_07       |Arrays.hashCode|, which fails for the smallest int32: that of 0.7

index(rule, key, n)      index of the partition, of n, that a key belongs to; FAILS where the rule has none
indexes(rule, keys, n)   the same of many keys of one size at once
KeyIndexes(of_key, n)    indexes of many keys, by any function of a key: those of late are remembered

The compiled form of index() for all rows of columns is Kernels.indexes (kafkawire.formats.keyloops).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Sequence

from groundwork.java import bytes_hash

MURMUR2, ABSOLUTE, MASKED, ABSOLUTE_07 = range(4)
KEYLESS, FAILS = -1, -2  # in place of an index
REMEMBERED = 1 << 15  # keys whose index is kept
LARGEST = 128  # bytes of such a key
MANY = 32  # keys: for fewer a call for each costs less
_LANE = 8
_SIGN_FLIPPED = bytes(byte ^ 0x80 for byte in range(256))
_MASK = 0xFFFFFFFF
_INT_MIN = -(1 << 31)
_M = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """org.apache.kafka.common.utils.Utils.murmur2, as an unsigned number."""
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
    """|code|, 0 for the smallest int32."""
    return 0 if code == _INT_MIN else abs(code)


def index(rule: int, key: bytes, partitions: int) -> int:
    """The index of a key's partition; FAILS where ABSOLUTE_07 has none."""
    if rule == MURMUR2:
        return (murmur2(key) & 0x7FFFFFFF) % partitions
    code = bytes_hash(key)
    if rule == MASKED:
        return (code & 0x7FFFFFFF) % partitions
    if rule == ABSOLUTE_07 and code == _INT_MIN:
        return FAILS if partitions & (partitions - 1) else -code % partitions
    return absolute(code) % partitions


def indexes(rule: int, keys: Sequence[bytes], partitions: int) -> list[int] | None:
    """index() of each key; None: keys have to be asked for one by one, since they are not all of one size from 1 to
    LARGEST bytes, or the rule is MURMUR2, or one of them has the code at which ABSOLUTE_07 may fail.

    Arrays.hashCode is a sum over the bytes of a key, each times a power of 31.  So the sum of all keys is one sum of
    large integers: one for each place in a key, with 64 bits for each key; the lower 32 are its code.
    """
    size, count = len(keys[0]), len(keys)
    data = b"".join(keys)
    if rule == MURMUR2 or not 0 < size <= LARGEST or set(map(len, keys)) != {size}:
        return None
    data = data.translate(_SIGN_FLIPPED)  # signed bytes, 128 larger than they are
    lanes = bytearray(_LANE * count)
    total, factor, weights = 0, 1, 0
    for place in reversed(range(size)):
        lanes[_LANE - 1 :: _LANE] = data[place::size]
        total += int.from_bytes(lanes, "big") * factor
        weights += factor
        factor = factor * 31 & _MASK
    lanes[:] = ((factor - 128 * weights & _MASK).to_bytes(_LANE, "big")) * count
    total += int.from_bytes(lanes, "big")
    halves = array("I", total.to_bytes(_LANE * count, "big"))
    if sys.byteorder == "little":
        halves.byteswap()
    codes = halves[1::2]
    if rule == MASKED:
        return [(code & 0x7FFFFFFF) % partitions for code in codes]
    if rule == ABSOLUTE_07 and -_INT_MIN in codes:
        return None
    return [(code if code <= 0x7FFFFFFF else -code & 0x7FFFFFFF) % partitions for code in codes]


class KeyIndexes(dict[bytes | None, int]):
    """The index of each key's partition, KEYLESS for None.  of_key(key, partitions) is called for those that are not
    known, and what it raises comes out.  At most REMEMBERED keys of at most LARGEST bytes are kept.

    rule: that of of_key(), by which many keys that are not known are hashed at once; None: it is another function.
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
        """Append the index of each key to `found`; where of_key() raises, those before it are there."""
        if self._rule is not None and len(keys) >= MANY:
            known = list(map(self.get, keys))
            missing = known.count(None)
            if not missing:
                found += known  # type: ignore[arg-type]  # as none is None
                return
            if missing >= MANY:
                self._learn({key for key, index in zip(keys, known, strict=True) if index is None} - {None})
        found.extend(map(self.__getitem__, keys))

    def _learn(self, keys: Iterable[bytes | None]) -> None:
        """Hash keys that are not known, those of one size at once, as far as there is room for them."""
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
