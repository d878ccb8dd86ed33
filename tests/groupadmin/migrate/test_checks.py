"""Checks: each way to be unfit comes out by its id, with what helps; what nobody saw is no pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupadmin.migrate.rules.checks import ClusterFacts, OffsetsTopic, check_cluster, check_group, failures
from groupadmin.migrate.rules.groupplan import Policies, plan_group
from groupadmin.snapshot.model import Foreign, GroupSnapshot, KafkaRow, TopicRow, ZkRow
from kafkawire.model import TopicPartition
from zkconsumer.offsets.migrationmarker import Marker, Phase
from zkconsumer.offsets.store import NONE

HOUR, DAY = 3_600_000, 86_400_000
TOPIC = OffsetsTopic(dict.fromkeys(range(50), (1, 2, 3)), dict.fromkeys(range(50), 1))
GOOD = ClusterFacts(
    "zk1:2181/kafka",
    consumers_there=True,
    brokers_there=True,
    releases={1: "0.8.2.2", 2: "0.8.2.2", 3: "0.9.0.1"},
    offsets_topic=TOPIC,
    coordinator_error="",
    retention_ms=7 * DAY,
    clock_ahead_ms=250,
)
A = TopicPartition("t", 0)


def row(check_id: str, **changed):
    (found,) = [each for each in check_cluster(replace(GOOD, **changed)) if each.id == check_id]
    return found


def test_a_good_cluster_passes_and_asks_for_nothing():
    rows = check_cluster(GOOD)
    assert {each.outcome for each in rows} == {"pass"}
    assert not any(each.remedy for each in rows)
    assert len({each.id for each in rows}) == len(rows) == 9


def test_what_nobody_looked_at_is_never_a_pass():
    blank = ClusterFacts("zk1:2181")
    assert {each.id: each.outcome for each in check_cluster(blank)} == {
        "chroot": "warn",
        "brokers": "warn",
        "offsets-topic": "fail",
        "coordinator": "warn",
        "retention": "warn",
        "clock": "warn",
        "access": "pass",
    }


@pytest.mark.parametrize(
    ("check_id", "changed", "outcome", "says"),
    [
        ("chroot", {"consumers_there": False}, "fail", "/consumers is not under zk1:2181/kafka"),
        ("chroot", {"consumers_there": False, "brokers_there": False}, "fail", "/consumers and /brokers/ids are not"),
        ("brokers", {"releases": {1: "0.8.2.2", 2: "0.8.1.1"}}, "fail", "brokers 2 are older than 0.8.2"),
        ("brokers", {"releases": {1: "0.8.2.2", 2: None}}, "warn", "not known of 2"),
        ("brokers", {"releases": {1: "0.10.2.2", 2: "3.9.1"}}, "pass", "1: 0.10.2.2, 2: 3.9.1"),
        ("offsets-topic", {"offsets_topic": None}, "warn", "does not exist"),
        (
            "offsets-topic",
            {"offsets_topic": None, "releases": {1: "0.8.2"}},
            "fail",
            "with 1 replica while only 1 broker live",
        ),
        ("offsets-topic-replicas", {"wanted_replicas": 4}, "warn", "50 of 50 partitions have less than 4"),
        ("coordinator", {"offsets_topic": None}, "warn", "that would create __consumer_offsets"),
        ("coordinator", {"coordinator_error": None}, "warn", "not looked up"),
        ("coordinator", {"coordinator_error": "error 15 for 30 s"}, "fail", "error 15 for 30 s"),
        ("retention", {"retention_ms": HOUR}, "fail", "their positions would be gone"),
        ("retention", {"retention_ms": 3 * HOUR}, "warn", "3 h from each commit"),
        ("retention", {"retention_ms": None}, "warn", "1 d from each commit (the default: brokers do not report it)"),
        ("retention", {"retention_ms": None, "downtime_ms": 2 * DAY}, "fail", "stopped for up to 2 d"),
        ("retention", {"retention_ms": HOUR, "keepalive": True}, "pass", "--keepalive"),
        ("retention", {"retention_ms": HOUR, "long_retention_ms": 30 * DAY}, "fail", "1 h"),  # 0.8.2 cannot be asked
        (
            "retention",
            {"retention_ms": HOUR, "long_retention_ms": 30 * DAY, "releases": {1: "0.9.0.1"}},
            "pass",
            "the copy asks for 30 d",
        ),
        ("retention", {"retention_ms": None, "releases": {1: "2.8.2"}, "downtime_ms": DAY}, "warn", "7 d"),
        ("retention", {"releases": {1: "2.8.2"}}, "pass", "when the group became empty"),
        ("clock", {"clock_ahead_ms": -90_000}, "warn", "behind the cluster's"),
        ("clock", {"clock_ahead_ms": 2 * HOUR}, "fail", "2 h ahead of"),
        ("clock", {"clock_ahead_ms": None}, "warn", "were not compared"),
        ("access", {"refused": {"OffsetCommit of group g": "error 30"}}, "fail", "OffsetCommit of group g: error 30"),
    ],
)
def test_what_is_wrong_with_a_cluster(check_id, changed, outcome, says):
    found = row(check_id, **changed)
    assert found.outcome == outcome
    assert says in found.text
    assert bool(found.remedy) == (outcome != "pass")


def test_the_command_that_creates_the_offsets_topic_can_be_typed_as_it_is():
    assert "kafka-topics --zookeeper zk1:2181/kafka --create --topic __consumer_offsets --partitions 50 " in (
        row("offsets-topic", offsets_topic=None).remedy
    )
    newer = {1: "3.6.1", 2: None, 3: "3.6.1"}
    assert "kafka-topics --bootstrap-server HOST:PORT --create" in (
        row("offsets-topic", offsets_topic=None, releases=newer).remedy
    )


def test_partitions_of_the_offsets_topic():
    replicas = {**TOPIC.replicas, 7: (1,)}
    found = row("offsets-topic-replicas", offsets_topic=OffsetsTopic(replicas, TOPIC.leaders))
    assert (found.outcome, "1 of 50 partitions" in found.text) == ("fail", True)
    found = row(
        "offsets-topic-leaders", offsets_topic=OffsetsTopic(TOPIC.replicas, {**TOPIC.leaders, 3: None, 9: None})
    )
    assert found.outcome == "fail"
    assert "partitions 3, 9 of __consumer_offsets have no leader" in found.text


def test_a_leader_that_nobody_knows_of_is_none():
    assert row("offsets-topic-leaders", offsets_topic=OffsetsTopic({0: (1, 2, 3)}, {})).outcome == "fail"


# groups ---------------------------------------------------------------------------------------------------------------


def group(position=50, **more) -> GroupSnapshot:
    facts = {"topics": {"t": TopicRow((0,))}} | more
    nodes = {A: ZkRow(position, 1, 10, 1, 0)} if position is not None else {}
    return GroupSnapshot("g", nodes, {A: KafkaRow(NONE)}, {A: (0, 100)}, **facts)


def checked(snapshot: GroupSnapshot, policies=Policies(), marker=None):  # noqa: B008
    rows = check_group(snapshot, plan_group(snapshot, policies), marker)
    assert {each.group for each in rows} == {"g"}
    assert all(each.remedy for each in rows if each.outcome != "pass")
    return {each.id: each.outcome for each in rows}, {each.id: each.text for each in rows}


def test_a_stopped_group_with_a_position_passes():
    outcomes, _ = checked(group())
    assert set(outcomes.values()) == {"pass"}
    assert len(outcomes) == 8


@pytest.mark.parametrize(
    ("snapshot", "check_id", "outcome", "says"),
    [
        (group(members=("a",), owners={A: "a-0"}), "members", "warn", "1 member (a) registered, 1 partition owned"),
        (group(members=("a",)), "modes", "warn", "1 member (a) published no mode"),
        (group(members=("a", "b"), modes={"a": "dual"}), "modes", "warn", "1 member (b) published no mode"),
        (group(members=("a",), modes={"a": "dual"}), "modes", "pass", "every member is on dual"),
        (group(modes={"a": "kafka", "b": "zookeeper"}), "modes", "fail", "a kafka, b zookeeper"),
        (group(kafka_members=("k",)), "kafka-members", "warn", "they commit to Kafka"),
        (group(kafka_members=("k",), members=("a",)), "kafka-members", "fail", "both read everything"),
        (group(500), "undecided", "warn", "t/0 is out-of-range"),
        (group(foreign=(Foreign("id", "/consumers/g/ids/x", "hi", "no JSON"),)), "foreign", "warn", "/ids/x = 'hi'"),
        (group(topics={}), "deleted-topics", "warn", "do not exist: t"),
        (group(None), "no-position", "warn", "auto.offset.reset"),
    ],
)
def test_what_is_to_know_of_a_group(snapshot, check_id, outcome, says):
    outcomes, texts = checked(snapshot)
    assert outcomes[check_id] == outcome
    assert says in texts[check_id]


@pytest.mark.parametrize(
    ("phase", "outcome"),
    [
        (Phase.PLANNED, "pass"),
        (Phase.ROLLED_BACK, "pass"),
        (Phase.COPIED, "warn"),
        (Phase.DUAL, "warn"),
        (Phase.CUTOVER, "fail"),
        (Phase.DONE, "fail"),
    ],
)
def test_a_group_that_another_plan_took_away_is_not_copied_over(phase, outcome):
    outcomes, _ = checked(group(), marker=Marker("abc", phase, 1))
    assert outcomes["elsewhere"] == outcome


def ids(sentences: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sentence.partition(":")[0] for sentence in sentences)


def test_failed_checks_of_a_group_are_its_own_and_the_cluster_s():
    mixed = group(modes={"a": "kafka", "b": "zookeeper"})
    rows = [*check_cluster(replace(GOOD, coordinator_error="no")), *check_group(mixed, plan_group(mixed, Policies()))]
    assert ids(failures(rows)) == ("coordinator",)
    assert ids(failures(rows, "g")) == ("coordinator", "modes")
    assert ids(failures(rows, "another")) == ("coordinator",)
