"""Fetchers of a connector: one or more for each source broker, and the leader finder that assigns partitions to them.

A broker's fetchers (num.consumer.fetchers) have separate connections, so that one sends its bytes while the request of
another travels.  A partition belongs to the same fetcher as long as the broker leads it (kafkawire.net.links.Pins, as
for a producer's connections).

A cursor belongs to one fetcher, or is unassigned: just owned, refused by its broker, its link lost, its broker at
another address.  A source of currentleaders.py looks leaders up, and may report when brokers change: a broker that
vanished, or came back at another port, loses its cursors at once.

Every view that is read is compared with the leaders in use.  A replaced leader refuses fetches (6), unless it is cut
off from the controller: then it does not know, and answers without an error.  A newer leader epoch in the view of
another broker reveals this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from groundwork.tasks import Event, Task, TaskGroup, now
from kafkawire.cluster.retry import Backoff
from kafkawire.cluster.view import NO_EPOCH, ClusterView
from kafkawire.errors import WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links, Pins
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.brokerfetcher import Fetcher
from zkconsumer.fetching.currentleaders import CurrentLeaders, NoLeader
from zkconsumer.fetching.logbounds import ENDS, FETCH
from zkconsumer.fetching.outages import Outages
from zkconsumer.fetching.partitioncursor import Cursor

MAX_BACKOFF_S = 1.0  # longest backoff for one partition, however long its leader is unreachable
LASTING_BACKOFF_S = 5.0  # if there is no such partition
CALM_S = 10.0  # a partition that was fetched for longer starts with the shortest backoff again
REPORT_EVERY_S = 30.0


class _Unassigned:
    """Cursor that waits for its leader.  due: when to look it up next."""

    __slots__ = ("cursor", "due")

    def __init__(self, cursor: Cursor, due: float) -> None:
        self.cursor = cursor
        self.due = due


class Fetchers:
    """Fetchers of one connector, in the event loop.

    make_fetcher(broker, finder, links) makes one.  per_broker: num.consumer.fetchers.
    """

    def __init__(
        self,
        *,
        source: CurrentLeaders,
        tasks: TaskGroup,
        links: Links,
        backoff_s: float,
        make_fetcher: Callable[[Broker, Fetchers, Links], Fetcher],
        on_event: OnEvent,
        per_broker: int = 1,
    ) -> None:
        self._source = source
        self._tasks = tasks
        self._links = links
        self._backoff_s = backoff_s
        self._make_fetcher = make_fetcher
        self._on_event = on_event
        self._pins = Pins(per_broker)
        self._fetchers: dict[tuple[int, int], tuple[Fetcher, list[Task]]] = {}  # by broker id and number
        self._outages = Outages(on_event)
        self._unassigned: dict[TopicPartition, _Unassigned] = {}
        self._misses: dict[TopicPartition, tuple[int, float]] = {}  # misses in a row, and the time of the last one
        self._epochs: dict[TopicPartition, int] = {}  # leader epoch by which each has its fetcher
        self._reported: dict[TopicPartition, tuple[float, str]] = {}  # time and text of the last report
        self._wake = Event()
        self._stale = True  # brokers may have changed since the last lookup
        self._looked_up = 0.0
        source.watch(self.refresh)

    def start(self) -> None:
        self._tasks.spawn("leader-finder", self._run)

    def add(self, cursors: Iterable[Cursor]) -> None:
        """Fetch these from now on."""
        for cursor in cursors:
            self._unassigned[cursor.tp] = _Unassigned(cursor, now())
        self._wake.set()

    def remove(self, tps: Iterable[TopicPartition]) -> None:
        """Stop fetching these.  A response in flight is discarded."""
        for tp in tps:
            self._unassigned.pop(tp, None)
            self._misses.pop(tp, None)
            self._epochs.pop(tp, None)
            self._pins.forget(tp)
            self._outages.forget([tp], now())
            for fetcher, _ in self._fetchers.values():
                fetcher.remove(tp)

    def wake(self) -> None:
        """Wake the fetchers: bytes were released, or a partition may be fetched again."""
        for fetcher, _ in self._fetchers.values():
            fetcher.wake()

    def refresh(self) -> None:
        """Look the brokers up again: they have changed, or their watch was interrupted."""
        self._stale = True
        self._wake.set()

    def fetcher_of(self, tp: TopicPartition) -> Fetcher | None:
        for fetcher, _ in self._fetchers.values():
            if tp in fetcher.cursors:
                return fetcher
        return None

    def find_leaders(self, cursors: Iterable[Cursor], why: str, lasting: bool = False) -> None:
        """Look up the leaders of cursors that a fetcher cannot read, after a backoff.  lasting: report why only
        once."""
        for cursor in cursors:
            if cursor.closing:
                continue
            misses, last = self._misses.get(cursor.tp, (0, 0.0))
            misses = 0 if now() - last > CALM_S else misses
            self._misses[cursor.tp] = (misses + 1, now())
            backoff = Backoff(self._backoff_s, LASTING_BACKOFF_S if lasting else MAX_BACKOFF_S)
            due = now() + backoff.wait_s(misses)
            self._unassigned[cursor.tp] = _Unassigned(cursor, due)
            self._report(cursor.tp, why, lasting)
            if lasting:
                self._outages.forget([cursor.tp], now())
            else:
                self._outages.leaderless(cursor.tp, why, now())
        self._wake.set()

    def lost(self, broker: Broker, tps: Iterable[TopicPartition], why: str, since: float) -> None:
        """Record that the broker does not answer for these partitions.  since: when the request was sent."""
        self._outages.lost(broker, [tp for tp in tps if not self._revoked(tp)], why, now(), since)

    def answered(self, tps: Iterable[TopicPartition]) -> None:
        """Record that a broker answered for these partitions, which are new to it or were lost."""
        self._outages.answered(tps, now())

    @property
    def outage(self) -> str:
        """Return the brokers and leaders that cannot be reached, and since when; "" if none."""
        return self._outages.summary(now())

    def _revoked(self, tp: TopicPartition) -> bool:
        fetcher = self.fetcher_of(tp)
        return fetcher is None or fetcher.cursors[tp].closing

    def _report(self, tp: TopicPartition, why: str, lasting: bool = False) -> None:
        """Report once per partition and half a minute, however often its leader is looked up; a lasting error only
        once."""
        at, said = self._reported.get(tp, (float("-inf"), ""))
        if now() - at <= REPORT_EVERY_S or (lasting and said == why):
            return
        self._reported[tp] = (now(), why)
        kind, then = ("missing", "looking for it") if lasting else ("leader", "looking for its leader")
        self._on_event(ConsumerEvent(kind, f"{tp}: {why}; {then}", tp))

    # the leader finder --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                self._look_up()
            except (ConsumerError, WireError) as e:
                for tp in self._unassigned:
                    self._report(tp, str(e))
                    if isinstance(e, WireError):  # no broker answers; an outage of ZooKeeper is reported by its session
                        self._outages.leaderless(tp, str(e), now())
                self._outages.report_due(now())
                self._wake.wait(timeout=MAX_BACKOFF_S)  # no source can be asked: assigned partitions are still fetched
                continue
            self._outages.report_due(now())
            self._wake.wait(timeout=self._next_due())

    def _next_due(self) -> float | None:
        """Return the seconds until the next lookup is due."""
        due = [one.due for one in self._unassigned.values()]
        if self._source.refresh_s is not None:
            due.append(self._looked_up + self._source.refresh_s)
        return max(0.0, min(due) - now()) if due else None

    def _look_up(self) -> None:
        """Assign the unassigned cursors; brokers that vanished or moved lose their cursors and their fetcher."""
        refresh_s = self._source.refresh_s
        old = refresh_s is not None and now() >= self._looked_up + refresh_s
        refresh = self._stale or old
        due = {tp: one.cursor for tp, one in self._unassigned.items() if one.due <= now()}
        if due or refresh:
            if (old and self._looked_up) or not self._misses.keys().isdisjoint(due):
                self._source.doubt()
            self._stale = False  # before the read, so that a later change sets it again
            try:
                view = self._source.read(list(due), refresh)
            except BaseException:
                self._stale = refresh or self._stale
                raise
            self._looked_up = now()
            self._close_moved(view)
            self._follow(view)
            for cursor in due.values():
                self._assign(cursor, view)
        for key, (fetcher, _) in list(self._fetchers.items()):
            if not fetcher.cursors:
                self._close(key, "nothing is fetched from it any more")

    def _close_moved(self, view: ClusterView) -> None:
        for key, (fetcher, _) in list(self._fetchers.items()):
            if view.brokers.get(key[0]) != fetcher.broker:
                how = "is at another address" if key[0] in view.brokers else "is gone from /brokers/ids"
                self._close(key, f"{fetcher.broker} {how}")

    def _follow(self, view: ClusterView) -> None:
        """Move partitions that another broker leads in a newer leader epoch.  Without epochs it is unknown which of two
        views is older, so a difference moves nothing."""
        moved: dict[tuple[Broker, Broker], list[TopicPartition]] = {}
        for fetcher, _ in list(self._fetchers.values()):
            for tp, cursor in list(fetcher.cursors.items()):
                if (epoch := view.epoch(tp)) <= self._epochs.get(tp, NO_EPOCH) or cursor.closing:
                    continue
                leader = self._source.leader(view, tp)
                if leader == fetcher.broker:
                    self._epochs[tp] = epoch
                elif not isinstance(leader, NoLeader):
                    fetcher.remove(tp)
                    self._unassigned[tp] = _Unassigned(cursor, now())
                    self._assign(cursor, view)
                    moved.setdefault((fetcher.broker, leader), []).append(tp)
        for (before, leader), tps in moved.items():
            which = str(tps[0]) if len(tps) == 1 else f"{len(tps):,} partitions ({tps[0]} among them)"
            led = f"{which} {'is' if len(tps) == 1 else 'are'} led by {leader} since a newer leader epoch"
            self._on_event(ConsumerEvent("leader", f"{led}; fetching from it, no longer from {before}"))

    def _assign(self, cursor: Cursor, view: ClusterView) -> None:
        """Give a cursor to the fetcher of its leader."""
        waiting = self._unassigned.get(cursor.tp)
        if waiting is None or waiting.cursor is not cursor:
            return  # removed while the leaders were looked up
        leader = self._source.leader(view, cursor.tp)
        if isinstance(leader, NoLeader):
            self.find_leaders([cursor], leader.why, leader.lasting)
            return
        del self._unassigned[cursor.tp]
        self._epochs[cursor.tp] = view.epoch(cursor.tp)
        self._fetcher(leader, self._pins.lane(cursor.tp, leader.id)).add(cursor)

    def _fetcher(self, broker: Broker, number: int) -> Fetcher:
        key = broker.id, number
        found = self._fetchers.get(key)
        if found is not None and found[0].broker != broker:
            self._close(key, f"{broker} is at another address")
            found = None
        if found is None:
            fetcher = self._make_fetcher(broker, self, self._links.lane(number))
            named = f"{broker.id}-{number}" if number else f"{broker.id}"
            workers = [
                self._tasks.spawn(f"fetcher-{named}", fetcher.run),
                self._tasks.spawn(f"ends-{named}", fetcher.run_ends),
            ]
            found = self._fetchers[key] = (fetcher, workers)
        return found[0]

    def _close(self, key: tuple[int, int], why: str) -> None:
        fetcher, workers = self._fetchers.pop(key)
        for worker in workers:
            worker.ask_to_end()
        for purpose in (FETCH, ENDS):
            self._links.lane(key[1]).drop(fetcher.broker, purpose)  # a response may be in flight on it
        cursors = list(fetcher.cursors.values())
        for cursor in cursors:
            fetcher.remove(cursor.tp)
        self.find_leaders(cursors, why)
