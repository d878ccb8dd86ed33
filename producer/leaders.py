"""Who leads what at the target: one greenlet that reads metadata when asked, and every now and then.

A read by name may create the topic (auto.create.topics.enable): a plain producer's user expects that.  A mirror reads
all topics at a time, which never creates one.

Where a producer looks up brokers and partitions: ZooKeeper, the brokers, or only the list that it was given.

zookeeper.connect       ZooKeeper, with watches
metadata.broker.list    the brokers of the list are asked (Metadata), where brokers describe themselves; else
                        (0.7) the list is all there is: each broker picks partitions itself
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from groundwork.crew import Event, now, sleep
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.dialects import Dialect
from kafkawire.errors import WireError
from kafkawire.model import ANY, Broker, BrokerPartition, PartitionId, TopicPartition
from kafkawire.net.links import Links
from producer.config import ProducerConfig
from producer.outages import CLUSTER, Outages

LONGEST_S = 1.0  # between two looks while something waits for a leader: an election takes a few of them
NEW_S = 30.0  # a partition that appears without a leader is waited for so long: its state is written behind its topic
QUIET_S = 3.0  # without a look for so long, the next one comes at once again


class Metadata(Protocol):
    """kafkawire.cluster.metadata.MetadataSource, or producer.zookeeper.ZookeeperSource."""

    @property
    def dialect(self) -> Dialect: ...

    def read(self, topics: Sequence[str] | None) -> ClusterView: ...


class Leaders:
    """.view is the newest known.  after_look(old view) is called after each try to read, also one that failed.

    idle: look also while no topic is named: the brokers are wanted.
    """

    def __init__(
        self,
        metadata: Metadata,
        *,
        by_name: bool,
        refresh_ms: int,
        backoff_ms: int,
        after_look: Callable[[ClusterView], object],
        outages: Outages,
        idle: bool = False,
    ) -> None:
        self.view = ClusterView()
        self.failure: WireError | None = None  # of the newest look; None: it worked
        self.looks = 0
        self._metadata = metadata
        self._names: set[str] | None = set() if by_name else None
        self._refresh_s = refresh_ms / 1000 if refresh_ms >= 0 else None
        self._first_s = backoff_ms / 1000
        self._after_look = after_look
        self._outages = outages
        self._asked = Event()
        self._looked = Event()
        self._new: dict[TopicPartition, float] = {}  # appeared without a leader; until when that is waited for
        self._closed = False
        self._idle = idle
        self._rng = random.Random()

    def ask(self) -> None:
        """Look again soon; asking often does not make it more often."""
        self._asked.set()

    def need(self, topic: str) -> None:
        """This topic is produced to: look it up, if that was not done yet."""
        if self._names is not None:
            self._names.add(topic)
        if topic not in self.view.topics:
            self.ask()

    def wait_look(self, timeout_s: float) -> bool:
        """Until the next look is over; False: not within the time."""
        self._looked.clear()
        return bool(self._looked.wait(timeout_s))

    def close(self) -> None:
        self._closed = True
        self._asked.set()

    def run(self) -> None:
        """The greenlet: until close()."""
        pause_s, last = 0.0, float("-inf")
        while not self._closed:
            self._asked.wait(self._refresh_s)
            if self._closed:
                return
            pause_s = 0.0 if now() - last > QUIET_S else min(LONGEST_S, max(self._first_s, 2 * pause_s))
            sleep(pause_s * self._rng.uniform(0.8, 1.2))
            self._asked.clear()
            if self._closed:
                return
            self._look()
            last = now()

    def _look(self) -> None:
        names = None if self._names is None else sorted(self._names)
        old = self.view
        if names == [] and not self._idle:
            return
        try:
            found = self._metadata.read(names)
        except WireError as failure:
            self._outages.begin(CLUSTER, "the cluster", str(failure), "asked again until one answers", now())
            self.failure = failure
            self.ask()
        else:
            self._outages.over(CLUSTER, "answers again", now(), f": brokers {sorted(found.brokers)}")
            self.failure = None
            self.view = found if names is None else old.merged(found)
            self._wait_for_new(old)
        self.looks += 1
        self._after_look(old)
        self._looked.set()

    def _wait_for_new(self, old: ClusterView) -> None:
        """Look again while a partition that appeared has no leader: nothing is sent to it that would ask for one."""
        at = now()
        unled = {TopicPartition(t, p) for t, seen in self.view.topics.items() for p in seen if seen[p].leader is None}
        new = {tp: at + NEW_S for tp in unled if tp.partition not in old.topics.get(tp.topic, {})}
        self._new = new | {tp: until for tp, until in self._new.items() if tp in unled and until > at}
        if self._new:
            self.ask()


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

        return ZookeeperSource(
            config.zookeeper_connect,
            session_ms=config.zookeeper_session_ms,
            connect_ms=config.zookeeper_connection_ms,
            access=config.access,
            dialect=dialect,
            links=links,
        )
    if dialect.describes_itself:
        return MetadataSource(config.brokers, dialect, links)
    return ListedSource({broker.id: broker for broker in config.listed}, dialect)
