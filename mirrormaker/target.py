"""The way to the target: its topics, the sender, and who is asked about both.

brokers describe themselves     they are asked (metadata.broker.list), each part by links of its own
they do not (0.7)               their ZooKeeper is (target.zookeeper.connect), and watched
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from groundwork.tasks import TaskGroup, connect
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import dialect
from kafkawire.model import PartitionId
from kafkawire.net.links import Links
from mirrormaker.options import TargetOptions
from mirrormaker.probe import CONNECT_S
from mirrormaker.topics import BrokerTopics, SourceTopic, TargetTopics
from mirrormaker.zookeeper import zookeeper_session
from producer.config import BY_OFFSETS
from producer.outages import Events
from producer.sender import Sender
from producer.zookeeper import ZookeeperSource


class Topics(Protocol):
    """What a mirror asks about the target's topics."""

    def prepare(self, topic: str, source: SourceTopic) -> Sequence[PartitionId]: ...
    def look(self) -> ClusterView: ...


class Target:
    """topics and sender.  zookeeper: opens the target's ZooKeeper for a while, where there is one to be looked at.

    created(topic): see producer.outcomes.Outcomes.
    """

    def __init__(self, target: TargetOptions, tasks: TaskGroup, events: Events, created: Callable[[str], bool]) -> None:
        self.topics: Topics
        self.sender: Sender
        self.zookeeper: Callable[[], AbstractContextManager[Any]] | None = None
        self._target = target
        self._sources: list[ZookeeperSource] = []
        self._created = created
        if dialect(target.version).describes_itself:
            self._by_metadata(tasks, events)
        else:
            self._by_zookeeper(tasks, events)

    def close(self) -> None:
        """End the sessions with the target's ZooKeeper."""
        for source in self._sources:
            source.close()

    def _links(self) -> Links:
        return Links(self._target.client_id or "mirrormaker", connect, self._target.request_timeout_ms)

    def _by_metadata(self, tasks: TaskGroup, events: Events) -> None:
        target, speaks = self._target, dialect(self._target.version)
        if target.zookeeper:
            name = "target.zookeeper.connect"
            self.zookeeper = partial(zookeeper_session, name, target.zookeeper, CONNECT_S, target.security)
        metadata = MetadataSource(target.brokers, speaks, self._links())
        self.topics = TargetTopics(metadata, speaks.znodes, self.zookeeper, target.replication)
        asked = MetadataSource(target.brokers, speaks, self._links())
        self.sender = Sender(asked, target, tasks, events=events, created=self._created)

    def _by_zookeeper(self, tasks: TaskGroup, events: Events) -> None:
        target = replace(self._target, confirm=BY_OFFSETS)  # only what is confirmed may be committed
        self.topics = BrokerTopics(self._source(), self._links())
        source = self._source()
        self.sender = Sender(source, target, tasks, events=events, by_name=True, live=lambda: source.brokers)
        source.changed = self.sender.leaders.refresh

    def _source(self) -> ZookeeperSource:
        target = self._target
        made = ZookeeperSource(
            target.zookeeper,
            session_ms=target.zookeeper_session_ms,
            connect_ms=target.zookeeper_connection_ms,
            access=target.security,
            dialect=dialect(target.version),
            links=self._links(),
        )
        self._sources.append(made)
        return made
