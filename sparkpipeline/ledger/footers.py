"""The ends of Parquet files: how many rows they say they have, and whatever else a reader wants of their metadata.

pyarrow reads them where files are local; the JVM that Spark runs in does elsewhere, by the same Hadoop that wrote them.

    each(paths, spark, local, Ends(rows_here, rows_there))     path -> int, or the Mismatch that is wrong with it
    row_counts(paths, spark, local)                            path -> int
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sparkpipeline.errors import Mismatch
from sparkpipeline.ledger.local import local_path

AT_ONCE = 8
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ends(Generic[T]):
    """What is wanted of a file's end.  here: of pyarrow's FileMetaData; there: of Hadoop's open ParquetFileReader."""

    here: Callable[[Any], T]
    there: Callable[[Any], T]


ROWS = Ends(lambda metadata: int(metadata.num_rows), lambda reader: int(reader.getRecordCount()))


def each(paths: Iterable[str], spark: Any | None, local: bool, wanted: Ends[T]) -> dict[str, T | Mismatch]:
    """By path; what is no whole Parquet file has a Mismatch in its place.  local: they are of this machine's file
    system."""

    def look(path: str) -> T | Mismatch:
        try:
            return wanted.here(_metadata(path)) if local else _there(path, spark, wanted.there)
        except Mismatch as torn:
            return torn

    listed = list(paths)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(listed, pool.map(look, listed), strict=True))


def all_of(found: dict[str, T | Mismatch]) -> dict[str, T]:
    """The same when every file is whole; raises the first Mismatch."""
    good: dict[str, T] = {}
    for path, one in found.items():
        if isinstance(one, Mismatch):
            raise one
        good[path] = one
    return good


def row_counts(paths: Sequence[str], spark: Any, local: bool) -> dict[str, int]:
    """By path.  Raises Mismatch for what is no whole Parquet file."""
    return all_of(each(paths, spark, local, ROWS))


def _metadata(path: str) -> Any:
    from pyarrow import parquet

    try:
        return parquet.read_metadata(local_path(path))
    except Exception as exc:  # pyarrow raises its own and OSError for a torn file
        raise _torn(path, exc) from exc


def _there(path: str, spark: Any, wanted: Callable[[Any], T]) -> T:
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


def _torn(path: str, exc: Exception) -> Mismatch:
    said = (str(exc).strip() or type(exc).__name__).splitlines()[0]
    return Mismatch(f"is no whole Parquet file: {said}", file=path)
