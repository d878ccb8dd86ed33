"""Sums over messages that two logs can be held against each other by.  Pure, and without numpy: see hashing.py.

    count        messages
    value_crcs   sum of the CRC-32 of their values, a null as 0: the figure that a load's manifest has
    content      sum of their hashes: the same for the same messages in any order
    order        the same for the same messages in the same order only
    first, last  offsets; None where messages of several partitions are added up

A message's hash is made of the CRC-32 and the length of its key and of its value (null and empty differ).  Offset and
time are not in it: a mirror changes the first, and some change the second.
"""

from __future__ import annotations

from dataclasses import dataclass

MASK = (1 << 64) - 1
ORDER_BASE = 0x9E3779B97F4A7C15  # odd, so that no power of it loses bits
SIZES = 0xD6E8FEB86659FD93
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of splitmix64, which spreads each bit over all


def message_hash(key_crc: int, key_size: int, value_crc: int, value_size: int) -> int:
    """64 bits.  Sizes are −1 for null, whose checksum is 0."""
    x = (key_crc << 32 | value_crc) + ((key_size + 1) << 32 | (value_size + 1)) * SIZES & MASK
    x = (x ^ x >> 30) * MIX_1 & MASK
    x = (x ^ x >> 27) * MIX_2 & MASK
    return x ^ x >> 31


@dataclass(frozen=True, slots=True)
class Figures:
    """The sums of some messages."""

    count: int = 0
    value_crcs: int = 0
    content: int = 0  # modulo 2**64
    order: int | None = 0  # modulo 2**64; None: of messages that have no order among each other
    first: int | None = None
    last: int | None = None

    def then(self, later: Figures) -> Figures:
        """Of these and the messages that follow them in the same partition."""
        if not self.count or not later.count:
            return self if self.count else later
        order = None
        if self.order is not None and later.order is not None:
            order = (self.order * pow(ORDER_BASE, later.count, 1 << 64) + later.order) & MASK
        return Figures(*self._sums(later), order, self.first, later.last)

    def beside(self, other: Figures) -> Figures:
        """Of these and messages of another partition."""
        return Figures(*self._sums(other), None, None, None)

    def _sums(self, other: Figures) -> tuple[int, int, int]:
        content = (self.content + other.content) & MASK
        return self.count + other.count, self.value_crcs + other.value_crcs, content

    def same_messages(self, other: Figures) -> bool:
        """Whether both are sums of the same messages, in whatever order."""
        return (self.count, self.value_crcs, self.content) == (other.count, other.value_crcs, other.content)

    def same(self, other: Figures) -> bool:
        """The same messages in the same order, where both have one."""
        ordered = self.order is not None and other.order is not None
        return self.same_messages(other) and (not ordered or self.order == other.order)
