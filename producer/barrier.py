"""A link to a broker that never answers a produce request (0.7): barriers tell that it handled what was sent before.

Such a broker handles the requests of a connection in order, and closes it on one that it refuses.  So the response to
any other request (the dialect's barrier) covers everything that was sent before it on the same connection.

    confirm        a barrier behind each produce request: its response stands for the produce request's own
    no confirm     a produce request counts as sent once it is written; one barrier at a time follows all the same, so
                   that the messages that may be lost with the connection are counted

A link is fresh until its first barrier is sent, then proven once a barrier was answered.  A fresh one gets a barrier
before its first produce request: a proven link that is closed was closed for what it was sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafkawire.errors import LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Link
from kafkawire.net.session import Reply
from kafkawire.protocol.request import Request


@dataclass(frozen=True, slots=True)
class _Barrier:
    """A barrier in flight.  confirms: the produce request before it; covers: unconfirmed messages before it."""

    request: Request[Any]
    confirms: Request[Any] | None
    covers: int


class BarrierLink:
    """Link's methods around a link, with produce() in place of send().

    barrier: makes the barrier that the broker of a partition answers (Dialect.requests.barrier).
    proven: a barrier was answered.  unconfirmed: messages written, without confirm, behind the last answered barrier.
    As long as there are any, a barrier is in flight or due.
    """

    def __init__(self, link: Link, barrier: Callable[[TopicPartition], Request[Any]], confirm: bool) -> None:
        self.proven = False
        self.unconfirmed = 0
        self._link, self._make, self._confirm = link, barrier, confirm
        self._barriers: deque[_Barrier] = deque()  # in flight, oldest first
        self._tp: TopicPartition | None = None  # of the newest produce request

    @property
    def broker(self) -> Broker:
        return self._link.broker

    @property
    def broken(self) -> LinkLost | None:
        return self._link.broken

    @property
    def closed_here(self) -> bool:
        return self._link.closed_here

    @property
    def outstanding(self) -> int:
        return self._link.outstanding

    def closed_by_peer(self) -> bool:
        return self._link.closed_by_peer()

    def close(self) -> None:
        self._link.close()

    def produce(self, request: Request[Any], tp: TopicPartition) -> bool:
        """Send a produce request with entries of tp.  True: receive() gives its response.  Raises LinkLost."""
        self._tp = tp
        if not self.proven and not self._barriers:
            self._send(None)
        self._link.send(request)
        if self._confirm:
            self._send(request)
        return self._confirm

    def written(self, count: int) -> None:
        """Messages of a produce request without a response count as sent."""
        self.unconfirmed += count

    @property
    def barrier_due(self) -> bool:
        return self.unconfirmed > 0 and not self._barriers

    def send_barrier(self) -> None:
        """Raises LinkLost."""
        self._send(None)

    def receive(self) -> Reply:
        """The next response: of the produce request that a barrier confirms, else of the barrier; its body is None.

        Raises LinkLost.
        """
        reply = self._link.receive()
        barrier = self._barriers.popleft()
        assert reply.request is barrier.request, "a response to another request than the oldest barrier"
        self.proven = True
        self.unconfirmed -= barrier.covers
        return Reply(barrier.confirms or barrier.request, None)

    def lose(self) -> int:
        """The connection is over: messages that may be lost with it, once."""
        unconfirmed, self.unconfirmed = self.unconfirmed, 0
        self.proven = False
        return unconfirmed

    def _send(self, confirms: Request[Any] | None) -> None:
        assert self._tp is not None, "a barrier before any produce request"
        barrier = _Barrier(self._make(self._tp), confirms, self.unconfirmed)
        self._barriers.append(barrier)
        self._link.send(barrier.request)
