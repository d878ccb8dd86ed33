"""Execution of a plan: one read of exact ranges, one write into staging.  Spark does it; counts.py checks it.

Task i of the plan is partition i of Spark and number i of a file's name: nothing is shuffled.  Rows of a file are in
the order of their offsets.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from groundwork.failpoints import failpoint
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import Mismatch
from sparkpipeline.ledger.files import Files
from sparkpipeline.load.config import LoadConfig
from sparkpipeline.load.hours import hour_columns
from sparkpipeline.load.loadplan import LoadPlan
from sparkpipeline.paths import STAGED_BY
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.damagelog import DamagedEntry, DamageLog
from sparkpipeline.reading.pieces import pieces_of
from sparkpipeline.reading.rangefetcher import read_many
from sparkpipeline.reading.readoptions import ReadOptions
from sparkpipeline.source.exactplan import ExactPlan
from sparkpipeline.source.schema import columns_by_default, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Counts made while rows are written.  Spark counts rows; numbers and checksums are the reader's own.

    numbers: sum of rowNumber, 0, 1, 2 .. in each range; begun: ranges that had a row 0; crcs: sum of CRC-32 of values;
    covered: bytes of the log, where its offsets are bytes; kept_back: offsets that transactions keep from readers,
    where brokers have transactions: of ranges with rows, and topics that are not compacted; damaged: offsets that were
    skipped as damaged, of ranges with rows, where corrupt.policy skips any
    """

    rows: int
    numbers: int
    begun: int
    crcs: int
    covered: int | None = None
    kept_back: int | None = None
    damaged: int | None = None

    def beside(self, other: Observed) -> Observed:
        """Return the sum of both, which have different rows of one plan."""
        return Observed(
            rows=self.rows + other.rows,
            numbers=self.numbers + other.numbers,
            begun=self.begun + other.begun,
            crcs=self.crcs + other.crcs,
            covered=_sum(self.covered, other.covered),
            kept_back=_sum(self.kept_back, other.kept_back),
            damaged=_sum(self.damaged, other.damaged),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


@dataclass(frozen=True, slots=True)
class ToRead:
    """Ranges to read. plan_ms: when they were planned; may_lose: messages deleted since then are skipped without an
    error."""

    plan: LoadPlan
    plan_ms: int
    may_lose: bool


def read_and_write(
    spark: Any, config: LoadConfig, access: ClusterAccess, wanted: ToRead, *, staging: str, files: Files
) -> Observed:
    """Read the plan's ranges into staging, which must not exist.  Raises Spark's exceptions, and Mismatch."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    observed = Observation()
    crc = F.col("valueCrc")
    by_broker, transactions = access.spoken.partitions_by_broker, access.spoken.record_batches
    covered = [F.sum("coveredBytes").alias("covered")] if by_broker else []
    if transactions:
        dense = ~F.col("topic").isin(list(config.compacted)) if config.compacted else F.lit(True)
        covered.append(F.sum(F.when(dense, F.col("keptBack"))).alias("kept_back"))
    if config.skips_damaged:
        covered.append(F.sum("damagedOffsets").alias("damaged"))
    rows = (
        read(spark, config, access, wanted)
        .observe(
            observed,
            F.count(F.lit(1)).alias("rows"),
            F.sum("rowNumber").alias("numbers"),
            F.sum(F.when(F.col("rowNumber") == 0, 1)).alias("begun"),
            # In halves: 64 bits would overflow after two milliards of rows.
            F.sum(crc.bitwiseAND(0xFFFF)).alias("low"),
            F.sum(F.shiftright(crc, 16)).alias("high"),
            *covered,
        )
        .drop(*counted(by_broker, transactions, config.skips_damaged))
    )
    write(rows.withColumns(hour_columns(wanted.plan.rule, wanted.plan_ms)), config, staging, files)
    seen = observed.get
    return Observed(
        rows=seen["rows"],
        numbers=seen["numbers"] or 0,
        begun=seen["begun"] or 0,
        crcs=((seen["high"] or 0) << 16) + (seen["low"] or 0),
        covered=(seen["covered"] or 0) if by_broker else None,
        kept_back=(seen["kept_back"] or 0) if transactions else None,
        damaged=(seen["damaged"] or 0) if config.skips_damaged else None,
    )


def read(spark: Any, config: LoadConfig, access: ClusterAccess, wanted: ToRead) -> Any:
    """Return the plan's rows, with the columns that count them, passed to format("kafka08") as a value."""
    return exact_plan(config, access, wanted).frame(spark)


def exact_plan(config: LoadConfig, access: ClusterAccess, wanted: ToRead) -> ExactPlan:
    """Return the ranges of a load's plan task by task, with read options."""
    by_broker, plan = access.spoken.partitions_by_broker, wanted.plan
    transactions = access.spoken.record_batches
    counting = counted(by_broker, transactions, config.skips_damaged)
    columns = (*columns_by_default(config.include_headers, by_broker), *counting)
    read = reading(config, wanted.may_lose, columns)
    return ExactPlan(tuple(plan.of_task(number) for number in range(len(plan.tasks))), access, read)


def reading(config: LoadConfig, may_lose: bool, columns: tuple[str, ...]) -> ReadOptions:
    """Return the read options."""
    return ReadOptions(
        fetch_bytes=config.fetch_bytes,
        fetch_bytes_cap=max(config.fetch_bytes_cap, config.fetch_bytes),
        max_wait_ms=min(500, config.socket_timeout_ms // 2),
        fail_on_data_loss=not may_lose,
        include_headers=config.include_headers,
        columns=columns,
        skip_damaged=config.skips_damaged,
        cap_option="fetch.bytes.cap",
        loss_helps="out.of.range: earliest goes on at what is left, and counts the gap",
        damage_helps="corrupt.policy: skip, or quarantine, leaves it out and counts it",
        crc_helps="",
    )


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Counts of a range that the driver read once more.  rows: messages; kept_back: offsets that transactions
    keep; damaged: entries that were skipped, in order."""

    rows: int
    kept_back: int
    damaged: tuple[DamagedEntry, ...] = ()

    @property
    def skipped(self) -> int:
        """Return the number of damaged offsets."""
        return sum(entry.until - entry.start for entry in self.damaged)


def read_again(config: LoadConfig, access: ClusterAccess, rng: OffsetRange, may_lose: bool) -> ReadAgain:
    """Read a range once more, in the driver: one without rows, or with offsets that were skipped as damaged."""
    kept_back: dict[OffsetRange, int] = {}
    damages = DamageLog(entries=[])
    options = reading(config, may_lose, ("offset",))
    with closing(read_many([rng], access, options, kept_back, damages)) as sets:
        rows = sum(len(piece) for piece in pieces_of(access.spoken, sets, [rng], options, damages))
    return ReadAgain(rows, kept_back[rng], tuple(damages.entries or ()))


def write(rows: Any, config: LoadConfig, staging: str, files: Files) -> None:
    """Write rows with the columns topic, partition, date and hour, and broker and innerIndex where partitions belong to
    brokers; one task writes one file for each of its folders.

    Raises what Spark raises, and Mismatch when Spark does not say that all of it succeeded."""
    from pyspark.sql import functions as F

    # Not nullable, or Spark would look for empty texts in them, and sort again, without the offset.
    texts = {name: F.coalesce(name, F.lit("")) for name in ("topic", "date", "hour")}
    by_broker = "broker" in rows.columns
    partition = F.concat_ws("-", "broker", "partition") if by_broker else F.coalesce("partition", F.lit(-1))
    foldered = rows.withColumns({**texts, "p": F.coalesce(partition, F.lit("")) if by_broker else partition})
    in_order = foldered.sortWithinPartitions(*STAGED_BY, "offset", *(["innerIndex"] if by_broker else []))
    writer = config.format.laid_out(in_order).write.mode("error").partitionBy(*STAGED_BY)
    config.format.write(writer.option("compression", config.codec).option("maxRecordsPerFile", 0), staging)
    failpoint("load after write")
    if not files.exists(f"{staging}/_SUCCESS"):
        raise Mismatch("Spark wrote no _SUCCESS, so not all tasks may have written all their rows", staging=staging)
