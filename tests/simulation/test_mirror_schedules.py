"""Schedules of whole mirrors, and the proof that the simulation finds what is wrong: `make simulate` goes on."""

from __future__ import annotations

import json

import pytest

from tests.simulation.children import printed
from tests.simulation.mirrors.mutations import FOUND, MUTATIONS, NOT_FOUND
from tests.simulation.mirrors.stories import stories

MODULE = "tests.simulation.mirrors.proof"


@pytest.fixture(scope="module")
def proof() -> dict[str, str]:
    """What came of each mutation, all in one process."""
    told: dict[str, str] = json.loads(printed(f"{MODULE}:prove").splitlines()[-1])
    return told


def test_schedules_of_all_modes_keep_all_promises() -> None:
    assert json.loads(printed(f"{MODULE}:keep").splitlines()[-1]) == {}


@pytest.mark.parametrize("name", FOUND)
def test_a_mutation_is_found_and_its_schedule_is_kept_without_it(name: str, proof: dict[str, str]) -> None:
    assert not proof[name]


@pytest.mark.parametrize("name", [name for name, _, _ in stories()])
def test_a_story_of_a_fault_is_kept_since_it_was_mended(name: str, proof: dict[str, str]) -> None:
    assert not proof[f"story {name}"]


def test_each_mutation_has_its_seed_or_story_or_a_reason_why_none_is_known() -> None:
    assert MUTATIONS.keys() == {*FOUND, *NOT_FOUND, *(mutation for _, mutation, _ in stories())}
    assert not FOUND.keys() & NOT_FOUND.keys()
