"""Facts in the manifest of a load.  Every manifest of a job has all of them, of any kind: the newest one is the state
of the job.

    positions   of all partitions ever seen: the next offset to load
    passed      of the same: the latest time, in ms, that the position has certainly passed (hours.py)
    averages    bytes of a message by topic, as last loaded: what limits and tasks are estimated with
    logs        of partitions: what the log that the position belongs to is known by (logmarks.py)
    output      how the job's files are written (outputformat.py): format, columns; none while it has none
    set_back    of partitions whose position was set back: the batch that did it, the last one (rewind.py)
    ranges      of the batch: start, until, rows, gaps, lost, bytes, first, last, crc (sum of CRC-32 of values);
                min_ms, max_ms of rows that have a time of their own; no_time: rows in the hour of the plan instead
    gaps        of the batch: offsets that were gone before they could be loaded
    damaged     of the batch: offsets that were left out because they are damaged, and why; the first DAMAGED of them.
                How many there are in all stands in ranges
    hours       of the batch: rows by topic, date and hour; late: those of them whose hour was closed already
    counts      of the batch: what each of the three counted
    taken_over  of the batch: rows that an attempt before the committed one had read (portions.py)

Offsets of 0.7 are bytes: gaps and lost are bytes there, and rows are not until - start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkawire.model import TopicPartition
from sparkpipeline.errors import LedgerDamaged
from sparkpipeline.ledger.manifests import Manifest
from sparkpipeline.load.counts import RangeCount
from sparkpipeline.load.loadplan import LoadPlan, Marks, Positions, flat, marks_in, marks_rows
from sparkpipeline.load.staging import Observed
from sparkpipeline.paths import Hour
from sparkpipeline.ranges import range_row
from sparkpipeline.source.offsetbounds import by_topic
from sparkpipeline.source.schema import check_columns

DAMAGED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """State of a job."""

    positions: Positions = field(default_factory=dict)
    passed: Positions = field(default_factory=dict)
    averages: Mapping[str, float] = field(default_factory=dict)
    set_back: Positions = field(default_factory=dict)
    marks: Marks = field(default_factory=dict)
    output: Mapping[str, str] | None = None

    @property
    def columns(self) -> str | None:
        """Return the columns of the job's files, as DDL; None: read them from the files (Parquet, from a release that
        did not store them)."""
        return None if self.output is None else self.output["columns"]

    @staticmethod
    def of(newest: Manifest | None) -> JobState:
        """Return the state in the newest manifest.  Raises LedgerDamaged if it is not of a load."""
        if newest is None:
            return JobState()
        try:
            facts = newest.facts
            set_back = flat(facts.get("set_back", {}))  # missing in earlier manifests
            marks = marks_in(facts.get("logs", {}))  # missing in earlier manifests
            return JobState(
                positions=flat(facts["positions"]),
                passed=flat(facts["passed"]),
                averages=dict(facts["averages"]),
                set_back=set_back,
                marks=marks,
                output=output_of(facts),  # missing in earlier manifests
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as exc:
            raise LedgerDamaged(f"its facts are not those of a load: {exc!r}", batch=newest.batch) from None

    def facts(self) -> dict[str, Any]:
        return {
            "positions": by_topic(self.positions),
            "passed": by_topic(self.passed),
            "averages": {topic: self.averages[topic] for topic in sorted(self.averages)},
            "set_back": by_topic(self.set_back),
            "logs": marks_rows(self.marks),
            **({} if self.output is None else {"output": dict(self.output)}),
        }


def output_of(facts: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return the output format of a job's files in facts; None: not stored.  Raises KeyError, TypeError, ValueError."""
    output = facts.get("output")
    if output is None:
        return None
    return {"format": str(output["format"]), "columns": check_columns(str(output["columns"]))}


def averages(before: Mapping[str, float], counts: Iterable[RangeCount]) -> dict[str, float]:
    """Return the average message size by topic, updated by this load."""
    sums: dict[str, tuple[int, int]] = {}
    for count in counts:
        rows, size = sums.get(count.range.topic, (0, 0))
        sums[count.range.topic] = rows + count.rows, size + count.bytes
    now = {topic: round(size / rows, 1) for topic, (rows, size) in sums.items() if rows}
    return {**before, **now}


def latest_ms(counts: Iterable[RangeCount]) -> dict[TopicPartition, int]:
    """Return the latest time loaded, by partition; for rows without a time, the begin of the hour of their plan."""
    found: dict[TopicPartition, int] = {}
    for count in counts:
        for file in count.files:
            ms = file.back.max_ms
            if ms is None:
                ms = file.name.hour.begin_ms
            found[count.range.tp] = max(ms, found.get(count.range.tp, 0))
    return found


def hour_rows(counts: Iterable[RangeCount]) -> dict[Hour, int]:
    """Return the rows by hour."""
    found: dict[Hour, int] = {}
    for count in counts:
        for file in count.files:
            found[file.name.hour] = found.get(file.name.hour, 0) + file.back.rows
    return found


def batch_facts(
    plan: LoadPlan,
    counts: Sequence[RangeCount],
    seen: Observed,
    *,
    state: JobState,
    closed: Iterable[Hour],
) -> dict[str, Any]:
    """Return the facts of a batch that read topics.  state: after it; closed: its hours that were closed before."""
    rows = hour_rows(counts)
    already = set(closed)
    return {
        **state.facts(),
        "ranges": [count.facts() for count in counts],
        "gaps": [range_row(gap) for gap in plan.gaps],
        "hours": [
            {"topic": hour.topic, "date": hour.date, "hour": hour.hour, "rows": rows[hour]} for hour in sorted(rows)
        ],
        **_damaged(counts),
        "late": sum(rows[hour] for hour in rows if hour in already),
        "counts": {
            "reader": {
                "begun": seen.begun,
                "crc": seen.crcs,
                "numbers": seen.numbers,
                **({} if seen.covered is None else {"covered": seen.covered}),
                **({} if seen.kept_back is None else {"kept_back": seen.kept_back}),
            },
            "spark": {"rows": seen.rows, "read_back": sum(count.rows for count in counts)},
            "footers": {"rows": sum(file.footer.rows for count in counts for file in count.files)},
        },
    }


def _damaged(counts: Iterable[RangeCount]) -> dict[str, Any]:
    found = [entry for count in counts for entry in count.damage][:DAMAGED]
    rows = [{**range_row(entry.range), "start": entry.start, "until": entry.until, "why": entry.why} for entry in found]
    return {"damaged": rows} if rows else {}
