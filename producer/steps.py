"""Steps: parts of a fetched set that one ticket covers, and their size limits."""

from __future__ import annotations

from dataclasses import dataclass

from kafkawire.dialects import Dialect
from kafkawire.model import Part

STEP_BYTES = 1 << 20  # bytes of entries after which a step ends
PART_MAX_BYTES = 8 << 20  # a request of several parts stays far below socket.request.max.bytes (100 MiB)
READ_BYTES = 16 << 20  # bytes of decompressed entries after which a step ends even if little of it is sent
BATCH_OVERHEAD = (
    61  # header of a record batch: of one that we write, or that 1.1 and later make from a set, and measure
)


@dataclass(frozen=True, slots=True)
class Step:
    """Parts that one ticket covers.  Without parts there is nothing to send before resume_at (a handler dropped all
    messages)."""

    resume_at: int
    parts: tuple[Part, ...]


def part_limit(dialect: Dialect, codec: int, message_max_bytes: int) -> int:
    """Return the bytes of entries in one part, before compression: a wrapper may grow a little at the target."""
    if codec:
        return message_max_bytes - message_max_bytes // 16 - BATCH_OVERHEAD
    if dialect.record_batches:
        return message_max_bytes - BATCH_OVERHEAD
    if dialect.measures_whole_set:
        return message_max_bytes - message_max_bytes // 16 - BATCH_OVERHEAD
    return PART_MAX_BYTES
