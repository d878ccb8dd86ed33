"""Metrics of connectors for Prometheus, through prometheus-client's registry; off unless metrics.enable is set.

    zkconsumer_messages_total, zkconsumer_bytes_total       delivered (bytes: keys and values)
    zkconsumer_message_size_bytes                           histogram of the same messages, key and value together
    zkconsumer_rebalances_total                             also those that have to be retried
    zkconsumer_lag, zkconsumer_buffer_bytes                 of each owned partition: topic, partition; the lag counts
                                                            messages, of 0.7 bytes, and is left out while the end of the
                                                            log is not known
    zkconsumer_session                                      1 for the state it is in: connected, suspended, lost
    zkconsumer_offsets_mode                                 1 for the mode it is in: zookeeper, dual, kafka
    zkconsumer_offsets_committed_total, ..._failed_total    offsets by store: zookeeper, kafka
    zkconsumer_offsets_last_commit_seconds                  by store, when: since 1970

Each has the labels group and consumer (the member's id).  Gauges are read at each scrape; a connector that was shut
down is gone from the next scrape on.  Needs prometheus-client (the extra `metrics`).
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from groundwork.metrics import Families, by_name, collector
from kafkawire.model import MessageSet
from zkconsumer.engine.status import PartitionStatus
from zkconsumer.offsets.group import OffsetsStatus
from zkconsumer.offsets.modes import MODES

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

SIZES = (64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)  # upper bounds of the histogram, bytes
STATES = ("connected", "suspended", "lost")
LABELS = ("group", "consumer")


class MetricsSnapshot(NamedTuple):
    """The state of a connector at a scrape.  rounds: rebalances so far."""

    session: str
    rounds: int
    partitions: Sequence[PartitionStatus]
    offsets: OffsetsStatus | None = None  # None: fixed partitions


class ConsumerMetrics:
    """The metrics of one connector; shown by `registry` (the default one) until close().

    snapshot() is called at a scrape, in the scraper's thread; None: there is nothing to show (yet, or any more).
    Raises OptionError when prometheus-client is not installed.
    """

    def __init__(
        self,
        group: str,
        consumer_id: str,
        snapshot: Callable[[], MetricsSnapshot | None],
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.labels = (group, consumer_id)
        self.snapshot = snapshot
        self._messages = self._bytes = 0
        self._buckets = [0] * (len(SIZES) + 1)
        self._lock = threading.Lock()
        self._shown_by = collector(registry, _families)
        self._shown_by.add(self)

    def observe(self, message_set: MessageSet) -> None:
        """Count a set that was delivered; from any thread."""
        columns = message_set.index(check_crcs=False)
        sizes = [max(0, key) + max(0, value) for key, value in zip(columns.key_size, columns.value_size, strict=True)]
        with self._lock:
            self._messages += len(sizes)
            self._bytes += sum(sizes)
            for size in sizes:
                self._buckets[bisect_left(SIZES, size)] += 1

    def counts(self) -> tuple[int, int, list[int]]:
        """Messages, bytes and the histogram's buckets, of one moment."""
        with self._lock:
            return self._messages, self._bytes, list(self._buckets)

    def add_to(self, families: Families) -> None:
        """What a scrape gets of it."""
        _add_counts(families, self)
        _add_gauges(families, self)

    def close(self) -> None:
        """Show nothing more; a second call changes nothing."""
        self._shown_by.remove(self)


def _families() -> Families:
    from prometheus_client import core

    partition = (*LABELS, "topic", "partition")
    made = (
        core.CounterMetricFamily("zkconsumer_messages", "Messages delivered.", labels=LABELS),
        core.CounterMetricFamily("zkconsumer_bytes", "Bytes of their keys and values.", labels=LABELS),
        core.CounterMetricFamily("zkconsumer_rebalances", "Rounds of the group, tries included.", labels=LABELS),
        core.HistogramMetricFamily("zkconsumer_message_size_bytes", "Key and value of a message.", labels=LABELS),
        core.GaugeMetricFamily(
            "zkconsumer_lag", "Messages (0.7: bytes) not done; left out while unknown.", labels=partition
        ),
        core.GaugeMetricFamily("zkconsumer_buffer_bytes", "Fetched and not done.", labels=partition),
        core.CounterMetricFamily("zkconsumer_offsets_committed", "Offsets committed.", labels=(*LABELS, "store")),
        core.CounterMetricFamily("zkconsumer_offsets_failed", "Offsets not committed.", labels=(*LABELS, "store")),
        core.GaugeMetricFamily(
            "zkconsumer_offsets_last_commit_seconds", "When, since 1970.", labels=(*LABELS, "store")
        ),
        core.GaugeMetricFamily("zkconsumer_offsets_mode", "1: where offsets are kept.", labels=(*LABELS, "mode")),
        core.GaugeMetricFamily("zkconsumer_session", "1: the ZooKeeper session's state.", labels=(*LABELS, "state")),
    )
    return by_name(made)


def _add_counts(families: Families, metrics: ConsumerMetrics) -> None:
    messages, nbytes, counts = metrics.counts()
    families["zkconsumer_messages"].add_metric(metrics.labels, messages)
    families["zkconsumer_bytes"].add_metric(metrics.labels, nbytes)
    buckets, so_far = [], 0
    for bound, count in zip((*map(float, SIZES), "+Inf"), counts, strict=True):
        so_far += count
        buckets.append((str(bound), so_far))
    families["zkconsumer_message_size_bytes"].add_metric(metrics.labels, buckets, sum_value=nbytes)


def _add_gauges(families: Families, metrics: ConsumerMetrics) -> None:
    seen = metrics.snapshot()
    if seen is None:
        return
    families["zkconsumer_rebalances"].add_metric(metrics.labels, seen.rounds)
    for state in STATES if seen.session else ():  # fixed partitions have no session
        families["zkconsumer_session"].add_metric((*metrics.labels, state), int(state == seen.session))
    if seen.offsets is not None:
        _add_offsets(families, metrics.labels, seen.offsets)
    for row in seen.partitions:
        where = (*metrics.labels, row.topic, str(row.partition))
        if row.lag is not None:
            families["zkconsumer_lag"].add_metric(where, row.lag)
        families["zkconsumer_buffer_bytes"].add_metric(where, row.buffered_bytes)


def _add_offsets(families: Families, labels: tuple[str, str], offsets: OffsetsStatus) -> None:
    for mode in MODES:
        families["zkconsumer_offsets_mode"].add_metric((*labels, mode), int(mode == offsets.mode))
    for row in offsets.stores:
        families["zkconsumer_offsets_committed"].add_metric((*labels, row.store), row.accepted)
        families["zkconsumer_offsets_failed"].add_metric((*labels, row.store), row.failed)
        if row.last is not None:
            seconds = row.last.committed_at_ms / 1000
            families["zkconsumer_offsets_last_commit_seconds"].add_metric((*labels, row.store), seconds)
