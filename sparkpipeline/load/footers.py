"""What Parquet files say of themselves at their end: rows, and the smallest and largest offset.

pyarrow reads them where files are local; the JVM that Spark runs in does elsewhere, by the same Hadoop that wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sparkpipeline.errors import Mismatch
from sparkpipeline.ledger.local import local_path

AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Footer:
    """first and last: None in a file without rows."""

    rows: int
    first: int | None
    last: int | None


def footers(paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, Footer]:
    """By path.  local: paths are of this machine's file system.  Raises Mismatch for what is no Parquet file."""
    found: dict[str, Footer] = {}
    for path, footer in looked_at(paths, spark, local).items():
        if isinstance(footer, Mismatch):
            raise footer
        found[path] = footer
    return found


def looked_at(paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, Footer | Mismatch]:
    """The same, with what is wrong with a file in place of its footer."""

    def look(path: str) -> Footer | Mismatch:
        try:
            return _local(path) if local else _hadoop(path, spark)
        except Mismatch as torn:
            return torn

    wanted = list(paths)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(wanted, pool.map(look, wanted), strict=True))


def _local(path: str) -> Footer:
    import pyarrow.parquet as parquet

    try:
        metadata = parquet.read_metadata(local_path(path))
    except Exception as exc:  # pyarrow raises its own and OSError for a torn file
        raise _torn(path, exc) from exc
    column = metadata.schema.names.index("offset")
    bounds = [metadata.row_group(n).column(column).statistics for n in range(metadata.num_row_groups)]
    known = [one for one in bounds if one is not None and one.has_min_max]
    if not known:
        return Footer(metadata.num_rows, None, None)
    return Footer(metadata.num_rows, min(one.min for one in known), max(one.max for one in known))


def _hadoop(path: str, spark: Any) -> Footer:
    jvm = spark._jvm
    try:
        file = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(
            jvm.org.apache.hadoop.fs.Path(path), spark._jsc.hadoopConfiguration()
        )
        reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(file)
    except Exception as exc:  # Py4JJavaError
        raise _torn(path, exc) from exc
    try:
        blocks = reader.getFooter().getBlocks()
        known = [
            (statistics.genericGetMin(), statistics.genericGetMax())
            for block in blocks
            for statistics in (_offsets(block),)
            if statistics.hasNonNullValue()
        ]
        rows = sum(block.getRowCount() for block in blocks)
    finally:
        reader.close()
    if not known:
        return Footer(rows, None, None)
    return Footer(rows, min(first for first, _ in known), max(last for _, last in known))


def _offsets(block: Any) -> Any:
    return next(column.getStatistics() for column in block.getColumns() if column.getPath().toDotString() == "offset")


def _torn(path: str, exc: Exception) -> Mismatch:
    said = (str(exc).strip() or type(exc).__name__).splitlines()[0]
    return Mismatch(f"is no whole Parquet file: {said}", file=path)
