"""Fixtures of the fault matrix."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.harness.clusters import Renewed
from tests.faults.harness.clusters import renewed as held


@pytest.fixture(scope="session")
def renewed() -> Iterator[Renewed]:
    """Source and target of the rows, started at the first use."""
    yield from held()
