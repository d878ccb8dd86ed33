"""Portions of a batch: consecutive tasks of its plan that are read, counted and kept as one.

    N-a/portions/00000-00004/        what Spark wrote of tasks 0 to 3: staged files, as a batch of one portion has them
    N-a/portions/00000-00004.json    its record, made once the files are counted and on disk: what the reader saw

A driver that dies leaves its finished portions behind, those with a record.  The next attempt at the very plan moves
their files into its own folder and counts them again: the reader's count is that of the record, Spark's and that of the
footers are made anew, and the same three decide.  What does not add up, has no record, or was written by another
release or with other options is deleted, and read again.

Nothing of a portion is committed before its batch: readers see all of a batch or nothing.  Why no file can be taken
from under a commit: ledger/attempts.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from groundwork.installed import own_version
from groundwork.jsontext import json_value
from sparkpipeline.errors import Missing
from sparkpipeline.ledger.attempts import PORTIONS
from sparkpipeline.ledger.files import Files, info
from sparkpipeline.load.config import LoadConfig
from sparkpipeline.load.staging import Observed
from sparkpipeline.paths import is_below

RECORD = ".json"


@dataclass(frozen=True, slots=True, order=True)
class Portion:
    """Tasks first <= task < until of a plan."""

    first: int
    until: int

    @property
    def name(self) -> str:
        return f"{self.first:05}-{self.until:05}"

    @property
    def tasks(self) -> range:
        return range(self.first, self.until)


def portions_of(sizes: Sequence[float], done: Iterable[Portion], size: int, cores: int) -> list[Portion]:
    """Return the tasks that are not done in portions, in order.  Pure.

    sizes: bytes of each task.  A portion has about `size` bytes, but a task for every core; the last tasks of a run
    that are too few for that go with those before them."""
    taken = {task for portion in done for task in portion.tasks}
    found: list[Portion] = []
    for run in _runs([task for task in range(len(sizes)) if task not in taken]):
        first, reached = run[0], 0.0
        own = []
        for task in run:
            reached += sizes[task]
            if reached >= size and task + 1 - first >= cores:
                own.append(Portion(first, task + 1))
                first, reached = task + 1, 0.0
        left = run[-1] + 1 - first
        if left and own and left < cores:
            own[-1] = Portion(own[-1].first, run[-1] + 1)
        elif left:
            own.append(Portion(first, run[-1] + 1))
        found += own
    return found


def _runs(tasks: Iterable[int]) -> Iterator[list[int]]:
    run: list[int] = []
    for task in tasks:
        if run and task != run[-1] + 1:
            yield run
            run = []
        run.append(task)
    if run:
        yield run


@dataclass(frozen=True, slots=True)
class Finished:
    """Portion that an earlier attempt finished.  seen: what the reader counted; files: their paths below the folder
    of the portion, and bytes."""

    portion: Portion
    seen: Observed
    files: Mapping[str, int]


class PortionFolder:
    """Portions of one attempt.  staging: its folder; plan_hash: of the plan that it carries out."""

    def __init__(self, files: Files, staging: str, plan_hash: str, config: LoadConfig) -> None:
        self._files = files
        self._folder = f"{staging}/{PORTIONS}"
        self._made_by = {  # what decides about the rows of a plan and the bytes of its files
            "plan": plan_hash,
            "version": own_version(),
            "include.headers": config.include_headers,
            "isolation.level": config.isolation,
            "compression": config.codec,
            "corrupt.policy": config.corrupt_policy,
        }

    def path(self, portion: Portion) -> str:
        """Return the full path of the portion's folder."""
        return f"{self._folder}/{portion.name}"

    def keep(self, portion: Portion, seen: Observed, files: Mapping[str, int]) -> None:
        """Make a portion's record: it is counted, and its files are there, also after a power failure."""
        for path in files:
            self._files.sync(f"{self.path(portion)}/{path}")
        row = {"made_by": self._made_by, "seen": asdict(seen), "files": dict(files)}
        self._files.create(f"{self.path(portion)}{RECORD}", f"{json.dumps(row, sort_keys=True)}\n".encode())

    def finished(self, left: Sequence[str], tasks: int) -> list[Finished]:
        """Return the portions of this plan that abandoned attempts finished, each task once.  left: their folders;
        tasks: of the plan."""
        found: list[Finished] = []
        taken: set[int] = set()
        for folder in left:
            for entry in self._files.list(f"{folder}/{PORTIONS}"):
                one = None if entry.is_folder else self._read(entry.path, entry.name, tasks)
                if one is not None and taken.isdisjoint(one.portion.tasks):
                    taken |= set(one.portion.tasks)
                    found.append(one)
        return sorted(found, key=lambda one: one.portion)

    def take(self, one: Finished, left: Sequence[str]) -> bool:
        """Move a finished portion here.  False: a file of it is not whole in any of the folders."""
        for path, size in one.files.items():
            target = f"{self.path(one.portion)}/{path}"
            for folder in left:
                # A driver that died while it moved them has some files in its own folder, which is the newest.
                if self._files.rename(f"{folder}/{PORTIONS}/{one.portion.name}/{path}", target):
                    break
            there = info(self._files, target)
            if there is None or there.size != size:
                return False
        return True

    def drop(self, portion: Portion) -> None:
        """Delete a portion."""
        self._files.delete(self.path(portion), recursive=True)

    def _read(self, path: str, name: str, tasks: int) -> Finished | None:
        """Read a portion's record; None: no record, or one of another plan, release or options."""
        first, _, until = name.removesuffix(RECORD).partition("-")
        try:
            row = json_value(self._files.read(path))
            if not name.endswith(RECORD) or row["made_by"] != self._made_by:
                return None
            portion = Portion(int(first), int(until))
            files = {str(path): int(size) for path, size in row["files"].items()}
            if not 0 <= portion.first < portion.until <= tasks or not all(map(is_below, files)):
                return None
            return Finished(portion, Observed(**row["seen"]), files)
        except (Missing, KeyError, TypeError, ValueError, AttributeError):
            return None
