"""Where a consumer looks leaders up: the sources of kafkawire.cluster, and how each is kept current.

WatchedLeaders     ZooKeeper through the session of a member; a watch on /brokers/ids reports changes
RefreshedLeaders   Metadata responses, read again now and then, of another broker each time: nothing reports brokers
                   that come, go or move, and leaders that do
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
    """A source that is kept current.  refresh_s: read again after so long; None: changes are reported (`watch`)."""

    refresh_s: float | None

    def watch(self, changed: Callable[[], None]) -> None:
        """From the next read on, changed() is called when brokers come, go or move."""

    def doubt(self) -> None:
        """What was read last may be old: begin the next read elsewhere, if there are several places to read."""

    def read(self, tps: Collection[TopicPartition] | None, refresh: bool = False) -> ClusterView:
        """All brokers, and these partitions at least; a broker that is not in it is gone.

        refresh: what is watched may have been missed.  Raises ConsumerError or WireError while nothing can be read.
        """


class WatchedLeaders(ZookeeperLeaders):
    refresh_s: float | None = None

    def __init__(self, session: ZkSession, znodes: Znodes, on_event: OnEvent) -> None:
        super().__init__(session.ask, znodes)
        self._session = session
        self._on_event = on_event
        self._changed: Callable[[], None] = lambda: None
        self._saw_brokers: bool | None = None  # None: not read yet
        self._watch = self._touched  # one object: kazoo recognises by it a watch that it has already

    def watch(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def doubt(self) -> None:
        """ZooKeeper is one place."""

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
        """Once each time there are none: at the start that is mostly a wrong chroot, later all of them are down."""
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
        """Nothing reports changes: refresh_s."""

    def doubt(self) -> None:
        self._metadata.turn()

    def read(self, tps: Collection[TopicPartition] | None, refresh: bool = False) -> ClusterView:
        return super().read(tps)


class ConstantLeaders(ListedLeaders):
    refresh_s: float | None = None

    def watch(self, changed: Callable[[], None]) -> None:
        """Nothing changes."""

    def doubt(self) -> None:
        """The list is one place."""

    def read(self, tps: Collection[TopicPartition] | None, refresh: bool = False) -> ClusterView:
        return super().read(tps)
