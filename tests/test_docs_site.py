"""The static site builds without a dead link, with all pages; pictures are those that their descriptions make."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

from tests.docpages import PAGES, ROOT

PICTURES = ROOT / "docs" / "pictures"
SHOWN = re.compile(r'(?:src|srcset)="([^"]+)"')
BESIDE = (
    "README.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "examples/README.md",
    "benchmarks/results/README.md",
)


class Links(HTMLParser):
    """Targets of the links of a page, and the ids that it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.ids.add(str(given["id"]))
        self.found += [str(given[name]) for name in ("href", "src", "srcset") if given.get(name)]


def site(folder: Path) -> subprocess.CompletedProcess[str]:
    """`make docs`, into another folder."""
    recipe = subprocess.run(["make", "-n", "docs"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = (line for line in recipe.splitlines() if "sphinx-build" in line)
    command = shlex.split(line.replace("build/", f"{folder}/"))
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)


@pytest.mark.thorough
def test_the_site_builds_and_each_link_of_it_leads_somewhere(tmp_path: Path) -> None:
    done = site(tmp_path)
    assert done.returncode == 0, done.stderr
    made = tmp_path / "site"
    pages = [made / path.relative_to(ROOT).with_suffix(".html") for path in PAGES.values()]
    pages += [made / Path(name).with_suffix(".html") for name in BESIDE]
    read = {page: Links(page) for page in pages}
    dead = []
    for page, links in read.items():
        for link in links.found:
            if re.match(r"[a-z]+:|//", link) or "genindex" in link or "_static" in link:
                continue
            file, _, fragment = link.partition("#")
            there = (page.parent / file).resolve() if file else page
            if not there.is_file() or (fragment and there in read and fragment not in read[there].ids):
                dead.append(f"{page.relative_to(made)}: {link}")
    assert dead == []


def test_a_dead_link_is_an_error_of_the_build(tmp_path: Path) -> None:
    """Of a small tree with the same conf.py."""
    (tmp_path / "docs" / "site").mkdir(parents=True)
    conf = (ROOT / "docs" / "site" / "conf.py").read_text(encoding="utf-8")
    (tmp_path / "docs" / "site" / "conf.py").write_text(conf)
    (tmp_path / "docs" / "README.md").write_text("# Index\n\n## Some\n\n[page](page.md), [part](page.md#part)\n")
    (tmp_path / "docs" / "page.md").write_text("# Page\n\n## Part\n")
    command = [
        ROOT / ".venv/bin/sphinx-build",
        *["-q", "-W", "-b", "html", "-c", "docs/site", "-d", "trees", ".", "out"],
    ]
    for readme, code in (("# A\n\n[b](docs/page.md#part)\n", 0), ("# A\n\n[b](docs/page.md#parts)\n", 1)):
        (tmp_path / "README.md").write_text(readme)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode, "'parts'" in done.stderr) == (code, bool(code)), done.stderr
    assert "docs/page.html" in (tmp_path / "out" / "README.html").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_pictures_that_a_page_shows_are_there(page: str) -> None:
    path = PAGES[page]
    for picture in SHOWN.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / picture).is_file(), picture


# ---- pictures drawn of text ------------------------------------------------------------------------------------------


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw", PICTURES / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "draw", module)  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_pictures_are_those_of_their_descriptions(draw: ModuleType) -> None:
    made = draw.pictures()
    assert {path.name for path in made} == {path.name for path in PICTURES.glob("*.svg")} != set()
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"draw it again: python docs/pictures/draw.py ({path.name})"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("bix a 0 0-0 cluster | A", "is no title, box, arrow or across"),
        ("arrow a -> b | x", "there is no box a above it"),
        (f"box a 0 0-0 cluster | {'wide ' * 9}", "box a is too narrow"),
    ],
)
def test_a_description_that_cannot_be_drawn_says_why(draw: ModuleType, line: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        draw.read(line)
