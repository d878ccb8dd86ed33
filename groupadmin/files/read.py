"""Reading of an offsets file of any kind, which is detected from its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from groupadmin.files import csvrows
from groupadmin.files.documents import Path, read_json
from groupadmin.files.model import FileUnclear, OffsetsFile, SavedRow
from groupadmin.files.ours import FORMAT, read_ours
from groupadmin.files.reading import Reading, shown
from groupadmin.files.text import SKIPPED, is_comment, is_prose, is_said, lines_of, rows_of

_KNOWN_JSON = f"known are {FORMAT} and the offset_save of kafka-utils"
_KNOWN_LINES = (
    "known are our JSON, lines topic,partition,offset or group,topic,partition,offset, lines of ExportZkOffsets, and"
    " the JSON of kafka-utils"
)
_EXPORTED = re.compile(r"(?:/.*)?/consumers/([^/]+)/offsets?/([^/]+)/([^/:]+)\s*:\s*(\S+)\s*")  # greedy: the last colon
_ZERO = (
    "a position of 0, which kafka-utils also writes for a partition that was never committed; "
    "with zero_means_missing (--zero-means-missing) it is taken as none"
)
LinesReader = Callable[[Sequence[str], Reading], OffsetsFile]


def read_offsets(text: str, zero_means_missing: bool = False) -> OffsetsFile:
    """Return the rows of a file of any kind (model.Kind), which is detected from the text.

    zero_means_missing: take each offset of 0 as none.  CRLF, empty lines, a byte order mark, comments (#) and messages
    of tools between the data are accepted; .warnings names what was skipped.

    Raises only FileUnclear, with the line and a remedy.  A file is read completely or not at all: a row that cannot be
    read, or a partition with two offsets, is never skipped.
    """
    lines = lines_of(text)
    reading = Reading(zero_means_missing)
    start = _data_begins(lines)
    if start is None:
        said = next((line for line in lines if line.strip()), None)
        problem = "the file is empty" if said is None else f"the file has no rows; it begins with {said[:80]!r}"
        raise FileUnclear(None, problem, "give the file that a tool exported")
    first = lines[start].removesuffix("\r")
    if _reader_of(first) is None and _begins_document(first):
        return _document(lines, start, reading)
    return _lines_reader(lines, start, reading)(lines, reading)


def _data_begins(lines: Sequence[str]) -> int | None:
    """Return the index of the first line that looks like data."""
    for index, ended in enumerate(lines):
        line = ended.removesuffix("\r")
        if not line.strip() or is_comment(line):
            continue
        if _reader_of(line) is not None or not (is_said(line) or (is_prose(line) and not _begins_document(line))):
            return index
    return None


def _begins_document(line: str) -> bool:
    return line.strip()[0] in "{["


def _lines_reader(lines: Sequence[str], start: int, reading: Reading) -> LinesReader:
    """Return the reader for the first line with a certain form; commas are the weakest sign."""
    found = next((reader for line in lines[start:] if (reader := _reader_of(line.removesuffix("\r")))), None)
    if found is None and lines[start].count(",") > 1:
        found = csvrows.read_csv
    if found is None:
        first = lines[start].removesuffix("\r")
        raise reading.unclear(start + 1, f"{shown(first)} is not a row of any known form", _KNOWN_LINES)
    return found


def _reader_of(line: str) -> LinesReader | None:
    if _is_export(line):
        return _read_export
    return csvrows.read_csv if csvrows.is_row(line) else None


def _is_export(line: str) -> bool:
    """True if a line is a path of an offset node with its data."""
    return line.startswith("/") and ("/offsets/" in line or "/offset/" in line)


def _read_export(lines: Sequence[str], reading: Reading) -> OffsetsFile:
    """Return the lines of ExportZkOffsets: /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET, in 0.7 BROKER-INDEX:OFFSET.

    A chroot may stand in front, and Kafka 1.1.0 wrote below /offset.  Empty lines are ignored (ImportZkOffsets would
    stop at the first one).
    """
    for number, line in rows_of(lines, reading, _is_export):
        found = _EXPORTED.fullmatch(line)
        if found is None:
            raise reading.unclear(
                number, f"{shown(line)} is not an offset", "a line is /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET"
            )
        group, topic, partition, offset = found.groups()
        position = reading.position(offset, number)
        row = SavedRow(group, reading.name(topic, number, "topic"), reading.partition(partition, number), position)
        reading.add(row, number)
    return reading.file("zk-export")


def _document(lines: Sequence[str], start: int, reading: Reading) -> OffsetsFile:
    """Read JSON documents; lines before them are replaced by empty ones, so that line numbers stay right."""
    document = read_json("\n" * start + "\n".join(lines[start:]))
    reading.line_of = document.line
    values = document.values
    for path in document.repeated:
        reading.tell(path, "repeats an earlier line; it counts once")
    if start and any(line.strip() and not is_comment(line) for line in lines[:start]):
        reading.warn(f"the lines before line {start + 1}: {SKIPPED}")
    whole = values[0] if len(values) == 1 else None
    if isinstance(whole, dict) and "format" in whole:
        return read_ours(whole, reading)
    if isinstance(whole, dict) and ("groupid" in whole or isinstance(whole.get("offsets"), dict)):
        return _kafka_utils(whole, reading)
    raise reading.unclear((0,), "this JSON is of no known form", _KNOWN_JSON)


def _kafka_utils(whole: Mapping[str, Any], reading: Reading) -> OffsetsFile:
    """Return the form of kafka-utils (Yelp): {"groupid": "G", "offsets": {"T": {"0": 123}}}, where 0 may also mean
    "never committed"."""
    group = reading.group(whole.get("groupid"), (0, "groupid"))
    for topic, partitions in _object(whole.get("offsets"), (0, "offsets"), reading).items():
        for partition, offset in _object(partitions, (0, "offsets", topic), reading).items():
            path: Path = (0, "offsets", topic, partition)
            position = reading.position("null" if offset is None else offset, path)
            row = SavedRow(group, reading.name(topic, path, "topic"), reading.partition(partition, path), position)
            if position == 0:
                reading.tell(path, _ZERO)
            reading.add(row, path)
    if not reading.rows():
        reading.warn("the file names no partition")
    return reading.file("yelp", empty=True)


def _object(value: object, path: Path, reading: Reading) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        problem = f"{shown(value)} is given where an object is expected"
        raise reading.unclear(path, problem, "export it again, or correct it")
    return value
