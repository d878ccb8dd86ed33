"""Reports of a ledger for operators: its files, its status.  Reads only.

[[batches]] The batches of a ledger, one by one, as an operator asks for them.  Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkpipeline.errors import LedgerDamaged, Missing, Refused
from sparkpipeline.ledger.attempts import Attempt
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import LiveFile, Manifest
from sparkpipeline.paths import batch_of

DATA, TRASH, MOVING = "data", "trash", "moving"


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleFile:
    """One file that readers of a batch see.

    path     the full path where it lies now
    where    data; trash: it was superseded after the batch asked for, and is kept until the retention time; moving: its
             batch is committed and not yet published, so it may not have arrived at path yet
    """

    path: str
    rows: int
    bytes: int
    batch: int
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Status of a ledger.  Missing values are None, 0 or empty.

    newest        the last commit                 plan_age_ms   since the open plan was made
    attempts      at the open plan                snapshot      the last batch in the newest snapshot
    files, rows, bytes                            what is live after the newest commit
    trash         batches whose superseded files are still there
    """

    base: str
    next_batch: int
    newest: Manifest | None
    open_kind: str | None
    plan_age_ms: int | None
    attempts: tuple[Attempt, ...]
    unpublished: tuple[int, ...]
    abandoned: tuple[int, ...]
    files: int
    rows: int
    bytes: int
    snapshot: int
    trash: tuple[int, ...]


def files_of(ledger: Ledger, as_of: int | None = None) -> list[VisibleFile]:
    """Return the files of all batches, or of batches 1 to as_of, by path: each row exactly once, even while files are
    moved between folders.  Raises Refused if the batch does not exist, or when its files have left the trash."""
    state = ledger.state()
    if as_of is not None and not 0 <= as_of < state.next_batch:
        raise Refused(f"there are batches up to {state.next_batch - 1}", batch=as_of)
    moving = {manifest.batch for manifest in state.unpublished}
    superseded = {} if as_of is None else _superseded(ledger, as_of)
    return sorted(
        (
            _row(ledger, file, file.batch in moving, superseded.get(file.final))
            for file in ledger.live_files(as_of).values()
        ),
        key=lambda row: row.path,
    )


def status_of(ledger: Ledger) -> Status:
    """Return the status.  It counts live files, so it reads the newest snapshot and the manifests after it."""
    state = ledger.state()
    plan = state.open_plan
    live = ledger.live_files()
    trash = ledger.files.list(ledger.layout.folder("trash"))
    return Status(
        base=ledger.base,
        next_batch=state.next_batch,
        newest=state.newest,
        open_kind=None if plan is None else plan.kind,
        plan_age_ms=None if plan is None else ledger.clock() - plan.created_ms,
        attempts=() if plan is None else tuple(ledger.attempts.of(plan.batch)),
        unpublished=tuple(manifest.batch for manifest in state.unpublished),
        abandoned=tuple(sorted(state.abandoned)),
        files=len(live),
        rows=sum(file.rows for file in live.values()),
        bytes=sum(file.bytes for file in live.values()),
        snapshot=ledger.snapshots.newest().through,
        trash=tuple(sorted(n for entry in trash if (n := batch_of(f"{entry.name}.json")) is not None)),
    )


def _superseded(ledger: Ledger, as_of: int) -> dict[str, int]:
    """Return final path -> the batch after as_of that superseded it."""
    return {final: manifest.batch for manifest in ledger.manifests(as_of) for final in manifest.supersedes}


def _row(ledger: Ledger, file: LiveFile, moving: bool, superseded_by: int | None) -> VisibleFile:
    if superseded_by is None:
        return VisibleFile(
            path=ledger.path(file.final),
            rows=file.rows,
            bytes=file.bytes,
            batch=file.batch,
            where=MOVING if moving else DATA,
        )
    path = ledger.layout.trashed(superseded_by, file.final)
    if not ledger.files.exists(path) and not ledger.files.exists(ledger.path(file.final)):
        raise Missing(f"batch {superseded_by} superseded it, and it has left the trash", file=file.final)
    return VisibleFile(path=path, rows=file.rows, bytes=file.bytes, batch=file.batch, where=TRASH)


OPEN, COMMITTED, PUBLISHED, ABANDONED = "open", "committed", "published", "abandoned"


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """Return the newest batches, at most `most`, in order; an open one is the last.  Raises LedgerDamaged for a commit
    that cannot be read."""
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
        return BatchRow(
            batch=manifest.batch,
            kind=kind,
            state=ABANDONED,
            at_ms=manifest.committed_ms,
            why=str(said) if said else why,
        )
    published = ledger.files.exists(ledger.layout.done(manifest.batch))
    return BatchRow(
        batch=manifest.batch,
        kind=manifest.kind,
        state=PUBLISHED if published else COMMITTED,
        at_ms=manifest.committed_ms,
        files=len(manifest.files),
        rows=int(manifest.facts.get("rows", manifest.rows)),  # a topic has no files that could be counted
        bytes=manifest.bytes,
        supersedes=len(manifest.supersedes),
    )


def _open(ledger: Ledger, batch: int) -> BatchRow:
    kind, at_ms, why = _planned(ledger, batch)
    return BatchRow(batch=batch, kind=kind, state=OPEN, at_ms=at_ms, attempts=len(ledger.attempts.of(batch)), why=why)


def _planned(ledger: Ledger, batch: int) -> tuple[str | None, int | None, str | None]:
    """Return kind and time of a plan, or why they are not known."""
    try:
        plan = ledger.plan(batch)
    except LedgerDamaged as exc:
        return None, None, str(exc)
    return plan.kind, plan.created_ms, None
