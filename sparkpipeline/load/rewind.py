"""Rewind: loading again from a point in time.  Finds the files to replace and the offsets to read again.

Files are the unit of replacement.  The boundary is the start of the first live file that may hold rows of the time or
later; where a compacted file reaches over it, it moves down to that file's start.  Everything from there to the job's
position is read again, so positions do not change.  Works where the broker cannot answer for a time (0.8, 0.9).

Files from before a position was set back are left alone: the same offsets may mean other messages there.  A topic that
was deleted and created again begins at 0, and `load init --replace` takes the job there.  A rewind that took the
offsets of the older files for those of the log of today would throw their rows away, and the log has them no more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from groundwork.decimals import decimal_int
from groundwork.sentences import iso_ms
from kafkawire.model import PartitionId, TopicPartition
from sparkpipeline.errors import OffsetOutOfRange, OptionRefused, Refused
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import LiveFile
from sparkpipeline.load.facts import JobState
from sparkpipeline.load.loadplan import COMPACT, LogBounds, Positions, in_order
from sparkpipeline.paths import HOUR_MS, FinalName, Hour
from sparkpipeline.ranges import OffsetRange, unit_of

LEAST_DIGITS = 12  # ms of 1973 and later


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """Live file with its parsed name.  max_ms: no row of it is later (the end of the hour if that is unknown)."""

    file: LiveFile
    name: FinalName
    max_ms: int


@dataclass(frozen=True, slots=True)
class Rewind:
    """Result of planning a rewind.  ranges: one a partition, not cut; supersedes: files to replace; kept: partitions
    that stay as they are, and why."""

    ranges: tuple[OffsetRange, ...]
    supersedes: tuple[LiveFile, ...]
    kept: tuple[tuple[TopicPartition, str], ...] = ()

    @property
    def rows(self) -> int:
        """Return the rows of the files that are replaced."""
        return sum(file.rows for file in self.supersedes)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.supersedes)

    @property
    def hours(self) -> list[str]:
        """Return the folders of hours that change."""
        return sorted({file.final.rpartition("/")[0] for file in self.supersedes})


def time_of(text: str, option: str = "--to") -> int:
    """Return milliseconds since 1970 of a time: 2026-01-01T10:00Z, with another zone or none (UTC), or a number.

    Raises OptionRefused, also for a number that may be a day (20260101) or seconds: it would rewind to the
    beginning."""
    text = text.strip()
    if (ms := decimal_int(text)) is not None:
        if text != "0" and len(text) < LEAST_DIGITS:
            raise OptionRefused(
                f"{text} ms is early in 1970; write a time such as 2026-01-01T10:00Z, or 0 for everything",
                option=option,
            )
        return ms
    if (found := iso_ms(text)) is None:
        raise OptionRefused(f"expected a time such as 2026-01-01T10:00Z, got {text!r}", option=option)
    return found


# ---- which files -----------------------------------------------------------------------------------------------------


def loaded_files(
    live: Iterable[LiveFile], max_ms: Mapping[tuple[TopicPartition, int, int], int | None]
) -> list[LoadedFile]:
    """Return the live files of the job.  max_ms: latest time of ranges that were counted, by partition, start and
    until.

    A range may lie in several files (hours): none of them has rows behind the end of its hour either."""
    found = []
    for file in live:
        name = FinalName.of(file.final)
        if name is None:
            continue
        end = name.hour.end_ms - 1
        known = max_ms.get((name.tp, name.start, name.until))
        # Known earlier than the hour: rows without a timestamp, which have the hour of their plan.
        found.append(LoadedFile(file, name, end if known is None or known <= end - HOUR_MS else min(end, known)))
    return found


def rewind(
    files: Collection[LoadedFile],
    positions: Positions,
    logs: Mapping[TopicPartition, LogBounds],
    *,
    topic: str,
    partition: object | None,
    to_ms: int,
    allow_partial: bool = False,
) -> Rewind:
    """Return the files and offsets for loading `topic` again from to_ms.

    Raises Refused when nothing was loaded at that time or later, and OffsetOutOfRange when the cluster does not have
    those messages any more; with allow_partial as much as it has, from the next file on."""
    by_tp: dict[TopicPartition, list[LoadedFile]] = {}
    for one in files:
        if one.name.hour.topic == topic and partition in (None, one.name.partition):
            by_tp.setdefault(one.name.tp, []).append(one)
    ranges: list[OffsetRange] = []
    supersedes: list[LiveFile] = []
    kept: list[tuple[TopicPartition, str]] = []
    for tp in in_order(by_tp):
        mine = by_tp[tp]
        late = [one.name.start for one in mine if one.max_ms >= to_ms]
        if not late:
            continue
        boundary, why = _boundary(
            tp, mine, min(late), log=logs.get(tp), position=positions[tp], allow_partial=allow_partial
        )
        if boundary is None:
            kept.append((tp, why))
            continue
        if why:
            kept.append((tp, why))
        ranges.append(OffsetRange(tp.topic, tp.partition, boundary, positions[tp]))
        supersedes += [one.file for one in mine if one.name.start >= boundary]
    if not ranges and not kept:
        if topic not in (known := sorted({tp.topic for tp in positions})):
            raise Refused(f"the job has loaded no topic {topic}; it has {', '.join(known)}", topic=topic)
        what = topic if partition is None else f"{topic}/{partition}"
        raise Refused(f"nothing of {what} was loaded with that time or a later one", topic=topic)
    return Rewind(tuple(ranges), tuple(sorted(supersedes, key=lambda file: file.final)), tuple(kept))


def _boundary(
    tp: TopicPartition,
    files: Collection[LoadedFile],
    wanted: int,
    *,
    log: LogBounds | None,
    position: int,
    allow_partial: bool,
) -> tuple[int | None, str]:
    """Return where to read from, and a message if that differs from the request; None: nothing can be read again."""
    boundary = wanted
    while (over := _over(files, boundary)) is not None:
        boundary = over
    where = {"topic": tp.topic, "partition": tp.partition, "requested": boundary}
    if log is None or log.latest < position:
        raise OffsetOutOfRange(
            f"the log ends before the job's position {position}: it is another log",
            **where, latest=None if log is None else log.latest,
        )  # fmt: skip
    if boundary >= log.earliest:
        return boundary, ""
    if not allow_partial:
        raise OffsetOutOfRange(
            f"the cluster has deleted {log.earliest - boundary} {unit_of(tp.partition)} of what to load again;"
            " --allow-partial loads the rest and keeps the files of what is gone",
            **where, earliest=log.earliest,
        )  # fmt: skip
    for start in sorted({one.name.start for one in files}):
        if start >= log.earliest and _over(files, start) is None:
            return start, f"from {start} on instead of {boundary}: the log begins at {log.earliest}"
    return None, f"stays as it is: the log begins at {log.earliest}, inside or behind its last file"


def _over(files: Iterable[LoadedFile], boundary: int) -> int | None:
    """Return the smallest start of files that begin before a boundary and end after it."""
    return min((one.name.start for one in files if one.name.start < boundary < one.name.until), default=None)


# ---- files of an earlier log -----------------------------------------------------------------------------------------

Old = Callable[[str], bool]
Place = tuple[Hour, PartitionId]  # a compaction makes one file of each


def of_earlier_log(ledger: Ledger, state: JobState) -> Old:
    """Return a function that tells whether the rows of a final path were loaded before its partition's offset was last
    set back.

    A compacted file is as old as those it was made of; it never mixes both.  Reads a manifest (and of compactions the
    plan) for each batch asked about."""
    heirs: dict[int, dict[Place, str]] = {}

    def old(final: str) -> bool:
        name = FinalName.of(final)
        if name is None or name.tp not in state.set_back:
            return False
        if name.batch < state.set_back[name.tp]:
            return True
        if name.batch not in heirs:
            heirs[name.batch] = _one_of_each(ledger, name.batch)
        before = heirs[name.batch].get((name.hour, name.partition))
        return before is not None and old(before)

    return old


def _one_of_each(ledger: Ledger, batch: int) -> dict[Place, str]:
    """Return for each file of a compaction one of its source files, by hour and partition."""
    if ledger.manifest(batch).kind != COMPACT:
        return {}
    names = {path: FinalName.of(path) for path in ledger.plan(batch).supersedes}
    return {(name.hour, name.partition): path for path, name in names.items() if name is not None}
