"""The static site: the pages as they are in the repository, built by `make docs` into build/site.

README.md is its first page.  The sidebar has the sections of docs/README.md, and under each the pages that it links to
first there.  A link that leads nowhere is a warning, and `make docs` makes each warning an error.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
INDEX = "docs/README.md"
LINK = re.compile(r"\]\(([^)#\s]+\.md)")

project = "kafka-legacy-mirror"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "examples/*.md", "benchmarks/results/*.md"]
exclude_patterns = [".*", "build", "tests", "*/*/*/*"]
myst_heading_anchors = 5  # as GitHub makes them
suppress_warnings = [
    "toc.not_included",  # the sidebar comes from sidebar()
    "misc.highlighting_failure",  # a block that shows parts of a file, or a comment in JSON
]
html_theme = "furo"
html_title = project
html_copy_source = False
html_show_sphinx = False


def sidebar() -> str:
    """Tables of contents in MyST: one for each section of the index."""
    text, placed = (ROOT / INDEX).read_text(encoding="utf-8"), {INDEX, "README.md"}
    tables = [f"```{{toctree}}\n:hidden:\n\nAll pages, by task <{INDEX.removesuffix('.md')}>\n```"]
    for section in text.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        pages = []
        for link in LINK.findall(body):
            page = (ROOT / "docs" / link).resolve().relative_to(ROOT).as_posix()
            if page not in placed:
                placed.add(page)
                pages.append(page.removesuffix(".md"))
        lines = "\n".join(pages)
        tables += [f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{lines}\n```"] if pages else []
    return "\n\n".join(tables)


def add_sidebar(app: Any, name: str, source: list[str]) -> None:
    if name == root_doc:
        source[0] += "\n\n" + sidebar() + "\n"


def add_files(app: Any, failure: Exception | None) -> None:
    """Pictures that pages show by <picture>, one light and one dark; and a first page where servers look."""
    Path(app.outdir, "index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html"><title>{project}</title>\n',
        encoding="utf-8",
    )
    for picture in (*(ROOT / "docs").rglob("*.svg"), *(ROOT / "benchmarks").rglob("*.svg")):
        there = Path(app.outdir) / picture.relative_to(ROOT)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, there)


def setup(app: Any) -> None:
    app.connect("source-read", add_sidebar)
    app.connect("build-finished", add_files)
