"""Compaction: merges small files of an hour and partition into one, with the same rows, without reading from Kafka.

Late rows, and runs every few minutes, leave small files.  A batch of kind compact supersedes them by the files it
writes; a file of [0, 200) may so take the place of those of [0, 100) and [100, 200).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from groundwork.failpoints import failpoint
from sparkpipeline.errors import LedgerDamaged, Mismatch
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import BatchFile, LiveFile, Plan, StagedBatch
from sparkpipeline.load.config import LoadConfig
from sparkpipeline.load.counts import CountedFile, ReadBack, count_staged, read_back
from sparkpipeline.load.facts import JobState
from sparkpipeline.load.hourrules import HourRule
from sparkpipeline.load.loadplan import COMPACT
from sparkpipeline.load.staging import write
from sparkpipeline.paths import FinalName, Hour
from sparkpipeline.source.schema import struct_type

Watch = Callable[[str, int, int, int], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files of one hour and partition that become one. partition: as in file names."""

    hour: Hour
    partition: str
    start: int
    until: int
    rows: int
    bytes: int
    files: tuple[str, ...]

    @property
    def place(self) -> tuple[str, str, str, str]:
        return self.hour.topic, self.partition, self.hour.date, self.hour.hour

    def row(self) -> dict[str, Any]:
        return {
            "topic": self.hour.topic, "date": self.hour.date, "hour": self.hour.hour, "partition": self.partition,
            "start": self.start, "until": self.until, "rows": self.rows, "bytes": self.bytes, "files": list(self.files),
        }  # fmt: skip

    @staticmethod
    def of(row: Mapping[str, Any]) -> FileGroup:
        hour = Hour(str(row["topic"]), str(row["date"]), str(row["hour"]))
        return FileGroup(
            hour=hour,
            partition=str(row["partition"]),
            start=int(row["start"]),
            until=int(row["until"]),
            rows=int(row["rows"]),
            bytes=int(row["bytes"]),
            files=tuple(row["files"]),
        )


def groups(
    live: Iterable[LiveFile],
    date: str,
    *,
    topic: str | None = None,
    hour: str | None = None,
    min_files: int = 2,
    old: Callable[[str], bool] = lambda final: False,
) -> list[FileGroup]:
    """Return hours of a day and partitions that have at least `min_files` files.

    old: whether a file is from before its position was set back (rewind.py); such files and others are never put
    together: where an hour has enough of both, the others go first."""
    by_place: dict[tuple[Hour, str, bool], list[LiveFile]] = {}
    for file in live:
        name = FinalName.of(file.final)
        if name is None or name.hour.date != date or topic not in (None, name.hour.topic):
            continue
        if hour in (None, name.hour.hour):
            by_place.setdefault((name.hour, str(name.partition), old(file.final)), []).append(file)
    enough = {place: files for place, files in sorted(by_place.items()) if len(files) >= min_files}
    return [
        _group(in_hour, partition, files)
        for (in_hour, partition, before), files in enough.items()
        if not before or (in_hour, partition, False) not in enough
    ]


def _group(hour: Hour, partition: str, files: list[LiveFile]) -> FileGroup:
    names = [name for file in files if (name := FinalName.of(file.final)) is not None]
    return FileGroup(
        hour=hour,
        partition=partition,
        start=min(name.start for name in names),
        until=max(name.until for name in names),
        rows=sum(file.rows for file in files),
        bytes=sum(file.bytes for file in files),
        files=tuple(sorted(file.final for file in files)),
    )


def plan_of(batch: int, now_ms: int, found: Iterable[FileGroup]) -> Plan:
    """Return the plan of a batch that compacts these groups."""
    rows = list(found)
    supersedes = tuple(file for group in rows for file in group.files)
    return Plan(batch, COMPACT, now_ms, {"groups": [group.row() for group in rows]}, supersedes)


def groups_of(plan: Plan) -> list[FileGroup]:
    """Return the groups of a plan, whose files are the superseded ones.  Raises LedgerDamaged."""
    try:
        found = [FileGroup.of(row) for row in plan.work["groups"]]
        if {file for group in found for file in group.files} != set(plan.supersedes):
            raise ValueError("its groups are of other files than it supersedes")
    except (KeyError, TypeError, ValueError, OverflowError) as exc:
        raise LedgerDamaged(f"is not a plan of a compaction: {exc!r}; abandon it", batch=plan.batch) from None
    return found


def execute(spark: Any, config: LoadConfig, ledger: Ledger, plan: Plan, *, staging: str, watch: Watch) -> StagedBatch:
    """Write the groups of a plan into staging, and count them.  Raises Mismatch, LedgerDamaged, and Spark's
    exceptions."""
    found = groups_of(plan)
    paths = [ledger.path(file) for group in found for file in group.files]
    rows = sum(group.rows for group in found)
    state = JobState.of(ledger.state().newest)
    with watch(f"batch {plan.batch}: compacting", 0, rows, sum(group.bytes for group in found)):
        _write(spark, config, ledger, paths, columns=state.columns, count=len(found), staging=staging)
    failpoint("load after audit")
    before = read_back(spark, config.format, paths, HourRule("plan"))
    staged = count_staged(spark, config.format, ledger, staging, HourRule("plan"))
    files = _counted(found, staged, before, plan.batch)
    facts = {**state.facts(), "compacted": {"from": len(paths), "to": len(files)}}
    return StagedBatch(files, facts, str(spark.sparkContext.applicationId))


def _write(
    spark: Any, config: LoadConfig, ledger: Ledger, paths: list[str], *, columns: str | None, count: int, staging: str
) -> None:
    from pyspark.sql import functions as F

    path, folders = F.col("_metadata.file_path"), "/topic=([^/]+)/date=([^/]+)/hour=([^/]+)/[^/]+$"
    rows = config.format.read(spark.read, paths, None if columns is None else struct_type(columns))
    placed = rows.withColumns(
        {name: F.regexp_extract(path, folders, n) for n, name in enumerate(("topic", "date", "hour"), 1)}
    )
    tasks = max(1, min(count, int(spark.sparkContext.defaultParallelism)))
    # All rows of a group come to one task, which writes one file of them.
    write(placed.repartition(tasks, "topic", "partition", "date", "hour"), config, staging, ledger.files)


def _counted(
    found: list[FileGroup], staged: list[CountedFile], before: Mapping[str, ReadBack], batch: int
) -> tuple[BatchFile, ...]:
    """Return one file per group, with exactly the rows of its files.  Raises Mismatch."""
    by_place = {(f.name.hour.topic, str(f.name.partition), f.name.hour.date, f.name.hour.hour): f for f in staged}
    if len(by_place) != len(staged) or set(by_place) != {group.place for group in found}:
        raise Mismatch(f"{len(found)} groups became {len(staged)} files", batch=batch)
    entries = []
    for group in found:
        file = by_place[group.place]
        olds = [before[path] for path in group.files]
        old = (group.rows, sum(one.rows for one in olds), sum(one.bytes for one in olds), sum(one.crcs for one in olds))
        new = (file.back.rows, file.back.rows, file.back.bytes, file.back.crcs)
        if old != new or not group.start <= file.back.first <= file.back.last < group.until:
            raise Mismatch(
                f"rows, bytes and checksums of its files are {old[1:]}, of the new one {new[1:]}",
                folder=group.hour.folder, partition=group.partition,
            )  # fmt: skip
        entries.append(
            BatchFile(file.path, file.name.final(group.start, group.until, batch), file.back.rows, file.size)
        )
    return tuple(entries)
