"""A load job: what is read next, executed, counted and published, batch by batch, by the protocol of the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.model import Manifest, Plan, Staged
from sparkpipeline.ledger.protocol import Advance
from sparkpipeline.load.options import LoadConfig

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """What a run did.  steps: calls of the ledger's advance, in order; closed: folders of hours closed by it, below
    the base."""

    steps: tuple[Advance, ...]
    closed: tuple[str, ...] = ()

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """Of the batches that this run committed."""
        return tuple(step.manifest for step in self.steps if step.manifest is not None)

    @property
    def lost(self) -> bool:
        """Another driver was quicker."""
        return any(step.outcome == "lost" for step in self.steps)


class LoadWork:
    """The Work of kinds load, rewind, compact and init: whatever plan is open, it can be executed again."""

    def __init__(self, config: LoadConfig, spark: Any, tell: Tell) -> None: ...

    def plan(self, ledger: Ledger, batch: int) -> Plan | None: ...

    def execute(self, plan: Plan, staging: str, attempt: int) -> Staged: ...

    def published(self, manifest: Manifest) -> None: ...


def open_ledger(config: LoadConfig, spark: Any | None) -> Ledger:
    """The ledger of a job; spark: needed where the base is no local folder."""


def run_load(config: LoadConfig, spark: Any, tell: Tell) -> LoadOutcome:
    """One run: finish what an earlier one left, then load what is new, within limit.rows and limit.bytes.

    tell takes sentences for the operator.  Raises errors of sparkpipeline.errors, and what Spark raises; then nothing
    was committed by this call, or a batch is committed and the next run finishes it."""
