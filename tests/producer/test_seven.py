"""A producer to brokers of 0.7 by a list of them: nothing is acknowledged, and what that means is said.

On the broker in Python, and with KAFKA_07_HOME on the original.
"""

from __future__ import annotations

import logging
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from groundwork.options import OptionError, load
from groundwork.tasks import TaskGroup, sleep
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.dialects import dialect
from kafkawire.errors import CorruptMessage, LocalError
from kafkawire.model import ANY, BrokerPartition, Part, TopicPartition
from localkafka import ports
from localkafka.proxy import Proxy
from localkafka.seven import entries
from localkafka.seven.node import Node07
from localkafka.waiting import wait_until
from producer.config import ProducerConfig
from producer.errors import NotSent, SendFailed, TooLarge, Undeliverable
from producer.handlers import CallbackHandler
from producer.logging import KafkaHandler
from producer.messages import ProducerData
from producer.producer import Producer
from producer.sender import Sender
from tests.fakes.tickets import Ticket
from tests.producer.running import until

WAIT_S = 20.0
CONFIRMED = {"confirm": "offsets"}
QUICK = {"kafka.version": "0.7", "retry.backoff.ms": 5, "reconnect.backoff.ms": 20}


def producer_of(address: str, **options: Any) -> Producer:
    named = {key.replace("_", "."): value for key, value in options.items()}
    return Producer({"broker.list": f"7:{address}", **QUICK, **named}, hub="own")


def values(broker: Node07, topic: str, partitions: int = 2) -> list[bytes]:
    with broker.client() as link:
        return [row.value for p in range(partitions) for row in link.rows(topic, p)]


def pause(broker: Node07) -> None:
    """It is stopped when this comes back: the signal alone lets it run on for a moment."""
    broker.pause()
    status = Path(f"/proc/{broker.pid}/stat")
    wait_until(lambda: status.read_text().rpartition(")")[2].split()[0] == "T", WAIT_S, "the broker to stand still")


# ---- what is said ----------------------------------------------------------------------------------------------------


def test_without_confirm_a_message_ends_as_sent_and_not_acknowledged(broker07: Node07, unique: Any):
    topic, heard = unique.topic(), []
    with producer_of(broker07.address) as producer:
        delivery = producer.send(topic, b"v", key=b"ignored", on_delivery=lambda d: heard.append(d.state))
        stored = delivery.result(WAIT_S)
        assert (stored.tp, stored.offset, stored.acknowledged) == (
            TopicPartition(topic, BrokerPartition(7, ANY)),
            None,
            False,
        )
        assert "sent, not acknowledged" in repr(delivery)
        producer.flush(WAIT_S)
        counts = producer.counts
        assert (counts.sent, counts.acked, counts.unacknowledged, counts.maybe_lost, counts.pending) == (1, 1, 1, 0, 0)
        assert values(broker07, topic) == [b"v"]
    assert heard == ["sent, not acknowledged"]


def test_with_confirm_a_message_counts_as_stored_once_its_broker_answered_behind_it(broker07: Node07, unique: Any):
    topic = unique.topic()
    with producer_of(broker07.address, confirm="offsets") as producer:
        delivery = producer.send(topic, b"v")
        assert delivery.result(WAIT_S).acknowledged
        assert delivery.state == "stored"
        assert values(broker07, topic) == [b"v"]
        assert (producer.counts.acked, producer.counts.unacknowledged) == (1, 0)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
@pytest.mark.parametrize("confirm", ["none", "offsets"])
def test_everything_arrives_in_order(broker07: Node07, unique: Any, codec: str, confirm: str):
    topic = unique.topic()
    sent = [b"%d" % n for n in range(3000)]
    with producer_of(broker07.address, confirm=confirm, compression_codec=codec, batch_bytes=8192) as producer:
        producer.send_many(topic, sent[:2000])
        for value in sent[2000:]:
            producer.send(topic, value)
        producer.send(ProducerData(topic, [b"a", b"b"], b"key"))
    assert (producer.counts.acked, producer.counts.maybe_lost) == (3002, 0)
    assert sorted(values(broker07, topic)) == sorted([*sent, b"a", b"b"])


def test_a_codec_that_the_release_does_not_know_is_refused():
    with pytest.raises(OptionError, match=r"compression\.codec snappy is not known to Kafka 0\.7\.0"):
        producer_of("h:1", kafka_version="0.7.0", compression_codec="snappy")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"partitioner.class": "a:b"},
            "partitioner.class needs zookeeper.connect: with a broker list alone Kafka 0.7.2",
        ),
        ({"request.required.acks": 1}, "Kafka 0.7.2 acknowledges nothing: leave request.required.acks out"),
        ({"kafka.version": "0.8.2", "confirm": "offsets"}, "confirm is for releases that acknowledge nothing"),
        ({"compression.codec": "lz4"}, "compression.codec lz4 is not known to Kafka 0.7"),
        ({"confirm": "maybe"}, "expected one of none, offsets"),
    ],
)
def test_options_that_make_no_sense_with_0_7_are_one_sentence(options: dict[str, object], says: str):
    with pytest.raises(OptionError) as refused:
        load(ProducerConfig, {"broker.list": "0:h:1", "kafka.version": "0.7", **options}, "p")
    assert says in str(refused.value)


def test_a_partitioner_is_refused_where_there_is_nothing_to_choose_from():
    config = ProducerConfig(brokers=(("h", 1),), version="0.7")
    with pytest.raises(LocalError, match=r"a partitioner needs zookeeper\.connect"):
        Producer(config, partitioner=lambda key, partitions: 0)


def test_ids_of_a_broker_list_are_kept_and_a_place_stands_for_one_that_is_missing():
    listed = load(ProducerConfig, {"broker.list": "3:h:1,1:g:2", "kafka.version": "0.7"}, "p").listed
    assert [(broker.id, broker.host) for broker in listed] == [(3, "h"), (1, "g")]
    assert [broker.id for broker in load(ProducerConfig, {"broker.list": "h:1,g:2"}, "p").listed] == [0, 1]


# ---- what would vanish -----------------------------------------------------------------------------------------------


def test_what_a_broker_would_drop_for_its_size_is_refused_before_it_is_sent(broker07: Node07, unique: Any):
    topic = unique.topic()
    with producer_of(broker07.address, **CONFIRMED) as producer:
        with pytest.raises(
            Undeliverable, match=r"a message of 1000001 bytes is larger than message\.max\.bytes \(10{6}\)"
        ):
            producer.send(topic, b"x" * 1000001)
        producer.send(topic, b"x" * 1000000).result(WAIT_S)
        assert [len(value) for value in values(broker07, topic)] == [1000000]


def test_a_set_that_is_too_large_once_it_is_compressed_is_split_down_to_the_message_at_fault(broker07, unique):
    topic = unique.topic()
    small, large = [bytes([n]) * 1000 for n in range(10)], random_bytes(1100000)
    options = {"batch_bytes": 4 << 20, "queue_buffering_max_bytes": 64 << 20, "message_max_bytes": 1000000}
    with producer_of(broker07.address, compression_codec="gzip", **CONFIRMED, **options) as producer:
        before, wrong = [producer.send(topic, value) for value in small[:5]], producer.send(topic, large)
        after = [producer.send(topic, value) for value in small[5:]]
        with pytest.raises(TooLarge, match="is larger than the target takes"):
            wrong.result(WAIT_S)
        assert all(each.result(WAIT_S).acknowledged for each in [*before, *after])
        producer.send(topic, b"y" * 3000000).result(WAIT_S)  # compressed it is small
        with pytest.raises(SendFailed, match="1 messages were not stored"):
            producer.flush(WAIT_S)
    assert sorted(map(len, values(broker07, topic))) == [*[1000] * 10, 3000000]


def random_bytes(count: int) -> bytes:
    return random.Random(7).randbytes(count)


def test_a_null_value_is_refused_and_keys_are_not_stored(broker07: Node07, unique: Any):
    topic = unique.topic()
    with producer_of(broker07.address, **CONFIRMED) as producer:
        with pytest.raises(NotSent, match=r"a message of Kafka 0\.7\.2 cannot be null; nothing was sent"):
            producer.send(topic, None)
        with pytest.raises(NotSent, match="cannot be null"):
            producer.send_many(topic, [b"a", None])
        assert producer.send(topic, b"v", key=b"key").key is None
        producer.send(topic, b"").result(WAIT_S)
        assert producer.counts.sent == 2
    assert sorted(values(broker07, topic)) == [b"", b"v"]


# ---- links and brokers that break ------------------------------------------------------------------------------------


def test_a_broker_that_is_down_fails_what_was_to_go_to_it(broker07: Node07, unique: Any):
    topic = unique.topic()
    dead = ports.reserve(0)
    options = {"broker.list": f"1:{ports.HOST}:{dead.number},7:{broker07.address}", "delivery.timeout.ms": 500}
    named = {**QUICK, **CONFIRMED, **options, "unkeyed.partitioner": "round-robin"}
    producer = Producer(named, hub="own")
    sent = [producer.send(topic, b"%d" % n) for n in range(10)]
    until(lambda: all(each.done for each in sent))
    with pytest.raises(SendFailed, match=r"1--1: broker 1 \(.*\) cannot be reached"):
        producer.close(WAIT_S)
    dead.release()
    assert {(each.tp.partition.broker, each.state) for each in sent} == {(1, "failed"), (7, "stored")}
    assert (producer.counts.acked, producer.counts.failed, len(values(broker07, topic))) == (5, 5, 5)


def test_a_link_that_was_closed_in_between_is_noticed_before_anything_is_written_to_it(own_broker07, unique, caplog):
    broker, topic = own_broker07(), unique.topic()
    for confirm in ("none", "offsets"):
        with caplog.at_level(logging.WARNING), producer_of(broker.address, confirm=confirm) as producer:
            producer.send(topic, b"a").result(WAIT_S)
            producer.flush(WAIT_S)
            broker.restart()
            producer.send(topic, b"b").result(WAIT_S)
            producer.flush(WAIT_S)
            assert (producer.counts.maybe_lost, producer.counts.failed) == (0, 0)
        assert "stored twice" not in caplog.text
    assert values(broker, topic, 1) == [b"a", b"b"] * 2


def test_what_is_written_to_a_broker_that_dies_is_counted_as_perhaps_lost(own_broker07, unique):
    broker, topic = own_broker07(), unique.topic()
    producer = producer_of(broker.address)
    producer.send(topic, b"before").result(WAIT_S)
    producer.flush(WAIT_S)
    pause(broker)
    sent = [producer.send(topic, b"%d" % n) for n in range(7)]
    assert {each.result(WAIT_S).acknowledged for each in sent} == {False}  # the system took it
    assert producer.counts.maybe_lost == 0
    broker.kill()
    wait_until(lambda: producer.counts.maybe_lost == 7, WAIT_S, lambda: str(producer.counts))
    with pytest.raises(
        SendFailed, match="7 messages may be lost: they were sent, no broker acknowledges them, and their"
    ):
        producer.flush(WAIT_S)
    producer.flush(WAIT_S)  # it is said once
    broker.restart()
    producer.send(topic, b"after").result(WAIT_S)
    producer.close(WAIT_S)
    counts = producer.counts
    assert (counts.sent, counts.acked, counts.failed, counts.pending, counts.maybe_lost) == (9, 9, 0, 0, 7)
    assert values(broker, topic, 1)[-1] == b"after"


def test_a_close_waits_for_a_sign_of_life_and_counts_what_has_none(own_broker07, unique):
    broker, topic = own_broker07(), unique.topic()
    producer = producer_of(broker.address)
    producer.send(topic, b"before").result(WAIT_S)
    producer.flush(WAIT_S)
    pause(broker)
    producer.send(topic, b"v").result(WAIT_S)
    with pytest.raises(SendFailed, match="1 messages may be lost"):
        producer.close(WAIT_S)
    broker.resume()
    assert producer.counts.maybe_lost == 1


def test_what_was_not_confirmed_is_sent_again(own_broker07, unique):
    broker, topic = own_broker07(), unique.topic()
    with producer_of(broker.address, message_send_max_retries=-1, **CONFIRMED) as producer:
        producer.send(topic, b"before").result(WAIT_S)
        pause(broker)
        sent = [producer.send(topic, b"%d" % n) for n in range(7)]
        with pytest.raises(TimeoutError):
            sent[-1].result(0.2)
        broker.kill()
        broker.restart()
        assert all(each.result(WAIT_S).acknowledged for each in sent)
        counts = producer.counts
        assert (counts.acked, counts.failed, counts.maybe_lost) == (8, 0, 0)
    stored = values(broker, topic, 1)
    assert stored[:1] == [b"before"]
    assert stored[-7:] == [b"%d" % n for n in range(7)]


@pytest.mark.parametrize("worn", [{"reconnect_interval": 1}, {"reconnect_time_interval_ms": 1}])
def test_a_load_balancer_s_address_is_enough_and_its_links_are_made_anew(
    broker07: Node07, unique: Any, worn: dict[str, int]
):
    topic = unique.topic()
    host, _, port = broker07.address.partition(":")
    with Proxy((host, int(port))) as proxy:
        address = f"{proxy.address[0]}:{proxy.address[1]}"
        with producer_of(address, reconnect_backoff_ms=0, **worn, **CONFIRMED) as producer:
            for n in range(5):
                producer.send(topic, b"%d" % n).result(WAIT_S)
                time.sleep(0.002)  # longer than the time after which a link is worn
        assert proxy.counters.connections >= 5
    assert sorted(values(broker07, topic)) == [b"%d" % n for n in range(5)]


# ---- what a broker refuses by closing the link -----------------------------------------------------------------------


class Fixed:
    """A cluster of one broker with partitions 0 to 8, whatever it has."""

    def __init__(self, broker: Node07, topic: str) -> None:
        self.dialect = dialect("0.7")
        self._view = ClusterView(
            {broker.id: broker.broker},
            {topic: {BrokerPartition(broker.id, n): PartitionView(broker.id) for n in range(9)}},
        )

    def read(self, topics: object) -> ClusterView:
        return self._view


@contextmanager
def sender_of(broker: Node07, topic: str, confirm: str) -> Iterator[Sender]:
    config = ProducerConfig(
        brokers=(("h", 1),),
        version="0.7",
        confirm=confirm,
        retries=-1,
        retry_backoff_ms=5,
        reconnect_ms=10,
        linger_ms=1,
    )
    tasks = TaskGroup()
    sender = Sender(Fixed(broker, topic), config, tasks)
    try:
        yield sender
    finally:
        sender.close(1.0)
        tasks.stop(1.0)


def part_of(topic: str, index: int, *rows: bytes, codec: int = 0, broker: int = 0) -> Part:
    data = entries.wrapper(rows, codec) if codec else entries.plain(rows)
    return Part(TopicPartition(topic, BrokerPartition(broker, index)), data, -1, codec, len(rows))


def test_a_damaged_message_is_found_and_its_neighbours_are_stored(broker07: Node07, unique: Any):
    topic = unique.topic()
    good, bad = part_of(topic, 0, b"one", b"two"), part_of(topic, 1, b"three", b"damaged")
    bad = Part(bad.tp, bytes(bad.entries[:-1]) + b"D", bad.magic, 0, 2)
    tickets = [Ticket() for _ in range(3)]
    with sender_of(broker07, topic, "offsets") as sender:
        for part, ticket in zip((good, bad, part_of(topic, 0, b"four")), tickets, strict=True):
            sender.submit(part, ticket)
        assert sender.flush(WAIT_S)
    assert [ticket.told[-1][0] for ticket in tickets] == ["done", "failed", "done"]
    assert isinstance(tickets[1].told[-1][1], CorruptMessage)
    assert set(values(broker07, topic)) == {b"one", b"two", b"three", b"four"}


def test_a_suspect_that_waits_for_what_is_on_its_way_lets_its_answer_in(own_broker07: Any, unique: Any):
    broker, topic = own_broker07(settings={"num.partitions": 2}), unique.topic()
    tickets = [Ticket() for _ in range(3)]
    with sender_of(broker, topic, "offsets") as sender:
        sender.submit(part_of(topic, 0, b"first"), tickets[0])
        assert sender.flush(WAIT_S)
        broker.pause()
        sender.submit(part_of(topic, 0, b"on its way"), tickets[1])
        until(lambda: sender.in_flight == 1)
        sender.submit(part_of(topic, 1, b"suspect"), tickets[2])
        for queue in sender._batches._queues.values():
            for piece in queue.pieces:
                piece.refusals = 1  # as after a link that was closed for it
        sleep(0.2)  # who turns in circles never comes back from here
        assert sender.in_flight == 1
        broker.resume()
        assert sender.flush(WAIT_S)
    assert [ticket.told[-1][0] for ticket in tickets] == ["done"] * 3


def test_what_closes_the_link_each_time_is_given_up_and_everything_else_goes_on(broker07: Node07, unique: Any):
    """The broker has no partition 7 and no 8: it closes the link without a word."""
    topic = unique.topic()
    wrong = {index: Ticket() for index in (7, 8)}
    right = [Ticket() for _ in range(20)]
    with sender_of(broker07, topic, "offsets") as sender:
        for index, ticket in wrong.items():
            sender.submit(part_of(topic, index, b"nowhere"), ticket)
        for n, ticket in enumerate(right):
            sender.submit(part_of(topic, n % 2, b"%d" % n), ticket)
        assert sender.flush(WAIT_S)
    for index, ticket in wrong.items():
        [(told, reason, _)] = ticket.told
        assert told == "failed"
        assert f"0-{index}: its broker closed the link when this was sent, as it does with what it refuses" in str(
            reason
        )
    assert all(ticket.told == [("done",)] for ticket in right)
    assert set(values(broker07, topic)) == {b"%d" % n for n in range(20)}


def test_a_broker_that_dies_again_and_again_costs_no_message_its_life(own_broker07, unique):
    """Behind a proxy that takes connections and ends them, nothing is blamed: the link never worked."""
    broker, topic = own_broker07(), unique.topic()
    host, _, port = broker.address.partition(":")
    with Proxy((host, int(port))) as proxy:
        address = f"{proxy.address[0]}:{proxy.address[1]}"
        with producer_of(address, message_send_max_retries=-1, reconnect_backoff_ms=5, **CONFIRMED) as producer:
            producer.send(topic, b"a").result(WAIT_S)
            proxy.cut(0)
            sent = producer.send(topic, b"b")
            accepted = proxy.counters.connections
            wait_until(lambda: proxy.counters.connections > accepted + 8, WAIT_S, "connections that are cut")
            assert not sent.done
            proxy.clear()
            assert sent.result(WAIT_S).acknowledged


# ---- the rest of the producer on 0.7 ---------------------------------------------------------------------------------


def test_handlers_and_logging_work_on_0_7(broker07: Node07, unique: Any):
    topic = unique.topic()
    with Producer({"broker.list": f"0:{broker07.address}", **QUICK}, callback_handler=CallbackHandler()) as producer:
        assert producer.send(topic, "v").result(WAIT_S).acknowledged is False
        assert (producer.counts.sent, producer.counts.unacknowledged) == (1, 1)
    handler = KafkaHandler({"broker.list": f"0:{broker07.address}", **QUICK, **CONFIRMED}, topic)
    logger = logging.getLogger("test-seven")
    logger.propagate = False
    logger.addHandler(handler)
    logger.warning("a line: %s", "é")
    handler.close()
    logger.removeHandler(handler)
    assert (handler.dropped, handler.failed) == (0, 0)
    assert sorted(values(broker07, topic)) == [b"a line: \xc3\xa9", b"v"]


def test_eight_threads_send_and_the_counts_agree(broker07: Node07, unique: Any):
    topic = unique.topic()
    with producer_of(broker07.address, **CONFIRMED) as producer:
        threads = [
            threading.Thread(target=lambda mine=mine: [producer.send(topic, b"%d-%d" % (mine, n)) for n in range(300)])
            for mine in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    counts = producer.counts
    assert (counts.sent, counts.acked, counts.failed, counts.pending, counts.pending_bytes) == (2400, 2400, 0, 0, 0)
    assert len(set(values(broker07, topic))) == 2400


def console(*arguments: str, lines: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", "from producer.console import main; main()", "--kafka-version", "0.7", *arguments]
    return subprocess.run(command, input=lines, capture_output=True, timeout=60)


@pytest.mark.thorough
def test_zkproducer_sends_to_0_7_and_says_what_may_be_lost(own_broker07, unique):
    broker, topic = own_broker07(), unique.topic()
    where = ("--broker-list", f"0:{broker.address}", "--topic", topic)
    for more in ([], ["--confirm"], ["--sync"], ["--confirm", "--sync"]):
        done = console(*where, *more, lines=b"a line\n")
        assert (done.returncode, done.stderr) == (0, b"")
    assert values(broker, topic, 1) == [b"a line"] * 4
    refused = console(*where, "--request-required-acks", "1", lines=b"")
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert b"Kafka 0.7.2 acknowledges nothing" in refused.stderr
    pause(broker)
    done = console(*where, lines=b"a line\n")
    assert done.returncode == 1
    assert b"1 messages may be lost: they were sent, no broker acknowledges them" in done.stderr
    broker.resume()
