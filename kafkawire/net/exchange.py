"""Send many requests to many brokers over one link each: all brokers work at once, and none waits for another's
response.

No more than WINDOW_BYTES of requests are in flight to a broker: they fit into the socket's buffer, so neither side
waits for the other to read.  A lost broker affects only its own requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Generic, TypeVar

from kafkawire.errors import LinkLost
from kafkawire.model import Broker
from kafkawire.net.link import Link
from kafkawire.net.links import Links
from kafkawire.protocol.request import Request

WINDOW_BYTES = 32 * 1024
KeyT = TypeVar("KeyT")
ResponseT = TypeVar("ResponseT")


def exchange(
    links: Links, requests: Mapping[Broker, Sequence[tuple[KeyT, Request[ResponseT]]]], purpose: str
) -> dict[KeyT, ResponseT | LinkLost]:
    """Send all requests, and return each response by its key; LinkLost if the connection broke before it came.

    The links are lent for the exchange (Links.lent).
    """
    found: dict[KeyT, ResponseT | LinkLost] = {}
    with ExitStack() as lent:
        flights = [
            _Flight(lent.enter_context(links.lent(broker, purpose)), asked)
            for broker, asked in requests.items()
            if asked
        ]
        for flight in flights:
            flight.send()
        while flights:
            for flight in flights:
                flight.receive(found)
            flights = [flight for flight in flights if flight.waiting]
    return found


class _Flight(Generic[KeyT, ResponseT]):
    """Requests to one broker."""

    def __init__(self, link: Link, requests: Sequence[tuple[KeyT, Request[ResponseT]]]) -> None:
        self.link = link
        self.waiting: deque[tuple[KeyT, int]] = deque()  # sent requests, with their bytes
        self._unsent = deque(requests)
        self._in_flight = 0  # bytes

    def send(self) -> None:
        """Send as many requests as the window allows, at least one."""
        with suppress(LinkLost):  # the link raises it again when the response is requested
            while self._unsent and (not self.waiting or self._in_flight + self._unsent[0][1].size <= WINDOW_BYTES):
                key, request = self._unsent.popleft()
                self.waiting.append((key, request.size))
                self._in_flight += request.size
                self.link.send(request)

    def receive(self, found: dict[KeyT, Any]) -> None:
        """Wait for one response, then send further requests if the window allows."""
        try:
            body = self.link.receive().body
        except LinkLost as lost:
            found |= dict.fromkeys([key for key, _ in (*self.waiting, *self._unsent)], lost)
            self.waiting.clear()
            return
        key, size = self.waiting.popleft()
        self._in_flight -= size
        found[key] = body
        self.send()
