"""JSON lines as a format of data files: one object per row, in UTF-8, without the columns that are null.

    json        key, value                         base64 of the bytes
    json-text   key, value                         the bytes as text, where they are UTF-8
                keyBase64, valueBase64 instead     base64 of the bytes, where they are not

Either gives back exactly the bytes that were loaded.  headers is an array whose values are base64 in both.

A line tells no types: reading takes a schema.  There is no footer, so the offsets of all lines are read: by Spark, with
another parser than the one that reads rows, or line by line here without a session.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from sparkpipeline.errors import Mismatch
from sparkpipeline.ledger.footers import Footer, read_each, torn
from sparkpipeline.ledger.local import local_path

TITLE = "JSON lines"
BYTES = ("key", "value")
IN_BASE64 = {name: f"{name}Base64" for name in BYTES}


@dataclass(frozen=True, slots=True)
class JsonLinesFormat:
    """JSON lines by Spark.  text: key and value are text where they can be."""

    name: str
    text: bool

    @property
    def codecs(self) -> Mapping[str, str]:
        """Return codecs that any reader of JSON lines supports: Hadoop has its own framing of snappy and lz4."""
        return {"gzip": "gzip", "none": "none"}

    def laid_out(self, rows: Any) -> Any:
        from pyspark.sql import functions as F

        if not self.text:
            return rows
        utf8 = {name: F.is_valid_utf8(F.col(name).cast("string")) for name in BYTES}
        base64 = {IN_BASE64[name]: F.when(~utf8[name], F.col(name)) for name in BYTES}
        texts = {name: F.when(utf8[name], F.col(name).cast("string")) for name in BYTES}
        return rows.withColumns(base64).withColumns(texts)

    def write(self, writer: Any, path: str) -> None:
        writer.json(path)

    def read(self, reader: Any, paths: Iterable[str], schema: Any = None) -> Any:
        from pyspark.sql import functions as F
        from pyspark.sql import types as T

        if schema is None:
            raise ValueError("a line of JSON tells no types: reading takes a schema")
        texts = [name for name in BYTES if self.text and name in schema.names]
        fields = [T.StructField(f.name, T.StringType()) if f.name in texts else f for f in schema.fields]
        fields += [T.StructField(IN_BASE64[name], T.BinaryType()) for name in texts]
        found = reader.schema(T.StructType(fields)).json(list(paths))
        joined = {name: F.coalesce(F.col(name).cast("binary"), F.col(IN_BASE64[name])) for name in texts}
        return found.withColumns(joined).drop(*(IN_BASE64[name] for name in texts)) if texts else found

    def read_footers(self, paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, Footer | Mismatch]:
        listed = list(paths)
        if spark is None:
            return read_each(listed, _footer_local)
        return _footers_by_spark(listed, spark) if listed else {}


JSON = JsonLinesFormat("json", text=False)
JSON_TEXT = JsonLinesFormat("json-text", text=True)


def _footer_local(path: str) -> Footer:
    try:
        offsets = list(_bounds(path))
    except (OSError, EOFError, ValueError, KeyError, TypeError) as exc:
        raise torn(path, TITLE, exc) from exc
    rows = sum(count for count, _, _ in offsets)
    return Footer.of(rows, [(first, last) for _, first, last in offsets])


def _bounds(path: str, lines_at_once: int = 10_000) -> Iterator[tuple[int, int, int]]:
    """Yield lines, smallest and largest offset of consecutive stretches of the file."""
    where = local_path(path)
    with gzip.open(where, "rb") if path.endswith(".gz") else where.open("rb") as lines:
        offsets: list[int] = []
        for line in lines:
            if not line.endswith(b"\n"):
                raise ValueError(f"its last line is cut short after {len(line)} bytes")
            offsets.append(_whole_number(json.loads(line)["offset"]))
            if len(offsets) == lines_at_once:
                yield len(offsets), min(offsets), max(offsets)
                offsets = []
        if offsets:
            yield len(offsets), min(offsets), max(offsets)


def _whole_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"a line whose offset is {value!r}")
    return value


def _footers_by_spark(paths: list[str], spark: Any) -> dict[str, Footer | Mismatch]:
    """Read the footers of all files in one job; if it fails, read them one by one to find the bad file."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return _counted(paths, spark)
    except (Py4JJavaError, PySparkException) as exc:
        if len(paths) == 1:
            return {paths[0]: torn(paths[0], TITLE, exc)}
    return {path: found for one in paths for path, found in _footers_by_spark([one], spark).items()}


def _counted(paths: list[str], spark: Any) -> dict[str, Footer | Mismatch]:
    from pyspark.sql import functions as F

    offset = F.get_json_object("value", "$.offset").try_cast("bigint")
    rows = (
        spark.read.text(paths)
        .withColumns({"path": F.col("_metadata.file_path"), "offset": offset})
        .groupBy("path")
        .agg(
            F.count(F.lit(1)).alias("rows"), F.count("offset").alias("offsets"),
            F.min("offset").alias("first"), F.max("offset").alias("last"),
        )
        .collect()
    )  # fmt: skip
    by_place = {_place(unquote(row["path"])): row for row in rows}
    found: dict[str, Footer | Mismatch] = {}
    for path in paths:
        row = by_place.get(_place(path))
        if row is None:
            found[path] = Footer(0)
        elif row["offsets"] < row["rows"]:
            bad = row["rows"] - row["offsets"]
            found[path] = Mismatch(f"is not a complete {TITLE} file: {bad} of its lines have no offset", file=path)
        else:
            found[path] = Footer(row["rows"], row["first"], row["last"])
    return found


def _place(path: str) -> str:
    """Return a path in one spelling for Spark and ledgers: file:///a and file:/a are the same."""
    scheme, colon, rest = path.partition(":")
    return f"{scheme}:/{rest.lstrip('/')}" if colon and scheme == "file" else path
