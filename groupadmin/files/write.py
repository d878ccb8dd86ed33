"""Writing of an offsets file.

    json        all known data (ours.py)
    csv         as printed by kafka-consumer-groups --export from 2.2 on, byte for byte with its empty line at the end;
                --from-file reads it (from 0.11 to 2.1 only if no name is quoted)
    zk-export   as written by ExportZkOffsets and read by ImportZkOffsets, which cuts a line at each colon

Only json can express "none", and every name: the others leave rows out (`unsayable` lists them).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from groupadmin.files.model import OffsetsFile, SavedRow, WrittenKind
from groupadmin.files.ours import write_ours
from zkconsumer.errors import ConsumerError

QUOTED_FROM = 25  # characters of UTF-16: the JVM's CSV writer quotes such values without checking them
_QUOTED = re.compile(r"[\x00-,\\]")  # characters for which it quotes shorter values
_CUTS = frozenset(":/\n\r")  # ImportZkOffsets takes what is between two of them for another field, or line


def write_offsets(file: OffsetsFile, kind: WrittenKind) -> str:
    """Return the text of a file in this kind, rows in their order.

    Raises ConsumerError when the kind cannot express the rows: csv needs a group in all rows or in none, and numbered
    partitions; zk-export needs a group in each.  ValueError for another kind, a repeated partition of a group, or
    a negative offset.
    """
    _check(file.rows)
    if kind == "json":
        return write_ours(file)
    left_out = {(row.group, row.tp) for row in unsayable(file, kind)}
    rows = [row for row in file.rows if (row.group, row.tp) not in left_out]
    if kind == "csv":
        return _csv(rows)
    if kind == "zk-export":
        return "".join(map(_export, rows))
    raise ValueError(f"offsets files are written as json, csv or zk-export, not as {kind!r}")


def unsayable(file: OffsetsFile, kind: WrittenKind) -> list[SavedRow]:
    """Return the rows that a file of this kind leaves out: those without an offset, and those with a name that it would
    tear (torn).  json leaves out none."""
    return [] if kind == "json" else [row for row in file.rows if row.position is None or torn(row, kind)]


def torn(row: SavedRow, kind: WrittenKind) -> str | None:
    """Return the name of a row that ImportZkOffsets would cut in two; None for other kinds, and other names."""
    if kind != "zk-export":
        return None
    return next((name for name in (row.group, row.topic) if name is not None and _CUTS & set(name)), None)


def _check(rows: Sequence[SavedRow]) -> None:
    if len({(row.group, row.topic, row.partition) for row in rows}) != len(rows):
        raise ValueError("the rows have a partition of a group twice")
    wrong = next((row for row in rows if row.position is not None and row.position < 0), None)
    if wrong is not None:
        raise ValueError(f"{wrong.tp} has the position {wrong.position}; none is None")


def _csv(rows: Sequence[SavedRow]) -> str:
    """Return CSV as of kafka-consumer-groups: with a group column when there are several, and an empty line at the
    end."""
    groups = {row.group for row in rows}
    if None in groups and len(groups) > 1:
        raise ConsumerError("one CSV cannot have rows with a group and rows without; use json")
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
    """Return a value as quoted by the JVM's CSV writer (jackson-dataformat-csv)."""
    if len(value.encode("utf-16-le", "surrogatepass")) // 2 < QUOTED_FROM and not _QUOTED.search(value):
        return value
    return '"' + value.replace('"', '""') + '"'


def _export(row: SavedRow) -> str:
    if row.group is None:
        raise ConsumerError(f"{row.tp}: ExportZkOffsets names a group in each line, and this row has none; use csv")
    return f"/consumers/{row.group}/offsets/{row.topic}/{row.partition}:{row.position}\n"
