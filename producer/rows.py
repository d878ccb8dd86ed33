"""Rows: messages of a program, their sizes, and their encoding into parts of one partition.  No clock, no socket."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from kafkawire.dialects import ENTRY_OVERHEAD, Dialect
from kafkawire.model import Part, TopicPartition
from producer.batches import WHOLE_SET_SHARE

WRAPPED_SHARE = 0.9  # incompressible data may grow a little, here and when the broker compresses again


class Row(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None


def size_of(row: Row, magic: int) -> int:
    """Return the bytes of a row's entry."""
    return ENTRY_OVERHEAD[magic] + len(row.key or b"") + len(row.value or b"")


def sizes_of(rows: Sequence[Row | tuple[bytes | None, bytes | None, int | None]], magic: int) -> list[int]:
    """Return the bytes of the entry of each row."""
    overhead = ENTRY_OVERHEAD[magic]
    return [overhead + (len(key) if key else 0) + (len(value) if value else 0) for key, value, _ in rows]


def limit_of(dialect: Dialect, codec: int, batch_bytes: int, message_max_bytes: int) -> int:
    """Return the largest part in bytes of entries.  A wrapper must fit message.max.bytes even when its data does not
    compress."""
    if codec:
        return min(batch_bytes, int(message_max_bytes * WRAPPED_SHARE))
    if dialect.measures_whole_set:
        return min(batch_bytes, int(message_max_bytes * WHOLE_SET_SHARE))
    return batch_bytes


def parts(
    tp: TopicPartition,
    rows: Sequence[Row | tuple[bytes | None, bytes | None, int | None]],
    dialect: Dialect,
    codec: int,
    limit: int,
    sizes: Sequence[int] | None = None,
    headers: Sequence[bytes | None] | None = None,
) -> Iterator[Part]:
    """Yield the rows in order, in parts of at most `limit` bytes before compression; a larger row is a part of its own.

    sizes: bytes of each row's entry including its headers, if known. headers: one block per row (kafkawire.headers), if
    any has headers.
    """
    if sizes is None:
        sizes = sizes_of(rows, dialect.magic)
        if headers is not None:
            sizes = [size + len(block or b"") for size, block in zip(sizes, headers, strict=True)]
    keys, values, stamps = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    return parts_of_lists(tp, keys, values, stamps, headers, dialect=dialect, codec=codec, limit=limit, sizes=sizes)


def parts_of_lists(
    tp: TopicPartition,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    timestamps_ms: Sequence[int | None],
    headers: Sequence[bytes | None] | None,
    *,
    dialect: Dialect,
    codec: int,
    limit: int,
    sizes: Sequence[int],
) -> Iterator[Part]:
    """Yield messages in lists of equal length, in parts of at most `limit` bytes before compression."""
    ends = list(accumulate(sizes))
    at = 0
    while at < len(ends):
        end = max(at + 1, bisect_right(ends, limit + (ends[at - 1] if at else 0)))
        blocks = None if headers is None else headers[at:end]
        columns = keys[at:end], values[at:end], timestamps_ms[at:end]
        entries = dialect.messages.encode_lists(*columns, blocks, codec, dialect.magic)
        yield Part(tp, entries, dialect.magic, codec, end - at)
        at = end
