"""Leader lookup: one interface, and an implementation for each source of leaders.

    MetadataLeaders    Metadata responses of the brokers (0.8 and later)
    ListedLeaders      a list of brokers, for partitions whose name contains the broker id (0.7)
    ZookeeperLeaders   nodes of brokers and partitions: in kafkawire.cluster.zookeeper, which needs kazoo

Requests never name a topic, because a broker may create it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from kafkawire.cluster.metadata import ViewSource
from kafkawire.cluster.view import ClusterView, view_of
from kafkawire.errors import WireError
from kafkawire.model import Broker, BrokerPartition, TopicPartition


class NoLeader(WireError):
    """Reason why a partition cannot be read or written now.

    lasting: the partition does not exist, or no source lists it; otherwise an election or a restart may end this.
    tries: how often a client looked it up.
    """

    def __init__(self, why: str, lasting: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.lasting = lasting
        self.tries = 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoLeader) and (other.why, other.lasting) == (self.why, self.lasting)

    def __hash__(self) -> int:
        return hash((self.why, self.lasting))


class LeaderSource(Protocol):
    """Source of leaders. reads_all: each view covers all partitions, whichever were requested."""

    @property
    def reads_all(self) -> bool: ...

    def read(self, tps: Collection[TopicPartition] | None) -> ClusterView:
        """Return all brokers, and at least these partitions; None: all partitions.

        Raises Unreachable while no broker responds; a source with a ZooKeeper session also raises kazoo's exceptions.
        """

    def leader(self, view: ClusterView, tp: TopicPartition) -> Broker | NoLeader:
        """Return the leader by a view of this source."""


class MetadataLeaders:
    """Leaders from the Metadata responses of the cluster's brokers.

    A broker once seen is never removed, only moved: 0.8.0 and 0.8.1 do not list brokers that lead nothing, and a dead
    broker is noticed by its link.
    """

    reads_all = True

    def __init__(self, metadata: ViewSource) -> None:
        self._metadata = metadata
        self._view = ClusterView()

    @property
    def brokers(self) -> Sequence[Broker]:
        """Return the brokers seen so far, without a request."""
        return list(self._view.brokers.values())

    def read(self, tps: Collection[TopicPartition] | None) -> ClusterView:
        view = self._metadata.read(None)  # others may read meanwhile
        self._view = self._view.merged(view, whole=True)
        return self._view

    def leader(self, view: ClusterView, tp: TopicPartition) -> Broker | NoLeader:
        found = view.topics.get(tp.topic, {}).get(tp.partition)
        if found is None:
            return _absent(view, tp)
        if found.leader is None:
            return NoLeader("it has no leader")
        return view.leader(tp) or NoLeader(f"its leader, broker {found.leader}, is not in the cluster's metadata")


class ListedLeaders:
    """Leaders listed by an option.  Nothing is looked up, so the list has to be changed when a broker moves.

    option: its name, for errors. tps: the partitions in a view, if they are known.
    """

    reads_all = True

    def __init__(
        self, brokers: Iterable[Broker], option: str = "broker.list", tps: Iterable[TopicPartition] = ()
    ) -> None:
        led = {tp: tp.partition.broker for tp in tps if isinstance(tp.partition, BrokerPartition)}
        self._view = view_of({broker.id: broker for broker in brokers}, led)
        self._option = option

    def read(self, tps: Collection[TopicPartition] | None) -> ClusterView:
        return self._view

    def leader(self, view: ClusterView, tp: TopicPartition) -> Broker | NoLeader:
        owner = tp.partition.broker if isinstance(tp.partition, BrokerPartition) else None
        found = view.brokers.get(owner) if owner is not None else None
        return found or NoLeader(f"{self._option} has no broker {owner}", lasting=True)


def _absent(view: ClusterView, tp: TopicPartition) -> NoLeader:
    if tp.topic in view.topics:
        ids = ", ".join(str(p) for p in view.partitions(tp.topic))
        return NoLeader(f"partition does not exist: topic {tp.topic} has {ids}", lasting=True)
    if tp.topic in view.errors:
        return NoLeader(f"topic {tp.topic} has no partitions yet (error {view.errors[tp.topic]})")
    if not view.topics:  # also a broker that has just started, and has no metadata yet
        return NoLeader("the broker that was asked knows no topics")
    return NoLeader(f"there is no topic {tp.topic}", lasting=True)
