"""Who leads partitions: one interface, and a form of it for each place that tells.

    MetadataLeaders    Metadata responses of the brokers (0.8 and later)
    ListedLeaders      a list of brokers, where a partition's name says which broker has it (0.7)
    ZookeeperLeaders   nodes of brokers and partitions: in kafkawire.cluster.zookeeper, which needs kazoo

No topic is named to a broker: that may create it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from kafkawire.cluster.metadata import ViewSource
from kafkawire.cluster.view import ClusterView, view_of
from kafkawire.errors import WireError
from kafkawire.model import Broker, BrokerPartition, TopicPartition


class NoLeader(WireError):
    """Why a partition cannot be asked for anything now.

    lasting: there is no such partition, or nothing will tell of it; else an election, or a restart, may end it.
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
    """Where leaders are looked up.  reads_all: a view is of all partitions, whatever was asked for."""

    @property
    def reads_all(self) -> bool: ...

    def read(self, tps: Collection[TopicPartition] | None) -> ClusterView:
        """All brokers, and these partitions at least; None: all partitions.

        Raises Unreachable while no broker responds; a source with a ZooKeeper session also what that raises.
        """

    def leader(self, view: ClusterView, tp: TopicPartition) -> Broker | NoLeader:
        """The leader by a view of this source."""


class MetadataLeaders:
    """Leaders as any broker of the cluster has them.

    A broker once seen is never gone, it only moves: 0.8.0 and 0.8.1 list no broker that leads nothing, and one that
    does not respond is found out by its link.
    """

    reads_all = True

    def __init__(self, metadata: ViewSource) -> None:
        self._metadata = metadata
        self._view = ClusterView()

    @property
    def brokers(self) -> Sequence[Broker]:
        """Those that were seen so far; nobody is asked."""
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
    """Leaders as an option lists them: nothing is looked up, so the list has to follow a broker that moves.

    option: its name, for the sentence.  tps: the partitions that a view shows, where they are known.
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
        return NoLeader(f"there is no such partition: topic {tp.topic} has {ids}", lasting=True)
    if tp.topic in view.errors:
        return NoLeader(f"topic {tp.topic} has no partitions yet (error {view.errors[tp.topic]})")
    if not view.topics:  # also a broker that has just started: it was not yet told what there is
        return NoLeader("the broker that was asked knows of no topic")
    return NoLeader(f"there is no topic {tp.topic}", lasting=True)
