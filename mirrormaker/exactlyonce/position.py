"""The position of a source partition as the target has it: a committed offset, written in the copies' own transaction.

partition   the offset is committed for a partition of the target topic: brokers take offsets of topics they have only,
            and the source topic may have another name there, or more partitions
metadata    the creation of the source topic (czxid), so that the position of a deleted topic, or of a topic of another
            cluster, is not taken for one of this log

A position is a fact about one log, read from one start on.  Where a period begins below it, `beginning` decides:

    how the period began                        where                    what the position means
    committed offset, after a claim or restart  there                    a kill came before the source's commit: read on
                                                                         at the position
    parked, or the lease lapsed: fetched again  at what is done          the same: a transaction whose outcome was not
                                                                         known is committed
    before_start of a listener, a seek          where the program says   the same; a mirror has neither
    out of range, and the log begins later      later                    the same: only the oldest messages are gone
    out of range, and inside again              where it was             the same: a follower led for a moment
    out of range, and the log ends before       auto.offset.reset        the log was cut: what it has from there on is
                                                                         not in the target, so the position is set back
    nothing committed                           auto.offset.reset        the same, unless the position names the topic's
                                                                         creation: then the log is the one it was
    committed offset of a former topic          auto.offset.reset        as nothing committed

"Read on" moves the consumer to the position instead of passing over what it fetches.  A position that lies outside the
log is then met like any other: auto.offset.reset decides, and the reset sets the position back.  A reset is followed
once: later periods of the same ownership begin behind what was set back.  A kill between the source's commit of a
reset's start and the transaction that sets the position back leaves the old position; it counts again if the log has
grown beyond it meanwhile.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from kafkawire.model import ProducerId, TopicPartition, partition_named
from zkconsumer.fetching.partition import Reset

_TOPIC = "topic="
_PROBE = f"{_TOPIC}none, "


class CommittedOffset(Protocol):
    """kafkawire.protocol.stableoffsets.StableOffset."""

    @property
    def offset(self) -> int: ...
    @property
    def metadata(self) -> str: ...


class Position(NamedTuple):
    """Where the copies in the target end.

    same_topic: it is known to be of the topic that is read, because its commit names that creation.  at: the partitions
    of the target that it, or an older one, is committed for.
    """

    offset: int
    same_topic: bool = False
    at: tuple[TopicPartition, ...] = ()


class Beginning(Enum):
    """How a period begins that has a position in the target."""

    HERE = "at what was fetched"
    AT_POSITION = "at the position"
    SET_BACK = "at what was fetched, and the position is set back"


# ---- names --------------------------------------------------------------------------------------------------------


def name_of(prefix: str, source: str, tp: TopicPartition) -> str:
    """Name of a source partition in the target: its transactional id, and the group of its position.

    PREFIX-SOURCE-TOPIC-PARTITION.  One for each partition, because its owner must fence the one before it, and no
    other.  Where prefix or source contain "-", or the partition is one of 0.7 (BROKER-INDEX), the lengths of prefix,
    source and topic follow, so that no two partitions of any mirrors have the same name:

        mirror-eu-west-orders-0             prefix mirror, source eu, topic west-orders
        mirror-eu-west-orders-0@6.7.6       prefix mirror, source eu-west, topic orders
    """
    joined = former_name_of(prefix, source, tp)
    if "-" not in f"{prefix}{source}{tp.partition}":
        return joined
    return f"{joined}@{len(prefix)}.{len(source)}.{len(tp.topic)}"


def former_name_of(prefix: str, source: str, tp: TopicPartition) -> str:
    """The name without lengths, under which earlier releases kept the position."""
    return f"{prefix}-{source}-{tp.topic}-{tp.partition}"


def is_shared(name: str, others: Collection[tuple[str, str]]) -> bool:
    """Whether a name without lengths may also be that of a partition of another source.

    others: prefix and source of each.
    """
    for prefix, source in others:
        begins = f"{prefix}-{source}-"
        topic, _, partition = name.removeprefix(begins).rpartition("-")
        if name.startswith(begins) and topic and partition_named(partition) is not None:
            return True
    return False


# ---- positions ----------------------------------------------------------------------------------------------------


def metadata_of(topic: int | None) -> str:
    """topic: the czxid of the source's topic; None: not known."""
    return "" if topic is None else f"{_TOPIC}{topic}"


def probe_metadata(producer: ProducerId) -> str:
    """Of an offset that is no position: it is committed in order to be read (producer.coordinators.Probe).

    Releases that do not know of it take it for one of another topic.
    """
    return f"{_PROBE}probe of {producer.id} in epoch {producer.epoch}"


def position_of(found: Mapping[TopicPartition, CommittedOffset], topic: int | None) -> Position | None:
    """Where the copies in the target end; None: nothing of this log was copied exactly once before.

    found: all that the partition's group has committed: one row, or several where the target topic was renamed.
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
    """The position that an earlier release committed under the name without lengths; None: it has none that is
    certainly of this source partition.

    target: the target topic.  shared: partitions of another source may have had that name.  Then only a commit that
    names the topic's creation counts.
    """
    position = position_of({tp: row for tp, row in found.items() if tp.topic == target}, topic)
    return None if position is None or (shared and not position.same_topic) else position._replace(at=())


def _of_another(metadata: str, topic: int | None) -> bool:
    """Whether it is of another log than that of `topic`; where one of both does not say, it is of this one."""
    if metadata.startswith(_PROBE):
        return True
    return topic is not None and metadata.startswith(_TOPIC) and metadata != metadata_of(topic)


def beginning(position: Position | None, start: int, reset: Reset | None) -> Beginning:
    """How a period begins whose first set starts at `start`.  reset: that it began with; None: it began with none, or
    the position was set back for it already."""
    if position is None or position.offset <= start:
        return Beginning.HERE
    if reset is not None and reset.sets_back(position.same_topic):
        return Beginning.SET_BACK
    return Beginning.AT_POSITION
