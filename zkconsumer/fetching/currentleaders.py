"""Sources of leaders for a consumer: those of kafkawire.cluster, and how each is kept current.

WatchedLeaders     ZooKeeper through the session of a member; a watch on /brokers/ids reports changes
RefreshedLeaders   Metadata responses, read again at intervals, from another broker each time: nothing reports brokers
                   that come, go or move, or moved leaders
ConstantLeaders    the brokers of broker.list (0.7): nothing is looked up, nothing changes
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from kafkawire.cluster.leaders import LeaderSource, ListedLeaders, MetadataLeaders
from kafkawire.cluster.leaders import NoLeader as NoLeader
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.view import ClusterView
from kafkawire.cluster.zookeeper import BROKERS, ZookeeperLeaders
from kafkawire.interfaces import Znodes
from kafkawire.model import TopicPartition
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.session.zksession import ZkSession

REFRESH_S = 60.0


class CurrentLeaders(LeaderSource, Protocol):
    """Source that is kept current.  refresh_s: interval between reads; None: changes are reported (`watch`)."""

    refresh_s: float | None

    def watch(self, changed: Callable[[], None]) -> None:
        """Call changed() when brokers come, go or move; begins with the next read."""

    def doubt(self) -> None:
        """Mark the last result as possibly old: the next read begins with another broker, if there are several."""

    def read(self, tps: Collection[TopicPartition] | None, refresh: bool = False) -> ClusterView:
        """Return all brokers, and at least these partitions; a broker that is missing is gone.

        refresh: a watched change may have been missed.  Raises ConsumerError or WireError while nothing can be read.
        """


class WatchedLeaders(ZookeeperLeaders):
    refresh_s: float | None = None

    def __init__(self, session: ZkSession, znodes: Znodes, on_event: OnEvent) -> None:
        super().__init__(session.ask, znodes)
        self._session = session
        self._on_event = on_event
        self._changed: Callable[[], None] = lambda: None
        self._saw_brokers: bool | None = None  # None: not read yet
        self._watch = self._touched  # always the same object, by which kazoo recognises a watch that it already has

    def watch(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def doubt(self) -> None:
        """Do nothing: ZooKeeper is the only source."""

    def read(self, tps: Collection[TopicPartition] | None, refresh: bool = False) -> ClusterView:
        if refresh:
            names = self._session.children(BROKERS, self._watch)
            if names is None:
                self._session.stat([BROKERS], self._watch)
            self._report_brokers(bool(names))
        return super().read(tps)

    def _touched(self, path: str, changed: bool) -> None:
        if changed:
            self._changed()

    def _report_brokers(self, there: bool) -> None:
        """Report each time that no brokers are registered: at the start usually a wrong chroot, later all of them are
        down."""
        if not there and self._saw_brokers is not False:
            at = self._session.connect
            text = f"no brokers are registered under {at if '/' in at else at + '/'}"
            said = f"{text} any more" if self._saw_brokers else f"{text}: is the chroot missing, or wrong?"
            self._on_event(ConsumerEvent("missing", said))
        self._saw_brokers = there


class RefreshedLeaders(MetadataLeaders):
    refresh_s: float | None = REFRESH_S
    _metadata: MetadataSource

    def watch(self, changed: Callable[[], None]) -> None:
        """Do nothing: changes are not reported but read every refresh_s."""

    def doubt(self) -> None:
        self._metadata.turn()

    def read(self, tps: Collection[TopicPartition] | None, refresh: bool = False) -> ClusterView:
        return super().read(tps)


class ConstantLeaders(ListedLeaders):
    refresh_s: float | None = None

    def watch(self, changed: Callable[[], None]) -> None:
        """Do nothing: the list does not change."""

    def doubt(self) -> None:
        """Do nothing: the list is the only source."""

    def read(self, tps: Collection[TopicPartition] | None, refresh: bool = False) -> ClusterView:
        return super().read(tps)
