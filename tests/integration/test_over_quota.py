"""Readers over the quota of a real broker: from 2.0 on it answers such a fetch without any topic (KIP-219)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkawire.cluster.versions import ClusterVersions
from kafkawire.errors import NOT_ANSWERED
from kafkawire.model import Broker, TopicPartition
from kafkawire.protocol.request import FetchedPartition
from kafkawire.protocol.requests08 import FetchReplyParser
from localkafka.load import Load, Mixture
from mirrormaker.verify.logs import Logs, Piece
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.rangefetcher import read_sets
from sparkpipeline.reading.readoptions import ReadOptions

pytestmark = pytest.mark.real
QUOTA = 20_000  # bytes a second; by windows of 1 s, of which the last 11 count, so a broker gives 200 KB at once
BATCHES, EACH = 7, 3
COUNT = BATCHES * EACH
BATCH = Mixture(0.0, (0,), value_bytes=10_000)


def by_verify(broker: Broker, tp: TopicPartition) -> Iterator[int]:
    logs = Logs.of("the target", ClusterVersions(""), [broker], [tp])
    try:
        for piece in logs.read(tp, 0, COUNT):
            assert isinstance(piece, Piece), piece
            yield from piece.columns.offsets
    finally:
        logs.close()


def by_spark_task(broker: Broker, tp: TopicPartition) -> Iterator[int]:
    access = ClusterAccess(((broker.host, broker.port),), release="2.8", client_id="task")
    for found in read_sets(OffsetRange(tp.topic, 0, 0, COUNT), access, ReadOptions()):
        yield from (message.offset for message in found.messages())


def test_readers_over_a_quota_ask_again_and_read_everything(own_cluster, unique, monkeypatch):
    cluster = own_cluster(version="2.8.2", brokers=1, settings={"quota.consumer.default": str(QUOTA)})
    topic = unique.topic()
    cluster.create_topic(topic, 1, replication=1)
    tp = TopicPartition(topic, 0)
    load = Load(cluster.brokers, cluster.version)
    for _ in range(BATCHES):
        load.send(tp, EACH, BATCH)
    load.close()
    host, port = cluster.brokers.split(":")
    broker = Broker(cluster.wait_leader(topic, 0), host, int(port))
    left_out: list[TopicPartition] = []
    result: Callable[[Any], list[FetchedPartition]] = FetchReplyParser.result

    def counted(parser: FetchReplyParser) -> list[FetchedPartition]:
        rows = result(parser)
        left_out.extend(row.tp for row in rows if row.error == NOT_ANSWERED)
        return rows

    monkeypatch.setattr(FetchReplyParser, "result", counted)
    for read in (by_verify, by_spark_task):
        left_out.clear()
        assert [offset for offset in read(broker, tp) if offset < COUNT] == list(range(COUNT)), read
        assert left_out, f"{read}: the broker has throttled nothing"
