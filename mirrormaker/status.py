"""Status line of a mirror: its report in one line, for the log, a terminal and systemd.

    41,200 msg/s, 4.1 MB/s, lag 1,204, in flight 3.1 MB, 12 partitions; parked 1: orders/3: ...; waiting 1: news: ...

If waiting partitions hold much of the memory, the line names them: "memory: 48.0 of 67.1 MB wait: news 48.0 MB".

If a source counts offsets in bytes (0.7), so does its lag: "lag 3.1 MB", or "lag 1,204 + 3.1 MB" with other sources.
On a terminal the line is rewritten in place below the log lines; otherwise it is logged periodically.

    Snapshot         the part of a report that the line needs   status_line   formats the line between two snapshots
    StatusReporter   shows the line periodically                StatusLine    a terminal that keeps a line below its log
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TextIO

from groundwork.sentences import printable
from groundwork.tasks import now, sleep
from mirrormaker.report import HANDLERS, MirrorReport, PartitionReport, SourceReport, waiting
from mirrormaker.systemd import Systemd

log = logging.getLogger(__name__)

POLL_S = 0.5
MOST_POLL_S = 3.0  # rates are averaged over ten seconds
OBSERVE_SHARE = 100  # pause between counts, as a multiple of their duration: busy mirrors count less often
WAITING_SHARE = 4  # the line mentions memory once waiting partitions hold a quarter of it
MAX_REASONS = 3  # parked or waiting names in the line; the log has all of them


class Blocked(NamedTuple):
    """Partition or topic that makes no progress, with the reason as a sentence."""

    name: str
    reason: str

    def __str__(self) -> str:
        return self.reason if self.reason.startswith(self.name) else f"{self.name}: {self.reason}"


class Limited(NamedTuple):
    """Number of partitions in a state, and names of these partitions or their topics."""

    partitions: int
    names: tuple[str, ...]


NONE_LIMITED = Limited(0, ())


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of the mirror at one moment.  messages and bytes: totals that the target acknowledged.

    lag: in messages, for the sources that count messages; None while it is unknown for any source.  lag_bytes: for
    those that count bytes; None if there are none.
    """

    at: float  # time of a monotonic clock
    messages: int = 0
    bytes: int = 0
    lag: int | None = None
    lag_bytes: int | None = None
    in_flight_bytes: int = 0
    owned: int = 0
    stalled: Limited = NONE_LIMITED  # partitions that lag without acknowledgements
    parked: tuple[Blocked, ...] = ()
    waiting: tuple[Blocked, ...] = ()
    paused: Limited = NONE_LIMITED
    throttled: Limited = NONE_LIMITED
    memory: tuple[str, ...] = ()  # waiting partitions that hold much of it, a clause per source
    trouble: str = ""  # what is unreachable: a silent ZooKeeper, a broker that refuses connections
    dropped: int = 0  # messages that a handler dropped since the start
    dropped_by: tuple[str, ...] = ()  # the handler's option; both if a reload changed it
    left_out: int = 0  # messages that policies left out of the target since the start
    without: tuple[tuple[str, int], ...] = ()  # fields, with the number of messages that lost them


def snapshot_of(report: MirrorReport, at: float) -> Snapshot:
    """Return the part of a report that the line needs, at a time of a monotonic clock."""
    sources, partitions = report.sources, report.partitions
    in_bytes = any(source.lag_unit == "bytes" for source in sources)
    lags = {unit: sum(row.lag or 0 for row in partitions if row.lag_unit == unit) for unit in ("messages", "bytes")}
    reasons = [
        f"source {source.name}: {'refused: ' if source.state == 'refused' else ''}{source.reason}"
        for source in sources
        if source.reason and source.state != "joining"
    ]
    reasons += [f"target: {report.target_state}"] if report.target_state else []
    if report.reload is not None and report.reload.problem:
        reasons.append(f"the last reload failed: {report.reload.problem}")
    if report.reload is not None and report.reload.pending:
        reasons.append(waiting(report.reload.pending))
    return Snapshot(
        at=at,
        messages=report.messages,
        bytes=report.bytes,
        lag=None if any(source.lag is None for source in sources) else lags["messages"],
        lag_bytes=lags["bytes"] if in_bytes else None,
        in_flight_bytes=report.in_flight_bytes,
        owned=len(partitions),
        parked=tuple(Blocked(_name(row), row.reason) for row in partitions if row.state == "parked"),
        waiting=tuple(Blocked(topic.name, topic.reason) for topic in report.waiting),
        stalled=_limited(partitions, "stalled"),
        paused=_limited(partitions, "paused"),
        throttled=_limited(partitions, "throttled"),
        memory=tuple(memory for source in sources if (memory := _memory(source, len(sources) > 1))),
        trouble="; ".join(reasons),
        dropped=sum(count for (_, _, reason), count in report.left_out.items() if reason in HANDLERS),
        dropped_by=tuple(sorted({reason for _, _, reason in report.left_out} & set(HANDLERS))),
        left_out=sum(count for (_, _, reason), count in report.left_out.items() if reason not in HANDLERS),
        without=_without(report),
    )


def _without(report: MirrorReport) -> tuple[tuple[str, int], ...]:
    found: dict[str, int] = {}
    for (_, _, name), count in sorted(report.dropped_fields.items()):
        found[name] = found.get(name, 0) + count
    return tuple(found.items())


def _memory(source: SourceReport, named: bool) -> str:
    """Return a clause about waiting partitions that hold much of a source's memory, or ""."""
    waits = sum(source.waiting_bytes.values())
    if not waits or waits * WAITING_SHARE < source.max_bytes:
        return ""
    of = f" of source {source.name}" if named else ""
    return f"memory{of}: {waits / 1e6:,.1f} of {source.max_bytes / 1e6:,.1f} MB wait: {_waiting_topics(source)}"


def _waiting_topics(source: SourceReport) -> str:
    """Return the waiting topics that hold memory, the largest first: news 48.0 MB, logs 1.2 MB."""
    rows = sorted(source.waiting_bytes.items(), key=lambda row: -row[1])
    return _few([f"{topic} {nbytes / 1e6:,.1f} MB" for topic, nbytes in rows])


def _name(row: PartitionReport) -> str:
    return f"{row.topic}/{row.partition}"


def _limited(partitions: Sequence[PartitionReport], state: str) -> Limited:
    """Return the partitions in a state; a topic replaces its partitions if all owned ones are in it."""
    limited = [row for row in partitions if row.state == state]
    whole = {row.topic for row in limited} - {row.topic for row in partitions if row.state != state}
    return Limited(
        len(limited), tuple(dict.fromkeys(row.topic if row.topic in whole else _name(row) for row in limited))
    )


def status_line(before: Snapshot, this: Snapshot) -> str:
    """Return the status line; its rates cover the time between the two snapshots."""
    seconds = max(this.at - before.at, 1e-9)
    rate = (this.messages - before.messages) / seconds
    megabytes = (this.bytes - before.bytes) / seconds / 1e6
    line = (
        f"{rate:,.0f} msg/s, {megabytes:,.1f} MB/s, lag {_lag(this)}, in flight {this.in_flight_bytes / 1e6:,.1f} MB, "
        f"{this.owned:,} partition{'' if this.owned == 1 else 's'}"
    )
    if this.dropped:
        line += f"; dropped {this.dropped:,} ({', '.join(this.dropped_by)})"
    if this.left_out:
        line += f"; left out {this.left_out:,} (policies)"
    for name, count in this.without:
        line += f"; {count:,} without {name} (mirror.drop.fields)"
    if this.stalled.partitions:
        line += f"; stalled {this.stalled.partitions}: {_few(this.stalled.names)}"
    for limited, word in ((this.paused, "paused"), (this.throttled, "throttled")):
        if limited.partitions:
            line += f"; {word} {limited.partitions}: {_few(limited.names)} (operator)"
    for word, blocked in (("parked", this.parked), ("waiting", this.waiting)):
        if blocked:
            line += f"; {word} {len(blocked)}: {_named(blocked)}"
    for memory in this.memory:
        line += f"; {memory}"
    return f"{line}; {this.trouble}" if this.trouble else line


def _lag(this: Snapshot) -> str:
    if this.lag is None:
        return "unknown"
    if this.lag_bytes is None:
        return f"{this.lag:,}"
    in_bytes = f"{this.lag_bytes / 1e6:,.1f} MB" if this.lag_bytes >= 1e5 else f"{this.lag_bytes:,} B"
    return f"{this.lag:,} + {in_bytes}" if this.lag else in_bytes


def _named(blocked: Sequence[Blocked]) -> str:
    return _few([str(one) for one in blocked], " | ")


def _few(names: Sequence[str], between: str = ", ") -> str:
    more = f" and {len(names) - MAX_REASONS} more" if len(names) > MAX_REASONS else ""
    return between.join(names[:MAX_REASONS]) + more


class StatusLine:
    """Stream for log lines that keeps one line below them on a terminal.

    shared: another process keeps its line there; log lines replace that line until it is shown again.
    """

    def __init__(self, stream: TextIO, columns: int = 120, shared: bool = False) -> None:
        self._stream = stream
        self._clears = shared and stream.isatty()
        self.rewrites = stream.isatty() and not shared
        self._columns = columns
        self._shown = ""
        self.fileno = stream.fileno  # log setup recognises the journal by it

    def show(self, line: str) -> None:
        """Put the line at the bottom of the terminal, in place of the previous one.

        If the terminal is gone (EIO) the mirror continues without it; SIGHUP, which usually follows, stops the mirror.
        """
        line = printable(line, keep="")
        self._shown = line if len(line) < self._columns else line[: self._columns - 2] + "…"
        with suppress(OSError):
            self._stream.write(f"\r\x1b[K{self._shown}")
            self._stream.flush()

    def write(self, text: str) -> int:
        """Write whole log lines; the status line moves down."""
        self._stream.write(f"\r\x1b[K{text}{self._shown}" if self._shown or self._clears else text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


class Reporting(Protocol):
    """Builder of reports: Reporter, or the supervisor of several workers."""

    def report(self) -> MirrorReport: ...
    def observe(self) -> object: ...


class StatusReporter:
    """Reporter of a mirror's status line to its log or terminal, and to systemd.  quiet: only to systemd."""

    def __init__(
        self, reporter: Reporting, *, terminal: StatusLine, systemd: Systemd, interval_s: float, quiet: bool = False
    ) -> None:
        self._quiet = quiet
        self._reporter = reporter
        self._terminal = terminal
        self._systemd = systemd
        self._interval_s = interval_s
        self._before = self._snapshot()

    def _snapshot(self) -> Snapshot:
        return snapshot_of(self._reporter.report(), now())

    def line(self) -> str:
        """Return the status line for the time since the last one."""
        before, self._before = self._before, self._snapshot()
        return status_line(before, self._before)

    def run(self) -> None:
        """Show a line each interval: on the terminal in place, else in the log; and to systemd."""
        while True:
            shown_at = now()
            poll_s = POLL_S
            while (left_s := shown_at + self._interval_s - now()) > 0:
                sleep(min(left_s, poll_s))
                began = now()
                self._reporter.observe()
                self._systemd.repeat()
                poll_s = min(MOST_POLL_S, max(POLL_S, OBSERVE_SHARE * (now() - began)))
            line = self.line()
            self._systemd.status(line)
            if self._terminal.rewrites:
                self._terminal.show(line)
            elif not self._quiet:
                log.info("%s", line, extra={"key": f"status {self._before.at}"})  # unique: never a repetition
