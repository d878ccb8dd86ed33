"""Parquet, the default format of data files.

pyarrow reads footers where files are local; elsewhere the JVM that Spark runs in does, by the same Hadoop that wrote
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from sparkpipeline.errors import Mismatch
from sparkpipeline.ledger.footers import Footer, read_each, torn, whole
from sparkpipeline.ledger.local import local_path
from sparkpipeline.ledger.schemas import of_files

TITLE = "Parquet"
T = TypeVar("T")


class ParquetFormat:
    """Parquet by Spark; footers by pyarrow or Hadoop."""

    name = "parquet"
    codecs: Mapping[str, str] = {name: name for name in ("snappy", "gzip", "zstd", "lz4", "none")}

    def laid_out(self, rows: Any) -> Any:
        return rows

    def write(self, writer: Any, path: str) -> None:
        writer.parquet(path)

    def read(self, reader: Any, paths: Iterable[str], schema: Any = None) -> Any:
        listed = list(paths)
        told = schema if schema is not None else of_files(reader.option("mergeSchema", True).parquet(*listed))
        return reader.schema(told).parquet(*listed)

    def read_footers(self, paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, Footer | Mismatch]:
        return _each(paths, spark, local, of_pyarrow=_footer_local, of_hadoop=_footer_hadoop)


PARQUET = ParquetFormat()


def row_counts(paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, int]:
    """Return the rows of Parquet files, which need not have offsets, by path.  Raises Mismatch."""
    return whole(_each(paths, spark, local, of_pyarrow=_rows_local, of_hadoop=_rows_hadoop))


def _each(
    paths: Iterable[str],
    spark: Any | None,
    local: bool,
    *,
    of_pyarrow: Callable[[Any], T],
    of_hadoop: Callable[[Any], T],
) -> dict[str, T | Mismatch]:
    """Read each footer. of_pyarrow: gets a FileMetaData; of_hadoop: gets Hadoop's open ParquetFileReader."""

    def read(path: str) -> T:
        return of_pyarrow(_metadata(path)) if local else _by_hadoop(path, spark, of_hadoop)

    return read_each(paths, read)


# ---- pyarrow ---------------------------------------------------------------------------------------------------------


def _metadata(path: str) -> Any:
    from pyarrow import parquet

    try:
        return parquet.read_metadata(local_path(path))
    except Exception as exc:  # pyarrow raises its own and OSError for a torn file
        raise torn(path, TITLE, exc) from exc


def _rows_local(metadata: Any) -> int:
    return int(metadata.num_rows)


def _footer_local(metadata: Any) -> Footer:
    column = metadata.schema.names.index("offset")
    bounds = [metadata.row_group(n).column(column).statistics for n in range(metadata.num_row_groups)]
    return Footer.of(metadata.num_rows, [(one.min, one.max) for one in bounds if one is not None and one.has_min_max])


# ---- Hadoop ----------------------------------------------------------------------------------------------------------


def _by_hadoop(path: str, spark: Any, wanted: Callable[[Any], T]) -> T:
    jvm = spark._jvm
    try:
        where = jvm.org.apache.hadoop.fs.Path(path)
        file = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(where, spark._jsc.hadoopConfiguration())
        reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(file)
    except Exception as exc:  # Py4JJavaError
        raise torn(path, TITLE, exc) from exc
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
    return Footer.of(rows, [(one.genericGetMin(), one.genericGetMax()) for one in bounds])


def _offsets(block: Any) -> Any:
    return next(column.getStatistics() for column in block.getColumns() if column.getPath().toDotString() == "offset")
