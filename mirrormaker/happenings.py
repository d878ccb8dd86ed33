"""Happenings: the last events of a mirror, as its log said them, for the views of a running mirror.

Each warning and error is one, and each event with a name: `extra={"event": "parked"}`, as the log has it.  A
repetition is counted by the log's own limit, so that one noisy partition does not push out all others.
"""

from __future__ import annotations

import logging
from collections import deque

from groundwork.logs import RateLimit
from mirrormaker.report import Happening

MAX_HAPPENINGS = 200
MAX_TEXT = 1000
QUIET = frozenset({"start", "leader"})  # one for each partition of an assignment


class Happenings(logging.Handler):
    """A handler of the log that keeps the newest events."""

    def __init__(self, most: int = MAX_HAPPENINGS) -> None:
        super().__init__(logging.INFO)
        self._kept: deque[Happening] = deque(maxlen=most)
        self.addFilter(RateLimit(self.handle))

    def filter(self, record: logging.LogRecord) -> bool:
        """Only events; the limit counts no others."""
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
        """What is kept, oldest first."""
        return tuple(self._kept)

    def attach(self) -> None:
        """Listen to the program's log."""
        logging.getLogger().addHandler(self)

    def detach(self) -> None:
        logging.getLogger().removeHandler(self)


def name_of(record: logging.LogRecord) -> str:
    """The name of a record's event; "": it is none."""
    named = getattr(record, "event", "")
    if record.levelno >= logging.WARNING:
        return named or record.levelname.lower()
    return "" if named in QUIET else named
