"""Metrics of producers for Prometheus, through prometheus-client's registry; off unless metrics.enable is set.

    producer_messages_sent_total, _acked_total, _failed_total       sent = acked + failed + pending
    producer_messages_unacknowledged_total, _maybe_lost_total       acked but only sent; and those that may be lost
    producer_messages_pending, producer_bytes_pending
    producer_requests_total, producer_retries_total
    producer_unknown_outcomes_total         attempts whose response was lost, or does not say whether the batch was
                                            stored: sent again, perhaps stored twice
    producer_errors_total                   responses with an error, by code
    producer_message_size_bytes             histogram of entries before compression, by topic
    producer_fetch_message_max_bytes        fetch.message.max.bytes that consumers of a topic need

Each has the label client (client.id, or a number when that is empty).  Needs prometheus-client (the extra `metrics`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from groundwork.metrics import Families, by_name, collector
from producer.accumulator import Counts
from producer.outcomes import Counters

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Metrics of a producer at one scrape.  counters: None before it was started."""

    counts: Counts
    counters: Counters | None
    sizes: Mapping[str, TopicSizes]


class ProducerMetrics:
    """Metrics of one producer until close().  snapshot() is called at each scrape.

    Raises OptionError when prometheus-client is not installed.
    """

    def __init__(
        self, client_id: str, snapshot: Callable[[], Snapshot], registry: CollectorRegistry | None = None
    ) -> None:
        self._client = client_id or f"producer-{next(_numbers)}"
        self._snapshot = snapshot
        self._shown_by = collector(registry, _families)
        self._shown_by.add(self)

    def close(self) -> None:
        """Remove its metrics; a second call changes nothing."""
        self._shown_by.remove(self)

    def add_to(self, families: Families) -> None:
        """Add its samples to a scrape."""
        now, client = self._snapshot(), [self._client]
        counts = now.counts
        for name in ("sent", "acked", "failed", "pending", "unacknowledged", "maybe_lost"):
            families[f"producer_messages_{name}"].add_metric(client, getattr(counts, name))
        families["producer_bytes_pending"].add_metric(client, counts.pending_bytes)
        if now.counters is not None:
            families["producer_requests"].add_metric(client, now.counters.requests)
            families["producer_retries"].add_metric(client, now.counters.retries)
            families["producer_unknown_outcomes"].add_metric(client, now.counters.unknown)
            for code, times in sorted(now.counters.errors.items()):
                families["producer_errors"].add_metric([*client, str(code)], times)
        for topic, sizes in now.sizes.items():
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
            core.CounterMetricFamily("producer_messages_maybe_lost", "Sent; then the connection broke.", labels=client),
            core.GaugeMetricFamily("producer_messages_pending", "Messages pending.", labels=client),
            core.GaugeMetricFamily("producer_bytes_pending", "Bytes pending.", labels=client),
            core.CounterMetricFamily("producer_requests", "Requests sent.", labels=client),
            core.CounterMetricFamily("producer_retries", "Batches sent again.", labels=client),
            core.CounterMetricFamily("producer_unknown_outcomes", "Attempts with an unknown outcome.", labels=client),
            core.CounterMetricFamily("producer_errors", "Responses with an error.", labels=(*client, "code")),
            core.HistogramMetricFamily("producer_message_size_bytes", "Entries before compression.", labels=topic),
            core.GaugeMetricFamily("producer_fetch_message_max_bytes", "Fetch size that consumers need.", labels=topic),
        )
    )


FETCH_DEFAULT = 1 << 20  # fetch.message.max.bytes of the JVM's consumer


@dataclass(slots=True)
class TopicSizes:
    """Message sizes of one topic.  by_bits: messages by the bit length of their entry's size: 7 is 64 to 127 bytes."""

    messages: int = 0
    bytes: int = 0  # of entries before compression
    largest: int = 0  # largest entry that a broker stores: a wrapper counts as one
    by_bits: Counter[int] = field(default_factory=Counter)

    @property
    def histogram(self) -> dict[int, int]:
        """Return the number of messages by the upper bound of their entry's size (a power of two, in bytes),
        ascending."""
        return {1 << bits: self.by_bits[bits] for bits in sorted(self.by_bits)}

    @property
    def fetch_message_max_bytes(self) -> int:
        """Return the smallest value that consumers need: a power of two, not below the JVM's default."""
        return max(FETCH_DEFAULT, 1 << (self.largest - 1).bit_length()) if self.largest else FETCH_DEFAULT


class Sizes:
    """Message sizes by topic.  Recorded in the event loop; read from any thread."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicSizes] = {}

    def record(self, topic: str, sizes: Sequence[int], wrapper: int) -> None:
        """Record the messages of one part by the sizes of their entries.  wrapper: bytes of their wrapper, or 0."""
        found = self.topics.setdefault(topic, TopicSizes())
        found.messages += len(sizes)
        found.bytes += sum(sizes)
        found.largest = max(found.largest, wrapper or max(sizes, default=0))
        for size, times in Counter(sizes).items():
            found.by_bits[size.bit_length()] += times
