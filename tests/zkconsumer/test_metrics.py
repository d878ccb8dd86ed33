"""What a scrape gets: each connector under its own labels, and nothing of one that ended."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from kafkawire import compression
from kafkawire.compression import GZIP, SNAPPY, ZSTD
from kafkawire.dialects import dialect
from kafkawire.formats.v01.write import encode
from kafkawire.model import RECORD_BATCH, BrokerPartition, MessageSet
from zkconsumer.engine.metrics import ConsumerMetrics, MetricsSnapshot
from zkconsumer.engine.status import PartitionStatus
from zkconsumer.offsets.group import OffsetsStatus, StoreStatus
from zkconsumer.offsets.modes import StoreCommit

READING = PartitionStatus(
    topic="orders",
    partition=3,
    owner="g_a-0",
    state="reading",
    position=90,
    done=40,
    committed=30,
    high_watermark=100,
    lag=60,
    buffered_bytes=4096,
    parked=None,
)
STARTING = PartitionStatus(
    topic="orders",
    partition=4,
    owner="g_a-0",
    state="starting",
    position=None,
    done=None,
    committed=None,
    high_watermark=None,
    lag=None,
    buffered_bytes=0,
    parked=None,
)


def fetched(*values: bytes | None) -> MessageSet:
    entries = encode([(n, None, value, None) for n, value in enumerate(values)])
    found, _ = dialect("0.8.2").messages.message_set("orders", 3, 0, memoryview(entries), 10)
    assert isinstance(found, MessageSet)
    return found


def shown(registry: CollectorRegistry) -> list[str]:
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def observed(metrics: ConsumerMetrics, style: str, found: MessageSet) -> None:
    """What a stream's reader does in this style."""
    if style == "messages":
        for message in found.messages():
            metrics.message(message)
    elif style == "batches":
        for columns in found.pieces():
            metrics.batch(columns)
    else:
        metrics.message_set(found)


@pytest.mark.parametrize("style", ["messages", "batches", "sets"])
def test_what_was_handed_out_is_counted_and_measured(style):
    registry = CollectorRegistry(auto_describe=True)
    metrics = ConsumerMetrics("g", "g_a", lambda: None, registry)
    observed(metrics, style, fetched(b"x" * 64, None, b"y" * 65))
    lines = shown(registry)
    where = '{consumer="g_a",group="g"}'
    assert f"zkconsumer_messages_total{where} 3.0" in lines
    assert f"zkconsumer_bytes_total{where} 129.0" in lines
    assert 'zkconsumer_message_size_bytes_bucket{consumer="g_a",group="g",le="64.0"} 2.0' in lines
    assert 'zkconsumer_message_size_bytes_bucket{consumer="g_a",group="g",le="256.0"} 3.0' in lines
    assert 'zkconsumer_message_size_bytes_bucket{consumer="g_a",group="g",le="+Inf"} 3.0' in lines
    assert f"zkconsumer_message_size_bytes_sum{where} 129.0" in lines


def test_gauges_are_what_the_connector_says_at_the_scrape():
    registry = CollectorRegistry(auto_describe=True)
    looks = [MetricsSnapshot("connected", 2, [READING, STARTING]), MetricsSnapshot("lost", 3, [])]
    ConsumerMetrics("g", "g_a", lambda: looks.pop(0), registry)
    first, second = shown(registry), shown(registry)
    assert 'zkconsumer_lag{consumer="g_a",group="g",partition="3",topic="orders"} 60.0' in first
    assert not [line for line in first if line.startswith("zkconsumer_lag") and 'partition="4"' in line]
    assert 'zkconsumer_buffer_bytes{consumer="g_a",group="g",partition="3",topic="orders"} 4096.0' in first
    assert 'zkconsumer_session{consumer="g_a",group="g",state="connected"} 1.0' in first
    assert 'zkconsumer_session{consumer="g_a",group="g",state="lost"} 1.0' in second
    assert 'zkconsumer_rebalances_total{consumer="g_a",group="g"} 3.0' in second
    assert not [line for line in second if line.startswith("zkconsumer_lag")]


def test_offsets_are_counted_by_store():
    registry = CollectorRegistry(auto_describe=True)
    kafka = StoreStatus("kafka", 12, 1, StoreCommit(1_700_000_000_500, 4))
    offsets = OffsetsStatus("dual", (StoreStatus("zookeeper", 8, 0, None), kafka))
    ConsumerMetrics("g", "g_a", lambda: MetricsSnapshot("connected", 1, [], offsets), registry)
    lines = shown(registry)
    assert 'zkconsumer_offsets_mode{consumer="g_a",group="g",mode="dual"} 1.0' in lines
    assert 'zkconsumer_offsets_mode{consumer="g_a",group="g",mode="kafka"} 0.0' in lines
    assert 'zkconsumer_offsets_committed_total{consumer="g_a",group="g",store="zookeeper"} 8.0' in lines
    assert 'zkconsumer_offsets_committed_total{consumer="g_a",group="g",store="kafka"} 12.0' in lines
    assert 'zkconsumer_offsets_failed_total{consumer="g_a",group="g",store="kafka"} 1.0' in lines
    when = [line for line in lines if line.startswith("zkconsumer_offsets_last_commit_seconds")]
    assert when == ['zkconsumer_offsets_last_commit_seconds{consumer="g_a",group="g",store="kafka"} 1.7000000005e+09']


def test_two_connectors_share_a_registry_and_no_number():
    registry = CollectorRegistry(auto_describe=True)
    one = ConsumerMetrics("g", "g_a", lambda: None, registry)
    two = ConsumerMetrics("g", "g_b", lambda: None, registry)
    observed(one, "sets", fetched(b"only one"))
    counts = [line for line in shown(registry) if line.startswith("zkconsumer_messages_total")]
    assert counts == [
        'zkconsumer_messages_total{consumer="g_a",group="g"} 1.0',
        'zkconsumer_messages_total{consumer="g_b",group="g"} 0.0',
    ]
    one.close()
    one.close()
    assert not [line for line in shown(registry) if 'consumer="g_a"' in line]
    assert [line for line in shown(registry) if 'consumer="g_b"' in line]
    two.close()
    assert shown(registry) == []


def test_a_name_that_somebody_else_shows_is_refused_by_the_registry():
    from prometheus_client import Counter

    registry = CollectorRegistry(auto_describe=True)
    Counter("zkconsumer_messages", "of somebody else", registry=registry)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        ConsumerMetrics("g", "g_a", lambda: None, registry)


def compressed(release: str, magic: int, codec: int) -> MessageSet:
    """Two entries, of 3 and 2 messages; 0.7: an entry has no offset of its own."""
    spoken = dialect(release)
    partition = 3 if spoken.offsets.count_messages else BrokerPartition(0, 3)
    sets = [
        bytes(spoken.messages.encode([(n, None, b"v" * 1000, None) for n in numbers], codec=codec, magic=magic))
        for numbers in (range(3), range(3, 5))
    ]
    if magic == RECORD_BATCH:
        sets[1] = (3).to_bytes(8, "big") + sets[1][8:]  # as a broker numbers them
    entries = b"".join(sets)
    found, _ = spoken.messages.message_set("orders", partition, 0, memoryview(entries), 10)
    assert isinstance(found, MessageSet)
    return found


@pytest.mark.parametrize(
    ("release", "magic", "codec", "messages"),
    [
        ("3.9", 2, ZSTD, 5),
        ("3.9", 2, GZIP, 5),
        ("0.10.2", 1, GZIP, 5),
        ("0.8.2", 0, SNAPPY, 5),
        ("0.7", dialect("0.7").magic, GZIP, 2),
    ],
)
def test_compressed_entries_of_a_set_are_counted_and_not_opened(release, magic, codec, messages, monkeypatch):
    found = compressed(release, magic, codec)

    def opened(*args: object) -> bytes:
        raise AssertionError("it was opened")

    monkeypatch.setattr(compression, "opened", opened)
    registry = CollectorRegistry(auto_describe=True)
    metrics = ConsumerMetrics("g", "g_a", lambda: None, registry)
    metrics.message_set(found)
    counts = metrics.counts()
    assert (counts.messages, counts.nbytes) == (messages, len(found.buffer))
    assert (sum(counts.buckets), counts.measured_bytes) == (0, 0)
