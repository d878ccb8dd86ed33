"""Parquet, the format of files with rows: written and read by Spark, and what their footers say.

    write, read     as Spark does
    footers         rows of each file, and between which offsets they lie
    row_counts      the same for files that need not have offsets

pyarrow reads footers where files are local; elsewhere the JVM that Spark runs in does, by the same Hadoop that wrote
them.  Another format would be another module with these functions; the ending of its files is in paths.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sparkpipeline.errors import Mismatch
from sparkpipeline.ledger.local import local_path

AT_ONCE = 8
T = TypeVar("T")


def write(writer: Any, path: str) -> None:
    """Write a frame (its DataFrameWriter) below a path.  Raises what Spark raises."""
    writer.parquet(path)


def read(reader: Any, paths: Iterable[str]) -> Any:
    """A frame of the files at or below these paths.  reader: spark.read, with its options."""
    return reader.parquet(*paths)


@dataclass(frozen=True, slots=True)
class Footer:
    """rows: of the file; first, last: bounds of its column `offset`, None in a file without rows."""

    rows: int
    first: int | None = None
    last: int | None = None


def footers(paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, Footer]:
    """By path.  local: paths are of this machine's file system.  Raises Mismatch for what is no whole Parquet file."""
    return _whole(read_footers(paths, spark, local))


def row_counts(paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, int]:
    """The rows of files that need not have offsets, by path.  Raises Mismatch."""
    return _whole(_each(paths, spark, local, FooterPart(_rows_local, _rows_hadoop)))


def read_footers(paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, Footer | Mismatch]:
    """By path; for what is no whole Parquet file the Mismatch that says so."""
    return _each(paths, spark, local, FooterPart(_footer_local, _footer_hadoop))


@dataclass(frozen=True, slots=True)
class FooterPart(Generic[T]):
    """What is wanted of a footer.  local: of pyarrow's FileMetaData; hadoop: of Hadoop's open ParquetFileReader."""

    local: Callable[[Any], T]
    hadoop: Callable[[Any], T]


def _each(paths: Iterable[str], spark: Any | None, local: bool, part: FooterPart[T]) -> dict[str, T | Mismatch]:
    def read(path: str) -> T | Mismatch:
        try:
            return part.local(_metadata(path)) if local else _by_hadoop(path, spark, part.hadoop)
        except Mismatch as torn:
            return torn

    listed = list(paths)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(listed, pool.map(read, listed), strict=True))


def _whole(found: Mapping[str, T | Mismatch]) -> dict[str, T]:
    """The same where every file is whole; raises the first Mismatch."""
    good: dict[str, T] = {}
    for path, one in found.items():
        if isinstance(one, Mismatch):
            raise one
        good[path] = one
    return good


# ---- pyarrow ---------------------------------------------------------------------------------------------------------


def _metadata(path: str) -> Any:
    from pyarrow import parquet

    try:
        return parquet.read_metadata(local_path(path))
    except Exception as exc:  # pyarrow raises its own and OSError for a torn file
        raise _torn(path, exc) from exc


def _rows_local(metadata: Any) -> int:
    return int(metadata.num_rows)


def _footer_local(metadata: Any) -> Footer:
    column = metadata.schema.names.index("offset")
    bounds = [metadata.row_group(n).column(column).statistics for n in range(metadata.num_row_groups)]
    return _footer(metadata.num_rows, [(one.min, one.max) for one in bounds if one is not None and one.has_min_max])


# ---- Hadoop ----------------------------------------------------------------------------------------------------------


def _by_hadoop(path: str, spark: Any, wanted: Callable[[Any], T]) -> T:
    jvm = spark._jvm
    try:
        where = jvm.org.apache.hadoop.fs.Path(path)
        file = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(where, spark._jsc.hadoopConfiguration())
        reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(file)
    except Exception as exc:  # Py4JJavaError
        raise _torn(path, exc) from exc
    try:
        return wanted(reader)
    finally:
        reader.close()


def _rows_hadoop(reader: Any) -> int:
    return int(reader.getRecordCount())


def _footer_hadoop(reader: Any) -> Footer:
    blocks = reader.getFooter().getBlocks()
    bounds = [statistics for block in blocks for statistics in (_offsets(block),) if statistics.hasNonNullValue()]
    rows = sum(block.getRowCount() for block in blocks)
    return _footer(rows, [(one.genericGetMin(), one.genericGetMax()) for one in bounds])


def _offsets(block: Any) -> Any:
    return next(column.getStatistics() for column in block.getColumns() if column.getPath().toDotString() == "offset")


def _footer(rows: int, bounds: list[tuple[int, int]]) -> Footer:
    if not bounds:
        return Footer(rows)
    return Footer(rows, min(first for first, _ in bounds), max(last for _, last in bounds))


def _torn(path: str, exc: Exception) -> Mismatch:
    said = (str(exc).strip() or type(exc).__name__).splitlines()[0]
    return Mismatch(f"is no whole Parquet file: {said}", file=path)
