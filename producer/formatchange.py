"""Entries that were made for brokers of another release: in the format that the brokers take now.

While a cluster is rolled what waits in a queue may be of a format that it takes no more: 4.0 takes record batches only
(KIP-724), and what goes back below 0.11 takes none.  It is decoded and encoded again, part by part, before it is sent.
"""

from __future__ import annotations

from dataclasses import replace

from kafkawire.dialects import NEWEST, Dialect
from kafkawire.errors import CorruptMessage
from kafkawire.headers import packed
from kafkawire.interfaces import Row
from kafkawire.model import Part
from producer.batches import Batch, Piece, split_into


def outdated(batch: Batch, dialect: Dialect) -> bool:
    """Whether brokers of this dialect refuse the format of a batch.  One that was sealed goes again as it was sent."""
    return not batch.sealed and any(piece.part.magic not in dialect.formats for piece in batch.pieces)


def renewed(batch: Batch, dialect: Dialect) -> list[Piece]:
    """Its pieces in the format of the dialect.  Raises CorruptMessage, and LocalError for what that has no room for."""
    return [
        piece
        for old in batch.pieces
        for piece in ([old] if old.part.magic in dialect.formats else split_into(old, [in_format(old.part, dialect)]))
    ]


def in_format(part: Part, dialect: Dialect) -> Part:
    """A part in the format that the dialect writes, with the codec it has, as far as that is known there.  Raises as
    renewed."""
    fetched, scan = NEWEST.messages.message_set(part.tp.topic, part.tp.partition, 0, memoryview(part.entries), None)
    if scan.damage is not None:
        raise scan.damage
    rows: list[Row] = []
    headers: list[tuple[tuple[str, bytes | None], ...] | None] = []
    for message in fetched.messages():
        rows.append((len(rows), message.key, message.value, message.timestamp_ms))
        headers.append(message.headers)
    if not rows:
        raise CorruptMessage(f"{part.tp}: nothing to be sent can be read in {len(part.entries)} bytes", 0)
    codec = part.codec if part.codec in dialect.codecs else max(dialect.codecs)
    blocks = [packed(one) for one in headers]
    entries = dialect.messages.encode(rows, codec, dialect.magic, blocks if any(blocks) else None)
    return replace(part, entries=entries, magic=dialect.magic, codec=codec, count=len(rows), counted=True)
