"""Producer on the fake cluster, from a plain program and from a gevent program."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from groundwork.tasks import TaskGroup
from kafkawire.errors import BrokerError, LocalError
from producer.config import ProducerConfig
from producer.errors import Closed, NotSent, QueueFull, SendFailed, Undeliverable
from producer.messages import KeyedMessage
from producer.partitioners import byte_array_partitioner
from producer.producer import Producer
from tests.fakes.broker import Fail, FakeCluster, Wait

WAIT_S = 10.0


def config_of(cluster: FakeCluster, **options: Any) -> ProducerConfig:
    return ProducerConfig(brokers=tuple(cluster.bootstrap), **{"retry_backoff_ms": 5, **options})


def all_values(cluster: FakeCluster, topic: str, partitions: int) -> list[bytes | None]:
    return [value for p in range(partitions) for value in cluster.values(topic, p)]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_plain_program_sends_and_everything_arrives_in_order(codec: str):
    sent = [b"%05d" % n for n in range(5000)]
    with FakeCluster({"t": 1}) as cluster:
        with Producer(config_of(cluster, codec=codec)) as producer:
            for value in sent:
                producer.send("t", value)
        assert cluster.values("t", 0) == sent
        assert len(cluster.seen("produce")) < 1000


@pytest.mark.parametrize("options", [{"codec": "zstd"}, {"idempotence": True}])
def test_what_the_brokers_turn_out_not_to_know_is_refused_before_anything_is_sent(options: dict[str, Any]):
    with FakeCluster({"t": 1}) as cluster:
        with (
            Producer(config_of(cluster, **options)) as producer,
            pytest.raises(LocalError, match=r"Kafka 0\.8\.2.*the brokers are of that release"),
        ):
            producer.send("t", b"v")
        assert cluster.seen("produce") == []


def test_a_gevent_program_sends_in_its_own_hub():
    with FakeCluster({"t": 1}) as cluster:
        tasks = TaskGroup()
        threads: set[int] = set()

        def program() -> None:
            with Producer(
                config_of(cluster), hub="caller", encoder=lambda v: threads.add(threading.get_ident()) or v
            ) as p:
                for n in range(100):
                    p.send("t", b"%d" % n)
            tasks._stopped.set()

        tasks.spawn("program", program)
        assert tasks.wait(WAIT_S)
        assert cluster.values("t", 0) == [b"%d" % n for n in range(100)]
        assert threads == {threading.get_ident()}
        tasks.stop(WAIT_S)


def test_keys_choose_partitions_as_the_partitioner_says_and_travel_with_the_message():
    with FakeCluster({"t": 4}, brokers=2) as cluster:
        with Producer(config_of(cluster)) as producer:
            for n in range(100):
                producer.send("t", f"v{n}", key=b"k%d" % n)
        for p in range(4):
            keys = [key for _, key, _ in cluster.messages("t", p)]
            assert keys
            assert all(byte_array_partitioner(key or b"", 4) == p for key in keys)


def test_headers_are_refused_where_messages_have_none_and_what_are_no_headers_always():
    with FakeCluster({"t": 1}) as cluster, Producer(config_of(cluster, version="0.8.2")) as producer:
        with pytest.raises(NotSent, match=r"topic t: messages of Kafka 0\.8\.2 have no headers; nothing was sent"):
            producer.send("t", b"v", headers=[("a", b"b")])
        with pytest.raises(NotSent, match="have no headers"):
            producer.send([KeyedMessage("t", b"v", headers={"a": b"b"})])
        producer.send("t", b"v", headers=())
        producer.flush()
        assert cluster.values("t", 0) == [b"v"]


def test_partition_partitioner_and_encoders_can_be_given():
    with FakeCluster({"t": 4}) as cluster:
        options: dict[str, Any] = {"encoder": lambda v: str(v).encode(), "partitioner": lambda key, n: key % n}
        with Producer(config_of(cluster), **options) as producer:
            producer.send("t", 1.5, key=6)
            producer.send("t", None, key=7, partition=3)
        assert cluster.messages("t", 2) == [(0, b"6", b"1.5")]
        assert cluster.messages("t", 3) == [(0, b"7", b"None")]


def test_a_null_value_stays_null():
    with FakeCluster({"t": 1}) as cluster:
        with Producer(config_of(cluster)) as producer:
            producer.send("t", None, key=b"gone")
        assert cluster.messages("t", 0) == [(0, b"gone", None)]


def test_messages_without_a_key_reach_every_partition_with_a_leader_in_time():
    with FakeCluster({"t": 3}) as cluster:
        with Producer(config_of(cluster, linger_ms=0)) as producer:
            for _ in range(60):
                producer.send("t", b"v")
                producer.flush(WAIT_S)
        assert all(cluster.values("t", p) for p in range(3))


def test_a_topic_is_created_by_naming_it_where_brokers_do_that():
    with FakeCluster(auto_create=2) as cluster:
        with Producer(config_of(cluster)) as producer:
            producer.send("new", b"v")
        assert all_values(cluster, "new", 2) == [b"v"]


def test_a_missing_topic_is_a_named_error():
    with FakeCluster({"t": 1}) as cluster, Producer(config_of(cluster, retries=1)) as producer:
        with pytest.raises(BrokerError, match=r"topic nowhere: UnknownTopicOrPartition \(3\)"):
            producer.send("nowhere", b"v")
        with pytest.raises(LocalError, match="t/5: topic t has 1 partitions"):
            producer.send("t", b"v", partition=5)


def test_no_broker_is_a_named_error_soon():
    with FakeCluster({"t": 1}) as cluster:
        config = config_of(cluster, retries=1)
        cluster.stop(1)
        producer = Producer(config)
        with pytest.raises(Exception, match=r"no broker of the cluster answers: .*127.0.0.1:\d+.*refused"):
            producer.send("t", b"v")
        producer.close(WAIT_S)


def test_a_message_larger_than_any_may_be_is_refused_at_once_and_the_others_go_on():
    with FakeCluster({"t": 1}) as cluster, Producer(config_of(cluster, message_max_bytes=2000)) as producer:
        with pytest.raises(
            Undeliverable, match=r"t: a message of 3026 bytes is larger than message.max.bytes \(2000\)"
        ):
            producer.send("t", b"x" * 3000)
        producer.send("t", b"small")
        producer.flush(WAIT_S)
        assert cluster.values("t", 0) == [b"small"]


def test_what_could_not_be_stored_is_raised_by_the_next_flush_with_its_count():
    with FakeCluster({"t": 1}) as cluster, Producer(config_of(cluster, retries=0, linger_ms=50)) as producer:
        cluster.script("produce", Fail(7))
        for _ in range(3):
            producer.send("t", b"v")
        with pytest.raises(SendFailed, match=r"3 messages were not stored; .*RequestTimedOut") as raised:
            producer.flush(WAIT_S)
        assert isinstance(raised.value.first, BrokerError)
        producer.send("t", b"after")
        producer.flush(WAIT_S)
        assert cluster.values("t", 0) == [b"after"]


def test_send_waits_while_there_is_no_room():
    release = threading.Event()
    with FakeCluster({"t": 1}) as cluster:
        cluster.script("produce", Wait(release))
        with Producer(config_of(cluster, queue_messages=10, batch_messages=5)) as producer:
            for n in range(10):
                producer.send("t", b"%d" % n)
            waiting = threading.Thread(target=producer.send, args=("t", b"10"))
            waiting.start()
            waiting.join(0.2)
            assert waiting.is_alive()
            assert producer.pending == 10
            release.set()
            waiting.join(WAIT_S)
        assert cluster.values("t", 0) == [b"%d" % n for n in range(11)]


def test_queue_full_after_the_enqueue_time_out_names_topic_and_option():
    release = threading.Event()
    with FakeCluster({"t": 1}) as cluster:
        cluster.script("produce", Wait(release))
        options = {"queue_bytes": 2048, "enqueue_timeout_ms": 50}
        with Producer(config_of(cluster, **options)) as producer:
            producer.send("t", b"x" * 1500)
            begin = time.monotonic()
            with pytest.raises(QueueFull, match=r"t: 1 messages .*queue.enqueue.timeout.ms"):
                producer.send("t", b"x" * 1500)
            assert 0.04 < time.monotonic() - begin < 5
            release.set()


def test_lingering_messages_are_flushed_without_waiting():
    with FakeCluster({"t": 1}) as cluster, Producer(config_of(cluster, linger_ms=60000)) as producer:
        producer.send("t", b"v")
        begin = time.monotonic()
        producer.flush(WAIT_S)
        assert time.monotonic() - begin < 5
        assert cluster.values("t", 0) == [b"v"]


def test_close_drains_and_says_what_is_left_after_its_time():
    with FakeCluster({"t": 1}) as cluster:
        release = threading.Event()
        cluster.script("produce", Wait(release))
        producer = Producer(config_of(cluster))
        producer.send("t", b"v")
        with pytest.raises(SendFailed, match=r"1 messages are not acknowledged after 0.1 s"):
            producer.close(0.1)
        producer.close(0.1)
        with pytest.raises(Closed):
            producer.send("t", b"v")
        release.set()


def test_only_compressed_topics_are_compressed():
    with FakeCluster({"a": 1, "b": 1}) as cluster:
        with Producer(config_of(cluster, codec="gzip", compressed_topics=("a",))) as producer:
            producer.send("a", b"v" * 100)
            producer.send("b", b"v" * 100)
        codecs = {t: data[17] & 7 for seen in cluster.seen("produce") for (t, _), data in seen.body["sets"].items()}
        assert codecs == {"a": 1, "b": 0}


def test_a_program_that_ends_without_close_still_sends_what_it_can():
    program = """
import sys
from producer.config import ProducerConfig
from producer.producer import Producer
producer = Producer(ProducerConfig(brokers=(("127.0.0.1", int(sys.argv[1])),)))
for n in range(100):
    producer.send("t", b"%d" % n)
"""
    with FakeCluster({"t": 1}) as cluster:
        done = subprocess.run([sys.executable, "-c", program, str(cluster.ports[1])], capture_output=True, timeout=30)
        assert done.returncode == 0, done.stderr
        assert cluster.values("t", 0) == [b"%d" % n for n in range(100)]
