"""Each story's trace is what its events lead to.  `pytest --rewrite` writes the new traces, to be read as a diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.coordinated import story as coordinated
from tests.scenarios.rebalance import story as rebalance
from tests.scenarios.stories import check

HERE = Path(__file__).parent
TELL = {"coordinated": coordinated.tell, "rebalance": rebalance.tell}
STORIES = sorted(path for folder in TELL for path in (HERE / folder).glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_events_lead_to_the_told_trace(path: Path, request: pytest.FixtureRequest) -> None:
    check(path, TELL[path.parent.name], request)


@pytest.mark.parametrize("kind", TELL)
def test_there_are_stories_of_both_kinds_of_group(kind: str) -> None:
    assert sum(path.parent.name == kind for path in STORIES) >= 10
