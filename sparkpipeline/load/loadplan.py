"""The plan of a load: the `work` of a plan of kind load, rewind, compact or init, as a value and in JSON.  Pure.

    ranges      exact ranges to read; tasks[i] of them, one after the other, are task i
    positions   of all partitions the job has ever seen, as they are after the batch
    gaps        messages that were gone before they were loaded (out.of.range=earliest)
    logs        what the logs of positions are known by, as they are after the batch (logmarks.py)
    heads       where each log ended when the plan was made: a partition that reaches it has caught up
    time        how the hour of a row is found: part of the plan, so that a restart with other options changes nothing

A partition's key in JSON is its number as text; of 0.7, whose partitions belong to brokers, "broker-partition".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kafkawire.model import TopicPartition
from sparkpipeline.errors import LedgerDamaged
from sparkpipeline.ledger.manifests import Plan
from sparkpipeline.load.hourrules import HourRule
from sparkpipeline.ranges import OffsetRange, partition_of, range_row
from sparkpipeline.source.offsetbounds import by_topic
from sparkpipeline.source.offsetbounds import in_order as in_order
from zkconsumer.offsets.former import TopicCreation

LOAD, REWIND, COMPACT, INIT = "load", "rewind", "compact", "init"
KINDS = (LOAD, REWIND, COMPACT, INIT)
Positions = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Bounds of a partition's log: its first offset, and that of the next message."""

    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class LogMark:
    """Mark that identifies an offset's log; None: not known. offset: of the message with checksum crc."""

    offset: int | None = None
    crc: int | None = None
    czxid: int | None = None
    ctime_ms: int | None = None

    @property
    def topic(self) -> TopicCreation | None:
        known = self.czxid is not None and self.ctime_ms is not None
        return TopicCreation(self.czxid, self.ctime_ms) if known else None  # type: ignore[arg-type]


Marks = Mapping[TopicPartition, LogMark]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Work of a batch that reads topics (kinds load and rewind)."""

    ranges: tuple[OffsetRange, ...]
    tasks: tuple[int, ...]
    positions: Positions
    heads: Positions
    gaps: tuple[OffsetRange, ...] = ()
    rule: HourRule = field(default_factory=HourRule)
    marks: Marks = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Return the number of offsets to read: the maximum of rows."""
        return sum(rng.count for rng in self.ranges)

    def work(self) -> dict[str, Any]:
        """Return it for Plan.work."""
        return {
            "ranges": [range_row(rng) for rng in self.ranges],
            "tasks": list(self.tasks),
            "positions": by_topic(self.positions),
            "heads": by_topic(self.heads),
            "gaps": [range_row(gap) for gap in self.gaps],
            "time": asdict(self.rule),
            "logs": marks_rows(self.marks),
        }

    @classmethod
    def of(cls, plan: Plan) -> LoadPlan:
        """Parse it.  Raises LedgerDamaged."""
        work = plan.work
        try:
            ranges = tuple(_range(row) for row in work["ranges"])
            gaps = tuple(_range(row) for row in work["gaps"])
            tasks = tuple(int(count) for count in work["tasks"])
            marks = marks_in(work.get("logs", {}))  # missing in plans of earlier releases
            rule = HourRule.of(work["time"])
            found = cls(
                ranges=ranges,
                tasks=tasks,
                positions=flat(work["positions"]),
                heads=flat(work["heads"]),
                gaps=gaps,
                rule=rule,
                marks=marks,
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as exc:
            raise LedgerDamaged(f"is not a plan of a load: {exc!r}; abandon it", batch=plan.batch) from None
        return found

    def of_task(self, number: int) -> tuple[OffsetRange, ...]:
        """Return the ranges of one task."""
        begin = sum(self.tasks[:number])
        return self.ranges[begin : begin + self.tasks[number]]

    def of_tasks(self, first: int, until: int) -> LoadPlan:
        """Return this plan with only the ranges of these tasks, which are numbered from 0 in it."""
        begin, end = sum(self.tasks[:first]), sum(self.tasks[:until])
        return replace(self, ranges=self.ranges[begin:end], tasks=self.tasks[first:until])


def _range(row: Mapping[str, Any]) -> OffsetRange:
    if not isinstance(row["topic"], str):
        raise TypeError(f"{row['topic']!r} is not a topic")
    return OffsetRange(row["topic"], partition_of(row["partition"]), int(row["start"]), int(row["until"]))


# ---- in JSON ---------------------------------------------------------------------------------------------------------


def flat(values: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """Return {orders/0: 17} for {"orders": {"0": 17}}. Raises ValueError."""
    return {
        TopicPartition(topic, partition_of(key)): int(at) for topic, rows in values.items() for key, at in rows.items()
    }


def marks_rows(marks: Marks) -> dict[str, dict[str, dict[str, int]]]:
    """Return {"orders": {"0": {"offset": 17, "crc": 1, ..}}}, without unknown values."""
    rows = {tp: {n: value for n, value in asdict(mark).items() if value is not None} for tp, mark in marks.items()}
    return by_topic({tp: row for tp, row in rows.items() if row})


def marks_in(rows: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[TopicPartition, LogMark]:
    """Parse the result of marks_rows().  Raises TypeError, ValueError."""
    return {
        TopicPartition(topic, int(key)): LogMark(**row) for topic, marks in rows.items() for key, row in marks.items()
    }
