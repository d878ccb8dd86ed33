from __future__ import annotations

import time

import pytest

from groundwork.crew import Crew, sleep
from groundwork.lag import HubLag


def test_blocked_hub_is_measured_and_named(caplog: pytest.LogCaptureFixture) -> None:
    lag = HubLag("hub of orders", limit_ms=50, tick_ms=5)
    crew = Crew()
    crew.spawn("lag", lag.run)
    sleep(0.02)
    time.sleep(0.15)  # blocks the hub: that is the subject here
    sleep(0.02)
    crew.stop(5)
    assert lag.worst_ms >= 100
    assert "hub of orders could not run for 1" in caplog.text
    assert lag.take() >= 100
    assert lag.worst_ms == 0


def test_own_listener_gets_the_lateness() -> None:
    late: list[float] = []
    lag = HubLag("h", limit_ms=20, tick_ms=5, on_late=late.append)
    crew = Crew()
    crew.spawn("lag", lag.run)
    sleep(0.02)
    time.sleep(0.1)
    sleep(0.02)
    crew.stop(5)
    assert max(late) >= 50
