"""The mirror in one line: how fast, how far behind, how much under way, what stands still and why.

    41,200 msg/s, 4.1 MB/s, lag 1,204, in flight 3.1 MB, 12 partitions; parked 1: orders/3: ...; waiting 1: news: ...

Where a source counts positions in bytes (0.7) so does its lag: "lag 3.1 MB", or "lag 1,204 + 3.1 MB" beside others.
On a terminal the line is rewritten in place and log lines go above it; elsewhere it is a log line now and then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TextIO

MAX_REASONS = 3  # parked or waiting ones named in the line; the log has each when it happens


class Blocked(NamedTuple):
    """A partition or topic that stands still, and the sentence why."""

    name: str
    reason: str

    def __str__(self) -> str:
        return self.reason if self.reason.startswith(self.name) else f"{self.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The mirror at one moment.  messages and bytes: totals that the target acknowledged.

    lag: in messages, of the sources that count so; None: not known yet, of any source.  lag_bytes: of those that count
    bytes; None: there are none.
    """

    at: float  # seconds of a monotonic clock
    messages: int = 0
    bytes: int = 0
    lag: int | None = None
    lag_bytes: int | None = None
    in_flight_bytes: int = 0
    owned: int = 0
    parked: tuple[Blocked, ...] = ()
    waiting: tuple[Blocked, ...] = ()
    trouble: str = ""  # what is out of reach: a ZooKeeper that does not answer, a broker that refuses connections
    dropped: int = 0  # messages that message.handler dropped since the start


def status_line(before: Snapshot, this: Snapshot) -> str:
    """The line; rates are those between the two snapshots."""
    seconds = max(this.at - before.at, 1e-9)
    rate = (this.messages - before.messages) / seconds
    megabytes = (this.bytes - before.bytes) / seconds / 1e6
    line = (
        f"{rate:,.0f} msg/s, {megabytes:,.1f} MB/s, lag {_lag(this)}, in flight {this.in_flight_bytes / 1e6:,.1f} MB, "
        f"{this.owned:,} partition{'' if this.owned == 1 else 's'}"
    )
    if this.dropped:
        line += f"; dropped {this.dropped:,} (message.handler)"
    for word, still in (("parked", this.parked), ("waiting", this.waiting)):
        if still:
            line += f"; {word} {len(still)}: {_named(still)}"
    return f"{line}; {this.trouble}" if this.trouble else line


def _lag(this: Snapshot) -> str:
    if this.lag is None:
        return "unknown"
    if this.lag_bytes is None:
        return f"{this.lag:,}"
    in_bytes = f"{this.lag_bytes / 1e6:,.1f} MB" if this.lag_bytes >= 1e5 else f"{this.lag_bytes:,} B"
    return f"{this.lag:,} + {in_bytes}" if this.lag else in_bytes


def _named(still: Sequence[Blocked]) -> str:
    more = f" and {len(still) - MAX_REASONS} more" if len(still) > MAX_REASONS else ""
    return " | ".join(str(one) for one in still[:MAX_REASONS]) + more


class StatusLine:
    """A stream for log lines that keeps one line below them.  Where the stream is no terminal, nothing is rewritten."""

    def __init__(self, stream: TextIO, columns: int = 120) -> None:
        self._stream = stream
        self.rewrites = stream.isatty()
        self._columns = columns
        self._shown = ""
        self.fileno = stream.fileno  # the journal is recognised by it

    def show(self, line: str) -> None:
        """Put the line at the bottom of the terminal, in place of the one before."""
        self._shown = line if len(line) < self._columns else line[: self._columns - 2] + "…"
        self._stream.write(f"\r\x1b[K{self._shown}")
        self._stream.flush()

    def write(self, text: str) -> int:
        """Whole log lines; the status line moves down."""
        self._stream.write(f"\r\x1b[K{text}{self._shown}" if self._shown else text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()
