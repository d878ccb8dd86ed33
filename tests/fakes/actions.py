"""What a scripted request meets at the fake brokers instead of the usual."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

WAIT_S = 10.0  # no test may hang on a fake


@dataclass(frozen=True)
class Fail:
    """Answer this code for every partition (or the one told); store=True: the entries are kept all the same.

    Then the answer names their offset, as that of a leader which was deposed in the wait (6), or waited too long (7,
    20); beside -1 and 56 no broker names any.
    """

    code: int
    tp: tuple[str, int] | None = None
    store: bool = False


@dataclass(frozen=True)
class Close:
    """Reset the connection instead of answering; store=True: after the request was carried out."""

    store: bool = False


@dataclass(frozen=True)
class Wait:
    """Carry out and answer only once the event is set (or, without one, after so many seconds)."""

    event: threading.Event | None = None
    seconds: float = WAIT_S


@dataclass(frozen=True)
class LeaveOut:
    """Carry out, and answer without this partition (not of Produce)."""

    tp: tuple[str, int]


@dataclass(frozen=True)
class Throttle:
    """Answer a fetch without any topic, as brokers of 2.0 and later do to a client that is over its quota
    (FetchContext.getThrottledResponse of 2.8.2)."""


@dataclass(frozen=True)
class Nothing:
    """Answer that nothing is committed for any partition (offset fetches only)."""


@dataclass(frozen=True)
class Raw:
    """Answer exactly these bytes, whatever they are."""

    data: bytes


def refused(action: Any, tp: tuple[str, int]) -> bool:
    """Whether the action is a failure of this partition."""
    return isinstance(action, Fail) and action.tp in (None, tp)
