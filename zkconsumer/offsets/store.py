"""Offset store: the interface to the committed offsets of groups, wherever they are kept.

A committed offset has one of four values: an offset, NONE (never committed), FormerOffset (of an earlier topic of that
name), or Unknown (an offset exists, or may exist, and cannot be read).  NONE and FormerOffset go to the reset policy;
Unknown never does, and none of them is ever 0.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from groundwork.decimals import decimal_int
from kafkawire.model import TopicPartition
from zkconsumer.session.lease import Lease


class _None(enum.Enum):
    NONE = "none"

    def __repr__(self) -> str:
        return "NONE"


NONE: Final = _None.NONE


@dataclass(frozen=True, slots=True)
class Unknown:
    """A committed offset that cannot be read; reason is a sentence that names the place and its content."""

    reason: str


@dataclass(frozen=True, slots=True)
class UnreadableNode(Unknown):
    """An offset node whose data is not an offset.  Its data is kept, so that an overwritten node can be restored."""

    reason: str = field(compare=False)
    data: bytes


@dataclass(frozen=True, slots=True)
class FormerOffset:
    """A committed offset in the log of an earlier topic of the same name (offsets/former.py).  reason is the end of a
    sentence that begins with partition and offset: its origin, and when the topic was created."""

    position: int
    reason: str


Committed = int | _None | FormerOffset | Unknown

Bounds = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, tuple[int, int]]]
"""First offset and end of the logs in which these offsets are committed; unknown ones are left out."""

LARGEST: Final = 2**63 - 1  # an offset is an int64 everywhere
WHITESPACE = " \t\n\r\f\v"
MAX_SHOWN = 200  # characters of a node's data that a sentence shows


def position_of(path: str, data: bytes) -> int | _None | UnreadableNode:
    """Return the offset in an offset node of ZooKeeper, read like the JVM's consumer: a negative number means NONE,
    `+5` is 5.  Text that is not an int64 is Unknown, never 0."""
    text = data.decode("utf-8", "backslashreplace").strip(WHITESPACE)
    signed = text[1:] if text[:1] == "+" and text[1:2] != "-" else text
    found = decimal_int(signed, least=-LARGEST - 1, most=LARGEST)
    if found is not None:
        return found if found >= 0 else NONE
    return UnreadableNode(
        f"offset node {path} holds {text[:MAX_SHOWN]!r}, which is not an offset; `zkconsumer offsets set` corrects it,"
        " `zkconsumer offsets delete` deletes it",
        data,
    )


class OffsetStore(Protocol):
    """Interface that reads and writes the next offset to read, per group and partition."""

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Return one row for each partition.  Raises ConsumerError if the store cannot be asked now."""
        ...

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """Write offsets while the lease holds; return None per partition, or why it is not known to be written."""
        ...
