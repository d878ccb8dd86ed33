"""Metrics of connectors for Prometheus, in prometheus-client's registry; off unless metrics.enable is set.

    zkconsumer_messages_total, zkconsumer_bytes_total       delivered (bytes: keys and values)
    zkconsumer_message_size_bytes                           histogram of the same messages, key and value together; for
                                                            stream.sets() only uncompressed messages: see below
    zkconsumer_rebalances_total                             including retries
    zkconsumer_lag, zkconsumer_buffer_bytes                 of each owned partition: topic, partition; the lag counts
                                                            messages, or bytes for 0.7, and is left out while the end of
                                                            the log is unknown
    zkconsumer_session                                      1 for the current state: connected, suspended, lost
    zkconsumer_offsets_mode                                 1 for the current mode: zookeeper, dual, kafka
    zkconsumer_offsets_committed_total, ..._failed_total    offsets by store: zookeeper, kafka
    zkconsumer_offsets_last_commit_seconds                  by store: Unix time

Each has the labels group and consumer (the member's id).  Gauges are read at each scrape; a connector that was shut
down is missing from the next scrape.  Needs prometheus-client (the extra `metrics`).

Nothing is decompressed to be counted: a few kilobytes may decompress to 100 MB.  Messages and batches are measured when
their reader decompresses them.  Compressed entries delivered by sets() stay closed: their messages are counted by
headers and offsets, their bytes as fetched, and the histogram leaves them out.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from groundwork.metrics import Families, by_name, collector
from kafkawire.columns import Columns, as_list
from kafkawire.model import Message, MessageSet
from zkconsumer.engine.status import PartitionStatus
from zkconsumer.offsets.group import OffsetsStatus
from zkconsumer.offsets.modes import MODES

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

SIZES = (64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)  # upper bounds of the histogram, bytes
STATES = ("connected", "suspended", "lost")
LABELS = ("group", "consumer")


class MetricsSnapshot(NamedTuple):
    """State of a connector at a scrape.  rounds: rebalances so far."""

    session: str
    rounds: int
    partitions: Sequence[PartitionStatus]
    offsets: OffsetsStatus | None = None  # None: fixed partitions


class Counts(NamedTuple):
    """Counts of messages, their bytes, the histogram's buckets, and the bytes of the messages in these."""

    messages: int
    nbytes: int
    buckets: list[int]
    measured_bytes: int


def in_compressed(message_set: MessageSet) -> tuple[int, int]:
    """Return messages and bytes of the compressed entries of a set, without decompressing any.

    A record batch has the number of its records; for a wrapper the offsets show it, or (0.7) it counts as one.
    """
    messages = nbytes = 0
    reached = message_set.start
    for run in message_set.runs:
        if run.codec:
            by_offsets = isinstance(message_set.partition, int) and not run.record_batch
            messages += max(0, run.resume_at - reached) if by_offsets else run.entries
            nbytes += run.end - run.begin
        reached = max(reached, run.resume_at)
    return messages, nbytes


class ConsumerMetrics:
    """Metrics of one connector; shown by `registry` (by default prometheus-client's) until close().

    snapshot() is called at a scrape, in the scraper's thread; it returns None if there is nothing to show.  Raises
    OptionError if prometheus-client is not installed.
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
        self._measured_bytes = 0  # bytes of the messages in the buckets
        self._buckets = [0] * (len(SIZES) + 1)
        self._lock = threading.Lock()
        self._shown_by = collector(registry, _families)
        self._shown_by.add(self)

    # an observer of streams (zkconsumer.streams.observer), from any thread ------------------------------------------

    def message(self, message: Message) -> None:
        self._count((len(message.key or b"") + len(message.value or b""),))

    def batch(self, columns: Columns) -> None:
        sizes = zip(as_list(columns.key_size), as_list(columns.value_size), strict=True)
        self._count([max(0, key) + max(0, value) for key, value in sizes])

    def message_set(self, message_set: MessageSet) -> None:
        plain = replace(message_set, runs=tuple(run for run in message_set.runs if not run.codec))
        if plain.runs:
            for columns in plain.pieces(check_crcs=False):
                self.batch(columns)
        if len(plain.runs) < len(message_set.runs):
            messages, nbytes = in_compressed(message_set)
            with self._lock:
                self._messages += messages
                self._bytes += nbytes

    def _count(self, sizes: Sequence[int]) -> None:
        with self._lock:
            self._messages += len(sizes)
            nbytes = sum(sizes)
            self._bytes += nbytes
            self._measured_bytes += nbytes
            for size in sizes:
                self._buckets[bisect_left(SIZES, size)] += 1

    def counts(self) -> Counts:
        """Return the counts up to this moment."""
        with self._lock:
            return Counts(self._messages, self._bytes, list(self._buckets), self._measured_bytes)

    def add_to(self, families: Families) -> None:
        """Add these counts to a scrape."""
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
        core.CounterMetricFamily("zkconsumer_rebalances", "Rebalances of the group, including retries.", labels=LABELS),
        core.HistogramMetricFamily(
            "zkconsumer_message_size_bytes", "Size of a message's key and value.", labels=LABELS
        ),
        core.GaugeMetricFamily(
            "zkconsumer_lag", "Messages (0.7: bytes) not done; left out while unknown.", labels=partition
        ),
        core.GaugeMetricFamily("zkconsumer_buffer_bytes", "Bytes fetched and not done.", labels=partition),
        core.CounterMetricFamily("zkconsumer_offsets_committed", "Offsets committed.", labels=(*LABELS, "store")),
        core.CounterMetricFamily(
            "zkconsumer_offsets_failed", "Offsets that could not be committed.", labels=(*LABELS, "store")
        ),
        core.GaugeMetricFamily(
            "zkconsumer_offsets_last_commit_seconds", "Unix time of the last commit.", labels=(*LABELS, "store")
        ),
        core.GaugeMetricFamily(
            "zkconsumer_offsets_mode", "1 for the mode in which offsets are kept.", labels=(*LABELS, "mode")
        ),
        core.GaugeMetricFamily(
            "zkconsumer_session", "1 for the state of the ZooKeeper session.", labels=(*LABELS, "state")
        ),
    )
    return by_name(made)


def _add_counts(families: Families, metrics: ConsumerMetrics) -> None:
    counts = metrics.counts()
    families["zkconsumer_messages"].add_metric(metrics.labels, counts.messages)
    families["zkconsumer_bytes"].add_metric(metrics.labels, counts.nbytes)
    buckets, so_far = [], 0
    for bound, count in zip((*map(float, SIZES), "+Inf"), counts.buckets, strict=True):
        so_far += count
        buckets.append((str(bound), so_far))
    families["zkconsumer_message_size_bytes"].add_metric(metrics.labels, buckets, sum_value=counts.measured_bytes)


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
