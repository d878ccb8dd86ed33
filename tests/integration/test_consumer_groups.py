"""Our consumer in a group on real clusters: with its like, and with the JVM's."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from kazoo.exceptions import NotEmptyError

from localkafka import tools
from localkafka.client import ClusterClient
from localkafka.load import Load, Mixture
from localkafka.waiting import wait_until
from tests.integration.readers import Reader, committed, places, shares, wait_for_messages
from zkconsumer.group import audit

pytestmark = pytest.mark.real
MIXED = Mixture(0.5, (0, 1, 2))
QUICK = {"zookeeper.session.timeout.ms": 3000, "rebalance.backoff.ms": 1000, "rebalance.max.retries": 10}
OURS = {"zookeeper_session_timeout_ms": 3000, "rebalance_backoff_ms": 1000}


@pytest.fixture
def load(source: ClusterClient) -> Iterator[Callable[[ClusterClient, str, int, int], None]]:
    """One numbering for all messages of a test."""
    producer = Load(source.brokers, source.version)

    def produce(cluster: ClusterClient, topic: str, partitions: int, count: int) -> None:
        producer.produce(topic, partitions, count, MIXED, batch=20)

    yield produce
    producer.close()


def evenly(cluster: ClusterClient, group: str, topic: str, *counts: int) -> bool:
    return sorted(shares(cluster, group, topic).values()) == sorted(counts)


def begin_at_zero(cluster: ClusterClient, group: str, topic: str, partitions: int) -> None:
    """The JVM's console consumer starts at the end where nothing is committed, whatever its configuration says."""
    for partition in range(partitions):
        cluster.registry().zk.create(f"/consumers/{group}/offsets/{topic}/{partition}", b"0", makepath=True)


def values(reader: Reader) -> set[bytes | None]:
    return {got.value for got in reader.got}


def missing(count: int, ours: Reader, jvm: tools.ConsoleConsumer, group: str) -> str:
    """What a failure needs to be understood."""
    seen = Counter(str(value).split(" ")[0] for value in values(ours) | set(jvm.lines))
    rows = [(row.tp, row.state, row.done, row.committed, row.high_watermark) for row in ours.connector.status()]
    return f"{count} messages; seen {seen}; {len(jvm.lines)} by the JVM; ours {rows}; {ours.events}"


def test_a_jvm_member_and_one_of_ours_split_eight_partitions_and_take_over_from_each_other(source, unique, load):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 8)
    begin_at_zero(source, group, topic, 8)
    config = {**QUICK, "auto.commit.interval.ms": 300}
    with tools.console_consumer(source, topic, group, from_beginning=False, config=config) as jvm:
        wait_until(lambda: evenly(source, group, topic, 8), 20, "the JVM to own all")
        with Reader(source.zookeeper, group, {topic: 1}, **OURS) as ours:
            wait_until(
                lambda: evenly(source, group, topic, 4, 4) and ours.connector.settled,
                15,
                lambda: f"4 and 4, have {shares(source, group, topic)}",
            )
            assert shares(source, group, topic)[ours.consumer_id] == 4
            load(source, topic, 8, 320)
            wait_until(lambda: len(values(ours) | set(jvm.lines)) == 320, 15, lambda: missing(320, ours, jvm, group))
            jvm.kill()  # its session has to end first
            wait_until(lambda: shares(source, group, topic)[ours.consumer_id] == 8, 13, "ours to take all")
            load(source, topic, 8, 320)
            wait_until(lambda: len(values(ours) | set(jvm.lines)) == 640, 15, lambda: missing(640, ours, jvm, group))
            with tools.console_consumer(source, topic, group, from_beginning=False, config=config) as second:
                wait_until(lambda: evenly(source, group, topic, 4, 4), 20, "4 and 4 again")
                ours.stop()
                assert sum(committed(source, group, topic).values()) == 640
                wait_until(lambda: evenly(source, group, topic, 8), 15, "the JVM to take over from a clean stop")
                load(source, topic, 8, 80)
                second.wait_for(80)


def test_members_that_come_and_go_in_order_lose_and_repeat_nothing(source, unique, load):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 6)
    sent, enough = 0, threading.Event()

    def produce() -> None:
        nonlocal sent
        while not enough.wait(0.02):
            load(source, topic, 6, 120)
            sent += 120

    producing = threading.Thread(target=produce, daemon=True)
    producing.start()
    with Reader(source.zookeeper, group, {topic: 2}) as a:
        wait_for_messages(600, a)
        with Reader(source.zookeeper, group, {topic: 2}) as b:
            wait_until(lambda: evenly(source, group, topic, 4, 2), 15, "4 and 2, by streams")
            wait_for_messages(300, b)
            b.stop()
        wait_until(lambda: evenly(source, group, topic, 6), 15, "6 again")
        enough.set()
        producing.join(10)
        wait_until(lambda: len(places(a, b)) == sent, 30, lambda: f"{sent} messages, have {len(places(a, b))}")
        a.stop()
    assert set(places(a, b).values()) == {1}
    assert sum(committed(source, group, topic).values()) == sent


def test_a_live_group_whose_nodes_are_deleted_goes_on_where_it_was_and_idle_offsets_are_written_again(
    source, unique, load, monkeypatch
):
    """With auto.offset.reset largest, that is what was neither read nor committed before is read."""
    monkeypatch.setattr(audit, "AUDIT_S", 0.5)
    topic, group, zk = unique.topic(), unique.group(), source.registry().zk
    source.create_topic(topic, 4)
    largest = {**OURS, "auto_offset_reset": "largest"}
    with (
        Reader(source.zookeeper, group, {topic: 1}, consumer_id="a", **largest) as a,
        Reader(source.zookeeper, group, {topic: 1}, consumer_id="b", **largest) as b,
    ):
        wait_until(lambda: evenly(source, group, topic, 2, 2), 15, "2 and 2")
        wait_until(lambda: committed(source, group, topic) == dict.fromkeys(range(4), 0), 15, "the starts")
        zk.delete(f"/consumers/{group}/offsets", recursive=True)
        wait_until(lambda: committed(source, group, topic) == dict.fromkeys(range(4), 0), 15, "the starts again")
        for reader in (a, b):
            assert len([text for text in reader.kinds("offset") if "0 is written again" in text]) == 2
            reader.connector.pause(topic)
        load(source, topic, 4, 400)
        for folder in ("offsets", "owners", "ids"):
            with suppress(NotEmptyError):  # a member was quicker than the one who deletes
                zk.delete(f"/consumers/{group}/{folder}", recursive=True)
        wait_until(lambda: evenly(source, group, topic, 2, 2), 15, "2 and 2 again")
        for reader in (a, b):
            reader.connector.resume(topic)
        wait_for_messages(400, a, b, timeout_s=15)
        assert set(places(a, b).values()) == {1}
        for reader in (a, b):
            assert len([text for text in reader.kinds("offset") if "going on at 0" in text]) == 2
