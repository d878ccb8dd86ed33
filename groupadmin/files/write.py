"""An offsets file as text.

    json        everything that is known (ours.py)
    csv         what kafka-consumer-groups --export prints from 2.2 on, byte for byte with its empty line at the end,
                and --from-file reads; the tool of 0.11 to 2.1 reads it where no name is quoted
    zk-export   what ExportZkOffsets writes and ImportZkOffsets reads

Only json can say "none": rows without a position are left out of the others (`unsayable` names them).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from groupadmin.files.model import OffsetsFile, SavedRow, WrittenKind
from groupadmin.files.ours import write_ours
from zkconsumer.errors import ConsumerError

QUOTED_FROM = 25  # characters of UTF-16: the JVM's CSV writer looks at shorter values only, and quotes these
_QUOTED = re.compile(r"[\x00-,\\]")  # what makes it quote a shorter one
_COLON = "ImportZkOffsets cuts its lines at each colon; use json"


def write_offsets(file: OffsetsFile, kind: WrittenKind) -> str:
    """The text of a file of this kind, rows in their order.

    Raises ConsumerError when the kind cannot say what a row is: a group or none for each row of csv, numbered
    partitions there, names that ImportZkOffsets would cut.  ValueError for another kind, a partition of a group twice,
    or a negative position.
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
    """The rows that a file of this kind leaves out: those without a position, but for json."""
    return [] if kind == "json" else [row for row in file.rows if row.position is None]


def _check(rows: Sequence[SavedRow]) -> None:
    if len({(row.group, row.topic, row.partition) for row in rows}) != len(rows):
        raise ValueError("a partition of a group stands in the rows twice")
    wrong = next((row for row in rows if row.position is not None and row.position < 0), None)
    if wrong is not None:
        raise ValueError(f"{wrong.tp} has the position {wrong.position}; none is None")


def _csv(rows: Sequence[SavedRow]) -> str:
    """As kafka-consumer-groups: a column for the group when there are several, and an empty line at the end."""
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
    """A value as the JVM's CSV writer (jackson-dataformat-csv) puts it."""
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
