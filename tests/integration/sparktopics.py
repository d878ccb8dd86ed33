"""Topics of real clusters for the tests of sink and backfill: filled and read on the wire, one link a leader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol.requests08 import ProducedPartition
from localkafka.client import ClusterClient
from zkconsumer.simple import SimpleConsumer

Field = bytes | None
Stored = tuple[int, Field, Field]  # offset, key, value


def leader_of(cluster: ClusterClient, tp: TopicPartition) -> Broker:
    found = cluster.registry().view(tp.topic).leader(tp)
    assert found is not None, f"{tp} has no leader"
    return found


@contextmanager
def simple(cluster: ClusterClient, tp: TopicPartition) -> Iterator[SimpleConsumer]:
    leader = leader_of(cluster, tp)
    release = dialect(cluster.version).release
    with SimpleConsumer(leader.host, leader.port, release) as consumer:
        yield consumer


def stored(cluster: ClusterClient, topic: str, partition: int) -> list[Stored]:
    """All messages of a partition, in the order of the log."""
    tp = TopicPartition(topic, partition)
    with simple(cluster, tp) as consumer:
        at, end = consumer.earliest(tp), consumer.latest(tp)
        found: list[Stored] = []
        while at < end:
            fetched = consumer.fetch(topic, partition, at, 4 << 20)
            found += [(message.offset, message.key, message.value) for message in fetched.messages()]
            at = fetched.resume_at
        return found


def everything(cluster: ClusterClient, topic: str) -> dict[int, list[Stored]]:
    ids = cluster.registry().view(topic).partitions(topic)
    return {int(str(p)): stored(cluster, topic, int(str(p))) for p in ids}


def produce(
    cluster: ClusterClient,
    tp: TopicPartition,
    rows: Sequence[tuple[Field, Field]],
    codec: int = 0,
    a_set: int = 500,
    at_ms: int | Sequence[int | None] | None = None,
) -> None:
    """Messages appended in requests of a_set each; with a codec each request is one wrapper.  at_ms: their time, or
    that of each, where the release's format has one."""
    spoken = dialect(cluster.version)
    links = Links("tests")
    try:
        link = links.link(leader_of(cluster, tp), "produce")
        for at in range(0, len(rows), a_set):
            numbered = [
                (n, key, value, at_ms if at_ms is None or isinstance(at_ms, int) else at_ms[at + n])
                for n, (key, value) in enumerate(rows[at : at + a_set])
            ]
            entries = spoken.messages.encode(numbered, codec=codec, magic=spoken.magic)
            answer: ProducedPartition = link.call(spoken.requests.produce(spoken, -1, 10000, {tp: [entries]}))[tp]
            assert answer.stored, f"{tp}: error {answer.error}"
    finally:
        links.close()
