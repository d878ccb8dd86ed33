"""A cluster as its ZooKeeper describes it, for brokers that tell nothing of each other (0.7).  Driver only.

    Registry(options, dialect("0.7")).read()     brokers, and every topic with its partitions

A session of its own for each look: nothing is held between them, and a ZooKeeper that was away is just asked again.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkawire.cluster.view import ClusterView
from kafkawire.cluster.zookeeper import read_brokers, read_topics, read_view
from kafkawire.dialects import Dialect
from kafkawire.errors import RemoteError
from kafkawire.model import Broker
from sparkpipeline.driver.zookeeper import ZooKeeperFields, zookeeper_of
from sparkpipeline.errors import Refused, Unreachable


@dataclass(frozen=True, slots=True)
class Registry:
    """A source of views, as Brokers take it.  options: which ZooKeeper, and as whom; spoken: the brokers' release."""

    options: ZooKeeperFields
    spoken: Dialect

    def read(self) -> ClusterView:
        """Brokers that are registered now, and the partitions that are theirs.

        Raises Unreachable, OptionRefused, and Refused where nodes are not those of this release."""
        with zookeeper_of(self.options) as zk:
            try:
                return read_view(zk, self.spoken.znodes, read_topics(zk, self.spoken.znodes))
            except RemoteError as odd:
                raise Refused(
                    f"{odd}; are its brokers those of Kafka {self.spoken.release}, as protocol says?",
                    zookeeper=self.options.zookeeper_connect,
                ) from None

    def brokers(self) -> tuple[Broker, ...]:
        """Those that are registered now, by id.  Raises as read, and Unreachable when there is none."""
        with zookeeper_of(self.options) as zk:
            found = read_brokers(zk, self.spoken.znodes)
        if not found:
            raise Unreachable("no broker is registered there", zookeeper=self.options.zookeeper_connect)
        return tuple(found[broker] for broker in sorted(found))
