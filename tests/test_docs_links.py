"""Links between the pages lead to files that exist, and to headings that they have; long pages say what they hold."""

from __future__ import annotations

import re

from tests.cases import each
from tests.docpages import DOCS, PAGES, anchor, headings, text_of, without_blocks

LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
LONG = 500  # lines of a page, beyond which a reader no longer finds what is on it


@each("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    dead = []
    for link in LINK.findall(without_blocks(page)):
        if link.startswith("http"):
            continue
        file, _, fragment = link.partition("#")
        there = (PAGES[page].parent / file).resolve() if file else PAGES[page]
        name = next((name for name, path in PAGES.items() if path == there), None)
        if not there.exists() or (
            fragment and (name is None or fragment not in {anchor(title) for _, title in headings(name)})
        ):
            dead.append(link)
    assert dead == []


@each("page", [page for page in PAGES if PAGES[page].parent == DOCS])
def test_each_page_has_one_title_and_says_what_is_on_it(page: str) -> None:
    levels = headings(page)
    assert [level for level, _ in levels].count(1) == 1
    assert levels[0][0] == 1
    first, found, contents = text_of(page).partition("\nOn this page: ")
    if found:
        named = LINK.findall(contents.partition("\n\n")[0])
        assert named == [f"#{anchor(title)}" for level, title in levels if level == 2]
        assert first.count("\n") < 60, "the first screen is for the common case, and ends with the contents"


@each("page", PAGES)
def test_no_page_is_longer_than_a_reader_overlooks(page: str) -> None:
    assert text_of(page).count("\n") <= LONG


def test_the_index_names_every_page() -> None:
    named = {link.partition("#")[0] for link in LINK.findall(text_of("README.md"))}
    assert {page for page, path in PAGES.items() if path.parent == DOCS} - {"README.md"} <= named
