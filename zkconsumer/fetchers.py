"""Which broker each cursor is fetched from: the leader finder, and a fetcher per broker.

A cursor is at home in one fetcher, or homeless: just owned, refused by its broker, its link lost, its broker at
another address.  Leaders are looked up in ZooKeeper's state nodes, never by a Metadata request that names a topic: on
a source that would create it.  The children of /brokers/ids are watched: a broker that vanished, or came back at
another port, makes its cursors homeless at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType

from groundwork.crew import Crew, Event, Worker, now
from kafkawire.cluster.zookeeper import BROKERS, read_brokers, read_leaders
from kafkawire.errors import RemoteError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from zkconsumer.cursor import Cursor
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetcher import Fetcher
from zkconsumer.zksession import ZkSession

LONGEST_PAUSE_S = 1.0  # between tries for one partition, however long its leader is away
CALM_S = 10.0  # a partition that was at home that long starts with the shortest pause again
TELL_AGAIN_S = 30.0


class _Homeless:
    """A cursor that waits for its leader; due: when to look next."""

    __slots__ = ("cursor", "due")

    def __init__(self, cursor: Cursor, due: float) -> None:
        self.cursor = cursor
        self.due = due


class Fetchers:
    """All fetching of one connector; lives in the hub.  make_fetcher(broker, finder) makes one."""

    def __init__(
        self,
        session: ZkSession,
        znodes: ModuleType,
        crew: Crew,
        links: Links,
        pause_s: float,
        make_fetcher: Callable[[Broker, Fetchers], Fetcher],
        on_event: OnEvent,
    ) -> None:
        self._session = session
        self._znodes = znodes
        self._crew = crew
        self._links = links
        self._pause_s = pause_s
        self._make_fetcher = make_fetcher
        self._on_event = on_event
        self._fetchers: dict[int, tuple[Fetcher, Worker]] = {}
        self._homeless: dict[TopicPartition, _Homeless] = {}
        self._misses: dict[TopicPartition, tuple[int, float]] = {}  # how many in a row, and when the last one was
        self._told: dict[TopicPartition, float] = {}
        self._wake = Event()
        self._brokers_stale = True  # no watch on /brokers/ids, or it fired
        self._saw_brokers: bool | None = None  # None: nobody looked yet
        self._watch_brokers = self._brokers_touched

    def start(self) -> None:
        self._crew.spawn("leader-finder", self._run)

    def add(self, cursors: Iterable[Cursor]) -> None:
        """Fetch these from now on."""
        for cursor in cursors:
            self._homeless[cursor.tp] = _Homeless(cursor, now())
        self._wake.set()

    def remove(self, tps: Iterable[TopicPartition]) -> None:
        """Fetch these no more.  An answer that is on its way is thrown away."""
        for tp in tps:
            self._homeless.pop(tp, None)
            self._misses.pop(tp, None)
            for fetcher, _ in self._fetchers.values():
                fetcher.remove(tp)

    def wake(self) -> None:
        """There is room again, or a partition may be fetched again."""
        for fetcher, _ in self._fetchers.values():
            fetcher.wake()

    def look_again(self) -> None:
        """The session is back: watches are gone, and brokers may have moved."""
        self._brokers_stale = True
        self._wake.set()

    def fetcher_of(self, tp: TopicPartition) -> Fetcher | None:
        return next((f for f, _ in self._fetchers.values() if tp in f.cursors), None)

    def homeless(self, cursors: Iterable[Cursor], why: str) -> None:
        """A fetcher cannot read these: find out who leads them, after a pause."""
        for cursor in cursors:
            if cursor.closing:
                continue
            misses, last = self._misses.get(cursor.tp, (0, 0.0))
            misses = 0 if now() - last > CALM_S else misses
            self._misses[cursor.tp] = (misses + 1, now())
            due = now() + min(LONGEST_PAUSE_S, self._pause_s * 2 ** min(misses, 8))
            self._homeless[cursor.tp] = _Homeless(cursor, due)
            self._tell(cursor.tp, why)
        self._wake.set()

    def _tell(self, tp: TopicPartition, why: str) -> None:
        """One line per partition and half a minute, however often its leader is looked for."""
        if now() - self._told.get(tp, float("-inf")) > TELL_AGAIN_S:
            self._told[tp] = now()
            self._on_event(ConsumerEvent("leader", f"{tp}: {why}; looking for its leader", tp))

    # the leader finder --------------------------------------------------------------------------------------------

    def _brokers_touched(self, path: str, changed: bool) -> None:
        if changed:
            self.look_again()

    def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                if self._brokers_stale:
                    self._look_at_brokers()
                self._find()
            except (ConsumerError, RemoteError) as e:
                for tp in self._homeless:
                    self._tell(tp, str(e))
                self._wake.wait(timeout=LONGEST_PAUSE_S)  # ZooKeeper is away: what is at home goes on
                continue
            self._wake.wait(timeout=self._next_due())

    def _next_due(self) -> float | None:
        if not self._homeless:
            return None
        return max(0.0, min(one.due for one in self._homeless.values()) - now())

    def _look_at_brokers(self) -> None:
        """Read and watch the brokers; those that vanished or moved lose their cursors and their fetcher."""
        self._brokers_stale = False  # first: a change after the read sets it again
        try:
            names = self._session.children(BROKERS, self._watch_brokers)
            if names is None:
                self._session.stat([BROKERS], self._watch_brokers)
            self._tell_brokers(bool(names))
            brokers = self._session.ask("read brokers", read_brokers, self._znodes)
        except ConsumerError:
            self._brokers_stale = True
            raise
        for broker_id, (fetcher, _) in list(self._fetchers.items()):
            if brokers.get(broker_id) != fetcher.broker:
                how = "is at another address" if broker_id in brokers else "is gone from /brokers/ids"
                self._close(broker_id, f"{fetcher.broker} {how}")

    def _tell_brokers(self, there: bool) -> None:
        """Once each time there are none: at the start that is mostly a wrong chroot, later all of them are down."""
        if not there and self._saw_brokers is not False:
            at = self._session.connect
            text = f"no brokers are registered under {at if '/' in at else at + '/'}"
            said = f"{text} any more" if self._saw_brokers else f"{text}: is the chroot missing, or wrong?"
            self._on_event(ConsumerEvent("missing", said))
        self._saw_brokers = there

    def _find(self) -> None:
        due = {tp: one.cursor for tp, one in self._homeless.items() if one.due <= now()}
        if due:
            brokers = self._session.ask("read brokers", read_brokers, self._znodes)
            leaders = self._session.ask("read leaders", read_leaders, self._znodes, list(due))
            for tp, cursor in due.items():
                self._settle(cursor, leaders.get(tp), brokers)
        for broker_id, (fetcher, _) in list(self._fetchers.items()):
            if not fetcher.cursors:
                self._close(broker_id, "nothing is fetched from it any more")

    def _settle(self, cursor: Cursor, leader: int | None, brokers: dict[int, Broker]) -> None:
        """Give a cursor to its leader's fetcher."""
        waiting = self._homeless.get(cursor.tp)
        if waiting is None or waiting.cursor is not cursor:
            return  # removed while ZooKeeper was asked
        broker = brokers.get(leader) if leader is not None else None
        if broker is None:
            why = "it has no leader" if leader is None else f"its leader, broker {leader}, is not registered"
            self.homeless([cursor], why)
            return
        del self._homeless[cursor.tp]
        self._fetcher(broker).add(cursor)

    def _fetcher(self, broker: Broker) -> Fetcher:
        found = self._fetchers.get(broker.id)
        if found is not None and found[0].broker != broker:
            self._close(broker.id, f"{broker} is at another address")
            found = None
        if found is None:
            fetcher = self._make_fetcher(broker, self)
            found = self._fetchers[broker.id] = (fetcher, self._crew.spawn(f"fetcher-{broker.id}", fetcher.run))
        return found[0]

    def _close(self, broker_id: int, why: str) -> None:
        fetcher, worker = self._fetchers.pop(broker_id)
        worker.ask_to_end()
        self._links.drop(fetcher.broker, "fetch")  # an answer may be under way on it
        cursors = list(fetcher.cursors.values())
        fetcher.cursors.clear()
        self.homeless(cursors, why)
