"""Mode `partition`: finds the partitions of a stage's output that have to be computed again.  Pure: names of folders.

A partition is a set of folders, `date=2026-01-31/hour=08`, named by the stage's partition columns.  One that no batch
touched since the stage last looked is left alone; one that was touched is computed again from all live files of the
inputs in it, and takes the place of what the stage wrote for it before.  With no columns there is one partition:
everything.  Compaction touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sparkpipeline.paths import folders
from sparkpipeline.stages.batchmode import COMPACT, Batch

Partition = tuple[str, ...]  # the folders' values, as they are spelled, in the order of the columns


@dataclass(frozen=True, slots=True)
class Recompute:
    """Recomputation. partitions, sorted; files: their source files, by input; supersedes: the stage's own files in
    them."""

    partitions: tuple[Partition, ...]
    files: dict[str, tuple[str, ...]]
    supersedes: tuple[str, ...]
    fresh: dict[str, tuple[int, ...]] = field(default_factory=dict)


def partition_of(path: str, columns: Sequence[str]) -> Partition | None:
    """Return the partition of a file; None if its folders do not have the columns (columns are matched without case, as
    in SQL)."""
    values = {column.lower(): value for column, value in folders(path).items()}
    found = [values.get(column.lower()) for column in columns]
    return None if None in found else tuple(value for value in found if value is not None)


def shown(partition: Partition, columns: Sequence[str]) -> str:
    """Return date=2026-01-31/hour=08 for a partition."""
    return "/".join(f"{column}={value}" for column, value in zip(columns, partition, strict=True)) or "everything"


def stranger(paths: Iterable[str], columns: Sequence[str]) -> str | None:
    """Return the first file whose folders do not have the columns."""
    return next((path for path in paths if partition_of(path, columns) is None), None)


def next_recompute(
    moves: Mapping[str, Sequence[Batch]],
    live: Mapping[str, Iterable[str]],
    columns: Sequence[str],
    *,
    own: Iterable[str],
    again: bool = False,
) -> Recompute | None:
    """Return what to compute now; None if nothing was touched.  Every file has the columns as folders: see stranger().

    moves  the batches of each input that the stage has not looked at
    live   the files of each input that stand now
    own    the stage's live files
    again  all partitions that the inputs have or the stage has written
    """
    own = list(own)
    live = {name: sorted(paths) for name, paths in live.items()}
    touched = {partition for batches in moves.values() for partition in _touched(batches, columns)}
    if again:
        every = [*own, *(path for paths in live.values() for path in paths)]
        touched |= {found for path in every if (found := partition_of(path, columns)) is not None}
    if not touched and not (again and own):
        return None
    return Recompute(
        partitions=tuple(sorted(touched)),
        files={name: tuple(p for p in paths if partition_of(p, columns) in touched) for name, paths in live.items()},
        supersedes=tuple(sorted(path for path in own if again or partition_of(path, columns) in touched)),
        fresh={name: tuple(b.number for b in batches if b.kind != COMPACT) for name, batches in moves.items()},
    )


def _touched(batches: Iterable[Batch], columns: Sequence[str]) -> set[Partition]:
    found = set()
    for batch in batches:
        if batch.kind != COMPACT:
            found |= {partition_of(path, columns) for path in (*batch.files, *batch.supersedes)}
    return {partition for partition in found if partition is not None}
