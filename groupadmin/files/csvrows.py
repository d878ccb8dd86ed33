"""CSV: of kafka-consumer-groups --export (no header), or with a header in any order.

topic,partition,offset          group,topic,partition,offset
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

from groundwork.decimals import decimal_int
from groupadmin.files.headers import Columns, columns_of
from groupadmin.files.model import OffsetsFile, SavedRow
from groupadmin.files.reading import Reading, shown
from groupadmin.files.text import COMMENT, SKIPPED, is_comment, is_said, rows_of

_PLAIN = {
    3: Columns(0, 1, 2, group=None, log_end=None, count=3),
    4: Columns(1, 2, 3, group=0, log_end=None, count=4),
}
_HELP = "a line is topic,partition,offset or group,topic,partition,offset"


def is_row(line: str) -> bool:
    """Whether a line has the form of a row or a header, or begins a row whose quoted group contains line ends."""
    if line.startswith('"') or columns_of(line.split(",")) is not None:
        return True
    last = line.rsplit(",", 2)
    return (
        len(last) == 3
        and decimal_int(last[1].strip()) is not None
        and not last[2].strip().strip("-").strip("0123456789")
    )


def _may_be_row(line: str) -> bool:
    return is_row(line) or (line.count(",") in (2, 3) and ", " not in line)


def read_csv(lines: Sequence[str], reading: Reading) -> OffsetsFile:
    """The rows of a CSV text, from its first row or header on."""
    first = next((number for number, _ in rows_of(lines, reading, _may_be_row)), len(lines) + 1)
    columns: Columns | None = None
    for number, cells in _records(lines, first, reading):
        if columns is None:
            columns = columns_of(cells)
            if columns is not None:
                continue
            columns = _PLAIN.get(len(cells))
        if columns is not None and len(cells) == columns.count:
            reading.add(_row(cells, columns, number, reading), number)
        elif is_said(lines[number - 1]):
            reading.tell(number, SKIPPED)
        else:
            found = f"{len(cells)} columns" + (f" instead of {columns.count}" if columns is not None else "")
            raise reading.unclear(number, f"{shown(','.join(cells))} has {found}", _HELP)
    return reading.file("csv")


def _records(lines: Sequence[str], first: int, reading: Reading) -> Iterator[tuple[int, list[str]]]:
    """Records, each with the number of its first line, without empty lines and comments."""
    records = csv.reader((f"{line}\n" for line in lines[first - 1 :]), strict=True)
    number = first
    try:
        for cells in records:
            if is_comment(lines[number - 1]):
                reading.tell(number, COMMENT)
            elif cells and (len(cells) > 1 or cells[0].strip()):
                yield number, cells
            number = first + records.line_num
    except csv.Error as why:
        helps = 'a value with " in it is quoted, and its " are doubled'
        raise reading.unclear(number, f"this is no CSV: {why}", helps) from None


def _row(cells: Sequence[str], at: Columns, number: int, reading: Reading) -> SavedRow:
    topic = cells[at.topic].strip()
    if not topic or len(topic.split()) > 1:
        raise reading.unclear(number, f"{shown(cells[at.topic])} is no topic", _HELP)
    return SavedRow(
        None if at.group is None else reading.name(cells[at.group], number, "group"),
        reading.name(topic, number, "topic"),
        reading.partition(cells[at.partition], number),
        reading.position(cells[at.position], number),
        log_end=None if at.log_end is None else reading.optional(cells[at.log_end], number, "log end"),
    )
