"""Hashes of keys by which producers choose partitions, of one key or of all keys of some columns.

    MURMUR2           murmur2 & 0x7fffffff, as the Java producer (org.apache.kafka.common.utils.Utils)
    ABSOLUTE          |Arrays.hashCode|, 0 for the smallest int32: DefaultPartitioner and ByteArrayPartitioner of 0.8.2
    MASKED            Arrays.hashCode & 0x7fffffff: those of 0.8.0 and 0.8.1
    ABSOLUTE_07       |Arrays.hashCode|, which fails for the smallest int32: that of 0.7

index(rule, key, n)      index of the partition, of n, that a key belongs to; FAILS where the rule has none
KeyIndexes(of_key, n)    indexes of many keys, by any function of a key: those of late are remembered

The compiled form of index() for all rows of columns is Kernels.indexes (kafkawire.formats.keyloops).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from groundwork.java import bytes_hash

MURMUR2, ABSOLUTE, MASKED, ABSOLUTE_07 = range(4)
KEYLESS, FAILS = -1, -2  # in place of an index
REMEMBERED = 1 << 15  # keys whose index is kept
LARGEST = 128  # bytes of such a key
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


class KeyIndexes(dict[bytes | None, int]):
    """The index of each key's partition, KEYLESS for None.  of_key(key, partitions) is called for those that are not
    known, and what it raises comes out.  At most REMEMBERED keys of at most LARGEST bytes are kept.
    """

    def __init__(self, of_key: Callable[[bytes, int], int], partitions: int) -> None:
        super().__init__()
        self._of_key = of_key
        self._partitions = partitions

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

    def add(self, keys: Iterable[bytes | None], found: list[int]) -> None:
        """Append the index of each key to `found`; where of_key() raises, those before it are there."""
        found.extend(map(self.__getitem__, keys))
