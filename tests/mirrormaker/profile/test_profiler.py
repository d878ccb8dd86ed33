"""The profiler beside fakes: times of requests, ticks in the stage that runs, and nothing left behind."""

from __future__ import annotations

import signal
import time
from types import SimpleNamespace
from typing import Any

import pytest

from groundwork.sampling import TimerTaken
from kafkawire.model import Broker
from kafkawire.net.link import Link
from mirrormaker.daemon import Daemon
from mirrormaker.profile.profiler import Profiler, Requests
from tests.terminals import leave, terminal

SOURCE, TARGET = Broker(1, "source", 9092), Broker(2, "target", 9092)


class FakeLink:
    def __init__(self, broker: Broker) -> None:
        self.broker, self.outstanding, self.broken = broker, 0, None


def request(name: str, answered: bool = True) -> Any:
    return SimpleNamespace(api=SimpleNamespace(name=name), size=100, expects_reply=answered)


def test_states_and_times_of_requests() -> None:
    requests, source, target = Requests(), FakeLink(SOURCE), FakeLink(TARGET)
    requests.sending(source, request("Fetch"))  # type: ignore[arg-type]
    requests.sending(target, request("Produce"))  # type: ignore[arg-type]
    assert requests.states() == {("Fetch", "waiting"), ("Produce", "moving")}
    requests.sent(target)  # type: ignore[arg-type]
    requests.received(source, 4, 0)  # type: ignore[arg-type]
    assert requests.states() == {("Fetch", "moving"), ("Produce", "waiting")}
    requests.received(source, 1000, 1)  # type: ignore[arg-type]
    requests.received(target, 30, 1)  # type: ignore[arg-type]
    assert requests.states() == set()
    assert (requests.bytes["Fetch"], requests.bytes["Produce"]) == (1004, 100)
    assert all(0 <= (requests.soonest_s(name) or 0) < 1 for name in ("Fetch", "Produce"))


def test_the_soonest_response_is_of_any_request_to_the_brokers_of_that_side() -> None:
    requests, target, other = Requests(), FakeLink(TARGET), FakeLink(TARGET)
    requests.sending(target, request("Produce"))  # type: ignore[arg-type]
    time.sleep(0.02)
    requests.received(target, 30, 1)  # type: ignore[arg-type]
    assert (requests.soonest_s("Produce") or 0) >= 0.02
    requests.sending(other, request("Metadata"))  # type: ignore[arg-type]
    requests.received(other, 30, 1)  # type: ignore[arg-type]
    assert (requests.soonest_s("Produce") or 1) < 0.02
    assert requests.soonest_s("Fetch") is None


def test_what_was_in_flight_before_the_profile_is_not_timed() -> None:
    requests, target = Requests(), FakeLink(TARGET)
    target.outstanding = 2
    requests.sending(target, request("Produce"))  # type: ignore[arg-type]
    requests.received(target, 60, 2)  # type: ignore[arg-type]
    assert (requests.answered["Produce"], requests.soonest_s("Produce")) == (0, None)
    requests.received(target, 30, 1)  # type: ignore[arg-type]
    assert requests.answered["Produce"] == 1


def test_a_request_without_a_response_is_never_in_flight() -> None:
    requests, target = Requests(), FakeLink(TARGET)
    requests.sending(target, request("Produce", answered=False))  # type: ignore[arg-type]
    assert requests.states() == set()


class Busy:
    """A source that computes whenever it is asked for its partitions, as a stage would."""

    def __init__(self, row: Any) -> None:
        self._row = row

    def partitions(self) -> list[Any]:
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            pass
        return [self._row]


def test_ticks_say_where_the_time_went_and_nothing_stays() -> None:
    row = SimpleNamespace(position=70, high_watermark=100, done=50)
    before = signal.getsignal(signal.SIGALRM)
    found = Profiler([SimpleNamespace(source=Busy(row), handled={})]).run(1.5)  # type: ignore[list-item]
    assert found.ran["other"] > 0.3  # this profiler itself, which is none of the stages
    assert found.cpu["other"] > 0.2
    assert (found.unread, found.unacknowledged, found.messages) == (30, 20, 0)
    assert found.busy < 0.95
    assert Link.observer is None
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_timer_that_is_in_use_is_left_alone() -> None:
    quiet = SimpleNamespace(source=SimpleNamespace(partitions=list), handled={})
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        with pytest.raises(TimerTaken, match="SIGALRM"):
            Profiler([quiet]).run(1)  # type: ignore[list-item]
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 50
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_profile_that_cannot_be_printed_is_a_line_of_the_log_and_no_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mirrormaker.daemon.Profiler", lambda flows: SimpleNamespace(run=lambda seconds: None))
    monkeypatch.setattr("mirrormaker.daemon.lines", lambda found: ["stage  runs s"])
    with terminal() as (stream, window):
        leave(window)
        monkeypatch.setattr("sys.stdout", stream)
        Daemon._profiled(SimpleNamespace(_flows=[]), 1.0)  # type: ignore[arg-type]
        monkeypatch.undo()
    assert caplog.messages == ["the profile cannot be printed: Input/output error"]
