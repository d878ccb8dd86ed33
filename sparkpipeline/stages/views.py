"""Inputs as Spark sees them: the files of a plan as one DataFrame, with the columns that their folders name.

Of a stage's files the manifest tells the columns; of a load's, the footers.  A load's folders (topic, date, hour) are
texts, as they are spelled: hour is '08'.  Spark would guess, and a topic called 2015 would be a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkpipeline.errors import Refused
from sparkpipeline.paths import DATA, GENERATION, folders
from sparkpipeline.stages.inputs import NotYet, Standing, Upstream


@dataclass(frozen=True, slots=True)
class Views:
    """DataFrames of inputs in one Spark session.  batch_column: a column to add, with the number of a row's batch."""

    spark: Any
    batch_column: str | None = None

    def frame(self, upstream: Upstream, standing: Standing, paths: Sequence[str]) -> Any:
        """The rows of final paths of one input.  Raises NotYet, Refused, and what Spark raises."""
        schema = self._schema(upstream, standing)
        if not paths:
            return self._with_batch(upstream, self.spark.createDataFrame([], schema), empty=True)
        base = upstream.ledger.path(DATA)
        reader = self.spark.read.schema(schema).option("basePath", base).option("ignoreMissingFiles", "false")
        return self._with_batch(upstream, reader.parquet(*(upstream.ledger.path(path) for path in paths)), empty=False)

    def _schema(self, upstream: Upstream, standing: Standing) -> Any:
        from pyspark.sql import types as T

        if standing.schema is not None:
            return T.StructType.fromJson(standing.schema)
        path = _newest_file(upstream, standing)
        # A file by itself: Spark takes its own folder for the base, and adds no column.
        schema = self.spark.read.parquet(upstream.ledger.path(path)).schema
        stored = {name.lower() for name in schema.names}
        return T.StructType(
            [*schema, *(T.StructField(n, T.StringType()) for n in folders(path) if n.lower() not in stored)]
        )

    def _with_batch(self, upstream: Upstream, frame: Any, empty: bool) -> Any:
        from pyspark.sql import functions as F

        name = self.batch_column
        if name is None:
            return frame
        if name.lower() in (column.lower() for column in frame.columns):
            raise Refused(f"batch.column '{name}' is a column of the input already", input=upstream.name)
        number = F.lit(None) if empty else F.regexp_extract(F.col("_metadata.file_name"), GENERATION, 1)
        return frame.withColumn(name, number.cast("bigint"))


def _newest_file(upstream: Upstream, standing: Standing) -> str:
    """A file of the newest batch that has any.  Raises NotYet."""
    live = upstream.live(standing.newest)
    if not live:
        raise NotYet(f"{upstream.name} has no rows yet, and nothing tells its columns")
    return max(live.values(), key=lambda file: file.batch).final
