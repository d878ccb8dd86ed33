"""Position of a source partition in the target: a committed offset, written in the same transaction as the copies.

partition   the offset is committed for a target partition: brokers only accept offsets of topics they have,
            and the source topic may have another name there, or more partitions
metadata    the creation of the source topic (czxid), so that the position of a deleted topic, or of a topic of another
            cluster, is not mistaken for one of this log

A position refers to one log, read from one start.  If a period begins below it, `beginning` decides:

    how the period began                        begins at                what the position means
    committed offset, after a claim or restart  the committed offset     a kill came before the source's commit: read
                                                                         from the position
    parked, or the lease lapsed: fetched again  what is done             the same: a transaction with an unknown
                                                                         outcome was committed
    before_start of a listener, a seek          the program's offset     the same; a mirror has neither
    out of range, and the log begins later      the log's start          the same: only the oldest messages are gone
    out of range, and inside again              the former offset        the same: a follower led for a moment
    out of range, and the log ends before       auto.offset.reset        the log was cut: its new messages are not
                                                                         in the target, so the position is set back
    nothing committed                           auto.offset.reset        the same, unless the position names the topic's
                                                                         creation: then the log is still the same
    committed offset of a former topic          auto.offset.reset        as nothing committed

"Read from the position" seeks the consumer to it instead of discarding what it fetches.  If the position lies outside
the log, auto.offset.reset decides as usual, and the reset sets the position back.  A reset is followed once: later
periods of the same ownership begin behind the position that was set back.  If the process is killed between the
source's commit of a reset's start and the transaction that sets the position back, the old position remains; it counts
again if the log has grown beyond it meanwhile.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from kafkawire.model import ProducerId, TopicPartition, partition_named
from zkconsumer.fetching.position import Reset

_TOPIC = "topic="
_PROBE = f"{_TOPIC}none, "


class CommittedOffset(Protocol):
    """Interface of a committed offset, as kafkawire.protocol.stableoffsets.StableOffset has it."""

    @property
    def offset(self) -> int: ...
    @property
    def metadata(self) -> str: ...


class Position(NamedTuple):
    """Source offset at which the copies in the target end.

    same_topic: the commit names the creation of the topic that is read now.  at: the target partitions for which this
    position, or an older one, is committed.
    """

    offset: int
    same_topic: bool = False
    at: tuple[TopicPartition, ...] = ()


class Beginning(Enum):
    """Start of a period that has a position in the target."""

    HERE = "at what was fetched"
    AT_POSITION = "at the position"
    SET_BACK = "at what was fetched, and the position is set back"


# ---- names --------------------------------------------------------------------------------------------------------


def name_of(prefix: str, source: str, tp: TopicPartition) -> str:
    """Return the name of a source partition in the target: its transactional id, and the group of its position.

    The name is PREFIX-SOURCE-TOPIC-PARTITION.  Each partition has its own, because its owner must fence its previous
    owner alone.  If prefix or source contain "-", or the partition belongs to 0.7 (BROKER-INDEX), the lengths
    of prefix, source and topic are appended, so that no two partitions of any mirrors have the same name:

        mirror-eu-west-orders-0             prefix mirror, source eu, topic west-orders
        mirror-eu-west-orders-0@6.7.6       prefix mirror, source eu-west, topic orders
    """
    joined = former_name_of(prefix, source, tp)
    if "-" not in f"{prefix}{source}{tp.partition}":
        return joined
    return f"{joined}@{len(prefix)}.{len(source)}.{len(tp.topic)}"


def former_name_of(prefix: str, source: str, tp: TopicPartition) -> str:
    """Return the name without lengths, under which earlier releases kept the position."""
    return f"{prefix}-{source}-{tp.topic}-{tp.partition}"


def is_shared(name: str, others: Collection[tuple[str, str]]) -> bool:
    """True if a name without lengths may also belong to a partition of another source.

    others: prefix and source of each other source.
    """
    for prefix, source in others:
        begins = f"{prefix}-{source}-"
        topic, _, partition = name.removeprefix(begins).rpartition("-")
        if name.startswith(begins) and topic and partition_named(partition) is not None:
            return True
    return False


# ---- positions ----------------------------------------------------------------------------------------------------


def metadata_of(topic: int | None) -> str:
    """Return the metadata of a position.  `topic`: the czxid of the source's topic, or None if unknown."""
    return "" if topic is None else f"{_TOPIC}{topic}"


def probe_metadata(producer: ProducerId) -> str:
    """Return the metadata of a probe: an offset that is committed only to be read back (producer.coordinators.Probe).

    Releases that do not know probes treat it as the position of another topic.
    """
    return f"{_PROBE}probe of {producer.id} in epoch {producer.epoch}"


def position_of(found: Mapping[TopicPartition, CommittedOffset], topic: int | None) -> Position | None:
    """Return where the copies in the target end, or None if nothing of this log was copied exactly once before.

    found: all offsets that the partition's group has committed: one row, or several if the target topic was renamed.
    """
    mine = {tp: row for tp, row in found.items() if not _of_another(row.metadata, topic)}
    if not mine:
        return None
    named = {row.offset for row in mine.values() if topic is not None and row.metadata == metadata_of(topic)}
    offset = max(row.offset for row in mine.values())
    return Position(offset, offset in named, tuple(mine))


def former_position_of(
    found: Mapping[TopicPartition, CommittedOffset], topic: int | None, target: str, shared: bool
) -> Position | None:
    """Return the position that an earlier release committed under the name without lengths, or None if no commit
    certainly belongs to this source partition.

    target: the target topic.  shared: partitions of another source may have had that name; then only a commit that
    names the topic's creation counts.
    """
    position = position_of({tp: row for tp, row in found.items() if tp.topic == target}, topic)
    return None if position is None or (shared and not position.same_topic) else position._replace(at=())


def _of_another(metadata: str, topic: int | None) -> bool:
    """True if the metadata names another log than that of `topic`.  If either is unknown, both are taken as the same
    log."""
    if metadata.startswith(_PROBE):
        return True
    return topic is not None and metadata.startswith(_TOPIC) and metadata != metadata_of(topic)


def beginning(position: Position | None, start: int, reset: Reset | None) -> Beginning:
    """Decide how a period begins whose first set starts at `start`.  reset: the reset that it began with; None if it
    began without one, or if the position was already set back for it."""
    if position is None or position.offset <= start:
        return Beginning.HERE
    if reset is not None and reset.sets_back(position.same_topic):
        return Beginning.SET_BACK
    return Beginning.AT_POSITION
