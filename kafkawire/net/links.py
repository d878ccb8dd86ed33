"""Pool of links to one cluster: one per broker and purpose, because a waiting fetch blocks all requests after it.

purpose     "fetch", "produce", "metadata", "offsets" …: any word
lane        one of several connections to a broker for one purpose: each lane of a pool has its own connection
pin         the lane that a partition uses as long as its broker leads it
lent        taken out of the pool for one caller, until it returns the link.  Other callers get another connection
            meanwhile, so no link has two users, and no request waits after one that a broker does not answer
kept        used by one task for as long as it runs (a fetcher, a connection of a producer): for requests in flight
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from groundwork.connecting import connect as blocking_connect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Connect, Link, ResponseT
from kafkawire.protocol.buffers import Buffers
from kafkawire.protocol.request import Request


class Links:
    """Pool of links; it never sends or receives itself.  A link connects on its first send.

    buffers: buffers for fetched sets, if several pools share them; otherwise each pool has its own.
    """

    def __init__(
        self,
        client_id: str,
        connect: Connect = blocking_connect,
        timeout_ms: int = 30000,
        buffers: Buffers | None = None,
    ) -> None:
        self.client_id = client_id
        self._connect = connect
        self._timeout_ms = timeout_ms
        self._links: dict[tuple[int, str], Link] = {}  # links that are not lent
        self._lent: dict[Link, tuple[int, str]] = {}
        self._silent: set[Broker] = set()  # brokers that did not answer the last request over a lent link
        self._buffers = buffers or Buffers()  # shared by all links
        self._ended = False

    @property
    def connect(self) -> Connect:
        """Return the function that opens connections; kafkawire.net.security.security_of returns its security."""
        return self._connect

    def call(
        self,
        broker: Broker,
        purpose: str,
        request: Request[ResponseT],
        before: Callable[[], object] = lambda: None,
    ) -> ResponseT:
        """Send one request over a lent link, and wait for the response.  Raises LinkLost.

        before: called right before the bytes are sent, as in Link.call.
        """
        with self.lent(broker, purpose) as link:
            return link.call(request, before)

    def lent(self, broker: Broker, purpose: str) -> AbstractContextManager[Link]:
        """Lend a link to the caller until the block ends.

        It is a new link if the idle one is stale, which is not an outage, or belongs to another address.  A link
        returned with outstanding responses is closed: they would be mistaken for responses to the next request.  After
        end() it is a broken link, whose calls raise LinkLost.
        """
        return self._lend(broker, (broker.id, purpose))

    @contextmanager
    def _lend(self, broker: Broker, key: tuple[int, str]) -> Iterator[Link]:
        link = self._links.pop(key, None)  # one atomic step, also between threads
        if link is not None and link.outstanding:  # a kept link: its task continues to use it
            self._links.setdefault(key, link)
            link = None
        elif link is not None and (link.broker != broker or link.stale()):
            link.close()
            link = None
        if link is None:
            link = self._new(broker)
        self._lent[link] = key
        if self._ended:
            link.close()
        try:
            yield link
        finally:
            self._lent.pop(link, None)
            if link.outstanding or (link.broken is not None and not link.closed_here):
                self._silent.add(broker)
            elif link.broken is None:
                self._silent.discard(broker)
            idle = link.broken is None and not link.outstanding and not self._ended
            if not idle or self._links.setdefault(key, link) is not link:
                link.close()

    def answering_first(self, brokers: Iterable[Broker]) -> list[Broker]:
        """Sort equivalent brokers: those that did not answer their last request come last.

        A hanging broker then costs one time-out, not one per request.
        """
        return sorted(brokers, key=lambda broker: broker in self._silent)

    def link(self, broker: Broker, purpose: str) -> Link:
        """Return the kept link of a purpose that one task alone uses; all others are lent.

        It is a new link if there is none, the old one is broken or stale, or the broker has another address.  After
        end() it is a broken link, whose calls raise LinkLost.
        """
        key = (broker.id, purpose)
        link = self._links.get(key)
        if link is not None and link.broken is None and link.broker == broker and not link.stale():
            return link
        if link is not None:
            link.close()
        link = self._new(broker)
        if self._ended:
            link.close()
        else:
            self._links[key] = link
        return link

    def _new(self, broker: Broker) -> Link:
        return Link(broker, self.client_id, self._connect, self._timeout_ms, self._buffers)

    def lane(self, number: int) -> Links:
        """Return links to the same brokers over separate connections, which are closed with the pool's; 0: the pool
        itself."""
        return self if number == 0 else _Lane(self, number)

    def connected(self, purpose: str) -> dict[int, int]:
        """Return the number of open connections for a purpose, including lanes, by the id of each broker with links for
        it."""
        counts: dict[int, int] = {}
        lent = [(key, link) for link, key in list(self._lent.items())]  # list(): other threads lend meanwhile
        for (broker, name), link in [*list(self._links.items()), *lent]:
            if name == purpose or name.startswith(f"{purpose} "):
                counts[broker] = counts.get(broker, 0) + link.connected
        return counts

    def meet(self, brokers: Iterable[Broker]) -> None:
        """Pass the brokers of the cluster to a connect function that has to know them before it connects."""
        meet: Callable[[Iterable[Broker]], object] | None = getattr(self._connect, "meet", None)
        if meet is not None:
            meet(brokers)

    def drop(self, broker: Broker, purpose: str) -> None:
        """Close and forget the links to a broker for one purpose; waiting calls raise LinkLost."""
        self._close(lambda key: key == (broker.id, purpose))

    def close(self, purpose: str | None = None) -> None:
        """Close all links, or those of one purpose; waiting calls raise LinkLost.  The pool can still be used."""
        self._close(lambda key: purpose in (None, key[1]))

    def _close(self, meant: Callable[[tuple[int, str]], bool]) -> None:
        for key in [key for key in list(self._links) if meant(key)]:
            if (link := self._links.pop(key, None)) is not None:
                link.close()
        for link in [link for link, key in list(self._lent.items()) if meant(key)]:
            link.close()

    def end(self) -> None:
        """Close all links, and open no new ones: a waiting caller would otherwise continue with the next broker."""
        self._ended = True
        self.close()

    def __repr__(self) -> str:
        return f"<Links {[*self._links.values(), *self._lent]}>"


class Pins:
    """Assignment of partitions to the connections of their leader.  A partition keeps its connection as long as the
    broker leads it, so that its requests stay in order.  A new partition gets the connection with the fewest: a number
    computed from the partition's, as in the JVM's AbstractFetcherManager.getFetcherId, leaves every second connection
    unused if leaders alternate.

    lanes: number of connections to a broker.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self._pins: dict[TopicPartition, tuple[int, int]] = {}  # broker id, lane
        self._pinned: dict[int, list[int]] = {}  # partitions of each lane, by broker id

    def lane(self, tp: TopicPartition, broker_id: int) -> int:
        """Return the lane (0, 1, …) of a partition that this broker leads."""
        if self.lanes == 1:
            return 0
        pin = self._pins.get(tp)
        if pin is not None and pin[0] == broker_id:
            return pin[1]
        self.forget(tp)
        counts = self._pinned.setdefault(broker_id, [0] * self.lanes)
        lane = counts.index(min(counts))
        counts[lane] += 1
        self._pins[tp] = broker_id, lane
        return lane

    def forget(self, tp: TopicPartition) -> None:
        """Forget a partition that is no longer used."""
        pin = self._pins.pop(tp, None)
        if pin is not None:
            self._pinned[pin[0]][pin[1]] -= 1


class _Lane(Links):
    """Additional connection to each broker for each purpose, kept by the pool."""

    def __init__(self, pool: Links, number: int) -> None:
        super().__init__(pool.client_id, pool._connect, pool._timeout_ms, pool._buffers)
        self._pool, self._number = pool, number

    def link(self, broker: Broker, purpose: str) -> Link:
        return self._pool.link(broker, self._named(purpose))

    def lent(self, broker: Broker, purpose: str) -> AbstractContextManager[Link]:
        return self._pool.lent(broker, self._named(purpose))

    def drop(self, broker: Broker, purpose: str) -> None:
        self._pool.drop(broker, self._named(purpose))

    def close(self, purpose: str | None = None) -> None:
        """Close the links of one purpose; all of them close with the pool."""
        if purpose is not None:
            self._pool.close(self._named(purpose))

    def _named(self, purpose: str) -> str:
        return f"{purpose} {self._number}"
