"""Profiler of the running mirror; it costs nothing before it begins and after it ends.

A timer interrupts the event loop 200 times a second and records which stage runs (mirrormaker.profile.bottleneck); an
observer of the connections measures requests.  Both are removed at the end, so that a mirror without a profile does no
work for one.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from groundwork.sampling import GreenletStacks, Ticks, modules_of
from groundwork.tasks import now, sleep
from kafkawire.model import Broker
from kafkawire.net.link import Link
from kafkawire.protocol.request import Request
from mirrormaker.flow import Flow
from mirrormaker.profile.bottleneck import STAGES, Profile, Side, stage_of, waits_of

EVERY_S = 0.005
STACKS_S = 0.1  # interval between checks of where greenlets wait
POSITIONS_S = 0.5
FETCH, PRODUCE = "Fetch", "Produce"


@dataclass(slots=True)
class Sent:
    """A request in flight."""

    name: str
    at: float
    whole: bool = False  # all its bytes are in the socket
    first: float | None = None  # when the first byte of its response arrived


class Requests:
    """Observer of links: the requests in flight, and response times."""

    def __init__(self) -> None:
        self._in_flight: dict[Link, deque[Sent]] = {}
        self._soonest: dict[Broker, float] = {}  # shortest time of any response
        self._brokers: dict[str, set[Broker]] = {FETCH: set(), PRODUCE: set()}
        self.answered: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def sending(self, link: Link, request: Request[Any]) -> None:
        waiting = self._in_flight.setdefault(link, deque())
        if not link.outstanding:
            waiting.clear()
        name = request.api.name
        if name in self._brokers:
            self._brokers[name].add(link.broker)
        if name == PRODUCE:
            self.bytes[name] += request.size
        if request.expects_reply:
            while len(waiting) < link.outstanding:  # sent before the profile began
                waiting.append(Sent("", now()))
            waiting.append(Sent(name, now()))

    def sent(self, link: Link) -> None:
        for each in self._in_flight.get(link, ()):
            each.whole = True

    def received(self, link: Link, count: int, replies: int) -> None:
        waiting = self._in_flight.get(link)
        if not waiting:
            return
        at = now()
        head = waiting[0]
        head.first = head.first or at
        if head.name == FETCH:
            self.bytes[FETCH] += count
        for _ in range(min(replies, len(waiting))):
            done = waiting.popleft()
            if done.name:
                took = (done.first or at) - done.at
                self._soonest[link.broker] = min(took, self._soonest.get(link.broker, took))
                self.answered[done.name] += 1

    def soonest_s(self, name: str) -> float | None:
        """Return the shortest response time of the brokers that received these requests."""
        if not self.answered[name]:
            return None
        return min((self._soonest[broker] for broker in self._brokers[name] if broker in self._soonest), default=None)

    def states(self) -> set[tuple[str, str]]:
        """Return the states of requests: (their name, waiting or moving)."""
        found: set[tuple[str, str]] = set()
        for link, waiting in self._in_flight.items():
            if link.broken is None:
                found.update((each.name, _state(each)) for each in waiting if each.name in (FETCH, PRODUCE))
        return found


def _state(sent: Sent) -> str:
    moving = sent.first is not None if sent.name == FETCH else not sent.whole
    return "moving" if moving else "waiting"


class Profiler:
    """Collector of ticks.  flows: the mirror's flows; more may be added."""

    def __init__(self, flows: Sequence[Flow]) -> None:
        self._flows = flows
        self._ran: defaultdict[str, float] = defaultdict(float)
        self._cpu: defaultdict[str, float] = defaultdict(float)
        self._waited: defaultdict[str, float] = defaultdict(float)
        self._states: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._requests = Requests()
        self._stacks = GreenletStacks()
        self._positions: list[tuple[int, int]] = []
        self._seconds = self._cpu_s = 0.0
        self._messages = 0
        self._handled: Counter[str] = Counter()

    def run(self, seconds: float) -> Profile:
        """Take a profile of that length.  Raises groundwork.sampling.TimerTaken."""
        for _ in self.watched(seconds, seconds):
            pass
        return self.profile()

    def watched(self, seconds: float, every_s: float) -> Iterator[None]:
        """Take a profile, and yield every every_s seconds so that the caller can report progress."""
        done_before, handled_before, cpu_before = self._done(), self._sent_by_handlers(), time.thread_time()
        began = heard_at = now()
        try:
            with Ticks(EVERY_S, self._tick):
                Link.observer = self._requests
                try:
                    for _ in self._look_around(began + seconds):
                        if now() - heard_at >= every_s:
                            heard_at = now()
                            yield
                finally:
                    Link.observer = None
                    self._seconds = now() - began
                    self._cpu_s = time.thread_time() - cpu_before
        finally:  # after the profile's time, so no tick may count this
            self._messages = self._done() - done_before
            self._handled = self._sent_by_handlers() - handled_before

    def _tick(self, frame: FrameType | None, cpu_s: float, wall_s: float) -> None:
        stage = stage_of(modules_of(frame))
        self._ran[stage] += wall_s
        self._cpu[stage] += cpu_s
        for state in self._requests.states():
            self._states[state] += wall_s

    def _look_around(self, until: float) -> Iterator[None]:
        """Record regularly where greenlets wait, and how far partitions are."""
        looked_at = positions_at = now()
        while (left := until - now()) > 0:
            sleep(min(STACKS_S, left))
            found = {waits_of(modules_of(frame)) for frame in self._stacks.frames()}
            for stage in found - {""}:
                self._waited[stage] += now() - looked_at
            looked_at = now()
            if looked_at - positions_at >= POSITIONS_S:
                self._positions.append(self._behind())
                positions_at = looked_at
            yield

    def _behind(self) -> tuple[int, int]:
        """Return how many messages are not fetched yet, and how many are fetched and not acknowledged."""
        unread = unacknowledged = 0
        for flow in list(self._flows):
            for row in flow.source.partitions():
                if row.position is not None and row.high_watermark is not None:
                    unread += max(0, row.high_watermark - row.position)
                if row.position is not None and row.done is not None:
                    unacknowledged += max(0, row.position - row.done)
        return unread, unacknowledged

    def _done(self) -> int:
        return sum(row.done or 0 for flow in list(self._flows) for row in flow.source.partitions())

    def _sent_by_handlers(self) -> Counter[str]:
        """Return the messages of message.set.handler so far: copied, or encoded again."""
        found: Counter[str] = Counter()
        for flow in list(self._flows):
            for (_, how), count in flow.handled.items():
                found[how] += count
        return found

    def profile(self) -> Profile:
        """Return the profile."""
        seconds = self._seconds
        positions = self._positions or [self._behind()]
        unread, unacknowledged = (sum(each) / len(positions) for each in zip(*positions, strict=True))
        return Profile(
            seconds=seconds,
            cpu_s=self._cpu_s,
            ran={stage: self._ran[stage] for stage in STAGES},
            cpu={stage: self._cpu[stage] for stage in STAGES},
            waited={stage: self._waited[stage] for stage in ("handler", "commit", "ZooKeeper")},
            source=self._side(FETCH, seconds),
            target=self._side(PRODUCE, seconds),
            messages=max(0, self._messages),
            unread=unread,
            unacknowledged=unacknowledged,
            handled=self._handled,
        )

    def _side(self, name: str, seconds: float) -> Side:
        return Side(
            waiting=min(1.0, self._states[name, "waiting"] / seconds),
            moving=min(1.0, self._states[name, "moving"] / seconds),
            soonest_s=self._requests.soonest_s(name),
            requests=self._requests.answered[name],
            bytes=self._requests.bytes[name],
        )
