"""Our consumer on 0.7 while things break under it: brokers killed, moved, emptied, cut short; on both kinds."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafkawire.model import BrokerPartition, TopicPartition
from localkafka.proxy import Proxy
from localkafka.seven import entries
from localkafka.seven.client import Closed
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from tests.integration.readers import Reader

# On brokers in Python with every run of the tests, on originals with the long ones.
ORIGINAL = pytest.param("original", marks=[pytest.mark.kafka07, pytest.mark.faults])
pytestmark = [pytest.mark.real, pytest.mark.parametrize("kind07", ["python", ORIGINAL], indirect=True)]
Starter = Callable[..., Cluster07]


def reading(cluster: Cluster07, group: str, topic: str, **options: object) -> Reader:
    return Reader(cluster.zookeeper, group, {topic: 1}, kafka_version="0.7.2", **options)


def logged(cluster: Cluster07, topic: str) -> dict[tuple[str, bytes], int]:
    """How often each value is in the logs, by partition."""
    return Counter((str(p), value) for p, values in cluster.values(topic).items() for value in values)


def handed(reader: Reader) -> dict[tuple[str, bytes], int]:
    return Counter((str(got.tp.partition), got.value) for got in list(reader.got))


def committed(cluster: Cluster07, group: str, topic: str) -> dict[str, int]:
    zk, path = cluster.zk(), f"/consumers/{group}/offsets/{topic}"
    return {p: int(zk.get(f"{path}/{p}")[0]) for p in zk.get_children(path)}


def ends(cluster: Cluster07, topic: str) -> dict[str, int]:
    return {str(p): end for p, end in cluster.ends(topic).items()}


def wait_read(reader: Reader, cluster: Cluster07, topic: str, timeout_s: float = 20) -> None:
    def all_read() -> bool:
        assert not reader.errors, reader.errors
        return logged(cluster, topic).keys() <= handed(reader).keys()

    def missing() -> str:
        return f"{len(logged(cluster, topic).keys() - handed(reader).keys())} values; {told(reader)}"

    wait_until(all_read, timeout_s, missing)


def told(reader: Reader) -> str:
    return "\n".join(f"{event.kind}: {event.text}" for event in reader.events)


@contextmanager
def producing(cluster: Cluster07, topic: str, places: list[tuple[int, int]]) -> Iterator[list[int]]:
    """A thread that goes on producing wrappers and plain sets wherever a broker takes them; the number of sets."""
    stop, sent = threading.Event(), [0]

    def produce() -> None:
        while not stop.wait(0.01):
            broker, index = places[sent[0] % len(places)]
            values = [b"%d-%d" % (sent[0], n) for n in range(5)]
            sent[0] += 1
            data = entries.wrapper(values, 1 + sent[0] % 2) if sent[0] % 3 else entries.plain(values)
            try:
                with cluster.node(broker).client(timeout_s=2) as link:
                    link.produce(topic, index, data)
                    link.offsets(topic, index)
            except (OSError, Closed):
                continue

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield sent
    finally:
        stop.set()
        thread.join()


def lot(letter: str, count: int = 50) -> list[bytes]:
    """Values of one length, so that positions can be counted: a plain one takes 17 bytes."""
    return [b"%s%06d" % (letter.encode(), number) for number in range(count)]


def test_brokers_killed_while_they_are_written_and_read_cost_no_message(cluster07: Starter, unique: Any) -> None:
    flushes = {"log.flush.interval": 20, "log.default.flush.scheduler.interval.ms": 100}
    cluster = cluster07(partitions={0: 2, 1: 1}, settings={"log.file.size": 3000, **flushes})
    topic, group = unique.topic(), unique.group()
    cluster.create_topic(topic)
    with reading(cluster, group, topic) as reader:
        with producing(cluster, topic, [(0, 0), (0, 1), (1, 0)]) as sent:
            for killed in (0, 1):
                before = sent[0]
                wait_until(lambda: sent[0] > before + 60, 20, "sets to be sent")  # noqa: B023
                cluster.node(killed).kill()
                cluster.node(killed).restart()
            before = sent[0]
            wait_until(lambda: sent[0] > before + 60, 20, "sets to be sent")
        wait_settled(cluster, topic, 3)
        wait_read(reader, cluster, topic)
        reader.stop()
    assert handed(reader) == logged(cluster, topic)
    assert committed(cluster, group, topic) == ends(cluster, topic)


def wait_settled(cluster: Cluster07, topic: str, partitions: int) -> None:
    """Until the partitions are registered and nothing waits for a flush: their files end where readers see the end."""

    def settled() -> bool:
        found = cluster.partitions(topic)
        files = {p: cluster.node(p.broker).segments(topic, p.index)[-1] for p in found}
        sizes = {p: int(path.stem) + path.stat().st_size for p, path in files.items()}
        return len(found) == partitions and cluster.ends(topic) == sizes

    wait_until(settled, 15, lambda: f"{partitions} partitions to be flushed, have {cluster.ends(topic)}")


@pytest.mark.faults
def test_a_broker_that_comes_back_elsewhere_is_read_on(cluster07: Starter, unique: Any) -> None:
    cluster, topic, group = cluster07(brokers=2), unique.topic(), unique.group()
    for broker in (0, 1):
        cluster.produce(topic, broker, 0, lot("a"), codec="gzip", batch=10)
    with reading(cluster, group, topic) as reader:
        wait_read(reader, cluster, topic)
        cluster.node(1).stop()
        cluster.node(1).restart(port=0)
        cluster.produce(topic, 1, 0, lot("b"), codec="snappy", batch=10)
        wait_read(reader, cluster, topic)
        cluster.node(0).kill()
        cluster.node(0).restart(port=0)
        cluster.produce(topic, 0, 0, lot("b"), batch=10)
        wait_read(reader, cluster, topic)
        reader.stop()
    assert handed(reader) == logged(cluster, topic)
    assert committed(cluster, group, topic) == ends(cluster, topic)


@pytest.mark.faults
def test_partitions_that_come_and_go_with_a_restart_are_read_and_let_go(cluster07: Starter, unique: Any) -> None:
    cluster, topic, group = cluster07(partitions={0: 1, 1: 2}), unique.topic(), unique.group()
    cluster.create_topic(topic)
    with reading(cluster, group, topic) as reader:
        cluster.produce(topic, 1, 1, lot("a"))
        cluster.node(0).restart(settings={"num.partitions": 3})
        cluster.produce(topic, 0, 2, lot("b"))
        wait_read(reader, cluster, topic)
        cluster.node(1).restart(settings={"num.partitions": 1})
        cluster.produce(topic, 1, 0, lot("c"))
        wait_read(reader, cluster, topic)
        left = {TopicPartition(topic, BrokerPartition(*p)) for p in ((0, 0), (0, 1), (0, 2), (1, 0))}
        wait_until(lambda: reader.owns() == left, 30, lambda: f"{left}, owns {reader.owns()}; {told(reader)}")
        cluster.node(1).restart(settings={"num.partitions": 2})
        cluster.produce(topic, 1, 1, lot("d"))
        wait_read(reader, cluster, topic)
        reader.stop()
    assert handed(reader) == logged(cluster, topic)
    assert committed(cluster, group, topic) == ends(cluster, topic)


def test_what_retention_took_from_a_reader_that_was_away_is_told_in_bytes(cluster07: Starter, unique: Any) -> None:
    cluster, topic, group = cluster07(settings={"log.file.size": 1500}), unique.topic(), unique.group()
    cluster.produce(topic, 0, 0, lot("a", 100), batch=10)
    with reading(cluster, group, topic) as reader:
        wait_read(reader, cluster, topic)
        reader.stop()
    cluster.produce(topic, 0, 0, lot("b", 300), batch=10)
    node = cluster.node(0)
    node.stop()
    for path in node.segments(topic, 0)[:-1]:
        path.unlink()
    node.restart()
    first = int(node.segments(topic, 0)[0].stem)
    with reading(cluster, group, topic) as reader:
        wait_read(reader, cluster, topic)
        reader.stop()
    assert handed(reader) == logged(cluster, topic)
    missing = f"{topic}/0-0 at 1700: out of range, its log holds {first} to 6800; going on at {first}"
    assert reader.kinds("gap") == [
        f"{missing}, {first - 1700} bytes are missing (smallest): the log was cut before they were read"
    ]


@pytest.mark.parametrize("left", [17 * 40, pytest.param(0, marks=pytest.mark.faults)])
def test_a_log_cut_short_or_emptied_under_a_reader_is_read_from_its_begin(
    cluster07: Starter, unique: Any, left: int
) -> None:
    cluster, topic, group = cluster07(), unique.topic(), unique.group()
    cluster.produce(topic, 0, 0, lot("a", 100))
    node = cluster.node(0)
    with reading(cluster, group, topic) as reader:
        wait_read(reader, cluster, topic)
        node.stop()
        if left:
            with node.segments(topic, 0)[0].open("r+b") as file:
                file.truncate(left)
        else:
            shutil.rmtree(node.data / f"{topic}-0")  # the topic is deleted
        node.restart()
        cluster.produce(topic, 0, 0, lot("b", 10))
        wait_read(reader, cluster, topic)
        reader.stop()
    assert committed(cluster, group, topic) == ends(cluster, topic) == {"0-0": left + 170}
    again = [text for text in reader.kinds("reset") if "going back to 0 (smallest): the log was truncated or" in text]
    assert len(again) == 1, told(reader)


@pytest.mark.faults
def test_a_frozen_broker_is_let_go_and_read_on(cluster07: Starter, unique: Any) -> None:
    cluster, topic, group = cluster07(brokers=2), unique.topic(), unique.group()
    for broker in (0, 1):
        cluster.produce(topic, broker, 0, lot("a"))
    with reading(cluster, group, topic) as reader:
        wait_read(reader, cluster, topic)
        cluster.node(1).pause()
        wait_until(lambda: len(reader.owns()) == 1, 15, lambda: told(reader))
        cluster.produce(topic, 0, 0, lot("b"))
        wait_until(lambda: len(reader.got) == 150, 30, lambda: told(reader))
        cluster.node(1).resume()
        wait_until(lambda: len(reader.owns()) == 2, 15, lambda: told(reader))
        cluster.produce(topic, 1, 0, lot("b"))
        wait_read(reader, cluster, topic)
        reader.stop()
    assert handed(reader) == logged(cluster, topic)
    assert committed(cluster, group, topic) == ends(cluster, topic)


@pytest.mark.faults
def test_bad_positions_stop_their_partition_and_no_other_and_large_messages_stop_none(
    cluster07: Starter, unique: Any
) -> None:
    cluster, topic, group = cluster07(partitions=4), unique.topic(), unique.group()
    for index in range(4):
        cluster.produce(topic, 0, index, lot("a", 100))
    cluster.produce(topic, 0, 1, [b"x" * 5000, b"behind"])
    for index, position in ((0, 3), (2, 17 * 3 + 1), (3, 99999)):
        cluster.zk().create(f"/consumers/{group}/offsets/{topic}/0-{index}", b"%d" % position, makepath=True)
    with reading(cluster, group, topic, fetch_size=2000) as reader:
        wait_until(lambda: len(reader.kinds("parked")) == 2, 30, lambda: told(reader))
        wait_until(lambda: len(reader.got) == 202, 30, lambda: told(reader))
        reader.stop()
    places = Counter(str(got.tp.partition) for got in reader.got)
    assert places == {"0-1": 102, "0-3": 100}
    assert all("a position inside a message looks like this too" in text for text in reader.kinds("parked"))
    at = ends(cluster, topic)
    assert committed(cluster, group, topic) == {**at, "0-0": 3, "0-2": 52}


@pytest.mark.faults
def test_links_that_break_stall_or_dribble_cost_neither_a_message_nor_a_duplicate(
    cluster07: Starter, unique: Any
) -> None:
    cluster, topic, group = cluster07(partitions=3), unique.topic(), unique.group()
    node, number = cluster.node(0), 0

    def more() -> None:
        nonlocal number
        for index, codec in enumerate(("none", "gzip", "snappy")):
            values = [b"%d-%d" % (number, n) + b"x" * 100 for n in range(100)]
            cluster.produce(topic, 0, index, values, codec=codec, batch=20)
        number += 1

    more()
    with Proxy(("127.0.0.1", node.port)) as proxy:
        cluster.zk().set("/brokers/ids/0", b"127.0.0.1-1:127.0.0.1:%d" % proxy.address[1])
        faults: list[Callable[[], object]] = [
            lambda: proxy.slice(3),
            proxy.reset,
            lambda: proxy.cut(7001, "to_client"),
            lambda: proxy.half_close("to_client"),
            proxy.blackhole,
            lambda: proxy.delay(300),
            lambda: (proxy.refuse(), proxy.reset()),
            lambda: proxy.throttle(20000),
        ]
        with reading(cluster, group, topic, fetch_size=5000, socket_timeout_ms=2000) as reader:
            wait_read(reader, cluster, topic)
            for fault in faults:
                fault()
                more()
                time.sleep(2.5)  # longer than a silent link is waited for
                proxy.clear()
                wait_read(reader, cluster, topic)
            assert proxy.counters.bytes_to_client > 10_000
            reader.stop()
    assert handed(reader) == logged(cluster, topic)
    assert committed(cluster, group, topic) == ends(cluster, topic)


@pytest.mark.faults
def test_zookeeper_killed_and_frozen_costs_no_message(cluster07: Starter, unique: Any) -> None:
    cluster, topic, group = cluster07(brokers=2, zookeeper=None), unique.topic(), unique.group()

    def more(letter: str) -> None:
        for broker in (0, 1):
            cluster.produce(topic, broker, 0, lot(letter), batch=10)

    more("a")
    with reading(cluster, group, topic, zookeeper_session_timeout_ms=3000) as reader:
        wait_read(reader, cluster, topic)
        cluster.zookeeper_server.kill()
        more("b")
        cluster.zookeeper_server.restart()
        wait_read(reader, cluster, topic)
        cluster.zookeeper_server.pause()
        more("c")
        time.sleep(6)  # longer than the sessions of all
        cluster.zookeeper_server.resume()
        more("d")
        wait_until(lambda: len(cluster.partitions(topic)) == 2, 20, "both brokers to register again")
        wait_read(reader, cluster, topic)
        reader.stop()
    assert handed(reader).keys() == logged(cluster, topic).keys()
    assert committed(cluster, group, topic) == ends(cluster, topic)
