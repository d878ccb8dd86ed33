"""Real and simulated brokers give the same answers, down to sizes: nothing but the real broker says what is right."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("tests.simulation.sequences.real")  # and what stands beside it

from tests.simulation import twins
from tests.simulation.sequences.real import RealCluster
from tests.simulation.sequences.sequence import S
from tests.simulation.sequences.simulated import SimulatedCluster

TESTED = ("0.8.2.2", "2.8.2")  # by `make test`; the others by `make faults`
OTHERS = ("0.9.0.1", "0.10.2.2", "0.11.0.3", "3.9.1", "4.3.1")
BEFORE_PRODUCERS = ("0.8.2.2", "0.9.0.1", "0.10.2.2")


@pytest.mark.parametrize(
    "release",
    [
        *(pytest.param(one, marks=pytest.mark.real) for one in TESTED),
        *(pytest.param(one, marks=pytest.mark.faults) for one in OTHERS),
    ],
)
def test_a_simulated_broker_answers_as_a_real_one(release: str) -> None:
    profile = replace(S, settings={**S.settings, **twins.SETTINGS})
    asked = [twins.formats, twins.errors, twins.settings]
    if release not in BEFORE_PRODUCERS:
        asked += [twins.producers, twins.transactions]
    wrong = []
    with RealCluster(release, profile) as real, SimulatedCluster(release, profile) as simulated:
        for facts in asked:
            now_ms = real.time_of_day_ms() - 60_000
            right, found = facts(real, now_ms), facts(simulated, now_ms)
            for what, seen in right.items():
                if found.get(what) != seen:
                    wrong.append(f"{facts.__name__}, {what}:\n  real      {seen}\n  simulated {found.get(what)}")
    assert not wrong, "\n".join(wrong)
