"""Our consumer against kafka-python, confluent-kafka and the JVM's ConsumerPerformance, on one broker, in one run.

    python benchmarks/consume.py [--small] [--sizes 100,1000] [--codecs none,snappy] [--rounds 1] [--json FILE]

Each reads the same topics of 4 partitions from their beginning, one after the other, each in a process of its own with
fetches of the same size.  The topics are written in batches of 200 messages, as 0.8's producers do: in one of a
megabyte a broker has to look for the position of every fetch, message by message, and the benchmark measures that.

What is timed: from the first ask to the last message, for all.  Before it the process has started, its libraries are
loaded (the compiled kernels with them), and its consumer is made: all of them fetch ahead from then on, the JVM for
the second that it sleeps.  The JVM's time is between the two times that it prints.

Beside it stands processor time: that of all threads of the reader's process.  It says more than the clock where other
programs run on the same cores.

    iterator        for message in stream: checksums on; the hub in a thread of its own, or the caller's
    batches         stream.batches(): offsets, keys and values as lists of int and bytes, as confluent-kafka's messages
                    hold them; without and with checksums, by each kernel
    sets            stream.sets(): sets of entries as they were fetched

The peers are installed into a virtual environment that is thrown away; one that cannot be installed, or reads nothing
of 0.8.2, is named and left out.  Every reader's count is checked, and where it sees offsets their sum.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from common import PARTITIONS, VERSION, Peers, Report, Run, Watch, last_line, seconds_between, turns

from kafkawire import kernels
from localkafka import tools
from localkafka.cluster import Cluster
from localkafka.load import Load, Mixture
from zkconsumer.connector import ConsumerConnector
from zkconsumer.streams.stream import Stream

FETCH_BYTES = 4 << 20
BATCH = 200
COUNTS = {100: 3_200_000, 1000: 800_000}
CODECS = {"none": 0, "gzip": 1, "snappy": 2}
LIMIT_S = 180
PEERS = {"kafka-python": ["kafka-python==1.4.7", "python-snappy"], "confluent-kafka": ["confluent-kafka"]}
JVM = "JVM ConsumerPerformance"
HERE = Path(__file__).resolve()


@dataclass(frozen=True, slots=True)
class Task:
    """A topic of so many messages of so many bytes."""

    topic: str
    size: int
    codec: str
    count: int

    @property
    def work(self) -> str:
        return f"{self.size} B{'' if self.codec == 'none' else f', {self.codec}'}"

    @property
    def offsets(self) -> int:
        """The sum of its offsets."""
        each = self.count // PARTITIONS
        return PARTITIONS * each * (each - 1) // 2


# ---- our readers, each in a process of its own -----------------------------------------------------------------


def messages(stream: Stream) -> Iterator[tuple[int, int]]:
    for message in stream:
        yield 1, message.offset


def batches(stream: Stream) -> Iterator[tuple[int, int]]:
    for batch in stream.batches():
        offsets, _, _ = batch.offsets, batch.keys, batch.values
        yield len(offsets), sum(offsets)


def sets(stream: Stream) -> Iterator[tuple[int, int]]:
    for message_set, share in stream.sets():
        share.ticket(message_set.resume_at).done()
        yield message_set.resume_at - message_set.start, sum(range(message_set.start, message_set.resume_at))


@dataclass(frozen=True, slots=True)
class Way:
    """How a reader of ours reads."""

    read: Callable[[Stream], Iterator[tuple[int, int]]]
    hub: str = "own"
    check_crcs: bool = True
    kernels: str = "python"


OURS = {
    "iterator, own hub": Way(messages),
    "iterator, caller's hub": Way(messages, hub="caller"),
    "batches, no crc": Way(batches, check_crcs=False),
    "batches": Way(batches),
    "batches, numba": Way(batches, kernels="numba"),
    "sets": Way(sets),
}


def read_ours(way: Way, zookeeper: str, task: Task) -> dict[str, float]:
    if not kernels.name().startswith(way.kernels):
        raise SystemExit(f"kernels of {way.kernels} asked for, but {kernels.name()} runs")
    kernels.prepare()
    options = {
        "zookeeper.connect": zookeeper,
        "group.id": f"bench-{os.getpid()}",
        "auto.offset.reset": "smallest",
        "fetch.message.max.bytes": FETCH_BYTES,
        "check.crcs": way.check_crcs,
        "consumer.timeout.ms": 20_000,
    }
    with ConsumerConnector(options, hub=way.hub) as connector:  # type: ignore[arg-type]
        (stream,) = connector.create_message_streams({task.topic: 1})[task.topic]
        if way.read is messages:
            return iterate(stream, task.count)
        read = offsets = 0
        watch = Watch()
        for count, total in way.read(stream):
            read += count
            offsets += total
            if read >= task.count:
                break
        return {"read": read, "offsets": offsets, **watch.passed()}


def iterate(stream: Stream, count: int) -> dict[str, float]:
    """The loop of a user, with nothing around it; the same as in peers.py."""
    read = offsets = 0
    watch = Watch()
    for message in stream:
        offsets += message.offset
        read += 1
        if read >= count:
            break
    return {"read": read, "offsets": offsets, **watch.passed()}


# ---- the run ---------------------------------------------------------------------------------------------------


class Arena:
    """One cluster, the environment of the peers, and who cannot take part."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder, self.cluster = folder, cluster
        peers = Peers(folder / "peers", PEERS)
        self.python, self.absent = peers.python, peers.absent

    def fill(self, task: Task) -> None:
        self.cluster.create_topic(task.topic, partitions=PARTITIONS, replication=1)
        load = Load(self.cluster.brokers, VERSION)
        load.produce(task.topic, PARTITIONS, task.count, Mixture(0.0, (CODECS[task.codec],), task.size), BATCH)
        load.close()

    def readers(self) -> dict[str, Callable[[Task], Run | None]]:
        ours: dict[str, Callable[[Task], Run | None]] = {
            who: lambda task, who=who: self.ours(who, task)  # type: ignore[misc]
            for who in OURS
        }
        peers = {who: lambda task, who=who: self.peer(who, task) for who in PEERS}
        return {**peers, JVM: self.jvm, **ours}

    def ours(self, who: str, task: Task) -> Run | None:
        command = [sys.executable, str(HERE), "--read", who, self.cluster.zookeeper, task.topic]
        return self._read(who, task, [*command, str(task.size), task.codec, str(task.count)], OURS[who].kernels)

    def peer(self, who: str, task: Task) -> Run | None:
        script = str(HERE.with_name("peers.py"))
        broker = self.cluster.brokers.split(",")[0]
        command = [str(self.python), script, who, broker, task.topic, str(PARTITIONS), str(task.count)]
        return self._read(who, task, [*command, str(FETCH_BYTES)], "")

    def _read(self, who: str, task: Task, command: Sequence[str], kernels: str) -> Run | None:
        environment = {**os.environ, "KAFKAWIRE_KERNELS": kernels} if kernels else None
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=environment)
        except subprocess.TimeoutExpired:
            return self._without(who, task, f"nothing to show after {LIMIT_S} s")
        if done.returncode:
            return self._without(who, task, last_line(done.stderr, "ended without a word"))
        found = json.loads(done.stdout.splitlines()[-1])
        if not found["read"]:
            return self._without(who, task, f"reads {found['read']} messages of {VERSION}")
        same = (found["read"], found["offsets"]) == (task.count, task.offsets)
        return Run(task.work, who, found["read"], task.size, found["cpu"], found["seconds"], same)

    def _without(self, who: str, task: Task, why: str) -> Run | None:
        if who in OURS and OURS[who].kernels != "numba":
            raise SystemExit(f"{who}, {task.size} bytes, {task.codec}: {why}")
        self.absent[who] = f"{task.size} bytes, {task.codec}: {why}"
        return None

    def jvm(self, task: Task) -> Run | None:
        """Asked for fewer messages than there are, else it waits for more.  Its own figures are wrong: it takes its
        time-out off its time though there was none."""
        asked = task.count * 9 // 10
        argv = f"--zookeeper {self.cluster.zookeeper} --topic {task.topic} --messages {asked} --threads 1".split()
        argv += [
            "--fetch-size",
            str(FETCH_BYTES),
            "--hide-header",
            "--group",
            f"jvm-{task.topic}-{time.monotonic_ns()}",
        ]
        command = tools.java_command(VERSION, "kafka.tools.ConsumerPerformance", argv)
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        lines = [line.split(", ") for line in done.stdout.splitlines() if line.count(", ") >= 5]
        if not lines:
            return self._without(JVM, task, last_line(done.stderr, "printed nothing"))
        read, seconds = int(lines[-1][-2]), seconds_between(*lines[-1][:2])
        return Run(task.work, JVM, read, task.size, clock_s=seconds, checked=asked <= read <= task.count)


# what is compared, and the ratio that it should have at least by the clock (by bytes of a message where that differs)
WANTED: Sequence[tuple[str, str, dict[int, float]]] = (
    ("iterator, own hub", "kafka-python", {100: 5.0, 1000: 4.0}),
    ("iterator, own hub", "iterator, caller's hub", {100: 0.9, 1000: 0.9}),
    ("batches, no crc", "confluent-kafka", {100: 1.0, 1000: 1.0}),
    ("batches", "confluent-kafka", {100: 0.8, 1000: 0.8}),
    ("batches, numba", "confluent-kafka", {100: 2.0, 1000: 2.0}),
    ("sets", JVM, {100: 1.0, 1000: 1.0}),
)


@click.command()
@click.option("--small", is_flag=True, help="A tenth of the messages, to try the benchmark itself.")
@click.option("--sizes", default="100,1000", help="Bytes of a value.")
@click.option("--codecs", default="none,snappy", help="none, gzip, snappy.")
@click.option("--rounds", default=1, help="How often each reads each topic, in turns; the median of each counts.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="File for runs and figures as JSON.")
def main(small: bool, sizes: str, codecs: str, rounds: int, file: Path | None) -> None:
    """Read the same topics with our consumer and with others, in turns, and print the ratios."""
    report, tasks = Report("consume", short=small), []
    for size, codec in itertools.product(map(int, sizes.split(",")), codecs.split(",")):
        count = COUNTS.get(size, 400_000) // (10 if small else 1)
        tasks.append(Task(f"bench-{size}-{codec}", size, codec, count))
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        Cluster(version=VERSION, brokers=1, settings={"log.segment.bytes": 1 << 30}) as cluster,
    ):
        arena = Arena(Path(folder), cluster)
        for task in tasks:
            arena.fill(task)
        readers = arena.readers()
        for task in tasks:
            for who in turns(list(readers), rounds):
                found = None if who in arena.absent else readers[who](task)
                if found is not None:
                    report.add(found)
            for ours, other, wanted in WANTED:
                report.compare(task.work, ours, other, clock=wanted.get(task.size) if task.codec == "none" else None)
    report.absent |= arena.absent
    report.end(file)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        name, connect, topic_name, value_bytes, codec_name, number = sys.argv[2:]
        print(json.dumps(read_ours(OURS[name], connect, Task(topic_name, int(value_bytes), codec_name, int(number)))))
    else:
        main()
