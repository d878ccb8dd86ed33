"""Lines of a pasted or redirected file: separation of rows from messages of programs.

Kafka's tools print warnings into the output that people redirect to a file, and a JVM prints more before it.  Only
lines that are certainly not rows are skipped, each with a warning: a row that cannot be read makes the file unclear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from groupadmin.files.reading import Reading

_SAID = re.compile(
    r"""\s*(?:
        \[?\d{4}-\d\d-\d\d[\sT]\d\d:            # a log line's time
      | (?:warn(?:ing)?|error|note|info|debug|fatal|hint)\s*:
      | \[[^\]]*\]\s*(?:warn|error|note|info|debug|fatal) | \[(?:warn|error|note|info|debug|fatal)\w*\]
      | SLF4J: | log4j: | Picked\ up\s | OpenJDK\s | Java\ HotSpot | Exception\ in\ thread | Caused\ by:
      | at\s[\w.$]+\(                            # a stack trace's line
      | Could\ not\ fetch\s | (?:The\ )?Consumer\ group\s['`"]
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_NUMBER = re.compile(r"-?[0-9]+")
SKIPPED = "no row of the file, skipped"
COMMENT = "a comment (#), skipped"


def lines_of(text: str) -> list[str]:
    """Return the lines without the byte order mark, with the CR of a CRLF (quoted CSV may contain it)."""
    return text.removeprefix("\ufeff").split("\n")


def is_said(line: str) -> bool:
    """True if a line is a message of a program, wherever it is."""
    return _SAID.match(line) is not None


def is_prose(line: str) -> bool:
    """True if a line before the data is a sentence: four words or more, without a number."""
    words = line.split()
    return len(words) >= 4 and not any(_NUMBER.fullmatch(word) for word in words)


def is_comment(line: str) -> bool:
    return line.startswith("#")


def rows_of(
    lines: Sequence[str], reading: Reading, row_like: Callable[[str], bool], first: int = 1
) -> Iterator[tuple[int, str]]:
    """Yield the lines that should be rows, with their numbers; others are skipped with a warning.

    row_like: whether a line has the form of a row; such a line is never skipped, whatever it begins with.
    """
    front = True
    for number, ended in enumerate(lines, first):
        line = ended.removesuffix("\r")
        if not line.strip():
            continue
        if is_comment(line):
            reading.tell(number, COMMENT)
            continue
        if (is_said(line) or (front and is_prose(line))) and not row_like(line):
            reading.tell(number, SKIPPED)
            continue
        front = False
        yield number, line
