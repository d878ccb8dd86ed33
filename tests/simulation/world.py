"""A group in virtual time: members that are the real ones, and everything around them by a schedule.

    run(schedule(7))        None, or the Broken promise with the story that led to it

tests/scenarios/rebalance/world.py is the same group on paper, without time: there the machine alone is moved, step by
step; here its executor, claims, watches, session, lease and commits run, too.
"""

from __future__ import annotations

import gc
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from gevent._hub_local import get_hub_if_exists

from groundwork import clocks
from groundwork.tasks import TaskGroup, sleep
from kafkawire.model import TopicPartition
from kafkawire.znodes.group import STATIC, WHITE_LIST, Registration
from tests.simulation.invariants import Promises
from tests.simulation.member import Assignment
from tests.simulation.partition import Log, Reader
from tests.simulation.process import Process, Timeline
from tests.simulation.schedule import NAMES, SERVERS, GroupEvent, Schedule, shrink
from tests.simulation.zookeeper import SESSION_S, Link, Server, SimClient, SimZookeeper
from zkconsumer.events import ConsumerEvent
from zkconsumer.group import audit
from zkconsumer.session import zksession
from zkconsumer.session.lease import Lease

QUIET_S = 60.0  # a session, four tries, and the longest backoff
CHECK_S = 0.5
GARBAGE = 100_000  # objects
BEFORE_S = 1000.0  # the timeline begins there
BROKEN_OFF = {"break claims": "/owners/", "break commits": "/offsets/", "break ids": "/ids/"}


@dataclass(frozen=True)
class Broken:
    """A promise that was broken.  told: what everybody said until then, with the seconds."""

    why: str
    schedule: Schedule
    told: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.why, "", str(self.schedule), "", *self.told])


class Member:
    """One life of a member.  allowed_until: see invariants."""

    def __init__(self, world: World, name: str, registration: Registration) -> None:
        self.name = name
        self.registration = registration
        self.allowed_until = float("-inf")
        self.closing = False
        self.sync_s = 0.0  # what the disk takes before a commit, in a thread of its own
        self.tasks = TaskGroup(on_death=lambda task, e: world.promises.violated(f"{name}: {task} died: {e!r}"))
        self.process = Process(name, world.timeline, lambda e: world.promises.violated(f"{name}: {e!r}"))
        self.link = Link(world.timeline, world.rng)
        self.reader = Reader(
            process=self.process, rng=world.rng, logs=world.logs, observer=world.promises, lease=Lease()
        )
        self.client: SimClient | None = None
        self.assignment: Assignment | None = None
        self.process.after(0.0, self._begin, world)

    def _begin(self, world: World) -> None:
        self.assignment = Assignment(
            consumer_id=self.name,
            registration=self.registration,
            tasks=self.tasks,
            reader=self.reader,
            on_event=lambda event: world.tell(self.name, event),
            before_commit=self._sync,
        )
        self.client = self.assignment.begin(self.process, world.server, self.link)

    def _sync(self, positions: object) -> None:
        if self.sync_s:
            sleep(self.sync_s)

    @property
    def session_id(self) -> int | None:
        return self.assignment.session.session_id if self.assignment is not None else None

    def subscribes(self, topic: str) -> bool:
        if self.registration.pattern == STATIC:
            return topic in self.registration.subscription
        return any(re.fullmatch(pattern, topic) for pattern in self.registration.subscription)


class World:
    def __init__(self, given: Schedule, told: list[str] | None = None) -> None:
        """told: where everybody's sentences go; None: nowhere, which is faster."""
        self.timeline = Timeline()
        self.rng = Random(f"world {given.seed}")
        self.logs: dict[TopicPartition, Log] = {}
        self.promises = Promises(self.timeline, self.logs)
        self.server = self.promises.server = SimZookeeper(
            self.timeline,
            self.rng,
            self.promises.touched,
            given.servers,
            tick_s=given.tick_s,
            sync_limit=given.sync_limit,
        )
        self.members: dict[str, Member] = {}  # alive: frozen and closing ones, too
        self.kinds: Counter[str] = Counter()  # of the events that members reported
        self._schedule = given
        self._told = told
        for path in ("/brokers/ids/1", "/consumers", "/brokers/topics"):
            self.server.set(path, b"")
        self._partitions: dict[str, int] = {}
        for topic, count in given.topics.items():
            self._grow(topic, count)

    def tell(self, who: str, event: ConsumerEvent) -> None:
        self.kinds[event.kind] += 1
        if self._told is not None:
            self._told.append(f"{self.timeline.now - BEFORE_S:7.3f} s  {who}: {event.text}")

    def run(self) -> str | None:
        """The broken promise, if one is."""
        _Clock.timeline = self.timeline
        for event in self._schedule.events:
            self.timeline.at(BEFORE_S + event.at, self._happen, event)
        self.timeline.run_until(BEFORE_S + self._schedule.chaos_s)
        self._mend()
        until, missing = self.timeline.now + QUIET_S, "nothing"
        while self.promises.broken is None and self.timeline.now < until:
            self.timeline.run_until(self.timeline.now + CHECK_S)
            missing = self._missing()
            if missing is None:
                break
        if self.promises.broken is None and missing is not None:
            self.promises.violated(f"{QUIET_S:g} s after everything was mended {missing}")
        self._end()
        return self.promises.broken

    def _missing(self) -> str | None:
        unasked = [m for m in self.members.values() if m.assignment is not None and m.assignment.member.closing]
        if any(not m.closing for m in unasked):
            return f"{unasked[0].name} leaves, and nobody asked"
        return "somebody is leaving" if unasked else self.promises.missing()

    def _end(self) -> None:
        for member in self.members.values():
            member.process.kill()

    # what happens -------------------------------------------------------------------------------------------------

    def _happen(self, event: GroupEvent) -> None:
        if self._told is not None:
            self._told.append(str(event))
        member = self.members.get(event.who)
        if event.what == "join":
            if member is None:
                self._join(event.who)
        elif event.who in self._partitions or event.what == "topic":
            self._happen_to_topic(event)
        elif event.who in SERVERS:
            self._happen_to_server(event)
        elif member is not None and member.client is not None:
            self._happen_to_member(event, member, member.client)

    def _happen_to_topic(self, event: GroupEvent) -> None:
        tps = [tp for tp in self.logs if tp.topic == event.who]
        match event.what:
            case "produce":
                self._produce(tps, int(event.a))
            case "grow":
                self._grow(event.who, int(event.a))
            case "topic" if not tps:
                self._grow(event.who, int(event.a))
                self._produce([tp for tp in self.logs if tp.topic == event.who], 3)
            case "broker":
                for tp in tps[::2]:
                    self.logs[tp].up = False
                    self.timeline.after(event.a, self._broker_back, self.logs[tp])

    def _happen_to_server(self, event: GroupEvent) -> None:
        term, quorum = self.server.quorum.leading(), self.server.quorum
        if event.who == SERVERS[-1]:
            if term is None:
                return
            server = term.server
        else:
            server = self.server.servers[SERVERS.index(event.who)]
        match event.what:
            case "server cut":
                quorum.isolate(server)
                self.timeline.after(event.a, quorum.heal, server)
            case "server kill":
                quorum.kill(server)
                self.timeline.after(event.a, quorum.start, server)
            case "server freeze":
                server.frozen = server.up
                self.timeline.after(event.a, quorum.thaw, server)
            case "server slow":
                quorum.slow_s[server.number] = event.b
                self.timeline.after(event.a, quorum.slow_s.pop, server.number, None)

    def _happen_to_member(self, event: GroupEvent, member: Member, client: SimClient) -> None:
        link, process = member.link, member.process
        match event.what:
            case "close" if not member.closing:
                member.closing = True
                process.after(0.0, self._close, member)
            case "kill":
                self._gone(member)
            case "freeze":
                process.freeze()
                self.timeline.after(event.a, process.thaw)
            case "freeze, sockets first":
                process.freeze()
                self.timeline.after(event.a, process.thaw, True)
            case "suspend" if not process.frozen:
                process.suspend(event.a)
                self.timeline.after(event.a, process.thaw, True)
            case "clock":
                process.ahead_s += event.a
            case "expire":
                session = self.server.sessions.get(member.session_id or 0)
                if session is not None:
                    until = member.reader.lease.valid_until
                    if len(self.server.servers) > 1:  # what is under way may prolong it
                        until = self.timeline.now + SESSION_S
                    member.allowed_until = max(member.allowed_until, until)
                    self.server.expire(session)
            case "cut":
                link.cut = True
                self.timeline.after(event.a, link.heal)
            case "reset":
                process.after(0.0, client.reset, int(event.a))
            case "names":
                link.silent = True
                self.timeline.after(event.a, setattr, link, "silent", False)
            case "disk":
                member.sync_s = event.b
                self.timeline.after(event.a, setattr, member, "sync_s", 0.0)
            case "slow":
                link.slow_up_s = event.b
                self.timeline.after(event.a, setattr, link, "slow_up_s", 0.0)
            case "late":
                link.slow_down_s = event.b
                self.timeline.after(event.a, setattr, link, "slow_down_s", 0.0)
            case "break claims" | "break commits" | "break ids":
                client.break_at = (BROKEN_OFF[event.what], int(event.a), bool(event.b))

    def _join(self, name: str) -> None:
        streams, by_filter = self._schedule.streams[name]
        wanted = {"t.*": streams} if by_filter else dict.fromkeys(self._schedule.topics, streams)
        member = Member(self, name, Registration(WHITE_LIST if by_filter else STATIC, wanted))
        self.members[name] = self.promises.members[name] = member

    def _close(self, member: Member) -> None:
        assert member.assignment is not None
        member.tasks.spawn("stop", self._closed, member, member.assignment)

    def _closed(self, member: Member, assignment: Assignment) -> None:
        assignment.end()
        self.timeline.after(0.0, self._gone, member)

    def _gone(self, member: Member) -> None:
        """Its process ends."""
        member.process.kill()
        if self.members.get(member.name) is member:
            del self.members[member.name], self.promises.members[member.name]

    def _grow(self, topic: str, more: int) -> None:
        count = self._partitions[topic] = self._partitions.get(topic, 0) + more
        for partition in range(count - more, count):
            self.logs[TopicPartition(topic, partition)] = Log()
        replicas = {str(partition): [1] for partition in range(count)}
        self.server.put(f"/brokers/topics/{topic}", json.dumps({"version": 1, "partitions": replicas}).encode())

    def _produce(self, tps: list[TopicPartition], messages: int) -> None:
        for tp in tps:
            self.logs[tp].end += messages
            self.logs[tp].news()

    def _broker_back(self, log: Log) -> None:
        log.up = True
        log.news()

    def _mend(self) -> None:
        if self._told is not None:
            self._told.append(f"{self._schedule.chaos_s:7.3f} s  everything is mended")
        for log in self.logs.values():
            self._broker_back(log)
        for server in self.server.servers:
            self._mend_server(server)
        for member in [*self.members.values()]:
            member.link.slow_up_s = member.link.slow_down_s = 0.0
            member.link.silent, member.sync_s = False, 0.0
            member.link.heal()
            if member.client is not None:
                member.client.break_at = None
            if member.process.frozen:
                member.process.thaw()
        if all(member.closing for member in self.members.values()):
            self._join(next(name for name in NAMES if name not in self.members))

    def _mend_server(self, server: Server) -> None:
        quorum = self.server.quorum
        quorum.slow_s.clear()
        quorum.mend(server)
        quorum.thaw(server)
        quorum.start(server)


# Time ----------------------------------------------------------------------------------------------------------------


class _Clock:
    """off_s: by how much it is ahead in the process that asks."""

    timeline = Timeline()

    def __init__(self, off_s: Callable[[Process], float] = lambda process: 0.0) -> None:
        self._off_s = off_s

    def __call__(self) -> float:
        process: Process | None = getattr(get_hub_if_exists(), "process", None)
        return self.timeline.now + (self._off_s(process) if process is not None else 0.0)


CLOCK, BOOT = _Clock(lambda process: -process.asleep_s), _Clock()  # monotonic: stands still in a suspend
WALL = _Clock(lambda process: process.ahead_s)


@contextmanager
def virtual_time() -> Iterator[None]:
    """All modules of the consumer read the simulated clock; the audit on its timer, which would hide a missed watch
    after half a minute, does not run, and sessions beat half as often (a beat a second is a third of all that happens).
    Garbage is collected between schedules (run)."""
    names = [name for name in sys.modules if name.partition(".")[0] in ("zkconsumer", "groundwork")]
    timed = [sys.modules[name] for name in names if vars(sys.modules[name]).get("now") is time.monotonic]
    audit_s, beats = audit.AUDIT_S, zksession.BEATS_PER_TIMEOUT
    for module in timed:
        module.now = CLOCK  # type: ignore[attr-defined]
    real = clocks.monotonic, clocks.boot, clocks.wall
    clocks.monotonic, clocks.boot, clocks.wall = CLOCK, BOOT, WALL
    audit.AUDIT_S, zksession.BEATS_PER_TIMEOUT = 1e6, 6
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        audit.AUDIT_S, zksession.BEATS_PER_TIMEOUT = audit_s, beats
        if collected:
            gc.enable()
        for module in timed:
            module.now = time.monotonic  # type: ignore[attr-defined]
        clocks.monotonic, clocks.boot, clocks.wall = real


def run(given: Schedule, seen: Counter[str] | None = None) -> Broken | None:
    """In virtual_time.  seen: counts what happened, over many schedules."""
    if gc.get_count()[0] > GARBAGE:
        gc.collect()
    world = World(given)
    why = world.run()
    if seen is not None:
        seen.update(world.kinds)
        seen["messages sent"] += world.promises.sent_messages
    return None if why is None else Broken(why, given, ())


def told(given: Schedule) -> Broken | None:
    """The same with the whole story."""
    lines: list[str] = []
    why = World(given, lines).run()
    return None if why is None else Broken(why, given, tuple(lines))


def shortest(given: Schedule) -> Broken:
    """The story of as few events as still break a promise."""
    found = told(shrink(given, lambda tried: run(tried) is not None))
    assert found is not None
    return found
