"""What the files of a load say of themselves at their end: rows, and the smallest and largest offset."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sparkpipeline.errors import Mismatch
from sparkpipeline.ledger.footers import Ends, all_of, each


@dataclass(frozen=True, slots=True)
class Footer:
    """first and last: None in a file without rows."""

    rows: int
    first: int | None
    last: int | None


def footers(paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, Footer]:
    """By path.  local: paths are of this machine's file system.  Raises Mismatch for what is no Parquet file."""
    return all_of(looked_at(paths, spark, local))


def looked_at(paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, Footer | Mismatch]:
    """The same, with what is wrong with a file in place of its footer."""
    return each(paths, spark, local, Ends(_here, _there))


def _here(metadata: Any) -> Footer:
    column = metadata.schema.names.index("offset")
    bounds = [metadata.row_group(n).column(column).statistics for n in range(metadata.num_row_groups)]
    return _footer(metadata.num_rows, [(one.min, one.max) for one in bounds if one is not None and one.has_min_max])


def _there(reader: Any) -> Footer:
    blocks = reader.getFooter().getBlocks()
    bounds = [statistics for block in blocks for statistics in (_offsets(block),) if statistics.hasNonNullValue()]
    rows = sum(block.getRowCount() for block in blocks)
    return _footer(rows, [(one.genericGetMin(), one.genericGetMax()) for one in bounds])


def _footer(rows: int, bounds: list[tuple[int, int]]) -> Footer:
    if not bounds:
        return Footer(rows, None, None)
    return Footer(rows, min(first for first, _ in bounds), max(last for _, last in bounds))


def _offsets(block: Any) -> Any:
    return next(column.getStatistics() for column in block.getColumns() if column.getPath().toDotString() == "offset")
