"""An offsets file from its text, whichever tool wrote it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from zkconsumer.offsetfiles import csvrows, plain, tables
from zkconsumer.offsetfiles.documents import Json, read_json
from zkconsumer.offsetfiles.model import FileUnclear, OffsetsFile
from zkconsumer.offsetfiles.ours import read_ours
from zkconsumer.offsetfiles.reading import Reading
from zkconsumer.offsetfiles.shapes import read_shape
from zkconsumer.offsetfiles.text import SKIPPED, is_comment, is_prose, is_said, lines_of
from zkconsumer.offsetfiles.yamltext import Yaml, read_yaml

_YAML = re.compile(r"---\s*|(?:- +)?(?:group|topics|name|protocol|state|members)\s*:(?:\s.*)?", re.IGNORECASE)
LinesReader = Callable[[Sequence[str], Reading], OffsetsFile]
_LINES: tuple[tuple[Callable[[str], bool], LinesReader], ...] = (  # the first whose form a line has
    (lambda line: tables.header_of(line) is not None, tables.read_tables),
    (plain.is_one_node, plain.read_one_node),
    (plain.is_export, plain.read_export),
    (csvrows.is_row, csvrows.read_csv),
)


def read_offsets(text: str, topic: str | None = None, zero_means_missing: bool = False) -> OffsetsFile:
    """The rows of a file of any kind (model.Kind), told apart by the text itself.

    topic: for the kinds that name none (kaf's map, the data of a one-node topic); the others do not look at it.
    zero_means_missing: take each position of 0 as none.  CRLF, empty lines, a byte order mark, comments (#) and what
    tools print beside their data are no obstacles; .warnings tells what was left out.

    Raises FileUnclear with the line and what helps; nothing else, whatever the text.  A file is read wholly or not at
    all: a row that cannot be read, or a partition with two positions, is never skipped.
    """
    lines = lines_of(text)
    reading = Reading(topic, zero_means_missing)
    start = _data_begins(lines)
    if start is None:
        said = next((line for line in lines if line.strip()), None)
        problem = "the file is empty" if said is None else f"the file has no rows; it begins with {said[:80]!r}"
        raise FileUnclear(None, problem, "give the file that a tool exported")
    first = lines[start].removesuffix("\r")
    if _reader_of(first) is None and _begins_document(first):
        return _document(lines, start, reading, read_json if first.strip()[0] in "{[" else read_yaml)
    return _lines_reader(lines, start)(lines, reading)


def _data_begins(lines: Sequence[str]) -> int | None:
    """The index of the first line that is data, as far as one line tells."""
    for index, ended in enumerate(lines):
        line = ended.removesuffix("\r")
        if not line.strip() or is_comment(line):
            continue
        if _reader_of(line) is not None or not (is_said(line) or (is_prose(line) and not _begins_document(line))):
            return index
    return None


def _begins_document(line: str) -> bool:
    first = line.strip()
    return first[0] in "{[" or _YAML.fullmatch(first) is not None


def _lines_reader(lines: Sequence[str], start: int) -> LinesReader:
    """By the first line whose form is sure; commas, and then two or three words, are the weakest signs."""
    found = (_reader_of(line.removesuffix("\r")) for line in lines[start:])
    weak = csvrows.read_csv if lines[start].count(",") > 1 else plain.read_words
    return next((reader for reader in found if reader is not None), weak)


def _reader_of(line: str) -> LinesReader | None:
    return next((reader for has_form, reader in _LINES if has_form(line)), None)


def _document(lines: Sequence[str], start: int, reading: Reading, read: Callable[[str], Json | Yaml]) -> OffsetsFile:
    """JSON or YAML; lines in front stay as empty ones, so that the numbers of the others are right."""
    document = read("\n" * start + "\n".join(lines[start:]))
    reading.line_of = document.line
    values: Sequence[Any] = document.values
    for path in document.repeated if isinstance(document, Json) else ():
        reading.tell(path, "says again what an earlier line says; it counts once")
    if start and any(line.strip() and not is_comment(line) for line in lines[:start]):
        reading.warn(f"the lines before line {start + 1}: {SKIPPED}")
    if len(values) == 1 and isinstance(values[0], dict) and "format" in values[0]:
        return read_ours(values[0], reading)
    return read_shape(values, reading)
