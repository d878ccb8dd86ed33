"""Report: the state of a mirror at one moment.  Every view shows it: status line, `mirrormaker status`, /status, the
status page and /metrics.  Pure and immutable; built in reporter.py.

    MirrorReport      everything: sources, partitions, waiting topics, recent events
    SourceReport      one source cluster
    PartitionReport   one partition that this mirror owns
    GroupReport       one group of a source that follows to the target
    Happening         one event, as in the log
    WorkerReport      one process of a mirror that runs in several (mirrormaker/workers/)
    ConnectionReport  the connections to one broker
    ReloadReport, ProduceReport   the last reload; counts of requests to the target
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from groundwork.sentences import counted

HANDLERS = ("message.handler", "message.set.handler")  # options whose handlers may drop messages
COPIED, ENCODED = "copied", "encoded again"  # what happens to messages that message.set.handler sends


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """One partition that this mirror owns.

    Offsets and lag count messages, or bytes for 0.7 (lag_unit).  None: not known yet, or not any more. state: reading,
    stalled, paused, throttled, parked, waiting, starting, looking for leader or leaving; reason: why it makes no
    progress, "" while it does.  lag_s: how long ago the log ended at this partition's offset; lag_s_is_least: it may be
    longer, because the log was longer already when this mirror first saw it. messages_per_s and bytes_per_s: what the
    target acknowledged recently.
    """

    source: str
    topic: str
    partition: int | str  # of 0.7: broker-index
    target_topic: str
    owner: str
    state: str
    reason: str
    route: str
    committed: int | None
    done: int | None
    end: int | None
    lag: int | None
    lag_unit: str  # messages or bytes
    lag_s: float | None
    lag_s_is_least: bool = False
    messages_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    """One source.  state: joining, running, out of reach or refused (its configuration cannot be right).

    reason: why not all of it flows, also while it runs; merged: target topics that another source writes to as well.
    rebalances: rebalances of the group so far, including retries.  committed_at_ms: Unix time of the last commit;
    failed_commits: offsets that could not be committed.  None: not known yet. held_bytes: fetched and not done, of
    max_bytes (queued.max.bytes, of all workers together); waiting_bytes: by topic, those of partitions that had nothing
    done for a second.  unowned: partitions that no member of the group owns.  groups_reason: why its groups do not
    follow now, or "".
    """

    name: str
    version: str
    state: str
    reason: str
    owned: int
    lag: int | None
    lag_unit: str
    merged: tuple[str, ...] = ()
    rebalances: int | None = None
    committed_at_ms: int | None = None
    failed_commits: int | None = None
    held_bytes: int = 0
    max_bytes: int = 0
    waiting_bytes: dict[str, int] = field(default_factory=dict)
    unowned: int | None = None
    groups_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionReport:
    """Connections of a source's flow to one broker: to the source for fetches, or to the target for produce requests.

    open: number of open connections; 0 if the broker is unreachable, or was not needed yet.  most: their number at full
    load (num.consumer.fetchers, num.producer.connections; summed over workers).
    """

    source: str
    side: str  # source or target
    broker: int
    open: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTopic:
    """Topic or partition of a source that is held back, with the reason as a sentence."""

    source: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    """A group of a source whose offsets follow to the target (mirror.groups), as far as this mirror copies its
    partitions.

    state: following, waiting (not all of it can be translated now) or left alone (it has members at the target, or
    offsets there that the mirror did not write); reason: why, or "".  partitions: those of the target that it follows
    in.  repeats: messages that it would read twice if it started there; missing: messages of the source that the target
    did not have; translated_at_ms: Unix time of the oldest of these translations.  None: unknown.
    """

    source: str
    group: str
    target_group: str
    state: str
    reason: str
    partitions: int
    repeats: int | None
    missing: int | None
    translated_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """An event.  name: used in alerts and searches, such as parked; at_ms: Unix time."""

    at_ms: int
    level: str
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadReport:
    """Result of the last reload.  at_ms: Unix time; problem: why the configuration was not changed, "" if it was
    applied.

    pending: a sentence for each change that waits for a restart, as of the last file that could be read.
    """

    at_ms: int
    problem: str
    pending: tuple[str, ...] = ()


def waiting(pending: Sequence[str]) -> str:
    """Return how many changes of the configuration wait for a restart, as a clause."""
    return (
        f"{counted(len(pending), 'change')} of the configuration wait{'s' if len(pending) == 1 else ''} for a restart"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceReport:
    """Produce requests to the target since the start.  retries: batches that were sent again; unknown_outcomes:
    attempts after which a batch may be stored twice: without a response, or with one that does not say; errors:
    responses with an error, by Kafka's code."""

    requests: int
    retries: int
    unknown_outcomes: int
    errors: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """One worker of a mirror.  state: starting, running, restarting or stopping; reason: why it does not run, or why it
    copies nothing although it runs.

    pid: None while it has no process.  restarts: how often its process was replaced.  messages, bytes: acknowledged by
    the target since its process began.
    """

    number: int
    pid: int | None
    state: str
    reason: str = ""
    ready: bool = False
    restarts: int = 0
    owned: int = 0
    messages: int = 0
    bytes: int = 0
    messages_per_s: float = 0.0
    bytes_per_s: float = 0.0
    in_flight_bytes: int = 0
    cpu_s: float | None = None
    resident_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorReport:
    """The whole mirror.  name: mirror.name, or that of its file.  utc_offset_s: offset of the local time used in its
    log.

    messages, bytes: acknowledged by the target since the start; left_out: messages that the configuration or
    message.handler left out of the target, by (source, topic, reason).

    limits: what an operator paused or throttled, also if it is not owned at present. gaps: messages (for 0.7: bytes)
    that the source deleted before they were read, by (source, topic). dropped_fields: messages that the target has
    without headers or a timestamp, by (source, topic, field). handled: messages that message.set.handler sent, by
    (source, topic, how): COPIED as they were fetched, or ENCODED. reload: None if there was none since the start.
    produced: None if nothing was connected yet. workers: its processes if it runs in several; empty for a single
    process.

    not_ready: sentences; empty if it is ready.  A mirror is alive as long as a report can be built.
    """

    at_ms: int
    started_ms: int
    release: str  # of this program
    target: str
    target_state: str  # why the target cannot be reached, or ""
    sources: tuple[SourceReport, ...]
    partitions: tuple[PartitionReport, ...]
    waiting: tuple[WaitingTopic, ...]
    happenings: tuple[Happening, ...]
    messages: int
    bytes: int
    messages_per_s: float
    bytes_per_s: float
    in_flight_bytes: int
    left_out: dict[tuple[str, str, str], int]
    not_ready: tuple[str, ...]
    log_level: str
    gaps: dict[tuple[str, str], int] = field(default_factory=dict)
    dropped_fields: dict[tuple[str, str, str], int] = field(default_factory=dict)
    handled: dict[tuple[str, str, str], int] = field(default_factory=dict)
    connections: tuple[ConnectionReport, ...] = ()
    reload: ReloadReport | None = None
    name: str = ""
    utc_offset_s: int = 0
    produced: ProduceReport | None = None
    limits: tuple[WaitingTopic, ...] = ()
    workers: tuple[WorkerReport, ...] = ()
    groups: tuple[GroupReport, ...] = ()

    @property
    def ready(self) -> bool:
        return not self.not_ready


def as_json(report: MirrorReport) -> dict[str, Any]:
    """Return the report as JSON values.

    left_out becomes a list of {source, topic, reason, messages}; the other counts likewise.
    """
    found = {name: _shallow(value) for name, value in _fields(report).items()}
    for name, (*of, what) in _COUNTS.items():
        counts = sorted(getattr(report, name).items())
        found[name] = [dict(zip((*of, what), (*key, count), strict=True)) for key, count in counts]
    return found | {"ready": report.ready}


def from_json(found: Mapping[str, Any]) -> MirrorReport:
    """Return the report that as_json() produced, after it was sent as JSON."""
    values = {name: value for name, value in found.items() if name != "ready"}
    for name, row in _ROWS.items():
        values[name] = tuple(row(**each) for each in values[name])
    values["sources"] = tuple(replace(one, merged=tuple(one.merged)) for one in values["sources"])
    values["not_ready"] = tuple(values["not_ready"])
    for name, (*of, what) in _COUNTS.items():
        values[name] = {tuple(row[each] for each in of): row[what] for row in values[name]}
    if values["reload"] is not None:
        values["reload"] = ReloadReport(**values["reload"] | {"pending": tuple(values["reload"]["pending"])})
    if values["produced"] is not None:
        errors = {int(code): count for code, count in values["produced"]["errors"].items()}
        values["produced"] = ProduceReport(**values["produced"] | {"errors": errors})
    return MirrorReport(**values)


# Names of the counters' columns in JSON.
_COUNTS: Mapping[str, tuple[str, ...]] = {
    "left_out": ("source", "topic", "reason", "messages"),
    "gaps": ("source", "topic", "missing"),
    "dropped_fields": ("source", "topic", "field", "messages"),
    "handled": ("source", "topic", "how", "messages"),
}
_ROWS: Mapping[str, Callable[..., Any]] = {
    "sources": SourceReport,
    "partitions": PartitionReport,
    "waiting": WaitingTopic,
    "limits": WaitingTopic,
    "happenings": Happening,
    "connections": ConnectionReport,
    "workers": WorkerReport,
    "groups": GroupReport,
}


def _shallow(value: Any) -> Any:
    """Return a nested report, or a tuple of them, as dicts.

    dataclasses.asdict is ten times as slow, since it copies each text and number; a mirror may have thousands of rows.
    """
    if isinstance(value, tuple):
        return [_fields(each) if dataclasses.is_dataclass(each) else each for each in value]
    return _fields(value) if dataclasses.is_dataclass(value) else value


def _fields(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


# ---- readiness ----------------------------------------------------------------------------------------------------


def not_ready(sources: Iterable[SourceReport], target_state: str, *, stopping: bool = False) -> tuple[str, ...]:
    """Return a sentence for each reason why the mirror is not ready; empty if it is ready.

    Ready means: every source is joined and has its assignment, every cluster answers, and the mirror does not stop.
    systemd's READY only says that the mirror began, since a restart would not help.  Parked, paused and waiting
    partitions do not count: each concerns one topic, and has a metric and an alert of its own.

    target_state: why the target cannot be reached, or "" if it answers.
    """
    sentences = ["the mirror is stopping"] if stopping else []
    if target_state:
        sentences.append(f"target: {target_state}")
    for source in sources:
        if why := why_not(source):
            sentences.append(f"source {source.name}: {why}")
    return tuple(sentences)


def why_not(source: SourceReport) -> str:
    """Return why not everything of a source can flow, or "" if it can."""
    if source.state == "running":
        return source.reason
    state = "joining its group" if source.state == "joining" else source.state
    return f"{state}: {source.reason}" if source.reason else state
