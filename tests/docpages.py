"""README.md and the pages of docs as tests read them: fenced blocks, sections, anchors.

<!-- not run: why -->       above a block that cannot run in a test
<!-- test: what -->         what a test does before a block that the page need not tell
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = {page.name if page.parent == DOCS else f"/{page.name}": page
         for page in (ROOT / "README.md", *sorted(DOCS.glob("*.md")))}  # fmt: skip
NOTE = re.compile(r"\s*<!-- (not run|test): (.*) -->")
FILE = re.compile(r"(?:#|//) ([\w-]+\.(?:yaml|py|json|properties))\n")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block, its indentation taken off.  note: the comment above it, such as ("not run", "why")."""

    page: str
    line: int
    language: str
    text: str
    note: tuple[str, str] | None

    @property
    def file(self) -> str | None:
        """Name of the file that the block shows, where its first line is a comment that says it."""
        named = FILE.match(self.text)
        return named[1] if named is not None and self.language in ("python", "yaml", "json", "properties") else None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def text_of(page: str) -> str:
    """A page by its name in docs; /README.md is that of the root."""
    return PAGES[page].read_text(encoding="utf-8")


def blocks(page: str) -> Iterator[Block]:
    lines = iter(enumerate(text_of(page).splitlines(), 1))
    before = ""
    for number, line in lines:
        begun = re.fullmatch(r"( *)```(\w*)", line)
        if begun is not None:
            indent, language = begun.groups()
            inside = []
            for _, text in lines:
                if text == f"{indent}```":
                    break
                inside.append(text.removeprefix(indent))
            said = NOTE.fullmatch(before)
            yield Block(page, number, language, "\n".join([*inside, ""]), (said[1], said[2]) if said else None)
        before = line


def without_blocks(page: str) -> str:
    return re.sub(r"^( *)```\w*\n.*?^\1```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)


def headings(page: str) -> list[tuple[int, str]]:
    """Level and title of each heading, in order."""
    return [(len(marks), title) for marks, title in re.findall(r"^(#+) (.+)$", without_blocks(page), re.MULTILINE)]


def anchor(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def section(page: str, title: str) -> str:
    """Text from a heading to the next one of its level or above."""
    (level,) = (level for level, there in headings(page) if there == title)
    text = text_of(page)
    begun = text.index(f"\n{'#' * level} {title}\n")
    inside = re.sub(r"^```.*?^```$", lambda block: "x" * len(block[0]), text, flags=re.DOTALL | re.MULTILINE)
    end = re.compile(rf"^#{{1,{level}}} ", re.MULTILINE).search(inside, begun + level + len(title) + 2)
    return text[begun : end.start() if end else len(text)]
