"""The clocks of a machine that can be suspended, or paused as a virtual machine, in place of groundwork.clocks.

clocks = FakeClocks(monkeypatch)            real time; FakeClocks(monkeypatch, 100.0): 100 s, and it does not run
clocks.suspend(20.0)                        the monotonic clock stands still for so long, the others go on
clocks.set_ahead(20.0)                      the time of day is set: all that a VM sees of its pause
clocks.now = 105.0; clocks.pass_s(2.0)      of clocks that do not run
"""

from __future__ import annotations

import time

import pytest

from groundwork import clocks


class FakeClocks:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, now: float | None = None) -> None:
        self.now = now
        self._asleep_s = self._set_s = 0.0
        monkeypatch.setattr(clocks, "monotonic", self._monotonic)
        monkeypatch.setattr(clocks, "boot", lambda: self._monotonic() + self._asleep_s)
        monkeypatch.setattr(clocks, "wall", lambda: self._monotonic() + self._asleep_s + self._set_s)

    def _monotonic(self) -> float:
        return time.monotonic() if self.now is None else self.now

    def pass_s(self, seconds: float) -> None:
        assert self.now is not None
        self.now += seconds

    def suspend(self, seconds: float) -> None:
        self._asleep_s += seconds

    def set_ahead(self, seconds: float) -> None:
        self._set_s += seconds
