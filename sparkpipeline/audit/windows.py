"""The windows of an audit: the hour of a message's timestamp in UTC, or a block of offsets.  Pure.

A window is a number, as small as what travels should be: an hour since 1970 from 0 on; −1 − n is block n.
Without a block size all messages that belong to no hour are in one window, UNTIMED.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sparkpipeline.errors import NoTimestamp

HOUR_MS = 3_600_000
UNTIMED = -1
BLOCK = 100_000  # offsets of a block, where a user says nothing
KINDS = ("auto", "blocks")


@dataclass(frozen=True, slots=True)
class Windows:
    """Into which window a message falls, and whether it is looked at.

    by_hour      False: timestamps count for nothing
    block        offsets a block; 0: none
    from_ms, to_ms   only messages with from_ms <= timestamp < to_ms; None: no such bound
    """

    by_hour: bool = True
    block: int = 0
    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def bounded(self) -> bool:
        """Whether time decides what is looked at."""
        return self.from_ms is not None or self.to_ms is not None

    def of(self, offset: int, timestamp_ms: int) -> int:
        """The window of a message; timestamp −1 where it has none."""
        if self.by_hour and timestamp_ms >= 0:
            return timestamp_ms // HOUR_MS
        return self.block_of(offset)

    def block_of(self, offset: int) -> int:
        return -1 - offset // self.block if self.block else UNTIMED

    def holds(self, timestamp_ms: int) -> bool:
        """Whether a message of this time is between the bounds."""
        after = self.from_ms is None or timestamp_ms >= self.from_ms
        return after and (self.to_ms is None or timestamp_ms < self.to_ms)


def untimed(topic: str, partition: object, offset: int) -> NoTimestamp:
    """The error of a time bound that cannot be kept."""
    return NoTimestamp(
        "the message carries no timestamp, so no time bounds what is compared; give --from and --to as offsets",
        topic=topic,
        partition=partition,
        offset=offset,
    )


def label(window: int, block: int = 0, of_target: bool = False) -> str:
    """How people read it: 2026-01-31T10, 200000-299999, "all"; of_target: these are offsets of the target."""
    if window >= 0:
        return _hour(window)
    if not block:
        return "all"
    start = (-1 - window) * block
    return f"{'target ' if of_target else ''}{start}-{start + block - 1}"


def _hour(window: int) -> str:
    """What a producer may send as a time need not be in any calendar: then its number."""
    try:
        return datetime.fromtimestamp(window * HOUR_MS / 1000, UTC).strftime("%Y-%m-%dT%H")
    except (ValueError, OverflowError, OSError):
        return f"hour {window} since 1970"
