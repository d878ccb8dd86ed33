"""The mirror daemon against the JVM's MirrorMaker of 0.8.2.2, on the same clusters, in the same run.

    python benchmarks/mirror.py [--small] [--sizes 100,1000] [--acks 1,-1] [--rounds 1]

Both copy the same messages (plain, no keys, 4 partitions, identity) from one broker to another, one after the other,
each from a fresh topic.  Printed for each: messages per second of wall time, and per CPU second of the whole process
(start included), and the ratios.  Both targets are then checked: number of messages, and the sum of their CRCs as they
stand in the segment files, against the source's.
"""

from __future__ import annotations

import struct
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import yaml
from common import PARTITIONS, VERSION, Result, Task, cpu_of, leave, told

from groundwork import output
from kafkawire.formats.v01 import messages as codec
from kafkawire.model import TopicPartition
from localkafka import tools
from localkafka.child import Child
from localkafka.cluster import Cluster
from localkafka.load import Load, Mixture
from localkafka.logends import log_end_offsets
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until

COUNTS = {100: 2_000_000, 1000: 1_000_000}
ENTRY = struct.Struct(">qiI")  # offset, size, crc
COLUMNS = ["bytes", "acks", "who", "messages", "seconds", "per second", "CPU seconds", "per CPU second", "checked"]


class Arena:
    """Two clusters, and what the contestants have in common."""

    def __init__(self, folder: Path, source: Cluster, target: Cluster) -> None:
        self.folder, self.source, self.target = folder, source, target
        self.runs = 0

    def run(self, who: str, task: Task) -> Result:
        self.runs += 1
        topic = f"bench{self.runs}"
        for cluster in (self.source, self.target):
            cluster.create_topic(topic, partitions=PARTITIONS, replication=1)
        self.fill(topic, task)
        took = self.timed(who, getattr(self, who)(topic, task), topic, task)
        return Result(task, who, *took, sums(self.source, topic) == sums(self.target, topic))

    def timed(self, who: str, command: Sequence[str], topic: str, task: Task) -> tuple[float, float]:
        """Run it until the target has all messages: seconds from the first one on, and CPU seconds."""
        child = Child(who, command, self.folder / f"{who}{self.runs}.log")
        try:
            started = self.wait_for(topic, 1, child)
            return self.wait_for(topic, task.count, child) - started, cpu_of(child.pid)
        finally:
            child.stop(timeout_s=20)

    def fill(self, topic: str, task: Task) -> None:
        load = Load(self.source.brokers, VERSION)
        load.produce(topic, PARTITIONS, task.count, Mixture(0.0, (0,), task.size), batch=1_000_000 // task.size)
        load.close()

    def wait_for(self, topic: str, count: int, child: Child) -> float:
        """The moment at which the target has that many messages of the topic."""

        def there() -> bool:
            if not child.running:
                raise SystemExit(f"{child.name} ended with {child.exit_code}; {child.log_end()}")
            return sum(log_end_offsets(self.target, [topic]).values()) >= count

        wait_until(there, 300, lambda: f"{count} messages of {topic}; {child.log_end()}")
        return time.monotonic()

    def ours(self, topic: str, task: Task) -> Sequence[str]:
        return self.mirror(topic, {"zookeeper.connect": self.source.zookeeper}, {"request.required.acks": task.acks})

    def mirror(self, topic: str, source: Mapping[str, object], target: Mapping[str, object]) -> Sequence[str]:
        """The daemon of a source; target: options on top of where it is."""
        file = self.folder / f"{topic}.yaml"
        where = {"metadata.broker.list": self.target.brokers, "target.zookeeper.connect": self.target.zookeeper}
        settings = {
            "sources": [{"name": "bench", "group.id": f"ours-{topic}", **source}],
            "target": {**where, **target},
            "mirror": {"whitelist": topic},
        }
        file.write_text(yaml.safe_dump(settings))
        return [str(COMMAND), "run", str(file)]

    def jvm(self, topic: str, task: Task) -> Sequence[str]:
        consumer, producer = self.folder / f"{topic}.consumer", self.folder / f"{topic}.producer"
        consumer.write_text(
            f"zookeeper.connect={self.source.zookeeper}\ngroup.id=jvm-{topic}\nauto.offset.reset=smallest\n"
        )
        producer.write_text(
            f"metadata.broker.list={self.target.brokers}\nrequest.required.acks={task.acks}\nproducer.type=async\n"
            "batch.num.messages=500\nqueue.enqueue.timeout.ms=-1\n"
        )
        return tools.java_command(
            VERSION,
            "kafka.tools.MirrorMaker",
            f"--consumer.config {consumer} --producer.config {producer} --whitelist {topic} --num.streams 1".split(),
        )


def sums(cluster: Cluster, topic: str) -> tuple[int, int]:
    """A topic's messages and the sum of their CRCs, straight from the segment files of each partition's leader.

    Of the whole topic: the JVM's mirror keeps no partition numbers.
    """
    count = total = 0
    for partition in range(PARTITIONS):
        for segment in cluster.segments(TopicPartition(topic, partition)):
            data = segment.read_bytes()
            at, end = 0, codec.scan(data, 0).end
            while at < end:
                _offset, size, crc = ENTRY.unpack_from(data, at)
                count += 1
                total += crc
                at += codec.LOG_OVERHEAD + size
    return count, total


def ratios(results: Sequence[Result], ours: str) -> Iterator[tuple[Task, float, float]]:
    """For each task how many times the JVM's messages are those of ours: per second, and per CPU second."""
    for task in dict.fromkeys(r.task for r in results):
        first, jvm = ([r for r in results if r.task == task and r.who == who] for who in (ours, "jvm"))
        wall = sum(r.per_second for r in first) / sum(r.per_second for r in jvm)
        yield task, wall, sum(r.per_cpu_second for r in first) / sum(r.per_cpu_second for r in jvm)


def report(results: Sequence[Result]) -> None:
    output.write([r.row() for r in results], COLUMNS)
    print()
    for task, wall, cpu in ratios(results, "ours"):
        print(f"{task.size} bytes, acks {task.acks}: {wall:.1f} times the JVM per second, {cpu:.1f} per CPU second")


@contextmanager
def ground() -> Iterator[tuple[Path, Cluster, Cluster]]:
    """A folder, and two clusters of a broker each."""
    settings = {"log.segment.bytes": 1 << 30}
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        Cluster(version=VERSION, brokers=1, settings=settings) as source,
        Cluster(version=VERSION, brokers=1, settings=settings) as target,
    ):
        yield Path(folder), source, target


@click.command()
@click.option("--small", is_flag=True, help="A tenth of the messages, to try the benchmark itself.")
@click.option("--sizes", default="100,1000", help="Bytes of a value.")
@click.option("--acks", default="1,-1", help="request.required.acks of both.")
@click.option("--rounds", default=1, help="How often each comparison is made, in turns.")
def main(small: bool, sizes: str, acks: str, rounds: int) -> None:
    """Mirror the same messages with the JVM's MirrorMaker and with ours, in turns, and print the ratios."""
    tasks = [
        Task(int(size), int(ack), COUNTS.get(int(size), 1_000_000) // (10 if small else 1))
        for size in sizes.split(",")
        for ack in acks.split(",")
    ]
    with ground() as (folder, source, target):
        arena = Arena(folder, source, target)
        results = told(arena.run(who, task) for task in tasks for _ in range(rounds) for who in ("jvm", "ours"))
    report(results)
    leave(results)


if __name__ == "__main__":
    main()
