"""A hub in a thread of its own, for one test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groundwork.hub import OwnThread


@pytest.fixture
def own() -> Iterator[OwnThread]:
    hub = OwnThread("hub of a test")
    hub.start()
    yield hub
    hub.stop()
