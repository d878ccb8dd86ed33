"""Our producer against the JVM's of 0.8.2.2, kafka-python and confluent-kafka, on one broker, in one run.

    python benchmarks/produce.py [--small] [--sizes 100,1000] [--rounds 1] [--json FILE]
                                 [--who send_many,confluent-kafka]

Each sends the same number of values of the same size, without keys, to a fresh topic of 4 partitions, acks 1, one after
the other, each in a process of its own.

What is timed: from the first send to the last acknowledgement.  Before it the process has started, its libraries are
loaded, and one message is stored, so that metadata and a connection are there.  The JVM's time is between the two times
that it prints: it makes its producer within them.

    JVM async        kafka.tools.ProducerPerformance, one thread, producer.type=async, batches of 200
    kafka-python     KafkaProducer.send()
    confluent-kafka  Producer.produce(), its queue as large as it likes
    send             Producer.send(), message by message, with the defaults
    send_many        Producer.send_many() of an iterator, with as large a queue as confluent-kafka's

The peers are installed into a virtual environment that is thrown away; one that cannot be installed, or sends nothing
to 0.8.2, is named and left out.  Afterwards the topic must hold what was sent.  CPU seconds are those of the whole
process, its start included.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import click
from common import PARTITIONS, VERSION, Peers, Report, Run, last_line, seconds_between, turns

from kafkawire import kernels
from localkafka import tools
from localkafka.client import log_end_offsets
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from producer.producer import Producer

COUNTS = {100: 2_000_000, 1000: 600_000}
LIMIT_S = 300
PEERS = {"kafka-python": ["kafka-python==1.4.7"], "confluent-kafka": ["confluent-kafka"]}
JVM = "JVM async"
HERE = Path(__file__).resolve()


# ---- our ways, each in a process of its own ---------------------------------------------------------------------


def send(producer: Producer, topic: str, value: bytes, count: int) -> None:
    """The loop of a user, with nothing around it; the same as in producepeers.py."""
    for _ in range(count):
        producer.send(topic, value)


def send_many(producer: Producer, topic: str, value: bytes, count: int) -> None:
    producer.send_many(topic, repeat(value, count))


@dataclass(frozen=True, slots=True)
class Way:
    call: Callable[[Producer, str, bytes, int], None]
    options: dict[str, object]


OURS = {
    "send": Way(send, {}),
    "send_many": Way(send_many, {"queue.buffering.max.messages": 100_000, "queue.buffering.max.bytes": 1 << 30}),
}


def send_ours(way: Way, broker: str, topic: str, size: int, count: int) -> float:
    options = {"metadata.broker.list": broker, "request.required.acks": 1, **way.options}
    value = b"x" * size
    with Producer(options) as producer:
        producer.send(topic, value).result(30)
        started = time.monotonic()
        way.call(producer, topic, value, count - 1)
        producer.flush(LIMIT_S)
        seconds = time.monotonic() - started
        assert (producer.counts.acked, producer.counts.failed) == (count, 0)
    return seconds


# ---- the run ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Task:
    """So many messages of so many bytes."""

    size: int
    count: int

    @property
    def work(self) -> str:
        return f"{self.size} B"


class Arena:
    """One cluster, the environment of the peers, and who cannot take part."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder, self.cluster = folder, cluster
        peers = Peers(folder / "peers", PEERS)
        self.python, self.absent = peers.python, peers.absent
        self.topics = 0

    def run(self, who: str, task: Task) -> Run | None:
        """None: it cannot take part, and absent says why."""
        self.topics += 1
        topic = f"bench{self.topics}"
        self.cluster.create_topic(topic, partitions=PARTITIONS, replication=1)
        before = cpu_of_children()
        try:
            done = subprocess.run(self.command(who, topic, task), capture_output=True, text=True, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            return self._without(who, task, f"not done after {LIMIT_S} s")
        cpu_seconds = cpu_of_children() - before
        if done.returncode:
            return self._without(who, task, last_line(done.stderr, "ended without a word"))
        seconds = jvm_seconds(done.stdout) if who == JVM else float(json.loads(done.stdout.splitlines()[-1]))
        arrived = sum(log_end_offsets(self.cluster, [topic]).values())
        self.delete(topic)
        checked = arrived == task.count
        return Run(
            work=task.work, who=who, messages=task.count, bytes=task.size,
            cpu_s=cpu_seconds, clock_s=seconds, checked=checked,
        )  # fmt: skip

    def command(self, who: str, topic: str, task: Task) -> Sequence[str]:
        arguments = [who, self.cluster.brokers, topic, str(task.size), str(task.count)]
        if who in OURS:
            return [sys.executable, str(HERE), "--send", *arguments]
        if who in PEERS:
            return [str(self.python), str(HERE.with_name("producepeers.py")), *arguments]
        argv = f"--broker-list {self.cluster.brokers} --topics {topic} --messages {task.count} --hide-header".split()
        argv += f"--message-size {task.size} --request-num-acks 1 --threads 1 --batch-size 200".split()
        return tools.java_command(VERSION, "kafka.tools.ProducerPerformance", argv)

    def delete(self, topic: str) -> None:
        """Its files are gone before the next one begins: the disk is not to be measured."""
        zk = self.cluster.zk()
        zk.create(f"/admin/delete_topics/{topic}", b"")
        wait_until(lambda: zk.exists(f"/brokers/topics/{topic}") is None, 60, f"{topic} to be deleted")

    def _without(self, who: str, task: Task, why: str) -> None:
        if who in OURS or who == JVM:
            raise SystemExit(f"{who}, {task.size} bytes: {why}")
        self.absent[who] = f"{task.size} bytes: {why}"


def cpu_of_children() -> float:
    """User and system seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def jvm_seconds(printed: str) -> float:
    """start.time, end.time, compression, message.size, batch.size, total.data.sent.in.MB, MB.sec, ..nMsg, nMsg.sec"""
    fields = next(line.split(", ") for line in printed.splitlines() if line.count(", ") >= 8)
    return seconds_between(*fields[:2])


# what is compared, and the ratios that it should have at least: per CPU second, and by the clock
WANTED = (("send", JVM, None, 1.0), ("send", "kafka-python", None, 5.0), ("send_many", "confluent-kafka", 1.2, 1.0))


@click.command()
@click.option("--small", is_flag=True, help="A tenth of the messages: the start of a process counts most of all then.")
@click.option("--sizes", default="100,1000", help="Bytes of a value.")
@click.option("--rounds", default=1, help="How often each sends, in turns; the median of each counts.")
@click.option("--who", default=",".join((JVM, *PEERS, *OURS)), help="Who takes part, separated by commas.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the results to this file, too.")
def main(small: bool, sizes: str, rounds: int, who: str, file: Path | None) -> None:
    """Send the same messages with our producer and with others, in turns, and print the ratios."""
    report = Report("produce", short=small, about={"kernels": kernels.name(), "acks": 1, "partitions": PARTITIONS})
    tasks = [Task(size, COUNTS.get(size, 500_000) // (10 if small else 1)) for size in map(int, sizes.split(","))]
    settings = {"log.segment.bytes": 1 << 30, "delete.topic.enable": True, "file.delete.delay.ms": 0}
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        Cluster(version=VERSION, brokers=1, settings=settings) as cluster,
    ):
        arena = Arena(Path(folder), cluster)
        for task in tasks:
            for one in turns(who.split(","), rounds):
                found = None if one in arena.absent else arena.run(one, task)
                if found is not None:
                    report.add(found)
            for ours, other, per_cpu, clock in WANTED:
                report.compare(task.work, ours, other, per_cpu=per_cpu, clock=clock)
    report.absent |= arena.absent
    report.end(file)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--send"]:
        name, address, topic_name, value_bytes, number = sys.argv[2:]
        print(json.dumps(send_ours(OURS[name], address, topic_name, int(value_bytes), int(number))))
    else:
        main()
