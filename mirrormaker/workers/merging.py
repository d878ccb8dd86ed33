"""Merging: combines the reports of several workers into one, and divides throttles among workers.  Pure.

counts        sums, including the counts of workers that have ended
partitions    of all workers; one that moves and is reported twice is shown once
sources       the worst state, each reason once; the lag is unknown while a worker is missing
readiness     ready once every worker is, including workers that own no partition
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from mirrormaker.attention import untimed
from mirrormaker.happenings import MAX_HAPPENINGS
from mirrormaker.limits import Limits, Throttle
from mirrormaker.report import (
    ConnectionReport,
    GroupReport,
    Happening,
    MirrorReport,
    PartitionReport,
    ProduceReport,
    SourceReport,
    WorkerReport,
)

STATES = ("refused", "out of reach", "joining", "running")  # worst state of a source first
NO_PARTITION = "owns no partition: there are more workers than the assignment has work for; it stands by"
T = TypeVar("T")


def merged(
    base: MirrorReport, workers: Sequence[WorkerReport], reports: Mapping[int, MirrorReport], past: MirrorReport
) -> MirrorReport:
    """Return the report of the mirror.  base: facts of the supervisor: start, release, target, sources, own happenings,
    reload, log level, and why it is not ready.  workers: all; reports: the newest of those that run; past: see `ended`.
    """
    living = [reports[worker.number] for worker in workers if worker.number in reports]
    everything = [*living, past]
    whole = len(living) == len(workers) and all(worker.state == "running" for worker in workers)
    return replace(
        base,
        at_ms=max((report.at_ms for report in living), default=base.at_ms),
        target_state=next((report.target_state for report in living if report.target_state), ""),
        sources=tuple(_source(source, living, past, whole) for source in base.sources),
        partitions=_partitions(living),
        waiting=_once(each for report in living for each in report.waiting),
        limits=_once(each for report in living for each in report.limits),
        happenings=_happenings(base, reports, past),
        messages=sum(report.messages for report in everything),
        bytes=sum(report.bytes for report in everything),
        messages_per_s=sum(report.messages_per_s for report in living),
        bytes_per_s=sum(report.bytes_per_s for report in living),
        in_flight_bytes=sum(report.in_flight_bytes for report in living),
        left_out=_sums(report.left_out for report in everything),
        gaps=_sums(report.gaps for report in everything),
        dropped_fields=_sums(report.dropped_fields for report in everything),
        handled=_sums(report.handled for report in everything),
        connections=_connections(living),
        produced=_produced([report.produced for report in everything if report.produced is not None]),
        not_ready=_not_ready(base, workers, reports),
        groups=_groups(living),
        workers=tuple(_worker(worker, reports.get(worker.number)) for worker in workers),
    )


def ended(past: MirrorReport, worker: int, last: MirrorReport) -> MirrorReport:
    """Return the counts and events of workers that ended.  past: the result for earlier workers."""
    return replace(
        past,
        sources=tuple(_counts(source, [*past.sources, *last.sources]) for source in past.sources),
        messages=past.messages + last.messages,
        bytes=past.bytes + last.bytes,
        left_out=_sums((past.left_out, last.left_out)),
        gaps=_sums((past.gaps, last.gaps)),
        dropped_fields=_sums((past.dropped_fields, last.dropped_fields)),
        handled=_sums((past.handled, last.handled)),
        produced=_produced([each for each in (past.produced, last.produced) if each is not None]),
        happenings=_newest([*past.happenings, *_named(worker, last.happenings)]),
    )


def shares(limits: Limits, reports: Mapping[int, MirrorReport]) -> dict[int, dict[tuple[str, str], float]]:
    """Return each worker's part of each throttle, by worker, then by source and topic: in proportion to the partitions
    that it owns.  If none are owned, all get equal parts."""
    found: dict[int, dict[tuple[str, str], float]] = {number: {} for number in reports}
    for limit in limits:
        if not isinstance(limit, Throttle):
            continue
        owned = {number: sum(_meant(limit, row) for row in report.partitions) for number, report in reports.items()}
        total = sum(owned.values())
        for number, count in owned.items():
            # A worker that owns none may get some at any moment: until its part is known it has the part of one
            # partition.
            part = max(count, 1) / max(total, 1) if total else 1 / len(reports)
            found[number][limit.source, limit.topic] = min(1.0, part)
    return found


def _meant(limit: Throttle, row: PartitionReport) -> bool:
    return row.source == limit.source and limit.topic in ("", row.topic)


# ---- parts of a report ----------------------------------------------------------------------------------------------


def _source(base: SourceReport, living: Sequence[MirrorReport], past: MirrorReport, whole: bool) -> SourceReport:
    rows = [source for report in living for source in report.sources if source.name == base.name]
    if not rows:
        return _counts(base, past.sources)
    worst = min(rows, key=lambda row: STATES.index(row.state) if row.state in STATES else 0)
    lags = [row.lag for row in rows]
    blind = None in lags or not whole
    return replace(
        _counts(base, [*rows, *past.sources]),
        version=rows[0].version,
        state=worst.state,
        reason="; ".join({untimed(row.reason): row.reason for row in rows if row.reason}.values()),
        owned=sum(row.owned for row in rows),
        lag=None if blind else sum(lag or 0 for lag in lags),
        lag_unit=rows[0].lag_unit,
        merged=tuple(sorted({topic for row in rows for topic in row.merged})),
        committed_at_ms=max((row.committed_at_ms for row in rows if row.committed_at_ms is not None), default=None),
        held_bytes=sum(row.held_bytes for row in rows),
        max_bytes=sum(row.max_bytes for row in rows),
        waiting_bytes=_sums(row.waiting_bytes for row in rows),
        unowned=next((row.unowned for row in rows if row.unowned is not None), None),
        groups_reason=next((row.groups_reason for row in rows if row.groups_reason), ""),
    )


def _counts(source: SourceReport, rows: Iterable[SourceReport]) -> SourceReport:
    """Return the source with the counts of all its rows."""
    mine = [row for row in rows if row.name == source.name]
    return replace(
        source,
        rebalances=_total(row.rebalances for row in mine),
        failed_commits=_total(row.failed_commits for row in mine),
    )


def _total(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the known counts, or None if none is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _partitions(living: Sequence[MirrorReport]) -> tuple[PartitionReport, ...]:
    """Return the rows of all workers.  While a partition moves, both its owners may show it: the one that is not
    leaving counts."""
    found: dict[tuple[str, str, str], PartitionReport] = {}
    for report in living:
        for row in report.partitions:
            key = row.source, row.topic, str(row.partition)
            if key not in found or found[key].state == "leaving":
                found[key] = row
    return tuple(sorted(found.values(), key=_place))


def _connections(living: Sequence[MirrorReport]) -> tuple[ConnectionReport, ...]:
    """Return the connections of all workers to each broker."""
    found: dict[tuple[str, str, int], ConnectionReport] = {}
    for row in (row for report in living for row in report.connections):
        known = found.setdefault((row.source, row.side, row.broker), replace(row, open=0, most=0))
        found[row.source, row.side, row.broker] = replace(known, open=known.open + row.open, most=known.most + row.most)
    return tuple(found[key] for key in sorted(found))


def _groups(living: Sequence[MirrorReport]) -> tuple[GroupReport, ...]:
    """Return the groups of all workers: each follows in the partitions that it owns."""
    found: dict[tuple[str, str], list[GroupReport]] = {}
    for row in (row for report in living for row in report.groups):
        found.setdefault((row.source, row.group), []).append(row)
    return tuple(_group(rows) for _, rows in sorted(found.items()))


def _group(rows: Sequence[GroupReport]) -> GroupReport:
    worst = next((row for state in ("left alone", "waiting") for row in rows if row.state == state), rows[0])
    missing = [row.missing for row in rows if row.partitions]
    return replace(
        worst,
        partitions=sum(row.partitions for row in rows),
        repeats=_total(row.repeats for row in rows),
        missing=None if None in missing else _total(missing),
        translated_at_ms=min((row.translated_at_ms for row in rows if row.translated_at_ms is not None), default=None),
    )


def _place(row: PartitionReport) -> tuple[str, str, bool, int, str]:
    number = row.partition if isinstance(row.partition, int) else 0
    return row.source, row.topic, isinstance(row.partition, str), number, str(row.partition)


def _worker(worker: WorkerReport, report: MirrorReport | None) -> WorkerReport:
    if report is None:
        return worker
    idle = worker.ready and not report.partitions and not report.not_ready
    return replace(
        worker,
        reason=worker.reason or (NO_PARTITION if idle else ""),
        owned=len(report.partitions),
        messages=report.messages,
        bytes=report.bytes,
        messages_per_s=report.messages_per_s,
        bytes_per_s=report.bytes_per_s,
        in_flight_bytes=report.in_flight_bytes,
    )


def _not_ready(
    base: MirrorReport, workers: Sequence[WorkerReport], reports: Mapping[int, MirrorReport]
) -> tuple[str, ...]:
    """Return each reason once: a reason of all workers unchanged, one of some workers with their numbers."""
    away: defaultdict[str, list[int]] = defaultdict(list)
    said: defaultdict[str, list[int]] = defaultdict(list)
    for worker in workers:
        report = reports.get(worker.number)
        if worker.state != "running" or worker.reason:
            away[f"{worker.state}: {worker.reason}" if worker.reason else worker.state].append(worker.number)
        elif report is not None:
            for reason in report.not_ready:
                alike = next((other for other in said if untimed(other) == untimed(reason)), reason)
                said[alike].append(worker.number)
    return (
        *base.not_ready,
        *(f"{_numbers(numbers)}: {reason}" for reason, numbers in away.items()),
        *(
            reason if len(numbers) == len(workers) else f"{_numbers(numbers)}: {reason}"
            for reason, numbers in said.items()
        ),
    )


def _numbers(numbers: Sequence[int]) -> str:
    return f"worker{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _happenings(base: MirrorReport, reports: Mapping[int, MirrorReport], past: MirrorReport) -> tuple[Happening, ...]:
    theirs = [each for number, report in reports.items() for each in _named(number, report.happenings)]
    return _newest([*base.happenings, *past.happenings, *theirs])


def _named(worker: int, happenings: Iterable[Happening]) -> list[Happening]:
    return [replace(each, text=f"worker {worker}: {each.text}") for each in happenings]


def _newest(happenings: Iterable[Happening]) -> tuple[Happening, ...]:
    return tuple(sorted(happenings, key=lambda each: each.at_ms)[-MAX_HAPPENINGS:])


def _produced(found: Sequence[ProduceReport]) -> ProduceReport | None:
    if not found:
        return None
    return ProduceReport(
        requests=sum(each.requests for each in found),
        retries=sum(each.retries for each in found),
        unknown_outcomes=sum(each.unknown_outcomes for each in found),
        errors=_sums(each.errors for each in found),
    )


def _sums(counts: Iterable[Mapping[T, int]]) -> dict[T, int]:
    total: Counter[T] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def _once(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))
