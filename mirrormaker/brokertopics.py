"""Topics of a target of 0.7: ZooKeeper tells which partitions its brokers have, and nothing else does.

A topic that no broker has registered is made by the first request to produce to it, on the broker that gets it.  So
each live broker is sent an empty set, which stores nothing: then all of them register what they have of the topic, and
the first message already finds every partition.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from groundwork.tasks import Lock, now, sleep
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.view import ClusterView
from kafkawire.errors import LinkLost, LocalError, OtherGeneration, WireError
from kafkawire.model import Broker, BrokerPartition, PartitionId, TopicPartition
from kafkawire.net.links import Links
from mirrormaker.probe import WrongVersion
from mirrormaker.topics import LEADERS_S, SourceTopic, TopicMissing

log = logging.getLogger(__name__)
PURPOSE = "topics"


class Described(Protocol):
    """producer.zookeeper.ZookeeperSource."""

    @property
    def dialect(self) -> Any: ...
    def read(self, topics: Sequence[str] | None) -> ClusterView: ...


class BrokerTopics:
    """mirrormaker.topics.Targets for brokers that do not describe themselves.  links: for the empty sets."""

    def __init__(self, source: Described, links: Links) -> None:
        self._source = source
        self._links = links
        self._lock = Lock()  # several streams may meet the same new topic

    def prepare(self, topic: str, source: SourceTopic) -> Sequence[PartitionId]:
        """The partitions of a topic on the live brokers, in order; made where no broker has any.

        Raises TopicMissing; and what ZooKeeper raises while it is out of reach: try again then.
        """
        with self._lock:
            view = self._source.read(None)
            if not self._registered(view, topic):
                self._make(topic, view)
            found = self._source.read([topic]).partitions(topic)
            if not found:
                raise TopicMissing(f"target topic {topic}: no broker that has it is alive")
            return found

    def look(self) -> ClusterView:
        """All topics and brokers of the target, now.  Raises Unreachable, WrongVersion."""
        try:
            return self._source.read(None)
        except Unreachable:
            raise
        except OtherGeneration as other:
            said = f"{other} target.version in the file stands for {self._source.dialect.release}"
            raise WrongVersion(said) from other
        except WireError as away:
            raise Unreachable(str(away)) from away

    def _registered(self, view: ClusterView, topic: str) -> bool:
        return bool(view.topics.get(topic))

    def _make(self, topic: str, view: ClusterView) -> None:
        asked = [broker for broker in view.brokers.values() if self._send_nothing(broker, topic)]
        deadline = now() + LEADERS_S
        while now() < deadline:
            there = {p.broker for p in self._source.read(None).partitions(topic) if isinstance(p, BrokerPartition)}
            if {broker.id for broker in asked} <= there:
                log.info("target topic %s: made on brokers %s", topic, ", ".join(map(str, sorted(there))))
                return
            sleep(0.05)
        log.warning("target topic %s: not registered by all brokers within %g s", topic, LEADERS_S)

    def _send_nothing(self, broker: Broker, topic: str) -> bool:
        """An empty set, and a question behind it: once that is answered the broker has handled both."""
        dialect = self._source.dialect
        tp = TopicPartition(topic, BrokerPartition(broker.id, 0))
        link = self._links.link(broker, PURPOSE)
        try:
            link.call(dialect.requests.produce(dialect, -1, 0, {tp: []}))
            link.call(dialect.requests.barrier(dialect, tp))
        except (LinkLost, LocalError) as lost:
            log.warning("target topic %s cannot be made on %s: %s", topic, broker, lost)
            return False
        finally:
            self._links.drop(broker, PURPOSE)
        return True
