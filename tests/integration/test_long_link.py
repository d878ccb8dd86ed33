"""A sender to a real 0.8.2.2 broker behind a long link that breaks: codecs share sets, partitions stay in order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from groundwork.tasks import TaskGroup, connect, now, sleep
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.dialects import dialect
from kafkawire.formats.v01 import messages as codec
from kafkawire.model import Part, TopicPartition
from kafkawire.net.links import Links
from localkafka.cluster import Cluster
from localkafka.tools import dump_topic
from producer.config import ProducerConfig
from producer.sender import Sender
from tests.conftest import Unique
from tests.fakes.tickets import Ticket

pytestmark = pytest.mark.real

PARTITIONS, PARTS, PER_PART, LOSSES = 3, 400, 20, 3
VERSION = "0.8.2.2"


def parts_of(topic: str) -> list[Part]:
    """Parts in turn for each partition, numbered through within it; a third of them compressed."""
    parts = []
    for n in range(PARTS * PARTITIONS):
        tp, first = TopicPartition(topic, n % PARTITIONS), n // PARTITIONS * PER_PART
        kind = (0, 1, 0, 0, 2, 0)[n // PARTITIONS % 6]
        rows = [(i, None, b"%07d" % (first + i) + b"." * 100, None) for i in range(PER_PART)]
        parts.append(Part(tp, codec.encode(rows, kind), 0, kind, PER_PART))
    return parts


def in_order_but_for_repeats(found: list[int], count: int, repeats: int) -> None:
    """Every number is there, the first time in order; what follows one of so many steps back is repeated in order."""
    reached, back = 0, 0
    for before, number in zip([-1, *found], found, strict=False):
        if number != before + 1:
            assert number <= reached, f"{number} after {before}, and only those before {reached} are there"
            back += 1
        reached = max(reached, number + 1)
    assert reached == count
    assert back <= repeats


def test_mixed_codecs_over_a_link_that_breaks(own_cluster: Callable[..., Cluster], unique: Unique) -> None:
    connections = 2  # tests/producer/test_far_targets.py has one
    cluster = own_cluster(version=VERSION, brokers=1, proxied=True)
    topic = unique.topic()
    cluster.create_topic(topic, partitions=PARTITIONS)
    proxy = cluster.node(0).proxy
    config = ProducerConfig(
        brokers=(proxy.address,),
        retries=-1,
        linger_ms=0,
        reconnect_ms=50,
        batch_bytes=100_000,
        request_bytes=200_000,
        connections=connections,
    )
    spoken, tasks = dialect(VERSION), TaskGroup()
    links = Links("test", connect, 10_000)
    source = MetadataSource(config.brokers, spoken, links)
    sender = Sender(source, config, tasks)
    tickets = [Ticket() for _ in range(PARTS * PARTITIONS)]
    try:
        proxy.link(20_000_000, round_trip_ms=80)
        for part, ticket in zip(parts_of(topic), tickets, strict=True):
            sender.submit(part, ticket)
        done, most, ends = 0, 0, now() + 60
        while done < len(tickets):
            assert now() < ends, f"{done} of {len(tickets)} parts"
            sleep(0.02)
            done = sum(bool(ticket.told) for ticket in tickets)
            if sender.counters.unknown < LOSSES and done > len(tickets) * (sender.counters.unknown + 1) // 8:
                assert sender.in_flight <= config.max_in_flight * connections
                most = max(most, *sender.connections.values())
                if sender.in_flight:
                    proxy.reset()
                    sleep(0.1)
        counters = sender.counters
    finally:
        sender.close(1.0)
        links.close()
        tasks.stop(5)
        proxy.clear()
    assert {ticket.told[-1] for ticket in tickets} == {("done",)}
    assert counters.unknown >= LOSSES
    assert most == connections
    assert counters.requests < PARTS  # one at least for each change of codec otherwise
    for rows in dump_topic(cluster, topic, range(PARTITIONS)).values():
        assert all(row.valid for row in rows)
        found = [int((row.payload or "")[:7]) for row in rows]
        in_order_but_for_repeats(found, PARTS * PER_PART, counters.unknown)
