"""What became of each message: deliveries, callbacks, counts, and the forms of send()."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from groundwork.tasks import TaskGroup
from kafkawire.errors import BrokerError
from kafkawire.model import TopicPartition
from producer.config import ProducerConfig
from producer.delivery import Delivery, Stored
from producer.errors import (
    Closed,
    EncoderFailed,
    InvalidTopic,
    NotSent,
    PartitionerFailed,
    QueueFull,
    RecordRefused,
    SendFailed,
)
from producer.messages import KeyedMessage, ProducerData
from producer.producer import Producer
from tests.fakes.broker import Fail, FakeCluster, Wait

WAIT_S = 10.0
T0 = TopicPartition("t", 0)


def config_of(cluster: FakeCluster, **options: Any) -> ProducerConfig:
    return ProducerConfig(brokers=tuple(cluster.bootstrap), **{"retry_backoff_ms": 5, **options})


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_delivery_tells_where_its_message_is_stored(codec: str):
    with FakeCluster({"t": 1}) as cluster, Producer(config_of(cluster, codec=codec)) as producer:
        sent = [producer.send("t", b"%d" % n) for n in range(500)]
        assert [each.result(WAIT_S) for each in sent] == [Stored(T0, n) for n in range(500)]
        assert all(each.done and each.error is None for each in sent)
        assert cluster.values("t", 0)[321] == b"321"


def test_without_acknowledgements_nobody_knows_the_offset():
    with FakeCluster({"t": 1}) as cluster, Producer(config_of(cluster, acks=0)) as producer:
        delivery = producer.send("t", b"v")
        assert delivery.result(WAIT_S) == Stored(T0, None, acknowledged=False)
        assert delivery.state == "sent, not acknowledged"
        assert (producer.counts.acked, producer.counts.unacknowledged) == (1, 1)


def test_a_delivery_that_failed_has_the_reason_and_the_message():
    with FakeCluster({"t": 1}) as cluster:
        producer = Producer(config_of(cluster, retries=0))
        cluster.script("produce", Fail(7))
        delivery = producer.send("t", "value", key="key")
        with pytest.raises(BrokerError, match="RequestTimedOut"):
            delivery.result(WAIT_S)
        assert isinstance(delivery.error, BrokerError)
        assert (delivery.key, delivery.value) == (b"key", b"value")
        with pytest.raises(SendFailed):
            producer.close(WAIT_S)


def test_only_the_message_that_is_too_large_fails_and_offsets_of_the_others_are_right():
    with FakeCluster({"t": 1}, message_max_bytes=500) as cluster:
        producer = Producer(config_of(cluster))
        sent = [producer.send("t", value) for value in (b"a", b"b", b"x" * 1000, b"c", b"y" * 1000, b"d")]
        with pytest.raises(
            SendFailed, match=r"^2 messages were not stored; the first reason: t/0 on broker 1 .*1026 bytes"
        ):
            producer.flush(WAIT_S)
        assert cluster.values("t", 0) == [b"a", b"b", b"c", b"d"]
        assert [each.error is None for each in sent] == [True, True, False, True, False, True]
        assert [each.result(0).offset for each in sent if each.error is None] == [0, 1, 2, 3]
        assert "1026 bytes" in str(sent[2].error)
        counts = producer.counts
        assert (counts.sent, counts.acked, counts.failed, counts.pending) == (6, 4, 2, 0)
        producer.close(WAIT_S)


def test_only_the_message_that_its_topic_refuses_fails():
    with FakeCluster({"t": 1}) as cluster:
        cluster.compacted.add("t")
        producer = Producer(config_of(cluster))
        sent = [producer.send("t", b"%d" % n, key=None if n in (2, 5) else b"k", partition=0) for n in range(7)]
        with pytest.raises(SendFailed, match="2 messages were not stored"):
            producer.flush(WAIT_S)
        assert cluster.values("t", 0) == [b"0", b"1", b"3", b"4", b"6"]
        assert [type(each.error) for each in sent if each.error is not None] == [RecordRefused] * 2
        assert [each.result(0).offset for each in sent if each.error is None] == [0, 1, 2, 3, 4]
        producer.close(WAIT_S)


def test_callbacks_hear_of_each_message_once_in_order_and_outside_the_hub():
    heard: list[tuple[bytes | None, int]] = []
    with FakeCluster({"t": 1}) as cluster:

        def listen(delivery: Delivery) -> None:
            heard.append((delivery.value, threading.get_ident()))

        with Producer(config_of(cluster), on_delivery=listen) as producer:
            for n in range(300):
                producer.send("t", b"%d" % n)
            producer.send("t", b"other", on_delivery=lambda delivery: heard.append((b"own", 0)))
        assert [value for value, _ in heard] == [*(b"%d" % n for n in range(300)), b"own"]
        assert len({thread for _, thread in heard[:-1]}) == 1
        assert heard[0][1] not in (threading.get_ident(), producer._hub._inbox.thread_id)  # type: ignore[attr-defined]


@pytest.mark.parametrize("keys", [None, [b"%d" % n for n in range(700)]])
def test_the_listener_of_a_producer_hears_of_each_message_of_send_many(keys: list[bytes] | None):
    heard: list[tuple[bytes | None, bytes | None, object]] = []
    values = [b"%d" % n for n in range(700)]
    with FakeCluster({"t": 1}) as cluster:
        with Producer(config_of(cluster), on_delivery=lambda d: heard.append((d.key, d.value, d.state))) as producer:
            producer.send_many("t", values, keys)
        assert heard == [(key, value, "stored") for key, value in zip(keys or [None] * 700, values, strict=True)]


def test_a_callback_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture):
    heard: list[bytes | None] = []

    def listen(delivery: Delivery) -> None:
        heard.append(delivery.value)
        if delivery.value != b"0":
            raise ValueError("no")

    with FakeCluster({"t": 1}) as cluster:
        with Producer(config_of(cluster), on_delivery=listen) as producer:
            for n in range(300):
                producer.send("t", b"%d" % n)
        assert heard == [b"%d" % n for n in range(300)]
    assert "a delivery callback raised ValueError: no" in caplog.text
    assert "a delivery callback raised ValueError 298 times more, at last " in caplog.text
    assert caplog.text.count("Traceback") == 1


def test_what_is_left_at_a_close_fails_and_its_callbacks_hear_of_it():
    release, heard = threading.Event(), []
    with FakeCluster({"t": 1}) as cluster:
        cluster.script("produce", Wait(release))
        producer = Producer(config_of(cluster), on_delivery=heard.append)
        delivery = producer.send("t", b"v")
        with pytest.raises(SendFailed, match=r"1 messages are not acknowledged after 0\.1 s"):
            producer.close(0.1)
        with pytest.raises(Closed, match="it may be stored"):
            delivery.result(0)
        assert [each.error for each in heard] == [delivery.error]
        assert producer.counts.failed == 1
        release.set()


def test_a_pending_result_times_out_and_is_still_sent():
    release = threading.Event()
    with FakeCluster({"t": 1}) as cluster, Producer(config_of(cluster)) as producer:
        cluster.script("produce", Wait(release))
        delivery = producer.send("t", b"v")
        with pytest.raises(TimeoutError, match="t/0: the message is not acknowledged after"):
            delivery.result(0.05)
        assert not delivery.done
        release.set()
        assert delivery.result(WAIT_S).offset == 0


def test_a_gevent_program_waits_for_results_and_hears_callbacks():
    heard: list[int] = []
    with FakeCluster({"t": 1}) as cluster:
        tasks = TaskGroup()

        def program() -> None:
            listen = lambda delivery: heard.append(threading.get_ident())  # noqa: E731
            with Producer(config_of(cluster), hub="caller", on_delivery=listen) as producer:
                assert producer.send("t", b"v").result(WAIT_S).offset == 0
            tasks._stopped.set()

        tasks.spawn("program", program)
        assert tasks.wait(WAIT_S)
        tasks.stop(WAIT_S)
    assert heard == [threading.get_ident()]


def test_sync_returns_once_it_is_stored_and_raises_why_it_is_not():
    with FakeCluster({"t": 1}) as cluster, Producer(config_of(cluster, type="sync", linger_ms=60000)) as producer:
        for n in range(3):
            producer.send("t", b"%d" % n)
            assert cluster.values("t", 0)[-1] == b"%d" % n
        producer.send([KeyedMessage("t", b"3"), KeyedMessage("t", b"4")])
        producer.send_many("t", [b"5", b"6"])
        assert cluster.values("t", 0) == [b"%d" % n for n in range(7)]
        cluster.script("produce", *[Fail(10)] * 10)
        with pytest.raises(Exception, match=r"MessageSizeTooLarge|larger than the target takes"):
            producer.send("t", b"v")
        with pytest.raises(SendFailed):
            producer.flush(WAIT_S)


def test_message_objects_of_both_generations_are_sent_in_order():
    with FakeCluster({"t": 4}) as cluster:
        with Producer(
            config_of(cluster), partitioner=lambda key, n: key % n, encoder=lambda v: str(v).encode()
        ) as producer:
            sent = producer.send(
                [
                    KeyedMessage("t", "a", key=1),
                    KeyedMessage("t", "b", key=1, partition_key=2),
                    KeyedMessage("t", "c", partition=3),
                    ProducerData("t", ["d", "e"], key=1),
                ]
            )
            assert [each.tp.partition for each in sent] == [1, 2, 3, 1, 1]
            (only,) = producer.send(KeyedMessage("t", "f", partition_key=0))
            assert only.tp.partition == 0
        assert cluster.messages("t", 1) == [(0, b"1", b"a"), (1, b"1", b"d"), (2, b"1", b"e")]
        assert cluster.messages("t", 2) == [(0, b"1", b"b")]
        assert cluster.messages("t", 0) == [(0, None, b"f")]


def test_send_many_keeps_the_order_of_what_it_is_given():
    values = [b"%06d" % n for n in range(12_345)]
    with FakeCluster({"t": 1}) as cluster:
        with Producer(config_of(cluster, queue_messages=1000)) as producer:
            deliveries = producer.send_many("t", iter(values))
            assert len(deliveries) == len(values)
            assert deliveries[777].result(WAIT_S) == Stored(T0, 777)
            assert deliveries[-1].result(WAIT_S) == Stored(T0, 12_344)
            assert [d.value for d in deliveries[3:6]] == values[3:6]
        assert cluster.values("t", 0) == values
        assert len(deliveries.result(0)) == len(values)


def test_send_many_with_keys_chooses_partitions_by_them():
    with FakeCluster({"t": 3}) as cluster:
        with Producer(config_of(cluster), partitioner=lambda key, n: int(key) % n) as producer:
            producer.send_many("t", [b"%d" % n for n in range(9)], keys=[b"%d" % n for n in range(9)])
            with pytest.raises(NotSent, match="topic t: there are fewer keys than values"):
                producer.send_many("t", [b"x", b"y"], keys=[b"1"])
        assert cluster.messages("t", 2) == [(0, b"2", b"2"), (1, b"5", b"5"), (2, b"8", b"8")]


def test_send_many_tells_what_was_taken_when_it_cannot_go_on():
    def values():
        yield from (b"%d" % n for n in range(700))
        yield 3.5

    with FakeCluster({"t": 1}) as cluster, Producer(config_of(cluster)) as producer:
        with pytest.raises(EncoderFailed) as failed:
            producer.send_many("t", values())
        assert len(failed.value.deliveries) == 500  # type: ignore[attr-defined]
        producer.flush(WAIT_S)
        assert len(cluster.values("t", 0)) == 500


@pytest.mark.parametrize(
    ("options", "message", "error", "says"),
    [
        ({"encoder": lambda v: v["no"]}, {"key": None}, EncoderFailed, "topic t: serializer.class raised TypeError"),
        ({"encoder": str}, {"key": None}, EncoderFailed, "serializer.class returned a str for a value"),
        (
            {"key_encoder": lambda k: 1 / 0},
            {"key": b"k"},
            EncoderFailed,
            "key.serializer.class raised ZeroDivisionError",
        ),
        (
            {"partitioner": lambda k, n: n},
            {"key": b"k"},
            PartitionerFailed,
            "returned 2 for 2 partitions; valid are 0 to 1",
        ),
        ({"partitioner": lambda k, n: -1}, {"key": b"k"}, PartitionerFailed, "returned -1 for 2 partitions"),
        ({"partitioner": lambda k, n: k / n}, {"key": b"k"}, PartitionerFailed, "partitioner.class raised TypeError"),
        ({}, {"partition": 7}, PartitionerFailed, "t/7: topic t has 2 partitions"),
        ({}, {"topic": None}, NotSent, "takes a topic .*; not a NoneType first"),
        ({}, {"topic": b"t"}, NotSent, "takes a topic .*; not a bytes first"),
        ({}, {"topic": "a/b"}, InvalidTopic, "topic 'a/b': a name has letters"),
        ({}, {"topic": "x" * 300}, InvalidTopic, "300 characters; at most 249"),
        ({}, {"topic": ".."}, InvalidTopic, r"is not '\.' or '\.\.'"),
    ],
)
def test_what_cannot_be_sent_is_one_sentence_and_nothing_is_queued(options, message, error, says):
    with FakeCluster({"t": 2}) as cluster, Producer(config_of(cluster), **options) as producer:
        with pytest.raises(error, match=says):
            producer.send(**{"topic": "t", "value": b"v", **message})
        assert producer.counts.sent == 0


def test_a_topic_that_was_prepared_is_looked_up_before_anything_is_sent():
    with FakeCluster({"t": 1}) as cluster, Producer(config_of(cluster)) as producer:
        producer.prepare("t")
        cluster.wait(lambda: cluster.seen("metadata"))
        assert cluster.seen("metadata")[0].body["topics"] == ["t"]
        assert producer.send("t", b"v").result(WAIT_S).offset == 0
        assert cluster.values("t", 0) == [b"v"]


def test_enqueue_timeouts_refuse_at_once_or_after_a_while():
    release = threading.Event()
    with FakeCluster({"t": 1}) as cluster:
        cluster.script("produce", Wait(release))
        with Producer(config_of(cluster, queue_messages=1, batch_messages=1, enqueue_timeout_ms=0)) as producer:
            producer.send("t", b"a")
            with pytest.raises(QueueFull, match="t: 1 messages"):
                producer.send("t", b"b")
            assert producer.counts.sent == 1
            release.set()


def test_a_fork_is_refused_with_a_sentence_and_the_parent_goes_on():
    with FakeCluster({"t": 1}) as cluster, Producer(config_of(cluster)) as producer:
        producer.send("t", b"before").result(WAIT_S)
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            said = b"nothing"
            try:
                producer.send("t", b"child")
            except Closed as refused:
                said = str(refused).encode()
            os.write(writes, said)
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writes)
        assert b"this process was forked after the producer was made" in os.read(reads, 1000)
        os.close(reads)
        producer.send("t", b"after").result(WAIT_S)
        assert cluster.values("t", 0) == [b"before", b"after"]


def test_counts_agree_while_eight_threads_send():
    with FakeCluster({"t": 3}) as cluster:
        with Producer(config_of(cluster, queue_messages=2000)) as producer:
            threads = [
                threading.Thread(target=lambda: [producer.send("t", b"v") for _ in range(500)]) for _ in range(8)
            ]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                counts = producer.counts
                assert counts.sent == counts.acked + counts.failed + counts.pending
                assert counts.pending <= 2000
            for thread in threads:
                thread.join(WAIT_S)
            producer.flush(WAIT_S)
            assert producer.counts.acked == 4000
        assert sum(len(cluster.values("t", p)) for p in range(3)) == 4000


def test_sizes_of_a_topic_and_the_fetch_size_they_ask_for():
    with FakeCluster({"t": 1}, message_max_bytes=4 << 20) as cluster:
        with Producer(config_of(cluster, message_max_bytes=4 << 20)) as producer:
            producer.send_many("t", [b"x" * 100] * 10)
            producer.send("t", b"y" * (3 << 20), key=b"k")
        sizes = producer.sizes["t"]
        assert (sizes.messages, sizes.largest) == (11, (3 << 20) + 27)
        assert sizes.histogram == {128: 10, 4 << 20: 1}
        assert sizes.fetch_message_max_bytes == 4 << 20
