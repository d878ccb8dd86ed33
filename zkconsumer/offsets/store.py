"""Offset store: the interface to the committed offsets of groups, wherever they are kept.

A committed offset has one of four values: a position, NONE (never committed), FormerOffset (of an earlier topic of that
name), or Unknown (there is something, or may be, and it cannot be read).  NONE and FormerOffset go to the reset policy;
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
    """A committed position that cannot be read; reason is a sentence with where it is and what is there."""

    reason: str


@dataclass(frozen=True, slots=True)
class UnreadableNode(Unknown):
    """An offset node whose data is not an offset.  Its data is kept, so that an overwritten node can be restored."""

    reason: str = field(compare=False)
    data: bytes


@dataclass(frozen=True, slots=True)
class FormerOffset:
    """A committed position in the log of an earlier topic of the same name (offsets/former.py); reason is the end of a
    sentence that begins with the partition and the position: where it is from, and when the topic was created."""

    position: int
    reason: str


Committed = int | _None | FormerOffset | Unknown

Bounds = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, tuple[int, int]]]
"""First offset and end of the logs in which these offsets are committed; left out where they are not known."""

LARGEST: Final = 2**63 - 1  # a position is an int64 in every form it travels in
WHITESPACE = " \t\n\r\f\v"
MAX_SHOWN = 200  # characters of what a node holds, in a sentence


def position_of(path: str, data: bytes) -> int | _None | UnreadableNode:
    """Return what an offset node of ZooKeeper says, as the JVM's consumer takes it: a negative number is none, `+5` is
    5.  Text that is not an int64 is Unknown, never 0."""
    text = data.decode("utf-8", "backslashreplace").strip(WHITESPACE)
    signed = text[1:] if text[:1] == "+" and text[1:2] != "-" else text
    found = decimal_int(signed, least=-LARGEST - 1, most=LARGEST)
    if found is not None:
        return found if found >= 0 else NONE
    return UnreadableNode(
        f"offset node {path} holds {text[:MAX_SHOWN]!r}, which is no position; `zkconsumer offsets set` corrects it,"
        " `zkconsumer offsets delete` deletes it",
        data,
    )


class OffsetStore(Protocol):
    """Reads and writes the next position to read, per group and partition."""

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """One row for each partition asked for.  Raises ConsumerError when the store cannot be asked now."""
        ...

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """Write positions while the lease holds; per partition None, or why it was not (known to be) written."""
        ...
