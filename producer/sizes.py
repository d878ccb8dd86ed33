"""How large the messages of each topic are, and what a consumer must be able to fetch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

FETCH_DEFAULT = 1 << 20  # fetch.message.max.bytes of the JVM's consumer


@dataclass(slots=True)
class TopicSizes:
    """by_bits: messages by the bit length of their entry's size: 7 counts those of 64 to 127 bytes."""

    messages: int = 0
    bytes: int = 0  # of entries, before compression
    largest: int = 0  # entry that a broker stores: a wrapper counts as one
    by_bits: Counter[int] = field(default_factory=Counter)

    @property
    def histogram(self) -> dict[int, int]:
        """Messages by the size that their entry is below (a power of two, in bytes), ascending."""
        return {1 << bits: self.by_bits[bits] for bits in sorted(self.by_bits)}

    @property
    def fetch_message_max_bytes(self) -> int:
        """What consumers need at least: a power of two, and not below the JVM's default."""
        return max(FETCH_DEFAULT, 1 << (self.largest - 1).bit_length()) if self.largest else FETCH_DEFAULT


class Sizes:
    """Of all topics of a producer.  Noted in the hub; read from anywhere."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicSizes] = {}

    def note(self, topic: str, sizes: Sequence[int], wrapper: int) -> None:
        """Messages that are sent as one part, by the sizes of their entries.  wrapper: bytes of the wrapper that holds
        them, 0: there is none."""
        found = self.topics.setdefault(topic, TopicSizes())
        found.messages += len(sizes)
        found.bytes += sum(sizes)
        found.largest = max(found.largest, wrapper or max(sizes, default=0))
        for size, count in Counter(sizes).items():
            found.by_bits[size.bit_length()] += count
