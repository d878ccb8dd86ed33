"""Which broker each cursor is fetched from: the leader finder, and a fetcher per broker.

A cursor is at home in one fetcher, or homeless: just owned, refused by its broker, its link lost, its broker at
another address.  Leaders are looked up by a LeaderSource (leaders.py), which may tell when brokers change: one that
vanished, or came back at another port, makes its cursors homeless at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from groundwork.tasks import Event, Task, TaskGroup, now
from kafkawire.cluster.view import ClusterView
from kafkawire.errors import WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.cursor import Cursor
from zkconsumer.fetching.fetcher import Fetcher
from zkconsumer.fetching.leaders import LeaderSource, NoLeader
from zkconsumer.fetching.outages import Outages
from zkconsumer.fetching.positions import BESIDE

LONGEST_PAUSE_S = 1.0  # between tries for one partition, however long its leader is away
LASTING_PAUSE_S = 5.0  # where there is no such partition
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
        source: LeaderSource,
        tasks: TaskGroup,
        links: Links,
        pause_s: float,
        make_fetcher: Callable[[Broker, Fetchers], Fetcher],
        on_event: OnEvent,
    ) -> None:
        self._source = source
        self._tasks = tasks
        self._links = links
        self._pause_s = pause_s
        self._make_fetcher = make_fetcher
        self._on_event = on_event
        self._fetchers: dict[int, tuple[Fetcher, list[Task]]] = {}
        self._outages = Outages(on_event)
        self._homeless: dict[TopicPartition, _Homeless] = {}
        self._misses: dict[TopicPartition, tuple[int, float]] = {}  # how many in a row, and when the last one was
        self._told: dict[TopicPartition, tuple[float, str]] = {}  # when last, and what
        self._wake = Event()
        self._stale = True  # brokers may have changed since the last look
        self._looked = 0.0
        source.watch(self.look_again)

    def start(self) -> None:
        self._tasks.spawn("leader-finder", self._run)

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
            self._outages.forget([tp], now())
            for fetcher, _ in self._fetchers.values():
                fetcher.remove(tp)

    def wake(self) -> None:
        """There is room again, or a partition may be fetched again."""
        for fetcher, _ in self._fetchers.values():
            fetcher.wake()

    def look_again(self) -> None:
        """Brokers have changed, or what would have told so was away for a while."""
        self._stale = True
        self._wake.set()

    def fetcher_of(self, tp: TopicPartition) -> Fetcher | None:
        return next((f for f, _ in self._fetchers.values() if tp in f.cursors), None)

    def homeless(self, cursors: Iterable[Cursor], why: str, lasting: bool = False) -> None:
        """A fetcher cannot read these: find out who leads them, after a pause.  lasting: why is said once only."""
        for cursor in cursors:
            if cursor.closing:
                continue
            misses, last = self._misses.get(cursor.tp, (0, 0.0))
            misses = 0 if now() - last > CALM_S else misses
            self._misses[cursor.tp] = (misses + 1, now())
            longest_s = LASTING_PAUSE_S if lasting else LONGEST_PAUSE_S
            due = now() + min(longest_s, self._pause_s * 2 ** min(misses, 8))
            self._homeless[cursor.tp] = _Homeless(cursor, due)
            self._tell(cursor.tp, why, lasting)
            if lasting:
                self._outages.forget([cursor.tp], now())
            else:
                self._outages.leaderless(cursor.tp, why, now())
        self._wake.set()

    def lost(self, broker: Broker, tps: Iterable[TopicPartition], why: str) -> None:
        """The broker does not answer for these."""
        self._outages.lost(broker, [tp for tp in tps if not self._leaves(tp)], why, now())

    def answered(self, tps: Iterable[TopicPartition]) -> None:
        """A broker answered for these, which are new to it or were lost."""
        self._outages.answered(tps, now())

    @property
    def outage(self) -> str:
        """The brokers and leaders that are out of reach, and since when; "": none."""
        return self._outages.summary(now())

    def _leaves(self, tp: TopicPartition) -> bool:
        fetcher = self.fetcher_of(tp)
        return fetcher is None or fetcher.cursors[tp].closing

    def _tell(self, tp: TopicPartition, why: str, lasting: bool = False) -> None:
        """One line per partition and half a minute, however often its leader is looked for; of what lasts, one."""
        at, said = self._told.get(tp, (float("-inf"), ""))
        if now() - at <= TELL_AGAIN_S or (lasting and said == why):
            return
        self._told[tp] = (now(), why)
        kind, then = ("missing", "looking for it") if lasting else ("leader", "looking for its leader")
        self._on_event(ConsumerEvent(kind, f"{tp}: {why}; {then}", tp))

    # the leader finder --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                self._look()
            except (ConsumerError, WireError) as e:
                for tp in self._homeless:
                    self._tell(tp, str(e))
                    if isinstance(e, WireError):  # no broker answers; of ZooKeeper its session says so
                        self._outages.leaderless(tp, str(e), now())
                self._outages.look(now())
                self._wake.wait(timeout=LONGEST_PAUSE_S)  # nobody to ask: what is at home goes on
                continue
            self._outages.look(now())
            self._wake.wait(timeout=self._next_due())

    def _next_due(self) -> float | None:
        """Seconds until somebody has to be looked for, or until it is time to look again anyway."""
        due = [one.due for one in self._homeless.values()]
        if self._source.refresh_s is not None:
            due.append(self._looked + self._source.refresh_s)
        return max(0.0, min(due) - now()) if due else None

    def _look(self) -> None:
        """Find the homeless a home; brokers that vanished or moved lose their cursors and their fetcher."""
        refresh_s = self._source.refresh_s
        afresh = self._stale or (refresh_s is not None and now() >= self._looked + refresh_s)
        due = {tp: one.cursor for tp, one in self._homeless.items() if one.due <= now()}
        if due or afresh:
            self._stale = False  # first: a change after the read sets it again
            try:
                view = self._source.look(list(due), afresh)
            except BaseException:
                self._stale = afresh or self._stale
                raise
            self._looked = now()
            self._compare(view)
            for cursor in due.values():
                self._settle(cursor, view)
        for broker_id, (fetcher, _) in list(self._fetchers.items()):
            if not fetcher.cursors:
                self._close(broker_id, "nothing is fetched from it any more")

    def _compare(self, view: ClusterView) -> None:
        for broker_id, (fetcher, _) in list(self._fetchers.items()):
            if view.brokers.get(broker_id) != fetcher.broker:
                how = "is at another address" if broker_id in view.brokers else "is gone from /brokers/ids"
                self._close(broker_id, f"{fetcher.broker} {how}")

    def _settle(self, cursor: Cursor, view: ClusterView) -> None:
        """Give a cursor to its leader's fetcher."""
        waiting = self._homeless.get(cursor.tp)
        if waiting is None or waiting.cursor is not cursor:
            return  # removed while the leaders were looked up
        leader = self._source.leader(view, cursor.tp)
        if isinstance(leader, NoLeader):
            self.homeless([cursor], leader.why, leader.lasting)
            return
        del self._homeless[cursor.tp]
        self._fetcher(leader).add(cursor)

    def _fetcher(self, broker: Broker) -> Fetcher:
        found = self._fetchers.get(broker.id)
        if found is not None and found[0].broker != broker:
            self._close(broker.id, f"{broker} is at another address")
            found = None
        if found is None:
            fetcher = self._make_fetcher(broker, self)
            workers = [
                self._tasks.spawn(f"fetcher-{broker.id}", fetcher.run),
                self._tasks.spawn(f"ends-{broker.id}", fetcher.run_beside),
            ]
            found = self._fetchers[broker.id] = (fetcher, workers)
        return found[0]

    def _close(self, broker_id: int, why: str) -> None:
        fetcher, workers = self._fetchers.pop(broker_id)
        for worker in workers:
            worker.ask_to_end()
        for purpose in ("fetch", BESIDE):
            self._links.drop(fetcher.broker, purpose)  # an answer may be under way on it
        cursors = list(fetcher.cursors.values())
        fetcher.cursors.clear()
        self.homeless(cursors, why)
