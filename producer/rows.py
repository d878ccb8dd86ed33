"""Messages of a program: how large each is, and how a partition's are encoded into parts.  No clock, no socket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkawire.compression import CODECS
from kafkawire.dialects import Dialect
from kafkawire.model import Part, TopicPartition
from kafkawire.v08.scanning import ENTRY_OVERHEAD
from producer.batches import WHOLE_SET_SHARE
from producer.config import ProducerConfig

WRAPPED_SHARE = 0.9  # what does not compress may grow a little, here and when the broker compresses anew


class Row(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None


def size_of(row: Row, magic: int) -> int:
    """Bytes of its entry."""
    return ENTRY_OVERHEAD[magic] + len(row.key or b"") + len(row.value or b"")


def codec_of(config: ProducerConfig, topic: str) -> int:
    """The codec a topic's messages are sent with: compression.codec, or none where compressed.topics leaves it out."""
    named = config.compressed_topics
    return CODECS[config.codec] if not named or topic in named else 0


def limit_of(dialect: Dialect, codec: int, batch_bytes: int, message_max_bytes: int) -> int:
    """Most bytes of entries in one part.  A wrapper must fit message.max.bytes even where nothing compresses."""
    if codec:
        return min(batch_bytes, int(message_max_bytes * WRAPPED_SHARE))
    if dialect.measures_whole_set:
        return min(batch_bytes, int(message_max_bytes * WHOLE_SET_SHARE))
    return batch_bytes


def parts(tp: TopicPartition, rows: Sequence[Row], dialect: Dialect, codec: int, limit: int) -> Iterator[Part]:
    """The rows in order, in parts of at most `limit` bytes before compression; a larger row goes alone."""
    at = 0
    while at < len(rows):
        end, size = at, 0
        while end < len(rows) and (end == at or size + size_of(rows[end], dialect.magic) <= limit):
            size += size_of(rows[end], dialect.magic)
            end += 1
        numbered = ((n, row.key, row.value, row.timestamp_ms) for n, row in enumerate(rows[at:end]))
        entries = dialect.messages.encode(numbered, codec=codec, magic=dialect.magic)
        yield Part(tp, entries, dialect.magic, codec, end - at)
        at = end
