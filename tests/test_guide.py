"""The guide names files of this tree: each path that it names, whole or as `…/name` in the folder before it, exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/py.typed"))
NAMED = re.compile(rf"`((?:{'|'.join([*PACKAGES, 'tests', 'docs', 'benchmarks'])}|…)/[\w./-]*)`")
MOST_LINES = 300


def paths(text: str) -> list[str]:
    """Paths that a text names; `…/name` is in the folder of the path before it."""
    found: list[str] = []
    folder = ""
    for path in NAMED.findall(text):
        whole = path.replace("…", folder, 1)
        folder = whole.rstrip("/") if path.endswith("/") else whole.rpartition("/")[0]
        found.append(whole)
    return found


def test_every_path_in_the_guide_exists() -> None:
    named = paths((ROOT / "docs" / "guide.md").read_text(encoding="utf-8"))
    assert len(named) > 200  # the pattern still finds them
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_guide_names_every_package() -> None:
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    assert [package for package in PACKAGES if f"{package}/" not in guide] == []


def test_the_guide_is_short() -> None:
    assert (ROOT / "docs" / "guide.md").read_text(encoding="utf-8").count("\n") <= MOST_LINES


def test_a_short_path_is_in_the_folder_before_it() -> None:
    text = "`zkconsumer/group/member.py`, `…/claims.py`; `tests/fakes/`, `…/broker.py`"
    assert paths(text)[1] == "zkconsumer/group/claims.py"
    assert paths(text)[3] == "tests/fakes/broker.py"
