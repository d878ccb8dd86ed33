"""The target cluster of a mirror: its topics, and the sender of parts to their partitions.

brokers describe themselves     they are asked (metadata.broker.list), topics and sender by links of their own
they do not (0.7)               their ZooKeeper is (target.zookeeper.connect), and watched
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from groundwork.tasks import Lock, TaskGroup, connect
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.dialects import dialect
from kafkawire.net.links import Links
from mirrormaker.options import TargetOptions
from mirrormaker.topics import BrokerTopics, TargetTopics, Topics
from mirrormaker.zookeeper import CONNECT_S, zookeeper_session
from producer.config import BY_OFFSETS
from producer.sender import Sender
from producer.zookeeper import ZookeeperSource

log = logging.getLogger(__name__)


class Target:
    """A target while it is mirrored into.

    zookeeper: opens the target's ZooKeeper for a moment, where brokers describe themselves and it is given.
    created(topic): see producer.outcomes.Outcomes.
    """

    def __init__(self, options: TargetOptions, tasks: TaskGroup, created: Callable[[str], bool]) -> None:
        self.options = options
        self.dialect = dialect(options.version)
        self.zookeeper: Callable[[], AbstractContextManager[Any]] | None = None
        self.topics: Topics
        self.sender: Sender
        self._sessions: list[ZookeeperSource] = []
        self._created = created
        if self.dialect.describes_itself:
            self._by_metadata(tasks)
        else:
            self._by_zookeeper(tasks)

    def fence(self) -> None:
        """A source's lease is over: its parts leave the queue, and what is in flight is cut off."""
        self.sender.drop(lambda part, ticket: not ticket.may_send())
        self.sender.close_links()

    def close(self) -> None:
        """End the sessions with the target's ZooKeeper."""
        for session in self._sessions:
            session.close()

    def links(self) -> Links:
        """Connections of their own to the brokers."""
        return Links(self.options.client_id or "mirrormaker", connect, self.options.request_timeout_ms)

    def metadata(self, links: Links) -> MetadataSource:
        """Metadata of brokers that describe themselves, by these connections."""
        return MetadataSource(self.options.brokers, self.dialect, links)

    def client(self, links: Links) -> KafkaClient:
        """A client of brokers that describe themselves, for several tasks, by these connections."""
        return KafkaClient.of_brokers(self.options.brokers, links, self.dialect, lock=Lock())

    def _by_metadata(self, tasks: TaskGroup) -> None:
        options = self.options
        if options.zookeeper:
            name = "target.zookeeper.connect"
            self.zookeeper = partial(zookeeper_session, name, options.zookeeper, CONNECT_S, options.security)
        self.topics = TargetTopics(
            self.metadata(self.links()), self.dialect.znodes, self.zookeeper, options.replication
        )
        self.sender = Sender(self.metadata(self.links()), options, tasks, events=_log_event, created=self._created)

    def _by_zookeeper(self, tasks: TaskGroup) -> None:
        options = replace(self.options, confirm=BY_OFFSETS)  # only what is confirmed may be committed
        self.topics = BrokerTopics(self._session(), self.links())
        session = self._session()
        self.sender = Sender(session, options, tasks, events=_log_event, by_name=True, live=lambda: session.brokers)
        session.changed = self.sender.leaders.refresh

    def _session(self) -> ZookeeperSource:
        options = self.options
        made = ZookeeperSource(
            options.zookeeper,
            session_ms=options.zookeeper_session_ms,
            connect_ms=options.zookeeper_connection_ms,
            access=options.security,
            dialect=self.dialect,
            links=self.links(),
        )
        self._sessions.append(made)
        return made


def _log_event(level: int, sentence: str) -> None:
    log.log(level, "target: %s", sentence, extra={"key": f"target {sentence}"})
