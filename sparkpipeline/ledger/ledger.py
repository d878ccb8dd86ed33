"""A ledger: numbered batches, each with a plan, a commit and its files.  Independent of Kafka and Spark.

Batches are 1, 2, 3 .. without a gap: plan N is made when N-1 is committed and published, or abandoned.  Plans, commits
and done marks are never changed and never deleted, so what a driver has read of them stays true.

A commit is published any number of times, by any number of drivers at once, and again by one that slept meanwhile.
Superseded files go first: a reader who lists the folders sees too few rows for as long as the renames last, and never
the same ones twice.  (A reader who must not see that either reads the files of the manifests: reports.files_of.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from groundwork.failpoints import failpoint
from groundwork.installed import own_version
from sparkpipeline.errors import LedgerDamaged, Missing, Refused
from sparkpipeline.ledger.attempts import Attempts, made
from sparkpipeline.ledger.base import normal_base
from sparkpipeline.ledger.files import Files, info
from sparkpipeline.ledger.manifests import ABANDONED, BatchFile, Manifest, Plan, check_files, check_plan
from sparkpipeline.ledger.snapshots import Live, Snapshots, Sum, fold
from sparkpipeline.paths import Layout, batch_of

SNAPSHOT_EVERY = 50
TRASH_KEEP_S = 7 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerState:
    """State of a ledger.

    next_batch    the number of the open plan, or of the plan to come
    open_plan     planned, neither committed nor abandoned
    unpublished   committed, not known to be published: at most the newest, unless files are deleted from outside
    abandoned     batches that will never be
    newest        the last commit; its facts are the newest ones
    """

    next_batch: int
    open_plan: Plan | None
    unpublished: tuple[Manifest, ...]
    abandoned: frozenset[int]
    newest: Manifest | None

    def has_plan(self, batch: int) -> bool:
        """True if a batch was planned, by this driver or another; if a plan is open, this includes the next batch."""
        return batch < self.next_batch or self.open_plan is not None


class Ledger:
    """files: of opening.open_files(base, spark); base: as the user wrote it, .base has its normal form.

    snapshot_every   manifests between two snapshots
    trash_keep_s     seconds for which superseded files stay in trash; None: for ever
    clock            milliseconds since 1970
    """

    def __init__(
        self,
        files: Files,
        base: str,
        *,
        snapshot_every: int = SNAPSHOT_EVERY,
        trash_keep_s: float | None = TRASH_KEEP_S,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.files = files
        self.layout = Layout(normal_base(base))
        self.clock = clock
        self.snapshots = Snapshots(files, self.layout)
        self.attempts = Attempts(files, self.layout, clock)
        self._snapshot_every = snapshot_every
        self._trash_keep_s = trash_keep_s
        self._read: dict[int, Manifest] = {}  # decided batches after the newest snapshot

    def __repr__(self) -> str:
        return f"<Ledger {self.base}>"

    @property
    def base(self) -> str:
        return self.layout.base

    def path(self, final: str) -> str:
        """Return the full path of a final file, for Spark."""
        return self.layout.final(final)

    # ---- what its files say: changes nothing

    def state(self) -> LedgerState:
        """Read the state: the newest snapshot, the manifests after it and the open plan."""
        start = self.snapshots.newest()
        tail = self._tail(start)
        newest = next((manifest for manifest in reversed(tail) if not manifest.abandoned), None)
        if newest is None and start.newest:
            newest = self.manifest(start.newest)
        return LedgerState(
            next_batch=(batch := start.through + len(tail) + 1),
            open_plan=self._open_plan(batch),
            unpublished=tuple(self._unpublished(tail)),
            abandoned=start.abandoned | {manifest.batch for manifest in tail if manifest.abandoned},
            newest=newest,
        )

    def plan(self, batch: int) -> Plan:
        """Return a plan, open or decided.  Raises Missing, and LedgerDamaged."""
        path = self.layout.plan(batch)
        plan = Plan.of(_decoded(self.files.read(path), path), path)
        if plan.batch != batch:
            raise LedgerDamaged(f"holds the plan of batch {plan.batch}", file=path)
        return plan

    def manifest(self, batch: int) -> Manifest:
        """Return the commit of a batch.  Raises Missing if it has none or was abandoned, and LedgerDamaged."""
        decided = self.decision(batch)
        if decided is None or decided.abandoned:
            raise Missing("the batch was abandoned" if decided else "the batch has no commit", batch=batch)
        return decided

    def manifests(self, since: int = 0) -> Iterator[Manifest]:
        """Yield the commits of the batches after number `since`, in order, without abandoned ones.  Reads one file
        each."""
        batch = since + 1
        while (decided := self.decision(batch)) is not None:
            if not decided.abandoned:
                yield decided
            batch += 1

    def decision(self, batch: int) -> Manifest | None:
        """Return commits/N: a commit, an `abandoned` one, or None while the batch is open (or has no plan yet)."""
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
        """Return final path -> file, after the newest commit or after batch number as_of.

        This includes batches that are not published yet, whose files may still be moving."""
        for _ in range(3):  # another driver may delete the snapshot just chosen
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

    # ---- what a batch does, in this order

    def put_plan(self, plan: Plan) -> bool:
        """Make a plan durable.  False: another driver made this batch's plan.

        Raises OptionRefused for one that cannot be, Refused when it is not its turn or supersedes what is not live."""
        check_plan(plan)
        state = self.state()
        if state.has_plan(plan.batch):
            return self._is(self.layout.plan(plan.batch), plan.text())
        if plan.batch > state.next_batch or state.unpublished:
            raise Refused(f"batch {state.next_batch - 1} is to be published first, and no batch left out",
                          batch=plan.batch)  # fmt: skip
        if plan.supersedes:
            live = self.live_files()
            for final in plan.supersedes:
                if final not in live:
                    if self.state().has_plan(plan.batch):  # another driver did this batch since, and superseded it
                        return self._is(self.layout.plan(plan.batch), plan.text())
                    raise Refused(f"the plan supersedes {final}, which is not live", batch=plan.batch)
        return made(self.files, self.layout.plan(plan.batch), plan.text().encode())

    def claim(self, batch: int) -> int | None:
        """Return a new attempt at an open batch, with its own staging folder; None: the batch is decided meanwhile."""
        attempt = self.attempts.claim(batch)
        if self.decision(batch) is None:
            return attempt
        self.attempts.drop(batch, attempt)
        return None

    def staging(self, batch: int, attempt: int) -> str:
        """Return the full path of an attempt's folder, which its first writer makes."""
        return self.layout.staging(batch, attempt)

    def prepare(self, manifest: Manifest) -> bool:
        """Seal the attempt and check every file it brings: it is there, has its size, and is synced to disk.  False:
        the attempt was given up, or its batch is decided.  Raises OptionRefused and LedgerDamaged; nothing is committed
        then."""
        check_files(manifest.batch, manifest.files)
        plan = self.plan(manifest.batch)
        if (plan.hash, plan.supersedes, plan.kind) != (manifest.plan_hash, manifest.supersedes, manifest.kind):
            raise LedgerDamaged("the manifest is not of the plan that the ledger holds", batch=manifest.batch)
        if not self.attempts.seal(manifest.batch, manifest.attempt):
            return False
        failpoint("ledger after seal")
        staging = self.staging(manifest.batch, manifest.attempt)
        sizes = self._sizes({f"{staging}/{file.staged}".rpartition("/")[0] for file in manifest.files})
        for file in manifest.files:
            path = f"{staging}/{file.staged}"
            if sizes.get(path) != file.bytes:
                if self.decision(manifest.batch) is not None:
                    return False
                size = "is not there" if path not in sizes else f"has {sizes[path]} bytes"
                raise LedgerDamaged(f"a staged file of {file.bytes} bytes {size}", batch=manifest.batch, file=path)
            self.files.sync(path)
        return True

    def commit(self, manifest: Manifest) -> bool:
        """Decide a batch by a prepared manifest.  Return False if it was decided before.

        When it raises the outcome is unknown: leave the staging folder, the next state() says."""
        return made(self.files, self.layout.commit(manifest.batch), manifest.text().encode())

    def publish(self, manifest: Manifest, tell: Callable[[str], None]) -> None:
        """Bring the files of a commit to their final names, and drop the staging of its batch.  May be repeated."""
        publish(self.files, self.layout, manifest, tell)
        for attempt in self.attempts.of(manifest.batch):
            self.attempts.drop(attempt.batch, attempt.attempt)

    def abandon(self, batch: int, why: str) -> Manifest:
        """Decide that an open plan will never be executed, by the file that would be its commit: if an abandon and a
        commit compete, one wins.  Raises Refused when there is no such plan or the batch is decided."""
        if not self.files.exists(self.layout.plan(batch)):
            raise Refused("no plan has this number", batch=batch)
        try:
            plan_hash = self.plan(batch).hash
        except LedgerDamaged:
            plan_hash = ""  # an unreadable plan is the best reason to abandon it
        now = self.clock()
        manifest = Manifest(
            batch=batch,
            kind=ABANDONED,
            plan_hash=plan_hash,
            attempt=0,
            application="",
            started_ms=now,
            committed_ms=now,
            files=(),
            supersedes=(),
            facts={"why": why},
            version=own_version(),
        )
        if not made(self.files, self.layout.commit(batch), manifest.text().encode()):
            decided = self.decision(batch)
            how = "abandoned already" if decided is not None and decided.abandoned else "committed"
            raise Refused(f"the batch is {how}; only a plan without commit can be abandoned", batch=batch)
        return manifest

    # ---- housekeeping

    def compact_log(self) -> int | None:
        """Make a snapshot when snapshot_every published batches came since the last one; return its last batch, else
        None."""
        start = self.snapshots.newest()
        tail = self._tail(start)
        unpublished = {manifest.batch for manifest in self._unpublished(tail)}
        ready = [
            manifest for manifest in tail if manifest.batch < min(unpublished, default=start.through + len(tail) + 1)
        ]
        if len(ready) < self._snapshot_every:
            return None
        through = ready[-1].batch
        newest = max((m.batch for m in ready if not m.abandoned), default=start.newest)
        abandoned = start.abandoned | {m.batch for m in ready if m.abandoned}
        self.snapshots.write(through, newest, abandoned, self.live_files(through))
        self._read = {n: manifest for n, manifest in self._read.items() if n > through}
        return through

    def drop_trash(self) -> list[int]:
        """Delete superseded files whose retention time is over; return the batches that superseded them."""
        if self._trash_keep_s is None:
            return []
        dropped = []
        for entry in self.files.list(self.layout.folder("trash")):
            batch = batch_of(f"{entry.name}.json")
            decided = None if batch is None else self.decision(batch)
            if batch is None or decided is None or not self.files.exists(self.layout.done(batch)):
                continue
            if self.clock() - decided.committed_ms > self._trash_keep_s * 1000:
                self.files.delete(entry.path, recursive=True)
                dropped.append(batch)
        return dropped

    # ---- inside

    def _tail(self, start: Sum) -> list[Manifest]:
        """Return every decided batch after a snapshot, including abandoned ones."""
        tail: list[Manifest] = []
        while (decided := self.decision(start.through + len(tail) + 1)) is not None:
            self._read[decided.batch] = decided
            tail.append(decided)
        return tail

    def _unpublished(self, tail: list[Manifest]) -> list[Manifest]:
        """Return unpublished batches, from the newest back to the first done one: no plan is made before its
        predecessor is published."""
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
                f"{exc.sentence}; `abandon` of batch {batch} works without it", **exc.coordinates
            ) from None

    def _sizes(self, folders: set[str]) -> dict[str, int]:
        """Return the files in these folders, and their sizes."""
        listed = (entry for folder in sorted(folders) for entry in self.files.list(folder))
        return {entry.path: entry.size for entry in listed if not entry.is_folder}

    def _is(self, path: str, text: str) -> bool:
        try:
            return self.files.read(path) == text.encode()
        except Missing:
            return False


# ---- publishing ------------------------------------------------------------------------------------------------------


def publish(files: Files, layout: Layout, manifest: Manifest, tell: Callable[[str], None]) -> None:
    """Move all files of a committed manifest to their final names.  Raises LedgerDamaged for a missing file."""
    if files.exists(layout.done(manifest.batch)):
        return
    for final in manifest.supersedes:
        failpoint("ledger before trash")
        if not _trashed(files, layout, manifest.batch, final) and not files.exists(layout.done(manifest.batch)):
            tell(f"batch {manifest.batch} supersedes {final}, which was deleted from outside")
    for file in manifest.files:
        failpoint("ledger during publish")
        _move(files, layout, manifest, file)
    failpoint("ledger before done")
    files.create(layout.done(manifest.batch), b"{}\n")
    failpoint("ledger after done")


def _trashed(files: Files, layout: Layout, batch: int, final: str) -> bool:
    """True if the file is in the batch's trash."""
    trash = layout.trashed(batch, final)
    return files.rename(layout.final(final), trash) or files.exists(trash)


def _move(files: Files, layout: Layout, manifest: Manifest, file: BatchFile) -> None:
    source = f"{layout.staging(manifest.batch, manifest.attempt)}/{file.staged}"
    target = layout.final(file.final)
    if files.rename(source, target):
        return
    there = info(files, target)
    if there is not None and there.size == file.bytes:
        return  # moved before, by us or by another driver
    if files.exists(layout.done(manifest.batch)):
        return  # published meanwhile, and perhaps superseded already
    if there is not None:
        raise LedgerDamaged(
            f"there is a file of {there.size} bytes, and the batch has one of {file.bytes}; "
            "move the foreign one away and run again",
            batch=manifest.batch,
            file=target,
        )
    raise LedgerDamaged(
        f"the batch is committed, and its file is neither here nor at {source}: it was deleted from outside; "
        "put it back (a snapshot, the file system's trash) and run again",
        batch=manifest.batch,
        file=target,
    )


def _decoded(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise LedgerDamaged("is not text: torn, or not written by a ledger", file=path) from None
