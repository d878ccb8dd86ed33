"""An audit of the owner nodes on the timer: bounded requests, and what is gone or foreign is found all the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kafkawire.model import TopicPartition
from kafkawire.znodes import v08 as znodes
from zkconsumer.group.claims import AUDIT_NODES, AUDIT_SHARE, Claims
from zkconsumer.group.rebalance import ClaimingMember
from zkconsumer.member.machine import begin, step
from zkconsumer.member.steps import Do, Finished, GroupRead, OwnerLost
from zkconsumer.session.zkcalls import Node, WriteOutcome

OURS, OTHERS = 7, 8


class Session:
    """ZooKeeper as a dictionary of owner nodes, which counts what it is asked for; its watches never fire."""

    session_id = OURS

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.asked = 0

    def create(self, nodes: dict[str, bytes], ephemeral: bool, session_id: int) -> dict[str, WriteOutcome]:
        self.nodes |= {path: Node(data, 0, session_id) for path, data in nodes.items()}
        return dict.fromkeys(nodes, WriteOutcome.DONE)

    def read(
        self, paths: Iterable[str], watch: Any = None, session_id: int | None = None, closed: Any = None
    ) -> dict[str, Node | None]:
        return {path: self.nodes.get(path) for path in paths}

    def stat(self, paths: Iterable[str], watch: Any = None, session_id: int | None = None) -> dict[str, Node | None]:
        found = self.read(paths)
        self.asked += len(found)
        return found

    def children(self, path: str, session_id: int | None = None) -> list[str]:
        return sorted({node.split("/")[4] for node in self.nodes})

    def lists(self, paths: Iterable[str], watch: Any, session_id: int) -> dict[str, list[str]]:
        return {path: [node.rpartition("/")[2] for node in self.nodes if node.startswith(f"{path}/")] for path in paths}

    def delete(self, nodes: dict[str, int], session_id: int) -> None:
        for path in nodes:
            del self.nodes[path]


class World:
    def __init__(self, partitions: int) -> None:
        self.session, self.lost = Session(), list[TopicPartition]()
        self.tps = [TopicPartition(f"t{n // 10}", n % 10) for n in range(partitions)]
        session: Any = self.session
        self.claims = Claims(session, znodes, "g", on_lost=self.lost.append, on_free=lambda: None)
        assert self.claims.claim(dict.fromkeys(self.tps, "g_m-0")) == {}
        self.session.asked = 0

    def path(self, tp: TopicPartition) -> str:
        return znodes.owner("g", tp)

    def audit(self) -> set[TopicPartition]:
        """As the member does on the timer."""
        self.lost.clear()
        found = self.claims.lost(self.claims.some_in_turn())
        self.claims.sweep()
        return found | set(self.lost)


@pytest.mark.parametrize("partitions", [1, AUDIT_NODES, 2 * AUDIT_NODES, 1993])
def test_each_owner_node_is_asked_for_in_turn_and_few_at_once(partitions: int) -> None:
    world, seen = World(partitions), set[TopicPartition]()
    for _ in range(AUDIT_SHARE):
        some = world.claims.some_in_turn()
        assert 0 < len(some) <= max(AUDIT_NODES, partitions // AUDIT_SHARE + 1)
        seen |= set(some)
    assert seen == set(world.tps)
    assert world.audit() == set()
    assert world.session.asked <= max(AUDIT_NODES, partitions // AUDIT_SHARE + 1)


def test_a_node_that_is_gone_is_found_by_the_next_audit() -> None:
    world = World(1000)
    gone = world.tps[777]
    del world.session.nodes[world.path(gone)]
    assert world.audit() == {gone}


def test_a_node_of_another_session_is_found_once_its_turn_comes() -> None:
    world = World(1000)
    theirs = world.tps[777]
    world.session.nodes[world.path(theirs)] = Node(b"g_other-0", 0, OTHERS)
    found: set[TopicPartition] = set()
    for _ in range(AUDIT_SHARE):
        found |= world.audit()
    assert found == {theirs}
    assert world.claims.lost() == {theirs}  # after a reconnect all are asked for at once


def test_a_node_of_our_session_that_we_do_not_hold_is_deleted() -> None:
    world = World(100)
    orphan = TopicPartition("t3", 77)
    world.session.nodes[world.path(orphan)] = Node(b"g_m-0", 0, OURS)
    assert world.claims.sweep() == [world.path(orphan)]
    assert world.path(orphan) not in world.session.nodes
    assert world.lost == []


class LosesOne(Session):
    """One node is taken away, with its watch, while those behind it are still being watched."""

    taken = ""
    touched: Any = None

    def stat(self, paths: Iterable[str], watch: Any = None, session_id: int | None = None) -> dict[str, Node | None]:
        found = super().stat(paths, watch, session_id)
        if self.taken in found:
            self.nodes[self.taken] = Node(b"g_other-0", 0, OTHERS)
            self.taken = ""
            watch(next(path for path in found if self.nodes[path].owner == OTHERS), True)
        return found


@pytest.mark.parametrize("keep", [False, True])
def test_a_node_that_is_lost_while_it_is_claimed_is_not_held(keep: bool) -> None:
    session, tps = LosesOne(), [TopicPartition("t", n) for n in range(3)]
    lost: list[TopicPartition] = []
    given: Any = session
    claims = Claims(given, znodes, "g", on_lost=lost.append, on_free=lambda: None)
    session.taken = znodes.owner("g", tps[1])
    contested = claims.claim(dict.fromkeys(tps, "g_m-0"), keep)
    assert set(contested) == {tps[1]}
    assert set(claims.held) == ({tps[0], tps[2]} if keep else set())
    assert claims.lost() == set()
    assert lost == []  # who claims hears of it by the answer


def test_a_partition_that_was_lost_before_its_claim_is_reported_is_held_no_more() -> None:
    """Else every audit would report its new owner's node as taken from us."""
    world = World(1)
    (tp,) = world.tps
    state, _ = begin(ClaimingMember(3, 1000))
    state, (read,) = step(state, Finished(state.turn))
    state, (claim,) = step(state, GroupRead(read.turn, {tp: "g_m-0"}))
    world.session.nodes[world.path(tp)] = Node(b"g_other-0", 0, OTHERS)
    state, _ = step(state, OwnerLost(frozenset([tp])))
    state, actions = step(state, Finished(claim.turn))
    for action in actions:
        if action.do is Do.DROP:
            world.claims.forget(action.assignment)
    assert state.owned == world.claims.held == {}
    assert world.audit() == set()
