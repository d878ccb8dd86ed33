"""The guide names files of this tree: what it calls by its whole path is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/py.typed"))
NAMED = re.compile(rf"`((?:{'|'.join([*PACKAGES, 'tests', 'docs', 'benchmarks'])})/[\w./-]*)`")


def test_every_path_in_the_guide_exists() -> None:
    named = NAMED.findall((ROOT / "docs" / "guide.md").read_text(encoding="utf-8"))
    assert len(named) > 40  # the pattern still finds them
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_guide_names_every_package() -> None:
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    assert [package for package in PACKAGES if f"{package}/" not in guide] == []
