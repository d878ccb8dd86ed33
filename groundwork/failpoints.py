"""Fail points: named places in the program where a test can make it fail.

    failpoint("after send before ack")                    # in the program; costs nothing when none is set

    GROUNDWORK_FAILPOINTS="after send before ack=kill@3;before commit=sleep:0.5"

    kill    SIGKILL to this process             raise       FailpointReached
    stop    SIGSTOP to this process             sleep:S     S seconds in which the whole thread does nothing

@n: only at the n-th pass; without it at every pass.  The variable is read once, at import.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass

from groundwork.logs import drain_log

VARIABLE = "GROUNDWORK_FAILPOINTS"
ACTS = ("kill", "stop", "raise", "sleep:SECONDS")


class FailpointReached(Exception):
    """Raised by the act `raise`; its text is the name of the fail point."""


class FailpointSyntax(ValueError):
    """The variable is not of the form NAME=ACT[@n];.."""


@dataclass(slots=True)
class _Point:
    name: str
    act: str
    seconds: float
    only_pass: int | None
    passes: int = 0

    def reached(self) -> None:
        self.passes += 1
        if self.only_pass is not None and self.passes != self.only_pass:
            return
        sys.stderr.write(f"fail point {self.name!r}, pass {self.passes}: {self.act}\n")
        sys.stderr.flush()
        drain_log()  # else what a daemon logged before this point ends with the process
        if self.act == "raise":
            raise FailpointReached(self.name)
        if self.act == "sleep":
            time.sleep(self.seconds)
        else:
            os.kill(os.getpid(), signal.SIGKILL if self.act == "kill" else signal.SIGSTOP)


def _parse(text: str) -> dict[str, _Point] | None:
    points = [_point(part.strip()) for part in text.split(";") if part.strip()]
    return {point.name: point for point in points} or None


def _point(text: str) -> _Point:
    name, _, what = text.rpartition("=")
    what, at, count = what.strip().partition("@")
    act, colon, seconds = what.partition(":")
    try:
        if not name or act not in ("kill", "stop", "raise", "sleep") or bool(colon) != (act == "sleep"):
            raise ValueError(text)
        point = _Point(name.strip(), act, float(seconds or 0), int(count) if at else None)
    except ValueError:
        raise FailpointSyntax(f"{VARIABLE}: {text!r} is not NAME=ACT[@n] with ACT one of {', '.join(ACTS)}") from None
    if point.seconds < 0 or (point.only_pass is not None and point.only_pass < 1):
        raise FailpointSyntax(f"{VARIABLE}: {text!r}: seconds are not negative, and passes are counted from 1")
    return point


_armed = _parse(os.environ.get(VARIABLE, ""))


def failpoint(name: str) -> None:
    """Perform the act that is set for this name, if any."""
    if _armed is None:
        return
    point = _armed.get(name)
    if point is not None:
        point.reached()


def arm(text: str) -> None:
    """Replace the fail points that are set; text is as in the variable, "" clears all."""
    global _armed
    _armed = _parse(text)
