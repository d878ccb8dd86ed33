"""Whole mirrors in virtual time (mirrorstories.py)."""

from __future__ import annotations

import pytest

from tests.simulation.children import printed, stories, told

MODULE = "tests.simulation.mirrorstories"


@pytest.mark.parametrize("name", stories(MODULE))
def test_mirrors(name: str) -> None:
    assert not (found := told(MODULE, name)), found


def test_a_seed_is_the_same_schedule_in_another_process() -> None:
    assert printed(f"{MODULE}:print_trace") == printed(f"{MODULE}:print_trace")
