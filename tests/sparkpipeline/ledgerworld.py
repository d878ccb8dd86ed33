"""A small world for the ledger: a log of rows per partition, work that copies it into files, and a judge of the files.

A row is one line, "partition offset".  A range becomes one or two files, named as the loader names its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from sparkpipeline.ledger.attempts import PORTIONS
from sparkpipeline.ledger.files import Files, walk
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import BatchFile, Manifest, Plan, StagedBatch
from sparkpipeline.load.config import config_of
from sparkpipeline.load.portions import Portion, PortionFolder
from sparkpipeline.load.staging import Observed
from sparkpipeline.paths import Layout, generation

Row = tuple[int, int]
Range = tuple[int, int, int]  # partition, start, until
BASE = "mem://ledger/orders"
CONFIG = config_of({"base": "/w", "bootstrap.servers": "b:1", "topics": ["orders"]}, "job.yaml")
NOTHING = Observed(rows=0, numbers=0, begun=0, crcs=0)


class CopyWork:
    """heads: how many rows each partition has.  step: how many a batch takes of each.

    rewind: (partition, offset) that the next plan goes back to; it stays until it is planned, and is None after."""

    def __init__(self, files: Files, heads: tuple[int, ...], step: int = 10, rewind: Row | None = None) -> None:
        self.files = files
        self.heads = heads
        self.step = step
        self.rewind = rewind
        self.outward: dict[str, int] = {}
        self.executing = False

    def plan(self, ledger: Ledger, batch: int) -> Plan | None:
        newest = ledger.state().newest
        positions = {str(p): 0 for p in range(len(self.heads))} | ({} if newest is None else newest.facts["until"])
        if self.rewind is not None:
            return self._rewound(ledger, batch, positions)
        ranges = [
            [p, positions[str(p)], min(head, positions[str(p)] + self.step)]
            for p, head in enumerate(self.heads)
            if positions[str(p)] < head
        ]
        return Plan(batch, "copy", ledger.clock(), {"ranges": ranges, "until": positions}) if ranges else None

    def _rewound(self, ledger: Ledger, batch: int, positions: dict[str, int]) -> Plan | None:
        assert self.rewind is not None
        partition, offset = self.rewind
        self.rewind = None
        old = {path: spans(path) for path in ledger.live_files() if spans(path)[0] == partition}
        behind = {path: span for path, span in old.items() if span[2] > offset}
        if not behind:
            return None
        start = min(span[1] for span in behind.values())
        work = {"ranges": [[partition, start, positions[str(partition)]]], "until": positions}
        return Plan(batch, "rewind", ledger.clock(), work, tuple(sorted(behind)))

    def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
        self.executing = True
        files = [entry for span in plan.work["ranges"] for entry in self._written(plan, staging, tuple(span))]
        until = {**plan.work["until"], **{str(p): end for p, _, end in plan.work["ranges"]}}
        self.files.create(f"{staging}/_SUCCESS", b"")
        self.executing = False
        return StagedBatch(tuple(files), {"until": until}, "app-1")

    def _written(self, plan: Plan, staging: str, span: Range) -> Iterator[BatchFile]:
        for file, data in self._files(plan, span):
            assert self.files.create(f"{staging}/{file.staged}", data)
            yield file

    def _files(self, plan: Plan, span: Range) -> Iterator[tuple[BatchFile, bytes]]:
        partition, start, until = span
        middle = (start + until) // 2
        for part, (first, end) in enumerate([(start, middle), (middle, until)]):
            if first == end:
                continue
            folder = f"topic=orders/hour={first // 25:02}"
            data = "".join(f"{partition} {offset}\n" for offset in range(first, end)).encode()
            final = f"data/{folder}/orders+{partition}+{first:06}+{end:06}{generation(plan.batch)}.c000"
            yield BatchFile(f"{folder}/part-{partition}-{part}", final, end - first, len(data)), data

    def published(self, manifest: Manifest) -> None:
        self.outward = manifest.facts["until"]


class PortionWork(CopyWork):
    """The same, each range a portion as loads keep them.  written: partitions that were written anew, by attempt."""

    def __init__(self, files: Files, heads: tuple[int, ...], step: int = 10, rewind: Row | None = None) -> None:
        super().__init__(files, heads, step, rewind)
        self.written: list[Row] = []

    def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
        self.executing = True
        folder = PortionFolder(self.files, staging, plan.hash, CONFIG)
        left = Ledger(self.files, BASE).attempts.left(plan.batch)
        taken = set()
        for one in folder.finished(left, len(plan.work["ranges"])):
            if folder.take(one, left):
                folder.keep(one.portion, one.seen, one.files)
                taken.add(one.portion)
            else:
                folder.drop(one.portion)
        for path in left:
            self.files.delete(path, recursive=True)
        files = []
        for number, span in enumerate(plan.work["ranges"]):
            portion = Portion(number, number + 1)
            mine = [file for file, _ in self._files(plan, tuple(span))]
            if portion not in taken:
                self.written.append((attempt, span[0]))
                assert list(self._written(plan, folder.path(portion), tuple(span))) == mine
                folder.keep(portion, NOTHING, {file.staged: file.bytes for file in mine})
            files += [replace(file, staged=f"{PORTIONS}/{portion.name}/{file.staged}") for file in mine]
        until = {**plan.work["until"], **{str(p): end for p, _, end in plan.work["ranges"]}}
        self.executing = False
        return StagedBatch(tuple(files), {"until": until}, "app-1")


def spans(path: str) -> Range:
    """Partition, first offset and end of a final file, by its name."""
    _, partition, first, rest = path.rpartition("/")[2].split("+")
    return int(partition), int(first), int(rest.split(".")[0])


def rows_in(files: Files, paths: Iterable[str]) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for path in paths:
        rows.update(tuple(map(int, line.split())) for line in files.read(path).decode().splitlines())  # type: ignore[misc]
    return rows


def judge(files: Files, base: str, heads: tuple[int, ...]) -> None:
    """Every row of every partition is in data/ exactly once, and data/ holds the live files and nothing else."""
    ledger = Ledger(files, base)
    state = ledger.state()
    assert state.open_plan is None
    assert not state.unpublished
    on_disk = [entry.path for entry in walk(files, f"{ledger.base}/data")]
    wanted = Counter((p, offset) for p, head in enumerate(heads) for offset in range(head))
    rows = rows_in(files, on_disk)
    assert not wanted - rows, f"lost: {sorted(wanted - rows)[:9]}"
    assert not rows - wanted, f"twice or never written: {sorted(rows - wanted)[:9]}"
    live = ledger.live_files()
    assert {ledger.path(path) for path in live} == set(on_disk)
    assert sum(file.rows for file in live.values()) == sum(rows.values())


def seen_twice(kept: dict[str, bytes], base: str) -> list[tuple[str, str]]:
    """Pairs of files in data/ that hold a row both: what whoever lists the folders would count twice."""
    found: dict[Row, str] = {}
    twice = []
    for path in sorted(kept):
        if path.startswith(f"{base}/data/"):
            partition, first, end = spans(path)
            for offset in range(first, end):
                other = found.setdefault((partition, offset), path)
                if other != path:
                    twice.append((other, path))
    return twice


def committed_and_gone(kept: dict[str, bytes], base: str) -> list[str]:
    """Live files that are neither at their final names nor where they are published from."""
    layout = Layout(base)
    live: dict[str, Manifest] = {}
    batch = 1
    while (text := kept.get(layout.commit(batch))) is not None:
        manifest = Manifest.of(text.decode())
        for final in manifest.supersedes:
            del live[final]
        live.update({file.final: manifest for file in manifest.files})
        batch += 1
    gone = []
    for final, manifest in live.items():
        staged = next(file.staged for file in manifest.files if file.final == final)
        if f"{base}/{final}" not in kept and f"{layout.staging(manifest.batch, manifest.attempt)}/{staged}" not in kept:
            gone.append(final)
    return gone


def tells() -> tuple[list[str], Any]:
    """A list, and what appends to it."""
    said: list[str] = []
    return said, said.append
