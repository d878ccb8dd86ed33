"""Our consumer on real clusters, alone: what it reads, where it begins, what it commits, what it never does."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka import tools
from localkafka.client import ClusterClient, started_client
from localkafka.load import Load, Mixture
from localkafka.waiting import wait_until
from tests import children
from tests.fakes.commits import not_committed
from tests.integration.readers import ChildReader, Reader, committed, config, owners, places, wait_for_messages
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import BeyondEnd, ChrootMissing, NoBrokers, Unreachable
from zkconsumer.filters import Whitelist

pytestmark = pytest.mark.real
MIXED = Mixture(0.5, (0, 1, 2))


def load(cluster: ClusterClient, topic: str, partitions: int, count: int, mixture: Mixture = MIXED) -> None:
    producer = Load(cluster.brokers, cluster.version)
    producer.produce(topic, partitions, count, mixture, batch=50)
    producer.close()


def test_what_the_jvm_console_producer_sends_is_read(source, unique):
    topic = unique.topic()
    source.create_topic(topic, 2)
    for codec in ("none", "gzip", "snappy"):
        lines = [f"k{i}:{codec} line {i}" for i in range(40)]
        tools.console_producer(source, topic, lines, codec=codec, key_separator=":")
    with Reader(source.zookeeper, unique.group(), {topic: 2}) as reader:
        wait_for_messages(120, reader)
    values = sorted(got.value for got in reader.got)
    assert values == sorted(f"{codec} line {i}".encode() for codec in ("none", "gzip", "snappy") for i in range(40))


def test_a_clean_stop_and_start_repeats_and_loses_nothing(source, unique):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 3)
    load(source, topic, 3, 900)
    with Reader(source.zookeeper, group, {topic: 1}) as first:
        wait_for_messages(300, first)
        began = time.monotonic()
        first.stop()
        assert time.monotonic() - began < 5
    load(source, topic, 3, 300)
    with Reader(source.zookeeper, group, {topic: 1}) as second:
        wait_until(lambda: len(places(first, second)) >= 1200, 30, "all messages")
        second.stop()
    assert len(places(first, second)) == 1200
    assert set(places(first, second).values()) == {1}
    assert sum(committed(source, group, topic).values()) == 1200


def test_the_start_position_is_committed_before_anything_is_done(source, unique):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 2)
    load(source, topic, 2, 100)
    connector = ConsumerConnector(config(source.zookeeper, group, auto_offset_reset="largest"), "own")
    with connector:
        connector.create_message_streams({topic: 1})
        wait_until(lambda: len(committed(source, group, topic)) == 2, 10, "start positions")
        assert committed(source, group, topic) == {0: 50, 1: 50}


def test_a_whitelist_picks_up_a_new_topic_within_five_seconds_from_its_beginning(source, unique):
    group, stem = unique.group(), unique.topic("white")
    source.create_topic(f"{stem}-a", 1)
    with Reader(source.zookeeper, group, Whitelist(f"{stem}-.*"), 2, auto_offset_reset="largest") as reader:
        wait_until(lambda: reader.connector.settled and len(reader.owns()) == 1, 10, "the first topic")
        source.create_topic(f"{stem}-b", 2)
        load(source, f"{stem}-b", 2, 100)
        wait_until(lambda: len(reader.got) == 100, 5, lambda: f"100 messages, have {len(reader.got)}")
    assert {got.tp.topic for got in reader.got} == {f"{stem}-b"}


def test_partitions_added_while_running_are_read_from_their_beginning(source, unique):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 1)
    with Reader(source.zookeeper, group, {topic: 1}, auto_offset_reset="largest") as reader:
        wait_until(lambda: len(reader.owns()) == 1, 10, "the first partition")
        tools.topic_command(source, "--alter", "--topic", topic, "--partitions", "3")
        source.wait_in_sync(topic)
        load(source, topic, 3, 150)
        wait_for_messages(100, reader)
        wait_until(lambda: {got.tp.partition for got in reader.got} >= {1, 2}, 10, "the new partitions")
        new = [got for got in reader.got if got.tp.partition in (1, 2)]
    assert {got.offset for got in new} >= {0}


def test_subscribing_never_creates_a_source_topic(source, unique):
    topic = unique.topic("absent")
    with Reader(source.zookeeper, unique.group(), {topic: 1}) as reader:
        wait_until(lambda: reader.connector.settled, 10, "a settled member")
        time.sleep(0.5)
        assert topic not in source.registry().zk.get_children("/brokers/topics")
        source.create_topic(topic, 1)
        load(source, topic, 1, 50)
        wait_until(lambda: len(reader.got) == 50, 5, "the topic's messages, once somebody else made it")


def test_a_position_behind_the_end_of_the_log_is_not_committed(source, unique):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 1)
    load(source, topic, 1, 500)
    tp = TopicPartition(topic, 0)
    with ConsumerConnector(config(source.zookeeper, group, auto_commit_enable=False), "own") as connector:
        connector.create_message_streams({topic: 1})
        found = not_committed(connector.commit_offsets, {tp: 1_000_000_000}).failed[tp]
        assert isinstance(found, BeyondEnd)
        assert str(found) == f"{tp}: 1000000000 is behind the end of the log, which is 500, so it is not committed"
        assert committed(source, group, topic) == {}
        assert connector.commit_offsets({tp: 500}) == [tp]  # the end itself: whatever comes is new
        load(source, topic, 1, 100)
        wait_until(lambda: connector.commit_offsets({tp: 600}) == [tp], 10, "the new end to be known")
        assert isinstance(not_committed(connector.commit_offsets, {tp: 601}).failed[tp], BeyondEnd)
        with pytest.raises(ValueError, match="-1 as the position"):
            connector.commit_offsets({tp: -1})
        assert committed(source, group, topic) == {0: 600}


def with_unreadable_offset(source, unique):
    """A topic with 20 messages and a group whose offset node holds no offset: both names, a client, and the node."""
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 1)
    load(source, topic, 1, 20)
    zk = source.registry().zk
    path = f"/consumers/{group}/offsets/{topic}/0"
    zk.create(path, b"twelve", makepath=True)
    return topic, group, zk, path


def test_an_unreadable_committed_offset_is_not_zero(source, unique):
    topic, group, zk, path = with_unreadable_offset(source, unique)
    command = ["consume", "-z", source.zookeeper, "--group", group, "--topic", topic, "--timeout-ms", "1500"]
    consumed = subprocess.run(
        [sys.executable, "-m", "zkconsumer.commands.main", *command], capture_output=True, text=True, timeout=60
    )
    assert consumed.returncode == 4, consumed
    assert f"error: not everything was read: {topic}/0 cannot be read on\n" in consumed.stderr
    with Reader(source.zookeeper, group, {topic: 1}, rebalance_backoff_ms=1600) as reader:
        wait_until(lambda: reader.kinds("unread"), 10, "the complaint")
        assert f"offset node {path} holds 'twelve'" in reader.kinds("unread")[0]
        assert reader.got == []
        (row,) = reader.connector.status()
        assert (row.tp, row.position) == (TopicPartition(topic, 0), None)
        assert "holds 'twelve'" in str(row.parked)
        assert reader.connector.unpark(row.tp) is False
        zk.set(path, b"12")
        wait_for_messages(8, reader)
        assert reader.connector.status()[0].parked is None
    assert [got.offset for got in reader.got] == list(range(12, 20))


def test_a_seek_replaces_a_committed_offset_that_cannot_be_read(source, unique):
    topic, group, zk, path = with_unreadable_offset(source, unique)
    with Reader(source.zookeeper, group, {topic: 1}, rebalance_backoff_ms=1600) as reader:
        wait_until(lambda: reader.connector.status(), 10, "the parked partition")
        reader.connector.seek(TopicPartition(topic, 0), 15)
        wait_for_messages(5, reader)
        reader.connector.commit_offsets()
        assert zk.get(path)[0] == b"20"
    assert [got.offset for got in reader.got] == list(range(15, 20))


def test_a_foreign_write_to_an_owned_offset_is_said_and_overruled_by_the_owner(source, unique):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 1)
    load(source, topic, 1, 10)
    with Reader(source.zookeeper, group, {topic: 1}, auto_commit_interval_ms=100) as reader:
        wait_until(lambda: committed(source, group, topic) == {0: 10}, 10, "the first commit")
        source.registry().zk.set(f"/consumers/{group}/offsets/{topic}/0", b"3")
        load(source, topic, 1, 10)
        wait_until(lambda: committed(source, group, topic) == {0: 20}, 10, "the owner's commit")
        assert f"another writer set the offset of {topic}/0 to 3" in reader.kinds("offset")[0]


def test_zookeeper_that_does_not_answer_is_one_sentence_with_its_address(unique):
    options = config("127.0.0.1:9", unique.group(), zookeeper_connection_timeout_ms=300)
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9 does not answer within 0\.3 s"):
        ConsumerConnector(options, "own").create_message_streams({"t": 1})


def test_a_missing_chroot_is_named_and_not_created(source, unique):
    connect = source.zookeeper.partition("/")[0] + unique.chroot
    with pytest.raises(ChrootMissing, match=f"chroot {unique.chroot} does not exist on"):
        ConsumerConnector(config(connect, unique.group()), "own").create_message_streams({"t": 1})
    zk = started_client(connect.partition("/")[0])
    try:
        assert zk.exists(unique.chroot) is None
    finally:
        zk.stop()
        zk.close()


def test_where_no_broker_ever_registered_the_connector_refuses_before_it_writes(source, unique):
    """The chroot is left out of zookeeper.connect, or is another path: no other member would see a group made there."""
    server = source.zookeeper.partition("/")[0]
    connect = server + unique.chroot
    zk = started_client(server)
    try:
        zk.create(unique.chroot)
        connector = ConsumerConnector(config(connect, unique.group()), "own")
        sentence = f"no brokers are registered under {connect}: is the chroot missing in zookeeper.connect?"
        began = time.monotonic()
        with pytest.raises(NoBrokers, match=re.escape(sentence)):
            connector.create_message_streams({"t": 1})
        assert time.monotonic() - began < 5
        assert zk.get_children(unique.chroot) == []
    finally:
        zk.delete(unique.chroot, recursive=True)
        zk.stop()
        zk.close()


def test_no_broker_that_lives_and_a_missing_topic_are_said_once(source, unique):
    """All brokers are down: their folder says that they will be back, and the group waits, as JVM members do."""
    server = source.zookeeper.partition("/")[0]
    topic = unique.topic("absent")
    zk = started_client(server)
    try:
        zk.create(f"{unique.chroot}/brokers/ids", makepath=True)
        with Reader(server + unique.chroot, unique.group(), {topic: 1}) as reader:
            wait_until(lambda: len(reader.kinds("missing")) == 2, 10, "both warnings")
            assert sorted(reader.kinds("missing")) == [
                f"no brokers are registered under {server}{unique.chroot}: is the chroot missing, or wrong?",
                f"topic {topic} does not exist (yet); waiting for it",
            ]
    finally:
        zk.delete(unique.chroot, recursive=True)
        zk.stop()
        zk.close()
    with Reader(source.zookeeper, unique.group(), {topic: 1}) as reader:
        wait_until(lambda: reader.kinds("missing"), 10, "the warning")
        source.create_topic(topic, 1)
        load(source, topic, 1, 10)
        wait_for_messages(10, reader)
        assert reader.kinds("missing") == [f"topic {topic} does not exist (yet); waiting for it"]


@contextmanager
def console(cluster: ClusterClient, group: str, topic: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """`zkconsumer consume` with pipes; it does not outlive the block."""
    argv = ["consume", "-z", cluster.zookeeper, "--group", group, "--topic", topic, "--from-beginning", *more]
    command = [sys.executable, "-m", "zkconsumer.commands.main", *argv]
    with children.started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


def test_the_console_ends_at_once_after_the_last_message_asked_for(source, unique):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 4)
    load(source, topic, 4, 4000)
    with console(source, group, topic, "--max-messages", "1500", "--num.streams", "3") as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(1500)]
        printed_at = time.monotonic()
        assert (child.wait(20), child.stdout.read()) == (0, b"")
        assert time.monotonic() - printed_at < 2
    assert all(lines)
    assert owners(source, group, topic) == {}
    assert sum(committed(source, group, topic).values()) == 1500


@pytest.mark.parametrize("count", [8, 40_000])
def test_the_console_ends_when_nobody_reads_it_and_releases_everything(source, unique, count: int):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 4)
    load(source, topic, 4, count)  # 8: nothing is left to write when the pipe is closed
    with console(source, group, topic) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert all(child.stdout.readline() for _ in range(8))
        child.stdout.close()
        closed_at = time.monotonic()
        assert (child.wait(20), child.stderr.read()) == (0, b"")
        assert time.monotonic() - closed_at < 2.5
    assert owners(source, group, topic) == {}
    assert source.registry().zk.get_children(f"/consumers/{group}/ids") == []


def test_the_console_in_a_full_pipe_ends_at_once_when_told_to(source, unique):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 4)
    load(source, topic, 4, 40_000)
    with console(source, group, topic) as child:
        assert child.stdout is not None
        wait_until(lambda: len(owners(source, group, topic)) == 4, 10, "all partitions")
        time.sleep(0.5)  # until the pipe is full
        child.terminate()
        told_at = time.monotonic()
        wait_until(lambda: owners(source, group, topic) == {}, 10, "nobody owns anything")
        assert time.monotonic() - told_at < 2
        child.stdout.close()
        assert child.wait(10) == 0


def test_killed_inside_a_claim_and_restarted_at_once_nothing_is_lost(source, unique, tmp_path: Path):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 3)
    load(source, topic, 3, 150)
    with ChildReader(source.zookeeper, group, topic, tmp_path, "inside claim=kill@1") as first:
        assert first.process.wait(20) == -9
    with ChildReader(source.zookeeper, group, topic, tmp_path) as second:
        wait_until(lambda: len(set(first.got()) | set(second.got())) == 150, 13, lambda: second.err.read_text())
        assert second.stop() == 0
    assert sum(committed(source, group, topic).values()) == 150
