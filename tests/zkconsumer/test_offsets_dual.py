"""Both stores: the larger counts, what cannot be read is Unknown, and ZooKeeper is given what Kafka accepted."""

from __future__ import annotations

import pytest

from groundwork import failpoints
from groundwork.failpoints import FailpointReached
from kafkawire.model import TopicPartition
from tests.fakes.stores import MemoryOffsets, held
from zkconsumer.errors import ConsumerError, ForeignWrite, ZooKeeperAway
from zkconsumer.offsets.dual import BETWEEN, DualOffsets, HalfWritten
from zkconsumer.offsets.kafka import OffsetsAway
from zkconsumer.offsets.store import NONE, Committed, Unknown
from zkconsumer.refusals import refusal
from zkconsumer.session.lease import Lease, LeaseOver

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FAILED = Unknown("t/0 on broker 1: UnknownTopicOrPartition (3)")
GARBAGE = Unknown("offset node /consumers/g/offsets/t/0 holds 'x'")


class Both:
    """A dual store over two in memory, and what it told."""

    def __init__(self, kafka: Committed = NONE, zookeeper: Committed = NONE, log: tuple[int, int] | None = (0, 1000)):
        self.journal: list[tuple[str, str, dict[TopicPartition, int]]] = []
        self.kafka = MemoryOffsets("kafka", self.journal)
        self.zookeeper = MemoryOffsets("zookeeper", self.journal)
        self.kafka.held["g", T0], self.zookeeper.held["g", T0] = kafka, zookeeper
        self.told: list[str] = []
        self.asked: list[list[TopicPartition]] = []
        self.log = log
        self.store = DualOffsets(
            self.kafka, self.zookeeper, bounds=self.bounds, report=lambda tp, text: self.told.append(text)
        )

    def bounds(self, tps):  # type: ignore[no-untyped-def]
        self.asked.append(list(tps))
        return dict.fromkeys(self.asked[-1], self.log) if self.log else {}

    def read(self) -> Committed:
        return self.store.read("g", [T0])[T0]


# coordination.md 4.2, with our answers where the JVM's lose data: a partition's error in Kafka is waited out by the
# coordinator (14) or Unknown, and never "what ZooKeeper has" or "nothing".
TABLE: list[tuple[Committed, Committed, Committed]] = [
    # ZooKeeper, Kafka, where it begins
    (100, NONE, 100),
    (100, 150, 150),
    (150, 100, 150),
    (NONE, 70, 70),
    (NONE, NONE, NONE),
    (0, NONE, 0),
    (NONE, 0, 0),
    (100, FAILED, FAILED),
    (NONE, FAILED, FAILED),
    (GARBAGE, 100, GARBAGE),
    (GARBAGE, NONE, GARBAGE),
    (GARBAGE, FAILED, FAILED),
]


@pytest.mark.parametrize(("zookeeper", "kafka", "begins"), TABLE)
def test_where_a_partition_begins(zookeeper: Committed, kafka: Committed, begins: Committed):
    assert Both(kafka, zookeeper).read() == begins


def test_a_store_that_cannot_be_asked_is_an_error_and_not_nothing():
    both = Both(kafka=NONE, zookeeper=100)
    both.kafka.away = OffsetsAway("no coordinator")
    with pytest.raises(OffsetsAway):
        both.read()
    both = Both(kafka=100)
    both.zookeeper.away = ZooKeeperAway("no session")
    with pytest.raises(ZooKeeperAway):
        both.read()


@pytest.mark.parametrize(
    ("kafka", "zookeeper", "log"),
    [(500, 20, (0, 30)), (20, 500, (0, 30)), (40, 20, (50, 90))],
    ids=["topic made anew", "only ZooKeeper is stale", "both before the log"],
)
def test_a_larger_position_outside_the_log_is_handed_on_and_told(kafka: int, zookeeper: int, log: tuple[int, int]):
    both = Both(kafka, zookeeper, log)
    assert both.read() == max(kafka, zookeeper)  # the fetch finds it out of range; no silent clamp
    (told,) = both.told
    assert f"group g, t/0: Kafka has {kafka} and ZooKeeper {zookeeper}" in told
    assert f"the log holds {log[0]} to {log[1]}" in told


@pytest.mark.parametrize("log", [(0, 150), (150, 150), None])
def test_nothing_is_told_where_the_larger_is_in_the_log_or_nobody_knows(log: tuple[int, int] | None):
    both = Both(150, 100, log)
    assert both.read() == 150
    assert both.told == []


@pytest.mark.parametrize(("kafka", "zookeeper"), [(100, 100), (NONE, 100), (100, NONE), (FAILED, 100)])
def test_logs_are_asked_only_where_the_stores_disagree(kafka: Committed, zookeeper: Committed):
    both = Both(kafka, zookeeper)
    both.read()
    assert both.asked == []


def test_kafka_is_written_first_and_with_every_partition():
    both = Both()
    assert both.store.commit("g", {T0: 5, T1: 6}, held()) == {T0: None, T1: None}
    assert both.journal == [("kafka", "g", {T0: 5, T1: 6}), ("zookeeper", "g", {T0: 5, T1: 6})]


def test_zookeeper_is_given_only_what_kafka_accepted():
    both = Both()
    both.kafka.refuse[T0] = ConsumerError("no")
    found = both.store.commit("g", {T0: 5, T1: 6}, held())
    assert (str(found[T0]), found[T1]) == ("no", None)
    assert both.journal[1:] == [("zookeeper", "g", {T1: 6})]
    both.kafka.refuse[T1] = ConsumerError("no")
    both.store.commit("g", {T0: 5, T1: 6}, held())
    assert [name for name, _, _ in both.journal] == ["kafka", "zookeeper", "kafka"]


def test_a_commit_counts_only_when_both_have_it():
    both = Both()
    foreign = ForeignWrite("g", T0, 7, 5)
    both.zookeeper.refuse[T0] = foreign
    assert both.store.commit("g", {T0: 5, T1: 6}, held()) == {T0: foreign, T1: None}


def test_nothing_is_written_once_the_lease_is_over():
    both = Both(kafka=1, zookeeper=1)
    assert isinstance(both.store.commit("g", {T0: 5}, Lease())[T0], LeaseOver)
    assert both.kafka.held["g", T0] == both.zookeeper.held["g", T0] == 1


def test_a_crash_between_the_two_leaves_zookeeper_behind_and_the_larger_counts():
    both = Both(kafka=10, zookeeper=10)
    failpoints.arm(f"{BETWEEN}=raise")
    try:
        with pytest.raises(FailpointReached):
            both.store.commit("g", {T0: 20}, held())
    finally:
        failpoints.arm("")
    assert (both.kafka.held["g", T0], both.zookeeper.held["g", T0]) == (20, 10)
    assert both.read() == 20


def test_a_rewind_is_written_to_both_or_it_would_not_count():
    both = Both(kafka=90, zookeeper=80)
    assert both.store.write_both("g", {T0: 5}, held()) == {T0: None}
    assert both.read() == 5


def test_half_a_rewind_says_which_store_has_it():
    both = Both(kafka=90, zookeeper=90)
    both.zookeeper.refuse[T0] = ZooKeeperAway("the connection was lost")
    failed = both.store.write_both("g", {T0: 5}, held())[T0]
    assert isinstance(failed, HalfWritten)
    assert "t/0: 5 was written to Kafka and not to ZooKeeper (the connection was lost)" in str(failed)
    assert both.read() == 90
    both.kafka.refuse[T0] = ConsumerError("no")
    assert str(both.store.write_both("g", {T0: 6}, held())[T0]) == "no"


def test_half_a_rewind_that_kafka_may_show_later_says_so():
    both = Both(kafka=90, zookeeper=90)
    both.kafka.refuse[T0] = refusal(7, None, T0, 5, "g")
    failed = both.store.write_both("g", {T0: 5}, held())[T0]
    assert isinstance(failed, HalfWritten)
    assert "t/0: 5 may be written to Kafka and was not written to ZooKeeper" in str(failed)
    both.kafka.refuse[T0] = refusal(12, None, T0, 5, "g")
    assert not isinstance(both.store.write_both("g", {T0: 5}, held())[T0], HalfWritten)


def test_what_zookeeper_held_when_the_group_left_it_does_not_count_though_it_be_larger():
    both = Both(kafka=100, zookeeper=1000)  # on Kafka alone somebody went back to 100
    left = True
    store = DualOffsets(
        both.kafka,
        both.zookeeper,
        bounds=both.bounds,
        report=lambda tp, text: both.told.append(text),
        left_zookeeper=lambda g: left,
    )
    assert store.read("g", [T0]) == {T0: 100}
    assert store.out_of_sync == {T0}  # so that both are written soon
    assert "from before a migration took the group off it" in both.told[0]
    both.kafka.held["g", T0] = 1500
    assert store.read("g", [T0]) == {T0: 1500}
    both.kafka.held["g", T0] = NONE
    assert store.read("g", [T0]) == {T0: 1000}  # Kafka has none: there is nothing better
    left = False
    both.kafka.held["g", T0] = 100
    assert store.read("g", [T0]) == {T0: 1000}
