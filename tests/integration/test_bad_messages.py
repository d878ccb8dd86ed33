"""Policies for bad messages on real clusters: each policy for each kind, and neighbours that flow on meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from groundwork.failpoints import VARIABLE
from kafkawire.errors import BrokerError
from kafkawire.model import TopicPartition
from localkafka import tools
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration import badlogs
from tests.integration.badlogs import LARGE, but, edited, filled_around, letters, values_of
from tests.integration.mirroring import Mirror
from tests.integration.sparktopics import produce, simple

pytestmark = pytest.mark.real
POLICIES = ("park", "dead-letter", "skip")
KINDS = ("oversize", "corrupt", "undecodable", "handler")
HANDLER = "tests.integration.hooks:raises_for_some"
ROOT = str(Path(__file__).parents[2])


class Neighbour:
    """A topic that is produced to all the time; worst: the longest that one message took to arrive, in seconds."""

    def __init__(self, source: ClusterClient, target: ClusterClient, topic: str) -> None:
        self.worst = 0.0
        self.sent = 0
        self._source, self._target = source, target
        self._tp = TopicPartition(topic, 0)
        self._enough = threading.Event()
        source.create_topic(topic, 1)
        produce(source, self._tp, [(None, b"first")])

    def _run(self) -> None:
        with simple(self._target, self._tp) as consumer:
            while not self._enough.is_set():
                produce(self._source, self._tp, [(None, b"next")])
                self.sent += 1
                began = time.monotonic()
                while consumer.latest(self._tp) <= self.sent and time.monotonic() < began + 20:
                    time.sleep(0.02)
                self.worst = max(self.worst, time.monotonic() - began)

    def _begun(self) -> bool:
        try:
            return values_of(self._target, self._tp.topic) == [b"first"]
        except BrokerError:  # the mirror makes the topic, and its leader does not know yet, or answers -1 so early
            return False

    @contextlib.contextmanager
    def flowing(self) -> Iterator[None]:
        wait_until(self._begun, 30, "the first of the neighbour")
        thread = threading.Thread(target=self._run)
        thread.start()
        yield
        self._enough.set()
        thread.join(30)


def made(kind: str, source: ClusterClient, target: ClusterClient, topic: str) -> None:
    """A topic with bad messages of a kind at 5 and at 13 (in a wrapper); what needs the log is done by broken()."""
    if kind == "oversize":
        target.create_topic(topic, 2, config={"max.message.bytes": "20000"})
        filled_around(source, topic, LARGE, LARGE[::-1])
    elif kind == "handler":
        filled_around(source, topic, b"raise", b"raise too")
    else:
        filled_around(source, topic)


def broken(cluster: Cluster, topics: dict[str, str]) -> None:
    """Damage the logs of topics, by kind."""
    node = cluster.node(0)
    node.stop()
    for topic, kind in topics.items():
        if kind == "corrupt":
            edited(node, topic, 5, badlogs.flipped)
            edited(node, topic, badlogs.WRAPPER, badlogs.flipped)
        elif kind == "undecodable":
            edited(node, topic, 5, badlogs.other_format)
            edited(node, topic, badlogs.WRAPPER, badlogs.broken_gzip)
    node.restart()


def arrived(target: ClusterClient, topic: str, wanted: list[bytes | None], once: bool = False) -> bool:
    """Whether these values are there, in this order.  once: some of them may be there twice."""
    found = values_of(target, topic)
    return (list(dict.fromkeys(found)) if once else found) == wanted


def committed(mirror: Mirror, tp: TopicPartition, offset: int) -> bool:
    return mirror.committed([tp.topic]).get(tp) == offset


GONE = {"oversize": (5, 13), "handler": (5, 13), "corrupt": (5, *range(10, 15)), "undecodable": (5, *range(10, 15))}


def overrides(topics: dict[tuple[str, str], str]) -> list[dict[str, str]]:
    """Overrides for topics by kind and policy."""
    return [
        {"topics": topic, f"{'handler.error' if kind == 'handler' else kind}.policy": policy}
        for (kind, policy), topic in topics.items()
    ]


@pytest.mark.parametrize("handler", ["", HANDLER], ids=["bytes as they are", "handler"])
def test_each_policy_leaves_out_exactly_the_bad_messages_of_its_kind(
    own_cluster: Callable[..., Cluster], target: ClusterClient, unique: Unique, tmp_path: Path, handler: str
) -> None:
    source = own_cluster(brokers=1)
    kinds = KINDS if handler else KINDS[:3]
    topics = {(kind, policy): unique.topic(f"{kind}-{policy}") for kind in kinds for policy in POLICIES}
    for (kind, _), topic in topics.items():
        made(kind, source, target, topic)
    neighbour, dead = Neighbour(source, target, unique.topic("beside")), unique.topic("dead")
    broken(source, {topic: kind for (kind, _), topic in topics.items()})
    settings = {"topic.overrides": overrides(topics), "dead.letter.topic": dead, "message.handler": handler}
    mirror = Mirror(tmp_path, source, target, unique.group(), f".*{unique.tag}", settings, env={"PYTHONPATH": ROOT})
    with mirror:
        with neighbour.flowing():
            for (kind, policy), topic in topics.items():
                wanted = but(*range(5, 16)) if policy == "park" else but(*GONE[kind])
                once = bool(handler) and kind == "oversize"  # what shared its step was stored before it
                mirror.wait_for(partial(arrived, target, topic, wanted, once), f"{kind} {policy}", 60)
        for (_, policy), topic in topics.items():
            tp, end = TopicPartition(topic, 0), 5 if policy == "park" else 16
            mirror.wait_for(partial(committed, mirror, tp, end), f"{tp} at {end}")
        assert mirror.stop()[0] == 0
    assert neighbour.sent > 10
    assert neighbour.worst <= 2, mirror.said()
    for kind in kinds:
        topic = topics[kind, "dead-letter"]
        found = letters(target, dead, [topic])
        assert [(letter.offset, letter.kind) for letter in found] == [
            (5, kind), (10 if kind in ("corrupt", "undecodable") else 13, kind),
        ]  # fmt: skip
        assert {(letter.source, letter.topic, letter.partition) for letter in found} == {("dc1", topic, "0")}
        assert [letter.offsets for letter in found] == [1, 5 if kind in ("corrupt", "undecodable") else 1]
        assert all(letter.complete and letter.crc32 == badlogs.zlib.crc32(letter.data or b"") for letter in found)
    assert [letter.data for letter in letters(target, dead, [topics["oversize", "dead-letter"]])] == [
        LARGE, LARGE[::-1],
    ]  # fmt: skip
    said = mirror.said()
    for kind in kinds:
        assert f"{topics[kind, 'skip']}/0 at 5: skipped, 1 message: {kind}, " in said
    wrapped = topics["corrupt", "skip"]
    assert f"{wrapped}/0 at 10: skipped, an entry of 5 offsets: corrupt, " in said
    assert said.count(f"{topics['corrupt', 'skip']}/0 at 5: ") >= 3


def test_fail_ends_with_65_and_says_what_helps(
    own_cluster: Callable[..., Cluster], target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    source = own_cluster(brokers=1)
    topics = {kind: unique.topic(kind) for kind in KINDS}
    for kind, topic in topics.items():
        made(kind, source, target, topic)
    broken(source, {topic: kind for kind, topic in topics.items()})
    for kind, topic in topics.items():
        key = f"{'handler.error' if kind == 'handler' else kind}.policy"
        handler = HANDLER if kind == "handler" else ""
        settings = {key: "fail", "message.handler": handler}
        mirror = Mirror(tmp_path, source, target, unique.group(kind), topic, settings, env={"PYTHONPATH": ROOT})
        with mirror:
            assert mirror.exit_code(30) == 65, mirror.said()
        assert mirror.committed([topic])[TopicPartition(topic, 0)] == 5
        [line] = [line for line in mirror.said().splitlines() if "level=critical" in line]
        assert f"source dc1: {topic}/0 at 5: " in line
        assert f"mirror.{key} is fail: " in line
        assert values_of(target, topic) == but(*range(5, 16))


def test_a_kill_in_the_middle_of_a_dead_letter_repeats_it_and_never_leaves_it_out(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, dead = unique.topic(), unique.topic("dead")
    made("oversize", source, target, topic)
    settings = {"oversize.policy": "dead-letter", "dead.letter.topic": dead}
    mirror = Mirror(
        tmp_path, source, target, unique.group(), topic, settings,
        env={VARIABLE: "dead letter acknowledged, source not moved=kill"},
    )  # fmt: skip
    with mirror:
        for number in itertools.count(1):
            assert mirror.exit_code(40) is not None, mirror.said()
            assert [letter.offset for letter in letters(target, dead, [topic])] == [5] * number
            assert list(dict.fromkeys(values_of(target, topic))) == but(*range(5, 16))
            if number == 2:
                break
            mirror.start()
        mirror.env({})
        mirror.start()
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
    assert list(dict.fromkeys(values_of(target, topic))) == but(5, 13)  # nothing was committed before the kills
    assert [letter.offset for letter in letters(target, dead, [topic])] == [5, 5, 5, 13]


def test_a_dead_letter_topic_that_takes_nothing_parks_until_it_does(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, dead = unique.topic(), unique.topic("dead")
    made("oversize", source, target, topic)
    target.create_topic(dead, 1, config={"max.message.bytes": "300"})
    settings = {"oversize.policy": "dead-letter", "dead.letter.topic": dead, "parked.retry.ms": 1000}
    with Mirror(tmp_path, source, target, unique.group(), topic, settings) as mirror:
        mirror.wait_said(f"{topic}/0 at 5: its dead letter cannot be stored in {dead}: ")
        assert values_of(target, topic) == but(*range(5, 16))
        mirror.wait_for(partial(committed, mirror, TopicPartition(topic, 0), 5), "what precedes it")
        tools.topic_command(target, "--alter", "--topic", dead, "--config", "max.message.bytes=30000")
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
    assert values_of(target, topic) == but(5, 13)
    found = letters(target, dead, [topic])  # the topic takes the head only
    assert [(letter.offset, letter.complete, letter.size) for letter in found] == [
        (5, False, 40000),
        (13, False, 40000),
    ]
