"""Verification of a ledger against itself and the files on its disk.  Reads only, but all manifests.

missing, size         a live file that is not there, or is not as large as its manifest says
orphan                a file below data/ that no manifest knows: readers of the folders count it
torn, contradiction   a file of the ledger that cannot be read, or says something else than another one
gap                   a number that is left out
foreign               a file in the ledger's folders that does not belong to it: harmless
leftover              what a killed process left behind: harmless, and waits for the next batch
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sparkpipeline.errors import LedgerDamaged, Missing, PipelineError
from sparkpipeline.ledger.files import walk
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.local import TEMPORARY
from sparkpipeline.ledger.snapshots import Live, fold
from sparkpipeline.paths import DATA, attempt_of, batch_of

HARMLESS = ("foreign", "leftover")
TRIES = 3


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Finding of a verification. what: one of the words above; file: the full path."""

    what: str
    file: str
    detail: str

    @property
    def harmless(self) -> bool:
        return self.what in HARMLESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Result of a verification. batches, files, rows, bytes: committed and live. busy: a driver was at work all the
    time, so files being moved may be among the findings: repeat it when the driver is done."""

    batches: int
    files: int
    rows: int
    bytes: int
    findings: tuple[Finding, ...]
    busy: bool

    @property
    def good(self) -> bool:
        """True if nothing that matters was found."""
        return all(finding.harmless for finding in self.findings)


def verify(ledger: Ledger) -> Verdict:
    """Verify a ledger; repeat up to three times if it changes meanwhile.  Raises StorageFailed; damage is a finding."""
    for _ in range(TRIES):
        before = _marks(ledger)
        verdict = _looked(Ledger(ledger.files, ledger.base))  # without cached state
        if _marks(ledger) == before and not _moving(ledger):
            return verdict
    return replace(verdict, busy=True)


def _marks(ledger: Ledger) -> dict[str, frozenset[int]]:
    """Return the numbers in commits and done, which change when a batch advances."""
    return {name: frozenset(_numbers(ledger, name)) for name in ("commits", "done")}


def _moving(ledger: Ledger) -> bool:
    """True if the newest batch is not published yet, as far as the ledger can be read."""
    try:
        return bool(ledger.state().unpublished)
    except PipelineError:
        return False  # damaged: that is among the findings


def _numbers(ledger: Ledger, folder: str) -> list[int]:
    entries = ledger.files.list(ledger.layout.folder(folder))
    return sorted(n for entry in entries if (n := batch_of(entry.name)) is not None)


def _looked(ledger: Ledger) -> Verdict:
    findings = [*_names(ledger), *_numbering(ledger)]
    live: Live = {}
    sums = {n: n for n in ledger.snapshots.all()}
    batch = 0
    for batch in _numbers(ledger, "commits"):
        findings += _folded(ledger, batch, live)
        if sums.pop(batch, None) is not None:
            findings += _snapshot(ledger, batch, live)
    findings += _open_plan(ledger, batch + 1)
    findings += _disk(ledger, live)
    rows, size = sum(file.rows for file in live.values()), sum(file.bytes for file in live.values())
    return Verdict(batches=batch, files=len(live), rows=rows, bytes=size, findings=tuple(sorted(findings)), busy=False)


def _names(ledger: Ledger) -> Iterator[Finding]:
    """Yield findings in the ledger's folders."""
    open_batch = max(_numbers(ledger, "commits"), default=0) + 1
    for folder in ("plans", "commits", "done", "snapshots", "staging", "trash"):
        for entry in ledger.files.list(ledger.layout.folder(folder)):
            attempt = attempt_of(entry.name) if folder == "staging" else None
            if entry.name.startswith(".") and entry.name.endswith(TEMPORARY):
                yield Finding("leftover", entry.path, "a file that was being made when its process ended")
            elif attempt is not None and attempt[0] < open_batch:
                yield Finding("leftover", entry.path, f"an attempt at batch {attempt[0]}, which is decided")
            elif attempt is None and _number(folder, entry.name) is None:
                yield Finding("foreign", entry.path, "not a file of the ledger")


def _number(folder: str, name: str) -> int | None:
    """Return the batch of a file name in a folder of the ledger."""
    return batch_of(f"{name}.json" if folder == "trash" else name.replace(".files.gz", ".json"))


def _numbering(ledger: Ledger) -> Iterator[Finding]:
    plans, commits, done = (_numbers(ledger, name) for name in ("plans", "commits", "done"))
    for number, there in enumerate(commits, 1):
        if number != there:
            yield Finding("gap", ledger.layout.commit(number), f"is not there, and batch {there} is committed")
            break
    for number in sorted(set(commits) - set(plans)):
        yield Finding("gap", ledger.layout.plan(number), "is not there, and its batch is committed")
    for number in plans:
        if number > len(commits) + 1:
            yield Finding("gap", ledger.layout.plan(number), f"is there, and batch {number - 1} is not committed")
    for number in sorted(set(done) - set(commits)):
        yield Finding("contradiction", ledger.layout.done(number), "is there, and its batch is not committed")


def _folded(ledger: Ledger, batch: int, live: Live) -> Iterator[Finding]:
    """Apply a manifest, and compare it with its plan."""
    path = ledger.layout.commit(batch)
    try:
        manifest = ledger.decision(batch)
        assert manifest is not None  # it was listed, and commits are not deleted
        if manifest.abandoned:
            return
        fold(live, manifest)
        if ledger.plan(batch).hash != manifest.plan_hash:
            yield Finding("contradiction", path, "carries out another plan than the one that is there")
    except LedgerDamaged as exc:
        file = str(exc.coordinates.get("file", path))
        yield Finding("contradiction" if "file" not in exc.coordinates else "torn", file, exc.sentence)
    except Missing as exc:
        yield Finding("gap", str(exc.coordinates["file"]), exc.sentence)


def _open_plan(ledger: Ledger, batch: int) -> Iterator[Finding]:
    try:
        ledger.plan(batch)
    except LedgerDamaged as exc:
        yield Finding("torn", ledger.layout.plan(batch), exc.sentence)
    except Missing:
        pass  # no plan is open


def _snapshot(ledger: Ledger, through: int, live: Live) -> Iterator[Finding]:
    path = ledger.layout.snapshot(through)
    try:
        said = ledger.snapshots.newest(through)
        if said.through == through and ledger.snapshots.live(said) != live:
            yield Finding(
                "contradiction", path, "the live files are not those of the manifests; delete both files of it"
            )
    except LedgerDamaged as exc:
        yield Finding("torn", str(exc.coordinates.get("file", path)), exc.sentence)
    except Missing:
        pass  # an old one that a driver has just deleted


def _disk(ledger: Ledger, live: Live) -> Iterator[Finding]:
    """Yield findings below data/."""
    missing = dict(live)
    root = ledger.path(DATA)
    for entry in walk(ledger.files, root):
        final = f"{DATA}{entry.path.removeprefix(root)}"
        file = missing.pop(final, None)
        if file is not None and file.bytes != entry.size:
            yield Finding("size", entry.path, f"has {entry.size} bytes, and batch {file.batch} wrote {file.bytes}")
        elif file is None and not entry.name.startswith((".", "_")):
            yield Finding("orphan", entry.path, "no manifest knows it, and readers of the folder count it")
    for file in missing.values():
        yield Finding("missing", ledger.path(file.final), f"{file.rows} rows of batch {file.batch}")
