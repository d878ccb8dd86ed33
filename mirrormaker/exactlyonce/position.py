"""The position of a source partition as the target has it: a committed offset, written in the copies' own transaction.

name        transactional id and group of one source partition: PREFIX-SOURCE-TOPIC-PARTITION.  One for each, because
            the owner of the partition must fence the one before it, and no other
partition   the offset is committed for a partition of the target topic: brokers take offsets of topics they have only,
            and the source topic may have another name there, or more partitions
metadata    the creation of the source topic (czxid), so that the position of a deleted topic, or of a topic of another
            cluster, is not taken for one of this log

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kafkawire.model import TopicPartition

_TOPIC = "topic="


class CommittedOffset(Protocol):
    """kafkawire.protocol.stableoffsets.StableOffset."""

    @property
    def offset(self) -> int: ...
    @property
    def metadata(self) -> str: ...


def name_of(prefix: str, source: str, tp: TopicPartition) -> str:
    """The transactional id of a source partition, which is its group in the target, too."""
    return f"{prefix}-{source}-{tp.topic}-{tp.partition}"


def metadata_of(topic: int | None) -> str:
    """topic: the czxid of the source's topic; None: not known."""
    return "" if topic is None else f"{_TOPIC}{topic}"


def position_of(found: Iterable[CommittedOffset], topic: int | None) -> int | None:
    """Where the copies in the target end; None: nothing of this log was copied exactly once before.

    found: all that the partition's group has committed: one row, or several where the target topic was renamed.
    """
    mine = [row.offset for row in found if not _of_another(row.metadata, topic)]
    return max(mine, default=None)


def _of_another(metadata: str, topic: int | None) -> bool:
    """Whether it is of another log than that of `topic`; where one of both does not say, it is of this one."""
    return topic is not None and metadata.startswith(_TOPIC) and metadata != metadata_of(topic)
