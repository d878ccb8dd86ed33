"""Where a producer looks up brokers and partitions: ZooKeeper, the brokers, or only the list that it was given.

zookeeper.connect       ZooKeeper, with watches
metadata.broker.list    the brokers of the list are asked (Metadata), where brokers describe themselves; else
                        (0.7) the list is all there is: each broker picks partitions itself
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.dialects import Dialect
from kafkawire.model import ANY, Broker, BrokerPartition, PartitionId
from kafkawire.net.links import Links
from producer.config import ProducerConfig
from producer.leaders import Metadata


class ListedSource:
    """Brokers that are written down.  Any topic has one partition on each of them: the one that the broker picks."""

    def __init__(self, brokers: Mapping[int, Broker], dialect: Dialect) -> None:
        self.dialect = dialect
        self._brokers = dict(brokers)

    def read(self, topics: Sequence[str] | None) -> ClusterView:
        partitions: dict[PartitionId, PartitionView] = {
            BrokerPartition(broker, ANY): PartitionView(broker, (broker,), (broker,)) for broker in self._brokers
        }
        return ClusterView(self._brokers, dict.fromkeys(topics or (), partitions))


def source_of(config: ProducerConfig, dialect: Dialect, links: Links) -> Metadata:
    """The one that the options name.  Asks nobody yet.  LocalError for options of ZooKeeper that cannot be used."""
    if config.zookeeper_connect:
        from producer.zookeeper import ZookeeperSource  # here: who has a list of brokers needs no kazoo

        times = config.zookeeper_session_ms, config.zookeeper_connection_ms
        return ZookeeperSource(config.zookeeper_connect, *times, config.access, dialect, links)
    if dialect.describes_itself:
        return MetadataSource(config.brokers, dialect, links)
    return ListedSource({broker.id: broker for broker in config.listed}, dialect)
