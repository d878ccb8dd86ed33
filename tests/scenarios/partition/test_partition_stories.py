"""Each story's trace is what its events lead to.  `pytest --rewrite` writes the new traces, to be read as a diff."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from tests.scenarios.partition.story import RULE, split, tell

STORIES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_events_lead_to_the_told_trace(path: Path, request: pytest.FixtureRequest) -> None:
    events, told = split(path.read_text())
    trace = tell(events)
    if trace == told:
        return
    change = "\n".join(difflib.unified_diff(told.splitlines(), trace.splitlines(), "told", "now", lineterm=""))
    if request.config.getoption("--rewrite"):
        path.write_text(f"{events}\n{RULE}\n{trace}")
        print(f"{path.name}\n{change}")
        return
    pytest.fail(f"{path.name} goes otherwise (pytest --rewrite takes it over):\n{change}", pytrace=False)


def test_there_are_stories() -> None:
    assert len(STORIES) >= 15
