"""Losses because brokers are newer than the release that a mirror reads or writes with: found before it starts.

    timestamps     `version` or `target.version` names a release without them (before 0.10), and the brokers have them
    headers        of messages in sources of 0.11 or later, if `version` names a release before record batches
    transactions   of such sources: messages of aborted and open transactions are read like any other
    refusals       of topics that a broker does not convert down (zstd, message.downconversion.enable=false)

`run` and `check --online` report the first.  `check --online` reports the others by sampling some partitions of each
topic at two offsets; the consumer reports them while it reads (zkconsumer.fetching.formatprobe).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from groundwork.tasks import connect, now, sleep
from kafkawire.cluster import recordbatches
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.listoffsets import EARLIEST, LATEST
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.recordbatches import LogBatches
from kafkawire.cluster.refetch import Wanted, fetch_answered
from kafkawire.cluster.release import BrokerRelease, asked_ranges, release_of
from kafkawire.dialects import expected, release_number
from kafkawire.errors import LinkLost, error_info
from kafkawire.interfaces import Fields
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.net.security import OPEN, Security
from kafkawire.protocol.request import FetchedPartition, Request
from mirrormaker.options import SourceOptions, TargetOptions
from zkconsumer.fetching.formatprobe import WHAT, features_of, unread
from zkconsumer.refusals import refusal

log = logging.getLogger(__name__)

PURPOSE = "formats"
MAX_ASKED = 3  # brokers of a cluster that are asked until one answers
TIMEOUT_MS = 3000
TIMESTAMPS_FROM = release_number("0.10.0")
PARTITIONS = 4  # sampled partitions of a topic
MAX_PARTITIONS = 256  # sampled partitions of all topics together
FETCH_BYTES = 16384  # bytes fetched from a partition
PARTITIONS_PER_REQUEST = 64


# ---- releases -------------------------------------------------------------------------------------------------------


def release_among(brokers: Iterable[Broker], security: Security = OPEN) -> BrokerRelease | None:
    """Return the release of the first broker that answers, or None if none does or it is older than 0.10."""
    secured = security.connect(connect)
    for broker in sorted(brokers)[:MAX_ASKED]:
        links = Links("mirrormaker", secured, TIMEOUT_MS)

        def ask(request: Request[Fields], broker: Broker = broker, links: Links = links) -> Fields:
            try:
                return links.call(broker, PURPOSE, request)
            finally:
                links.drop(broker, PURPOSE)

        try:
            ranges = asked_ranges(ask)
        except LinkLost as lost:
            log.debug("%s was not asked for its release: %s", broker, lost)
            continue
        return BrokerRelease(broker, release_of(ranges), ranges) if ranges else None
    return None


def without_timestamps(option: str, configured: str, found: BrokerRelease | None) -> str | None:
    """Return a sentence if the configured (or default) release drops timestamps that the brokers have, else None."""
    if found is None or found.number < TIMESTAMPS_FROM or not configured or expected(configured).magic >= 1:
        return None
    return (
        f"its brokers are of Kafka {found.release} or later and {option} is {configured}, whose messages have no "
        f"timestamps: the timestamps of all messages are dropped; set {option}: {found.release}"
    )


def timestamps_lost(
    sources: Sequence[tuple[SourceOptions, Collection[Broker]]],
    target: TargetOptions,
    target_brokers: Collection[Broker],
) -> list[str]:
    """Return a sentence for each cluster whose configured release drops timestamps that its brokers have."""
    sentences, timed = [], False
    for source, brokers in sources:
        if not expected(source.version).describes_itself:
            continue
        found = release_among(brokers, source.kafka_security)
        timed |= found is not None
        if (why := without_timestamps("version", source.version, found)) is not None:
            sentences.append(f"source {source.name}: {why}")
    if timed and expected(target.version).describes_itself:
        there = release_among(target_brokers, target.kafka_security)
        why = without_timestamps("target.version", target.version, there)
        sentences += [f"target: {why}"] if why is not None else []
    return sentences


# ---- topics ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sampled:
    """Result of sampling.  warnings: sentences.  read: number of partitions that were sampled; total: partitions of all
    topics."""

    warnings: tuple[str, ...]
    read: int
    partitions: int


def sample_topics(source: SourceOptions, brokers: Collection[Broker], topics: Mapping[str, int]) -> Sampled:
    """Return what would be lost when reading topics of a source, judged by two offsets of some partitions.

    Raises Unreachable and LinkLost.
    """
    speaks, total = expected(source.version), sum(topics.values())
    if not source.version or speaks.record_batches:
        return Sampled((), total, total)  # topics are read in the format of their logs, so nothing is lost
    found = release_among(brokers, source.kafka_security) if speaks.describes_itself else None
    if found is None or not found.takes(recordbatches.FETCH, recordbatches.VERSION):
        return Sampled((), 0, total)
    links = Links("mirrormaker-check", source.kafka_security.connect(connect), TIMEOUT_MS)
    try:
        client = KafkaClient.of_brokers([(broker.host, broker.port) for broker in brokers], links, speaks)
        chosen = [TopicPartition(name, n) for name, count in topics.items() for n in range(min(count, PARTITIONS))]
        sampling = _Sampling(client, source.name, unread(speaks.release))
        sampling.read(chosen[:MAX_PARTITIONS])
        return Sampled(sampling.warnings, len(chosen[:MAX_PARTITIONS]), total)
    finally:
        links.close()


class _Sampling:
    """Sample of some partitions: the first and the last batch of each.  In a topic with transactions, the last batch is
    most likely the end of a transaction."""

    def __init__(self, client: KafkaClient, source: str, why: str) -> None:
        self._client = client
        self._why = why
        self._view = client.view()
        self._source = source
        self._found: dict[tuple[str, object], str] = {}  # by topic and finding, in the order found

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return one sentence for each finding."""
        return tuple(self._found.values())

    def read(self, tps: Sequence[TopicPartition]) -> None:
        earliest, latest = (self._bounds(tps, time) for time in (EARLIEST, LATEST))
        full = [tp for tp in tps if earliest.get(tp, 0) < latest.get(tp, 0)]
        for positions in ({tp: latest[tp] - 1 for tp in full}, {tp: earliest[tp] for tp in full}):
            self._sample(positions)

    def _sample(self, positions: Mapping[TopicPartition, int]) -> None:
        for tp, held in self._asked(positions, self._batches).items():
            for what in sorted(features_of(held.batches)):
                self._found[tp.topic, what] = f"source {self._source}: topic {tp.topic}: {WHAT[what]}; {self._why}"
        for tp, row in self._asked(positions, self._fetched).items():
            if row.error and error_info(row.error).lasting:
                refused = refusal(row.error, self._view.leader(tp), tp, positions[tp])
                self._found.setdefault((tp.topic, row.error), f"source {self._source}: {refused}")

    def _batches(
        self, leader: Broker, wanted: list[tuple[TopicPartition, int, int]]
    ) -> dict[TopicPartition, LogBatches]:
        return recordbatches.held(self._answered(leader, wanted, recordbatches.ask))

    def _fetched(
        self, leader: Broker, wanted: list[tuple[TopicPartition, int, int]]
    ) -> dict[TopicPartition, FetchedPartition]:
        d = self._client.dialect
        return {row.tp: row for row in self._answered(leader, wanted, partial(d.requests.fetch, d, 0, 0))}

    def _answered(
        self, leader: Broker, wanted: Wanted, request: Callable[[Wanted], Request[list[FetchedPartition]]]
    ) -> list[FetchedPartition]:
        def ask(some: Wanted) -> list[FetchedPartition]:
            return self._client.links.call(leader, PURPOSE, request(some))

        return fetch_answered(ask, wanted, timeout_s=TIMEOUT_MS / 1000, sleep=sleep, now=now)

    def _asked(
        self,
        positions: Mapping[TopicPartition, int],
        ask: Callable[[Broker, list[tuple[TopicPartition, int, int]]], dict[TopicPartition, Any]],
    ) -> dict[TopicPartition, Any]:
        found: dict[TopicPartition, Any] = {}
        for leader, tps in self._led(positions).items():
            for begin in range(0, len(tps), PARTITIONS_PER_REQUEST):
                found |= ask(
                    leader, [(tp, positions[tp], FETCH_BYTES) for tp in tps[begin : begin + PARTITIONS_PER_REQUEST]]
                )
        return found

    def _bounds(self, tps: Sequence[TopicPartition], time: int) -> dict[TopicPartition, int]:
        found = self._client.list_offsets(dict.fromkeys(tps, time))
        if lost := next((one.error for one in found.values() if isinstance(one.error, LinkLost | Unreachable)), None):
            raise lost
        return {tp: one.offset for tp, one in found.items() if one.offset is not None}

    def _led(self, tps: Iterable[TopicPartition]) -> dict[Broker, list[TopicPartition]]:
        led: dict[Broker, list[TopicPartition]] = {}
        for tp in tps:
            leader = self._view.leader(tp)
            if leader is not None:
                led.setdefault(leader, []).append(tp)
        return led
