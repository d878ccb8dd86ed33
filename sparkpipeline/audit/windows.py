"""Windows of an audit: the hour of a message's timestamp in UTC, or a block of offsets.  Pure.

A window is a number, which travels well: hours since 1970 are 0 and higher; −1 − n is block n.
Without a block size, all messages that do not belong to an hour are in one window, UNTIMED.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sparkpipeline.errors import NoTimestamp

HOUR_MS = 3_600_000
UNTIMED = -1
BLOCK = 100_000  # offsets of a block, by default
KINDS = ("auto", "blocks")


@dataclass(frozen=True, slots=True)
class Windows:
    """Rule for the window of a message, and whether the message is compared.

    by_hour      False: timestamps are ignored
    block        offsets a block; 0: none
    from_ms, to_ms   only messages with from_ms <= timestamp < to_ms; None: no such bound
    """

    by_hour: bool = True
    block: int = 0
    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def bounded(self) -> bool:
        """True if a time bounds what is compared."""
        return self.from_ms is not None or self.to_ms is not None

    def of(self, offset: int, timestamp_ms: int) -> int:
        """Return the window of a message; timestamp −1: it has no timestamp."""
        if self.by_hour and timestamp_ms >= 0:
            return timestamp_ms // HOUR_MS
        return self.block_of(offset)

    def block_of(self, offset: int) -> int:
        return -1 - offset // self.block if self.block else UNTIMED

    def holds(self, timestamp_ms: int) -> bool:
        """True if a message of this time is within the bounds."""
        after = self.from_ms is None or timestamp_ms >= self.from_ms
        return after and (self.to_ms is None or timestamp_ms < self.to_ms)


def untimed(topic: str, partition: object, offset: int) -> NoTimestamp:
    """Return the error for a message that a time bound cannot judge."""
    return NoTimestamp(
        "the message carries no timestamp, so no time bounds what is compared; give --from and --to as offsets",
        topic=topic,
        partition=partition,
        offset=offset,
    )


def label(window: int, block: int = 0, of_target: bool = False) -> str:
    """Return a window in words: 2026-01-31T10, 200000-299999, "all".  of_target: these are offsets of the target."""
    if window >= 0:
        return _hour(window)
    if not block:
        return "all"
    start = (-1 - window) * block
    return f"{'target ' if of_target else ''}{start}-{start + block - 1}"


def _hour(window: int) -> str:
    """Return an hour as text; its number if a producer sent a time that no calendar has."""
    try:
        return datetime.fromtimestamp(window * HOUR_MS / 1000, UTC).strftime("%Y-%m-%dT%H")
    except (ValueError, OverflowError, OSError):
        return f"hour {window} since 1970"
