"""Conversion of queued entries to the format that the brokers support now.

During a rolling upgrade queued entries may have a format that brokers no longer accept: 4.0 accepts only record batches
(KIP-724), and after a downgrade below 0.11 none are accepted.  Such entries are decoded and encoded again, part by
part, before they are sent.
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
    """True if brokers of this dialect refuse the format of a batch.  A sealed batch is retried unchanged."""
    return not batch.sealed and any(piece.part.magic not in dialect.formats for piece in batch.pieces)


def renewed(batch: Batch, dialect: Dialect) -> list[Piece]:
    """Return its pieces in the format of the dialect.  Raises CorruptMessage, and LocalError for fields that the format
    lacks."""
    return [
        piece
        for old in batch.pieces
        for piece in ([old] if old.part.magic in dialect.formats else split_into(old, [in_format(old.part, dialect)]))
    ]


def in_format(part: Part, dialect: Dialect) -> Part:
    """Return a part in the format that the dialect writes, with its codec if the dialect supports it.  Raises
    CorruptMessage, LocalError."""
    fetched, scan = NEWEST.messages.message_set(part.tp.topic, part.tp.partition, 0, memoryview(part.entries), None)
    if scan.damage is not None:
        raise scan.damage
    rows: list[Row] = []
    headers: list[tuple[tuple[str, bytes | None], ...] | None] = []
    for message in fetched.messages():
        rows.append((len(rows), message.key, message.value, message.timestamp_ms))
        headers.append(message.headers)
    if not rows:
        raise CorruptMessage(f"{part.tp}: no message can be read in {len(part.entries)} bytes", 0)
    codec = part.codec if part.codec in dialect.codecs else max(dialect.codecs)
    blocks = [packed(one) for one in headers]
    entries = dialect.messages.encode(rows, codec, dialect.magic, blocks if any(blocks) else None)
    return replace(part, entries=entries, magic=dialect.magic, codec=codec, count=len(rows), counted=True)
