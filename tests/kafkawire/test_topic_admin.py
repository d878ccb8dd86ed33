"""Topics made and grown by a controller that a test plays: who is asked, what is tried again, what is refused."""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.cluster.metadata import read_reply
from kafkawire.cluster.retry import Backoff, RetryPolicy
from kafkawire.cluster.topicadmin import ControllerRefused, TopicAdmin
from kafkawire.cluster.view import ClusterView, view_of
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost, LocalError
from kafkawire.model import Broker, TopicPartition
from kafkawire.protocol.adminapis import CREATE_PARTITIONS, CREATE_TOPICS, DESCRIBE_CONFIGS
from kafkawire.protocol.adminrequests import BROKERS_DEFAULT, NewTopic, Setting, create_topics, describe_topics

ONE, TWO = Broker(1, "one", 9092), Broker(2, "two", 9092)


class Cluster:
    """controllers: who is named as controller at each look, the last one for good; answers: to each request."""

    def __init__(self, *answers: Any, controllers: tuple[int | None, ...] = (1,), partitions: int = 0) -> None:
        self.answers, self.controllers = deque(answers), deque(controllers)
        self.partitions = partitions
        self.asked: list[tuple[Broker, str, int]] = []

    def read(self, topics: object) -> ClusterView:
        named = self.controllers.popleft() if len(self.controllers) > 1 else self.controllers[0]
        leaders = {TopicPartition("t", p): 1 for p in range(self.partitions)}
        seen = view_of({1: ONE, 2: TWO}, leaders)
        return ClusterView(seen.brokers, seen.topics, {}, named)

    def lent(self, broker: Broker, purpose: str) -> Any:
        return nullcontext(SimpleNamespace(open=lambda: None, call=lambda request: self.call(broker, request)))

    def call(self, broker: Broker, request: Any) -> Any:
        self.asked.append((broker, request.api.name, request.version))
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return request.finish(answer)

    def admin(self, release: str = "3.9") -> TopicAdmin:
        clock = [0.0]

        def sleep(seconds: float) -> None:
            clock[0] += seconds

        retry = RetryPolicy(retries=None, backoff=Backoff(0.1, 1.0), timeout_s=5.0)
        return TopicAdmin(self, self, dialect(release), retry=retry, sleep=sleep, now=lambda: clock[0])  # type: ignore[arg-type]


def said(error: int, message: str | None = None) -> dict[str, Any]:
    return {"throttle_time_ms": 0, "topics": [{"topic": "t", "error": error, "error_message": message}]}


def test_the_controller_is_asked_and_another_one_where_it_moved() -> None:
    cluster = Cluster(said(41), LinkLost("gone"), said(0), controllers=(1, 1, None, 2))
    assert cluster.admin().create("t", NewTopic(3, 2))
    assert [(broker, name) for broker, name, _ in cluster.asked] == [
        (ONE, "CreateTopics"), (ONE, "CreateTopics"), (TWO, "CreateTopics"),
    ]  # fmt: skip


def test_a_topic_that_is_there_is_left_as_it_is() -> None:
    assert not Cluster(said(36, "Topic 't' already exists.")).admin().create("t", NewTopic(3, 2))
    assert Cluster(said(7)).admin().create("t", NewTopic(3, 2))  # it is being made


def test_what_the_controller_refuses_is_said_with_what_helps() -> None:
    refusal = Cluster(said(38, "Replication factor: 3 larger than available brokers: 1."))
    with pytest.raises(ControllerRefused, match=r"t: InvalidReplicationFactor \(38\): Replication factor: 3 .*; "):
        refusal.admin().create("t", NewTopic(1, 3))
    with pytest.raises(ControllerRefused, match=r"TopicAuthorizationFailed \(29\); give this user the right") as no:
        Cluster(said(29)).admin().create("t", NewTopic(1, 1))
    assert no.value.code == 29
    with pytest.raises(ControllerRefused, match=r"NotController \(41\)"):  # until the time is over
        Cluster(*[said(41)] * 50).admin().create("t", NewTopic(1, 1))
    with pytest.raises(LocalError, match="a name has letters"):
        Cluster().admin().create("no/name", NewTopic(1, 1))


def test_a_topic_grows_and_one_that_has_as_many_is_left() -> None:
    cluster = Cluster(said(0))
    cluster.admin().grow("t", 5)
    assert cluster.asked == [(ONE, "CreatePartitions", 1)]
    Cluster(said(37, "Topic already has 5 partitions."), partitions=5).admin().grow("t", 5)
    with pytest.raises(ControllerRefused, match=r"InvalidPartitions \(37\)"):
        Cluster(said(37), partitions=4).admin().grow("t", 5)


def test_releases_know_what_they_can() -> None:
    can = {r: Cluster().admin(r) for r in ("0.8.2", "0.10.1", "0.11", "1.0", "2.4", "4.0")}
    assert [r for r, admin in can.items() if admin.creates] == ["0.10.1", "0.11", "1.0", "2.4", "4.0"]
    assert [r for r, admin in can.items() if admin.describes] == ["0.11", "1.0", "2.4", "4.0"]
    assert [r for r, admin in can.items() if admin.grows] == ["1.0", "2.4", "4.0"]
    assert [r for r, admin in can.items() if admin.takes_defaults] == ["2.4", "4.0"]
    with pytest.raises(LocalError, match=r"Kafka 2\.3 needs its number of partitions"):
        create_topics(dialect("2.3"), {"t": NewTopic(1)}, 1000)


@pytest.mark.parametrize("release", ["0.10.1", "0.10.2", "0.11", "2.4"])
def test_a_topic_as_it_is_asked_for(release: str) -> None:
    d = dialect(release)
    request = create_topics(d, {"t": NewTopic(4, 2, {"retention.ms": "1"})}, 1000)
    fields = CREATE_TOPICS.decode_request(request.version, b"".join(request.buffers))
    [topic] = fields["topics"]
    assert (topic["partitions"], topic["replication"], topic["assignments"]) == (4, 2, [])
    assert topic["configs"] == [{"name": "retention.ms", "value": "1"}]
    assert fields.get("validate_only", False) is False
    assert BROKERS_DEFAULT == -1
    assert CREATE_PARTITIONS.newest == 1


def test_settings_are_those_of_the_topic_itself() -> None:
    row = {"read_only": False, "is_sensitive": False, "synonyms": []}
    configs = [
        {"name": "retention.ms", "value": "1", "source": 1, **row},
        {"name": "segment.ms", "value": "2", "source": 5, **row},
    ]
    resource = {"error_message": None, "resource_type": 2, "configs": configs}
    reply = {
        "throttle_time_ms": 0,
        "resources": [{"name": "t", "error": 0, **resource}, {"name": "u", "error": 3, **resource}],
    }
    assert Cluster(reply).admin().settings(["t", "u"]) == {"t": {"retention.ms": "1"}}
    old = [{"name": "a", "value": "1", "is_default": False}, {"name": "b", "value": "2", "is_default": True}]
    first = describe_topics(dialect("0.11"), ["t"])
    assert (first.version, DESCRIBE_CONFIGS.newest) == (0, 2)
    assert first.finish is not None
    found = first.finish({"resources": [{"name": "t", "error": 0, **resource, "configs": old}]})
    assert found == {"t": {"a": Setting("1", own=True), "b": Setting("2", own=False)}}


def test_what_holds_for_a_topic_is_told_apart_from_what_it_has_set_and_a_broker_tells_its_own_settings() -> None:
    row = {"read_only": False, "is_sensitive": False, "synonyms": []}
    configs = [
        {"name": "retention.ms", "value": "604800000", "source": 5, **row},
        {"name": "cleanup.policy", "value": "delete", "source": 1, **row},
        {"name": "leader.replicas", "value": None, "source": 5, **row},
    ]

    def reply(name: str, error: int = 0) -> dict[str, Any]:
        resource = {"name": name, "error": error, "error_message": None, "resource_type": 2, "configs": configs}
        return {"throttle_time_ms": 0, "resources": [resource]}

    held = {"retention.ms": Setting("604800000", own=False), "cleanup.policy": Setting("delete", own=True)}
    assert Cluster(reply("t")).admin().effective(["t"]) == {"t": held}
    assert Cluster(reply("t", 29)).admin().effective(["t"]) == {}
    cluster = Cluster(reply("2"), controllers=(2,))
    assert cluster.admin().of_broker() == {"retention.ms": "604800000", "cleanup.policy": "delete"}
    assert [broker for broker, _, _ in cluster.asked] == [TWO]
    assert Cluster(reply("1", 29)).admin().of_broker() == {}


def test_a_metadata_reply_names_the_controller() -> None:
    assert read_reply({"brokers": [], "topics": [], "controller_id": 4}).controller == 4
    assert read_reply({"brokers": [], "topics": [], "controller_id": -1}).controller is None
    assert read_reply({"brokers": [], "topics": []}).controller is None


def test_many_are_made_in_one_request_and_only_those_that_are_unsettled_go_again() -> None:
    def outcomes(**errors: int) -> dict[str, Any]:
        rows = [{"topic": name, "error": error, "error_message": None} for name, error in errors.items()]
        return {"throttle_time_ms": 0, "topics": rows}

    cluster = Cluster(outcomes(a=0, b=41, c=36, d=44), outcomes(b=7))
    made = cluster.admin().create_all(dict.fromkeys("abcd", NewTopic(3, 2)))
    assert isinstance(refused := made.pop("d"), ControllerRefused)
    assert "create.topic.policy" in str(refused)
    assert made == {"a": True, "b": True, "c": False}
    assert len(cluster.asked) == 2
