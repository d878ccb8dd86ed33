"""Reporter: counts what a running mirror does, and builds the MirrorReport that every view shows.

It reads flows, sources and senders, and changes nothing.  observe() runs a few times a second: progress of a partition
before it moved to another member must not be lost, and lags in seconds need the times at which logs had their ends.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from groundwork.installed import own_version
from groundwork.logs import current_level
from groundwork.tasks import now
from kafkawire.model import TopicPartition
from mirrormaker.flow import Flow
from mirrormaker.happenings import Happenings
from mirrormaker.limits import Limits
from mirrormaker.meters import EndHistory, RateWindow
from mirrormaker.report import (
    ConnectionReport,
    GroupReport,
    MirrorReport,
    PartitionReport,
    ProduceReport,
    ReloadReport,
    SourceReport,
    WaitingTopic,
    not_ready,
)
from mirrormaker.selection import Selection
from mirrormaker.source import Source
from mirrormaker.target import Target
from producer.outcomes import Counters
from zkconsumer.engine.status import PartitionStatus

STALLED_S = 5.0  # a lagging partition is stalled after that long without an acknowledgement


def newly_done(before: int | None, row: PartitionStatus) -> int:
    """Return how many messages of a partition were done since `before`; None means a new partition, counted since its
    last commit."""
    since = row.committed if before is None else before
    return 0 if row.done is None or since is None else max(0, row.done - since)


class PartitionMeter:
    """Measurements of one owned partition over time."""

    __slots__ = ("acknowledged", "ends", "messages", "moved_at", "rate")

    def __init__(self, at: float) -> None:
        self.ends = EndHistory()
        self.rate = RateWindow(at)
        self.messages = 0
        self.acknowledged = (0, 0)  # messages and bytes at the last observation
        self.moved_at = at  # when something was last acknowledged, or nothing was left to acknowledge

    def unchanged(self, row: PartitionStatus, at: float) -> None:
        """Record that nothing changed up to this moment."""
        self.rate.add(at, *self.acknowledged)
        if row.state != "reading" or not row.lag:
            self.moved_at = at
        if row.high_watermark is not None:
            self.ends.add(at, row.high_watermark)


class FlowMeter:
    """Counts of one flow.  messages: done since the start, in the unit of its offsets; see also acknowledged."""

    def __init__(self, flow: Flow) -> None:
        self.messages = 0
        self.partitions: dict[TopicPartition, PartitionMeter] = {}
        self._flow = flow
        self._done: dict[TopicPartition, int] = {}
        self._rows: list[PartitionStatus] = []
        self._at = 0.0

    @property
    def acknowledged(self) -> int:
        """Return the number of messages that the target acknowledged.

        If offsets are bytes, or a handler sends another number of messages, done offsets do not count messages; then
        the target's acknowledgements are counted.  Otherwise every done message was acknowledged, also inside wrappers.
        """
        flow = self._flow
        by_parts = flow.has_handler or flow.source.counts_bytes
        return flow.sender.counters.messages if by_parts else self.messages

    def observe(self, rows: list[PartitionStatus], at: float) -> None:
        """Count what was done since the last time.  Rows that are the same object as last time are skipped."""
        before, self._rows = self._rows, rows
        same_owned = len(before) == len(rows) and all(
            row is old or (row.partition == old.partition and row.topic == old.topic)
            for row, old in zip(rows, before, strict=True)
        )
        if not same_owned:
            owned = {row.tp: self.partitions.get(row.tp) or PartitionMeter(at) for row in rows}
            self.partitions = owned
            self._done = {tp: done for tp, done in self._done.items() if tp in owned}
            self._flow.intake.keep(owned.keys())
            changed = rows
        else:
            changed = []
            for row, old in zip(rows, before, strict=True):
                if row is not old:
                    self.partitions[row.tp].unchanged(old, self._at)
                    changed.append(row)
        self._at = at
        self._count(changed, at)

    def _count(self, rows: list[PartitionStatus], at: float) -> None:
        intake, in_bytes = self._flow.intake, self._flow.source.counts_bytes
        for row in rows:
            tp = row.tp
            meter = self.partitions[tp]
            messages, nbytes = intake.acknowledged(tp, row.done)
            before = self._done.get(tp)
            if row.state != "reading" or not row.lag or row.done != before:
                meter.moved_at = at
            self.messages += newly_done(before, row)
            if not in_bytes and row.done is not None:
                meter.messages += max(0, row.done - before) if before is not None else 0
                messages = meter.messages
            if row.done is None:
                self._done.pop(tp, None)
            else:
                self._done[tp] = row.done
            meter.acknowledged = messages, nbytes
            meter.rate.add(at, messages, nbytes)
            if row.high_watermark is not None:
                meter.ends.add(at, row.high_watermark)
            if row.done is not None:
                meter.ends.passed(row.done)

    def meter_of(self, row: PartitionStatus, at: float) -> PartitionMeter:
        """Return the measurements of a partition, updated even if nothing changed."""
        meter = self.partitions[row.tp]
        meter.unchanged(row, at)
        return meter


class Reporter:
    """Builder of one mirror's reports.

    sources: all configured sources, selections: their topics, by source; flows: those that have begun, more may be
    added. stalled_s: how long a partition may have nothing acknowledged before it counts as stalled. unowned(source):
    the partitions that no member owns, see OwnerWatch.  groups(), groups_reason(source): groups that follow to the
    target, and why they do not now, see Following.  limits(): what an operator paused and throttled.  reload(): the
    result of the last reload.  stopping(): True if the mirror is about to end.
    """

    def __init__(
        self,
        *,
        sources: Sequence[Source],
        flows: Sequence[Flow],
        target: Target,
        selections: Mapping[str, Selection],
        happenings: Happenings,
        name: str = "",
        stalled_s: float = STALLED_S,
        unowned: Callable[[str], int | None] = lambda source: None,
        groups: Callable[[], tuple[GroupReport, ...]] = tuple,
        groups_reason: Callable[[str], str] = lambda source: "",
        limits: Callable[[], Limits] = Limits,
        reload: Callable[[], ReloadReport | None] = lambda: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._sources = sources
        self._flows = flows
        self._target = target
        self._selections = selections
        self._happenings = happenings
        self._name = name
        self._stalled_s = stalled_s
        self._unowned = unowned
        self._groups = groups
        self._groups_reason = groups_reason
        self._limits = limits
        self._reload = reload
        self._stopping = stopping
        self._meters: dict[str, FlowMeter] = {}  # by flow
        self._started_ms = int(time.time() * 1000)
        self._release = own_version()
        self._rate = RateWindow(now())
        self.observe()

    def observe(self) -> dict[str, list[PartitionStatus]]:
        """Count what was done since the last time; return the owned partitions by source."""
        at = now()
        rows: dict[str, list[PartitionStatus]] = {}
        for flow in self._flows:
            rows[flow.name] = flow.source.partitions()
            if flow.name not in self._meters:
                self._meters[flow.name] = FlowMeter(flow)
            self._meters[flow.name].observe(rows[flow.name], at)
        self._rate.add(at, *self._totals())
        return rows

    def _totals(self) -> tuple[int, int]:
        """Return messages and bytes that the target acknowledged."""
        return sum(meter.acknowledged for meter in self._meters.values()), self._target.bytes

    def report(self) -> MirrorReport:
        """Return the current report of the mirror."""
        rows = self.observe()
        at = now()
        outage = self._target.outage
        sources = tuple(self._source(source, rows.get(source.name)) for source in self._sources)
        away = {source.name: source.reason for source in sources}
        partitions = [
            row
            for flow in self._flows
            for row in self._partitions(flow, rows[flow.name], away=away[flow.name], outage=outage, at=at)
        ]
        messages, nbytes = self._totals()
        messages_per_s, bytes_per_s = self._rate.per_s
        return MirrorReport(
            at_ms=int(time.time() * 1000),
            started_ms=self._started_ms,
            release=self._release,
            name=self._name,
            utc_offset_s=time.localtime().tm_gmtoff,
            target=self._target.options.address,
            target_state=outage,
            sources=sources,
            partitions=tuple(partitions),
            waiting=tuple(
                WaitingTopic(source=flow.name, name=name, reason=reason)
                for flow in self._flows
                for name, reason in sorted(flow.waiting.items())
            ),
            happenings=self._happenings.newest(),
            messages=messages,
            bytes=nbytes,
            messages_per_s=messages_per_s,
            bytes_per_s=bytes_per_s,
            in_flight_bytes=self._target.bytes_pending,
            left_out={
                (flow.name, topic, reason): count
                for flow in self._flows
                for (topic, reason), count in flow.left_out.items()
            },
            dropped_fields={
                (flow.name, topic, name): count
                for flow in self._flows
                for (topic, name), count in flow.dropped_fields.items()
            },
            handled={
                (flow.name, topic, how): count for flow in self._flows for (topic, how), count in flow.handled.items()
            },
            connections=tuple(each for flow in self._flows for each in _connections(flow)),
            not_ready=not_ready(sources, outage, stopping=self._stopping()),
            log_level=current_level(),
            gaps={(source.name, topic): count for source in self._sources for topic, count in source.gaps.items()},
            limits=tuple(
                WaitingTopic(source=limit.source, name=limit.name, reason=limit.reason) for limit in self._limits()
            ),
            reload=self._reload(),
            groups=self._groups(),
            produced=_produced([flow.sender.counters for flow in self._flows]),
        )

    def _source(self, source: Source, rows: list[PartitionStatus] | None) -> SourceReport:
        """Return the report of a source.  rows: its owned partitions, or None if it has not begun."""
        begun, (state, reason) = rows is not None and source.assigned, source.state(rows or ())
        lags, stores = [row.lag for row in rows or ()], source.offset_stores
        # Without its ZooKeeper a source soon owns nothing, and so has no lag: that must not look as if all were well.
        blind = bool(source.trouble) or not (begun or rows) or None in lags
        return SourceReport(
            name=source.name,
            version=source.dialect.release,
            state=state,
            reason=reason,
            owned=len(rows or ()),
            lag=None if blind else sum(lag or 0 for lag in lags),
            lag_unit=_unit(source),
            merged=self._merged(source.name),
            rebalances=source.rebalances,
            committed_at_ms=max((each.last.committed_at_ms for each in stores if each.last is not None), default=None),
            failed_commits=sum(each.failed for each in stores) if stores else None,
            held_bytes=sum(row.buffered_bytes for row in rows or ()),
            max_bytes=source.options.queued_max_bytes,
            waiting_bytes=_waiting_bytes(rows or ()),
            unowned=self._unowned(source.name),
            groups_reason=self._groups_reason(source.name),
        )

    def _merged(self, name: str) -> tuple[str, ...]:
        """Return the target topics of a source that another started source writes to as well."""
        own: set[str] = set()
        others: set[str] = set()
        for flow in self._flows:
            target = self._selections[flow.name].target
            (own if flow.name == name else others).update(target(topic) for topic in flow.topics)
        return tuple(sorted(own & others))

    def _partitions(
        self, flow: Flow, rows: list[PartitionStatus], *, away: str, outage: str, at: float
    ) -> Iterable[PartitionReport]:
        """Yield the owned partitions of a flow.  away, outage: why source and target cannot be reached, or "" if they
        answer."""
        waiting, unit, meters = flow.waiting, _unit(flow.source), self._meters[flow.name]
        away = f"source {flow.name}: {away}" if away else ""
        limits = self._limits()
        throttled = {each.topic: each for each in limits.throttles_of(flow.name)}
        routes = {topic: str(found.route) for topic, found in list(flow.topics.items())}
        known = [(row, meters.meter_of(row, at)) for row in rows]
        still_s = [at - meter.moved_at for _, meter in known]
        longest_s = max(still_s, default=0.0)
        for (row, meter), quiet_s in zip(known, still_s, strict=True):
            age = meter.ends.age_s(row.done, at) if row.done is not None and row.high_watermark is not None else None
            messages_per_s, bytes_per_s = meter.rate.per_s
            shown = PartitionReport(
                source=flow.name,
                topic=row.topic,
                partition=row.partition if isinstance(row.partition, int) else str(row.partition),
                target_topic=self._selections[flow.name].target(row.topic),
                owner=row.owner,
                state=row.state,
                reason="",
                route=routes.get(row.topic, ""),
                committed=row.committed,
                done=row.done,
                end=row.high_watermark,
                lag=row.lag,
                lag_unit=unit,
                lag_s=None if age is None else age[0],
                lag_s_is_least=age is not None and age[1],
                messages_per_s=messages_per_s,
                bytes_per_s=bytes_per_s,
            )
            limited = limits.reason(flow.name, row.tp)
            if row.state == "paused":
                yield replace(shown, reason=limited)
                continue
            waits = waiting.get(row.topic) or waiting.get(str(row.tp))
            where = f"target: {outage}" if outage else away
            still = quiet_s >= self._stalled_s or bool(where and not messages_per_s)
            shown = _explained(shown, row, waits, away, where or _stood_still(row, longest_s) if still else "")
            if shown.state in ("reading", "throttled", "stalled") and row.lag:
                key = flow.throttle.limiting(row.topic, at) if flow.throttle else None
                if key in throttled:
                    shown = replace(shown, state="throttled", reason=throttled[key].reason)
            yield shown if shown.state != "throttled" or shown.reason else replace(shown, state="reading")


def _explained(
    shown: PartitionReport, row: PartitionStatus, waits: str | None, source: str, stalled: str
) -> PartitionReport:
    """Return the partition with its state and why it makes no progress.  waits: what it waits for; source: what is
    unreachable there; stalled: why nothing is acknowledged, or "" if something is."""
    if row.parked is not None:
        return replace(shown, state="parked", reason=row.parked)
    if row.state in ("paused", "leaving"):
        return shown
    if waits:
        return replace(shown, state="waiting", reason=waits)
    if row.state != "reading":
        return replace(shown, reason=source)
    return replace(shown, state="stalled", reason=stalled) if row.lag and stalled else shown


def _stood_still(row: PartitionStatus, longest_s: float) -> str:
    """Return why a partition stalls while both clusters seem to answer; the same text for all such partitions."""
    what = "fetched and not acknowledged" if row.buffered_bytes else "nothing is fetched"
    return f"{what}, for up to {longest_s:.0f} s"


def _connections(flow: Flow) -> Iterable[ConnectionReport]:
    """Yield the connections to the brokers of a flow's source and of the target."""
    sides = (
        ("source", flow.source.connections, flow.source.options.fetchers),
        ("target", flow.sender.connections, flow.sender.connections_max),
    )
    for side, connections, most in sides:
        for broker, count in sorted(connections.items()):
            yield ConnectionReport(source=flow.name, side=side, broker=broker, open=count, most=most)


def _produced(counters: Sequence[Counters]) -> ProduceReport | None:
    if not counters:
        return None
    return ProduceReport(
        requests=sum(each.requests for each in counters),
        retries=sum(each.retries for each in counters),
        unknown_outcomes=sum(each.unknown for each in counters),
        errors=dict(sum((each.errors for each in counters), Counter())),
    )


def _waiting_bytes(rows: Sequence[PartitionStatus]) -> dict[str, int]:
    """Return the bytes, by topic, of partitions that had nothing done recently."""
    found: dict[str, int] = {}
    for row in rows:
        if row.waiting_bytes:
            found[row.topic] = found.get(row.topic, 0) + row.waiting_bytes
    return found


def _unit(source: Source) -> str:
    return "bytes" if source.counts_bytes else "messages"
