"""Which partition a message goes to: functions of (key, number of partitions), and a choice for messages without key.

    default_partitioner      the 0.8.2 Scala producer's: |hashCode| mod n, of text or of bytes
    byte_array_partitioner   the same of bytes, as its ByteArrayPartitioner
    murmur2_partitioner      the Java producer's (0.8.1 and later): murmur2 of the key's bytes

|hash| of the smallest int32 is 0 (0.8.2); 0.8.0 and 0.8.1 masked the sign bit instead, so that negative hashes went to
other partitions (KAFKA-1469).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from groundwork.java import bytes_hash, string_hash
from kafkawire.model import PartitionId

INT_MIN = -(1 << 31)
MASK = 0xFFFFFFFF
M = 0x5BD1E995


def _abs(value: int) -> int:
    return 0 if value == INT_MIN else abs(value)


def byte_array_partitioner(key: bytes | bytearray | memoryview, partitions: int) -> int:
    """|Arrays.hashCode(key)| mod n."""
    return _abs(bytes_hash(bytes(key))) % partitions


def default_partitioner(key: object, partitions: int) -> int:
    """|key.hashCode()| mod n, for keys whose hash code is the same everywhere: text, bytes, whole numbers (as Integer
    or Long).  TypeError for others."""
    if isinstance(key, bytes | bytearray | memoryview):
        return byte_array_partitioner(key, partitions)
    if isinstance(key, str):
        return _abs(string_hash(key)) % partitions
    if isinstance(key, int) and not isinstance(key, bool) and -(1 << 63) <= key < 1 << 63:
        return _abs(_int_hash(key)) % partitions
    raise TypeError(f"a key of type {type(key).__name__} has no stable hash: give text, bytes or a number")


def _int_hash(key: int) -> int:
    """Integer.hashCode where it fits, else Long.hashCode: the two halves together, as int32."""
    if INT_MIN <= key < 1 << 31:
        return key
    folded = (key ^ (key >> 32)) & MASK
    return folded - (1 << 32) if folded >= 1 << 31 else folded


def murmur2_partitioner(key: bytes | str, partitions: int) -> int:
    """(murmur2(key) & 0x7fffffff) mod n; text counts as UTF-8."""
    data = key.encode() if isinstance(key, str) else bytes(key)
    return (murmur2(data) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """org.apache.kafka.common.utils.Utils.murmur2, as an unsigned number."""
    h = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * M & MASK
        k = (k ^ k >> 24) * M & MASK
        h = h * M & MASK ^ k
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * M & MASK
    h = (h ^ h >> 13) * M & MASK
    return h ^ h >> 15


class Sticky:
    """For messages without a key: one random partition with a leader per topic, until forget().

    As the Scala producer does it, so that a producer does not connect to every broker for a handful of messages.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()
        self._chosen: dict[str, PartitionId] = {}

    def choose(self, topic: str, with_leader: Sequence[PartitionId]) -> PartitionId | None:
        """A partition among those with a leader; None when there are none."""
        chosen = self._chosen.get(topic)
        if chosen is None or chosen not in with_leader:
            if not with_leader:
                return None
            chosen = self._chosen[topic] = self._rng.choice(with_leader)
        return chosen

    def forget(self, topic: str | None = None) -> None:
        """Choose anew, for one topic or for all."""
        if topic is None:
            self._chosen.clear()
        else:
            self._chosen.pop(topic, None)
