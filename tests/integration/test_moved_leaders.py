"""Leaders that a preferred election moves on a real 2.8.2: no connection breaks, and old leaders go on as followers,
which would answer a consumer's Fetch v11 without an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import log_end_offsets
from localkafka.cluster import Cluster
from localkafka.load import Load
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.faults.harness.clusters import Side
from tests.faults.harness.leaders import leaders, move_leaders
from tests.integration.mirroring import PLAIN_ONLY, Mirror
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerTimeout

pytestmark = pytest.mark.real

PARTITIONS, COUNT = 2, 400


def test_a_consumer_and_a_mirror_follow_leaders_that_an_election_moves(
    own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    cluster = own_cluster(version="2.8.2", brokers=2)
    side = cast(Side, SimpleNamespace(cluster=cluster))
    topic, copy = unique.topic(), unique.topic("copy")
    tps = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    cluster.create_topic(topic, PARTITIONS, replication=2)
    load = Load(cluster.brokers, cluster.version)
    load.produce(topic, PARTITIONS, COUNT, PLAIN_ONLY)
    reading = ConsumerConnector({
        "group.id": unique.group(),
        "partitions": {topic: list(range(PARTITIONS))},
        "metadata.broker.list": cluster.brokers,
        "offsets.file": str(tmp_path / "offsets.json"),
        "auto.offset.reset": "smallest",
        "consumer.timeout.ms": 200,
    })  # fmt: skip
    stream = reading.create_message_streams({topic: 1})[topic][0]
    found: dict[int, list[int]] = {p: [] for p in range(PARTITIONS)}

    def read(count: int) -> bool:
        try:
            while sum(map(len, found.values())) < count:
                message = next(stream)
                found[cast(int, message.partition)].append(message.offset)
        except ConsumerTimeout:
            pass
        return sum(map(len, found.values())) >= count

    def fetched_from() -> dict[TopicPartition, int]:
        fetchers: Any = reading._engine.assignment.fetchers  # type: ignore[union-attr]
        return {tp: one.broker.id for tp in tps if (one := fetchers.fetcher_of(tp)) is not None}

    try:
        with Mirror(tmp_path, cluster, cluster, unique.group(), topic, {"topic.rename": {topic: copy}}) as mirror:
            mirror.wait_arrived(copy, COUNT)
            wait_until(lambda: read(COUNT), 20, "the first messages")
            before = leaders(side, tps)
            move_leaders(side, tps, stays=True)
            assert all(leaders(side, tps)[tp] != before[tp] for tp in tps)
            wait_until(lambda: fetched_from() == leaders(side, tps), 20, lambda: f"the leaders, not {fetched_from()}")
            load.produce(topic, PARTITIONS, COUNT, PLAIN_ONLY)
            wait_until(lambda: read(2 * COUNT), 20, "the messages of the new leaders")
            mirror.wait_arrived(copy, 2 * COUNT)
    finally:
        load.close()
        reading.shutdown()
    assert found == {p: list(range(COUNT)) for p in range(PARTITIONS)}
    assert sum(log_end_offsets(cluster, [copy]).values()) == 2 * COUNT
