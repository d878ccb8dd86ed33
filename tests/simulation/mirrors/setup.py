"""The clusters of a schedule, the mirror between them, and the file that its daemons are started with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

DAEMONS = ("m1", "m2", "m3")
SUPERVISOR = "supervisor"
SESSION_MS = 6000
OLD_SOURCES = ("0.8.2.2", "0.8.2.2", "0.10.2.2")
NEWER_SOURCES = ("0.11.0.3",)  # their messages have a format with room for numbers
COORDINATING_SOURCES = ("0.10.2.2", "0.11.0.3", "2.8.2")
TARGETS = ("0.8.2.2", "0.10.2.2", "0.11.0.3", "2.8.2", "3.9.1")
NUMBERING_TARGETS = ("0.11.0.3", "2.8.2", "3.9.1")
PLAIN, NUMBERED, TARGET_END, EXACTLY_ONCE = "plain", "numbered", "target-end", "exactly-once"
MODES = (PLAIN, NUMBERED, TARGET_END, EXACTLY_ONCE)
ZOOKEEPER, DUAL, COORDINATOR = "ZooKeeper", "both stores", "the coordinator"
IDENTITY, BY_KEY = "identity", "key"
SKIP, PARK, DEAD_LETTER = "skip", "park", "dead-letter"
DEAD_TOPIC = "dead"
MAP_TOPIC = "map"
MAX_BYTES = 30_000  # of a message, at the target
TIGHT_BYTES = 65_536  # that are fetched and not done
HANDLERS = {"message": "message.handler: tests.simulation.mirrors.handlers:sent_again", "set": ""}
HANDLERS["set"] = "message.set.handler: tests.simulation.mirrors.handlers:keys_again"


@dataclass(frozen=True, slots=True)
class Source:
    """One source cluster.  storage: where the group keeps its offsets; COORDINATOR: it keeps the group as well."""

    name: str
    release: str
    brokers: int
    servers: int  # of its ZooKeeper
    topics: Mapping[str, int]
    storage: str

    def __str__(self) -> str:
        topics = ", ".join(f"{topic} with {count} partitions" for topic, count in self.topics.items())
        servers = f" and {self.servers} ZooKeeper servers" if self.storage != COORDINATOR else ""
        return (
            f"{self.name} of {self.release} with {self.brokers} brokers{servers}, {topics}, offsets in {self.storage}"
        )

    @property
    def group(self) -> str:
        return f"g-{self.name}"

    @property
    def zookeeper(self) -> str:
        return f"{self.name}-zk"

    def yaml(self, tight: bool) -> Iterator[str]:
        yield f"- name: {self.name}"
        yield f"  group.id: {self.group}"
        if self.storage == COORDINATOR:
            yield "  coordination: kafka"
            yield f"  bootstrap.servers: {_addresses(self.name, self.brokers)}"
            yield f"  session.timeout.ms: {SESSION_MS}"
            yield "  rebalance.timeout.ms: 13000"
            yield "  metadata.max.age.ms: 5000"
        else:
            yield f"  zookeeper.connect: {self.zookeeper}"
            yield f"  zookeeper.session.timeout.ms: {SESSION_MS}"
            yield "  rebalance.backoff.ms: 2000"
        if self.storage == DUAL:
            yield "  offsets.storage: kafka"
            yield "  dual.commit.enabled: true"
        if tight:
            yield f"  queued.max.bytes: {TIGHT_BYTES}"
            yield "  fetch.message.max.bytes: 16000"
            yield "  fetch.growth.max.bytes: 50000"
        yield "  auto.offset.reset: smallest"
        yield "  socket.timeout.ms: 5000"
        yield "  fetch.wait.max.ms: 1000"


@dataclass(frozen=True, slots=True)
class Setup:
    """The clusters and the mirror.

    target: its release.  mode: PLAIN, NUMBERED, TARGET_END or EXACTLY_ONCE.  numbered: batches, as far as the target
    takes that.  policy: of damaged and too large messages.  handler: a key of HANDLERS, or "".  tight: memory for a few
    fetched sets only.  mapped: an offset map is kept, by which groups are translated.  impatient: the target ends
    transactions after seconds.  supervised: the daemons are workers of one mirror.
    """

    sources: tuple[Source, ...]
    target: str
    target_brokers: int
    replication: int  # of the target
    mode: str
    numbered: bool
    daemons: tuple[str, ...]
    streams: int
    partitioning: str = IDENTITY
    policy: str = SKIP
    handler: str = ""
    tight: bool = False
    mapped: bool = False
    map_topic: bool = False
    impatient: bool = False
    supervised: bool = False

    def __str__(self) -> str:
        more = [
            *(["partitions by key"] if self.partitioning == BY_KEY else []),
            *([f"a handler of each {self.handler}"] if self.handler else []),
            *(["little memory"] if self.tight else []),
            *(["an offset map"] if self.mapped else []),
            *(["impatient transactions"] if self.impatient else []),
            *(["workers of one mirror"] if self.supervised else []),
        ]
        return (
            f"{'; '.join(map(str, self.sources))}; to {self.target} with {self.target_brokers} brokers and "
            f"{self.replication} replicas; {', '.join([self.mode, *more])}; {self.policy} what is damaged; daemons "
            f"{', '.join(self.daemons)} with {self.streams} streams"
        )

    @property
    def through_zookeeper(self) -> bool:
        """Whether topics of the target are created, or grown, by nodes."""
        return self.target < "1"

    def yaml(self) -> str:
        """The configuration of each daemon; FOLDER: a folder of its own."""
        older = self.target == "0.8.2.2"
        lines = [
            "sources:",
            *(line for source in self.sources for line in source.yaml(self.tight)),
            "target:",
            f"  metadata.broker.list: {_addresses('target', self.target_brokers)}",
            "  request.timeout.ms: 4000",
            *(["  enable.idempotence: false"] if not self.numbered and self.target in NUMBERING_TARGETS else []),
            *(["  target.zookeeper.connect: target-zk"] if self.through_zookeeper else []),
            *(["  partitioner.class: tests.simulation.mirrors.handlers:partition"] if self.by_key else []),
            *(["  queue.buffering.max.bytes: 40000"] if self.tight else []),
            f"  target.replication.factor: {self.replication}",
            "mirror:",
            "  whitelist: t.*",
            f"  partitioning: {self.partitioning}",
            *(["  target.grow.partitions: true"] if not self.by_key else []),  # keys would move to others
            f"  num.streams: {self.streams}",
            *([f"  workers: {len(self.daemons)}"] if self.supervised else []),
            "  control.socket: none",
            "  offset.commit.interval.ms: 1000",
            "  parked.retry.ms: 20000",
            f"  corrupt.policy: {self.policy}",
            f"  oversize.policy: {self.policy}",
            *([f"  dead.letter.topic: {DEAD_TOPIC}"] if self.policy == DEAD_LETTER else []),
            *(["  drop.fields: timestamps"] if older else []),
            *([f"  {HANDLERS[self.handler]}"] if self.handler else []),
            "  state.folder: FOLDER",
            *(["  delivery.guarantee: exactly-once"] if self.mode == EXACTLY_ONCE else []),
            *(["  transaction.timeout.ms: 5000"] if self.impatient else []),
            *(["  resume: target-end"] if self.mode == TARGET_END else []),
            *([f"  offset.map.topic: {MAP_TOPIC}" if self.map_topic else "  offset.map.folder: FOLDER"] * self.mapped),
        ]
        return "\n".join(lines) + "\n"

    @property
    def by_key(self) -> bool:
        return self.partitioning == BY_KEY

    @property
    def merged(self) -> bool:
        """Whether several sources fill one topic of the target."""
        return len({topic for source in self.sources for topic in source.topics}) < sum(
            len(source.topics) for source in self.sources
        )


def _addresses(cluster: str, brokers: int) -> str:
    return ",".join(f"{cluster}-{n}:9092" for n in range(1, brokers + 1))


def setup_of(rng: Random, modes: tuple[str, ...]) -> Setup:
    """Clusters and a mirror by chance.  modes: that may be chosen."""
    mode = rng.choice(modes)
    target = rng.choice(NUMBERING_TARGETS if mode in (NUMBERED, EXACTLY_ONCE) else TARGETS)
    brokers = rng.choice((1, 2, 3))
    lossy = target not in NUMBERING_TARGETS  # a clean election of these may lose what was acknowledged (KIP-101)
    merges = mode in (PLAIN, NUMBERED) and rng.random() < 0.5
    sources: list[Source] = []
    for number in range(rng.choice((1, 1, 1, 2, 3)) if mode != TARGET_END else 1):
        sources.append(_source(rng, number, mode, sources[0].topics if sources and merges else None))
    mapped = mode == TARGET_END or rng.random() < 0.3
    return Setup(
        sources=tuple(sources),
        target=target,
        target_brokers=brokers,
        replication=1 if lossy else rng.randint(1, brokers),
        mode=mode,
        numbered=mode != PLAIN and (mode != TARGET_END or rng.random() < 0.5),
        daemons=DAEMONS[: 1 if mode == TARGET_END else rng.choice((1, 2, 2, 3))],  # others would refuse what is left
        streams=rng.choice((1, 2)),
        partitioning=BY_KEY if mode != TARGET_END and rng.random() < 0.3 else IDENTITY,
        policy=PARK if mode == TARGET_END else rng.choice((SKIP, PARK, DEAD_LETTER)),
        handler=rng.choice(("message", "set")) if mode != TARGET_END and rng.random() < 0.2 else "",
        tight=rng.random() < 0.3,
        mapped=mapped,
        map_topic=mode == TARGET_END and rng.random() < 0.5,
        impatient=mode == EXACTLY_ONCE and rng.random() < 0.3,
    )


def _source(rng: Random, number: int, mode: str, merged: Mapping[str, int] | None) -> Source:
    storage = rng.choices((ZOOKEEPER, DUAL, COORDINATOR), (5, 2, 3))[0]
    if storage == COORDINATOR:
        release = rng.choice(COORDINATING_SOURCES if mode != NUMBERED else COORDINATING_SOURCES[1:])
    else:
        release = rng.choice(NEWER_SOURCES if mode == NUMBERED else OLD_SOURCES)
    names = [f"t{10 * number + n}" for n in range(rng.choice((1, 2, 2)))] if merged is None else list(merged)
    return Source(
        name=f"dc{number + 1}",
        release=release,
        brokers=rng.choice((1, 1, 2)),
        servers=rng.choice((1, 1, 3)),
        topics={topic: rng.choice((1, 1, 2, 3, 4)) for topic in names},
        storage=storage,
    )
