"""Each story's trace is what its events lead to.  `pytest --rewrite` writes the new traces, to be read as a diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.coordinated.story import tell
from tests.scenarios.stories import check

STORIES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_events_of_a_coordinated_group_lead_to_the_told_trace(path: Path, request: pytest.FixtureRequest) -> None:
    check(path, tell, request)


def test_there_are_stories_of_coordinated_groups() -> None:
    assert len(STORIES) >= 10
