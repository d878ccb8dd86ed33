"""Which target partition the messages of a source partition go to, where no key decides.  Pure.

by_source     the same target partition for all of a source partition, whatever other partitions there are: only so
              the order of a source partition is kept when brokers of the source come and go
Numbering     partitions of 0.7 numbered one broker after the other, where a configuration says how many each has
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from kafkawire.model import BrokerPartition, PartitionId

STRIDE = 13  # neighbours on one broker, and the same index on several, spread well over the usual numbers of partitions


def by_source(partition: PartitionId, targets: Sequence[PartitionId]) -> PartitionId:
    """The one of the targets that all of a source partition goes to.

    Numbered targets: the number, or broker + 13 × index of a partition of 0.7, modulo how many there are.  Targets of
    0.7: of all that are there the one that weighs most with this source partition, so that a broker which comes or
    goes moves nothing but what goes to it.
    """
    if isinstance(targets[0], BrokerPartition):
        return max(targets, key=lambda target: blake2b(f"{partition}>{target}".encode(), digest_size=8).digest())
    number = partition if isinstance(partition, int) else partition.broker + STRIDE * partition.index
    return targets[number % len(targets)]


@dataclass(frozen=True, slots=True)
class Numbering:
    """Numbers for the partitions of 0.7: those of the first broker from 0 on, then those of the next."""

    counts: tuple[tuple[int, int], ...] = ()  # broker id, its partitions

    def number(self, partition: PartitionId) -> PartitionId | None:
        """Its number; None: no broker here has it.  One that has a number keeps it."""
        if not isinstance(partition, BrokerPartition):
            return partition
        first = 0
        for broker, count in self.counts:
            if broker == partition.broker:
                return first + partition.index if partition.index < count else None
            first += count
        return None

    @property
    def total(self) -> int:
        """Partitions of all brokers."""
        return sum(count for _, count in self.counts)

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __str__(self) -> str:
        return ",".join(f"{broker}:{count}" for broker, count in self.counts)


def numbering(raw: object) -> Numbering:
    """The option `broker.partitions`: `0:2,1:3` or a mapping.  Raises ValueError."""
    pairs = (
        raw.items() if isinstance(raw, dict) else [entry.split(":") for entry in str(raw).split(",") if entry.strip()]
    )
    counts: list[tuple[int, int]] = []
    try:
        for broker, count in pairs:
            counts.append((int(str(broker)), int(str(count))))
    except ValueError:
        raise ValueError("broker:partitions, several separated by commas (for example 0:2,1:3)") from None
    if any(broker < 0 or count < 1 for broker, count in counts):
        raise ValueError("broker ids from 0 on, each with at least one partition")
    if len({broker for broker, _ in counts}) < len(counts):
        raise ValueError("each broker once")
    return Numbering(tuple(counts))
