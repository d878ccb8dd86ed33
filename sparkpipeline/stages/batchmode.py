"""Batch mode: input that a stage has processed, and its next input.  Pure: numbers and names of files.

An input is a ledger: batches that add files and supersede files.  A batch of kind "compact" holds the same rows in
other files.  A stage's own batches (Past) name the files that each took.  From these two:

    waiting    a live file that no batch of the stage took: it is new
    spoilt     a batch of the stage that took a file which is live no more (a rewind superseded it): what it wrote is
               no longer true.  Its output is superseded by a new batch over what is left of its files, and what is new
    compacted  files in place of files that were all taken count as taken: nothing is run again
               (files that mix taken rows with new ones spoil the batches that took the former)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

COMPACT = "compact"


@dataclass(frozen=True, slots=True)
class Batch:
    """One published batch of an input: final paths that it added, and that it removed."""

    number: int
    kind: str
    files: tuple[str, ...]
    supersedes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Past:
    """One committed batch of the stage itself. replaces: batches of the stage whose output this one replaced."""

    number: int
    took: Mapping[str, frozenset[str]]  # by input
    replaces: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """Input of the next batch of a stage.

    files     by input, sorted
    replaces  own batches in whose place it comes
    fresh     numbers of the input batches that were never taken, by input
    more      inputs that have later batches waiting
    """

    files: dict[str, tuple[str, ...]]
    replaces: tuple[int, ...] = ()
    fresh: dict[str, tuple[int, ...]] = field(default_factory=dict)
    more: tuple[str, ...] = ()


def quick_step(moves: Mapping[str, Sequence[Batch]], max_batches: int | None = None) -> tuple[bool, Step | None]:
    """Return whether the batches after the processed ones determine the next step by themselves, and that step.

    They do while they only add files: then the thousands of batches before them need not be read."""
    if any(batch.supersedes for batches in moves.values() for batch in batches):
        return False, None
    waiting = {name: [batch for batch in batches if batch.files] for name, batches in moves.items()}
    if not any(waiting.values()):
        return True, None
    fresh = {name: batches[:max_batches] for name, batches in waiting.items()}
    more = tuple(name for name, found in fresh.items() if len(found) < len(waiting[name]))
    files = {name: tuple(sorted(path for batch in found for path in batch.files)) for name, found in fresh.items()}
    return True, Step(files, (), {name: tuple(batch.number for batch in found) for name, found in fresh.items()}, more)


def live_pasts(pasts: Iterable[Past]) -> dict[int, Past]:
    """Return the batches of a stage whose output is current."""
    live: dict[int, Past] = {}
    for past in pasts:
        live[past.number] = past
        for gone in past.replaces:
            live.pop(gone, None)
    return live


class Lineage:
    """Files of an input through supersedings and compactions.  live: final path -> number of its batch."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self.live: dict[str, int] = {}
        self._heirs: dict[str, tuple[str, ...]] = {}  # a file -> those that hold its rows since it was compacted
        self._parents: dict[str, tuple[str, ...]] = {}  # a compacted file -> those whose rows it may hold
        for batch in batches:
            for path in batch.supersedes:
                self.live.pop(path, None)
            self.live.update(dict.fromkeys(batch.files, batch.number))
            if batch.kind == COMPACT:
                self._compacted(batch)

    def _compacted(self, batch: Batch) -> None:
        """Record a compaction: the new files of a folder have the rows of its old files."""
        old, new = _by_folder(batch.supersedes), _by_folder(batch.files)
        for where in old.keys() & new.keys():
            self._heirs.update(dict.fromkeys(old[where], new[where]))
            self._parents.update(dict.fromkeys(new[where], old[where]))

    def intact(self, path: str) -> bool:
        """True if all its rows still exist, in it or in the files it was compacted to."""
        if path in self.live:
            return True
        return path in self._heirs and all(self.intact(heir) for heir in self._heirs[path])

    def covered(self, path: str, taken: frozenset[str]) -> bool:
        """True if it only has rows of files in `taken`."""
        if path in taken:
            return True
        return path in self._parents and all(self.covered(parent, taken) for parent in self._parents[path])

    def ancestors(self, path: str) -> set[str]:
        """Return the other files whose rows it may have."""
        found: set[str] = set()
        for parent in self._parents.get(path, ()):
            found |= {parent} | self.ancestors(parent)
        return found

    def waiting(self, taken: frozenset[str]) -> list[str]:
        """Return the live files that are not covered."""
        return [path for path in self.live if not self.covered(path, taken)]


def _by_folder(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    folders: dict[str, tuple[str, ...]] = {}
    for path in paths:
        where = path.rpartition("/")[0]
        folders[where] = (*folders.get(where, ()), path)
    return folders


def next_step(
    inputs: Mapping[str, Sequence[Batch]],
    pasts: Iterable[Past],
    again: bool = False,
    max_batches: int | None = None,
) -> Step | None:
    """Return the stage's next input; None if it is up to date.

    again         everything, in place of all that it has written
    max_batches  of each input, the oldest first; all that waits when batches are replaced, because a reader must not
                  see less than before
    """
    standing = live_pasts(pasts)
    lineages = {name: Lineage(batches) for name, batches in inputs.items()}
    spoilt = set(standing) if again else _spoilt(lineages, standing)
    kept = [past for number, past in standing.items() if number not in spoilt]
    waiting = {name: lineage.waiting(_taken(name, kept)) for name, lineage in lineages.items()}
    fresh = {name: _fresh(name, lineages[name], paths, standing.values()) for name, paths in waiting.items()}
    more: tuple[str, ...] = ()
    if max_batches is not None and not spoilt:
        more = tuple(name for name, numbers in fresh.items() if len(numbers) > max_batches)
        fresh = {name: numbers[:max_batches] for name, numbers in fresh.items()}
        waiting = {
            name: [path for path in paths if lineages[name].live[path] in fresh[name]]
            for name, paths in waiting.items()
        }
    if not spoilt and not any(waiting.values()):
        return None
    return Step({name: tuple(sorted(paths)) for name, paths in waiting.items()}, tuple(sorted(spoilt)), fresh, more)


def _spoilt(lineages: Mapping[str, Lineage], standing: Mapping[int, Past]) -> set[int]:
    """Return own batches whose output is outdated.

    A file that has to be read again for one of them may, after a compaction, hold rows of others: these are read again
    with it, and so on until nothing changes.
    """
    spoilt = {
        number
        for number, past in standing.items()
        if any(not lineage.intact(path) for name, lineage in lineages.items() for path in past.took.get(name, ()))
    }
    while True:
        kept = {number: past for number, past in standing.items() if number not in spoilt}
        mixed = _mixed(lineages, kept)
        if not mixed:
            return spoilt
        spoilt |= mixed


def _mixed(lineages: Mapping[str, Lineage], kept: Mapping[int, Past]) -> set[int]:
    """Return batches in `kept` whose rows were compacted into a file with rows that no kept batch has read."""
    found: set[int] = set()
    for name, lineage in lineages.items():
        for path in lineage.waiting(_taken(name, kept.values())):
            ancestors = lineage.ancestors(path)
            found |= {number for number, past in kept.items() if not ancestors.isdisjoint(past.took.get(name, ()))}
    return found


def _taken(name: str, pasts: Iterable[Past]) -> frozenset[str]:
    return frozenset[str]().union(*(past.took.get(name, frozenset()) for past in pasts))


def _fresh(name: str, lineage: Lineage, waiting: Iterable[str], standing: Iterable[Past]) -> tuple[int, ...]:
    """Return the numbers of the batches of `waiting` files, without those processed before."""
    ever = _taken(name, standing)
    return tuple(sorted({lineage.live[path] for path in waiting if path not in ever}))
