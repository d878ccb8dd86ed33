"""The simulated network, in virtual time (networkstories.py)."""

from __future__ import annotations

import pytest

from tests.simulation.children import stories, told

MODULE = "tests.simulation.networkstories"


@pytest.mark.parametrize("name", stories(MODULE))
def test_network(name: str) -> None:
    assert not (found := told(MODULE, name)), found
