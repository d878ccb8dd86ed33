"""What a stage's plan and manifest say of its inputs: `work` of the plan, and part of the manifest's facts.  Pure.

    {"stage": "lines", "mode": "batch", "partition.by": ["date", "hour"], "topics": [],
     "inputs": {"orders": {"through": 17, "manifest": "ab12..", "fresh": [16, 17], "files": ["data/.."]}},
     "lookups": {"customers": {"through": 3, "manifest": "cd34.."}},
     "replaces": [], "partitions": [["2026-01-31", "08"]]}

through     everything of the input up to this batch is taken (of a lookup: it was read as of this batch)
manifest    which ledger that was: identity of that batch's manifest
fresh       batches of the input that were never taken before
files       those that are read; in mode partition the plan has them and the manifest does not
replaces    own batches in whose place this one comes (mode batch)
partitions  those that are computed again (mode partition)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparkpipeline.errors import LedgerDamaged
from sparkpipeline.ledger.model import Manifest
from sparkpipeline.stages.consuming import Past
from sparkpipeline.stages.partitions import Partition


@dataclass(frozen=True, slots=True)
class Taken:
    """Of one input."""

    through: int
    manifest: str
    fresh: tuple[int, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Taking:
    """Of one batch of a stage."""

    stage: str
    mode: str
    partition_by: tuple[str, ...]
    topics: tuple[str, ...]
    inputs: Mapping[str, Taken]
    lookups: Mapping[str, Taken]
    replaces: tuple[int, ...] = ()
    partitions: tuple[Partition, ...] = ()

    @property
    def manner(self) -> str:
        """What may not change from batch to batch, but with everything written anew."""
        topics = f", topics {', '.join(self.topics)}" if self.topics else ""
        return f"in mode {self.mode} by {', '.join(self.partition_by) or 'no columns'}{topics}"

    @property
    def nothing_to_read(self) -> bool:
        return not any(taken.files for taken in self.inputs.values())

    def work(self) -> dict[str, Any]:
        """For Plan.work and Manifest.facts."""
        return {
            "stage": self.stage,
            "mode": self.mode,
            "partition.by": list(self.partition_by),
            "topics": list(self.topics),
            "inputs": {name: _row(taken) for name, taken in self.inputs.items()},
            "lookups": {name: _row(taken) for name, taken in self.lookups.items()},
            "replaces": list(self.replaces),
            "partitions": [list(partition) for partition in self.partitions],
        }

    @classmethod
    def of(cls, work: Mapping[str, Any], where: str) -> Taking:
        """Raises LedgerDamaged."""
        try:
            return cls(
                work["stage"],
                work["mode"],
                tuple(work["partition.by"]),
                tuple(work["topics"]),
                {name: _taken(row) for name, row in work["inputs"].items()},
                {name: _taken(row) for name, row in work["lookups"].items()},
                tuple(work["replaces"]),
                tuple(tuple(partition) for partition in work["partitions"]),
            )
        except (KeyError, TypeError, AttributeError) as exc:
            raise LedgerDamaged(f"is not of a stage: {exc!r}", plan=where) from None

    def without_files(self) -> Taking:
        return replace(self, inputs={name: replace(taken, files=()) for name, taken in self.inputs.items()})


def past_of(manifest: Manifest) -> Past:
    """What a committed batch of a stage took."""
    taking = Taking.of(manifest.facts, f"batch {manifest.batch}")
    took = {name: frozenset(taken.files) for name, taken in taking.inputs.items()}
    return Past(manifest.batch, took, taking.replaces)


def _row(taken: Taken) -> dict[str, Any]:
    return {
        "through": taken.through,
        "manifest": taken.manifest,
        "fresh": list(taken.fresh),
        "files": list(taken.files),
    }


def _taken(row: Mapping[str, Any]) -> Taken:
    return Taken(int(row["through"]), str(row["manifest"]), tuple(row["fresh"]), tuple(row["files"]))
