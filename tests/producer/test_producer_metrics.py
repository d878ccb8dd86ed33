"""What Prometheus sees of a producer."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from producer.config import ProducerConfig
from producer.errors import SendFailed
from producer.producer import Producer
from tests.fakes.broker import Fail, FakeCluster


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"client": "shop", **labels})


def test_counts_errors_and_sizes_are_shown_until_the_close():
    with FakeCluster({"t": 1}) as cluster:
        config = ProducerConfig(
            brokers=tuple(cluster.bootstrap), client_id="shop", metrics_enable=True, retries=0, linger_ms=50
        )
        with Producer(config) as producer:
            producer.send_many("t", [b"x" * 100] * 10)
            producer.flush()
            cluster.script("produce", Fail(7))
            producer.send("t", b"lost")
            with pytest.raises(SendFailed):
                producer.flush()
            assert value("producer_messages_sent_total") == 11
            assert value("producer_messages_acked_total") == 10
            assert value("producer_messages_failed_total") == 1
            assert value("producer_messages_pending") == 0
            assert value("producer_errors_total", code="7") == 1
            assert value("producer_requests_total") == 2
            assert value("producer_message_size_bytes_bucket", topic="t", le="128.0") == 11
            assert value("producer_message_size_bytes_sum", topic="t") == 10 * 126 + 30
            assert value("producer_fetch_message_max_bytes", topic="t") == 1 << 20
        assert value("producer_messages_sent_total") is None


def test_a_producer_without_a_name_and_off_by_default():
    with FakeCluster({"t": 1}) as cluster, Producer(ProducerConfig(brokers=tuple(cluster.bootstrap))) as producer:
        producer.send("t", b"v")
        assert value("producer_messages_sent_total") is None


def test_what_nobody_acknowledges_is_shown():
    with FakeCluster({"t": 1}) as cluster:
        config = ProducerConfig(brokers=tuple(cluster.bootstrap), client_id="shop", metrics_enable=True, acks=0)
        with Producer(config) as producer:
            producer.send("t", b"v").result(10)
            assert value("producer_messages_unacknowledged_total") == value("producer_messages_acked_total") == 1
            assert value("producer_messages_maybe_lost_total") == 0
