"""The ledgers of a pipeline's nodes, and what a stage needs to plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkpipeline.ledger.base import needs_spark, normal_base, open_files
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.load.job import open_ledger
from sparkpipeline.stages.config import Pipeline, Stage
from sparkpipeline.stages.graph import LOAD
from sparkpipeline.stages.inputs import Upstream
from sparkpipeline.stages.planning import Planner


@dataclass(frozen=True, slots=True)
class Opened:
    """Ledgers of a pipeline.  spark: where a base is no local folder."""

    pipeline: Pipeline
    spark: Any | None

    def ledger(self, name: str) -> Ledger:
        """Of a load or a stage.  Raises OptionRefused, and StorageFailed."""
        pipeline = self.pipeline
        if name in pipeline.configs:
            return open_ledger(pipeline.configs[name], self.spark)
        base, days = self.base(name), pipeline.file.trash_days
        keep_s = None if days < 0 else days * 86400.0
        return Ledger(open_files(base, self.spark), normal_base(base), trash_keep_s=keep_s)

    def base(self, name: str) -> str:
        """The base folder of a node."""
        pipeline = self.pipeline
        if pipeline.graph.node(name).kind != LOAD:
            return pipeline.base_of(name)
        config = pipeline.configs.get(name)
        return config.base if config is not None else pipeline.load(name).base or ""

    def planner(self, name: str) -> Planner:
        """Of a stage."""
        stage = self.pipeline.stage(name)
        return Planner(
            stage,
            {read: self._upstream(read, stage) for read in stage.inputs},
            {read: self._upstream(read, stage) for read in stage.lookups},
        )

    def _upstream(self, name: str, stage: Stage) -> Upstream:
        kind = self.pipeline.graph.node(name).kind
        return Upstream(name, kind, self.ledger(name), frozenset(stage.topics) if kind == LOAD else frozenset())


def wants_spark(pipeline: Pipeline) -> bool:
    """Whether some ledger of it is reached by Spark's Hadoop client only."""
    opened = Opened(pipeline, None)
    return any(needs_spark(opened.base(node.name)) for node in pipeline.graph)
