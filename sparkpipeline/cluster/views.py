"""Where a view of a cluster comes from: its brokers' own Metadata, or what the driver was told.  No ZooKeeper here.

A third source is sparkpipeline.driver.zookeeper, which tasks do not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.metadata import Unreachable as NobodyAnswers
from kafkawire.cluster.view import ClusterView, view_of
from kafkawire.dialects import Dialect
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from kafkawire.net.links import Links
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import Unreachable


class ViewSource(Protocol):
    def read(self) -> ClusterView:
        """The cluster as it is now.  Raises Unreachable."""


class FromBrokers:
    """Of brokers that describe themselves.  Asked for all topics, never by name: that would create them."""

    def __init__(self, access: ClusterAccess, spoken: Dialect, links: Links) -> None:
        self._release = access.release
        self._metadata = MetadataSource(access.bootstrap, spoken, links)

    def read(self) -> ClusterView:
        try:
            return self._metadata.read(None)
        except NobodyAnswers as nobody:
            raise Unreachable(f"{nobody}; is the list of brokers right, and protocol={self._release}?") from nobody


class FromDriver:
    """Of brokers that do not, where nobody else can be asked: addresses, and the partitions that were named, if any."""

    def __init__(self, brokers: Iterable[Broker], tps: Iterable[TopicPartition] = ()) -> None:
        leaders = {tp: tp.partition.broker for tp in tps if isinstance(tp.partition, BrokerPartition)}
        named = view_of({broker.id: broker for broker in brokers}, leaders)
        self._view = _Addresses(named.brokers, named.topics)

    def read(self) -> ClusterView:
        return self._view


@dataclass(frozen=True, slots=True)
class _Addresses(ClusterView):
    """A partition is led by the broker in its name, whatever topics are known."""

    def leader(self, tp: TopicPartition) -> Broker | None:
        return self.brokers.get(tp.partition.broker) if isinstance(tp.partition, BrokerPartition) else None
