"""Fixtures of the fault matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.harness.clusters import Renewed

ROWS = Path(__file__).parent
HELD = Renewed()


@pytest.fixture
def renewed() -> Renewed:
    """Source and target of the rows, started at the first use."""
    return HELD


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Twelve servers that replicate take a sixth of a core also when nobody asks: they end with the last row."""
    if nextitem is None or ROWS not in nextitem.path.parents:
        HELD.replace()
