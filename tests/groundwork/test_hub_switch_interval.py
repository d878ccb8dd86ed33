"""The interpreter's switch interval: short while a hub in a thread of its own runs, and the program's to choose."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from groundwork import hub as hubs
from groundwork.hub import OwnThread

SET_BY_THE_PROGRAM_S = 0.002


@pytest.fixture(autouse=True)
def interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(hubs.DEFAULT_S)
    yield
    sys.setswitchinterval(before)


def test_turns_are_short_while_a_hub_of_its_own_runs_until_the_last_one_ends():
    first, second = OwnThread(), OwnThread()
    first.start()
    second.start()
    assert sys.getswitchinterval() == pytest.approx(hubs.SHORT_S)
    first.stop()
    assert sys.getswitchinterval() == pytest.approx(hubs.SHORT_S)
    second.stop()
    assert sys.getswitchinterval() == hubs.DEFAULT_S


def test_what_the_program_has_chosen_stays():
    hub = OwnThread()
    sys.setswitchinterval(SET_BY_THE_PROGRAM_S)
    hub.start()
    assert sys.getswitchinterval() == pytest.approx(SET_BY_THE_PROGRAM_S)
    hub.stop()
    assert sys.getswitchinterval() == pytest.approx(SET_BY_THE_PROGRAM_S)


def test_what_the_program_chooses_meanwhile_stays():
    hub = OwnThread()
    hub.start()
    sys.setswitchinterval(SET_BY_THE_PROGRAM_S)
    hub.stop()
    assert sys.getswitchinterval() == pytest.approx(SET_BY_THE_PROGRAM_S)
