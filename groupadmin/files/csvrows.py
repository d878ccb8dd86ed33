"""CSV of kafka-consumer-groups --export, which has no header.

topic,partition,offset          group,topic,partition,offset
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

from groundwork.decimals import decimal_int
from groupadmin.files.model import OffsetsFile, SavedRow
from groupadmin.files.reading import Reading, shown
from groupadmin.files.text import COMMENT, SKIPPED, is_comment, is_said, rows_of

_HELP = "a line is topic,partition,offset or group,topic,partition,offset"


def is_row(line: str) -> bool:
    """True if a line has the form of a row, or begins a row whose quoted group contains line ends."""
    if line.startswith('"'):
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
    """Return the rows of a CSV text, from its first row on."""
    first = next((number for number, _ in rows_of(lines, reading, _may_be_row)), len(lines) + 1)
    count: int | None = None  # of columns
    for number, cells in _records(lines, first, reading):
        if count is None and len(cells) in (3, 4):
            count = len(cells)
        if len(cells) == count:
            reading.add(_row(cells, number, reading), number)
        elif is_said(lines[number - 1]):
            reading.tell(number, SKIPPED)
        else:
            found = f"{len(cells)} columns" + (f" instead of {count}" if count is not None else "")
            raise reading.unclear(number, f"{shown(','.join(cells))} has {found}", _HELP)
    return reading.file("csv")


def _records(lines: Sequence[str], first: int, reading: Reading) -> Iterator[tuple[int, list[str]]]:
    """Yield the records, each with the number of its first line, without empty lines and comments."""
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
        raise reading.unclear(number, f"this is not CSV: {why}", helps) from None


def _row(cells: Sequence[str], number: int, reading: Reading) -> SavedRow:
    *group, text, partition, offset = cells
    topic = text.strip()
    if not topic or len(topic.split()) > 1:
        raise reading.unclear(number, f"{shown(text)} is not a topic", _HELP)
    return SavedRow(
        reading.name(group[0], number, "group") if group else None,
        reading.name(topic, number, "topic"),
        reading.partition(partition, number),
        reading.position(offset, number),
    )
