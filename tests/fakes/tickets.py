"""A ticket that writes down what it is told, and says no when it is asked to."""

from __future__ import annotations

from collections.abc import Callable


class Ticket:
    """told: ("reached", position), ("done",) and ("failed", reason, position), in order."""

    def __init__(self, willing: bool = True, on_told: Callable[[], object] = lambda: None) -> None:
        self.willing = willing
        self.asked = 0
        self.told: list[tuple[object, ...]] = []
        self._on_told = on_told

    def may_send(self) -> bool:
        self.asked += 1
        return self.willing

    def reached(self, resume_at: int) -> None:
        self._told("reached", resume_at)

    def done(self) -> None:
        self._told("done")

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        self._told("failed", reason, resume_at)

    def _told(self, *what: object) -> None:
        self.told.append(what)
        self._on_told()


class OnceTicket(Ticket):
    """A ticket of a part that must not be stored twice."""

    once = True
