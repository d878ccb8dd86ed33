"""Where the leaders of partitions are looked up: one small interface, and three forms of it.

    ZookeeperLeaders   /brokers/ids, watched, and what ZooKeeper has of the partitions
    MetadataLeaders    Metadata replies of the brokers themselves, read again now and then
    ListedLeaders      a list, where a partition's name says which broker has it and nobody tells addresses (0.7)

None names a topic to a broker: on a source that would create it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from groundwork.tasks import Lock
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.cluster.zookeeper import BROKERS, read_brokers, read_leaders
from kafkawire.interfaces import Znodes
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.logends import no_leader
from zkconsumer.session.zksession import ZkSession

REFRESH_S = 60.0  # metadata: nobody tells of brokers that come, go or move


@dataclass(frozen=True, slots=True)
class NoLeader:
    """Why a partition cannot be asked for anything now; lasting: it is not about to pass, so once is enough to say."""

    why: str
    lasting: bool = False


class LeaderSource(Protocol):
    """refresh_s: look again after so long though nobody misses anything; None: changes are told (`watch`)."""

    refresh_s: float | None

    def watch(self, changed: Callable[[], None]) -> None:
        """From the next look on, changed() is called when brokers come, go or move."""

    def look(self, tps: Collection[TopicPartition], afresh: bool = False) -> ClusterView:
        """All brokers, and these partitions at least; a broker that is not in it is gone.

        afresh: what is watched may have been missed.  Raises ConsumerError or WireError when nobody can be asked now.
        """
        ...

    def leader(self, view: ClusterView, tp: TopicPartition) -> Broker | NoLeader:
        """Who leads it by that view, or why nobody does."""
        ...


class ZookeeperLeaders:
    """As ZooKeeper has it, through the session of a member."""

    refresh_s: float | None = None

    def __init__(self, session: ZkSession, znodes: Znodes, on_event: OnEvent) -> None:
        self._session = session
        self._znodes = znodes
        self._on_event = on_event
        self._changed: Callable[[], None] = lambda: None
        self._saw_brokers: bool | None = None  # None: nobody looked yet
        self._watch = self._touched  # one object: kazoo tells a watch that it has already by that

    def watch(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def look(self, tps: Collection[TopicPartition], afresh: bool = False) -> ClusterView:
        if afresh:
            names = self._session.children(BROKERS, self._watch)
            if names is None:
                self._session.stat([BROKERS], self._watch)
            self._tell_brokers(bool(names))
        brokers = self._session.ask("read brokers", read_brokers, self._znodes)
        leaders = self._session.ask("read leaders", read_leaders, self._znodes, list(tps)) if tps else {}
        topics: dict[str, dict[object, PartitionView]] = {}
        for tp, leader in leaders.items():
            topics.setdefault(tp.topic, {})[tp.partition] = PartitionView(leader)
        return ClusterView(brokers, topics)  # type: ignore[arg-type]

    def leader(self, view: ClusterView, tp: TopicPartition) -> Broker | NoLeader:
        found = view.topics.get(tp.topic, {}).get(tp.partition)
        if found is None or found.leader is None:
            return NoLeader(no_leader(tp))
        return view.brokers.get(found.leader) or NoLeader(f"its leader, broker {found.leader}, is not registered")

    def _touched(self, path: str, changed: bool) -> None:
        if changed:
            self._changed()

    def _tell_brokers(self, there: bool) -> None:
        """Once each time there are none: at the start that is mostly a wrong chroot, later all of them are down."""
        if not there and self._saw_brokers is not False:
            at = self._session.connect
            text = f"no brokers are registered under {at if '/' in at else at + '/'}"
            said = f"{text} any more" if self._saw_brokers else f"{text}: is the chroot missing, or wrong?"
            self._on_event(ConsumerEvent("missing", said))
        self._saw_brokers = there


class MetadataLeaders:
    """As any broker of the cluster has it.  A broker once seen is never gone, it only moves: 0.8.0 and 0.8.1 list no
    broker that leads nothing, and one that does not answer is found out by its link.
    """

    refresh_s: float | None = REFRESH_S

    def __init__(self, source: MetadataSource) -> None:
        self._source = source
        self._seen: dict[int, Broker] = {}
        self._lock = Lock()  # one question at a time on a link

    def watch(self, changed: Callable[[], None]) -> None:
        """Nobody tells us: refresh_s."""

    def look(self, tps: Collection[TopicPartition], afresh: bool = False) -> ClusterView:
        with self._lock:
            view = self._source.read(None)
        self._seen |= view.brokers
        return ClusterView(dict(self._seen), view.topics, view.errors)

    def leader(self, view: ClusterView, tp: TopicPartition) -> Broker | NoLeader:
        there = view.topics.get(tp.topic, {})
        if tp.partition not in there:
            return _absent(view, tp)
        leader = there[tp.partition].leader
        if leader is None:
            return NoLeader("it has no leader")
        return view.brokers.get(leader) or NoLeader(f"its leader, broker {leader}, is not in the cluster's metadata")


class ListedLeaders:
    """As the options have it: nothing is looked up, and a broker that moves has to be listed anew."""

    refresh_s: float | None = None

    def __init__(self, brokers: Iterable[Broker]) -> None:
        self._view = ClusterView({broker.id: broker for broker in brokers})

    def watch(self, changed: Callable[[], None]) -> None:
        """Nothing changes."""

    def look(self, tps: Collection[TopicPartition], afresh: bool = False) -> ClusterView:
        return self._view

    def leader(self, view: ClusterView, tp: TopicPartition) -> Broker | NoLeader:
        owner = tp.partition.broker if isinstance(tp.partition, BrokerPartition) else None
        found = view.brokers.get(owner) if owner is not None else None
        return found or NoLeader(f"broker.list has no broker {owner}", lasting=True)


def _absent(view: ClusterView, tp: TopicPartition) -> NoLeader:
    if tp.topic in view.topics:
        ids = ", ".join(str(p) for p in view.partitions(tp.topic))
        return NoLeader(f"there is no such partition: topic {tp.topic} has {ids}", lasting=True)
    if tp.topic in view.errors:
        return NoLeader(f"topic {tp.topic} has no partitions yet (error {view.errors[tp.topic]})")
    if not view.topics:  # also a broker that has just started: it was not yet told what there is
        return NoLeader("the broker that was asked knows of no topic")
    return NoLeader(f"there is no topic {tp.topic}", lasting=True)
