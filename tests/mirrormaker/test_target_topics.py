"""Missing target topics are made side by side, and none holds up another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import NodeExistsError

from groundwork.tasks import TaskGroup, now, sleep
from kafkawire.cluster.metadata import NothingKnown
from kafkawire.cluster.topicadmin import ControllerRefused
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.dialects import dialect
from kafkawire.errors import LocalError
from kafkawire.model import Broker
from kafkawire.protocol.adminrequests import NewTopic, TopicOutcome
from mirrormaker import topics as module
from mirrormaker.routes import SourceTopic
from mirrormaker.topiclimits import Creations, TopicLimits
from mirrormaker.topics import TargetTopics, TopicMissing
from mirrormaker.topicsettings import topic_settings

SOURCE = SourceTopic(3, 1)
NAMES = [f"t{n}" for n in range(250)]


class Cluster:
    """A target whose controller takes its time: a topic has leaders `after(topic)` seconds after it was made."""

    def __init__(self, after: Callable[[str], float] = lambda topic: 0.2) -> None:
        self.made: dict[str, tuple[int, float]] = {}  # partitions, and from when on they have leaders
        self.after = after
        self.reads = 0
        self.rounds: list[int] = []
        self.refused: dict[str, int] = {}
        self.busy = False
        self.first_read_s = 0.0  # more, as where a broker is away

    def make(self, topic: str, partitions: int) -> None:
        self.made[topic] = (partitions, now() + self.after(topic))

    # metadata

    def read(self, names: Sequence[str] | None) -> ClusterView:
        assert not self.busy, "two requests at a time on a connection"
        self.busy = True
        self.reads += 1
        sleep(0.01)
        slow_s, self.first_read_s = self.first_read_s, 0.0
        sleep(slow_s)
        errors: dict[str, int] = {}
        for name in names or ():
            if name not in self.made:
                self.make(name, 2)
            if now() < self.made[name][1]:
                errors[name] = 5
        topics = {
            name: {p: PartitionView(0 if now() >= at else None) for p in range(count)}
            for name, (count, at) in self.made.items()
            if names is None or name in names
        }
        self.busy = False
        return ClusterView({0: Broker(0, "b", 1)}, topics, errors)

    # admin

    creates = grows = takes_defaults = True
    describes = False
    described = 0

    def of_broker(self) -> dict[str, str]:
        self.described += 1
        return {"log.retention.hours": "168"}

    def create_all(self, wanted: Mapping[str, NewTopic]) -> dict[str, bool | ControllerRefused]:
        sleep(0.05)
        self.rounds.append(len(wanted))
        found: dict[str, bool | ControllerRefused] = {}
        for topic, new in wanted.items():
            if topic in self.refused:
                found[topic] = ControllerRefused(topic, TopicOutcome(self.refused[topic]))
            else:
                self.make(topic, new.partitions)
                found[topic] = True
        return found


def side_by_side(topics: TargetTopics, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, float]]:
    """What each prepare() said, and how many seconds it took."""
    tasks, said, took, began = TaskGroup(), {}, {}, now()

    def prepare(name: str) -> None:
        try:
            said[name] = topics.prepare(name, SOURCE)
        except TopicMissing as missing:
            said[name] = str(missing)
        took[name] = now() - began

    started = [tasks.spawn(name, prepare, name) for name in names]
    assert all(task.join(20) for task in started)
    assert tasks.death is None
    return said, took


def by_request(cluster: Cluster) -> TargetTopics:
    return TargetTopics(cluster, dialect("3.9").znodes, admin=cluster)  # type: ignore[arg-type]


def test_many_missing_topics_are_made_in_few_rounds():
    cluster = Cluster()
    said, took = side_by_side(by_request(cluster), NAMES)
    assert set(said.values()) == {range(3)}
    assert sum(cluster.rounds) == len(NAMES)
    assert len(cluster.rounds) <= 5
    assert max(cluster.rounds) == module.AT_ONCE
    assert cluster.reads < 60  # one look serves all that wait
    assert max(took.values()) < 10


def test_a_topic_whose_leaders_are_late_holds_up_no_other():
    cluster = Cluster(lambda topic: 1.5 if topic == "t0" else 0.0)
    said, took = side_by_side(by_request(cluster), NAMES[:50])
    assert set(said.values()) == {range(3)}
    others = [seconds for name, seconds in took.items() if name != "t0"]
    assert took["t0"] >= 1.5 > max(others)


def test_a_read_that_waits_for_a_broker_that_is_away_does_not_set_the_pace() -> None:
    cluster = Cluster()
    cluster.first_read_s = 1.0
    _, took = side_by_side(by_request(cluster), NAMES[:2])
    assert max(took.values()) < 1.0 + 2.0


def test_a_topic_that_is_refused_is_named_and_the_others_of_its_round_are_made():
    cluster = Cluster()
    cluster.refused["t7"] = 44
    said, _ = side_by_side(by_request(cluster), ["ä", *NAMES[:20]])
    assert "t7 does not exist and cannot be created" in said.pop("t7")
    assert "a name has letters" in said.pop("ä")
    assert set(said.values()) == {range(3)}


@pytest.mark.parametrize(
    ("settings", "source", "kept"),
    [
        ("", {}, "it keeps messages for 7 d (retention.ms 604800000, its brokers' default)"),
        ("retention.ms", {"retention.ms": "-1"}, "it keeps messages for ever (retention.ms -1, set for the topic)"),
        (
            "retention.ms",
            {},
            "it keeps messages for 7 d (retention.ms 604800000, its brokers' default); the source topic does not set "
            "retention.ms, and its brokers' default is not copied",
        ),
    ],
)
def test_a_topic_that_is_made_is_logged_with_how_long_it_keeps_messages(
    settings: str, source: dict[str, str], kept: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    cluster.describes = True
    topics = TargetTopics(
        cluster, dialect("3.9").znodes, admin=cluster, settings=topic_settings(settings)  # type: ignore[arg-type]
    )  # fmt: skip
    with caplog.at_level("INFO", module.log.name):
        for name in ("t1", "t2"):
            topics.prepare(name, SourceTopic(3, 1, source))
    said = [record.getMessage() for record in caplog.records if "created" in record.getMessage()]
    assert [line.partition("; it keeps")[0].split(" created")[0] for line in said] == [
        "target topic t1",
        "target topic t2",
    ]
    assert all(line.endswith(kept) for line in said)
    assert cluster.described == 1


def test_two_who_want_the_same_topic_make_it_once():
    cluster = Cluster()
    topics = by_request(cluster)
    tasks, found = TaskGroup(), []
    started = [tasks.spawn(f"{n}", lambda: found.append(topics.prepare("t", SOURCE))) for n in range(3)]
    assert all(task.join(10) for task in started)
    assert found == [range(3)] * 3
    assert cluster.rounds == [1]


def test_a_round_that_fails_as_a_whole_fails_for_each_and_the_next_try_works():
    cluster = Cluster()
    topics = by_request(cluster)
    works, cluster.create_all = cluster.create_all, fails  # type: ignore[method-assign]
    with pytest.raises(TopicMissing, match="no controller"):
        topics.prepare("t", SOURCE)
    cluster.create_all = works  # type: ignore[method-assign]
    assert topics.prepare("t", SOURCE) == range(3)


def fails(wanted: object) -> Any:
    raise TopicMissing("no controller")


def test_names_are_told_to_brokers_that_create_by_themselves_in_one_request_for_many():
    cluster = Cluster()
    cluster.creates = False  # type: ignore[misc]
    topics = TargetTopics(cluster, dialect("0.8.2").znodes, admin=cluster)  # type: ignore[arg-type]
    said, _ = side_by_side(topics, NAMES[:150])
    assert set(said.values()) == {range(2)}
    assert cluster.reads < 30


class Zookeeper:
    """As much of a kazoo client as makes topics; counts sessions, and how many requests were in flight at most."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.nodes: dict[str, bytes] = {}
        self.sessions = self.in_flight = self.most = 0

    @contextmanager
    def opened(self) -> Iterator[Zookeeper]:
        self.sessions += 1
        sleep(0.1)  # as a real one takes to open; meanwhile others ask
        yield self

    def _later(self, answer: Callable[[], Any]) -> Any:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)

        def get() -> Any:
            self.in_flight -= 1
            return answer()

        return SimpleNamespace(get=get)

    def exists_async(self, path: str) -> Any:
        return self._later(lambda: self.nodes.get(path))

    def create_async(self, path: str, data: bytes, makepath: bool = False) -> Any:
        def answer() -> None:
            if path in self.nodes:
                raise NodeExistsError
            self.nodes[path] = data
            if path.startswith("/brokers/topics/"):
                self.cluster.make(path.rpartition("/")[2], data.count(b"["))

        return self._later(answer)


def test_zookeeper_gets_the_nodes_of_many_topics_at_once(monkeypatch):
    cluster = Cluster()
    zk = Zookeeper(cluster)
    monkeypatch.setattr(module, "read_partitions", lambda zk, znodes, names: {})
    monkeypatch.setattr(module, "read_brokers", lambda zk, znodes: {0: Broker(0, "b", 1)})
    topics = TargetTopics(cluster, dialect("0.8.2").znodes, zk.opened)  # type: ignore[arg-type]
    said, _ = side_by_side(topics, NAMES)
    assert set(said.values()) == {range(3)}
    assert sum(path.startswith("/brokers/topics/") for path in zk.nodes) == len(NAMES)
    assert sum(path.startswith("/config/topics/") for path in zk.nodes) == len(NAMES)
    assert zk.sessions <= 5
    assert zk.most >= module.AT_ONCE


def test_a_target_topic_whose_node_makes_no_sense_is_not_taken_for_one_with_the_sources_partitions(monkeypatch):
    cluster = Cluster()
    zk = Zookeeper(cluster)
    zk.nodes["/brokers/topics/t"] = b"junk"
    monkeypatch.setattr(module, "read_partitions", lambda zk, znodes, names: {})
    monkeypatch.setattr(module, "read_brokers", lambda zk, znodes: {0: Broker(0, "b", 1)})
    topics = TargetTopics(cluster, dialect("0.8.2").znodes, zk.opened)  # type: ignore[arg-type]
    with pytest.raises(TopicMissing, match="target topic t exists, but its node in ZooKeeper is invalid"):
        topics.prepare("t", SOURCE)
    assert "/config/topics/t" not in zk.nodes


def test_the_first_topic_of_a_target_that_lists_no_brokers_until_then_is_made(monkeypatch):
    class Older(Cluster):
        """Brokers of 0.8 list none before the cluster has a topic."""

        def read(self, names: Sequence[str] | None) -> ClusterView:
            if not self.made:
                raise NothingKnown("no broker of the cluster tells what there is")
            return super().read(names)

    cluster = Older()
    zk = Zookeeper(cluster)
    monkeypatch.setattr(module, "read_partitions", lambda zk, znodes, names: {})
    monkeypatch.setattr(module, "read_brokers", lambda zk, znodes: {0: Broker(0, "b", 1)})
    topics = TargetTopics(cluster, dialect("0.8.1").znodes, zk.opened)  # type: ignore[arg-type]
    assert topics.prepare("t", SOURCE) == range(3)


# ---- limits ---------------------------------------------------------------------------------------------------------


def limited(cluster: Cluster, **limits: int) -> TargetTopics:
    return TargetTopics(
        cluster, dialect("3.9").znodes, admin=cluster, limits=TopicLimits(**limits)  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_topic_with_more_partitions_than_one_may_have_is_named_and_its_neighbours_are_made():
    cluster = Cluster(lambda topic: 0.0)
    topics = limited(cluster)
    with pytest.raises(TopicMissing) as held_back:
        topics.prepare("t", SourceTopic(60_000, 1))
    assert str(held_back.value) == (
        "target topic t does not exist and is not created: it would have 60,000 partitions, and "
        "target.topic.max.partitions is 1,000; raise that, or create it yourself"
    )
    assert topics.prepare("u", SourceTopic(1000, 1)) == range(1000)
    assert list(cluster.made) == ["u"]


def test_the_target_gets_no_more_partitions_in_all_than_it_may_have_however_many_ask_at_once():
    cluster = Cluster(lambda topic: 0.0)
    cluster.make("old", 10)
    topics = limited(cluster, in_all=10 + 3 * 7 + 2)
    said, _ = side_by_side(topics, NAMES[:20])
    assert sum(count for count, _ in cluster.made.values()) == 31
    assert list(said.values()).count(range(3)) == 7
    assert {each for each in said.values() if isinstance(each, str)} == {
        f"target topic {topic} does not exist and is not created: the target would have more than 33 partitions "
        "(target.max.partitions); raise that, or create it yourself"
        for topic, each in said.items()
        if isinstance(each, str)
    }


def test_who_used_up_the_partitions_of_the_target_is_named():
    """One source of several did, and the sentence at the others' topics said nothing of it."""
    cluster = Cluster(lambda topic: 0.0)
    cluster.refused = {"failed": 44}
    topics = limited(cluster, in_all=30)
    with pytest.raises(TopicMissing, match="cannot be created"):
        topics.prepare("failed", SourceTopic(9, 1, source="eu"))
    for number in range(3):
        topics.prepare(f"big{number}", SourceTopic(9, 1, source="stranger"))
    topics.prepare("small", SourceTopic(1, 1, source="eu"))
    with pytest.raises(TopicMissing) as held_back:
        topics.prepare("orders", SourceTopic(3, 1, source="eu"))
    assert str(held_back.value) == (
        "target topic orders does not exist and is not created: the target would have more than 30 partitions "
        "(target.max.partitions; 27 since the start for source stranger, 1 since the start for source eu); raise that, "
        "or create it yourself"
    )


@pytest.mark.parametrize("limits", [{"in_all": 9}, {"a_minute": 3}])
def test_the_topic_of_dead_letters_does_not_fall_under_the_limits(limits):
    """A source that had used them up had its dead letters refused as well: every bad message parked its partition."""
    cluster = Cluster(lambda topic: 0.0)
    topics = limited(cluster, **limits)
    for number in range(3):
        topics.prepare(f"t{number}", SourceTopic(3, 1))
    with pytest.raises(TopicMissing, match="is not created"):
        topics.prepare("u", SourceTopic(3, 1))
    assert topics.prepare("dead", SourceTopic(1, 0, ours=True)) == range(1)


def test_new_topics_come_at_a_pace_and_what_fails_takes_nothing_of_it():
    cluster = Cluster(lambda topic: 0.0)
    cluster.refused = {"t0": 44, "t1": 44}
    topics = limited(cluster, a_minute=5)
    for name in ("t0", "t1"):
        with pytest.raises(TopicMissing, match="cannot be created"):
            topics.prepare(name, SOURCE)
    said, _ = side_by_side(topics, NAMES[2:20])
    assert len(cluster.made) == 5
    late = [each for each in said.values() if isinstance(each, str)]
    assert len(late) == 13
    assert late[0].endswith(
        "5 topics were created within a minute (target.max.new.topics.per.minute): it follows within the next ones"
    )


def test_brokers_that_create_topics_by_themselves_are_told_no_more_names_than_that():
    cluster = Cluster(lambda topic: 0.0)
    cluster.creates = False  # type: ignore[misc]
    said, _ = side_by_side(limited(cluster, a_minute=5), NAMES[:20])
    assert len(cluster.made) == 5
    assert list(said.values()).count(range(2)) == 5


def test_growth_keeps_the_limits_of_new_topics():
    cluster = Cluster(lambda topic: 0.0)
    cluster.make("t", 2)
    cluster.make("u", 2)
    cluster.grow = lambda topic, partitions: cluster.make(topic, partitions)  # type: ignore[attr-defined]
    topics = limited(cluster, of_topic=100, in_all=150)
    assert topics.grow("t", 100) == range(100)
    with pytest.raises(TopicMissing) as held_back:
        topics.grow("u", 101)
    assert str(held_back.value) == (
        "target topic u gets no partitions: it would have 101 partitions, and target.topic.max.partitions is 100; "
        "raise that, or add them yourself"
    )
    with pytest.raises(TopicMissing, match=r"the target would have more than 150 partitions"):
        topics.grow("u", 60)
    assert topics.grow("u", 40) == range(40)


def test_topics_and_partitions_that_are_made_through_zookeeper_keep_the_limits(monkeypatch):
    cluster = Cluster(lambda topic: 0.0)
    grown: list[tuple[str, int]] = []

    def grow(zk: object, topic: str, partitions: int, brokers: object) -> tuple[int, int]:
        if len(grown) == 1:
            grown.append((topic, 0))
            raise LocalError("it is being moved")
        grown.append((topic, partitions))
        before = cluster.made[topic][0]
        cluster.make(topic, partitions)
        return before, partitions

    monkeypatch.setattr(module, "read_partitions", lambda zk, znodes, names: {})
    monkeypatch.setattr(module, "read_brokers", lambda zk, znodes: {0: Broker(0, "b", 1)})
    monkeypatch.setattr(module.topics, "grow", grow)
    zk = Zookeeper(cluster)
    limits = TopicLimits(of_topic=50, in_all=100)
    topics = TargetTopics(cluster, dialect("0.8.2").znodes, zk.opened, limits=limits)  # type: ignore[arg-type]
    assert topics.prepare("t", SOURCE) == topics.prepare("u", SOURCE) == range(3)
    with pytest.raises(TopicMissing, match="is not created: it would have 51 partitions"):
        topics.prepare("v", SourceTopic(51, 1))
    assert topics.grow("t", 50) == range(50)
    with pytest.raises(TopicMissing, match="it would have 51 partitions"):
        topics.grow("u", 51)
    with pytest.raises(TopicMissing, match="gets no partitions: it is being moved"):
        topics.grow("u", 50)
    topics.prepare("w", SourceTopic(40, 1))  # what failed takes nothing of the limit
    with pytest.raises(TopicMissing, match="the target would have more than 100 partitions"):
        topics.grow("u", 11)
    assert grown == [("t", 50), ("u", 0)]
    assert "v" not in cluster.made


def test_a_minute_later_the_next_topics_may_be_made_and_what_was_made_is_counted_until_metadata_has_it():
    creations = Creations(TopicLimits(of_topic=10, in_all=20, a_minute=2))
    assert creations.refusals({"a": 5, "b": 5, "c": 5}, {}, 0.0).keys() == {"c"}
    assert creations.refusals({"c": 5}, {}, 59.0).keys() == {"c"}
    assert creations.refusals({"c": 5}, {"a": [0] * 5}, 60.0) == {}
    assert creations.refusals({"d": 10}, {"a": [0] * 5, "b": [0] * 5}, 60.5).keys() == {"d"}  # c is not there yet
    creations.give_back("c")
    assert creations.refusals({"d": 10}, {"a": [0] * 5, "b": [0] * 5}, 60.5) == {}


def test_a_new_topic_counts_for_its_minute_also_when_it_is_grown_or_its_growth_fails():
    creations, there = Creations(TopicLimits(of_topic=10, in_all=100, a_minute=2)), {}
    for topic in ("a", "b"):
        assert creations.refusals({topic: 2}, there, 0.0) == {}
        there[topic] = [0] * 2
        assert creations.refusals({topic: 4}, there, 1.0) == {}
        if topic == "a":
            there[topic] = [0] * 4
        else:
            creations.give_back(topic)
    assert creations.refusals({"c": 1}, there, 59.0).keys() == {"c"}
    assert creations.refusals({"c": 1, "d": 1}, there, 60.0) == {}
    creations.give_back("c")
    assert creations.refusals({"e": 1, "f": 1}, there, 60.0).keys() == {"f"}
