"""A chunk of Kafka 0.7 copied to a fake cluster: wrappers whose messages share an offset, a try that ended in one."""

from __future__ import annotations

import itertools
import random

import pytest

from kafkawire.cluster.view import view_of
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from localkafka.seven import entries
from localkafka.seven.node import Node07
from producer.config import ProducerConfig
from sparkpipeline.backfill.backfilljob import number_of
from sparkpipeline.backfill.backfillplan import Chunk, Done, Lane
from sparkpipeline.backfill.chunkcopy import ChunkTask, copy_chunk
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import Refused
from sparkpipeline.reading.readoptions import ReadOptions
from tests.fakes.broker import Close, FakeCluster, entry
from tests.sparkpipeline.test_seven_reading import Topic

CONFIG = ProducerConfig(
    brokers=(), request_timeout_ms=200, retries=-1, retry_backoff_ms=10, delivery_timeout_ms=3000, topic_wait_ms=200,
    reconnect_ms=10,
)  # fmt: skip


def mixed(seed: int) -> list[bytes]:
    """Plain entries of both magics, and gzip wrappers: the fake target opens no other."""
    draw = random.Random(seed)
    made = [entries.plain([b"", b"second"], 1)]
    for n in range(9):
        values = [b"%d-%d " % (n, i) + draw.randbytes(draw.randrange(90)) for i in range((1, 5, 40)[n % 2 + n // 6])]
        made.append(entries.wrapper(values, 1) if n % 3 else entries.plain(values, n % 2))
    return made


def task(topic: Topic, target: FakeCluster, start: int = 0, codec: int | None = None) -> ChunkTask:
    return ChunkTask(
        rng=topic.range(start),
        source=topic.access,
        target=ClusterAccess(tuple(target.bootstrap), "0.8.2", socket_timeout_ms=2000, retries=2, retry_interval_ms=10),
        config=CONFIG,
        read=ReadOptions(fetch_bytes=16 << 10, max_wait_ms=20, patience_ms=2000),
        target_start=0,
        is_stable=True,
        partitioner=None,
        partitions=3,
        codec=codec,
        target_partition=2,
    )


@pytest.mark.parametrize("codec", [None, 0, 1])
def test_all_messages_of_every_kind_of_entry_are_copied_in_order_to_one_partition(
    broker07: Node07, codec: int | None
) -> None:
    topic = Topic(broker07, mixed(1))
    values = [row.value for row in topic.rows]
    with FakeCluster({topic.name: 3}) as target:
        copied = copy_chunk(task(topic, target, codec=codec))
        assert target.values(topic.name, 2) == values
        assert target.values(topic.name, 0) == []
    assert (copied.messages, copied.bytes) == (len(values), sum(map(len, values)))
    assert (copied.kept, copied.target_until) == (0, len(values))


@pytest.mark.parametrize("there", [1, 2, 3, 5, 11, 40, 120])
def test_a_try_that_ended_inside_a_wrapper_is_gone_on_with_behind_its_last_message(
    broker07: Node07, there: int
) -> None:
    topic = Topic(broker07, mixed(4))
    values = [row.value for row in topic.rows]
    with FakeCluster({topic.name: 3}) as target:
        target.append(topic.name, 2, b"".join(entry(value) for value in values[:there]))
        copied = copy_chunk(task(topic, target))
        assert target.values(topic.name, 2) == values
    assert (copied.messages, copied.kept) == (len(values), min(there, len(values)))
    assert copied.bytes == sum(map(len, values))


def test_a_response_that_is_missing_repeats_nothing(broker07: Node07) -> None:
    topic = Topic(broker07, mixed(2))
    with FakeCluster({topic.name: 3}) as target:
        target.script("produce", Close(store=True))
        copied = copy_chunk(task(topic, target))
        assert target.values(topic.name, 2) == [row.value for row in topic.rows]
    assert (copied.resyncs, copied.may_repeat) == (1, 0)


def test_a_message_of_another_program_is_noticed(broker07: Node07) -> None:
    topic = Topic(broker07, mixed(3))
    with FakeCluster({topic.name: 3}) as target:
        target.append(topic.name, 2, entry(b"not ours"))
        with pytest.raises(Refused, match="target_offset=0: the target's message is not the message at 0 of the"):
            copy_chunk(task(topic, target))


# ---- the plan, pure --------------------------------------------------------------------------------------------------

LANE = Lane(3, "t", "1-0", 100, 900, 7, 2)
ENTRIES = (100, 290, 410, 415, 700, 900)


def boundary(tp: TopicPartition, known: int, at: int, until: int) -> int:
    assert tp == TopicPartition("t", BrokerPartition(1, 0))
    return next(one for one in ENTRIES if one >= at)


def test_chunks_of_bytes_end_where_entries_do_and_go_on_behind_the_last_mark() -> None:
    assert list(LANE.chunks(300, None, boundary)) == [
        Chunk(3, 0, 100, 410), Chunk(3, 1, 410, 900)
    ]  # fmt: skip
    assert [(one.start, one.until) for one in LANE.chunks(1, None, boundary)] == list(itertools.pairwise(ENTRIES))
    done = Done(lane=3, chunk=4, start=290, until=415, total_messages=1, total_bytes=1, total_kept=0,
                total_may_repeat=0, total_resyncs=0, target_until=9, done_ms=0)  # fmt: skip
    assert list(LANE.chunks(1000, done, boundary)) == [Chunk(3, 5, 415, 900)]
    assert LANE.target_tp == TopicPartition("t", 2)


def test_partitions_of_brokers_are_numbered_broker_by_broker() -> None:
    ids = [BrokerPartition(broker, index) for broker, index in ((10, 0), (2, 1), (2, 0), (10, 1))]
    brokers = {one: Broker(one, "h", one) for one in (2, 10)}
    view = view_of(brokers, {TopicPartition("t", one): one.broker for one in ids})
    assert [number_of(TopicPartition("t", one), view) for one in ids] == [2, 1, 0, 3]
