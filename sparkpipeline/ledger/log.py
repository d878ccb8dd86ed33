"""What the files of a ledger say: plans, commits and done marks, and the snapshots before them.  Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparkpipeline.errors import LedgerDamaged, Missing
from sparkpipeline.ledger.files import Files
from sparkpipeline.ledger.model import Manifest, Plan
from sparkpipeline.ledger.snapshots import Live, Snapshots, Sum, fold
from sparkpipeline.paths import Layout


@dataclass(frozen=True, slots=True)
class State:
    """Where a ledger stands.

    next_batch    the number of the open plan, or of the plan to come
    open_plan     planned, neither committed nor abandoned
    unpublished   committed, not known to be published: at most the newest, unless somebody deletes files
    abandoned     batches that will never be
    newest        the last commit; its facts are the newest ones
    """

    next_batch: int
    open_plan: Plan | None
    unpublished: tuple[Manifest, ...]
    abandoned: frozenset[int]
    newest: Manifest | None


class Log:
    """Of one ledger: how far it has come.  What was read of a decided batch stays true, see ledger.py."""

    def __init__(self, files: Files, layout: Layout) -> None:
        self.files = files
        self.layout = layout
        self.snapshots = Snapshots(files, layout)
        self._read: dict[int, Manifest] = {}  # of the tail behind the newest snapshot

    def state(self) -> State:
        """Reads the newest snapshot, the manifests behind it and the open plan."""
        start = self.snapshots.newest()
        tail = self._tail(start)
        newest = next((manifest for manifest in reversed(tail) if not manifest.abandoned), None)
        if newest is None and start.newest:
            newest = self.manifest(start.newest)
        return State(
            next_batch=(batch := start.through + len(tail) + 1),
            open_plan=self._open_plan(batch),
            unpublished=tuple(self._unpublished(tail)),
            abandoned=start.abandoned | {manifest.batch for manifest in tail if manifest.abandoned},
            newest=newest,
        )

    def plan(self, batch: int) -> Plan:
        """A plan, whatever became of it.  Raises Missing, and LedgerDamaged."""
        path = self.layout.plan(batch)
        plan = Plan.of(_decoded(self.files.read(path), path), path)
        if plan.batch != batch:
            raise LedgerDamaged(f"holds the plan of batch {plan.batch}", file=path)
        return plan

    def manifest(self, batch: int) -> Manifest:
        """The commit of a batch.  Raises Missing when it has none or was abandoned, and LedgerDamaged."""
        decided = self.decision(batch)
        if decided is None or decided.abandoned:
            raise Missing("the batch was abandoned" if decided else "the batch has no commit", batch=batch)
        return decided

    def manifests(self, since: int = 0) -> Iterator[Manifest]:
        """The commits of the batches behind number `since`, in order; abandoned ones are none.  Reads one file each."""
        batch = since + 1
        while (decided := self.decision(batch)) is not None:
            if not decided.abandoned:
                yield decided
            batch += 1

    def decision(self, batch: int) -> Manifest | None:
        """What commits/N says: a commit, an `abandoned` one, or None while the batch is open (or has no plan yet)."""
        if batch in self._read:
            return self._read[batch]
        path = self.layout.commit(batch)
        try:
            data = self.files.read(path)
        except Missing:
            return None
        manifest = Manifest.of(_decoded(data, path), path)
        if manifest.batch != batch:
            raise LedgerDamaged(f"holds the manifest of batch {manifest.batch}", file=path)
        return manifest

    def live_files(self, as_of: int | None = None) -> Live:
        """Final path -> file, after the newest commit or after batch number as_of.

        Of batches that are not published yet too: their files may still be on their way."""
        for _ in range(3):  # another driver may delete the snapshot that we have just chosen
            start = self.snapshots.newest(as_of)
            try:
                live = self.snapshots.live(start)
                break
            except Missing:
                continue
        else:
            start, live = Sum(), {}
        for manifest in self.manifests(start.through):
            if as_of is not None and manifest.batch > as_of:
                break
            fold(live, manifest)
        return live

    def _tail(self, start: Sum) -> list[Manifest]:
        """Every decided batch behind a snapshot, also the abandoned ones."""
        tail: list[Manifest] = []
        while (decided := self.decision(start.through + len(tail) + 1)) is not None:
            self._read[decided.batch] = decided
            tail.append(decided)
        return tail

    def _unpublished(self, tail: list[Manifest]) -> list[Manifest]:
        """From the newest backwards to the first that is done: no plan is made before its predecessor is published."""
        found: list[Manifest] = []
        for manifest in reversed(tail):
            if manifest.abandoned:
                continue
            if self.files.exists(self.layout.done(manifest.batch)):
                break
            found.append(manifest)
        return found[::-1]

    def _open_plan(self, batch: int) -> Plan | None:
        try:
            return self.plan(batch)
        except Missing:
            return None
        except LedgerDamaged as exc:
            raise LedgerDamaged(
                f"{exc.sentence}; abandoning batch {batch} goes on without it", **exc.coordinates
            ) from None


def _decoded(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise LedgerDamaged("is no text: torn, or not written by a ledger", file=path) from None
