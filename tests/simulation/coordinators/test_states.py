"""Answers by the state of a group, as broker-model-coordinators.md 2.3 and 3.4 have them in their tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.coordinators.bench import Bench
from tests.simulation.sequences.client import Client, Joined

RELEASES = ("0.9.0.1", "0.10.2.2", "1.1.1", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "3.9.1", "4.0.0")
Number = tuple[int, ...]


class Group:
    """A group whose first member is in a state.  g: its generation."""

    def __init__(self, release: str, state: str) -> None:
        self.bench = bench = Bench(release)
        self.at = bench.at()
        self.one, self.two = bench.client, Client(bench.cluster)
        self.member = Joined(0, 1, "none", "none", [])
        if state == "absent":
            return
        self.member = bench.member(self.at, session_s=30)
        if state == "Empty":
            assert self.one.leave(self.at, "g", self.member.member).get() == 0
        if state in ("Preparing", "Completing"):
            joining = self.two.join(self.at, "g")
            bench.cluster.wait(0.1)
            if state == "Completing":
                self.member = self.one.join(self.at, "g", self.member.member).get()
                assert joining.get().code == 0

    def heartbeat(self, member: str, generation: int) -> int:
        return self.one.heartbeat(self.at, "g", generation, member).get()

    def commit(self, member: str, generation: int) -> int:
        codes = self.one.commit(self.at, "g", {("t", 0): 5}, generation=generation, member=member).get()
        return codes["t", 0]


def _number(release: str) -> Number:
    return tuple(int(part) for part in release.split("."))


def _beats(r: Number) -> dict[str, tuple[int, int, int]]:
    """Code of a heartbeat by state: of an unknown member, of a wrong generation, of the member as it is."""
    old = r < (0, 10)
    syncing_ok = 0 if r >= (2, 6) else 27
    return {
        "absent": (25, 25, 25),
        "Empty": (25, 25, 25),
        "Preparing": (27, 27, 27) if old else (25, 22, 27),
        "Completing": (27, 27, 27) if old else (25, 22 if r >= (2, 3) else 27, syncing_ok),
        "Stable": (25, 22, 0),
    }


def _commits(r: Number) -> dict[str, tuple[int, int, int, int]]:
    """Code of a commit by state: without membership, of an unknown member, of a wrong generation, of the member."""
    first = r < (2, 4)  # the state decides before the member is looked up
    return {
        "absent": (0, 22, 22, 22),
        "Empty": (0, 22, 22, 22) if r < (0, 10) else (0, 25, 25, 25),
        "Preparing": (25, 25, 22, 0),
        "Completing": (27, 27, 27, 27) if first else (25, 25, 22, 27),
        "Stable": (25, 25, 22, 0),
    }


def _seen(ask: Callable[[str, int], int], member: Joined) -> tuple[int, int, int]:
    g = member.generation
    return ask("nobody", g), ask(member.member, g + 5), ask(member.member, g)


@pytest.mark.parametrize("state", ["absent", "Empty", "Preparing", "Completing", "Stable"])
@pytest.mark.parametrize("release", RELEASES)
def test_heartbeats_and_commits_are_answered_by_state_and_release(release: str, state: str) -> None:
    group, number = Group(release, state), _number(release)
    assert _seen(group.heartbeat, group.member) == _beats(number)[state]
    stranger, wrong, own = _seen(group.commit, group.member)
    assert (group.commit("", -1), stranger, wrong, own) == _commits(number)[state]


@pytest.mark.parametrize(("release", "alive"), [("0.9.0.1", False), ("0.10.2.2", True), ("4.0.0", True)])
def test_a_commit_keeps_its_member_alive_except_in_09(release: str, alive: bool) -> None:
    group = Group(release, "absent")
    member = group.bench.member(group.at, session_s=6)
    for _ in range(4):
        group.bench.cluster.wait(4)
        group.commit(member.member, member.generation)
    assert (group.heartbeat(member.member, member.generation) == 0) == alive


def test_a_member_that_does_not_sync_is_removed_since_28() -> None:
    for release, left in (("2.7.2", 1), ("2.8.2", 0)):
        bench = Bench(release)
        at = bench.at()
        joined = bench.client.join(at, "g", session_s=30, rebalance_s=2).get()
        for _ in range(3):
            bench.cluster.wait(1)
            bench.client.heartbeat(at, "g", joined.generation, joined.member).get()
        assert len(bench.client.described(at, "g").get().members) == left


def test_the_first_rebalance_waits_for_more_members_as_long_as_they_come() -> None:
    bench = Bench("2.8.2", settings={"group.initial.rebalance.delay.ms": "3000"})
    at = bench.at()
    asked = []
    for _ in range(3):
        asked.append(Client(bench.cluster).join(at, "g", rebalance_s=60))
        bench.cluster.wait(2)
    generations = {each.get().generation for each in asked}
    assert generations == {1}
    assert 8 < asked[0].took_s < 10
