"""Partitioners: functions of (key, number of partitions); UnkeyedPartitioner for messages without a key.

    default_partitioner      the 0.8.2 Scala producer's: |hashCode| mod n, of text, bytes or a number
    masking_partitioner      0.8.0's and 0.8.1's: (hashCode & 0x7fffffff) mod n; differs for negative hashes
    default_partitioner_07   0.7's: |hashCode| mod n, which fails for the smallest int32
    byte_array_partitioner   |hashCode| mod n of bytes, as ByteArrayPartitioner of 0.8.2
    murmur2_partitioner      the Java producer's (0.8.1 and later): murmur2 of the key's bytes

|hash| of the smallest int32 is 0 in 0.8.2 (KAFKA-1469).  A number is an Integer if it fits, else a Long; use Long(7)
for a Long that would fit: the hashes of negative numbers differ.

Values of unkeyed.partitioner, which choose among the partitions that have a leader:

batch         one random partition per round (queue.buffering.max.ms, or a full batch): requests are large, and
              within seconds all partitions get the same load; never the previous one, since it may
              have a request in flight
sticky        one random partition for topic.metadata.refresh.interval.ms or until it loses its leader, as
              0.8's producer (DefaultEventHandler.getPartition; the reason is KAFKA-1017)
random        a random partition for each message, as in 0.7
round-robin   the next partition for each message, as in the Java producer of 0.8.1 and later
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from time import monotonic

from groundwork.java import bytes_hash, string_hash
from kafkawire.dialects import Dialect
from kafkawire.keyhashes import ABSOLUTE, ABSOLUTE_07, MASKED, MURMUR2, absolute, murmur2
from kafkawire.model import PartitionId

INT_MIN = -(1 << 31)
MASK = 0xFFFFFFFF


class Long(int):
    """A key that is a java.lang.Long for the JVM."""


def hash_code(key: object) -> int:
    """Return key.hashCode() as an int32, for keys whose hash code is the same in every JVM: text, bytes
    (java.util.Arrays) and integers.  Raises TypeError for others."""
    if isinstance(key, bytes | bytearray | memoryview):
        return bytes_hash(bytes(key))
    if isinstance(key, str):
        return string_hash(key)
    if isinstance(key, int) and not isinstance(key, bool) and -(1 << 63) <= key < 1 << 63:
        return _int_hash(key)
    raise TypeError(f"a key of type {type(key).__name__} has no stable hash: give text, bytes or a number")


def byte_array_partitioner(key: bytes | bytearray | memoryview, partitions: int) -> int:
    """Return |Arrays.hashCode(key)| mod n."""
    return absolute(bytes_hash(bytes(key))) % partitions


def default_partitioner(key: object, partitions: int) -> int:
    """Return |key.hashCode()| mod n.  Raises TypeError for other keys than text, bytes and integers."""
    return absolute(hash_code(key)) % partitions


def masking_partitioner(key: object, partitions: int) -> int:
    """Return (key.hashCode() & 0x7fffffff) mod n.  Raises TypeError for other keys than text, bytes and integers."""
    return (hash_code(key) & 0x7FFFFFFF) % partitions


def default_partitioner_07(key: object, partitions: int) -> int:
    """Return |key.hashCode()| mod n; the producer refuses a negative result, for which the JVM's |h| stays negative.

    Raises TypeError for other keys than text, bytes and integers.
    """
    code = hash_code(key)
    return -1 if code == INT_MIN and partitions & (partitions - 1) else abs(code) % partitions


def default_of(dialect: Dialect) -> Callable[[object, int], int]:
    """Return the equivalent of kafka.producer.DefaultPartitioner in that release."""
    if dialect.negates_hashes:
        return default_partitioner_07
    return masking_partitioner if dialect.masks_hashes else default_partitioner


def _int_hash(key: int) -> int:
    """Return Integer.hashCode if the number fits, else Long.hashCode: the exclusive or of both halves, as int32."""
    if INT_MIN <= key < 1 << 31 and not isinstance(key, Long):
        return int(key)
    folded = (key ^ (key >> 32)) & MASK
    return folded - (1 << 32) if folded >= 1 << 31 else folded


def murmur2_partitioner(key: bytes | str, partitions: int) -> int:
    """Return (murmur2(key) & 0x7fffffff) mod n; text is encoded as UTF-8."""
    data = key.encode() if isinstance(key, str) else bytes(key)
    return (murmur2(data) & 0x7FFFFFFF) % partitions


# Rules of kafkawire.keyhashes for the functions above, which hash all keys of columns at once.
_RULES: tuple[tuple[Callable[..., int], int], ...] = (
    (murmur2_partitioner, MURMUR2),
    (byte_array_partitioner, ABSOLUTE),
    (default_partitioner, ABSOLUTE),
    (masking_partitioner, MASKED),
    (default_partitioner_07, ABSOLUTE_07),
)


def rule_of(partitioner: Callable[..., int]) -> int | None:
    """Return the rule by which a partitioner of this module hashes keys of bytes; None for other partitioners."""
    return next((rule for function, rule in _RULES if function is partitioner), None)


def is_pure(partitioner: Callable[..., int]) -> bool:
    """True if a partitioner always returns the same index for the same key and number of partitions.

    A program's own partitioner declares it by an attribute `pure = True` of the function, or of the object that has its
    method.
    """
    says = (partitioner, getattr(partitioner, "__self__", None))
    return rule_of(partitioner) is not None or any(getattr(one, "pure", False) is True for one in says)


class Sticky:
    """Sticky choice for messages without a key: one random partition with a leader per topic, until forget().

    The Scala producer does the same, so that a producer does not connect to every broker for a few messages.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()
        self._chosen: dict[str, PartitionId] = {}

    def choose(self, topic: str, with_leader: Sequence[PartitionId]) -> PartitionId | None:
        """Return the topic's partition, one with a leader; None when there is none."""
        chosen = self._chosen.get(topic)
        if chosen is None or chosen not in with_leader:
            if not with_leader:
                return None
            chosen = self._chosen[topic] = self._rng.choice(with_leader)
        return chosen

    def forget(self, topic: str | None = None) -> None:
        """Forget the current choice, for one topic or for all."""
        if topic is None:
            self._chosen.clear()
        else:
            self._chosen.pop(topic, None)


UNKEYED = ("batch", "sticky", "random", "round-robin")


class UnkeyedPartitioner:
    """Partitioner of messages without a key.  way: one of UNKEYED; refresh_s: how long a choice of `sticky` lasts,
    negative: until the partition has no leader."""

    def __init__(
        self, way: str, refresh_s: float, rng: random.Random | None = None, now: Callable[[], float] = monotonic
    ) -> None:
        self.whole_rounds = way in ("batch", "sticky")  # a choice lasts until the round ends
        self._way = way
        self._refresh_s = refresh_s
        self._rng = rng or random.Random()
        self._now = now
        self._chosen: dict[str, tuple[PartitionId, float]] = {}  # sticky: the partition, and until when
        self._next: dict[str, int] = {}  # index of the last choice

    def choose(self, topic: str, led: Sequence[PartitionId]) -> PartitionId:
        """Return one of `led`, which is not empty."""
        if self._way == "sticky":
            return self._sticky(topic, led)
        if self._way == "round-robin":
            number = self._next.get(topic)
            number = self._rng.randrange(len(led)) if number is None else number + 1
            self._next[topic] = number
            return led[number % len(led)]
        if self._way == "batch" and len(led) > 1:
            return self._another(topic, led)
        return self._rng.choice(led)

    def choose_many(self, topic: str, led: Sequence[PartitionId], count: int) -> list[int]:
        """Return the indexes of `count` choices from `led`, which is not empty."""
        if self.whole_rounds:
            return [led.index(self.choose(topic, led))] * count
        if self._way == "round-robin":
            first = self._next.get(topic)
            first = self._rng.randrange(len(led)) if first is None else first + 1
            self._next[topic] = first + count - 1
            return [number % len(led) for number in range(first, first + count)]
        drawn, among = self._rng.getrandbits(32 * count).to_bytes(4 * count, "little"), len(led)
        return [number * among >> 32 for number in memoryview(drawn).cast("I")]

    def _another(self, topic: str, led: Sequence[PartitionId]) -> PartitionId:
        last = self._next.get(topic, -1)
        number = self._rng.randrange(len(led) - (0 <= last < len(led)))
        number += 0 <= last <= number
        self._next[topic] = number
        return led[number]

    def _sticky(self, topic: str, led: Sequence[PartitionId]) -> PartitionId:
        chosen, until = self._chosen.get(topic, (None, 0.0))
        if chosen is None or chosen not in led or (self._refresh_s >= 0 and self._now() >= until):
            chosen = self._rng.choice(led)
            self._chosen[topic] = chosen, self._now() + self._refresh_s
        return chosen
