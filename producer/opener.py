"""The link of one lane: opened when it is needed, no oftener than reconnect.backoff.ms, made anew when it is worn."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from groundwork.crew import now
from kafkawire.errors import LinkLost
from kafkawire.model import Broker
from kafkawire.net.link import Link
from kafkawire.net.links import Links

if TYPE_CHECKING:
    from producer.config import ProducerConfig

PURPOSE = "produce"


class Opener:
    """refused(lost): a connection could not be made.  back(broker): one could, after some that could not."""

    def __init__(
        self,
        links: Links,
        config: ProducerConfig,
        refused: Callable[[LinkLost], object],
        back: Callable[[Broker], object],
    ) -> None:
        self.link: Link | None = None  # the one that is open
        self.sends = 0  # requests over it
        self.next_connect = 0.0
        self._links, self._config, self._refused, self._back = links, config, refused, back
        self._opening: Link | None = None  # the one that is being opened
        self._opened_at = 0.0
        self._unreachable = False
        self._rng = random.Random()

    @property
    def connected(self) -> bool:
        return self.link is not None and self.link.broken is None

    @property
    def begun(self) -> Link | None:
        """The one that is open, or being opened."""
        return self.link or self._opening

    def open(self, broker: Broker, idle: bool) -> Link | None:
        """The link, open; None: not now.  idle: nothing waits for an answer on it."""
        if idle and self._worn():
            self._links.drop(broker, PURPOSE)
            self.link, self.next_connect = None, 0.0
        link = self._links.link(broker, PURPOSE)
        if link is self.link and idle and link.closed_by_peer():
            self._links.drop(broker, PURPOSE)  # closed while nothing was on its way: no harm done
            self.link, link = None, self._links.link(broker, PURPOSE)
        if link is self.link:
            return link
        if now() < self.next_connect:
            return None
        self.throttle()
        self._opening = link
        try:
            link.open()
        except LinkLost as lost:
            self._refused(lost)
            self._unreachable = True
            return None
        finally:
            self._opening = None
        if self._unreachable:
            self._back(broker)
        self._unreachable = False
        self.link, self.sends, self._opened_at = link, 0, now()
        return link

    @property
    def unreachable(self) -> bool:
        """Whether the newest try failed."""
        return self._unreachable

    def throttle(self) -> None:
        """The next connect is some time away, and never in step with those of others."""
        self.next_connect = now() + self._config.reconnect_ms / 1000 * self._rng.uniform(1.0, 1.3)

    def lost(self, link: Link) -> None:
        """That link is over."""
        link.close()
        if self.link is link:
            self.link = None

    def drop(self, broker: Broker) -> None:
        self._links.drop(broker, PURPOSE)

    def _worn(self) -> bool:
        """Whether the connection is to be made anew (a load balancer may give another broker then)."""
        if self.link is None:
            return False
        by_sends = 0 < self._config.reconnect_sends <= self.sends
        return by_sends or 0 < self._config.reconnect_time_ms <= (now() - self._opened_at) * 1000
