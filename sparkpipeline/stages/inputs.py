"""Inputs of a stage: published batches in the ledgers of loads and of other stages.  Reads, never writes.

To Spark the files of a plan are one DataFrame, with the columns that their folders name.  Of a stage's files the
manifest tells the columns; of a load's, the footers.  A load's folders (topic, date, hour) are texts, as they are
spelled: hour is '08'.  Spark would guess, and a topic called 2015 would be a number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkpipeline.errors import LedgerDamaged, Missing, Refused
from sparkpipeline.ledger.base import needs_spark, normal_base, open_files
from sparkpipeline.ledger.formats import FileFormat, of_facts
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import LiveFile, Manifest
from sparkpipeline.ledger.parquet import PARQUET
from sparkpipeline.ledger.schemas import struct_of
from sparkpipeline.load.facts import output_of
from sparkpipeline.load.job import open_ledger
from sparkpipeline.paths import DATA, GENERATION, folders
from sparkpipeline.source.schema import struct_type
from sparkpipeline.stages.batchmode import Batch
from sparkpipeline.stages.graph import LOAD
from sparkpipeline.stages.pipelinefile import Pipeline, Stage


class NotYet(Exception):
    """An input cannot be read now; the text says why.  This is not a failure: the stage waits."""


@dataclass(frozen=True, slots=True)
class InputHead:
    """Newest readable batch of an input.  newest: its last batch; identity: of that batch's manifest; schema: as the
    batch's facts tell it, None where they do not (loads); columns: of a load's files, as DDL; format: of its files."""

    newest: int
    identity: str
    schema: dict[str, Any] | None
    columns: str | None = None
    format: FileFormat = PARQUET


@dataclass(frozen=True, slots=True)
class StageInput:
    """One input.  kind: graph.LOAD or graph.STAGE; topics: of a load, only files of these; all when empty."""

    name: str
    kind: str
    ledger: Ledger
    topics: frozenset[str] = frozenset()

    def head(self) -> InputHead:
        """Return the newest batch.  Raises NotYet while there is no batch, or while its files are being moved."""
        state = self.ledger.state()
        if state.unpublished:
            raise NotYet(f"batch {state.unpublished[0].batch} of {self.name} is committed, and not published yet")
        if state.newest is None:
            raise NotYet(f"{self.name} has no batch yet")
        newest, of_load = state.newest, self.kind == LOAD
        return InputHead(
            newest.batch,
            identity(newest),
            newest.facts.get("schema"),
            _columns(newest) if of_load else None,
            of_facts(newest.facts) if of_load else PARQUET,
        )

    def batches(self, since: int, until: int) -> list[Batch]:
        """Return the batches with since < number <= until."""
        found: list[Batch] = []
        for manifest in self.ledger.manifests(since):
            if manifest.batch > until:
                break
            files = tuple(file.final for file in manifest.files if self._wants(file.final))
            gone = tuple(path for path in manifest.supersedes if self._wants(path))
            found.append(Batch(manifest.batch, manifest.kind, files, gone))
        return found

    def live(self, as_of: int) -> Mapping[str, LiveFile]:
        """Return final path -> file, after batch as_of."""
        live = self.ledger.live_files(as_of)
        return {path: file for path, file in live.items() if self._wants(path)} if self.topics else live

    def _wants(self, path: str) -> bool:
        return not self.topics or folders(path).get("topic") in self.topics

    def is_still(self, batch: int, said: str) -> bool:
        """True if the ledger still has this batch with this identity (0: before the first one)."""
        if batch == 0:
            return True
        try:
            return identity(self.ledger.manifest(batch)) == said
        except Missing:
            return False


def _columns(newest: Manifest) -> str | None:
    """Return the columns of a load's files, as DDL; None: read them from the files.  Raises LedgerDamaged."""
    try:
        output = output_of(newest.facts)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise LedgerDamaged(f"its facts are not those of a load: {exc!r}", batch=newest.batch) from None
    return None if output is None else output["columns"]


def identity(manifest: Manifest) -> str:
    """Return an identity of a batch that differs from the same number in a ledger that was deleted and begun again in
    the same folder."""
    return hashlib.sha256(manifest.text().encode()).hexdigest()[:16]


# ---- ledgers of a pipeline -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PipelineLedgers:
    """Ledgers of a pipeline.  spark: needed if a base is not a local folder."""

    pipeline: Pipeline
    spark: Any | None

    def ledger(self, name: str) -> Ledger:
        """Return the ledger of a load or a stage.  Raises OptionRefused, and StorageFailed."""
        pipeline = self.pipeline
        if name in pipeline.configs:
            return open_ledger(pipeline.configs[name], self.spark)
        base, days = self.base(name), pipeline.file.trash_days
        keep_s = None if days < 0 else days * 86400.0
        return Ledger(open_files(base, self.spark), normal_base(base), trash_keep_s=keep_s)

    def base(self, name: str) -> str:
        """Return the base folder of a node."""
        pipeline = self.pipeline
        if pipeline.graph.node(name).kind != LOAD:
            return pipeline.base_of(name)
        config = pipeline.configs.get(name)
        return config.base if config is not None else pipeline.load(name).base or ""

    def upstream(self, name: str, stage: Stage) -> StageInput:
        """Return the input of a stage by this name."""
        kind = self.pipeline.graph.node(name).kind
        return StageInput(name, kind, self.ledger(name), frozenset(stage.topics) if kind == LOAD else frozenset())


def wants_spark(pipeline: Pipeline) -> bool:
    """True if some ledger of it needs Spark's Hadoop client."""
    opened = PipelineLedgers(pipeline, None)
    return any(needs_spark(opened.base(node.name)) for node in pipeline.graph)


# ---- DataFrames ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Views:
    """DataFrames of inputs in one Spark session.  batch_column: a column to add, with the number of a row's batch."""

    spark: Any
    batch_column: str | None = None

    def frame(self, stage_input: StageInput, head: InputHead, paths: Sequence[str]) -> Any:
        """Return the rows of final paths of one input.  Raises NotYet, Refused, and Spark's exceptions."""
        schema = self._schema(stage_input, head)
        if not paths:
            return self._with_batch(stage_input, self.spark.createDataFrame([], schema), empty=True)
        base = stage_input.ledger.path(DATA)
        reader = self.spark.read.option("basePath", base).option("ignoreMissingFiles", "false")
        found = head.format.read(reader, [stage_input.ledger.path(path) for path in paths], schema)
        return self._with_batch(stage_input, found, empty=False)

    def _schema(self, stage_input: StageInput, head: InputHead) -> Any:
        from pyspark.sql import types as T

        if head.schema is not None:
            return struct_of(head.schema, f"batch {head.newest} of {stage_input.name}")
        path = _newest_file(stage_input, head)
        # A file by itself: Spark takes its own folder for the base, and adds no column.
        columns = None if head.columns is None else struct_type(head.columns)
        schema = head.format.read(self.spark.read, [stage_input.ledger.path(path)], columns).schema
        stored = {name.lower() for name in schema.names}
        return T.StructType(
            [*schema, *(T.StructField(n, T.StringType()) for n in folders(path) if n.lower() not in stored)]
        )

    def _with_batch(self, stage_input: StageInput, frame: Any, empty: bool) -> Any:
        from pyspark.sql import functions as F

        name = self.batch_column
        if name is None:
            return frame
        if name.lower() in (column.lower() for column in frame.columns):
            raise Refused(f"batch.column '{name}' is a column of the input already", input=stage_input.name)
        number = F.lit(None) if empty else F.regexp_extract(F.col("_metadata.file_name"), GENERATION, 1)
        return frame.withColumn(name, number.cast("bigint"))


def _newest_file(stage_input: StageInput, head: InputHead) -> str:
    """Return a file of the newest batch that has any.  Raises NotYet."""
    live = stage_input.live(head.newest)
    if not live:
        raise NotYet(f"{stage_input.name} has no rows yet, and nothing tells its columns")
    return max(live.values(), key=lambda file: file.batch).final
