"""Link to a broker that never answers produce requests (0.7), with barriers that show which requests it has handled.

Such a broker handles the requests of a connection in order, and closes the connection on one that it refuses.  So the
response to any other request (the dialect's barrier) confirms everything sent before it on the same connection.

    confirm        a barrier follows each produce request: its response counts as that of the produce request
    no confirm     a produce request counts as sent once it is written; there is still one barrier at a time, to count
                   the messages that may be lost with the connection

A link sends a barrier before its first produce request, and is proven once a barrier was answered.  When the broker
closes a proven link, it refused one of the produce requests.
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
    """A link with barriers: Link's interface with produce() instead of send().

    barrier: makes a barrier request for a partition (Dialect.requests.barrier).
    proven: a barrier was answered.  unconfirmed: messages written after the last answered barrier, without confirm.
    While there are any, a barrier is in flight or due.
    """

    draining = False  # not used: what is lost with a connection tells which request the broker refused

    def __init__(self, link: Link, barrier: Callable[[TopicPartition], Request[Any]], confirm: bool) -> None:
        self.proven = False
        self.unconfirmed = 0
        self._link, self._make, self._confirm = link, barrier, confirm
        link.keeps_sent = not confirm  # nothing that was sent is sent again
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
        """Send a produce request with entries of tp.  Return True if receive() will return its response.  Raises
        LinkLost."""
        self._tp = tp
        if not self.proven and not self._barriers:
            self._send(None)
        self._link.send(request)
        if self._confirm:
            self._send(request)
        return self._confirm

    def written(self, count: int) -> None:
        """Count the messages of a produce request that gets no response."""
        self.unconfirmed += count

    @property
    def barrier_due(self) -> bool:
        return self.unconfirmed > 0 and not self._barriers

    def send_barrier(self) -> None:
        """Send a barrier.  Raises LinkLost."""
        self._send(None)

    def receive(self) -> Reply:
        """Return the next response.  A barrier that confirms a produce request is returned as that request's, with body
        None.

        Raises LinkLost.
        """
        reply = self._link.receive()
        barrier = self._barriers.popleft()
        assert reply.request is barrier.request, "a response to another request than the oldest barrier"
        self.proven = True
        self.unconfirmed -= barrier.covers
        return Reply(barrier.confirms or barrier.request, None)

    def lose(self) -> int:
        """Return the number of messages that may be lost with the connection; 0 at the next call."""
        unconfirmed, self.unconfirmed = self.unconfirmed, 0
        self.proven = False
        return unconfirmed

    def _send(self, confirms: Request[Any] | None) -> None:
        assert self._tp is not None, "a barrier before any produce request"
        barrier = _Barrier(self._make(self._tp), confirms, self.unconfirmed)
        self._barriers.append(barrier)
        self._link.send(barrier.request)
