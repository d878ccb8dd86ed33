"""Status of a mirror: what every flow and the target say of themselves, in one line and to systemd.

    41,200 msg/s, 4.1 MB/s, lag 1,204, in flight 3.1 MB, 12 partitions; parked 1: orders/3: ...; waiting 1: news: ...

Where a source counts offsets in bytes (0.7) so does its lag: "lag 3.1 MB", or "lag 1,204 + 3.1 MB" beside others.
On a terminal the line is rewritten in place and log lines go above it; elsewhere it is a log line now and then.

    Snapshot         a mirror at one moment            status_line    the line between two snapshots
    StatusReporter   takes snapshots, shows the line   StatusLine     a terminal that keeps a line below its log
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TextIO

from groundwork.tasks import now, sleep
from kafkawire.model import TopicPartition
from mirrormaker.flow import Flow
from mirrormaker.source import Source
from mirrormaker.systemd import Systemd
from mirrormaker.target import Target
from zkconsumer.engine.status import PartitionStatus

log = logging.getLogger(__name__)

POLL_S = 0.2
MAX_REASONS = 3  # parked or waiting ones named in the line; the log has each when it happens


class Blocked(NamedTuple):
    """A partition or topic that makes no progress, and the sentence why."""

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
    for word, blocked in (("parked", this.parked), ("waiting", this.waiting)):
        if blocked:
            line += f"; {word} {len(blocked)}: {_named(blocked)}"
    return f"{line}; {this.trouble}" if this.trouble else line


def _lag(this: Snapshot) -> str:
    if this.lag is None:
        return "unknown"
    if this.lag_bytes is None:
        return f"{this.lag:,}"
    in_bytes = f"{this.lag_bytes / 1e6:,.1f} MB" if this.lag_bytes >= 1e5 else f"{this.lag_bytes:,} B"
    return f"{this.lag:,} + {in_bytes}" if this.lag else in_bytes


def _named(blocked: Sequence[Blocked]) -> str:
    more = f" and {len(blocked) - MAX_REASONS} more" if len(blocked) > MAX_REASONS else ""
    return " | ".join(str(one) for one in blocked[:MAX_REASONS]) + more


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


def total_done(before: dict[TopicPartition, int], rows: list[PartitionStatus]) -> tuple[int, dict[TopicPartition, int]]:
    """How many messages were done since `before` (of a new partition: since its last commit), and the next `before`."""
    this = {row.tp: row.done for row in rows if row.done is not None}
    first = {row.tp: row.committed for row in rows if row.committed is not None}
    since = {**this, **first, **before}
    return sum(max(0, done - since[tp]) for tp, done in this.items()), this


class StatusReporter:
    """Reads flows, sources and target; changes nothing.

    flows: of the sources that have begun; more may be added.
    """

    def __init__(
        self,
        flows: Sequence[Flow],
        sources: Sequence[Source],
        target: Target,
        *,
        terminal: StatusLine,
        systemd: Systemd,
        interval_s: float,
    ) -> None:
        self._flows = flows
        self._sources = sources
        self._target = target
        self._terminal = terminal
        self._systemd = systemd
        self._interval_s = interval_s
        self._done: dict[str, dict[TopicPartition, int]] = {}  # by flow
        self._messages = 0
        self._before = self.snapshot()

    def snapshot(self) -> Snapshot:
        """The mirror now."""
        rows = self._count()
        lags = [row.lag for row in rows]
        sources = self._sources
        in_bytes = any(source.counts_bytes for source in sources)
        silent = any(source.trouble for source in sources)
        # Without its ZooKeeper a source soon owns nothing, and nothing has no lag: that must not read as all is well.
        blind = silent or not all(source.assigned or source.partitions() for source in sources)
        by_parts = in_bytes or any(flow.has_handler for flow in self._flows)
        return Snapshot(
            at=now(),
            # How many messages lie between two bytes is unknown, and how many a handler sends for one: then those are
            # counted that the target acknowledged.  Elsewhere what is done was acknowledged, also inside of wrappers.
            messages=self._target.messages if by_parts else self._messages,
            bytes=self._target.bytes,
            lag=None if None in lags or blind else self._lag(in_bytes=False),
            lag_bytes=self._lag(in_bytes=True) if in_bytes else None,
            in_flight_bytes=self._target.bytes_pending,
            owned=len(rows),
            parked=tuple(Blocked(str(row.tp), row.parked) for row in rows if row.parked is not None),
            waiting=tuple(Blocked(*row) for flow in self._flows for row in sorted(flow.waiting.items())),
            trouble="; ".join(self._out_of_reach()),
            dropped=sum(flow.dropped for flow in self._flows),
        )

    def _out_of_reach(self) -> Iterator[str]:
        """Sentences on every part of a cluster that does not answer, each with whose it is."""
        for source in self._sources:
            state, reason = source.state
            if reason and state != "joining":
                yield f"source {source.name}: {'refused: ' if state == 'refused' else ''}{reason}"
        if self._target.outage:
            yield f"target: {self._target.outage}"

    def _lag(self, *, in_bytes: bool) -> int:
        """Lag of the sources that count so; what is not known counts for nothing."""
        sources = [flow.source for flow in self._flows if flow.source.counts_bytes == in_bytes]
        return sum(row.lag or 0 for source in sources for row in source.partitions())

    def _count(self) -> list[PartitionStatus]:
        """Everything owned; what was done since the last count is added."""
        rows: list[PartitionStatus] = []
        for flow in self._flows:
            own = flow.source.partitions()
            done, self._done[flow.name] = total_done(self._done.get(flow.name, {}), own)
            self._messages += done
            rows += own
        return rows

    def line(self) -> str:
        """The status line since the last one."""
        before, self._before = self._before, self.snapshot()
        return status_line(before, self._before)

    def run(self) -> None:
        """A line each interval: on the terminal in place, else in the log; and to systemd."""
        while True:
            shown_at = now()
            while (left_s := shown_at + self._interval_s - now()) > 0:
                sleep(min(left_s, POLL_S))
                self._count()  # what a partition did before it moved elsewhere is not lost to the rate
            line = self.line()
            self._systemd.status(line)
            if self._terminal.rewrites:
                self._terminal.show(line)
            else:
                log.info("%s", line, extra={"key": f"status {self._before.at}"})  # never counted as a repetition
