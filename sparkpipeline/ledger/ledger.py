"""A ledger: numbered batches, each with a plan, a commit and the files it brought.  Knows no Kafka and no Spark.

Batches are 1, 2, 3 .. without a gap: plan N is made when N-1 is committed and published, or abandoned.  Plans, commits
and done marks are never changed and never deleted, so what a driver has read of them stays true.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from groundwork.failpoints import failpoint
from sparkpipeline.errors import LedgerDamaged, Missing, Refused
from sparkpipeline.ledger.attempts import Attempts, made
from sparkpipeline.ledger.files import Files
from sparkpipeline.ledger.log import Log
from sparkpipeline.ledger.model import ABANDONED, Manifest, Plan, check_files, check_plan
from sparkpipeline.ledger.opening import normal_base
from sparkpipeline.ledger.publishing import publish
from sparkpipeline.paths import Layout, batch_of

SNAPSHOT_EVERY = 50
TRASH_KEEP_S = 7 * 24 * 3600


class Ledger(Log):
    """files: of opening.open_files(base, spark); base: as the user wrote it, .base has its normal form.

    snapshot_every   manifests between two snapshots
    trash_keep_s     seconds for which superseded files stay in trash; None: for ever
    clock            milliseconds since 1970
    """

    def __init__(
        self,
        files: Files,
        base: str,
        snapshot_every: int = SNAPSHOT_EVERY,
        trash_keep_s: float | None = TRASH_KEEP_S,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        super().__init__(files, Layout(normal_base(base)))
        self.clock = clock
        self.attempts = Attempts(files, self.layout, clock)
        self._snapshot_every = snapshot_every
        self._trash_keep_s = trash_keep_s

    def __repr__(self) -> str:
        return f"<Ledger {self.base}>"

    @property
    def base(self) -> str:
        return self.layout.base

    def path(self, final: str) -> str:
        """The full path of a final file, for Spark."""
        return self.layout.final(final)

    # what a batch does, in this order

    def put_plan(self, plan: Plan) -> bool:
        """Make a plan durable.  False: another driver made this batch's plan.

        Raises OptionRefused for one that cannot be, Refused when it is not its turn or supersedes what is not live."""
        check_plan(plan)
        state = self.state()
        if plan.batch < state.next_batch or state.open_plan is not None:
            return self._is(self.layout.plan(plan.batch), plan.text())
        if plan.batch > state.next_batch or state.unpublished:
            raise Refused(f"batch {state.next_batch - 1} is to be published first, and no batch left out",
                          batch=plan.batch)  # fmt: skip
        if plan.supersedes:
            live = self.live_files()
            for final in plan.supersedes:
                if final not in live:
                    raise Refused(f"the plan supersedes {final}, which is not live", batch=plan.batch)
        return made(self.files, self.layout.plan(plan.batch), plan.text().encode())

    def claim(self, batch: int) -> int | None:
        """A new attempt at an open batch, with a staging folder of its own; None: the batch is decided meanwhile."""
        attempt = self.attempts.claim(batch)
        if self.decision(batch) is None:
            return attempt
        self.attempts.drop(batch, attempt)
        return None

    def staging(self, batch: int, attempt: int) -> str:
        """The full path of an attempt's folder, which is made by whoever writes into it."""
        return self.layout.staging(batch, attempt)

    def prepare(self, manifest: Manifest) -> bool:
        """Seal the attempt and look at every file it brings: there, of its size, settled.  False: the attempt was given
        up, or its batch is decided.  Raises OptionRefused and LedgerDamaged; nothing is committed then."""
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
            self.files.settle(path)
        return True

    def commit(self, manifest: Manifest) -> bool:
        """Decide a batch by a manifest that is prepared.  False: it was decided before.

        When it raises nobody knows whether it happened: leave the staging folder, the next state() says."""
        return made(self.files, self.layout.commit(manifest.batch), manifest.text().encode())

    def publish(self, manifest: Manifest, tell: Callable[[str], None]) -> None:
        """Bring the files of a commit to their final names, and drop the staging of its batch.  May be repeated."""
        publish(self.files, self.layout, manifest, tell)
        for attempt in self.attempts.of(manifest.batch):
            self.attempts.drop(attempt.batch, attempt.attempt)

    def abandon(self, batch: int, why: str) -> Manifest:
        """Decide that an open plan will never be carried out, by the file that would be its commit: of an abandon and a
        commit at once one wins.  Raises Refused when there is no such plan or the batch is decided."""
        if not self.files.exists(self.layout.plan(batch)):
            raise Refused("there is no plan of this number", batch=batch)
        try:
            plan_hash = self.plan(batch).hash
        except LedgerDamaged:
            plan_hash = ""  # a plan that nobody can read is the best reason to abandon it
        now = self.clock()
        manifest = Manifest(batch, ABANDONED, plan_hash, 0, "", now, now, (), (), {"why": why}, tool_version())
        if not made(self.files, self.layout.commit(batch), manifest.text().encode()):
            decided = self.decision(batch)
            how = "abandoned already" if decided is not None and decided.abandoned else "committed"
            raise Refused(f"the batch is {how}; only a plan without commit can be abandoned", batch=batch)
        return manifest

    # housekeeping

    def compact_log(self) -> int | None:
        """Make a snapshot when snapshot_every published batches came since the last one; its last batch, else None."""
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
        """Delete superseded files whose retention time is over; the batches that had superseded them."""
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

    def _sizes(self, folders: set[str]) -> dict[str, int]:
        """The files in these folders, and their sizes."""
        listed = (entry for folder in sorted(folders) for entry in self.files.list(folder))
        return {entry.path: entry.size for entry in listed if not entry.is_folder}

    def _is(self, path: str, text: str) -> bool:
        try:
            return self.files.read(path) == text.encode()
        except Missing:
            return False


def tool_version() -> str:
    """The version that manifests name."""
    try:
        return version("kafka-legacy-mirror")
    except PackageNotFoundError:  # run from a zip or a folder
        return "not installed"
