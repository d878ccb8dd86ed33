"""Schedules of whole mirrors: what is done to the clusters and daemons and when, made from a seed, told as a story."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from tests.simulation.mirrors.setup import (
    COORDINATOR,
    MODES,
    NUMBERED,
    SUPERVISOR,
    TARGET_END,
    ZOOKEEPER,
    Setup,
    setup_of,
)
from tests.simulation.schedule import LONG_S, SHORT_S, Event

CHAOS_S = 40.0  # then everything is mended
LAPSE_S = (4.4, 6.4)  # the lease is over before that, and the session may live on


class MirrorEvent(Event):
    """who: a daemon, a broker (dc1-1), a topic of a cluster (dc1/t0), or a way (m1>target-1)."""

    __slots__ = ()
    SENTENCES: ClassVar[Mapping[str, str]] = {
        "start": "{who} starts",
        "stop": "SIGTERM to {who}",
        "kill": "kill -9 {who}; it starts again after {a:.2f} s",
        "freeze": "{who} is frozen for {a:.2f} s, and its timers run before it reads what arrived",
        "freeze, sockets first": "{who} is frozen for {a:.2f} s, and reads what arrived before its timers run",
        "suspend": "the machine of {who} is suspended for {a:.2f} s",
        "disk": "the disk of {who} takes {b:.2f} s for a sync, for {a:.2f} s",
        "expire": "ZooKeeper ends the sessions of {who}",
        "zk cut": "the network between {who} and each ZooKeeper is cut for {a:.2f} s",
        "zk reset": "the connections of {who} to ZooKeeper break off",
        "zk late": "answers of ZooKeeper reach {who} {b:.2f} s late, for {a:.2f} s",
        "cut": "the network on the way {who} is cut for {a:.2f} s",
        "reset": "each connection on the way {who} is reset",
        "half open": "each connection on the way {who} is forgotten, and no end is told",
        "cut frame": "of the next request on the way {who} the first {a:.0%} arrive, then the connection is reset",
        "lost answer": "the next answer on the way {who} is lost with its connection",
        "late copy": "the next request on the way {who} loses its connection, and arrives {a:.2f} s late",
        "slow": "the way {who} takes {b:.2f} s more, for {a:.2f} s",
        "narrow": "{who} takes {b:.0f} bytes a second, for {a:.2f} s",
        "broker kill": "kill -9 {who}; it starts again after {a:.2f} s",
        "broker freeze": "{who} is frozen for {a:.2f} s",
        "broker isolated": "{who} is cut off from all brokers, not from clients, for {a:.2f} s",
        "move": "partition {a:.0f} of {who} gets another leader",
        "grow": "{who} gets {a:.0f} more partitions",
        "topic": "{who} is created with {a:.0f} partitions",
        "recreate": "{who} is deleted, and created again {a:.2f} s after it is gone",
        "produce": "{a:.0f} messages for each partition of {who}",
        "damage": "a message for each partition of {who} is damaged on the disk, between good ones",
        "large": "a message for each partition of {who} that is too large for the target, between good ones",
        "retention": "retention takes the older segments of {who}",
        "pause": "{who} is paused for {a:.2f} s",
        "throttle": "{who} is throttled to {b:.0f} messages a second, for {a:.2f} s",
        "reload": "SIGHUP to {who}",
        "translate": "groups that have read some of {who} are translated",
    }


WEIGHTS = {
    "stop": 3, "kill": 4, "freeze": 3, "freeze, sockets first": 2, "suspend": 1, "disk": 2, "expire": 3, "zk cut": 3,
    "zk reset": 2, "zk late": 2, "cut": 4, "reset": 5, "half open": 2, "cut frame": 3, "lost answer": 6, "slow": 3,
    "late copy": 3, "narrow": 4, "broker kill": 4, "broker freeze": 3, "broker isolated": 2, "move": 4, "grow": 2,
    "topic": 1, "recreate": 1, "pause": 1, "throttle": 1, "reload": 1, "damage": 1, "large": 1, "retention": 1,
    "translate": 2,
}  # fmt: skip
HARMLESS = frozenset({
    "disk", "slow", "grow", "topic", "pause", "throttle", "reload", "zk late", "damage", "retention",
    "translate",
})  # fmt: skip
DISRUPTING = frozenset(WEIGHTS) - HARMLESS
"""What may have messages copied a second time."""
ORDERLY = {"stop": 6, "grow": 1, "topic": 1, "pause": 1, "throttle": 1, "reload": 1, "slow": 1}
"""What operators do; of a schedule of these alone nothing may be copied twice."""
LOCAL = {"damage": 3, "large": 3, "pause": 2, "throttle": 1, "retention": 1}
"""What happens to one topic; of a schedule of these alone the others may not notice."""
COMPARED = frozenset({"large", "retention"})
"""What may take a message that the target's end has to be compared with."""
STALE = frozenset({"zk cut", "zk late", "freeze", "freeze, sockets first", "suspend"})
"""What may have a commit arrive behind a topic that was created again before its daemon could know (docs/limits.md)."""
TO_DAEMONS = frozenset({
    "stop", "kill", "freeze", "freeze, sockets first", "suspend", "disk", "expire", "zk cut", "zk reset", "zk late",
})  # fmt: skip
"""What may have another daemon, or the next life of one, go on behind what was committed."""
REBALANCING = frozenset({"grow", "topic", "recreate"})
"""What may have a stream give up a partition before all is acknowledged that it sent."""


@dataclass(frozen=True, slots=True)
class MirrorSchedule:
    seed: int
    setup: Setup
    events: tuple[MirrorEvent, ...]

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.setup}", *map(str, self.events)]
        return "\n".join([*lines, f"{CHAOS_S:7.3f} s  everything is mended"])

    @property
    def troubled(self) -> frozenset[str]:
        """Topics that something of LOCAL happens to; empty: something else happens as well."""
        happens = [event for event in self.events if event.what not in ("start", "produce", "translate")]
        if any(event.what not in LOCAL for event in happens):
            return frozenset()
        return frozenset(event.who for event in happens)


def schedule(seed: int, modes: tuple[str, ...] = MODES) -> MirrorSchedule:
    """The schedule of a seed.  modes: that may be chosen."""
    rng = Random(f"mirrors {seed}")
    setup = setup_of(rng, modes)
    topics = [f"{source.name}/{topic}" for source in setup.sources for topic in source.topics]
    events = [MirrorEvent(rng.choice((0.0, 0.0, 3.0 * rng.random())), "start", name) for name in setup.daemons]
    for topic in topics:
        events += [MirrorEvent(rng.uniform(0.0, CHAOS_S), "produce", topic, rng.randint(1, 9)) for _ in range(6)]
    weights = _weights(seed, setup, len(topics))
    if weights.keys() <= LOCAL.keys():
        topics = topics[:1]
    centers = [rng.uniform(4.0, CHAOS_S - 4) for _ in range(rng.randint(1, 3))]
    for _ in range(rng.randint(3, 14)):
        near = min(CHAOS_S - 0.1, max(1.0, rng.choice(centers) + rng.choice((0.05, 0.5, 4.0)) * rng.gauss(0, 1)))
        events += _events(rng, near, setup, weights, rng.choice(topics))
    setup, events = _supervised(Random(f"workers {seed}"), setup, events)
    return MirrorSchedule(seed, setup, tuple(sorted(events, key=lambda event: event.at)))


def _supervised(rng: Random, setup: Setup, events: list[MirrorEvent]) -> tuple[Setup, list[MirrorEvent]]:
    """Some mirrors of several daemons have a supervisor, which some of their events happen to."""
    if len(setup.daemons) == 1 or rng.random() > 0.4:
        return setup, events
    to_processes = ("kill", "freeze", "freeze, sockets first")
    return replace(setup, supervised=True), [
        replace(event, who=SUPERVISOR) if event.what in to_processes and rng.random() < 0.3 else event
        for event in events
    ]


def _weights(seed: int, setup: Setup, topics: int) -> Mapping[str, int]:
    rng = Random(f"kind {seed}")
    kind = rng.random()
    if kind < 0.1:
        return ORDERLY
    if kind < 0.2 and topics > 1:
        return {what: each for what, each in LOCAL.items() if setup.mode != TARGET_END or what not in COMPARED}
    weights = dict(WEIGHTS)
    if setup.mode == NUMBERED and len(setup.daemons) == 1:
        weights = {what: weight for what, weight in weights.items() if what not in TO_DAEMONS}
    if setup.mode == TARGET_END:
        del weights["late copy"]  # what arrives behind the look at the target's end comes twice
        weights = {what: weight for what, weight in weights.items() if what not in COMPARED}
    if rng.random() < 0.5 or any(source.storage != ZOOKEEPER for source in setup.sources):
        del weights["recreate"]  # without ZooKeeper nothing tells the new topic from the old one
    else:
        weights = {what: weight for what, weight in weights.items() if what not in STALE}
    if all(source.storage == COORDINATOR for source in setup.sources):
        weights = {what: weight for what, weight in weights.items() if what != "expire" and "zk " not in what}
    return weights


def _events(rng: Random, at: float, setup: Setup, weights: Mapping[str, int], topic: str) -> list[MirrorEvent]:
    what = rng.choices(list(weights), list(weights.values()))[0]
    daemon = rng.choice(setup.daemons)
    brokers = [f"{source.name}-{n}" for source in setup.sources for n in range(1, source.brokers + 1)]
    brokers += [f"target-{n}" for n in range(1, setup.target_brokers + 1)] * 2
    broker = rng.choice(brokers)
    way = f"{daemon}>{broker}"
    length_s = rng.uniform(*rng.choice((SHORT_S, SHORT_S, LONG_S)))
    if what in ("freeze", "freeze, sockets first", "suspend", "zk cut") and rng.random() < 0.3:
        length_s = rng.uniform(*LAPSE_S)
    # What is in flight is what a fault meets: something is produced right before.
    before = MirrorEvent(max(0.0, at - rng.choice((0.01, 0.05, 0.2))), "produce", topic, rng.randint(1, 6))
    during = MirrorEvent(at + 0.9 * length_s, "produce", topic, rng.randint(1, 6))
    name = topic.rpartition("/")[2]
    match what:
        case "stop":
            return [before, MirrorEvent(at, what, daemon), MirrorEvent(at + length_s, "start", daemon)]
        case "kill" | "freeze" | "freeze, sockets first" | "suspend":
            return [before, MirrorEvent(at, what, daemon, length_s)]
        case "zk cut":
            return [before, MirrorEvent(at, what, daemon, length_s), during]
        case "pause":
            return [before, MirrorEvent(at, what, topic, length_s), during]
        case "throttle":
            return [before, MirrorEvent(at, what, topic, length_s, rng.choice((1, 3))), during]
        case "expire" | "zk reset" | "reload":
            return [before, MirrorEvent(at, what, daemon)]
        case "disk":
            return [MirrorEvent(at, what, daemon, length_s, rng.uniform(*rng.choice((SHORT_S, LONG_S))))]
        case "zk late":
            return [MirrorEvent(at, what, daemon, length_s, rng.choice((0.1, 0.5, 2.0)) * rng.random())]
        case "cut":
            return [before, MirrorEvent(at, what, way, length_s)]
        case "late copy":
            return [before, MirrorEvent(at, what, way, rng.choice((0.01, 0.2, 2.0)) * rng.random()), during]
        case "reset" | "half open" | "lost answer":
            return [before, MirrorEvent(at, what, way)]
        case "cut frame":
            return [before, MirrorEvent(at, what, way, rng.choice((0.0, 0.3, 0.99, rng.random())))]
        case "slow":
            return [MirrorEvent(at, what, way, length_s, rng.choice((0.1, 0.5, 2.0)) * rng.random())]
        case "narrow":
            return [before, MirrorEvent(at, what, way, length_s, rng.choice((50.0, 500.0, 2000.0))), during]
        case "broker kill" | "broker freeze" | "broker isolated":
            return [before, MirrorEvent(at, what, broker, length_s)]
        case "move":
            count = max(source.topics.get(name, 1) for source in setup.sources)
            return [before, MirrorEvent(at, what, f"target/{name}", rng.randrange(count))]
        case "grow":
            return [MirrorEvent(at, what, topic, rng.randint(1, 2))]
        case "topic":
            number = rng.randrange(len(setup.sources))
            new = f"{setup.sources[number].name}/t{10 * number + rng.randint(3, 4)}"
            return [MirrorEvent(at, what, new, rng.randint(1, 3))]
        case "recreate":
            again_s = rng.choice((0.0, 0.3, 5.0))
            return [before, MirrorEvent(at, what, topic, again_s), MirrorEvent(at + again_s + 4.0, "produce", topic, 8)]
        case "damage" | "large" | "translate":
            return [before, MirrorEvent(at, what, topic)]
        case _:
            return [MirrorEvent(at, "retention", topic)]
