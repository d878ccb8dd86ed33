"""ORC as a format of data files.

Where files are local pyarrow reads the whole column `offset`, since it does not show the statistics of a footer;
elsewhere the JVM that Spark runs in reads the footer, by the same Hadoop that wrote the file.

Two things that ORC does to timestamps, and what is done about them:

    it loses the sign of one less than a second before 1970   -1 ms, Kafka's "none", is null in files
    it keeps the wall clock of the JVM's time zone, and a     a load is refused where the driver's zone is not UTC
    JVM in another zone reads another moment                  (load/outputformat.py)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sparkpipeline.errors import Mismatch
from sparkpipeline.ledger.footers import Footer, read_each, torn
from sparkpipeline.ledger.local import local_path
from sparkpipeline.ledger.schemas import of_files

TITLE = "ORC"
NO_TIME_MS = -1


class OrcFormat:
    """ORC by Spark; rows and offsets by pyarrow or Hadoop."""

    name = "orc"
    codecs: Mapping[str, str] = {"snappy": "snappy", "gzip": "zlib", "zstd": "zstd", "lz4": "lz4", "none": "none"}

    def laid_out(self, rows: Any) -> Any:
        from pyspark.sql import functions as F

        sent = F.col("timestamp")
        return rows.withColumn("timestamp", F.when(F.unix_millis(sent) != NO_TIME_MS, sent))

    def write(self, writer: Any, path: str) -> None:
        writer.orc(path)

    def read(self, reader: Any, paths: Iterable[str], schema: Any = None) -> Any:
        from pyspark.sql import functions as F

        listed = list(paths)
        told = schema if schema is not None else of_files(reader.option("mergeSchema", True).orc(listed))
        found = reader.schema(told).orc(listed)
        if "timestamp" not in found.columns:
            return found
        return found.withColumn("timestamp", F.coalesce("timestamp", F.timestamp_millis(F.lit(NO_TIME_MS))))

    def read_footers(self, paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, Footer | Mismatch]:
        return read_each(paths, _footer_local if local else lambda path: _footer_hadoop(path, spark))


ORC = OrcFormat()


def _footer_local(path: str) -> Footer:
    from pyarrow import compute, orc

    try:
        file = orc.ORCFile(str(local_path(path)))
        bounds = compute.min_max(file.read(columns=["offset"]).column(0)).as_py()
        rows = int(file.nrows)
    except Exception as exc:  # pyarrow raises its own and OSError for a torn file
        raise torn(path, TITLE, exc) from exc
    return Footer.of(rows, [] if bounds["min"] is None else [(bounds["min"], bounds["max"])])


def _footer_hadoop(path: str, spark: Any) -> Footer:
    jvm = spark._jvm
    try:
        where, conf = jvm.org.apache.hadoop.fs.Path(path), spark._jsc.hadoopConfiguration()
        reader = jvm.org.apache.orc.OrcFile.createReader(where, jvm.org.apache.orc.OrcFile.readerOptions(conf))
    except Exception as exc:  # Py4JJavaError
        raise torn(path, TITLE, exc) from exc
    try:
        schema = reader.getSchema()
        column = schema.getChildren()[list(schema.getFieldNames()).index("offset")].getId()
        found = reader.getStatistics()[column]
        rows = int(reader.getNumberOfRows())
        known = found.getNumberOfValues() > 0
        return Footer.of(rows, [(int(found.getMinimum()), int(found.getMaximum()))] if known else [])
    finally:
        reader.close()
