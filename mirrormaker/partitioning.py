"""Partitioning: which partition of a target topic each message of a source goes to.  Pure.

    identity   partitions keep their number
    key        a message with a key goes where the partitioner puts it (partitioner.class of the target; by default
               0.8.2's ByteArrayPartitioner), one without a key as with `source`, or as unkeyed.partitioner says
    source     all of a source partition goes to one target partition, whatever other partitions exist: so a source
               partition keeps its order when brokers of the source come and go
    spread     ignores the key: random, in turn, or all to one partition for a while (partitioner.class of the target)

Partitions of 0.7 belong to brokers and have no number.  A Numbering (option broker.partitions) gives them one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

from groundwork.sentences import counted
from kafkawire.columns import Column, Columns, as_list, laid
from kafkawire.columns import Part as Stretch
from kafkawire.errors import LocalError
from kafkawire.grouping import MANY, indexes_of_keys
from kafkawire.kernels import ready
from kafkawire.keyhashes import KEYLESS, KeyIndexes
from kafkawire.model import BrokerPartition, PartitionId, TopicPartition
from mirrormaker.masking import raised
from producer.errors import PartitionerFailed
from producer.partitioners import UnkeyedPartitioner, byte_array_partitioner, is_pure, rule_of

Scheme = Literal["identity", "key", "source", "spread"]
STRIDE = 13  # spreads neighbours on one broker, and one index on several, over usual numbers of partitions


class NoSuchPartition(LocalError):
    """Raised when partitioning is identity and the target topic has no partition of that number."""


class RowRefused(LocalError):
    """Raised when a partitioner failed at a row of some columns."""

    def __init__(self, row: int, why: PartitionerFailed) -> None:
        super().__init__(str(why))
        self.row = row


@dataclass(frozen=True, slots=True)
class Numbering:
    """Numbers for the partitions of 0.7: those of the first broker from 0, then those of the next broker."""

    counts: tuple[tuple[int, int], ...] = ()  # (broker id, number of partitions)

    def number(self, partition: PartitionId) -> PartitionId | None:
        """Return the number of a partition, or None if its broker is not listed.  A partition that has a number keeps
        it."""
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
        """Return the number of partitions of all brokers."""
        return sum(count for _, count in self.counts)

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __str__(self) -> str:
        return ",".join(f"{broker}:{count}" for broker, count in self.counts)


UNNUMBERED = Numbering()


def numbering(raw: object) -> Numbering:
    """Return the numbering in option `broker.partitions`: `0:2,1:3` or a mapping.  Raises ValueError."""
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


def by_source(partition: PartitionId, targets: Sequence[PartitionId]) -> PartitionId:
    """Return the target partition that all of a source partition goes to.

    Numbered targets: the number, or broker + 13 × index for a partition of 0.7, modulo the number of targets.  Targets
    of 0.7: the one with the highest hash weight for this source partition, so that a broker which comes or goes only
    moves what goes to it.
    """
    if isinstance(targets[0], BrokerPartition):
        return max(targets, key=lambda target: blake2b(f"{partition}>{target}".encode(), digest_size=8).digest())
    number = partition if isinstance(partition, int) else partition.broker + STRIDE * partition.index
    return targets[number % len(targets)]


@dataclass(frozen=True, slots=True)
class ChosenPartitioner:
    """Settings partitioner.class and unkeyed.partitioner of the target.

    name: as a route shows it; "" without a partitioner.class.  of_key: the index of a key's partition; None if keys are
    ignored.  unkeyed: for messages without a key, or for all if keys are ignored: one of producer.partitioners.UNKEYED;
    "" sends all of a source partition to one target partition.
    """

    name: str = ""
    of_key: Callable[[bytes, int], int] | None = byte_array_partitioner
    unkeyed: str = ""
    refresh_s: float = 600.0  # how long a choice of `sticky` lasts

    @property
    def scheme(self) -> Scheme:
        return "key" if self.of_key is not None else "spread"

    # Known indexes of keys, by the number of partitions; used only if the partitioner is pure.
    known: dict[int, KeyIndexes] = field(default_factory=dict, compare=False, repr=False)

    def index(self, key: bytes, partitions: int) -> int:
        """Return the index of a key's partition.  Raises PartitionerFailed."""
        assert self.of_key is not None
        try:
            index = self.of_key(key, partitions)
        except Exception as exc:  # user code may raise anything
            raise PartitionerFailed(f"partitioner.class {self.name} {raised(exc, (key,))}") from exc
        if type(index) is not int or not 0 <= index < partitions:
            there = f"{counted(partitions, 'partition')}: 0 to {partitions - 1} are there"
            given = index if type(index) is int else f"a {type(index).__name__}"  # do not show it: it may be the key
            raise PartitionerFailed(f"partitioner.class {self.name} gave back {given} for {there}")
        return index

    def indexes(self, partitions: int) -> KeyIndexes | None:
        """Return a cache of key indexes, or None if the partitioner may answer differently the next time."""
        if self.of_key is None or not is_pure(self.of_key):
            return None
        found = self.known.get(partitions)
        if found is None:
            found = self.known[partitions] = KeyIndexes(self.index, partitions, rule_of(self.of_key))
        return found


HASHED = ChosenPartitioner()


class Partitioner:
    """Partitioner of one target topic.  partitions: the topic's, in order.  beyond: why it has no others."""

    def __init__(
        self,
        topic: str,
        scheme: Scheme,
        partitions: Sequence[PartitionId],
        numbering: Numbering = UNNUMBERED,
        chosen: ChosenPartitioner = HASHED,
        beyond: str = "",
    ) -> None:
        self._beyond = beyond
        self.chosen = chosen
        self._topic = topic
        self._scheme = scheme
        self._partitions = partitions
        self._numbering = numbering
        self._keyed = scheme == "key" and chosen.of_key is not None
        self._rule = rule_of(chosen.of_key) if self._keyed and chosen.of_key is not None else None
        self._known = chosen.indexes(len(partitions)) if self._keyed else None
        self._unkeyed = None
        if scheme in ("key", "spread") and chosen.unkeyed:
            self._unkeyed = UnkeyedPartitioner(chosen.unkeyed, chosen.refresh_s)
        self.targets = [TopicPartition(topic, partition) for partition in partitions]
        self._of_source: dict[PartitionId, TopicPartition] = {}  # target of a source partition's messages without a key

    def partition(self, source: PartitionId, key: bytes | None) -> TopicPartition:
        """Return the target partition of a message of a source partition.  Raises NoSuchPartition and
        PartitionerFailed."""
        if key is not None and self._keyed:
            return self.targets[self._index(key)]
        if self._unkeyed is not None:
            return TopicPartition(self._topic, self._unkeyed.choose(self._topic, self._partitions))
        return self.of_source(source)

    def _index(self, key: bytes) -> int:
        return self.chosen.index(key, len(self.targets)) if self._known is None else self._known[key]

    def of_keys(self, source: PartitionId, keys: Sequence[bytes | None]) -> Column:
        """Return for each of neighbouring messages of a source partition the index of its target, by their keys.

        Raises NoSuchPartition and RowRefused.
        """
        quick = ready() if self._rule is not None and len(keys) >= MANY else None
        if quick is not None:
            return self.indexes(source, laid(quick, keys, [None] * len(keys), None, None), len(keys))
        keyless = self._keyless(source)
        return self._filled(self._by_key(keys, keyless) if self._keyed else [keyless] * len(keys))

    def _keyless(self, source: PartitionId) -> int:
        """Return the index of the target for neighbouring messages without a key, or KEYLESS if each is chosen
        separately."""
        if self._unkeyed is None:
            return self.targets.index(self.of_source(source))
        if self._unkeyed.whole_rounds:
            return self._unkeyed.choose_many(self._topic, self._partitions, 1)[0]
        return KEYLESS

    def indexes(self, source: PartitionId, columns: Columns, end: int) -> Column:
        """Return the target's index for each of the first rows of columns, which hold messages of a source partition.

        Raises NoSuchPartition and RowRefused.
        """
        keyless = self._keyless(source)
        if not self._keyed:
            return self._filled([keyless] * end)
        quick = ready() if end >= MANY else None
        if quick is not None and self._rule is not None:
            found, least = quick.indexes(columns, end, self._rule, len(self.targets), keyless)
            if least >= 0:
                return found
            if least == KEYLESS:
                return self._filled(as_list(found))
        if quick is None and self._rule is not None:
            hashed = indexes_of_keys(columns, end, self._rule, len(self.targets), keyless)
            if hashed is not None:
                return hashed
        return self._filled(self._by_key(Stretch(columns, 0, end).keys(), keyless))

    def _by_key(self, keys: Sequence[bytes | None], keyless: int) -> list[int]:
        """Return the index of each key, `keyless` for None.  Raises RowRefused."""
        found: list[int] = []
        try:
            if self._known is not None:
                self._known.add(keys, found)
            else:
                index = self._index
                found.extend(KEYLESS if key is None else index(key) for key in keys)
        except PartitionerFailed as failed:
            raise RowRefused(len(found), failed) from failed
        if keyless != KEYLESS and KEYLESS in found:
            return [keyless if index == KEYLESS else index for index in found]
        return found

    def _filled(self, found: list[int]) -> list[int]:
        """Fill in a choice for each message that has none yet."""
        left = found.count(KEYLESS)
        if not left:
            return found
        assert self._unkeyed is not None
        chosen = self._unkeyed.choose_many(self._topic, self._partitions, left)
        if left == len(found):
            return chosen
        others = iter(chosen)
        return [next(others) if index == KEYLESS else index for index in found]

    def named(self, partition: object) -> TopicPartition:
        """Return a partition that a handler chose: a number, or a BrokerPartition.  Raises NoSuchPartition."""
        if partition in self._partitions and type(partition) in (int, BrokerPartition):
            return TopicPartition(self._topic, partition)  # type: ignore[arg-type]  # which is one of them
        there = ", ".join(map(str, self._partitions[:12])) + (", …" if len(self._partitions) > 12 else "")
        raise NoSuchPartition(f"topic {self._topic} has no partition {partition!r}; it has {there}")

    @property
    def single(self) -> bool:
        """True if all of a source partition goes to one target partition."""
        return not self._keyed and self._unkeyed is None

    def of_source(self, source: PartitionId) -> TopicPartition:
        """Return the one target partition of a source partition's messages without a key, so that they keep their
        order.

        Raises NoSuchPartition.
        """
        found = self._of_source.get(source)
        if found is None:
            number = self._same(source) if self._scheme == "identity" else by_source(source, self._partitions)
            found = self._of_source[source] = TopicPartition(self._topic, number)
        return found

    def _same(self, source: PartitionId) -> PartitionId:
        """Return the target partition with the number of the source partition."""
        number = self._numbering.number(source)
        if number is None:
            raise NoSuchPartition(
                f"{self._topic}/{source}: broker.partitions {self._numbering} gives it no number: name its broker, "
                "with as many partitions as it has, behind those that are there"
            )
        if number in self._partitions:
            return number
        if self._beyond:
            raise NoSuchPartition(f"{self._topic}/{source}: {self._beyond}")
        has = f"the target topic has {counted(len(self._partitions), 'partition')}"
        if self._numbering:
            raise NoSuchPartition(
                f"{self._topic}/{source}: broker.partitions makes it {number}, {has}: add partitions to it"
            )
        raise NoSuchPartition(
            f"{self._topic}/{source}: {has} and mirror.partitioning is identity: add partitions to it (by hand, or "
            "mirror.target.grow.partitions: true), or set mirror.partitioning to auto or key"
        )
