from __future__ import annotations

from collections.abc import Iterator

import pytest

from groundwork.tasks import TaskGroup


@pytest.fixture
def tasks() -> Iterator[TaskGroup]:
    """Ended with its test; none of its tasks may have died."""
    made = TaskGroup()
    yield made
    assert made.stop(2) == []
    assert made.death is None
