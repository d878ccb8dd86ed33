"""Pasted tables of kafka-consumer-groups --describe and ConsumerOffsetChecker.

Several tables may follow each other, one per group, each with its header.  Rows of members without partitions (- for
topic or partition) are skipped.  Rows are split at blanks; when a name contains blanks, where the header's columns
begin; and when a long name has shifted those, from the right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from groundwork.decimals import decimal_int
from groupadmin.files.headers import Columns, columns_of
from groupadmin.files.model import Kind, OffsetsFile, SavedRow
from groupadmin.files.reading import NONE_WORDS, Reading, shown
from groupadmin.files.text import rows_of

_WORDS = re.compile(r"\S+")
_PARTITION = re.compile(r"-?[0-9]+(-[0-9]+)?")  # in 0.7: broker-index
_HINT = re.compile(r"\b(?:partition|pid)\b", re.IGNORECASE)
_HELP = "paste the table with its header, its lines unwrapped; or export CSV"


@dataclass(frozen=True, slots=True)
class TableHeader:
    """A table's header, and how its rows are split."""

    columns: Columns
    begins: tuple[int, ...]  # of each column, in characters
    commas: bool  # 0.9's

    def cells(self, line: str) -> list[str] | None:
        """A row's values; None when it does not fit the header."""
        if self.commas:
            cells = [cell.strip() for cell in line.split(",")]
            return cells if len(cells) == self.columns.count else None
        words = line.split()
        fits = len(words) == self.columns.count
        if fits and self._plausible(words):
            return words
        return self._aligned(line) or self._from_right(line) or (words if fits else None)

    def _plausible(self, cells: Sequence[str]) -> bool:
        """Whether the cells of partition and offset are numbers, or words for none."""
        partition, position = cells[self.columns.partition], cells[self.columns.position]
        return bool(_PARTITION.fullmatch(partition) or partition.lower() in NONE_WORDS) and (
            decimal_int(position.lstrip("-")) is not None or position.lower() in NONE_WORDS
        )

    def _aligned(self, line: str) -> list[str] | None:
        if any(at and at <= len(line) and line[at - 1] != " " for at in self.begins):
            return None
        cells = [line[at:to].strip() for at, to in zip(self.begins, (*self.begins[1:], None), strict=True)]
        return cells if self._plausible(cells) and len(cells[self.columns.topic].split()) == 1 else None

    def _from_right(self, line: str) -> list[str] | None:
        """Split from the right: only the group, in front, can contain blanks, and a long name has shifted the
        columns."""
        if self.columns.group != 0:
            return None
        cells = line.rsplit(maxsplit=self.columns.count - 1)
        return cells if len(cells) == self.columns.count and self._plausible(cells) else None


def header_of(line: str) -> TableHeader | None:
    """The header in a line, or None."""
    if _HINT.search(line) is None:  # most lines are rows
        return None
    commas = "," in line
    names = line.split(",") if commas else line.split()
    columns = columns_of(names) if len(names) >= 3 else None
    if columns is None or (commas and ", " not in line):  # the header of a CSV has no blanks
        return None
    begins = () if commas else tuple(word.start() for word in _WORDS.finditer(line))
    return TableHeader(columns, begins, commas)


def read_tables(lines: Sequence[str], reading: Reading) -> OffsetsFile:
    """All tables of a text; kind "checker" for ConsumerOffsetChecker's."""
    return _Tables(reading).read(lines)


class _Tables:
    """State of reading tables: the last header."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._header: TableHeader | None = None
        self._kind: Kind = "describe"

    def read(self, lines: Sequence[str]) -> OffsetsFile:
        for number, line in rows_of(lines, self._reading, self._fits):
            if (found := header_of(line)) is not None:
                # Kafka 3.9 prints no line ends after a reset
                if any(decimal_int(word) is not None for word in line.split()):
                    raise self._reading.unclear(number, "there are rows on the header's line", _HELP)
                self._header = found
                self._kind = "checker" if found.columns.checker else self._kind
            elif self._header is None:
                raise self._reading.unclear(number, f"{shown(line)} comes before any header", _HELP)
            else:
                _row(self._header, number, line, self._reading)
        return self._reading.file(self._kind)

    def _fits(self, line: str) -> bool:
        """Whether a line is a row of the last header, or a header."""
        cells = self._header.cells(line) if self._header is not None else None
        if cells is None or self._header is None or not _PARTITION.fullmatch(cells[self._header.columns.partition]):
            return header_of(line) is not None
        return True


def _row(header: TableHeader, number: int, line: str, reading: Reading) -> None:
    cells, at = header.cells(line), header.columns
    if cells is None:
        raise reading.unclear(number, f"{shown(line)} does not fit the header's {at.count} columns", _HELP)
    topic, partition = cells[at.topic], cells[at.partition]
    if topic == "-" or partition.lower() in NONE_WORDS:
        return  # a member without partitions
    row = SavedRow(
        reading.name(cells[at.group], number, "group") if at.group is not None else None,
        reading.name(topic, number, "topic"),
        reading.partition(partition, number),
        reading.position(cells[at.position], number, "own"),
        log_end=None if at.log_end is None else reading.optional(cells[at.log_end], number, "log end"),
    )
    reading.add(row, number)
