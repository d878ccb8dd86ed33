"""What the consumer does with what it cannot simply read, on real brokers: damage, positions outside, large entries."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest
from pyspark.errors import PythonException

from kafkawire.dialects import dialect
from kafkawire.formats.v01 import messages
from kafkawire.model import TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol import requests08 as requests
from kafkawire.znodes import v08 as znodes
from localkafka.cluster import Cluster
from localkafka.segments import HEADER
from localkafka.waiting import wait_until
from sparkpipeline.errors import sentence_in
from tests.integration.hoard import fill, read_slowly
from tests.integration.readers import Reader, committed, config, places
from tests.integration.sparkloads import job as loading
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerTimeout, DamagedMessage
from zkconsumer.listeners import ConsumerListener

pytestmark = pytest.mark.real

TOPIC = "damaged"
PLAIN, WRAPPED, SIZED, WHOLE = range(4)  # the partitions, by what of them is damaged
EACH = 600
MIB = 1 << 20
SOON = {"refresh_leader_backoff_ms": 20}


def produce(cluster: Cluster, tp: TopicPartition, values: list[bytes], codec: int = 0) -> None:
    entries = messages.encode([(n, None, value, None) for n, value in enumerate(values)], codec)
    links = Links("policies")
    try:
        broker = cluster.registry().view(tp.topic).leader(tp)
        assert broker is not None
        request = requests.produce(dialect("0.8.2"), 1, 10_000, {tp: [entries]})
        assert links.link(broker, "produce").call(request)[tp].stored
    finally:
        links.close()


@pytest.fixture(scope="module")
def cluster(zk_server) -> Iterator[Cluster]:
    """Four partitions of 600 messages: a byte of one flipped, a byte of a wrapper flipped, the size of one set to 3."""
    settings = {"log.segment.bytes": 32768, "log.index.interval.bytes": 1024}
    with Cluster(zookeeper=zk_server, settings=settings) as cluster:
        cluster.create_topic(TOPIC, 4)
        draw = random.Random(4)  # not to be compressed away: several segments are wanted
        for partition in range(4):
            size, codec = (50, 1) if partition == WRAPPED else (10, 0)
            for _ in range(0, EACH, size):
                produce(cluster, TopicPartition(TOPIC, partition), [draw.randbytes(150) for _ in range(size)], codec)
        node = cluster.node(0)
        node.stop()
        node.flip_byte(TOPIC, PLAIN, offset=100, at=5)
        node.flip_byte(TOPIC, WRAPPED, offset=120, at=70)
        senseless_size(cluster, TopicPartition(TOPIC, SIZED), 100)
        node.restart()
        cluster.wait_in_sync(TOPIC)
        yield cluster


def senseless_size(cluster: Cluster, tp: TopicPartition, wanted: int) -> None:
    segment = cluster.node(0).segments(tp.topic, tp.partition)[0]
    data, at = bytearray(segment.read_bytes()), 0
    while HEADER.unpack_from(data, at)[0] != wanted:
        at += HEADER.size + HEADER.unpack_from(data, at)[1]
    struct.pack_into(">i", data, at + 8, 3)
    segment.write_bytes(data)


def offsets(reader: Reader, partition: int) -> list[int]:
    return [got.offset for got in reader.got if got.tp.partition == partition]


def test_skip_leaves_out_what_is_damaged_says_how_much_and_commits_behind_it(cluster, unique):
    group = unique.group()
    with Reader(cluster.zookeeper, group, {TOPIC: 1}, corrupt_message_policy="skip", **SOON) as reader:
        ends = dict.fromkeys(range(4), EACH)
        wait_until(lambda: committed(cluster, group, TOPIC) == ends, 20, lambda: f"the ends, have {reader.events}")
        reader.stop()
    assert offsets(reader, WHOLE) == [*range(EACH)]
    assert offsets(reader, PLAIN) == [*range(100), *range(101, EACH)]
    assert offsets(reader, WRAPPED) == [*range(100), *range(150, EACH)]
    found = next(offset for offset in offsets(reader, SIZED) if offset > 100)
    assert offsets(reader, SIZED) == [*range(100), *range(found, EACH)]
    assert found <= 120  # the next entry of the broker's index
    gaps = {event.tp.partition: event.count for event in reader.events if event.kind == "gap" and event.tp}
    assert gaps == {PLAIN: 1, WRAPPED: 50, SIZED: found - 100}
    assert len(reader.kinds("gap")) == 3
    assert any("a wrapper of unknown size at offset 149" in text for text in reader.kinds("gap"))


def test_fail_raises_once_a_partition_and_the_whole_one_goes_on(cluster, unique):
    group = unique.group()
    options = {"corrupt_message_policy": "fail", "consumer_timeout_ms": 3000, **SOON}
    read: dict[int, int] = dict.fromkeys(range(4), 0)
    failed: list[DamagedMessage] = []
    with ConsumerConnector(config(cluster.zookeeper, group, **options), "own") as connector:
        (stream,) = connector.create_message_streams({TOPIC: 1})[TOPIC]
        while read[WHOLE] < EACH or len(failed) < 3:
            try:
                read[next(stream).partition] += 1
            except DamagedMessage as error:
                failed.append(error)
        with pytest.raises(ConsumerTimeout):
            next(stream)
        states = {row.partition: row.state for row in connector.status()}
    assert read == {PLAIN: 100, WRAPPED: 100, SIZED: 100, WHOLE: EACH}
    assert sorted((error.tp, error.offset) for error in failed) == [
        (TopicPartition(TOPIC, partition), 100) for partition in (PLAIN, WRAPPED, SIZED)
    ]
    assert {states[partition] for partition in (PLAIN, WRAPPED, SIZED)} == {"parked"}
    assert committed(cluster, group, TOPIC) == {PLAIN: 100, WRAPPED: 100, SIZED: 100, WHOLE: EACH}


def test_park_stands_still_at_each_damage_and_the_whole_one_goes_on(cluster, unique):
    group = unique.group()
    with Reader(cluster.zookeeper, group, {TOPIC: 1}, **SOON) as reader:
        wait_until(lambda: len(reader.kinds("parked")) == 3, 20, lambda: f"three parked, have {reader.events}")
        wait_until(lambda: len(places(reader)) == 300 + EACH, 10, lambda: f"all before, have {len(places(reader))}")
        reader.stop()
    assert committed(cluster, group, TOPIC) == {PLAIN: 100, WRAPPED: 100, SIZED: 100, WHOLE: EACH}


class SaysWhere(ConsumerListener):
    def __init__(self) -> None:
        self.asked: list[tuple[int, int, int]] = []

    def out_of_range(self, tp: TopicPartition, requested: int, earliest: int, latest: int) -> int | None:
        self.asked.append((requested, earliest, latest))
        return latest - 10


@pytest.mark.parametrize(("policy", "first"), [("smallest", 0), ("largest", None), ("fail", None), ("listener", 40)])
def test_a_position_outside_the_log(source, unique, policy, first):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 1)
    tp = TopicPartition(topic, 0)
    produce(source, tp, [b"v"] * 50)
    zk = source.registry().zk
    zk.create(znodes.offset(group, tp), b"1000", makepath=True)
    listener = SaysWhere() if policy == "listener" else ConsumerListener()
    reset = "smallest" if policy == "listener" else policy
    wanted = config(source.zookeeper, group, auto_offset_reset=reset, consumer_timeout_ms=10000)
    events = []
    with ConsumerConnector(wanted, "own", on_event=events.append, listener=listener) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        if policy == "fail":
            wait_until(lambda: connector.status()[0].parked, 10, "the parked partition")
            assert f"{tp} at 1000: out of range, the log of broker" in str(connector.status()[0].parked)
            return
        wait_until(lambda: connector.status()[0].position == 50, 10, "the end of the log")
        if first is None:
            produce(source, tp, [b"new"])
        message = next(stream)
        assert (message.offset, message.value) == ((50, b"new") if first is None else (first, b"v"))
    assert [event.kind for event in events if event.kind in ("reset", "gap")] == ["reset"]
    if isinstance(listener, SaysWhere):
        assert listener.asked == [(1000, 0, 50)]


def test_a_large_message_grows_the_fetch_and_one_above_the_limit_is_named(source, unique):
    topic = unique.topic()
    source.create_topic(topic, 2)
    produce(source, TopicPartition(topic, 0), [b"before"])
    produce(source, TopicPartition(topic, 0), [b"x" * 900_000])
    produce(source, TopicPartition(topic, 0), [b"after"])
    small = {"fetch_message_max_bytes": 65536, "queued_max_bytes": 2 * MIB, "socket_receive_buffer_bytes": 65536}
    with Reader(source.zookeeper, unique.group(), {topic: 1}, fetch_growth_max_bytes=MIB, **small) as reader:
        wait_until(lambda: len(reader.got) == 3, 10, lambda: f"three messages, have {len(reader.got)}")
        assert [len(got.value or b"") for got in reader.got] == [6, 900_000, 5]
    with Reader(
        source.zookeeper, unique.group("limited"), {topic: 1}, fetch_growth_max_bytes=500_000, **small
    ) as reader:
        wait_until(lambda: reader.kinds("parked"), 10, "the parked partition")
        told = f"{topic}/0 at 1: an entry of 900026 bytes is larger than the largest fetch, 500000 bytes"
        row = next(row for row in reader.connector.status() if row.partition == 0)
        assert told in str(row.parked)
        assert told in reader.kinds("parked")[0]


def test_a_slow_program_with_200_full_partitions_keeps_within_its_memory(own_cluster, unique):
    cluster = own_cluster(settings={"log.index.size.max.bytes": 4096})
    names = fill(cluster, unique.topic("hoard"), 2, 100, 600_000)
    told = read_slowly(cluster, unique.group(), names, 5)
    assert told["owned"] == 200
    assert 32 * MIB < told["buffered"] <= 64 * MIB
    assert told["peak"] < (64 + 150) * MIB
    assert told["parked"] == []


@pytest.mark.spark
def test_a_load_names_what_is_damaged_and_quarantines_it_where_the_job_says_so(cluster, spark, tmp_path):
    failing = loading(cluster, tmp_path, spark, topics=[TOPIC])
    with pytest.raises(PythonException) as told:
        failing.run()
    assert sentence_in(str(told.value)).endswith("; corrupt.policy: skip, or quarantine, leaves it out and counts it")
    assert "kafka.check.crcs" not in str(told.value)
    assert [said for said in failing.told if "load abandon JOB 1" in said]
    # The plan that failed is carried out by the options of today.
    load = loading(cluster, tmp_path, spark, topics=[TOPIC], corrupt_policy="quarantine", split_bytes=40_000)
    (manifest,) = load.run().manifests
    rows = {partition: sorted(row[2] for row in load.rows() if row[1] == partition) for partition in range(4)}
    found = next(offset for offset in rows[SIZED] if offset > 100)
    assert rows == {
        PLAIN: [*range(100), *range(101, EACH)], WRAPPED: [*range(100), *range(150, EACH)],
        SIZED: [*range(100), *range(found, EACH)], WHOLE: [*range(EACH)],
    }  # fmt: skip
    assert found <= 120
    damaged = {row["partition"]: row["damaged"] for row in manifest.facts["ranges"] if "damaged" in row}
    assert damaged == {PLAIN: 1, WRAPPED: 50, SIZED: found - 100}
    assert [(row["start"], row["until"]) for row in manifest.facts["damaged"]] == [
        (100, 101), (100, 150), (100, found)
    ]  # fmt: skip
    kept = sorted((tmp_path / "_load" / "quarantine").iterdir())
    assert [path.name.split("+")[1:3] for path in kept] == [[str(n), f"{100:020}"] for n in (PLAIN, WRAPPED, SIZED)]
    assert HEADER.unpack_from(kept[PLAIN].read_bytes())[0] == 100
    assert load.run().manifests == ()
    load.check()
