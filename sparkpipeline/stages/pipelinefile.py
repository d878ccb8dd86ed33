"""PIPELINE.yaml: loads and the stages after them, checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from groundwork.options import OptionError, Options, given, load, option
from kafkawire import optiontypes
from sparkpipeline.errors import OptionRefused
from sparkpipeline.load.config import LoadConfig, base_folder, config_of, read_config, read_yaml
from sparkpipeline.sink.sinkoptions import SinkOptions
from sparkpipeline.stages.graph import LOAD, STAGE, Graph, Node, problems

BATCH, PARTITION = "batch", "partition"
PARQUET, TOPIC = "parquet", "kafka08"


def _texts(raw: object) -> dict[str, str]:
    """Convert a mapping to Spark's options: texts, and numbers and booleans in Spark's spelling."""
    if not isinstance(raw, dict):
        raise ValueError("a mapping of texts")
    return {str(key): str(value).lower() if isinstance(value, bool) else str(value) for key, value in raw.items()}


def _mapping(raw: object) -> dict[str, Any]:
    if not isinstance(raw, dict) or not all(isinstance(key, str) for key in raw):
        raise ValueError("a mapping from names to values")
    return dict(raw)


@dataclass(frozen=True, slots=True)
class LoadInput(Options):
    """A load job: the first stage of the graph."""

    name: str = option("name", "", "what stages call it, and its view in SQL", required=True)
    config: str | None = option("config", None, "the load job's YAML; run advances it first (relative to this file)")
    base: str | None = option(
        "base",
        None,
        "in place of config: the base folder of a load that runs elsewhere; it is read, never advanced",
        kind=base_folder,
    )
    job: Mapping[str, Any] | None = option("job", None, "in place of config: the load job's options", kind=_mapping)


@dataclass(frozen=True, slots=True)
class Stage(Options):
    """One stage: SQL or Python over the batches of its inputs, into Parquet or a topic."""

    name: str = option("name", "", "its name, its view in SQL and its folder below BASE/stages", required=True)
    inputs: tuple[str, ...] = option("inputs", (), "loads and stages whose batches it takes, each once", required=True)
    lookups: tuple[str, ...] = option(
        "lookups",
        (),
        "loads and stages it reads whole, as they stand when it runs; their later changes run nothing again",
    )
    topics: tuple[str, ...] = option(
        "topics",
        (),
        "of the loads that it reads, only these topics; all that they load when empty",
        kind=optiontypes.topics,
    )
    sql: str | None = option("sql", None, "a query over views with the names of inputs and lookups")
    sql_file: str | None = option("sql.file", None, "in place of sql: the file that holds it (relative to this file)")
    python: str | None = option(
        "python",
        None,
        "in place of sql: MODULE:FUNCTION, called as function(spark, {name: DataFrame}, **arguments); its DataFrame is"
        " written",
    )
    arguments: Mapping[str, Any] = option("arguments", {}, "keyword arguments of the Python function", kind=_mapping)
    mode: str = option(
        "mode",
        BATCH,
        "batch: each input batch once, its output added; partition: partitions that new batches touch are computed"
        " again from all that the inputs hold of them, in place of what they were",
        choices=(BATCH, PARTITION),
    )
    partition_by: tuple[str, ...] = option(
        "partition.by", (), "columns that become folders of the output; in mode partition: folders of every input, too"
    )
    output: str = option("output", PARQUET, "where its rows go", choices=(PARQUET, TOPIC))
    options: Mapping[str, str] = option(
        "options",
        {},
        "options of the writer: Parquet's, or the sink's (kafka.bootstrap.servers, topic ..)",
        kind=_texts,
    )
    batches_per_run: int | None = option(
        "batches.per.run",
        None,
        "most new batches of each input in one batch of the stage; all that wait when not given",
        least=1,
    )
    batch_column: str | None = option(
        "batch.column", None, "a column to add to each input: the number of the row's batch"
    )
    rebalance: bool = option(
        "rebalance", True, "let Spark even out the files that it writes, few per folder; false keeps the query's order"
    )

    def problems(self) -> Iterable[str]:
        """Yield errors about combinations of its options."""
        said = [key for key, value in self.programs if value is not None]
        if len(said) != 1:
            given = f"it has {' and '.join(said)}" if said else "it has none"
            yield f"stage '{self.name}' needs one of sql, sql.file and python; {given}"
        if self.arguments and self.python is None:
            yield f"stage '{self.name}' has arguments, which only a Python function takes"
        if self.mode == PARTITION and self.batches_per_run is not None:
            yield (
                f"stage '{self.name}': batches.per.run has no meaning in mode partition, which reads all that its"
                " partitions hold"
            )
        if self.output == TOPIC and self.partition_by and self.mode == BATCH:
            yield f"stage '{self.name}' writes to a topic: partition.by is for folders"
        if self.output == TOPIC:
            try:
                SinkOptions.of(self.options)
            except OptionRefused as exc:
                yield f"stage '{self.name}': {exc.sentence}"
        if len({column.lower() for column in self.partition_by}) < len(self.partition_by):
            yield f"stage '{self.name}' names a column twice in partition.by"

    @property
    def programs(self) -> tuple[tuple[str, str | None], ...]:
        return (("sql", self.sql), ("sql.file", self.sql_file), ("python", self.python))

    @property
    def node(self) -> Node:
        return Node(self.name, STAGE, self.inputs, self.lookups, files=self.output == PARQUET)


@dataclass(frozen=True, slots=True)
class PipelineFile(Options):
    """Pipeline as its file describes it."""

    name: str = option("name", "pipeline", "what Spark's pages and reports call it")
    base: str = option(
        "base",
        "",
        "folder of the pipeline, as hdfs://.., s3a://.., file:/.. or a path: each stage has its own below BASE/stages",
        kind=base_folder,
        required=True,
    )
    loads: tuple[LoadInput, ...] = option("loads", (), "load jobs", required=True)
    stages: tuple[Stage, ...] = option("stages", (), "stages, in any order")
    trash_days: float = option(
        "trash.days", 7.0, "how long files that a stage superseded are kept; negative: for ever", "days"
    )
    python_files: tuple[str, ...] = option(
        "python.files",
        (),
        "modules (.py) and archives (.zip) that Python stages and their tasks import (relative to this file)",
    )

    def problems(self) -> Iterable[str]:
        """Yield errors about combinations of its sections."""
        for one in self.loads:
            if [one.config, one.base, one.job].count(None) != 2:
                yield f"load '{one.name}' needs one of config, job and base"
        yield from problems(self.nodes)

    @property
    def nodes(self) -> list[Node]:
        return [*(Node(one.name, LOAD) for one in self.loads), *(stage.node for stage in self.stages)]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A checked file.

    folder   where its relative paths start
    configs  the load jobs that run here, by name
    sql      the query of each SQL stage
    """

    file: PipelineFile
    folder: Path
    graph: Graph
    configs: Mapping[str, LoadConfig]
    sql: Mapping[str, str]

    def load(self, name: str) -> LoadInput:
        return next(one for one in self.file.loads if one.name == name)

    def stage(self, name: str) -> Stage:
        return next(one for one in self.file.stages if one.name == name)

    def path(self, relative: str) -> str:
        """Return an absolute path for a path of the file."""
        return str(self.folder / relative)

    def base_of(self, stage: str) -> str:
        """Return the folder of a stage's ledger."""
        return f"{self.file.base.rstrip('/')}/stages/{stage}"


def read_pipeline(path: str) -> Pipeline:
    """Read a pipeline from its YAML. Raises OptionRefused with all errors."""
    where = Path(path)
    try:
        values = read_yaml(where)
        if not isinstance(values, dict):
            raise OptionRefused(f"{where.name}: expected the options of a pipeline: base, loads and stages")
        file = load(PipelineFile, values, where.name)
    except OptionError as exc:
        raise OptionRefused.of(exc) from None
    folder = where.parent.absolute()
    configs = {one.name: found for one in file.loads if (found := _config(one, folder, where.name)) is not None}
    queries = {stage.name: sql for stage in file.stages if (sql := _sql(stage, folder)) is not None}
    return Pipeline(file, folder, Graph.of(file.nodes), configs, queries)


def _config(one: LoadInput, folder: Path, where: str) -> LoadConfig | None:
    """Return the job of a load that runs here.  Raises OptionRefused."""
    if one.config is not None:
        return read_config(folder / one.config)
    if one.job is None:
        return None
    found = config_of(one.job, f"{where}: loads, {one.name}")
    return found if "name" in given(found) else replace(found, name=one.name)


def _sql(stage: Stage, folder: Path) -> str | None:
    """Return the query of a stage.  Raises OptionRefused."""
    if stage.sql_file is None:
        text = stage.sql
    else:
        try:
            text = (folder / stage.sql_file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise OptionRefused(f"sql.file cannot be read: {exc}", stage=stage.name) from None
    if text is None:
        return None
    text = text.strip().rstrip(";").rstrip()
    if not text:
        raise OptionRefused("its SQL is empty", stage=stage.name)
    return text
