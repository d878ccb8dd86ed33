"""Time of the tests of a group: virtual, and without a log."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.world import virtual_time


@pytest.fixture
def group_time() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    with virtual_time():
        yield
    logging.disable(logging.NOTSET)
