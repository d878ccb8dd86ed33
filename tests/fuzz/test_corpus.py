"""Inputs that once found a defect, given to their target again: tests/fuzz/corpus/TARGET/what-it-was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.engine import Fuzzer
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
INPUTS = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_once_found_a_defect_finds_none(path: Path) -> None:
    target = TARGETS[path.parent.name]
    target.prepare()
    Fuzzer(target, 0).check(path.read_bytes())


def test_the_corpus_is_of_targets_that_exist() -> None:
    assert {path.parent.name for path in INPUTS} <= TARGETS.keys()
