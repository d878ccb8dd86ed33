"""Numbers of producers for Prometheus, through prometheus-client's registry; off unless metrics.enable is set.

    producer_messages_sent_total, _acked_total, _failed_total       sent = acked + failed + pending
    producer_messages_unacknowledged_total, _maybe_lost_total       of acked: only sent; and what may be lost of that
    producer_messages_pending, producer_bytes_pending
    producer_requests_total, producer_retries_total
    producer_unknown_outcomes_total         batches whose answer never came: sent again, and perhaps stored twice
    producer_errors_total                   answers with an error, by code
    producer_message_size_bytes             histogram of entries before compression, by topic
    producer_fetch_message_max_bytes        what consumers of a topic need

Each has the label client (client.id, or a number where that is empty).  Needs prometheus-client (the extra `metrics`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from groundwork.metrics import Families, by_name, collector
from producer.buckets import Counts
from producer.outcomes import Counters
from producer.sizes import TopicSizes

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Look:
    """What is read of a producer at a scrape.  counters: None before it has started."""

    counts: Counts
    counters: Counters | None
    sizes: Mapping[str, TopicSizes]


class ProducerMetrics:
    """The numbers of one producer, from the making of it to close().  look() is called at a scrape.

    Raises OptionError when prometheus-client is not installed.
    """

    def __init__(self, client_id: str, look: Callable[[], Look], registry: CollectorRegistry | None = None) -> None:
        self._client = client_id or f"producer-{next(_numbers)}"
        self._look = look
        self._shown_by = collector(registry, _families)
        self._shown_by.add(self)

    def close(self) -> None:
        """Show nothing of it any more; a second call changes nothing."""
        self._shown_by.remove(self)

    def add_to(self, families: Families) -> None:
        """What a scrape gets of it."""
        look, client = self._look(), [self._client]
        counts = look.counts
        for name in ("sent", "acked", "failed", "pending", "unacknowledged", "maybe_lost"):
            families[f"producer_messages_{name}"].add_metric(client, getattr(counts, name))
        families["producer_bytes_pending"].add_metric(client, counts.pending_bytes)
        if look.counters is not None:
            families["producer_requests"].add_metric(client, look.counters.requests)
            families["producer_retries"].add_metric(client, look.counters.retries)
            families["producer_unknown_outcomes"].add_metric(client, look.counters.unknown)
            for code, times in sorted(look.counters.errors.items()):
                families["producer_errors"].add_metric([*client, str(code)], times)
        for topic, sizes in look.sizes.items():
            where, so_far, buckets = [*client, topic], 0, []
            for bound, number in sizes.histogram.items():
                so_far += number
                buckets.append((str(float(bound)), so_far))
            families["producer_message_size_bytes"].add_metric(where, [*buckets, ("+Inf", so_far)], sizes.bytes)
            families["producer_fetch_message_max_bytes"].add_metric(where, sizes.fetch_message_max_bytes)


def _families() -> Families:
    from prometheus_client import core

    client, topic = ("client",), ("client", "topic")
    return by_name(
        (
            core.CounterMetricFamily("producer_messages_sent", "Messages queued.", labels=client),
            core.CounterMetricFamily("producer_messages_acked", "Messages stored.", labels=client),
            core.CounterMetricFamily("producer_messages_failed", "Messages not stored.", labels=client),
            core.CounterMetricFamily("producer_messages_unacknowledged", "Of acked: only sent.", labels=client),
            core.CounterMetricFamily("producer_messages_maybe_lost", "Sent; then the link broke.", labels=client),
            core.GaugeMetricFamily("producer_messages_pending", "Messages not settled yet.", labels=client),
            core.GaugeMetricFamily("producer_bytes_pending", "Bytes not settled yet.", labels=client),
            core.CounterMetricFamily("producer_requests", "Requests sent.", labels=client),
            core.CounterMetricFamily("producer_retries", "Batches sent again.", labels=client),
            core.CounterMetricFamily("producer_unknown_outcomes", "Batches whose answer never came.", labels=client),
            core.CounterMetricFamily("producer_errors", "Answers with an error.", labels=(*client, "code")),
            core.HistogramMetricFamily("producer_message_size_bytes", "Entries before compression.", labels=topic),
            core.GaugeMetricFamily("producer_fetch_message_max_bytes", "What consumers need.", labels=topic),
        )
    )
