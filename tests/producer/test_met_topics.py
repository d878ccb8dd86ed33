"""A topic that a program sends to for the first time is looked up at once, whatever elections are waited for."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from groundwork.tasks import Event, TaskGroup
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.dialects import Dialect, dialect
from producer import targetleaders as module
from producer.config import ProducerConfig
from producer.outages import Outages
from producer.producer import Producer
from producer.targetleaders import Leaders
from tests.fakes.broker import FakeCluster
from tests.producer.running import WAIT_S, until

FOREVER_MS = 10_000_000


@pytest.fixture
def slow_elections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever waits for the pace of refreshes in a row waits longer than any test."""
    monkeypatch.setattr(module, "MAX_BACKOFF_S", FOREVER_MS / 1000)


@pytest.mark.usefixtures("slow_elections")
def test_each_new_topic_is_sent_to_without_a_wait_and_costs_others_none_of_their_retries() -> None:
    topics = [f"t{n}" for n in range(20)]
    failed: list[Exception] = []
    with FakeCluster(dict.fromkeys(topics, 1)) as cluster:
        config = ProducerConfig(
            brokers=tuple(cluster.bootstrap), retries=2, retry_backoff_ms=FOREVER_MS, delivery_timeout_ms=20_000
        )
        with Producer(config) as producer:

            def send_to_a_missing_one() -> None:
                try:
                    producer.send("nowhere", b"v")
                except Exception as exc:
                    failed.append(exc)

            waiting = threading.Thread(target=send_to_a_missing_one)
            waiting.start()
            until(lambda: cluster.seen("metadata"))
            for topic in topics:
                producer.send(topic, b"v")
            assert waiting.is_alive()
            assert not failed
        waiting.join(WAIT_S)
        assert [cluster.values(topic, 0) for topic in topics] == [[b"v"]] * 20


class Source:
    """Metadata of a cluster that has every topic but those named `absent…`.  The first read waits for `go`."""

    def __init__(self) -> None:
        self.go = Event()
        self.asked: list[list[str]] = []

    @property
    def dialect(self) -> Dialect:
        return dialect("0.8.2")

    def read(self, topics: Sequence[str] | None, create: bool = True) -> ClusterView:
        self.asked.append(list(topics or ()))
        assert self.go.wait(WAIT_S)
        found: dict[str, Any] = {t: {0: PartitionView(1)} for t in topics or () if not t.startswith("absent")}
        return ClusterView(topics=found, errors={t: 3 for t in topics or () if t not in found})


@pytest.mark.usefixtures("slow_elections")
def test_names_that_wait_are_asked_for_together_and_those_that_were_asked_for_keep_the_pace(tasks: TaskGroup) -> None:
    source = Source()
    leaders = Leaders(
        source,
        by_name=True,
        refresh_ms=-1,
        backoff_ms=FOREVER_MS,
        after_refresh=lambda old: None,
        outages=Outages(lambda level, event: None),
    )
    tasks.spawn("leaders", leaders.run)
    leaders.look_up("a")
    until(lambda: source.asked)
    for topic in ("b", "absent", "c"):
        leaders.look_up(topic)
    source.go.set()
    until(lambda: "c" in leaders.view.topics)
    for topic in ("d", "e"):
        leaders.need("absent")  # the first of them at once, the next one 10,000 s later
        leaders.look_up(topic)
        until(lambda topic=topic: topic in leaders.view.topics)
    assert source.asked[:2] == [["a"], ["absent", "b", "c"]]
    assert sorted(name for names in source.asked[2:] for name in names) == ["absent", "d", "e"]
    leaders.close()


@pytest.mark.usefixtures("slow_elections")
def test_a_look_up_that_takes_long_is_not_repeated_at_once(tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    source, clock = Source(), [1000.0]
    source.go.set()
    answers = source.read

    def slow(topics: Sequence[str] | None, create: bool = True) -> ClusterView:
        clock[0] += 10 * module.QUIET_S if topics == ["absent"] else 0
        return answers(topics, create)

    monkeypatch.setattr(source, "read", slow)
    monkeypatch.setattr(module, "now", lambda: clock[0])
    leaders = Leaders(
        source,
        by_name=True,
        refresh_ms=-1,
        backoff_ms=FOREVER_MS,
        after_refresh=lambda old: None,
        outages=Outages(lambda level, event: None),
    )
    tasks.spawn("leaders", leaders.run)
    leaders.need("absent")
    until(lambda: leaders.refreshes == 1)
    leaders.need("absent")  # 10,000 s later
    leaders.look_up("a")
    until(lambda: "a" in leaders.view.topics)
    assert source.asked == [["absent"], ["a"]]
    leaders.close()
