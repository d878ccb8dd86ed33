"""A member as a process in virtual time: the real assignment source of a group, with its session, claims and commits.

What stands for something else: the connection to ZooKeeper (zookeeper.SimClient), fetchers, streams and senders
(partition.Reader), and no offsets in Kafka, so that the store is the one in ZooKeeper alone.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from groundwork.tasks import Event, TaskGroup
from kafkawire.dialects import dialect
from kafkawire.znodes.group import Registration
from tests.simulation.partition import Reader
from tests.simulation.process import Process
from tests.simulation.zookeeper import Link, SimClient, SimSession, SimZookeeper
from zkconsumer.engine.zookeeperassignment import ZookeeperAssignment
from zkconsumer.events import ConsumerEvent
from zkconsumer.group.topicnodes import read_creations
from zkconsumer.listeners import ConsumerListener, ListenerCalls
from zkconsumer.offsets.commits import BeforeCommit, Commits
from zkconsumer.offsets.group import GroupOffsets
from zkconsumer.offsets.zookeeper import ZookeeperOffsets
from zkconsumer.options.config import ConsumerConfig, load_consumer

GROUP = "g"
DIALECT = dialect("0.8.2.2")
COMMIT_S = 1.0
LEAVE_S = 10.0
CONFIG = load_consumer(
    ConsumerConfig,
    {
        "group.id": GROUP,
        "zookeeper.connect": "simulated:2181",
        "zookeeper.session.timeout.ms": 6000,
        "auto.offset.reset": "smallest",
        "rebalance.max.retries": 4,
        "rebalance.backoff.ms": 2000,
    },
    "the simulation",
)


class Assignment(ZookeeperAssignment):
    """The real one, but for what it would connect to."""

    def __init__(
        self,
        *,
        consumer_id: str,
        registration: Registration,
        tasks: TaskGroup,
        reader: Reader,
        on_event: Callable[[ConsumerEvent], None],
        before_commit: BeforeCommit,
    ) -> None:
        self._config, self._dialect, self._znodes = CONFIG, DIALECT, DIALECT.znodes
        self._tasks, self._on_event, self._lease = tasks, on_event, reader.lease
        self._listener = ListenerCalls(ConsumerListener(), on_event=on_event)
        self._on_fence = lambda: None
        self._away_since = None
        self._mode_changed = Event()
        self.session = SimSession(
            CONFIG.zookeeper_connect,
            session_timeout_ms=CONFIG.session_timeout_ms,
            connection_timeout_ms=CONFIG.connect_timeout_ms,
            tasks=tasks,
            lease=reader.lease,
            on_state=self._session_state,
            on_fence=self._lease_over,
        )
        cursors = reader.cursors
        zookeeper = ZookeeperOffsets(
            self.session,
            DIALECT.znodes,
            creations=lambda topics: read_creations(self.session, DIALECT, topics),
            read_from=lambda tp: cursors[tp].topic if tp in cursors else None,
            may_be_recreated=lambda topic: self._reader.may_be_recreated(topic),
        )
        self._store = GroupOffsets("zookeeper", zookeeper, zookeeper, deleted=zookeeper.deleted)  # Kafka is never asked
        self.commits = Commits(
            self._store,
            GROUP,
            lease=reader.lease,
            still_ours=self._still_ours,
            on_event=on_event,
            before=before_commit,
        )
        self.fetchers = reader  # type: ignore[assignment]
        context: Any = SimpleNamespace(
            config=CONFIG,
            dialect=DIALECT,
            consumer_id=consumer_id,
            registration=registration,
            cursors=cursors,
            make_cursor=reader.make,
            listener=self._listener,
            on_event=on_event,
        )
        self._make_member(context)

    def begin(self, process: Process, server: SimZookeeper, link: Link) -> SimClient:
        client: SimClient = self.session.begin(process, server, link)  # type: ignore[attr-defined]
        self._tasks.spawn("member", self._run)
        self._tasks.spawn("audit", self.audit.run)
        self._tasks.spawn(
            "commits", self.commits.run, COMMIT_S, lambda: list(self.fetchers.cursors.values()), self.may_commit
        )
        return client

    def end(self) -> None:
        """A clean stop, as the engine's: leave the group, then end the session."""
        self.leave(LEAVE_S)
        self.session.close()
