"""The mirror daemon into and between clusters of today, against the JVM's own mirrors, in the same run.

    python benchmarks/mirror_modern.py [--small] [--pairs 0.8.2.2-3.9.1,..] [--sizes 100,1000] [--rounds 1] [--json F]
                                      [--who "ours;MirrorMaker"]

    0.8.2.2 to 3.9.1   MirrorMaker of 0.8.2.2, the only one of the JVM's that can read there
    3.9.1 to 3.9.1     MirrorMaker of 3.9.1 (its consumer and producer), and MirrorMaker 2, which runs on Connect
    0.8.2.2 to 4.3.1   nothing of the JVM's copies that way: ours alone

Each copies as many messages (plain, no keys, 4 partitions, acks -1), one after the other, each a fresh topic.  Ours
runs three times: with kernels, in pure Python, and (with kernels) exactly once.  That one is done once its last
transaction is committed, and is compared with ours at least once, too.  Printed: messages per second and per CPU second
of the whole process in the steady state (arena.py), the ratios, and what they are to be at least.  Each target is then
read with librdkafka: number of messages, and the sum of their values' CRCs, against the source's.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click
import yaml
from arena import AHEAD_BYTES, cpu_now, steady
from common import BROKERS, CLOCK, PARTITIONS, PER_CPU, Report, Run, confluent_consumer, turns
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafkawire import kernels
from kafkawire.model import TopicPartition as SourcePartition
from localkafka import jars, java, releases, tools
from localkafka.child import Child
from localkafka.cluster import Cluster
from localkafka.errors import LocalKafkaError
from localkafka.kraft import KraftBroker
from localkafka.load import Load, Mixture
from localkafka.mirror import COMMAND
from mirrormaker.exactlyonce.position import name_of

OLD, MODERN, NEWEST = "0.8.2.2", "3.9.1", "4.3.1"
COUNTS = {100: 3_000_000, 1000: 600_000}
SETTINGS = {"log.segment.bytes": str(1 << 30), "auto.create.topics.enable": "false"}
SOURCE = "bench"
OURS, PURE, ONCE = "ours", "ours, pure", "ours, exactly once"
KERNELS = {OURS: "auto", PURE: "python", ONCE: "auto"}
MIRROR_MAKER, MIRROR_MAKER_2 = "MirrorMaker", "MirrorMaker 2"
TARGETS = {  # messages per CPU second at 100 bytes, as ratios
    (f"{OLD} to {MODERN}", MIRROR_MAKER): 5,
    (f"{MODERN} to {MODERN}", MIRROR_MAKER): 8,
    (f"{MODERN} to {MODERN}", MIRROR_MAKER_2): 8,
}
CONNECT = "connect-mirror-3.9.1"
WAIT_S = 600


class Arena:
    """A source, a target, and who copies between them."""

    def __init__(self, folder: Path, source: Cluster, target: Cluster | KraftBroker, to: str) -> None:
        self.folder, self.source, self.target = folder, source, target
        self.name = f"{source.version} to {to}"
        self.runs = 0
        self.peers: dict[str, Callable[[str], Sequence[str]]] = {}
        if to != NEWEST:
            self.peers[MIRROR_MAKER] = self.mirror_maker
            if source.version != OLD:
                self.peers[MIRROR_MAKER_2] = self.mirror_maker_2
        self.contestants = {**self.peers, OURS: self.ours, PURE: self.ours, ONCE: partial(self.ours, once=True)}

    def work(self, size: int) -> str:
        return f"{self.name}, {size} B"

    def run(self, who: str, size: int, count: int) -> Run:
        """Fill a fresh topic, let it be copied, and compare."""
        self.runs += 1
        topic = f"bench-{self.name.replace(' ', '-')}-{self.runs}"
        self.source.create_topic(topic, partitions=PARTITIONS, replication=1)
        admin = AdminClient({"bootstrap.servers": self.target.brokers})  # what it begins ends with it
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        fill(self.source, topic, size, count)
        environment = {"KAFKAWIRE_KERNELS": KERNELS[who]} if who in KERNELS else {}
        watch = committed if who == ONCE else watched
        child = Child(who, self.contestants[who](topic), self.folder / f"{topic}.log", env=environment)
        try:
            with watch(self.target.brokers, topic) as messages:
                first, last = steady(child, topic, count, messages, self.brokers_s)
        finally:
            child.stop(timeout_s=20)
        same = sums(self.source.brokers, topic, old=self.source.version == OLD) == sums(self.target.brokers, topic)
        return Run(
            work=self.work(size),
            who=who,
            messages=last.messages - first.messages,
            bytes=size,
            cpu_s=last.cpu_s - first.cpu_s,
            clock_s=last.at - first.at,
            checked=same,
            also={BROKERS: last.brokers_s - first.brokers_s},
        )

    def brokers_s(self) -> float:
        """Processor time of both clusters' brokers so far."""
        target = [self.target] if isinstance(self.target, KraftBroker) else self.target.nodes
        return sum(cpu_now(server.pid) for server in (*self.source.nodes, *target))

    def ours(self, topic: str, once: bool = False) -> Sequence[str]:
        """The daemon, with nothing said of releases: the brokers are asked."""
        guarantee = "exactly-once" if once else "at-least-once"
        file = self.folder / f"{topic}.yaml"
        ahead = {"queued.max.bytes": AHEAD_BYTES, "fetch.growth.max.bytes": AHEAD_BYTES}
        group = {"group.id": group_of(topic), "zookeeper.connect": self.source.zookeeper}
        source = {"name": SOURCE, **group, **ahead}
        document = {
            "sources": [source],
            "target": {"metadata.broker.list": self.target.brokers},
            "mirror": {"whitelist": topic, "delivery.guarantee": guarantee},
        }
        file.write_text(yaml.safe_dump(document))
        return [str(COMMAND), "run", str(file)]

    def mirror_maker(self, topic: str) -> Sequence[str]:
        """kafka.tools.MirrorMaker of the source's release."""
        old = self.source.version == OLD
        reads, sends = self.folder / f"{topic}.consumer", self.folder / f"{topic}.producer"
        if old:
            connect = f"zookeeper.connect={self.source.zookeeper}\nauto.offset.reset=smallest\n"
            acks = (
                "request.required.acks=-1\nproducer.type=async\nbatch.num.messages=500\nqueue.enqueue.timeout.ms=-1\n"
            )
            sends.write_text(f"metadata.broker.list={self.target.brokers}\n{acks}")
        else:
            connect = f"bootstrap.servers={self.source.brokers}\nauto.offset.reset=earliest\n"
            sends.write_text(f"bootstrap.servers={self.target.brokers}\nacks=all\n")
        reads.write_text(f"{connect}group.id=jvm-{topic}\n")
        chosen = ["--whitelist" if old else "--include", topic, "--num.streams", "1"]
        words = ["--consumer.config", str(reads), "--producer.config", str(sends), *chosen]
        return tools.java_command(self.source.version, "kafka.tools.MirrorMaker", words)

    def mirror_maker_2(self, topic: str) -> Sequence[str]:
        """MirrorMaker 2 in a Connect worker of its own: names as they are, and nothing done but copying."""
        file = self.folder / f"{topic}.mm2"
        replicated = ("offset-syncs.topic", "checkpoints.topic", "heartbeats.topic")
        stored = ("offset.storage", "status.storage", "config.storage")
        off = ("emit.heartbeats", "emit.checkpoints", "sync.topic.acls", "sync.topic.configs", "refresh.topics")
        settings = {
            "clusters": "from, to",
            "from.bootstrap.servers": self.source.brokers,
            "to.bootstrap.servers": self.target.brokers,
            "from->to.enabled": "true",
            "to->from.enabled": "false",
            "from->to.topics": topic,
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            "replication.factor": "1",
            **{f"{name}.replication.factor": "1" for name in (*replicated, *stored)},
            **{f"{name}.enabled": "false" for name in off},
        }
        file.write_text(releases.properties(settings))
        at = f"{jars.fetched(CONNECT, 'MirrorMaker 2')}/*"
        return [java.executable(), "-cp", at, "org.apache.kafka.connect.mirror.MirrorMaker", str(file)]


def fill(source: Cluster, topic: str, size: int, count: int) -> None:
    """So many messages of so many bytes, by the producer of the release: plain, without keys."""
    if source.version == OLD:
        load = Load(source.brokers, OLD)
        load.produce(topic, PARTITIONS, count, Mixture(0.0, (0,), size), batch=1_000_000 // size)
        load.close()
        return
    props = ["--producer-props", f"bootstrap.servers={source.brokers}", "acks=1", "batch.size=65536", "linger.ms=5"]
    words = ["--topic", topic, "--num-records", str(count), "--record-size", str(size), "--throughput", "-1"]
    main = "org.apache.kafka.tools.ProducerPerformance"
    done = subprocess.run(
        tools.java_command(source.version, main, [*words, *props]), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LocalKafkaError(f"{main} ended with {done.returncode}: {done.stderr[-1000:]}")


class watched:
    """The number of messages that a topic has: a function, while the block runs."""

    def __init__(self, brokers: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": brokers, "group.id": "watch"})
        self._places = [TopicPartition(topic, p) for p in range(PARTITIONS)]

    def __enter__(self) -> Callable[[], int]:
        return lambda: sum(self._consumer.get_watermark_offsets(place, timeout=20)[1] for place in self._places)

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def group_of(topic: str) -> str:
    return f"ours-{topic}"


class committed:
    """The number of messages of a topic that committed transactions of ours have: a function, while the block runs.

    Not by the ends of the logs, for there the ends of transactions count, too.
    """

    def __init__(self, brokers: str, topic: str) -> None:
        self._brokers, self._topic = brokers, topic
        self._consumers: list[Consumer] = []

    def _positions(self) -> Iterator[int]:
        for consumer in self._consumers:  # each source partition's position stands with the first partition here
            [found] = consumer.committed([TopicPartition(self._topic, 0)], timeout=20)
            yield max(found.offset, 0)

    def __enter__(self) -> Callable[[], int]:
        for p in range(PARTITIONS):
            group = name_of(group_of(self._topic), SOURCE, SourcePartition(self._topic, p))
            self._consumers.append(Consumer({"bootstrap.servers": self._brokers, "group.id": group}))
        return lambda: sum(self._positions())

    def __exit__(self, *_: object) -> None:
        for consumer in self._consumers:
            consumer.close()


def sums(brokers: str, topic: str, old: bool = False) -> tuple[int, int]:
    """A topic's messages and the sum of their values' CRCs, as librdkafka reads them."""
    settings: dict[str, object] = dict(confluent_consumer(brokers, 1 << 20))
    if not old:
        del settings["api.version.request"], settings["broker.version.fallback"]
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    count = total = ended = 0
    deadline = time.monotonic() + WAIT_S
    while ended < PARTITIONS:
        if time.monotonic() > deadline:
            raise LocalKafkaError(f"librdkafka does not come to the ends of {topic} in {WAIT_S} s")
        for message in consumer.consume(10_000, 0.5):
            if message.error() is None:
                count += 1
                total += zlib.crc32(message.value() or b"")
            elif message.error().name() == "_PARTITION_EOF":
                ended += 1
            else:
                raise LocalKafkaError(f"librdkafka: {topic}: {message.error().str()}")
    consumer.close()
    return count, total


def compare(report: Report, arena: Arena, size: int) -> None:
    """Each of ours with each of the JVM's, and exactly once with ours at least once."""
    work = arena.work(size)
    for who in KERNELS:
        for peer in arena.peers:
            wanted = TARGETS.get((arena.name, peer)) if (who, size) == (OURS, 100) else None
            report.compare(work, who, peer, per_cpu=wanted)
    report.compare(work, ONCE, OURS)
    if not arena.peers:
        for what, name in ((PER_CPU, "per_cpu_s"), (CLOCK, "per_s")):
            report.figure(work, what, report.median(work, OURS, name) or 0)


def arenas(stack: ExitStack, folder: Path, chosen: Sequence[str]) -> Iterator[Arena]:
    """Each pair's clusters, started when its turn comes."""
    for name in chosen:
        source, _, target = name.partition("-")
        begun = stack.enter_context(Cluster(version=source, settings=SETTINGS))
        end: Cluster | KraftBroker = (
            KraftBroker(folder / f"to-{name}", target, settings=SETTINGS)
            if releases.release(target).kraft
            else Cluster(version=target, settings=SETTINGS)
        )
        yield Arena(folder, begun, stack.enter_context(end), target)
        stack.pop_all().close()


@click.command()
@click.option("--small", is_flag=True, help="A tenth of the messages, to try the benchmark itself.")
@click.option("--pairs", default=f"{OLD}-{MODERN},{MODERN}-{MODERN},{OLD}-{NEWEST}", help="Source-target, by release.")
@click.option("--sizes", default="100,1000", help="Bytes of a value.")
@click.option("--rounds", default=1, help="How often each comparison is made, in turns.")
@click.option("--who", default="", help="Who takes part, separated by semicolons; default: all.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="File for runs and figures as JSON.")
def main(small: bool, pairs: str, sizes: str, rounds: int, who: str, file: Path | None) -> None:
    """Copy the same amount with the JVM's mirrors and with ours, in turns, and print the ratios."""
    kernels.prepare()  # compiled once, not by a contestant
    report = Report("mirror_modern", short=small, about={"kernels": kernels.name(), "acks": -1})
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        for arena in arenas(stack, Path(folder), pairs.split(",")):
            for size in map(int, sizes.split(",")):
                count = COUNTS.get(size, 600_000) // (10 if small else 1)
                chosen = [name for name in arena.contestants if not who or name in who.split(";")]
                if not chosen:
                    raise click.UsageError(f"--who {who}: of {arena.name} known are {'; '.join(arena.contestants)}")
                for name in turns(chosen, rounds):
                    report.add(arena.run(name, size, count))
                compare(report, arena, size)
    report.end(file)


if __name__ == "__main__":
    main()
