"""Formats of data files, and the choice among them.

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
    """Format of files with rows: writing, reading and counting."""

    @property
    def name(self) -> str:
        """Return the name stored in ledgers."""
        ...

    @property
    def codecs(self) -> Mapping[str, str]:
        """Return values of the option `compression` -> codec of Spark's writer; the first one is the default."""
        ...

    def laid_out(self, rows: Any) -> Any:
        """Return the rows with the columns of files of the format; columns key and value are bytes."""
        ...

    def write(self, writer: Any, path: str) -> None:
        """Write a frame (its DataFrameWriter) below a path.  Raises what Spark raises."""
        ...

    def read(self, reader: Any, paths: Iterable[str], schema: Any = None) -> Any:
        """Return a frame of the files at or below these paths: the other way from laid_out.

        reader: spark.read, with its options; schema: a StructType of the columns wanted, None: all that the files tell
        of.  Raises what Spark raises."""
        ...

    def read_footers(self, paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, Footer | Mismatch]:
        """Return footers by path, or a Mismatch for a file that is not complete.  local: paths are of this machine's
        file system; spark: needed where they are not."""
        ...


FORMATS: Mapping[str, FileFormat] = {one.name: one for one in (PARQUET, ORC, JSON, JSON_TEXT)}
_BY_ENDING: Mapping[str, FileFormat] = {".parquet": PARQUET, ".orc": ORC, ".json": JSON, ".json.gz": JSON}


def of_facts(facts: Mapping[str, Any]) -> FileFormat:
    """Return the format of a load's files, by the facts of its newest manifest: Parquet if they have none, as in
    earlier releases.  Raises LedgerDamaged for an unknown one."""
    output = facts.get("output", {})
    name = output.get("format", PARQUET.name) if isinstance(output, Mapping) else output
    if not isinstance(name, str) or name not in FORMATS:
        raise LedgerDamaged(f"files are of format {name!r}, and this version knows {', '.join(FORMATS)}")
    return FORMATS[name]


def by_ending(path: str) -> FileFormat:
    """Return the format of a file by its name.  The two JSON lines formats count as one, because their footers are
    equal. Raises Mismatch."""
    for ending, found in _BY_ENDING.items():
        if path.endswith(ending):
            return found
    raise Mismatch(f"its name has none of the endings {', '.join(_BY_ENDING)}", file=path)


def footers(fmt: FileFormat, paths: Iterable[str], spark: Any | None, local: bool) -> dict[str, Footer]:
    """Return footers by path.  Raises the first Mismatch."""
    return whole(fmt.read_footers(paths, spark, local))
