"""State of reading one file: rows and warnings so far, and the parsing of values.

None is never 0.  Text for "none" (-, unknown, null) is read as None; so is -1, since Kafka itself writes it for "none".
Any other negative number, and text that is not a number, makes the file unclear.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from groupadmin.files.model import FileUnclear, Kind, OffsetsFile, SavedRow
from kafkawire.model import BrokerPartition, PartitionId

MOST_OFFSET = (1 << 63) - 1
MOST_PARTITION = (1 << 31) - 1
NONE_WORDS = frozenset({"-", "unknown", "none", "null"})
SHOWN = 60  # characters of a strange value that an error quotes
LISTED = 5  # line numbers that a warning names

_BROKER_PARTITION = re.compile(r"([0-9]{1,10})-([0-9]{1,10})")
_DELETES = "write null, - or unknown where there is none"


class Reading:
    """Collects rows and warnings.

    `where` is a place for which line_of() returns the line number: the number itself, or a path in a document.
    """

    def __init__(
        self,
        zero_means_missing: bool = False,
        line_of: Callable[[Any], int | None] = lambda where: int(where),
    ) -> None:
        self.line_of = line_of
        self._zero_means_missing = zero_means_missing
        self._rows: dict[tuple[str | None, str, PartitionId], tuple[SavedRow, Any]] = {}
        self._told: dict[str, list[Any]] = {}
        self._names: set[str] = set()  # topics that were checked

    def unclear(self, where: Any, problem: str, helps: str) -> FileUnclear:
        """Return the error to raise about this place."""
        return FileUnclear(self.line_of(where), problem, helps)

    def tell(self, where: Any, what: str) -> None:
        """Add a warning; equal ones of several places become one sentence."""
        self._told.setdefault(what, []).append(where)

    def add(self, row: SavedRow, where: Any) -> None:
        """Add a row.  A repeated one counts once; two different rows of one partition are an error."""
        if row.position == 0 and self._zero_means_missing:
            row = replace(row, position=None)
            self.tell(where, "a position of 0 is taken as none, as zero_means_missing asks")
        key = (row.group, row.topic, row.partition)
        before = self._rows.setdefault(key, (row, where))
        if before[1] is where and before[0] is row:
            return
        if before[0] != row:
            raise self._differ(*before, row, where)
        self.tell(where, "repeats an earlier line; it counts once")

    def _differ(self, before: SavedRow, earlier: Any, row: SavedRow, where: Any) -> FileUnclear:
        of = f" of group {row.group!r}" if row.group is not None else ""
        first = self.line_of(earlier)
        said = f"line {first} says {_said(before)}" if first else f"it says {_said(before)} before"
        if before.position == row.position:
            said = f"{said}, with other details" if first else "the details differ"
        return self.unclear(
            where, f"{row.tp}{of} is given twice here, now with {_said(row)}; {said}", "leave one of them in the file"
        )

    def file(self, kind: Kind, empty: bool = False, **about: Any) -> OffsetsFile:
        """Return the file as read.  empty: it may be one without rows."""
        if not self._rows and not empty:
            raise FileUnclear(None, "the file names no partition", "export it again, and check whether that failed")
        rows = tuple(row for row, _ in self._rows.values())
        return OffsetsFile(kind, rows, warnings=self._warnings(), **about)

    def rows(self) -> list[SavedRow]:
        """Return the rows so far, in their order."""
        return [row for row, _ in self._rows.values()]

    def warn(self, sentence: str) -> None:
        """Add a warning that is not about a single line."""
        self._told.setdefault(sentence, [])

    def _warnings(self) -> tuple[str, ...]:
        return tuple(f"{self._lines(places)}{what}" for what, places in self._told.items())

    def _lines(self, places: list[Any]) -> str:
        found = [line for line in map(self.line_of, places[:LISTED]) if line]
        if not found:
            return ""
        more = f" and {len(places) - LISTED} more" if len(places) > LISTED else ""
        return f"line{'s' if len(places) > 1 else ''} {', '.join(map(str, found))}{more}: "

    # ---- values

    def position(self, value: object, where: Any, minus_one: bool = True) -> int | None:
        """Return the offset from a number or its text.  minus_one: take -1 as none, with a warning."""
        number = value if type(value) is int else self._number(value)
        if number is not None and 0 <= number <= MOST_OFFSET:
            return number
        if number == -1 and minus_one:
            self.tell(where, "-1 is taken as none; no position is negative")
            return None
        if isinstance(value, str) and value.strip().lower() in NONE_WORDS:
            return None
        if number is None:
            raise self.unclear(
                where, f"offset {shown(value)} is not a number", f"an offset is a number of 0 or more; {_DELETES}"
            )
        if number < 0:
            raise self.unclear(where, f"offset {number} is negative", f"offsets begin at 0; {_DELETES}")
        raise self.unclear(where, f"offset {shown(value)} is larger than any offset", f"the largest is {MOST_OFFSET}")

    def partition(self, value: object, where: Any) -> PartitionId:
        """Return a partition's number, or broker-index of 0.7."""
        number = value if type(value) is int else self._number(value)
        if number is not None and 0 <= number <= MOST_PARTITION:
            return number
        found = _BROKER_PARTITION.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is None or max(ids := (int(found[1]), int(found[2]))) > MOST_PARTITION:
            raise self.unclear(
                where,
                f"{shown(value)} is not a partition",
                "a partition is a number of 0 or more, or broker-index of 0.7",
            )
        return BrokerPartition(*ids)

    def name(self, value: object, where: Any, what: str) -> str:
        """Return the name of a topic or group: text without path separators."""
        if isinstance(value, str) and (value in self._names or self._is_name(value, what)):
            return value
        raise self.unclear(where, f"{shown(value)} is not a {what}", f"the name of a {what} is expected here")

    def _is_name(self, value: str, what: str) -> bool:
        if not value or (what == "topic" and _IMPOSSIBLE.search(value)):
            return False
        if what == "topic":
            self._names.add(value)
        return True

    def group(self, value: object, where: Any) -> str | None:
        return None if value is None else self.name(value, where, "group")

    def _number(self, value: object) -> int | None:
        """Return the number in a text; None when it is not one."""
        return int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else None


_IMPOSSIBLE = re.compile(r"[/\x00-\x1f\x7f]")
_NUMBER = re.compile(r"[ \t]*-?[0-9]{1,40}[ \t]*")  # bounded: int() refuses thousands of digits


def shown(value: object) -> str:
    """Return a value as an error quotes it."""
    text = repr(value) if not isinstance(value, (dict, list)) else f"a {'map' if isinstance(value, dict) else 'list'}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _said(row: SavedRow) -> str:
    return "none" if row.position is None else str(row.position)
