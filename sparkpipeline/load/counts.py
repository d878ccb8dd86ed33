"""Three independent counts of staged rows, and the checks between them.

    reader    counts while it decodes: row numbers and CRC-32 of values (seen by Spark as the rows go by: Observed)
    Spark     reads the staged files back: rows, offsets, times, sizes and CRC-32 of values, file by file
    footers   what each file says of itself: rows and offsets; where a format has no footer, each line's offset by
              another parser

Per range, rows are what both of the last say, offsets lie inside of it, and nothing is missing between start and until;
all ranges together have the row numbers and checksums that the reader saw.  The first difference is a Mismatch, and
nothing is committed.

Where brokers have transactions (0.11) offsets do not count rows either: markers stand among the messages, and those of
aborted transactions are left out.  The reader says of each range how many offsets these are, by the heads of batches
alone; rows and they together must be as many as the range has offsets.  For a range without rows no task says it: the
driver reads it once more, and must find no message either.

Where offsets are bytes (0.7) they do not count rows.  There the reader says how many bytes of the log its rows cover,
and all ranges together must have as many as the rows cover: a message that is left out would be missing there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from kafkawire.model import BrokerPartition
from sparkpipeline.errors import Mismatch
from sparkpipeline.ledger.base import needs_spark
from sparkpipeline.ledger.files import FileInfo, walk
from sparkpipeline.ledger.footers import Footer
from sparkpipeline.ledger.formats import FileFormat, footers
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.load.hourrules import HourRule
from sparkpipeline.load.hours import own_time
from sparkpipeline.load.loadplan import LoadPlan
from sparkpipeline.load.staging import Observed, ReadAgain
from sparkpipeline.paths import ENDINGS, StagedName, tail
from sparkpipeline.ranges import OffsetRange, range_row
from sparkpipeline.reading.damagelog import DamagedEntry
from sparkpipeline.source.schema import struct_type

Reader = Callable[[OffsetRange], ReadAgain]  # reads a range once more
NAME_IT = "if the topic is compacted, name it in compacted.topics"
COLUMNS = (
    "key binary, value binary, offset bigint, timestamp timestamp, timestampType int"  # columns that are read back
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """Counts of a file read back by Spark.  bytes: of keys and values; timed: rows with a time of their own; min_ms,
    max_ms: of those; crcs: sum of CRC-32 of values."""

    rows: int
    first: int
    last: int
    bytes: int
    timed: int
    min_ms: int | None
    max_ms: int | None
    crcs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFile:
    """Staged file with both of its counts.  path: below staging; gathered: in the hour of the plan, since the batch
    has rows of more hours than batch.hours allows."""

    path: str
    name: StagedName
    size: int
    footer: Footer
    back: ReadBack
    gathered: bool = False


@dataclass(frozen=True, slots=True)
class RangeCount:
    """Outcome of a range.  lost: offsets at its beginning that were deleted between plan and read; damage: entries that
    were skipped as damaged; gaps: all offsets without a message, which of bytes says nothing but what is lost."""

    range: OffsetRange
    files: tuple[CountedFile, ...]
    lost: int = 0
    damage: tuple[DamagedEntry, ...] = ()

    @property
    def rows(self) -> int:
        return sum(file.back.rows for file in self.files)

    @property
    def of_bytes(self) -> bool:
        return isinstance(self.range.partition, BrokerPartition)

    @property
    def gaps(self) -> int:
        return self.lost if self.of_bytes else self.range.count - self.rows

    @property
    def damaged(self) -> int:
        """Return the offsets that were skipped as damaged."""
        return sum(entry.until - entry.start for entry in self.damage)

    @property
    def lacks(self) -> int:
        """Return the offsets before its first row, except damaged ones."""
        first = self.range.until if self.first is None else self.first
        damaged = sum(entry.until - entry.start for entry in self.damage if entry.start < first)
        return first - self.range.start - damaged

    @property
    def unexplained(self) -> int:
        """Return the offsets that have no row and are not damaged."""
        return self.gaps - self.damaged

    @property
    def no_time(self) -> int:
        """Return the rows in the hour of the plan instead of their own hour."""
        return sum(file.back.rows - (0 if file.gathered else file.back.timed) for file in self.files)

    @property
    def timed(self) -> int:
        """Return the rows with their own time."""
        return sum(file.back.timed for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.back.bytes for file in self.files)

    @property
    def crcs(self) -> int:
        return sum(file.back.crcs for file in self.files)

    @property
    def first(self) -> int | None:
        return min((file.back.first for file in self.files), default=None)

    @property
    def last(self) -> int | None:
        return max((file.back.last for file in self.files), default=None)

    @property
    def max_ms(self) -> int | None:
        return max((file.back.max_ms for file in self.files if file.back.max_ms is not None), default=None)

    @property
    def min_ms(self) -> int | None:
        return min((file.back.min_ms for file in self.files if file.back.min_ms is not None), default=None)

    def facts(self) -> dict[str, Any]:
        """Return the facts for the manifest."""
        rng = self.range
        return {
            **range_row(rng),
            "rows": self.rows,
            "gaps": self.gaps,
            "lost": self.lost,
            **({"damaged": self.damaged} if self.damage else {}),
            "bytes": self.bytes,
            "no_time": self.no_time,
            "min_ms": self.min_ms,
            "max_ms": self.max_ms,
            "first": self.first,
            "last": self.last,
            "crc": self.crcs,
        }


def read_back(spark: Any, fmt: FileFormat, paths: Sequence[str], rule: HourRule) -> dict[str, ReadBack]:
    """Read back the files at or below these paths, by staged or final path.  Raises Spark's exceptions."""
    from pyspark.sql import functions as F

    size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
    rows = (
        fmt.read(spark.read, paths, struct_type(COLUMNS))
        .withColumns({"path": F.col("_metadata.file_path"), "own": own_time(rule)})
        .groupBy("path")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
            F.sum(size.cast("bigint")).alias("bytes"),
            F.count("own").alias("timed"),
            F.min("own").alias("min_ms"),
            F.max("own").alias("max_ms"),
            F.sum(F.crc32("value")).alias("crcs"),
        )
        .collect()
    )
    return {
        tail(unquote(row["path"])): ReadBack(
            rows=row["rows"],
            first=row["first"],
            last=row["last"],
            bytes=row["bytes"],
            timed=row["timed"],
            min_ms=row["min_ms"],
            max_ms=row["max_ms"],
            crcs=row["crcs"] or 0,
        )
        for row in rows
    }


def count_staged(spark: Any, fmt: FileFormat, ledger: Ledger, path: str, rule: HourRule | None) -> list[CountedFile]:
    """Count the data files below a staging folder twice: Spark reads them back, and each file's footer is read.

    rule: None if no rows are expected, so Spark need not read.  Raises Mismatch, and Spark's exceptions."""
    backs = {} if rule is None else read_back(spark, fmt, [path], rule)
    listed = [info for info in walk(ledger.files, path) if info.name.endswith(ENDINGS)]
    found = footers(fmt, [info.path for info in listed], spark, not needs_spark(ledger.base))
    return staged_files(listed, path, backs, found)


def staged_files(
    listed: Iterable[FileInfo], staging: str, backs: Mapping[str, ReadBack], footers: Mapping[str, Footer]
) -> list[CountedFile]:
    """Return the data files below staging, each with its counts.  footers: by full path.  Raises Mismatch."""
    found: list[CountedFile] = []
    for info in listed:
        path = info.path.removeprefix(f"{staging}/")
        name = StagedName.of(path)
        if name is None:
            continue
        back, footer = backs.get(path), footers[info.path]
        if back is None:
            raise Mismatch(f"has {footer.rows} rows by its footer, and Spark reads none", file=info.path)
        if (back.rows, back.first, back.last) != (footer.rows, footer.first, footer.last):
            raise Mismatch(
                f"Spark reads {back.rows} rows at offsets {back.first} to {back.last}, its footer says {footer.rows}"
                f" at {footer.first} to {footer.last}",
                file=info.path,
            )
        found.append(CountedFile(path=path, name=name, size=info.size, footer=footer, back=back))
    if len(found) < len(backs):
        odd = sorted(set(backs) - {file.path for file in found})[0]
        raise Mismatch("is among the staged files and has no name of theirs", file=odd)
    return found


def counted(
    plan: LoadPlan,
    files: Sequence[CountedFile],
    seen: Observed,
    *,
    compacted: Iterable[str] = (),
    may_lose: bool = False,
    read_again: Reader = lambda rng: ReadAgain(0, 0),
) -> list[RangeCount]:
    """Return the outcome of each range of the plan, in its order.  Raises Mismatch.

    compacted: topics where offsets may be missing anywhere; may_lose: the beginning of a range may have been deleted
    after it was planned (out.of.range=earliest).  read_again: reads a range without rows once more, and one that has
    offsets which were skipped as damaged."""
    transactions = seen.kept_back is not None
    by_place: dict[tuple[int, str, str], list[CountedFile]] = {}
    for file in files:
        by_place.setdefault((file.name.task, file.name.hour.topic, str(file.name.partition)), []).append(file)
    found = []
    for task in range(len(plan.tasks)):
        for rng in plan.of_task(task):
            mine = by_place.pop((task, rng.topic, str(rng.partition)), [])
            count = _with_damage(RangeCount(rng, tuple(mine)), seen, read_again)
            found.append(_checked(count, rng.topic in set(compacted), may_lose, transactions))
    if by_place:
        odd = next(iter(by_place.values()))[0]
        raise Mismatch("was staged and belongs to no range of the plan", file=odd.path)
    if seen.covered is not None:
        found = _covered(found, seen.covered, may_lose)
    if seen.kept_back is not None:
        found = _kept_back(found, seen.kept_back, set(compacted), may_lose, read_again)
    _check_sums(found, seen)
    return found


def _with_damage(count: RangeCount, seen: Observed, read_again: Reader) -> RangeCount:
    """Return the count with the damaged entries of its range, which the driver reads itself, if damage is skipped."""
    if seen.damaged is None or not count.gaps or (count.rows and not seen.damaged):
        return count
    return replace(count, damage=read_again(count.range).damaged)


def _covered(counts: Sequence[RangeCount], covered: int, may_lose: bool) -> list[RangeCount]:
    """Return the counts with messages deleted before they were read, if that is allowed.  Raises Mismatch for anything
    else that the rows do not cover."""
    wanted = sum(count.range.count for count in counts)
    if covered == wanted:
        return list(counts)
    if may_lose and covered + sum(count.lacks for count in counts) == wanted:
        return [replace(count, lost=count.lacks) for count in counts]
    raise Mismatch(f"the ranges have {wanted} bytes, and the rows that were read cover {covered} of them")


def _kept_back(
    counts: Sequence[RangeCount], kept_back: int, compacted: set[str], may_lose: bool, read_again: Reader
) -> list[RangeCount]:
    """Return the counts with messages deleted before they were read, if that is allowed.  Raises Mismatch for other
    offsets that are neither rows nor kept back by transactions."""
    found: dict[OffsetRange, RangeCount] = {}
    dense = [count for count in counts if count.range.topic not in compacted and count.unexplained]
    with_rows = [count for count in dense if count.rows]
    gaps = sum(count.unexplained for count in with_rows)
    if gaps != kept_back:
        lost = gaps - kept_back
        if not (may_lose and 0 < lost <= sum(count.lacks for count in with_rows)):
            first = with_rows[0].range if with_rows else None
            where = {} if first is None else {"topic": first.topic, "partition": first.partition, "start": first.start}
            raise Mismatch(
                f"{gaps} offsets of the ranges have no row, and transactions keep back {kept_back} of them: {NAME_IT}",
                **where,
            )
        found |= {count.range: replace(count, lost=count.lacks) for count in with_rows if count.lacks}
    for count in (count for count in dense if not count.rows):
        again = read_again(count.range)
        rows, kept = again.rows, again.kept_back + again.skipped
        if rows or kept > count.range.count or (kept < count.range.count and not may_lose):
            raise Mismatch(
                f"no row for {count.range.count} offsets: read once more it has {rows} messages, and transactions keep"
                f" back {again.kept_back} offsets: {NAME_IT}",
                topic=count.range.topic, partition=count.range.partition, start=count.range.start,
                until=count.range.until,
            )  # fmt: skip
        found[count.range] = replace(count, lost=count.range.count - kept)
    return [found.get(count.range, count) for count in counts]


def _checked(count: RangeCount, compacted: bool, may_lose: bool, transactions: bool) -> RangeCount:
    rng = count.range
    where = {"topic": rng.topic, "partition": rng.partition, "start": rng.start, "until": rng.until}
    first, last = count.first, count.last
    if first is not None and last is not None and not rng.start <= first <= last < rng.until:
        raise Mismatch(f"rows have offsets {first} to {last}, outside of the range", **where)
    if count.of_bytes:
        return count
    lost = count.lacks
    if count.rows > rng.count:
        raise Mismatch(f"{count.rows} rows for {rng.count} offsets", **where)
    if compacted or not count.unexplained or transactions:
        return count
    if may_lose and lost == count.unexplained:
        return replace(count, lost=lost)
    raise Mismatch(
        f"{count.rows} rows for {rng.count} offsets: {count.unexplained} are missing; {NAME_IT}",
        **where,
    )


def _check_sums(counts: Sequence[RangeCount], seen: Observed) -> None:
    """Compare the sums of the reader with those of the files, over all ranges."""
    damaged = None if seen.damaged is None else sum(count.damaged for count in counts if count.rows)
    held = Observed(
        rows=sum(count.rows for count in counts),
        numbers=sum(count.rows * (count.rows - 1) // 2 for count in counts),
        begun=sum(1 for count in counts if count.rows),
        crcs=sum(count.crcs for count in counts),
    )
    for what, ours, theirs in (
        ("rows", seen.rows, held.rows),
        ("ranges with rows", seen.begun, held.begun),
        ("the sum of row numbers", seen.numbers, held.numbers),
        ("the sum of checksums", seen.crcs, held.crcs),
    ):
        if ours != theirs:
            raise Mismatch(f"{what}: the reader saw {ours}, the staged files hold {theirs}")
    if seen.damaged != damaged:
        raise Mismatch(
            f"offsets that are damaged: the tasks skipped {seen.damaged}, and read once more there are {damaged}: the"
            " next run reads them again"
        )
