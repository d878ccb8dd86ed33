"""Logs of 0.11 to 4.x read in their own format: what Kafka's own consumer reads is what ours read, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.columns import Columns
from kafkawire.formats.v2.layout import Batch, batch_at
from kafkawire.model import Message, MessageSet, TopicPartition
from localkafka.cluster import Cluster
from localkafka.errors import LocalKafkaError
from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt
from tests.conftest import Unique
from tests.matrix.peer import Peer, Row
from tests.matrix.sites import Kind, Site, Sites
from zkconsumer.connector import ConsumerConnector
from zkconsumer.simple import SimpleConsumer

pytestmark = pytest.mark.real

KINDS = ("0.11.0.3", "2.8.2", "3.9.1", "4.3.1")
T_MS = 1_600_000_000_000
TYPES = {"CreateTime": 0, "LogAppendTime": 1}
Read = list[tuple[int, bytes | None, bytes | None, int | None, int | None, object]]


@pytest.fixture(scope="module")
def sites(zk_server: ZooKeeperAt, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with Sites(tmp_path_factory.mktemp("batches"), zk_server) as sites:
        yield sites


@pytest.fixture(params=KINDS)
def site(request: pytest.FixtureRequest, sites: Sites) -> Site:
    return sites.site(Kind(request.param))


def rows_of(topic: str, first: int, count: int, value_bytes: int = 0) -> list[Row]:
    """Keys, values and headers of every kind."""
    rows = []
    for n in range(first, first + count):
        key = (None, b"", b"key %d" % n)[n % 3]
        value = None if n % 7 == 3 else b"%d " % n + b"v" * value_bytes
        headers = ((), (("a", b"\x00\xff"),), (("b", None), ("b", b""), ("é" * 40, b"x" * 300)))[n // 5 % 3]
        rows.append(Row(topic, 0, key, value, T_MS + 7 * n, headers))
    return rows


def theirs(peer: Peer, topic: str) -> Read:
    """By Kafka's own consumer, read_committed; again where that of 4.x went to the end though it was told to seek."""
    for last in (False, False, True):
        try:
            rows = peer.read([topic])
            break
        except LocalKafkaError as failed:
            if last or "nothing read of" not in str(failed):
                raise
    return [(row.offset, row.key, row.value, row.timestamp_ms, TYPES[row.timed_by or ""], row.headers) for row in rows]


def as_read(message: Message) -> tuple[int, bytes | None, bytes | None, int | None, int | None, object]:
    return (
        message.offset, message.key, message.value, message.timestamp_ms, message.timestamp_type, message.headers
    )  # fmt: skip


def simple_of(brokers: str, **options: object) -> SimpleConsumer:
    host, _, port = brokers.partition(":")
    return SimpleConsumer(host, int(port), timeout_ms=20_000, **options)  # type: ignore[arg-type]


def sets_of(brokers: str, topic: str, max_bytes: int = 1 << 20, **options: object) -> list[MessageSet]:
    """All of partition 0, up to where it ends for this isolation level."""
    tp, found = TopicPartition(topic, 0), []
    with simple_of(brokers, **options) as consumer:
        position, end = consumer.earliest(tp), consumer.latest(tp)
        while position < end:
            found.append(consumer.fetch(topic, 0, position, max_bytes, 100))
            assert found[-1].resume_at > position
            position = found[-1].resume_at
    return found


def by_connector(site: Site, topic: str, until: int, folder: Path) -> Read:
    """By a consumer of fixed partitions, up to offset `until`; then it has no lag."""
    options = {
        "metadata.broker.list": site.brokers,
        "partitions": f"{topic}:0",
        "group.id": "batches",
        "offsets.file": str(folder / "offsets"),
        "auto.offset.reset": "smallest",
        "delivery": "at-most-once",  # what is delivered is done
        "consumer.timeout.ms": 30_000,
    }
    read: Read = []
    with ConsumerConnector(options) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        while not read or read[-1][0] < until:
            read.append(as_read(next(stream)))
        wait_until(lambda: connector.status()[0].lag == 0, 20, lambda: f"no lag; {connector.status()}")
        assert connector.status()[0].parked is None
    return read


def test_all_codecs_headers_and_times_are_read_as_kafkas_own_consumer_reads_them(
    site: Site, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    timed_by = "CreateTime" if KINDS.index(site.kind.name) % 2 else "LogAppendTime"
    site.create(topic, 1, {"message.timestamp.type": timed_by})
    sent = []
    for n, codec in enumerate(site.kind.codecs):
        rows = rows_of(topic, 40 * n, 40, value_bytes=100 * n)
        site.peer.send(rows, compression_type=codec, linger_ms=200)
        sent += rows
    expected = theirs(site.peer, topic)
    assert [row[1:3] for row in expected] == [(row.key, row.value) for row in sent]
    if timed_by == "CreateTime":
        assert [row[3] for row in expected] == [row.timestamp_ms for row in sent]
    assert [row[5] for row in expected] == [row.headers for row in sent]

    sets = sets_of(site.brokers, topic)
    assert {run.codec for found in sets for run in found.runs} == set(range(len(site.kind.codecs)))
    assert {found.format for found in sets} == {2}
    assert [as_read(message) for found in sets for message in found.messages()] == expected
    columns = [piece for found in sets for piece in found.pieces()]
    assert [key for one in columns for key in Columns.keys(one)] == [row[1] for row in expected]
    assert [value for one in columns for value in one.values()] == [row[2] for row in expected]
    assert [stamp for one in columns for stamp in one.timestamps_ms or ()] == [row[3] for row in expected]
    middle = expected[57][0]
    with simple_of(site.brokers) as consumer:
        (first, *_) = consumer.fetch(topic, 0, middle).messages()  # inside a batch
    assert as_read(first) == expected[57]
    assert by_connector(site, topic, expected[-1][0], tmp_path) == expected


def test_messages_of_aborted_transactions_are_not_delivered_and_what_ends_them_is_passed(
    site: Site, unique: Unique, tmp_path: Path
) -> None:
    """350 messages, 100 of them aborted; two producers, and a plain one between them."""
    topic, tp = unique.topic(), TopicPartition(unique.topic(), 0)
    site.create(topic, 1)
    one, other = ({"transactional_id": f"{name}-{unique.tag}"} for name in ("one", "other"))
    peer, sent = site.peer, 0

    def rows() -> list[Row]:
        nonlocal sent
        sent += 50
        return rows_of(topic, sent - 50, 50)

    peer.transaction(rows(), **one)
    peer.transaction(rows(), commit=False, **one)  # aborted
    peer.begin(rows(), **other)
    peer.transaction(rows(), **one)  # inside the other one
    peer.send(rows())
    peer.commit(**other)
    peer.transaction(rows(), commit=False, **other)  # aborted
    peer.transaction(rows(), **one)
    assert sent == 350
    expected = theirs(peer, topic)
    assert len(expected) == 250

    sets = sets_of(site.brokers, topic)
    assert [as_read(message) for found in sets for message in found.messages()] == expected
    assert sets[-1].resume_at == peer.ends([topic])[topic, 0] == 350 + 7 - 1
    small = sets_of(site.brokers, topic, max_bytes=1000)
    assert len(small) >= 7
    assert [as_read(message) for found in small for message in found.messages()] == expected
    every = sets_of(site.brokers, topic, isolation_level="read_uncommitted")
    assert sum(1 for found in every for _ in found.messages()) == 350
    for start in (expected[60][0], expected[-1][0], 100, 320):
        with simple_of(site.brokers) as consumer:
            found = consumer.fetch(topic, 0, start)
            assert [message.offset for message in found.messages()] == [row[0] for row in expected if row[0] >= start]
    assert by_connector(site, topic, expected[-1][0], tmp_path) == expected

    peer.begin(rows_of(topic, 350, 10), **one)  # and it stays open
    with simple_of(site.brokers) as consumer, simple_of(site.brokers, isolation_level="read_uncommitted") as all_:
        assert consumer.latest(tp) == 356
        wait_until(
            lambda: all_.latest(tp) == 366, 20, lambda: f"the messages of an open transaction: {all_.latest(tp)}"
        )
        found = consumer.fetch(topic, 0, 356)
        assert (found.runs, found.resume_at, found.high_watermark) == ((), 356, 356)
        assert len(list(all_.fetch(topic, 0, 356).messages())) == 10
        peer.commit(**one)
        wait_until(lambda: consumer.latest(tp) == 367, 20, lambda: f"the end of the transaction: {consumer.latest(tp)}")
        assert len(list(consumer.fetch(topic, 0, 356).messages())) == 10


def test_batches_larger_than_the_fetch_come_whole_and_starve_no_partition(
    sites: Sites, unique: Unique, tmp_path: Path
) -> None:
    """Two partitions: each request has room for a tenth of a batch, so only the first of it gets any."""
    site, topic = sites.site(Kind("3.9.1")), unique.topic()
    site.create(topic, 2)
    options = {"batch_size": 900_000, "linger_ms": 500}
    for partition in (0, 1):
        site.peer.send([Row(topic, partition, b"k", b"%d " % n + b"x" * 3000, T_MS) for n in range(600)], **options)
    sets = sets_of(site.brokers, topic, max_bytes=70_000)
    assert max(run.end - run.begin for found in sets for run in found.runs) > 400_000
    assert [message.offset for found in sets for message in found.messages()] == list(range(600))
    settings = {
        "metadata.broker.list": site.brokers,
        "partitions": f"{topic}:0,1",
        "group.id": "large",
        "offsets.file": str(tmp_path / "offsets"),
        "auto.offset.reset": "smallest",
        "fetch.message.max.bytes": 70_000,
        "fetch.growth.max.bytes": 70_000,
        "consumer.timeout.ms": 30_000,
    }
    read: dict[object, list[int]] = {0: [], 1: []}
    with ConsumerConnector(settings) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        for _ in range(1200):
            message = next(stream)
            read[message.partition].append(message.offset)
    assert read == {0: list(range(600)), 1: list(range(600))}


def test_a_compacted_log_is_read_to_its_end_past_the_batches_that_are_empty(
    zk_server: ZooKeeperAt, unique: Unique, tmp_path: Path
) -> None:
    settings = {"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "1"}
    with Cluster(version="3.9.1", zookeeper=zk_server, settings=settings) as cluster:
        topic = unique.topic()
        config = {
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.001",
            "delete.retention.ms": "100",
        }
        cluster.create_topic(topic, 1, 1, config)
        peer = Peer("3.9.1", cluster.brokers, tmp_path / "clients")
        try:
            for n in range(4):  # each a producer of its own: the last batch of each stays as an empty one
                rows = [Row(topic, 0, b"k%d" % key, b"%d" % n, T_MS, (("n", b"%d" % n),)) for key in range(20)]
                peer.send(rows, client_id=f"writer-{n}", enable_idempotence="true")
            peer.transaction(
                [Row(topic, 0, b"k%d" % n, b"aborted", T_MS) for n in range(5)], False, transactional_id="x"
            )

            def cleaned() -> bool:
                peer.send([Row(topic, 0, b"last", b"", T_MS)], client_id="roller")  # the newest segment is not cleaned
                return len([key for key, _ in _kept(cluster.brokers, topic) if key != b"last"]) == 20

            wait_until(cleaned, 60, lambda: f"the cleaner: {_kept(cluster.brokers, topic)}", 0.5)
            heads = [head for segment in cluster.segments(TopicPartition(topic, 0)) for head in _heads(segment)]
            assert any(not head.count for head in heads)
            sets = sets_of(cluster.brokers, topic)
            ours = [as_read(message) for found in sets for message in found.messages()]
            expected = theirs(peer, topic)
            assert ours[: len(expected)] == expected
            assert {row[2] for row in ours} == {b"3", b""}
            first = ours[0][0]
            assert first >= 60  # what was before it are heads without records, or nothing
            with SimpleConsumer(*_address(cluster.brokers), timeout_ms=20_000) as consumer:
                for start in (0, 19, 20, 45, first):
                    found = consumer.fetch(topic, 0, max(start, consumer.earliest(TopicPartition(topic, 0))))
                    assert next(iter(found.messages())).offset == first
        finally:
            peer.close()


def _heads(segment: Path) -> Iterator[Batch]:
    data, at = segment.read_bytes(), 0
    while (head := batch_at(data, at)) is not None:
        yield head
        at = head.end


def _address(brokers: str) -> tuple[str, int]:
    host, _, port = brokers.partition(":")
    return host, int(port)


def _kept(brokers: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return [(message.key, message.value) for found in sets_of(brokers, topic) for message in found.messages()]
