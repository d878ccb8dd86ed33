"""The mirror daemon into and between clusters of today, against the JVM's own mirrors, in the same run.

    python benchmarks/mirror_modern.py [--small] [--pairs 0.8.2.2-3.9.1,..] [--sizes 100,1000] [--rounds 1] [--json F]

    0.8.2.2 to 3.9.1   MirrorMaker of 0.8.2.2, the only one of the JVM's that can read there
    3.9.1 to 3.9.1     MirrorMaker of 3.9.1 (its consumer and producer), and MirrorMaker 2, which runs on Connect
    0.8.2.2 to 4.3.1   nothing of the JVM's copies that way: ours alone

Each copies as many messages (plain, no keys, 4 partitions, acks -1), one after the other, each a fresh topic.  Ours
runs three times: with kernels, in pure Python, and (with kernels) exactly once.  That one is done once its last
transaction is committed, and is compared with ours at least once, too.  Printed for each: messages per second of wall
time, and per CPU second of the whole process (start included), and the ratios.  Each target is then read with
librdkafka: number of messages, and the sum of their values' CRCs, against the source's.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
import yaml
from common import PARTITIONS, Result, Task, confluent_consumer, cpu_of, leave, told
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from groundwork import output
from kafkawire.model import TopicPartition as SourcePartition
from localkafka import jars, java, releases, tools
from localkafka.child import Child
from localkafka.cluster import Cluster
from localkafka.errors import LocalKafkaError
from localkafka.kraft import KraftBroker
from localkafka.load import Load, Mixture
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until
from mirrormaker.exactlyonce.position import name_of

OLD, MODERN, NEWEST = "0.8.2.2", "3.9.1", "4.3.1"
COUNTS = {100: 2_000_000, 1000: 500_000}
SETTINGS = {"log.segment.bytes": str(1 << 30), "auto.create.topics.enable": "false"}
SOURCE = "bench"
COLUMNS = ["pair", "bytes", "who", "messages", "seconds", "per second", "CPU seconds", "per CPU second", "checked"]
ONCE = "ours, exactly once"
KERNELS = {"ours": "auto", "ours, pure": "python", ONCE: "auto"}
CONNECT = "connect-mirror-3.9.1"
WAIT_S = 600


@dataclass(frozen=True, slots=True)
class PairResult(Result):
    """What it took one of them on a pair."""

    pair: str = ""

    def row(self) -> dict[str, object]:
        return {"pair": self.pair, **Result.row(self)}


class Arena:
    """A source, a target, and who copies between them."""

    def __init__(self, folder: Path, source: Cluster, target: Cluster | KraftBroker, to: str) -> None:
        self.folder, self.source, self.target = folder, source, target
        self.name = f"{source.version} to {to}"
        self.runs = 0
        peers = {"MirrorMaker": self.mirror_maker, "MirrorMaker 2": self.mirror_maker_2}
        absent = {"MirrorMaker 2"} if source.version == OLD else set()
        absent |= set(peers) if to == NEWEST else set()
        self.contestants: dict[str, Callable[[str], Sequence[str]]] = {
            **{who: peer for who, peer in peers.items() if who not in absent},
            **dict.fromkeys(KERNELS, self.ours),
            ONCE: partial(self.ours, once=True),
        }

    def run(self, who: str, task: Task) -> PairResult:
        """Fill a fresh topic, let it be copied, and compare."""
        self.runs += 1
        topic = f"bench-{self.name.replace(' ', '-')}-{self.runs}"
        self.source.create_topic(topic, partitions=PARTITIONS, replication=1)
        admin = AdminClient({"bootstrap.servers": self.target.brokers})  # what it begins ends with it
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        fill(self.source, topic, task)
        environment = {"KAFKAWIRE_KERNELS": KERNELS[who]} if who in KERNELS else {}
        seconds, cpu = self.timed(who, self.contestants[who](topic), environment, topic, task)
        same = sums(self.source.brokers, topic, old=self.source.version == OLD) == sums(self.target.brokers, topic)
        return PairResult(task, who, seconds, cpu, same, self.name)

    def timed(
        self, who: str, command: Sequence[str], environment: Mapping[str, str], topic: str, task: Task
    ) -> tuple[float, float]:
        """Run it until the target has all messages: seconds from the first one on, and CPU seconds."""
        log = self.folder / f"{topic}.log"
        with (
            watched(self.target.brokers, topic) as stored,
            committed(self.target.brokers, topic) as done,
            Child(who, command, log, env=environment) as child,
        ):

            def at(count: int, counted: Callable[[], int]) -> float:
                def there() -> bool:
                    if not child.running:
                        raise SystemExit(f"{who} ended with {child.exit_code}; {child.log_end()}")
                    return counted() >= count

                wait_until(there, WAIT_S, lambda: f"{count} messages of {topic}; {child.log_end()}", every_s=0.02)
                return time.monotonic()

            started = at(1, stored)
            took = at(task.count, done if who == ONCE else stored) - started, cpu_of(child.pid)
            child.stop(timeout_s=20)
            return took

    def ours(self, topic: str, once: bool = False) -> Sequence[str]:
        """The daemon, with nothing said of releases: the brokers are asked."""
        guarantee = "exactly-once" if once else "at-least-once"
        file = self.folder / f"{topic}.yaml"
        document = {
            "sources": [{"name": SOURCE, "group.id": group_of(topic), "zookeeper.connect": self.source.zookeeper}],
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


def fill(source: Cluster, topic: str, task: Task) -> None:
    """The messages of a task, by the producer of the release: plain, without keys."""
    if source.version == OLD:
        load = Load(source.brokers, OLD)
        load.produce(topic, PARTITIONS, task.count, Mixture(0.0, (0,), task.size), batch=1_000_000 // task.size)
        load.close()
        return
    props = ["--producer-props", f"bootstrap.servers={source.brokers}", "acks=1", "batch.size=65536", "linger.ms=5"]
    words = ["--topic", topic, "--num-records", str(task.count), "--record-size", str(task.size), "--throughput", "-1"]
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


def ratios(results: Sequence[PairResult]) -> Iterator[dict[str, object]]:
    """For each pair, size, one of ours and one of the JVM's: messages per second and per CPU second, as a ratio.
    Exactly once also against ours at least once."""
    for pair, size in dict.fromkeys((result.pair, result.task.size) for result in results):
        of: dict[str, list[PairResult]] = {}
        for result in results:
            if (result.pair, result.task.size) == (pair, size):
                of.setdefault(result.who, []).append(result)
        for who in (each for each in of if each in KERNELS):
            for peer in (each for each in of if each not in KERNELS or (who == ONCE and each == "ours")):
                wall = sum(r.per_second for r in of[who]) / sum(r.per_second for r in of[peer])
                cpu = sum(r.per_cpu_second for r in of[who]) / sum(r.per_cpu_second for r in of[peer])
                yield {
                    "pair": pair,
                    "bytes": size,
                    "who": who,
                    "peer": peer,
                    "wall": round(wall, 2),
                    "cpu": round(cpu, 2),
                }


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
@click.option("--json", "file", type=click.Path(path_type=Path), help="File for rows and ratios as JSON.")
def main(small: bool, pairs: str, sizes: str, rounds: int, file: Path | None) -> None:
    """Copy the same amount with the JVM's mirrors and with ours, in turns, and print the ratios."""
    results: list[PairResult] = []
    tasks = [Task(int(size), -1, COUNTS.get(int(size), 500_000) // (10 if small else 1)) for size in sizes.split(",")]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        for arena in arenas(stack, Path(folder), pairs.split(",")):
            turns = ((who, task) for task in tasks for _ in range(rounds) for who in arena.contestants)
            results += told(arena.run(who, task) for who, task in turns)
    output.write([result.row() for result in results], COLUMNS)
    print()
    found = list(ratios(results))
    for each in found:
        print(
            "{pair}, {bytes} bytes, acks -1: {who} {wall:.1f} times {peer} per second, {cpu:.1f} per CPU second".format(
                **each
            )
        )
    if file is not None:
        file.write_text(json.dumps({"rows": [result.row() for result in results], "ratios": found}, indent=1) + "\n")
    leave(results)


if __name__ == "__main__":
    main()
