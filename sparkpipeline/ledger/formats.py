"""Formats of data files: the one place that chooses among them.

    name        files                    key and value                        codecs
    parquet     .snappy.parquet          bytes                                snappy, gzip, zstd, lz4, none
    orc         .snappy.orc              bytes                                snappy, gzip, zstd, lz4, none
    json        .json.gz, .json          text: base64 of the bytes            gzip, none
    json-text   .json.gz, .json          text where the bytes are UTF-8       gzip, none

Spark writes and reads all of them.  A format is a module with a class and its instances; what differs between formats
is behind FileFormat, and no other code asks which one it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from sparkpipeline.errors import LedgerDamaged, Mismatch
from sparkpipeline.ledger.footers import Footer, whole
from sparkpipeline.ledger.jsonlines import JSON, JSON_TEXT
from sparkpipeline.ledger.orc import ORC
from sparkpipeline.ledger.parquet import PARQUET


class FileFormat(Protocol):
    """How files with rows are written, read and counted."""

    @property
    def name(self) -> str:
        """As ledgers remember it."""
        ...

    @property
    def codecs(self) -> Mapping[str, str]:
        """Value of the option `compression` -> what Spark's writer calls it; the first one is the default."""
        ...

    def laid_out(self, rows: Any) -> Any:
        """The rows with their columns as files of the format have them; columns key and value are bytes."""
        ...

    def write(self, writer: Any, path: str) -> None:
        """Write a frame (its DataFrameWriter) below a path.  Raises what Spark raises."""
        ...

    def read(self, reader: Any, paths: Iterable[str], schema: Any = None) -> Any:
        """A frame of the files at or below these paths: the other way from laid_out.

        reader: spark.read, with its options; schema: a StructType of the columns wanted, None: all that the files tell
        of.  Raises what Spark raises."""
        ...

    def read_footers(self, paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, Footer | Mismatch]:
        """By path; for what is no whole file of the format the Mismatch that says so.  local: paths are of this
        machine's file system; spark: needed where they are not."""
        ...


FORMATS: Mapping[str, FileFormat] = {one.name: one for one in (PARQUET, ORC, JSON, JSON_TEXT)}
_BY_ENDING: Mapping[str, FileFormat] = {".parquet": PARQUET, ".orc": ORC, ".json": JSON, ".json.gz": JSON}


def of_facts(facts: Mapping[str, Any]) -> FileFormat:
    """The format of a load's files, by the facts of its newest manifest: Parquet where they say nothing, as those of
    releases that knew no other.  Raises LedgerDamaged for one that is not known here."""
    output = facts.get("output", {})
    name = output.get("format", PARQUET.name) if isinstance(output, Mapping) else output
    if not isinstance(name, str) or name not in FORMATS:
        raise LedgerDamaged(f"files are of format {name!r}, and this version knows {', '.join(FORMATS)}")
    return FORMATS[name]


def by_ending(path: str) -> FileFormat:
    """The format of a file by its name.  The two of JSON lines are one here: their footers are.  Raises Mismatch."""
    for ending, found in _BY_ENDING.items():
        if path.endswith(ending):
            return found
    raise Mismatch(f"its name has none of the endings {', '.join(_BY_ENDING)}", file=path)


def footers(fmt: FileFormat, paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, Footer]:
    """As fmt.read_footers.  Raises the first Mismatch."""
    return whole(fmt.read_footers(paths, spark, local))
