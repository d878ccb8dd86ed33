"""Real brokers answer the sequences as the tables say, and so do simulated ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.simulation.sequences import ALL, RELEASES
from tests.simulation.sequences.real import RealCluster
from tests.simulation.sequences.sequence import Profile, S, Sequence, watched
from tests.simulation.sequences.simulated import SimulatedCluster

Real = Callable[[str, Profile], RealCluster]
TESTED = ("0.8.2.2", "2.8.2")  # by `make test`


@pytest.mark.parametrize("release", RELEASES)
def test_simulated_brokers_answer_as_the_tables_say(release: str) -> None:
    """All sequences of a release, those of a profile on one cluster, with what the ones before have left behind."""
    wrong = []
    for profile in dict.fromkeys(each.profile for each in ALL.values()):
        some = [each for each in ALL.values() if each.profile is profile and each.says_something_about(release)]
        with SimulatedCluster(release, profile) as cluster:
            for each in some:
                wrong += [f"{each.key} {said}" for said in watched(each, cluster).wrong]
    assert not wrong, "\n".join(wrong)


@pytest.mark.real
@pytest.mark.parametrize("release", TESTED)
def test_a_real_broker_answers_as_the_tables_say(release: str) -> None:
    """All sequences of one broker that need no long wait, on one cluster."""
    wrong = []
    with RealCluster(release, S) as cluster:
        for each in _of(release, S, quick=True):
            wrong += [f"{each.key} {said}" for said in watched(each, cluster).wrong]
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="module")
def real() -> Iterator[Real]:
    """real(release, profile): the cluster of a profile; one at a time."""
    running: dict[tuple[str, str], RealCluster] = {}

    def of(release: str, profile: Profile) -> RealCluster:
        wanted = (release, profile.name)
        if wanted not in running:
            end()
            running[wanted] = RealCluster(release, profile).__enter__()
        return running[wanted]

    def end() -> None:
        while running:
            running.popitem()[1].__exit__(None, None, None)

    yield of
    end()


def _of(release: str, profile: Profile, quick: bool) -> list[Sequence]:
    tested = profile is S and release in TESTED
    some = [each for each in ALL.values() if each.profile is profile and each.says_something_about(release)]
    return [each for each in some if (tested and not each.slow) == quick]


def _long() -> list[tuple[str, str]]:
    """Release and sequence of `make faults`, those of one cluster beside each other."""
    return [
        (release, each.key)
        for release in RELEASES
        for profile in dict.fromkeys(each.profile for each in ALL.values())
        for each in _of(release, profile, quick=False)
    ]


@pytest.mark.faults
@pytest.mark.parametrize(("release", "key"), _long())
def test_real_brokers_answer_as_the_tables_say(real: Real, release: str, key: str) -> None:
    assert not watched(ALL[key], real(release, ALL[key].profile)).wrong
