"""Schedules of whole mirrors: the clusters, what is done to them and when, made from a seed and told as a story."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from tests.simulation.schedule import LONG_S, SHORT_S, Event

DAEMONS = ("m1", "m2", "m3")
CHAOS_S = 40.0  # then everything is mended
SESSION_MS = 6000
LAPSE_S = (4.4, 6.4)  # the lease is over before that, and the session may live on
SOURCES = ("0.8.2.2", "0.8.2.2", "0.10.2.2")
NEWER_SOURCES = ("0.11.0.3",)  # their messages have a format with room for numbers
TARGETS = ("0.8.2.2", "0.10.2.2", "0.11.0.3", "2.8.2", "3.9.1")
PLAIN, NUMBERED, TARGET_END, EXACTLY_ONCE = "plain", "numbered", "target-end", "exactly-once"
MODES = (PLAIN, NUMBERED, TARGET_END, EXACTLY_ONCE)
SINCE = {NUMBERED: ("0.11.0.3", "2.8.2", "3.9.1"), EXACTLY_ONCE: ("0.11.0.3", "2.8.2", "3.9.1")}


class MirrorEvent(Event):
    """who: a daemon, a broker (source-1), a topic, or a way (m1>target-1)."""

    __slots__ = ()
    SENTENCES: ClassVar[Mapping[str, str]] = {
        "start": "{who} starts",
        "stop": "SIGTERM to {who}",
        "kill": "kill -9 {who}; it starts again after {a:.2f} s",
        "freeze": "{who} is frozen for {a:.2f} s, and its timers run before it reads what arrived",
        "freeze, sockets first": "{who} is frozen for {a:.2f} s, and reads what arrived before its timers run",
        "suspend": "the machine of {who} is suspended for {a:.2f} s",
        "disk": "the disk of {who} takes {b:.2f} s for a sync, for {a:.2f} s",
        "expire": "ZooKeeper ends the session of {who}",
        "zk cut": "the network between {who} and ZooKeeper is cut for {a:.2f} s",
        "zk reset": "the connection of {who} to ZooKeeper breaks off",
        "zk late": "answers of ZooKeeper reach {who} {b:.2f} s late, for {a:.2f} s",
        "cut": "the network on the way {who} is cut for {a:.2f} s",
        "reset": "each connection on the way {who} is reset",
        "half open": "each connection on the way {who} is forgotten, and no end is told",
        "cut frame": "of the next request on the way {who} the first {a:.0%} arrive, then the connection is reset",
        "lost answer": "the next answer on the way {who} is lost with its connection",
        "slow": "the way {who} takes {b:.2f} s more, for {a:.2f} s",
        "narrow": "{who} takes {b:.0f} bytes a second, for {a:.2f} s",
        "broker kill": "kill -9 {who}; it starts again after {a:.2f} s",
        "broker freeze": "{who} is frozen for {a:.2f} s",
        "broker isolated": "{who} is cut off from all brokers, not from clients, for {a:.2f} s",
        "move": "partition {a:.0f} of {who} gets another leader",
        "grow": "{who} gets {a:.0f} more partitions",
        "topic": "topic {who} is created with {a:.0f} partitions",
        "produce": "{a:.0f} messages for each partition of {who}",
        "pause": "{who} is paused for {a:.2f} s",
        "reload": "SIGHUP to {who}",
    }


WEIGHTS = {
    "stop": 3, "kill": 4, "freeze": 3, "freeze, sockets first": 2, "suspend": 1, "disk": 2, "expire": 3, "zk cut": 3,
    "zk reset": 2, "zk late": 2, "cut": 4, "reset": 5, "half open": 2, "cut frame": 3, "lost answer": 6, "slow": 3,
    "narrow": 2, "broker kill": 4, "broker freeze": 3, "broker isolated": 2, "move": 4, "grow": 1, "topic": 1,
    "pause": 1, "reload": 1,
}  # fmt: skip
DISRUPTING = frozenset(WEIGHTS) - {"disk", "slow", "narrow", "grow", "topic", "pause", "reload", "zk late"}
"""What may have messages copied a second time."""
ORDERLY = {"stop": 6, "grow": 1, "topic": 1, "pause": 1, "reload": 1, "slow": 1}
"""What operators do; of a schedule of these alone nothing may be copied twice."""
TO_DAEMONS = frozenset({
    "stop", "kill", "freeze", "freeze, sockets first", "suspend", "disk", "expire", "zk cut", "zk reset", "zk late",
})  # fmt: skip
"""What may have another daemon, or the next life of one, go on behind what was committed."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The clusters and the mirror.  source, target: releases.  mode: PLAIN, NUMBERED, TARGET_END or EXACTLY_ONCE."""

    source: str
    source_brokers: int
    servers: int  # of the source's ZooKeeper
    topics: Mapping[str, int]
    target: str
    target_brokers: int
    replication: int  # of the target
    mode: str
    numbered: bool  # batches, as far as the target takes that
    daemons: tuple[str, ...]
    streams: int

    def __str__(self) -> str:
        topics = ", ".join(f"{topic} with {count} partitions" for topic, count in self.topics.items())
        return (
            f"{self.source} with {self.source_brokers} brokers and {self.servers} ZooKeeper servers, {topics}, to "
            f"{self.target} with {self.target_brokers} brokers and {self.replication} replicas; {self.mode}, daemons "
            f"{', '.join(self.daemons)} with {self.streams} streams"
        )

    @property
    def through_zookeeper(self) -> bool:
        """Whether topics of the target are created, or grown, by nodes."""
        return self.target < "1"

    def yaml(self) -> str:
        """The configuration of each daemon; FOLDER: a folder of its own."""
        brokers = ",".join(f"target-{n}:9092" for n in range(1, self.target_brokers + 1))
        lines = [
            "sources:",
            "- name: dc1",
            "  zookeeper.connect: source-zk",
            "  group.id: g",
            f"  zookeeper.session.timeout.ms: {SESSION_MS}",
            "  rebalance.backoff.ms: 2000",
            "  auto.offset.reset: smallest",
            "  socket.timeout.ms: 5000",
            "  fetch.wait.max.ms: 1000",
            "target:",
            f"  metadata.broker.list: {brokers}",
            "  request.timeout.ms: 4000",
            *(["  enable.idempotence: false"] if not self.numbered and self.target in SINCE[NUMBERED] else []),
            *(["  target.zookeeper.connect: target-zk"] if self.through_zookeeper else []),
            f"  target.replication.factor: {self.replication}",
            "mirror:",
            "  whitelist: t.*",
            "  partitioning: identity",
            "  target.grow.partitions: true",
            f"  num.streams: {self.streams}",
            "  control.socket: none",
            "  offset.commit.interval.ms: 1000",
            *(["  drop.fields: timestamps"] if self.target == "0.8.2.2" else []),
            "  state.folder: FOLDER",
            *(["  delivery.guarantee: exactly-once"] if self.mode == EXACTLY_ONCE else []),
            *(["  resume: target-end", "  offset.map.topic: map"] if self.mode == TARGET_END else []),
        ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class MirrorSchedule:
    seed: int
    setup: Setup
    events: tuple[MirrorEvent, ...]

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.setup}", *map(str, self.events)]
        return "\n".join([*lines, f"{CHAOS_S:7.3f} s  everything is mended"])


def schedule(seed: int, modes: tuple[str, ...] = MODES) -> MirrorSchedule:
    """The schedule of a seed.  modes: that may be chosen."""
    rng = Random(f"mirrors {seed}")
    setup = _setup(rng, modes)
    events = [MirrorEvent(rng.choice((0.0, 0.0, 3.0 * rng.random())), "start", name) for name in setup.daemons]
    for topic in setup.topics:
        events += [MirrorEvent(rng.uniform(0.0, CHAOS_S), "produce", topic, rng.randint(1, 9)) for _ in range(6)]
    weights = ORDERLY if Random(f"orderly {seed}").random() < 0.1 else WEIGHTS
    if setup.mode == NUMBERED and len(setup.daemons) == 1:
        weights = {what: weight for what, weight in weights.items() if what not in TO_DAEMONS}
    centers = [rng.uniform(4.0, CHAOS_S - 4) for _ in range(rng.randint(1, 3))]
    for _ in range(rng.randint(3, 14)):
        near = min(CHAOS_S - 0.1, max(1.0, rng.choice(centers) + rng.choice((0.05, 0.5, 4.0)) * rng.gauss(0, 1)))
        events += _events(rng, near, setup, weights)
    return MirrorSchedule(seed, setup, tuple(sorted(events, key=lambda event: event.at)))


def _setup(rng: Random, modes: tuple[str, ...]) -> Setup:
    mode = rng.choice(modes)
    target = rng.choice(SINCE.get(mode, TARGETS))
    brokers = rng.choice((1, 2, 3))
    lossy = target < "0.11"  # a clean election of these may lose what was acknowledged
    topics = {f"t{n}": rng.choice((1, 1, 2, 3, 4)) for n in range(rng.choice((1, 2, 2)))}
    return Setup(
        source=rng.choice(NEWER_SOURCES if mode == NUMBERED else SOURCES),
        source_brokers=rng.choice((1, 1, 2)),
        servers=rng.choice((1, 1, 3)),
        topics=topics,
        target=target,
        target_brokers=brokers,
        replication=1 if lossy else rng.randint(1, brokers),
        mode=mode,
        numbered=mode != PLAIN and (mode != TARGET_END or rng.random() < 0.5),
        daemons=DAEMONS[: 1 if mode == TARGET_END else rng.choice((1, 2, 2, 3))],  # others would refuse what is left
        streams=rng.choice((1, 2)),
    )


def _events(rng: Random, at: float, setup: Setup, weights: Mapping[str, int]) -> list[MirrorEvent]:
    what = rng.choices(list(weights), list(weights.values()))[0]
    daemon, topic = rng.choice(setup.daemons), rng.choice(list(setup.topics))
    brokers = [f"source-{n}" for n in range(1, setup.source_brokers + 1)]
    brokers += [f"target-{n}" for n in range(1, setup.target_brokers + 1)] * 2
    broker = rng.choice(brokers)
    way = f"{daemon}>{broker}"
    length_s = rng.uniform(*rng.choice((SHORT_S, SHORT_S, LONG_S)))
    if what in ("freeze", "freeze, sockets first", "suspend", "zk cut") and rng.random() < 0.3:
        length_s = rng.uniform(*LAPSE_S)
    # What is in flight is what a fault meets: something is produced right before.
    before = MirrorEvent(max(0.0, at - rng.choice((0.01, 0.05, 0.2))), "produce", topic, rng.randint(1, 6))
    match what:
        case "stop":
            return [before, MirrorEvent(at, what, daemon), MirrorEvent(at + length_s, "start", daemon)]
        case "kill" | "freeze" | "freeze, sockets first" | "suspend":
            return [before, MirrorEvent(at, what, daemon, length_s)]
        case "zk cut" | "pause":
            during = MirrorEvent(at + 0.9 * length_s, "produce", topic, rng.randint(1, 6))
            return [before, MirrorEvent(at, what, daemon, length_s), during]
        case "expire" | "zk reset" | "reload":
            return [before, MirrorEvent(at, what, daemon)]
        case "disk":
            return [MirrorEvent(at, what, daemon, length_s, rng.uniform(*rng.choice((SHORT_S, LONG_S))))]
        case "zk late":
            return [MirrorEvent(at, what, daemon, length_s, rng.choice((0.1, 0.5, 2.0)) * rng.random())]
        case "cut":
            return [before, MirrorEvent(at, what, way, length_s)]
        case "reset" | "half open" | "lost answer":
            return [before, MirrorEvent(at, what, way)]
        case "cut frame":
            return [before, MirrorEvent(at, what, way, rng.choice((0.0, 0.3, 0.99, rng.random())))]
        case "slow":
            return [MirrorEvent(at, what, way, length_s, rng.choice((0.1, 0.5, 2.0)) * rng.random())]
        case "narrow":
            return [MirrorEvent(at, what, way, length_s, rng.choice((50.0, 500.0)))]
        case "broker kill" | "broker freeze" | "broker isolated":
            return [before, MirrorEvent(at, what, broker, length_s)]
        case "move":
            return [before, MirrorEvent(at, what, topic, rng.randrange(setup.topics[topic]))]
        case "grow":
            return [MirrorEvent(at, what, topic, rng.randint(1, 2))]
        case _:
            return [MirrorEvent(at, "topic", f"t{rng.randint(3, 4)}", rng.randint(1, 3))]
