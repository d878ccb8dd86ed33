"""The batches of a ledger, one by one, as an operator asks for them.  Reads only."""

from __future__ import annotations

from dataclasses import dataclass

from sparkpipeline.errors import LedgerDamaged
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.model import Manifest

OPEN, COMMITTED, PUBLISHED, ABANDONED = "open", "committed", "published", "abandoned"


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One batch.

    kind      of its work; None: its plan cannot be read
    state     open: planned and not decided; committed: its files may still be on their way; published; abandoned
    at_ms     when it was planned (open), or decided; None: the plan cannot be read
    attempts  at an open one
    why       it was abandoned, or its plan cannot be read
    """

    batch: int
    kind: str | None
    state: str
    at_ms: int | None
    files: int = 0
    rows: int = 0
    bytes: int = 0
    supersedes: int = 0
    attempts: int = 0
    why: str | None = None


def batches_of(ledger: Ledger, most: int) -> list[BatchRow]:
    """The newest batches, at most so many, in order; an open one is the last.  Raises LedgerDamaged for a commit that
    cannot be read."""
    batch = ledger.snapshots.newest().through + 1
    while ledger.decision(batch) is not None:
        batch += 1
    is_open = ledger.files.exists(ledger.layout.plan(batch))
    first = max(1, batch + is_open - most)
    decided = [_decided(ledger, found) for n in range(first, batch) if (found := ledger.decision(n)) is not None]
    return [*decided, *([_open(ledger, batch)] if is_open else [])]


def _decided(ledger: Ledger, manifest: Manifest) -> BatchRow:
    if manifest.abandoned:
        kind, _, why = _planned(ledger, manifest.batch)
        said = manifest.facts.get("why")
        return BatchRow(manifest.batch, kind, ABANDONED, manifest.committed_ms, why=str(said) if said else why)
    published = ledger.files.exists(ledger.layout.done(manifest.batch))
    return BatchRow(
        manifest.batch,
        manifest.kind,
        PUBLISHED if published else COMMITTED,
        manifest.committed_ms,
        len(manifest.files),
        int(manifest.facts.get("rows", manifest.rows)),  # of a topic there are no files that could be counted
        manifest.bytes,
        len(manifest.supersedes),
    )


def _open(ledger: Ledger, batch: int) -> BatchRow:
    kind, at_ms, why = _planned(ledger, batch)
    return BatchRow(batch, kind, OPEN, at_ms, attempts=len(ledger.attempts.of(batch)), why=why)


def _planned(ledger: Ledger, batch: int) -> tuple[str | None, int | None, str | None]:
    """Kind and time of a plan; or why they are not known."""
    try:
        plan = ledger.plan(batch)
    except LedgerDamaged as exc:
        return None, None, str(exc)
    return plan.kind, plan.created_ms, None
