"""Schedules: what happens to a group and when, made from a seed, told as a story, and shrunk while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar, TypeVar

NAMES = ("a", "b", "c", "d")
CHAOS_S = 16.0  # then everything is mended
ENSEMBLE_CHAOS_S = 32.0  # with an ensemble, whose servers give each other up after seconds
SHORT_S, LONG_S = (0.3, 4.0), (6.5, 12.0)  # than the session of 6 s
SERVERS = ("zookeeper-1", "zookeeper-2", "zookeeper-3", "the leader")


@dataclass(frozen=True, slots=True)
class Event:
    """What happens.  at: seconds from the start.  who: whom it happens to.  a, b: seconds or counts, see the sentence.

    SENTENCES: by `what`; of the level of simulation.
    """

    SENTENCES: ClassVar[Mapping[str, str]] = {}

    at: float
    what: str
    who: str
    a: float = 0.0
    b: float = 0.0

    def __str__(self) -> str:
        return f"{self.at:7.3f} s  {self.SENTENCES[self.what].format(who=self.who, a=self.a, b=self.b)}"


class GroupEvent(Event):
    """who: a member, a topic, a ZooKeeper server or nobody."""

    __slots__ = ()
    SENTENCES: ClassVar[Mapping[str, str]] = {
        "join": "{who} joins",
        "close": "{who} leaves cleanly",
        "kill": "kill -9 {who}",
        "freeze": "{who} is frozen for {a:.2f} s, and its timers run before it reads what arrived",
        "freeze, sockets first": "{who} is frozen for {a:.2f} s, and reads what arrived before its timers run",
        "suspend": "the machine of {who} is suspended for {a:.2f} s",
        "clock": "the time of day of {who} is set by {a:+.2f} s",
        "names": "the name servers of {who} are silent for {a:.2f} s",
        "disk": "the disk of {who} takes {b:.2f} s for a sync, for {a:.2f} s",
        "expire": "ZooKeeper ends the session of {who}",
        "cut": "the network between {who} and ZooKeeper is cut for {a:.2f} s",
        "reset": "the connection of {who} breaks off; {a:.0f} requests under way still arrive",
        "slow": "requests of {who} take {b:.2f} s, for {a:.2f} s",
        "late": "answers and watches reach {who} {b:.2f} s late, for {a:.2f} s",
        "break claims": "the connection of {who} breaks off at write {a:.0f} of owner nodes ({b:.0f}: it arrives)",
        "break commits": "the connection of {who} breaks off at write {a:.0f} of offsets ({b:.0f}: it arrives)",
        "break ids": "the connection of {who} breaks off at write {a:.0f} of id nodes ({b:.0f}: it arrives)",
        "grow": "{who} gets {a:.0f} more partitions",
        "topic": "topic {who} is created with {a:.0f} partitions",
        "broker": "the leaders of half of {who} are away for {a:.2f} s",
        "produce": "{a:.0f} messages for each partition of {who}",
        "server cut": "{who} is cut off from the other servers for {a:.2f} s",
        "server kill": "kill -9 {who}, which starts again after {a:.2f} s",
        "server freeze": "{who} is stopped for {a:.2f} s",
        "server slow": "what passes between {who} and its leader takes {b:.2f} s, for {a:.2f} s",
    }


WEIGHTS = {
    "join": 4, "close": 3, "kill": 3, "freeze": 2, "freeze, sockets first": 2, "suspend": 2, "expire": 2, "cut": 4,
    "reset": 3, "slow": 2, "late": 3, "clock": 2, "names": 1, "disk": 3, "break claims": 4, "break commits": 3,
    "break ids": 1, "grow": 1, "topic": 1, "broker": 1, "produce": 5,
}  # fmt: skip
ENSEMBLE_WEIGHTS = {"server cut": 8, "server kill": 4, "server freeze": 4, "server slow": 3}


@dataclass(frozen=True, slots=True)
class Schedule:
    """topics: their partitions; streams: of each member, and whether it subscribes by a filter.

    servers: of ZooKeeper; tick_s, sync_limit: of an ensemble.
    """

    seed: int
    topics: dict[str, int]
    streams: dict[str, tuple[int, bool]]
    events: tuple[GroupEvent, ...]
    servers: int = 1
    tick_s: float = 0.5
    sync_limit: int = 5

    @property
    def chaos_s(self) -> float:
        """Until when something happens."""
        return CHAOS_S if self.servers == 1 else ENSEMBLE_CHAOS_S

    def __str__(self) -> str:
        topics = ", ".join(f"{topic} with {count} partitions" for topic, count in self.topics.items())
        members = ", ".join(
            f"{name} with {count} streams{' of t.*' if by_filter else ''}"
            for name, (count, by_filter) in self.streams.items()
        )
        head = f"seed {self.seed}: topics {topics}; members {members}"
        if self.servers > 1:
            limit_s = self.sync_limit * self.tick_s
            head += (
                f"; {self.servers} servers, a tick is {self.tick_s:g} s, they give each other up after {limit_s:g} s"
            )
        return "\n".join([head, *map(str, self.events), f"{self.chaos_s:7.3f} s  everything is mended"])


def schedule(seed: int, servers: int = 1) -> Schedule:
    rng = Random(seed)
    weights, chaos_s, given = WEIGHTS, CHAOS_S, {}
    if servers > 1:
        weights, chaos_s = WEIGHTS | ENSEMBLE_WEIGHTS, ENSEMBLE_CHAOS_S
        given = {"servers": servers, "tick_s": rng.choice((0.5, 1.0, 2.0, 2.0, 3.0)), "sync_limit": rng.choice((2, 5))}
    topics = {f"t{n}": rng.choice((1, 1, 2, 2, 3, 4, 8)) for n in range(rng.choice((2, 2, 3)))}
    names = NAMES[: rng.randint(2, 4)]
    streams = {name: (rng.choice((1, 1, 2)), rng.random() < 0.4) for name in NAMES}
    events = [GroupEvent(0.0, "produce", topic, rng.randint(0, 8)) for topic in topics]
    events += [GroupEvent(rng.choice((0.0, 0.0, 2.5 * rng.random())), "join", name) for name in names]
    centers = [rng.uniform(2.0, chaos_s - 2) for _ in range(rng.randint(1, 3))]
    for topic in topics:
        events += [GroupEvent(rng.uniform(1.0, chaos_s), "produce", topic, rng.randint(1, 5)) for _ in range(3)]
    for _ in range(rng.randint(4, 16)):
        near = min(chaos_s - 0.1, max(0.5, rng.choice(centers) + rng.choice((0.05, 0.5, 3.0)) * rng.gauss(0, 1)))
        events.append(_event(rng, near, topics, names, weights))
    return Schedule(seed, topics, streams, tuple(sorted(events, key=lambda event: event.at)), **given)


def _event(
    rng: Random, at: float, topics: dict[str, int], names: tuple[str, ...], weights: dict[str, int]
) -> GroupEvent:
    what = rng.choices(list(weights), list(weights.values()))[0]
    who, topic = rng.choice(names), rng.choice(list(topics))
    length_s = rng.uniform(*rng.choice((SHORT_S, SHORT_S, LONG_S)))
    match what:
        case "freeze" | "freeze, sockets first" | "suspend" | "cut" | "names":
            return GroupEvent(at, what, who, length_s)
        case "clock":
            return GroupEvent(at, what, who, length_s * rng.choice((1, 1, -1)))
        case "slow" | "late":
            return GroupEvent(at, what, who, length_s, rng.choice((0.1, 0.5, 2.0)) * rng.random())
        case "disk":
            return GroupEvent(at, what, who, length_s, rng.uniform(*rng.choice((SHORT_S, LONG_S))))
        case "reset":
            return GroupEvent(at, what, who, rng.randint(0, 4))
        case "break claims" | "break commits" | "break ids":
            return GroupEvent(at, what, who, rng.randint(1, 4), rng.randint(0, 1))
        case "grow":
            return GroupEvent(at, what, topic, rng.randint(1, 2))
        case "topic":
            return GroupEvent(at, what, f"t{rng.randint(3, 4)}", rng.randint(1, 3))
        case "broker":
            return GroupEvent(at, what, topic, length_s)
        case "server slow":
            return GroupEvent(at, what, rng.choice(SERVERS), length_s, rng.choice((0.1, 0.5, 2.0)) * rng.random())
        case "server cut" | "server kill" | "server freeze":
            return GroupEvent(at, what, rng.choice(SERVERS), length_s * rng.choice((0.2, 1.0, 1.0, 2.0)))
        case "produce":
            return GroupEvent(at, what, topic, rng.randint(1, 8))
        case _:
            return GroupEvent(at, what, who)


Given = TypeVar("Given", bound=Any)  # a schedule of either level, with its events


def shrink(given: Given, fails: Callable[[Given], bool]) -> Given:
    """The same with as few events as still fail: halves, quarters, then one after the other."""
    size = max(1, len(given.events) // 2)
    while True:
        at, shorter = 0, False
        while at < len(given.events):
            tried = replace(given, events=given.events[:at] + given.events[at + size :])
            if fails(tried):
                given, shorter = tried, True
            else:
                at += size
        if size == 1 and not shorter:
            return given
        size = max(1, size // 2)
