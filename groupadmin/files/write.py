"""Writing of an offsets file.

    json        all known data (ours.py)
    csv         as printed by kafka-consumer-groups --export from 2.2 on, byte for byte with its empty line at the end;
                --from-file reads it (from 0.11 to 2.1 only if no name is quoted)
    zk-export   as written by ExportZkOffsets and read by ImportZkOffsets

Only json can express "none": the others leave out rows without an offset (`unsayable` lists them).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from groupadmin.files.model import OffsetsFile, SavedRow, WrittenKind
from groupadmin.files.ours import write_ours
from zkconsumer.errors import ConsumerError

QUOTED_FROM = 25  # characters of UTF-16: the JVM's CSV writer quotes such values without checking them
_QUOTED = re.compile(r"[\x00-,\\]")  # characters for which it quotes shorter values
_COLON = "ImportZkOffsets cuts its lines at each colon; use json"


def write_offsets(file: OffsetsFile, kind: WrittenKind) -> str:
    """The text of a file in this kind, rows in their order.

    Raises ConsumerError when the kind cannot express a row: csv needs a group in all rows or in none, and numbered
    partitions; ImportZkOffsets would cut some names.  ValueError for another kind, a repeated partition of a group, or
    a negative offset.
    """
    _check(file.rows)
    if kind == "json":
        return write_ours(file)
    rows = [row for row in file.rows if row.position is not None]
    if kind == "csv":
        return _csv(rows)
    if kind == "zk-export":
        return "".join(map(_export, rows))
    raise ValueError(f"offsets files are written as json, csv or zk-export, not as {kind!r}")


def unsayable(file: OffsetsFile, kind: WrittenKind) -> list[SavedRow]:
    """The rows that a file of this kind leaves out: those without an offset, except for json."""
    return [] if kind == "json" else [row for row in file.rows if row.position is None]


def _check(rows: Sequence[SavedRow]) -> None:
    if len({(row.group, row.topic, row.partition) for row in rows}) != len(rows):
        raise ValueError("the rows have a partition of a group twice")
    wrong = next((row for row in rows if row.position is not None and row.position < 0), None)
    if wrong is not None:
        raise ValueError(f"{wrong.tp} has the position {wrong.position}; none is None")


def _csv(rows: Sequence[SavedRow]) -> str:
    """CSV as of kafka-consumer-groups: with a group column when there are several, and an empty line at the end."""
    groups = {row.group for row in rows}
    if None in groups and len(groups) > 1:
        raise ConsumerError("rows of groups and rows of none cannot stand in one CSV; use json")
    for row in rows:
        if not isinstance(row.partition, int):
            raise ConsumerError(f"{row.tp}: kafka-consumer-groups knows no partitions of 0.7; use zk-export or json")
    several = len(groups) > 1
    quoted = {name: _quoted(name) for name in {row.topic for row in rows} | {group for group in groups if group}}
    lines = [
        f"{quoted[row.group or ''] + ',' if several else ''}{quoted[row.topic]},{row.partition},{row.position}\n"
        for row in rows
    ]
    return "".join(lines) + "\n"


def _quoted(value: str) -> str:
    """A value as quoted by the JVM's CSV writer (jackson-dataformat-csv)."""
    if len(value.encode("utf-16-le", "surrogatepass")) // 2 < QUOTED_FROM and not _QUOTED.search(value):
        return value
    return '"' + value.replace('"', '""') + '"'


def _export(row: SavedRow) -> str:
    if row.group is None:
        raise ConsumerError(f"{row.tp}: ExportZkOffsets names a group in each line, and this row has none; use csv")
    for name in (row.group, row.topic):
        if ":" in name or "/" in name or "\n" in name or "\r" in name:
            raise ConsumerError(f"{row.tp} of group {row.group!r}: {name!r} cannot stand in such a line: {_COLON}")
    return f"/consumers/{row.group}/offsets/{row.topic}/{row.partition}:{row.position}\n"
