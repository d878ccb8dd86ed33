"""Log lines for exceptions that a user's code raises repeatedly: the first of a kind in full, the others counted.

    failures = Failures(log, "the handler")
    failures.raised(exc, "orders/3 at 812", item)     an item that will be retried
    failures.worked(item)                             its retry succeeded
    failures.tell()                                   called regularly: logs the lines that are due

A kind is an exception's type and the line that raised it.  Its first exception is logged with the traceback.  After
that a kind gets at most one line per EVERY_S: how often it was raised since, or, when none of its items waits for a
retry, that the code works again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

EVERY_S = 30.0


@dataclass(slots=True)
class _Kind:
    logged_at: float
    name: str  # of the exception's type
    last: str = ""  # where it was raised last, and the exception's text
    more: int = 0  # exceptions since the last line
    total: int = 0
    failing: int = 0  # items that wait for a retry
    worked: bool = False  # an item's retry succeeded since the last line
    logged: bool = True  # no line is due


class Failures:
    """Exceptions of one handler, callback or hook, which the log calls `what`.  Thread-safe; no call blocks."""

    def __init__(
        self, log: logging.Logger, what: str, every_s: float = EVERY_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._what = what
        self._every_s = every_s
        self._clock = clock
        self._kinds: dict[Hashable, _Kind] = {}
        self._items: dict[Hashable, _Kind] = {}
        self._lock = threading.Lock()

    def raised(self, exc: BaseException, where: str, item: Hashable = None, then: str = "") -> None:
        """Count an exception.  item: what will be retried, or None.  then: the consequence, for the first line."""
        with self._lock:
            kind = self._kinds.get(kind_of(exc))
            first = kind is None
            if kind is None:
                kind = self._kinds[kind_of(exc)] = _Kind(self._clock(), type(exc).__name__)
            kind.more += not first
            kind.total += 1
            kind.last = f"{where}: {exc}"
            kind.logged = False
            if item is not None:
                self._done_with(item)
                kind.failing += 1
                kind.worked = False
                self._items[item] = kind
        if first:
            self._log.error(
                "%s: %s raised %s: %s%s (the next of this kind are counted)",
                where, self._what, type(exc).__name__, exc, then, exc_info=exc,
            )  # fmt: skip
        self.tell()

    def worked(self, item: Hashable) -> None:
        """Record that the code succeeded for this item."""
        if self._items:  # usually empty, and then no lock is needed
            with self._lock:
                kind = self._items.get(item)
                if kind is not None:
                    kind.worked = True
                    self._done_with(item)

    def dropped(self, item: Hashable) -> None:
        """Forget an item that will not be retried here."""
        with self._lock:
            self._done_with(item)

    def tell(self, final: bool = False) -> None:
        """Log the lines that are due.  final: log all counts now, whatever their interval."""
        at = self._clock()
        with self._lock:
            due = [k for k in self._kinds.values() if not k.logged and (final or at - k.logged_at >= self._every_s)]
            lines = [line for kind in due if (line := self._line(kind, at)) is not None]
        for level, text in lines:
            self._log.log(level, "%s", text, extra={"always": True})

    def _done_with(self, item: Hashable) -> None:
        kind = self._items.pop(item, None)
        if kind is not None:
            kind.failing -= 1

    def _line(self, kind: _Kind, at: float) -> tuple[int, str] | None:
        more, kind.more = kind.more, 0
        if more:
            kind.logged_at = at
            waiting = f"; {kind.failing} wait for their next try" if kind.failing else ""
            times = "once more" if more == 1 else f"{more:,} times more"
            return logging.ERROR, f"{self._what} raised {kind.name} {times}, at last {kind.last}{waiting}"
        if kind.failing:
            return None
        kind.logged = True
        if not kind.worked:
            return None
        kind.logged_at = at
        times = "once" if kind.total == 1 else f"{kind.total:,} times"
        return logging.INFO, f"{self._what} works again where it raised {kind.name} ({times} in all)"


def kind_of(exc: BaseException) -> Hashable:
    """Return the exception's type, and the line of code that raised it."""
    at = exc.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return type(exc), (at.tb_frame.f_code, at.tb_lineno) if at is not None else None
