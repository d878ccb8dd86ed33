"""How far an earlier try of a chunk came: the target's tail, compared with the source message by message.

Nobody else writes the target partition, so what it holds from the chunk's beginning on are the chunk's first messages,
each at the next offset.  Keys and values are compared, not entries: brokers number, unpack and pack wrappers anew.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from sparkpipeline.access import ClusterAccess
from sparkpipeline.backfill.cutting import before, damaged
from sparkpipeline.errors import Refused
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.options import ReadOptions
from sparkpipeline.reading.sets import read_sets

Stored = tuple[int, bytes | None, bytes | None]  # offset, key, value


@dataclass(frozen=True, slots=True)
class Reached:
    """position: the source offset to go on at; messages and bytes (of keys and values): there already."""

    position: int
    messages: int
    bytes: int


def compare(
    source: Iterable[Stored], target: Iterable[Stored], target_start: int, end: int, chunk: OffsetRange
) -> Reached:
    """source: the chunk's messages; target: what its log holds of [target_start, end), with gaps where it is compacted.

    Raises Refused where they differ: somebody else wrote there.  Pure but for the two.
    """
    theirs = iter(target)
    there = next(theirs, None)
    at, messages, size, position = target_start, 0, 0, chunk.start
    for offset, key, value in source:
        if at >= end:
            return Reached(offset, messages, size)
        if there is not None and there[0] == at:
            if there[1:] != (key, value):
                raise _foreign(chunk, at, f"is not the message at {offset} of the source")
            there = next(theirs, None)
        messages, size, at = messages + 1, size + len(key or b"") + len(value or b""), at + 1
        position = offset + 1
    if at < end:
        raise _foreign(chunk, at, f"is behind all messages of {chunk}")
    return Reached(max(position, chunk.until), messages, size)


def _foreign(chunk: OffsetRange, at: int, why: str) -> Refused:
    return Refused(
        f"the target's message {why}: somebody else writes there (then give --shared, which is at least once)",
        topic=chunk.topic,
        partition=chunk.partition,
        target_offset=at,
    )


def messages_of(rng: OffsetRange, access: ClusterAccess, options: ReadOptions) -> Generator[Stored, None, None]:
    """The messages of a range, checksums checked.  Raises as read_sets, and CorruptData."""
    sets = read_sets(rng, access, options)
    try:
        for fetched in sets:
            columns = fetched.index(options.check_crcs)
            count = before(columns, rng.until)
            yield from zip(columns.offsets[:count], columns.keys()[:count], columns.values()[:count], strict=True)
            if columns.damage is not None and count == len(columns):
                raise damaged(fetched, columns.damage)
    finally:
        sets.close()
