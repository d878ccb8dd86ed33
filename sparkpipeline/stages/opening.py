"""The ledgers of a pipeline's nodes, and what a stage needs to plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.opening import needs_spark, normal_base, open_files
from sparkpipeline.load.job import open_ledger
from sparkpipeline.stages.config import Pipeline
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
        base = self.base(name)
        return Ledger(open_files(base, self.spark), normal_base(base))

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
            {read: self.upstream(read) for read in stage.inputs},
            {read: self.upstream(read) for read in stage.lookups},
        )

    def upstream(self, name: str) -> Upstream:
        return Upstream(name, self.pipeline.graph.node(name).kind, self.ledger(name))


def wants_spark(pipeline: Pipeline) -> bool:
    """Whether some ledger of it is reached by Spark's Hadoop client only."""
    opened = Opened(pipeline, None)
    return any(needs_spark(opened.base(node.name)) for node in pipeline.graph)
