"""Ways that something takes: between one client and ZooKeeper, and between two servers of an ensemble."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.process import Timeline

if TYPE_CHECKING:
    from tests.simulation.zookeeper.client import SimClient
    from tests.simulation.zookeeper.server import Server
    from tests.simulation.zookeeper.tree import Session


class Link:
    """rng: of the whole schedule, so that a seed is a schedule."""

    def __init__(self, timeline: Timeline, rng: Random) -> None:
        self.cut = False
        self.slow_up_s = self.slow_down_s = 0.0
        self.silent = False  # name servers do not answer
        self._timeline = timeline
        self._rng = rng
        self._held: list[Callable[[], object]] = []

    def delay(self, down: bool) -> float:
        return 0.0004 + 0.002 * self._rng.random() + (self.slow_down_s if down else self.slow_up_s)

    def pass_on(self, arrive: Callable[[], object]) -> None:
        """Something has come to the end of its way; where that is cut it waits (TCP sends again)."""
        if self.cut:
            self._held.append(arrive)
        else:
            arrive()

    def heal(self) -> None:
        self.cut = False
        held, self._held = self._held, []
        for arrive in held:
            self._timeline.after(0.0, arrive)


class Connection:
    """One TCP connection.  open: at the client's end.  still: after that, so many requests under way still arrive.
    served: at the server's end."""

    __slots__ = ("client", "down_at", "open", "served", "server", "session", "still", "up_at")

    def __init__(self, client: SimClient, server: Server) -> None:
        self.client = client
        self.server = server
        self.session: Session | None = None
        self.open = self.served = True
        self.still = 0
        self.up_at = self.down_at = 0.0
