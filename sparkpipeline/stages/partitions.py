"""Mode `partition`: which partitions of a stage's output have to be computed again.  Pure: names of folders.

A partition is a set of folders, `date=2026-01-31/hour=08`, told apart by the stage's partition columns.  One that no
batch touched since the stage last looked is left alone; one that was touched is computed again from all live files of
the inputs in it, and takes the place of what the stage wrote for it before.  With no columns there is one partition:
everything.  Compaction touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sparkpipeline.stages.consuming import COMPACT, Batch

Partition = tuple[str, ...]  # the folders' values, as they are spelled, in the order of the columns


@dataclass(frozen=True, slots=True)
class Recompute:
    """partitions, sorted; files: those that they are computed from, by input; supersedes: the stage's own of them."""

    partitions: tuple[Partition, ...]
    files: dict[str, tuple[str, ...]]
    supersedes: tuple[str, ...]
    fresh: dict[str, tuple[int, ...]] = field(default_factory=dict)


def folders(path: str) -> dict[str, str]:
    """Column -> value, as spelled, of the folders `column=value` above a file."""
    pairs = (part.partition("=") for part in path.split("/")[:-1])
    return {column: value for column, equals, value in pairs if equals}


def partition_of(path: str, columns: Sequence[str]) -> Partition | None:
    """Where a file belongs; None when its folders do not say (columns are matched without case, as in SQL)."""
    values = {column.lower(): value for column, value in folders(path).items()}
    found = [values.get(column.lower()) for column in columns]
    return None if None in found else tuple(value for value in found if value is not None)


def shown(partition: Partition, columns: Sequence[str]) -> str:
    """date=2026-01-31/hour=08"""
    return "/".join(f"{column}={value}" for column, value in zip(columns, partition, strict=True)) or "everything"


def strangers(inputs: Mapping[str, Sequence[Batch]], columns: Sequence[str]) -> list[tuple[str, str]]:
    """Input and file of the first file of each input whose folders do not have the columns."""
    found = []
    for name, batches in inputs.items():
        paths = (path for batch in batches for path in batch.files)
        first = next((path for path in paths if partition_of(path, columns) is None), None)
        if first is not None:
            found.append((name, first))
    return found


def next_recompute(
    inputs: Mapping[str, Sequence[Batch]],
    seen: Mapping[str, int],
    columns: Sequence[str],
    own: Iterable[str],
    again: bool = False,
) -> Recompute | None:
    """What to compute now; None when nothing was touched.  inputs without strangers().

    seen   the newest batch of each input that the stage has looked at (0 or missing: none)
    own    the stage's live files
    again  all partitions that the inputs have or the stage has written
    """
    own = list(own)
    live = {name: _live(batches) for name, batches in inputs.items()}
    touched = {
        partition
        for name, batches in inputs.items()
        for partition in _touched(batches, 0 if again else seen.get(name, 0), columns)
    }
    if again:
        touched |= {found for path in own if (found := partition_of(path, columns)) is not None}
    elif not touched:
        return None
    supersedes = own if again else [path for path in own if partition_of(path, columns) in touched]
    files = {name: tuple(p for p in paths if partition_of(p, columns) in touched) for name, paths in live.items()}
    fresh = {
        name: tuple(b.number for b in batches if b.number > seen.get(name, 0) and b.kind != COMPACT)
        for name, batches in inputs.items()
    }
    return Recompute(tuple(sorted(touched)), files, tuple(sorted(supersedes)), fresh)


def _live(batches: Iterable[Batch]) -> list[str]:
    live: dict[str, None] = {}
    for batch in batches:
        for path in batch.supersedes:
            live.pop(path, None)
        live.update(dict.fromkeys(batch.files))
    return sorted(live)


def _touched(batches: Iterable[Batch], after: int, columns: Sequence[str]) -> set[Partition]:
    found = set()
    for batch in batches:
        if batch.number > after and batch.kind != COMPACT:
            found |= {partition_of(path, columns) for path in (*batch.files, *batch.supersedes)}
    return {partition for partition in found if partition is not None}
