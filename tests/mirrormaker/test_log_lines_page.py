"""docs/operations.md quotes status and log lines of a mirror: the code still has some words of each row."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.docpages import ROOT, section

PACKAGES = ("groundwork", "kafkawire", "zkconsumer", "producer", "mirrormaker")
QUOTED = re.compile(r"`([^`\n]+)`")
TOGETHER = 3  # words of a line that stand together in the code
# Of lines that are nearly all values.
SHORT = (
    "silent for",
    "was fenced from",
    "asking again",
    "is connected",
    "msg/s",
    "was deleted",
    "InconsistentGroupProtocol",
    "guarantee: exactly-once",
)


@cache
def source() -> str:
    """Return the code of the packages, with the parts of each string joined."""
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    code = "".join(path.read_text(encoding="utf-8") for path in files)
    return re.sub(r"\s+", " ", re.sub(r"[\"']\s*\n\s*f?[\"']", "", code))


def rows() -> list[str]:
    """Return the first cells of the section's tables that quote lines."""
    cells = re.findall(r"^\| (.*?) \| ", section("operations.md", "When something is wrong"), re.MULTILINE)
    return [cell for cell in cells if any(" " in line for line in QUOTED.findall(cell))]


def written(line: str) -> bool:
    """True if the code has TOGETHER words of the line in a row."""
    words = line.split()
    runs = (" ".join(words[at : at + TOGETHER]) for at in range(len(words) - TOGETHER + 1))
    return any(run in source() for run in (*runs, *(short for short in SHORT if short in line)))


def test_the_page_quotes_lines() -> None:
    assert len(rows()) > 50
    assert not written("orders/3: this line never stood in any log")


@pytest.mark.parametrize("row", rows())
def test_the_code_has_words_of_each_row(row: str) -> None:
    assert any(written(line) for line in QUOTED.findall(row)), row
