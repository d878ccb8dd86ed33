"""What coordinators do beside the twenty sequences: retention, loads that fail or read less, zombies, hanging offsets,
moves.  broker-model-coordinators.md has the section of each."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.model import TopicPartition
from tests.simulation.coordinators.bench import Bench
from tests.simulation.coordinators.host import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.simulation.coordinators.records import batches, encode
from tests.simulation.sequences.client import Joined, Producer, numbered
from zkconsumer.offsetlog import OffsetLog
from zkconsumer.offsets.store import NONE

DAY_S = 86_400.0

# ---- retention and expiry (2.7, 4.4) --------------------------------------------------------------------------------


def _soon(**more: str) -> dict[str, str]:
    """Retention that a test can wait for."""
    return {"offsets.retention.minutes": "2", "offsets.retention.check.interval.ms": "10000", **more}


@pytest.mark.parametrize(("release", "days"), [("0.8.2.2", 1), ("1.1.1", 1), ("2.0.1", 7), ("4.0.0", 7)])
def test_offsets_are_kept_for_a_day_and_later_for_a_week(release: str, days: int) -> None:
    bench = Bench(release)
    assert bench.node(bench.at()).commits.retention_ms == days * DAY_S * 1000


@pytest.mark.parametrize(("release", "kept"), [("0.8.2.2", False), ("1.1.1", False), ("2.1.1", True), ("3.9.1", True)])
def test_a_running_group_loses_the_offset_of_an_idle_partition_only_in_old_releases(release: str, kept: bool) -> None:
    bench = Bench(release, settings=_soon())
    at = bench.at()
    runs = release != "0.8.2.2"  # brokers know no members there
    member = bench.member(at, session_s=290) if runs else Joined(0, -1, "", "", [])
    who: dict[str, Any] = {"generation": member.generation, "member": member.member}
    assert bench.client.commit(at, "g", {("t", 0): 5}, **who).get()["t", 0] == 0
    for _ in range(3):
        bench.cluster.wait(60)
        assert bench.client.commit(at, "g", {("t", 1): 5}, **who).get()["t", 1] == 0
    assert bench.fetch(at=at, partition=1) == (0, 5)
    assert bench.fetch(at=at) == (0, 5 if kept else -1)


@pytest.mark.parametrize("release", ["2.0.1", "2.8.2", "3.9.1"])
def test_offsets_of_a_simple_consumer_expire(release: str) -> None:
    bench = Bench(release, settings=_soon())
    assert bench.commit(5) == 0
    bench.cluster.wait(110)
    assert bench.fetch() == (0, 5)
    bench.cluster.wait(30)
    assert bench.fetch() == (0, -1)


@pytest.mark.parametrize("release", ["2.1.1", "3.9.1"])
def test_offsets_of_a_group_count_from_when_it_lost_its_last_member(release: str) -> None:
    bench = Bench(release, settings=_soon())
    at = bench.at()
    member = bench.member(at, session_s=290)
    who: dict[str, Any] = {"generation": member.generation, "member": member.member}
    assert bench.client.commit(at, "g", {("t", 0): 5}, **who).get()["t", 0] == 0
    bench.cluster.wait(200)
    assert bench.client.leave(at, "g", member.member).get() == 0
    bench.cluster.wait(110)
    assert bench.fetch(at=at) == (0, 5)
    bench.cluster.wait(30)
    assert bench.fetch(at=at) == (0, -1)
    assert bench.client.described(at, "g").get().state == "Dead"


def test_an_offset_that_has_expired_is_gone_at_the_next_coordinator_too() -> None:
    bench = Bench("2.8.2", 3, settings=_soon())
    at = bench.at()
    bench.whole(OFFSETS_TOPIC)
    assert bench.commit(5, at=at) == 0
    bench.cluster.wait(140)
    assert bench.fetch(at=at) == (0, -1)
    bench.moved(OFFSETS_TOPIC, at % 3 + 1)
    assert bench.fetch(at=at % 3 + 1) == (0, -1)


def test_a_transactional_id_that_does_nothing_is_forgotten() -> None:
    checks = {"transaction.remove.expired.transaction.cleanup.interval.ms": "10000"}
    bench = Bench("2.8.2", settings={**checks, "transactional.id.expiration.ms": "60000"})
    at, producer = bench.producer()
    bench.cluster.wait(50)
    assert bench.client.end(at, "x", producer, commit=True).get() == 48
    bench.cluster.wait(30)
    assert bench.client.add_partitions(at, "x", producer, [("t", 0)]).get()["t", 0] == 49


def test_the_offsets_of_a_deleted_topic_are_gone_with_it() -> None:
    bench = Bench("2.8.2", settings={"delete.topic.enable": "true"})
    assert bench.commit(5) == 0
    bench.cluster.delete_topic("t")
    bench.cluster.wait(1)
    assert bench.fetch() == (0, -1)


# ---- loads (1.2, 2.8) -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "found"), [("0.8.2.2", -1), ("0.9.0.1", -1), ("0.10.2.2", -1), ("0.11.0.3", 13)])
def test_the_first_commit_of_a_partition_may_be_lost_where_a_load_stops_at_the_high_watermark(
    release: str, found: int
) -> None:
    bench = Bench(release, 3)
    at = bench.at()
    bench.whole(OFFSETS_TOPIC)
    assert bench.commit(13, at=at) == 0
    bench.inside.kill(at)
    others = [broker for broker in bench.cluster.brokers if broker != at]
    following = bench.at(brokers=others, other_than=at)
    assert bench.fetch(at=following) == (0, found)


@pytest.mark.parametrize(("release", "answer"), [("0.9.0.1", (0, -1)), ("2.8.2", (0, -1)), ("4.0.0", (16, -1))])
def test_a_coordinator_whose_load_failed_answers_from_what_it_had_read(release: str, answer: tuple[int, int]) -> None:
    bench = Bench(release, 3)
    at = bench.at()
    bench.whole(OFFSETS_TOPIC)
    assert bench.commit(5, at=at, partition=1) == 0
    assert bench.commit(6, at=at) == 0
    bench.cluster.wait(2)
    following = at % 3 + 1
    bench.coordination.hand.cut_loads[following, 0] = 1
    bench.moved(OFFSETS_TOPIC, following)
    assert bench.fetch(at=following) == answer
    if answer[0] == 0:
        assert bench.fetch(at=following, partition=1) == (0, 5)


@pytest.mark.parametrize(("release", "offset"), [("2.8.2", -1), ("3.9.1", 5)])
def test_a_record_of_a_later_release_fails_the_load_of_an_old_one(release: str, offset: int) -> None:
    bench = Bench(release, 3)
    at = bench.at()
    bench.whole(OFFSETS_TOPIC)
    of_later = encode(2, [(b"\0\3\0\1g", b"\0\0")], 0)
    bench.inside.brokers[at].append((OFFSETS_TOPIC, 0), of_later, -1, 5000, lambda code, base: None)
    assert bench.commit(5, at=at) == 0
    bench.cluster.wait(2)
    bench.moved(OFFSETS_TOPIC, at % 3 + 1)
    assert bench.fetch(at=at % 3 + 1) == (0, offset)


@pytest.mark.parametrize(
    ("release", "before", "commit", "heartbeat"),
    [("1.1.1", 16, 16, 16), ("2.7.2", 14, 14, 0), ("2.8.2", 16, 14, 0), ("4.0.0", 16, 14, 0)],
)
def test_a_coordinator_that_loads_answers_by_its_release(
    release: str, before: int, commit: int, heartbeat: int
) -> None:
    bench = Bench(release, 3)
    bench.coordination.hand.load_s = 1.0
    at = bench.at()
    bench.whole(OFFSETS_TOPIC)
    member = bench.member(at)
    bench.cluster.wait(2)
    following = at % 3 + 1
    seen: list[int] = []
    node = bench.node(following)
    elected = node.shards.elected

    def look(number: int, epoch: int) -> None:
        elected(number, epoch)
        seen.append(node.shards.refusal("g"))

    node.shards.elected = look  # type: ignore[method-assign]
    bench.moved(OFFSETS_TOPIC, following)
    who: dict[str, Any] = {"generation": member.generation, "member": member.member}
    assert seen == [before]
    assert bench.client.commit(following, "g", {("t", 0): 5}, **who).get()["t", 0] == commit
    assert bench.client.heartbeat(following, "g", member.generation, member.member).get() == heartbeat
    bench.cluster.wait(2)
    assert bench.client.heartbeat(following, "g", member.generation, member.member).get() == 0


# ---- zombies (1.3) --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "commit"), [("0.10.2.2", 7), ("2.8.2", 7), ("4.0.0", 15)])
def test_a_coordinator_that_is_cut_off_tells_its_members_that_all_is_well(release: str, commit: int) -> None:
    bench = Bench(release, 3)
    at = bench.at()
    bench.whole(OFFSETS_TOPIC)
    member = bench.member(at, session_s=30)
    who: dict[str, Any] = {"generation": member.generation, "member": member.member}
    assert bench.client.commit(at, "g", {("t", 0): 5}, **who).get()["t", 0] == 0
    bench.cluster.wait(2)
    bench.inside.isolate(at)
    others = [broker for broker in bench.cluster.brokers if broker != at]
    following = bench.at(brokers=others, other_than=at)
    assert bench.client.commit(following, "g", {("t", 0): 9}, **who).get()["t", 0] == 0
    assert bench.client.heartbeat(at, "g", member.generation, member.member).get() == 0
    assert bench.fetch(at=at) == (0, 5)
    assert bench.client.commit(at, "g", {("t", 0): 7}, **who).get()["t", 0] == commit
    assert bench.fetch(at=at) == (0, 5)
    assert bench.client.coordinator_now("g", broker=at).get() == (0, at)
    bench.inside.heal(at)
    bench.cluster.wait(5)
    assert bench.fetch(at=following) == (0, 9)
    assert bench.fetch(at=at)[0] == 16


@pytest.mark.parametrize(
    ("release", "answers"), [("2.8.2", {(0, 5), (0, -1), (16, -1)}), ("4.0.0", {(0, 5), (16, -1)})]
)
def test_a_fetch_that_meets_the_unload_may_find_nothing(release: str, answers: set[tuple[int, int]]) -> None:
    bench = Bench(release, 3)
    bench.coordination.hand.race_chance = 1.0
    at = bench.at()
    bench.whole(OFFSETS_TOPIC)
    assert bench.commit(5, at=at) == 0
    bench.cluster.wait(2)
    bench.cluster.move_leader(OFFSETS_TOPIC, 0, at % 3 + 1)
    seen = {bench.fetch(at=at) for _ in range(60)}
    assert seen == answers


# ---- pending commits (2.2, 2.5, 2.6) --------------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "code"), [("2.8.2", 88), ("4.0.0", 0)])
def test_a_commit_that_was_refused_for_its_metadata_leaves_its_partition_unstable(release: str, code: int) -> None:
    bench = Bench(release)
    at = bench.at()
    codes = bench.client.commit(at, "g", {("t", 0): (5, "m" * 4097), ("t", 1): (6, "")}).get()
    assert codes == {("t", 0): 12, ("t", 1): 0}
    assert bench.stable(at)[0] == code
    assert bench.commit(7, at=at) == 0
    assert bench.stable(at) == (0, 7)


def _transaction(bench: Bench) -> tuple[int, int, Producer]:
    """Coordinators of the id and of the group, and a producer with the group in its transaction."""
    at, producer = bench.producer()
    group_at = bench.at()
    assert bench.client.add_offsets(at, "x", producer, "g").get() == 0
    return at, group_at, producer


def test_offsets_of_a_transaction_are_visible_when_its_end_is_processed() -> None:
    bench = Bench("2.8.2")
    at, group_at, producer = _transaction(bench)
    assert bench.client.commit_in(group_at, "x", producer, "g", "t", 20).get()["t", 0] == 0
    assert bench.fetch(at=group_at) == (0, -1)
    assert bench.stable(group_at)[0] == 88
    assert bench.client.end(at, "x", producer, commit=True).get() == 0
    seen = {bench.stable(group_at) for _ in range(50)}
    assert seen == {(88, -1), (0, 20)}
    assert bench.fetch(at=group_at) == (0, 20)


@pytest.mark.parametrize(("release", "code", "then"), [("2.3.1", 0, 0), ("2.8.2", 0, 88), ("3.7.1", 48, 0)])
def test_offsets_that_come_behind_the_end_of_their_transaction_hang_before_they_were_verified(
    release: str, code: int, then: int
) -> None:
    bench = Bench(release)
    at, group_at, producer = _transaction(bench)
    assert bench.client.end(at, "x", producer, commit=True).get() == 0
    bench.cluster.wait(1)
    assert bench.client.commit_in(group_at, "x", producer, "g", "t", 20).get()["t", 0] == code
    bench.cluster.wait(100)
    if then:
        assert bench.stable(group_at)[0] == then
    assert bench.fetch(at=group_at) == (0, -1)
    if code == 0:  # the end of the next transaction of the id makes them visible
        assert bench.client.add_offsets(at, "x", producer, "g").get() == 0
        assert bench.client.end(at, "x", producer, commit=True).get() == 0
        bench.cluster.wait(1)
        assert bench.fetch(at=group_at) == (0, 20)


def test_a_plain_commit_that_is_written_later_beats_one_of_a_transaction() -> None:
    bench = Bench("2.8.2")
    at, group_at, producer = _transaction(bench)
    assert bench.client.commit_in(group_at, "x", producer, "g", "t", 20).get()["t", 0] == 0
    assert bench.commit(15, at=group_at) == 0
    assert bench.client.end(at, "x", producer, commit=True).get() == 0
    bench.cluster.wait(1)
    assert bench.fetch(at=group_at) == (0, 15)


def test_pending_offsets_of_a_transaction_survive_a_move_of_the_group() -> None:
    bench = Bench("2.8.2", 3)
    at, group_at, producer = _transaction(bench)
    assert bench.client.commit_in(group_at, "x", producer, "g", "t", 20).get()["t", 0] == 0
    bench.whole(OFFSETS_TOPIC)
    following = group_at % 3 + 1
    bench.moved(OFFSETS_TOPIC, following)
    assert bench.stable(following)[0] == 88
    assert bench.client.end(at, "x", producer, commit=True).get() == 0
    bench.cluster.wait(1)
    assert bench.fetch(at=following) == (0, 20)


# ---- transactions (4) -----------------------------------------------------------------------------------------------


def test_a_late_copy_of_an_end_commits_the_next_transaction_half_way() -> None:
    bench = Bench("2.8.2")
    at, producer = bench.producer()
    client = bench.client
    for number in (0, 1):
        assert client.add_partitions(at, "x", producer, [("t", 0)]).get()["t", 0] == 0
        data = numbered(producer, number, b"%d" % number, transactional=True)
        assert client.produce("t", data, acks=-1, transaction="x").get().code == 0
        assert client.end(at, "x", producer, commit=True).get() == 0  # in the second round: the copy of the first
        bench.cluster.wait(1)
    assert [value for _, value in client.fetch("t", 0, committed=True).get().values] == [b"0", b"1"]
    assert client.add_partitions(at, "x", producer, [("t", 1)]).get()["t", 1] == 0


def test_an_end_that_could_not_be_replicated_is_carried_out_by_the_next_coordinator_only() -> None:
    bench = Bench("2.8.2", 3)
    at, producer = bench.producer(timeout_ms=3000)
    client = bench.client
    bench.whole(TRANSACTIONS_TOPIC)
    assert client.add_partitions(at, "x", producer, [("t", 0)]).get()["t", 0] == 0
    data = numbered(producer, 0, b"a", transactional=True)
    assert client.produce("t", data, acks=-1, transaction="x").get().code == 0
    bench.cluster.wait(1)
    others = [broker for broker in bench.cluster.brokers if broker != at]
    for other in others:
        bench.inside.hold_fetches(other)
    asked = client.end(at, "x", producer, commit=True)
    assert asked.get(10) == 15
    for other in others:
        bench.inside.release_fetches(other)
    bench.cluster.wait(1)
    bench.moved(TRANSACTIONS_TOPIC, others[0])
    bench.cluster.wait(2)
    assert client.end(others[0], "x", producer, commit=True).get() == 0
    assert client.end(others[0], "x", producer, commit=False).get() == 48
    assert [value for _, value in client.fetch("t", 0, committed=True).get().values] == [b"a"]


def test_a_transaction_goes_on_at_the_next_coordinator_and_times_out_by_its_own_start() -> None:
    bench = Bench("2.8.2", 3)
    at, producer = bench.producer(timeout_ms=20_000)
    client = bench.client
    bench.whole(TRANSACTIONS_TOPIC)
    assert client.add_partitions(at, "x", producer, [("t", 0)]).get()["t", 0] == 0
    bench.cluster.wait(10)
    following = at % 3 + 1
    bench.moved(TRANSACTIONS_TOPIC, following)
    assert client.add_partitions(at, "x", producer, [("t", 1)]).get()["t", 1] == 16
    assert client.add_partitions(following, "x", producer, [("t", 1)]).get()["t", 1] == 0
    bench.cluster.wait(21)
    assert client.end(following, "x", producer, commit=True).get() == 90


@pytest.mark.parametrize(("release", "code"), [("3.5.1", 0), ("3.6.2", 48)])
def test_a_batch_whose_partition_is_not_in_the_transaction_is_refused_once_it_is_verified(
    release: str, code: int
) -> None:
    bench = Bench(release)
    _, producer = bench.producer()
    data = numbered(producer, 0, b"a", transactional=True)
    assert bench.client.produce("t", data, acks=-1, transaction="x").get().code == code


def test_the_last_caller_wins_a_transactional_id() -> None:
    bench = Bench("2.8.2")
    at, first = bench.producer()
    second = bench.initialized(at)
    assert (second.id, second.epoch) == (first.id, first.epoch + 1)
    assert bench.client.add_partitions(at, "x", first, [("t", 0)]).get()["t", 0] == 90
    third = bench.initialized(at)
    assert third.epoch == second.epoch + 1
    assert bench.client.end(at, "x", second, commit=True).get() == 90


# ---- offsets in ZooKeeper, and the same again -----------------------------------------------------------------------


def test_offsets_of_version_0_are_in_zookeeper_whatever_the_coordinator_has() -> None:
    bench = Bench("0.8.2.2")
    assert bench.commit(5) == 0
    codes = bench.client.commit(1, "g", {("t", 0): 7}, version=0).get()
    assert codes == {("t", 0): 0}
    assert tuple(bench.client.committed(1, "g", "t", version=0).get()) == (0, 7)
    assert tuple(bench.client.committed(1, "g", "t", 1, version=0).get()) == (3, -1)
    assert bench.fetch() == (0, 5)


@pytest.mark.parametrize("release", ["0.9.0.1", "2.8.2", "4.0.0"])
def test_a_seed_is_a_story(release: str) -> None:
    def story() -> list[Any]:
        bench = Bench(release, 3, seed=7)
        at = bench.at()
        member = bench.member(at)
        told: list[Any] = [at, member]
        bench.inside.kill(at)
        for _ in range(100):
            for broker in bench.cluster.brokers:
                if broker != at:
                    told.append(bench.client.heartbeat(broker, "g", member.generation, member.member).get())
            bench.cluster.wait(0.1)
        return [*told, bench.cluster.now()]

    assert story() == story()


def test_every_broker_names_the_coordinator_of_its_own_cache() -> None:
    bench = Bench("2.8.2", 3)
    at = bench.at()
    bench.whole(OFFSETS_TOPIC)
    third = at % 3 + 1
    bench.inside.isolate(third)
    bench.inside.kill(at)
    bench.cluster.wait(20)
    named = {
        broker: bench.client.coordinator_now("g", broker=broker).get()
        for broker in bench.cluster.brokers
        if broker != at
    }
    assert named.pop(third) == (0, at)
    (there,) = named.values()
    assert there[0] == 0
    assert there[1] != at


def test_the_new_coordinator_shows_loaded_commits_once_they_are_replicated() -> None:
    """Seen on 4.3.1: the first commit of a partition reads -1 with error 0 for a moment at the next coordinator."""
    bench = Bench("4.0.0", 3)
    at = bench.at()
    bench.whole(OFFSETS_TOPIC)
    assert bench.commit(13, at=at) == 0
    others = [broker for broker in bench.cluster.brokers if broker != at]
    for broker in others:
        bench.inside.hold_fetches(broker)
    bench.inside.move_leader((OFFSETS_TOPIC, 0), others[0])
    following = bench.at(other_than=at)
    assert bench.fetch(at=following) == (0, -1)
    asked = bench.client.stable(following, "g", "t")
    bench.cluster.wait(1)
    for broker in others:
        bench.inside.release_fetches(broker)
    assert asked.get().offset == 13  # it has waited for the high watermark
    assert bench.fetch(at=following) == (0, 13)


def test_the_product_reads_an_acknowledged_commit_right_after_its_coordinator_moved() -> None:
    bench = Bench("4.0.0", 3)
    at = bench.at()
    bench.whole(OFFSETS_TOPIC)
    assert bench.commit(13, at=at) == 0
    others = [broker for broker in bench.cluster.brokers if broker != at]
    for broker in others:
        bench.inside.hold_fetches(broker)
    bench.inside.move_leader((OFFSETS_TOPIC, 0), others[0])
    following = bench.at(other_than=at)
    assert bench.fetch(at=following) == (0, -1)
    for broker in others:
        bench.inside.timeline.after(1, bench.inside.release_fetches, broker)
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    assert bench.product().fetch("g", [t0, t1], "kafka") == {t0: 13, t1: NONE}


def test_the_product_reads_what_was_committed_before_a_transaction_that_stays_open() -> None:
    bench = Bench("4.0.0")
    assert bench.commit(5) == 0
    _, group_at, producer = _transaction(bench)
    assert bench.client.commit_in(group_at, "x", producer, "g", "t", 20).get()["t", 0] == 0
    assert bench.stable(group_at)[0] == 88
    t0 = TopicPartition("t", 0)
    assert bench.product().fetch("g", [t0], "kafka") == {t0: 5}


# ---- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["0.8.2.2", "0.9.0.1", "0.10.2.2", "1.1.1", "2.2.1", "2.8.2", "4.0.0"])
def test_the_product_reads_what_coordinators_write(release: str) -> None:
    bench = Bench(release)
    at = bench.at()
    assert bench.commit(5, "simple", at) == 0
    members: set[str] = set()
    if release != "0.8.2.2":
        members = {bench.member(at).member}
    found = OffsetLog()
    broker = bench.inside.brokers[at]
    for base, data in broker.read((OFFSETS_TOPIC, 0), 0):
        for batch in batches(data, base):
            for _, key, value in batch.records:
                found.add(key, value)
    assert not found.unknown
    assert {str(tp): stored.offset for tp, stored in found.offsets["simple"].items()} == {"t/0": 5}
    assert {member_id for group in found.coordinated.values() for member_id, _, _ in group.members} == members
