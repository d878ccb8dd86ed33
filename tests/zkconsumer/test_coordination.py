"""Who coordinates a group: no member starts on one side while the other side has members, or was handed the group."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost
from kafkawire.model import TopicPartition
from tests.fakes.znodes import FakeSession, FakeZookeeper
from zkconsumer.offsets.coordination import (
    ByKafka,
    StillInZooKeeper,
    check_copied,
    check_joining,
    check_registering,
    must_have_left_zookeeper,
    must_not_be_kafkas,
)
from zkconsumer.offsets.coordinator import GroupState
from zkconsumer.offsets.migrationmarker import Marker, Phase, marker_path, marker_text
from zkconsumer.offsets.store import NONE

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS = {"/brokers/topics/__consumer_offsets": b'{"partitions": {"0": [1]}}'}


def marker(phase: Phase) -> Marker:
    return Marker("0123456789abcdef", phase, 1)


def world(nodes: dict[str, bytes] | None = None, phase: Phase | None = None) -> Any:
    zk = FakeZookeeper({**OFFSETS, **(nodes or {})})
    if phase is not None:
        zk.set(marker_path("g"), marker_text(marker(phase)).encode())
    return FakeSession(zk)


class Asked:
    """A coordinator with these members; why: it does not answer."""

    def __init__(self, *members: str, why: str = "") -> None:
        self.members, self.why, self.times = members, why, 0

    def __call__(self) -> Any:
        return self

    def describe(self, group: str) -> GroupState:
        self.times += 1
        if self.why:
            raise LinkLost(self.why)
        return GroupState("Stable", "consumer", tuple((member, "client", "/127.0.0.1") for member in self.members))


# joining at the brokers -----------------------------------------------------------------------------------------------


def test_nothing_in_zookeeper_lets_a_member_join():
    must_have_left_zookeeper(world(), dialect("2.8"), "g")


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (
            {"/consumers/g/ids/g_a-1-1": b"{}", "/consumers/g/ids/g_b-1-1": b"{}"},
            "has member g_a-1-1 and 1 more in",
        ),
        ({"/consumers/g/owners/t/0": b"g_a-1-1-0"}, "has owners of 1 partition in ZooKeeper"),
    ],
)
def test_members_and_owners_in_zookeeper_refuse_it(nodes: dict[str, bytes], said: str):
    with pytest.raises(StillInZooKeeper, match=said) as refused:
        must_have_left_zookeeper(world(nodes, Phase.HANDOVER), dialect("2.8"), "g")
    assert "zkconsumer migrate handover" in str(refused.value)


@pytest.mark.parametrize("phase", Phase)
def test_a_migration_lets_it_join_from_the_handover_on(phase: Phase):
    if phase in (Phase.HANDOVER, Phase.COORDINATED):
        check_joining("g", marker(phase), ())
        return
    with pytest.raises(StillInZooKeeper, match=f"phase {phase}"):
        must_have_left_zookeeper(world(phase=phase), dialect("2.8"), "g")


def test_a_marker_that_cannot_be_read_lets_nobody_join():
    with pytest.raises(StillInZooKeeper, match="not a migration marker"):
        must_have_left_zookeeper(world({marker_path("g"): b"?"}), dialect("2.8"), "g")


def test_offsets_that_kafka_has_not_let_nobody_join():
    check_copied("g", {A: 7, B: 0})
    with pytest.raises(StillInZooKeeper, match=r"offsets of 1 partition but Kafka has none of them, the first t/1"):
        check_copied("g", {A: 7, B: NONE})


# registering in ZooKeeper ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", Phase)
def test_a_group_that_was_handed_over_is_not_registered_in(phase: Phase):
    asked = Asked()
    if phase in (Phase.HANDOVER, Phase.COORDINATED):
        with pytest.raises(ByKafka, match=f"phase {phase}"):
            must_not_be_kafkas(world(phase=phase), dialect("0.8.2"), "g", asked, print)
    else:
        must_not_be_kafkas(world(phase=phase), dialect("0.8.2"), "g", asked, print)
    assert asked.times == 0  # 0.8.2 coordinates nobody


def test_members_that_kafka_coordinates_refuse_it():
    with pytest.raises(ByKafka, match="has member c-1 and 1 more that Kafka coordinates"):
        must_not_be_kafkas(world(), dialect("2.8"), "g", Asked("c-1", "c-2"), print)
    check_registering("g", None, ())


def test_a_coordinator_that_does_not_answer_refuses_nobody_and_is_reported():
    said: list[str] = []
    must_not_be_kafkas(world(), dialect("2.8"), "g", Asked(why="broker 1: silent"), said.append)
    assert said == ["whether group g has members that Kafka coordinates is not known: broker 1: silent"]


def test_nobody_is_asked_before_there_is_a_topic_of_offsets():
    asked = Asked("c-1")
    must_not_be_kafkas(FakeSession(FakeZookeeper({})), dialect("2.8"), "g", asked, print)  # type: ignore[arg-type]
    assert asked.times == 0
