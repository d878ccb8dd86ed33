"""How many rows Parquet files say they have, at their end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sparkpipeline.errors import Mismatch
from sparkpipeline.ledger.local import local_path

AT_ONCE = 8


def row_counts(paths: Sequence[str], spark: Any, local: bool) -> dict[str, int]:
    """By path.  local: they are of this machine's file system, and pyarrow reads them; else the JVM that Spark runs
    in.  Raises Mismatch for what is no whole Parquet file."""
    read: Callable[[str], int] = _local if local else lambda path: _hadoop(path, spark)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(paths, pool.map(read, paths), strict=True))


def _local(path: str) -> int:
    from pyarrow import parquet

    try:
        return int(parquet.read_metadata(local_path(path)).num_rows)
    except Exception as exc:  # pyarrow raises its own and OSError for a torn file
        raise _torn(path, exc) from exc


def _hadoop(path: str, spark: Any) -> int:
    jvm = spark._jvm
    try:
        where = jvm.org.apache.hadoop.fs.Path(path)
        file = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(where, spark._jsc.hadoopConfiguration())
        reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(file)
        try:
            return int(reader.getRecordCount())
        finally:
            reader.close()
    except Exception as exc:  # Py4JJavaError
        raise _torn(path, exc) from exc


def _torn(path: str, exc: Exception) -> Mismatch:
    said = (str(exc).strip() or type(exc).__name__).splitlines()[0]
    return Mismatch(f"is no whole Parquet file: {said}", file=path)
