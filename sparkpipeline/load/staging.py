"""A plan carried out: one read of exact ranges, one write into staging.  Spark does it; counts.py looks at it.

Task i of the plan is partition i of Spark and number i of a file's name: nothing is shuffled.  Rows of a file are in
the order of their offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from groundwork.failpoints import failpoint
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import Mismatch
from sparkpipeline.ledger import parquet
from sparkpipeline.ledger.files import Files
from sparkpipeline.load.config import LoadConfig
from sparkpipeline.load.hours import hour_columns
from sparkpipeline.load.plan import LoadPlan
from sparkpipeline.paths import STAGED_BY
from sparkpipeline.reading.options import ReadOptions
from sparkpipeline.source.exactplan import ExactPlan
from sparkpipeline.source.schema import columns_by_default, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What was counted while the rows went by.  Spark counts rows; numbers and checksums are the reader's own.

    numbers: sum of rowNumber, 0, 1, 2 .. in each range; begun: ranges that had a row 0; crcs: sum of CRC-32 of values;
    covered: bytes of the log, where its offsets are bytes
    """

    rows: int
    numbers: int
    begun: int
    crcs: int
    covered: int | None = None


@dataclass(frozen=True, slots=True)
class ToRead:
    """What is read.  plan_ms: when it was planned; may_lose: what was deleted since is left out, and no error."""

    plan: LoadPlan
    plan_ms: int
    may_lose: bool


def read_and_write(
    spark: Any, config: LoadConfig, access: ClusterAccess, wanted: ToRead, *, staging: str, files: Files
) -> Observed:
    """Read the plan's ranges into staging, which must not exist.  Raises what Spark raises, and Mismatch."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    observed = Observation()
    crc = F.col("valueCrc")
    by_broker = access.spoken.partitions_by_broker
    covered = [F.sum("coveredBytes").alias("covered")] if by_broker else []
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
        .drop(*counted(by_broker))
    )
    write(rows.withColumns(hour_columns(wanted.plan.rule, wanted.plan_ms)), config, staging, files)
    seen = observed.get
    return Observed(
        rows=seen["rows"],
        numbers=seen["numbers"] or 0,
        begun=seen["begun"] or 0,
        crcs=((seen["high"] or 0) << 16) + (seen["low"] or 0),
        covered=(seen["covered"] or 0) if by_broker else None,
    )


def read(spark: Any, config: LoadConfig, access: ClusterAccess, wanted: ToRead) -> Any:
    """The plan's rows, and the columns that count them: handed to format("kafka08") as a value."""
    return exact_plan(config, access, wanted).frame(spark)


def exact_plan(config: LoadConfig, access: ClusterAccess, wanted: ToRead) -> ExactPlan:
    """The ranges of a load's plan task by task, and how they are read."""
    by_broker, plan = access.spoken.partitions_by_broker, wanted.plan
    columns = (*columns_by_default(config.include_headers, by_broker), *counted(by_broker))
    read = ReadOptions(
        fetch_bytes=config.fetch_bytes,
        fetch_bytes_cap=max(config.fetch_bytes_cap, config.fetch_bytes),
        max_wait_ms=min(500, config.socket_timeout_ms // 2),
        fail_on_data_loss=not wanted.may_lose,
        include_headers=config.include_headers,
        columns=columns,
    )
    return ExactPlan(tuple(plan.of_task(number) for number in range(len(plan.tasks))), access, read)


def write(rows: Any, config: LoadConfig, staging: str, files: Files) -> None:
    """rows: columns topic, partition, date and hour among them, and broker and innerIndex where partitions belong to
    brokers; one task writes one file for each of its folders.

    Raises what Spark raises, and Mismatch when Spark does not say that all of it succeeded."""
    from pyspark.sql import functions as F

    # Not nullable, or Spark would look for empty texts in them, and sort again, without the offset.
    texts = {name: F.coalesce(name, F.lit("")) for name in ("topic", "date", "hour")}
    by_broker = "broker" in rows.columns
    partition = F.concat_ws("-", "broker", "partition") if by_broker else F.coalesce("partition", F.lit(-1))
    foldered = rows.withColumns({**texts, "p": F.coalesce(partition, F.lit("")) if by_broker else partition})
    in_order = foldered.sortWithinPartitions(*STAGED_BY, "offset", *(["innerIndex"] if by_broker else []))
    writer = in_order.write.mode("error").partitionBy(*STAGED_BY)
    parquet.write(writer.option("compression", config.compression).option("maxRecordsPerFile", 0), staging)
    failpoint("load after write")
    if not files.exists(f"{staging}/_SUCCESS"):
        raise Mismatch("Spark wrote no _SUCCESS: nothing tells that all tasks wrote all they had", staging=staging)
