"""Happenings: the most recent events of a mirror's log, for the views of a running mirror.

Events are all warnings and errors, and all lines with an event name: `extra={"event": "parked"}`.  The log's own rate
limit counts repetitions, so that one noisy partition does not push out all others.
"""

from __future__ import annotations

import logging
from collections import deque

from groundwork.logs import RateLimit
from mirrormaker.report import Happening

MAX_HAPPENINGS = 200
MAX_TEXT = 1000
QUIET = frozenset({"start", "leader"})  # logged once for each partition of an assignment


class Happenings(logging.Handler):
    """Log handler that keeps the newest events."""

    def __init__(self, most: int = MAX_HAPPENINGS) -> None:
        super().__init__(logging.INFO)
        self._kept: deque[Happening] = deque(maxlen=most)
        self.addFilter(RateLimit(self.handle))

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass only events on, so that the rate limit counts nothing else."""
        return bool(name_of(record) and super().filter(record))

    def emit(self, record: logging.LogRecord) -> None:
        text = " ".join(record.getMessage().split())
        self._kept.append(
            Happening(
                at_ms=int(record.created * 1000),
                level=record.levelname.lower(),
                name=name_of(record),
                text=text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…",
            )
        )

    def newest(self) -> tuple[Happening, ...]:
        """Return the kept events, oldest first."""
        return tuple(self._kept)

    def attach(self) -> None:
        """Attach to the program's log."""
        logging.getLogger().addHandler(self)

    def detach(self) -> None:
        logging.getLogger().removeHandler(self)


def name_of(record: logging.LogRecord) -> str:
    """Return the name of a record's event, or "" if it is not an event."""
    named = getattr(record, "event", "")
    if record.levelno >= logging.WARNING:
        return named or record.levelname.lower()
    return "" if named in QUIET else named
