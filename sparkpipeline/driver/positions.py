"""Where a consumer group stands, in ZooKeeper, in Kafka, or in both.  Driver only.

    zookeeper   /consumers/GROUP/offsets/TOPIC/N, what the old consumer and our daemon keep by default
    kafka       the topic __consumer_offsets, through the group's coordinator (0.8.2 and later)
    dual        both: the larger counts (zkconsumer.offsets.dual says what else), Kafka is written first

Four-valued: an offset, NONE (nobody ever committed one), FormerOffset (of an earlier topic of that name, as far as
ZooKeeper is there to tell), or Unknown with the reason; none of the last three is 0.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from kafkawire.model import TopicPartition
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.driver.groupnodes import left_zookeeper, read_positions, topic_creations, write_positions
from sparkpipeline.errors import OptionRefused, Unreachable
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.coordinator import Coordinator
from zkconsumer.offsets.dual import DualOffsets
from zkconsumer.offsets.kafka import KafkaOffsets
from zkconsumer.offsets.store import Committed, OffsetStore
from zkconsumer.session.lease import Lease

log = logging.getLogger(__name__)

STORAGES = ("zookeeper", "kafka", "dual")
ALWAYS = Lease()  # a job owns what it was told to write; nobody takes it away from it
ALWAYS.valid_until = float("inf")


def read_group(
    group: str,
    tps: Iterable[TopicPartition],
    storage: str,
    access: ClusterAccess | None = None,
    zk: KazooClient | None = None,
) -> dict[TopicPartition, Committed]:
    """The next offset of each partition.  access for Kafka's, zk (started, in the chroot) for ZooKeeper's: dual both.

    Raises OptionRefused when the one that is needed is missing, Unreachable when a store cannot be asked.
    """
    with _store(storage, access, zk) as store:
        try:
            return store.read(group, list(tps))
        except ConsumerError as exc:
            raise Unreachable(str(exc), group=group) from exc


def write_group(
    group: str,
    positions: Mapping[TopicPartition, int],
    storage: str,
    access: ClusterAccess | None = None,
    zk: KazooClient | None = None,
    retention_ms: int | None = None,
) -> dict[TopicPartition, str | None]:
    """Write these positions, forward or back.  Per partition None, or why it is not known to be written.

    retention_ms: how long Kafka is to keep them; None leaves it to the brokers (a day, unless they say otherwise).
    Members of the group that are at work write on: see zookeeper.group_owners.  Raises OptionRefused, and Unreachable
    when no broker answers.
    """
    if not positions:
        return {}
    with _store(storage, access, zk, retention_ms) as store:
        write = store.write_both if isinstance(store, DualOffsets) else store.commit
        try:
            results = write(group, positions, ALWAYS)
        except ConsumerError as exc:
            return dict.fromkeys(positions, str(exc))
        return {tp: None if why is None else str(why) for tp, why in results.items()}


@contextmanager
def _store(
    storage: str, access: ClusterAccess | None, zk: KazooClient | None, retention_ms: int | None = None
) -> Iterator[OffsetStore]:
    """The store of a storage, with links for the length of one call."""
    if storage not in STORAGES:
        raise OptionRefused(f"{storage!r} is none of {', '.join(STORAGES)}", option="kafka.offsets.storage")
    if storage != "kafka" and zk is None:
        raise OptionRefused(f"{storage} needs zookeeper.connect", option="kafka.offsets.storage")
    if storage == "zookeeper":
        yield _Nodes(zk)
        return
    if access is None:
        raise OptionRefused(f"{storage} needs brokers: give kafka.bootstrap.servers", option="kafka.offsets.storage")
    with Brokers(access) as brokers:
        kafka = KafkaOffsets(
            _coordinator(brokers),
            retention_ms=retention_ms,
            creations=lambda topics: {} if zk is None else topic_creations(zk, topics),
        )
        yield kafka if storage == "kafka" else _both(kafka, zk)


def _coordinator(brokers: Brokers) -> Coordinator:
    access = brokers.access
    return Coordinator(
        lambda: list(brokers.view().brokers.values()),
        brokers.links,
        brokers.dialect,
        access.retries,
        access.retry_interval_ms,
        access.socket_timeout_ms,
        tell=log.info,
    )


def _both(kafka: OffsetStore, zk: KazooClient) -> DualOffsets:
    return DualOffsets(
        kafka,
        _Nodes(zk),
        report=lambda tp, sentence: log.warning("%s", sentence),
        left_zookeeper=lambda group: left_zookeeper(zk, group),
    )


class _Nodes:
    """Offset nodes as a store."""

    def __init__(self, zk: KazooClient) -> None:
        self._zk = zk

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        return read_positions(self._zk, group, tps)

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        try:
            results = write_positions(self._zk, group, positions)
        except KazooException as exc:
            lost = ConsumerError(f"ZooKeeper does not answer any more: {type(exc).__name__} {exc}".strip())
            return dict.fromkeys(positions, lost)
        return {tp: None if why is None else ConsumerError(why) for tp, why in results.items()}
