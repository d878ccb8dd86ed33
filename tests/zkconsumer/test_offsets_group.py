"""A member's store: which store counts in which mode, and what is never passed over in silence."""

from __future__ import annotations

import pytest

from kafkawire.model import TopicPartition
from tests.fakes.stores import MemoryOffsets, held
from zkconsumer.offsets.group import GroupOffsets
from zkconsumer.offsets.modes import StoreCommit
from zkconsumer.offsets.store import NONE, Unknown

A, B, C = (TopicPartition("orders", n) for n in range(3))


class World:
    def __init__(self, mode, copy=False) -> None:
        self.journal: list = []
        self.zookeeper, self.kafka = MemoryOffsets("zookeeper", self.journal), MemoryOffsets("kafka", self.journal)
        self.told: list[str] = []
        self.commits = 0
        self.store = GroupOffsets(
            mode,
            self.zookeeper,
            self.kafka,
            copy=copy,
            bounds=lambda tps: {},
            report=lambda tp, sentence: self.told.append(sentence),
            on_commit=self._committed,
        )

    def _committed(self) -> None:
        self.commits += 1

    def fill(self, zookeeper, kafka) -> None:
        self.zookeeper.held |= {("g", tp): at for tp, at in zookeeper.items()}
        self.kafka.held |= {("g", tp): at for tp, at in kafka.items()}


@pytest.mark.parametrize(
    ("mode", "found", "written"),
    [
        ("zookeeper", {A: 5, B: NONE}, ["zookeeper"]),
        ("dual", {A: 7, B: 9}, ["kafka", "zookeeper"]),
        ("kafka", {A: 7, B: 9}, ["kafka"]),
    ],
)
def test_each_mode_reads_and_writes_its_own_stores(mode, found, written):
    world = World(mode)
    world.fill({A: 5}, {A: 7, B: 9})
    assert world.store.read("g", [A, B]) == found
    assert world.store.commit("g", {A: 8, B: 9}, held()) == {A: None, B: None}
    assert [name for name, _, _ in world.journal] == written
    assert world.commits == 1
    counts = {row.store: row.accepted for row in world.store.status.stores}
    assert counts == {name: 2 if name in written else 0 for name in ("zookeeper", "kafka")}


def test_on_zookeeper_alone_kafka_is_not_even_asked():
    world = World("zookeeper")
    world.kafka.away = AssertionError("asked")  # type: ignore[assignment]
    world.fill({A: 5}, {})
    assert world.store.read("g", [A]) == {A: 5}


def test_what_zookeeper_alone_holds_is_not_read_from_the_reset_policy():
    world = World("kafka")
    world.fill({A: 5, B: 6, C: Unknown("no number")}, {B: 4})
    found = world.store.read("g", [A, B, C])
    assert isinstance(found[A], Unknown)
    assert found[A].reason.startswith("group g: ZooKeeper has 5 for orders/0 and Kafka nothing: ")
    assert "offsets.migrate.on.start=copy" in found[A].reason
    assert (found[B], found[C]) == (4, Unknown("no number"))  # B: ZooKeeper's is of the day it was left


def test_what_zookeeper_alone_holds_is_taken_over_when_asked_for_and_told():
    world = World("kafka", copy=True)
    world.fill({A: 5}, {B: 4})
    assert world.store.read("g", [A, B, C]) == {A: 5, B: 4, C: NONE}
    assert world.told == ["group g, orders/0: Kafka has no offset, so 5 is copied from ZooKeeper"]
    assert world.store.out_of_sync == {A}
    world.store.commit("g", {A: 5}, held())
    assert (world.kafka.held["g", A], world.store.out_of_sync) == (5, set())


def test_what_zookeeper_holds_is_taken_over_only_where_kafka_asked_again_has_none():
    world = World("kafka", copy=True)
    world.fill({A: 5, B: 6, C: 7}, {})
    asked = []

    def beside(group, there, others):
        asked.append((there, others))
        return {A: 60, B: Unknown("its log cannot be read"), C: NONE}

    world.store._read_beside = beside
    assert world.store.read("g", [A, B, C]) == {A: 60, B: Unknown("its log cannot be read"), C: 7}
    assert world.store.out_of_sync == {C}
    assert asked == [({A: 5, B: 6, C: 7}, False)]


def test_stores_that_differ_are_known_until_both_are_written():
    world = World("dual")
    world.fill({A: 5, B: 6}, {A: 7, B: 6})
    world.store.read("g", [A, B, C])
    assert world.store.out_of_sync == {A}
    world.zookeeper.refuse[A] = OSError("away")
    assert world.store.commit("g", {A: 7, B: 6}, held())[A] is world.zookeeper.refuse[A]
    assert world.store.out_of_sync == {A}
    del world.zookeeper.refuse[A]
    world.store.commit("g", {A: 7, B: 6}, held())
    assert world.store.out_of_sync == set()


def test_what_the_store_that_is_to_count_alone_lacks():
    world = World("dual")
    world.fill({A: 5, B: 6}, {A: 7, C: 1})
    assert sorted(world.store.missing_offsets("g", [A, B, C], "kafka")) == [B]
    assert sorted(world.store.missing_offsets("g", [A, B, C], "zookeeper")) == [A, C]
    assert world.store.missing_offsets("g", [A, B, C], "dual") == {}


def test_a_failed_commit_is_counted_and_is_not_the_last_one():
    world = World("dual")
    world.kafka.refuse[A] = OSError("away")
    world.store.commit("g", {A: 5, B: 1}, held())
    zookeeper, kafka = world.store.status.stores
    assert (zookeeper.accepted, zookeeper.failed, kafka.accepted, kafka.failed) == (1, 0, 1, 1)
    assert isinstance(world.store.published.kafka, StoreCommit)
    assert world.store.published.mode == "dual"
    assert ("g", A) not in world.zookeeper.held
