"""Two clusters and contestants that copy from one to the other: what the benchmarks of mirrors share.

    with ground() as (folder, source, target):
        arena = Arena(folder, source, target)
        run = arena.run(Work("plain, 100 B", 100, 2_000_000), "ours", arena.ours)

A run fills a fresh topic at the source, starts the contestant, and looks at the target until all is there.  What is
measured is the steady state: from the moment on when three tenths of the messages have arrived (the JIT has compiled,
and a thread of ours has loaded the kernels, which takes 0.8 s) to the last one; seconds and the processor time of the
contestant's whole process, for the messages between.
What was fetched ahead of that moment would be left out: ours may fetch no more than 16 MB ahead (queued.max.bytes), as
the JVM does by its own defaults.
Then both topics are compared: the number of messages, and the sum of their CRCs straight from the segment files.
"""

from __future__ import annotations

import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import yaml
from common import BROKERS, PARTITIONS, VERSION, Run, tell

from kafkawire import compression
from kafkawire.cluster.listoffsets import LATEST, ask_offsets
from kafkawire.dialects import dialect
from kafkawire.formats.v01 import messages as codec
from kafkawire.model import TopicPartition
from kafkawire.net.links import Links
from localkafka import tools
from localkafka.child import Child
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.mirror import COMMAND

ENTRY = struct.Struct(">qiIbb")  # offset, size, crc, magic, attributes
CODEC = 0x07  # of the attributes
SET = 200  # messages of a compressed set, as the JVM's producer makes them
STEADY = 0.3  # share of the messages before the measuring begins
EVERY_S = 0.02
WAIT_S = 300
DISTINCT = -1
AHEAD_BYTES = 16 << 20
OPENED_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Work:
    """Messages of a topic, and what is to become of them.

    size        bytes of a value
    codec       of the sets at the source
    keys        how many different ones, in turns; 0: none, DISTINCT: each another
    partitions  of the target topic
    asked       compression.codec of the target; "": as the sets come.  The JVM, which opens each set, is asked for the
                codec of the source then
    """

    name: str
    size: int
    count: int
    codec: str = "none"
    keys: int = 0
    partitions: int = PARTITIONS
    asked: str = ""
    acks: int = -1

    def times(self, factor: float) -> Work:
        """The same with more messages: a quick contestant is to be measured as long as a slow one."""
        return replace(self, count=int(self.count * factor))


class Progress:
    """How many messages a topic has, asked over connections that stay open."""

    def __init__(self, cluster: ClusterClient, topic: str) -> None:
        self._speaks, self._links = dialect(cluster.version), Links("bench")
        view = cluster.registry().view(topic)
        self._led: dict[object, list[TopicPartition]] = {}
        for partition in view.partitions(topic):
            tp = TopicPartition(topic, partition)
            self._led.setdefault(view.leader(tp), []).append(tp)
        self._times = {tp: LATEST for tps in self._led.values() for tp in tps}

    def messages(self) -> int:
        found = ask_offsets(self._links, self._speaks, self._led, self._times, purpose="bench")  # type: ignore[arg-type]
        return sum(each.offset or 0 for each in found.values())

    def close(self) -> None:
        self._links.close()


@dataclass(frozen=True, slots=True)
class Moment:
    """At a time so much was there, for so much processor time of the contestant, and of the brokers."""

    at: float
    cpu_s: float
    brokers_s: float
    messages: int


def cpu_now(pid: int) -> float:
    """Processor time of a process so far, to the nanosecond, all its threads.  Raises OSError: there is none."""
    return time.clock_gettime((~pid << 3) | 2)


def steady(
    child: Child, topic: str, count: int, messages: Callable[[], int], brokers_s: Callable[[], float]
) -> tuple[Moment, Moment]:
    """The first moment and the last of a contestant's steady state.  messages: how many there are at the target;
    brokers_s: processor time of the brokers so far.

    Raises SystemExit when the contestant ends before, or does not come to count in WAIT_S.
    """
    until, first = time.monotonic() + WAIT_S, None
    while True:
        there = messages()
        if there >= STEADY * count:
            moment = Moment(time.monotonic(), cpu_now(child.pid), brokers_s(), there)
            first = first or moment
            if there >= count:
                return first, moment
        if not child.running:
            raise SystemExit(f"{child.name} ended with {child.exit_code}; {child.log_end()}")
        if time.monotonic() > until:
            raise SystemExit(
                f"{child.name}: {there} of {count} messages of {topic} after {WAIT_S} s; {child.log_end()}"
            )
        time.sleep(EVERY_S)


class Arena:
    """Two clusters, and what the contestants have in common."""

    def __init__(self, folder: Path, source: Cluster, target: Cluster) -> None:
        self.folder, self.source, self.target = folder, source, target
        self.runs = 0

    def run(
        self,
        work: Work,
        who: str,
        command: Callable[[str, Work], Sequence[str]],
        environment: Mapping[str, str] | None = None,
    ) -> Run:
        """One contestant.  command: its command line, for a topic."""
        self.runs += 1
        topic = f"bench{self.runs}"
        self.source.create_topic(topic, partitions=PARTITIONS, replication=1)
        self.target.create_topic(topic, partitions=work.partitions, replication=1)
        fill(self.source, topic, work)
        child = Child(
            who, command(topic, work), self.folder / f"{who}-{self.runs}.log".replace(" ", "-"), env=environment
        )
        try:
            first, last = self.measured(topic, work.count, child)
        finally:
            child.stop(timeout_s=20)
        return Run(
            work=work.name,
            who=who,
            messages=last.messages - first.messages,
            bytes=work.size,
            cpu_s=last.cpu_s - first.cpu_s,
            clock_s=last.at - first.at,
            checked=same(self.source, self.target, topic, work.partitions),
            also={BROKERS: last.brokers_s - first.brokers_s},
        )

    def measured(self, topic: str, count: int, child: Child) -> tuple[Moment, Moment]:
        """The steady state: its first moment and its last."""
        progress = Progress(self.target, topic)
        try:
            return steady(child, topic, count, progress.messages, self.brokers_s)
        finally:
            progress.close()

    def brokers_s(self) -> float:
        """Processor time of all brokers so far."""
        return sum(cpu_now(node.pid) for cluster in (self.source, self.target) for node in cluster.nodes)

    # contestants ------------------------------------------------------------------------------------------------------

    def ours(
        self, topic: str, work: Work, towards: Mapping[str, object] = MappingProxyType({}), **mirror: object
    ) -> Sequence[str]:
        """The daemon of this project; towards: options of its target; mirror: options of its own section."""
        asked = {"compression.codec": work.asked} if work.asked else {}
        source = {
            "zookeeper.connect": self.source.zookeeper,
            "queued.max.bytes": AHEAD_BYTES,
            "fetch.growth.max.bytes": AHEAD_BYTES,
        }
        return self.mirror(topic, source, {"request.required.acks": work.acks, **asked, **towards}, **mirror)

    def mirror(
        self, topic: str, source: Mapping[str, object], target: Mapping[str, object], **mirror: object
    ) -> Sequence[str]:
        """The daemon with these options of its source, its target and its own."""
        file = self.folder / f"{topic}.yaml"
        where = {"metadata.broker.list": self.target.brokers, "target.zookeeper.connect": self.target.zookeeper}
        settings = {
            "sources": [{"name": "bench", "group.id": f"ours-{topic}", **source}],
            "target": {**where, **target},
            "mirror": {"whitelist": topic, **mirror},
        }
        file.write_text(yaml.safe_dump(settings))
        return [str(COMMAND), "run", str(file)]

    def jvm(self, topic: str, work: Work, **producer: object) -> Sequence[str]:
        """kafka.tools.MirrorMaker of 0.8.2.2, its own partitioner; producer: properties on top."""
        compressed = work.asked or work.codec
        consumer, sends = self.folder / f"{topic}.consumer", self.folder / f"{topic}.producer"
        consumer.write_text(
            f"zookeeper.connect={self.source.zookeeper}\ngroup.id=jvm-{topic}\nauto.offset.reset=smallest\n"
        )
        properties = {
            "metadata.broker.list": self.target.brokers,
            "request.required.acks": work.acks,
            "producer.type": "async",
            "batch.num.messages": 500,
            "queue.enqueue.timeout.ms": -1,
            "compression.codec": compressed,
            **producer,
        }
        sends.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return tools.java_command(
            VERSION,
            "kafka.tools.MirrorMaker",
            f"--consumer.config {consumer} --producer.config {sends} --whitelist {topic} --num.streams 1".split(),
        )


# ---- messages --------------------------------------------------------------------------------------------------------


def fill(cluster: ClusterClient, topic: str, work: Work) -> None:
    """The messages of a work, numbered, spread over the partitions set by set."""
    speaks, links = dialect(cluster.version), Links("bench")
    number = compression.CODECS[work.codec]
    batch = SET if number else max(1, 1_000_000 // (work.size + 40))
    view = cluster.registry().view(topic)
    for turn, start in enumerate(range(0, work.count, batch)):
        tp = TopicPartition(topic, turn % PARTITIONS)
        entries = codec.encode(rows(work, start, min(batch, work.count - start)), number)
        request = speaks.requests.produce(speaks, 1, 10_000, {tp: [entries]})
        answer = links.link(view.leader(tp), "fill").call(request)[tp]  # type: ignore[arg-type]
        if not answer.stored:
            raise SystemExit(f"{tp}: error {answer.error} from the broker")
    links.close()


Row = tuple[int, bytes | None, bytes, None]


def rows(work: Work, start: int, count: int) -> Iterator[Row]:
    for n in range(start, start + count):
        key = None if not work.keys else b"key-%d" % (n if work.keys == DISTINCT else n * 7919 % work.keys)
        yield n - start, key, (b"value %d of %d " % (n, work.count)).ljust(work.size, b"."), None


def sums(cluster: ClusterClient, topic: str, partitions: int = PARTITIONS) -> tuple[int, int]:
    """A topic's messages and the sum of their CRCs, straight from the segment files of each partition's leader; those
    of compressed sets as they lie in the set.

    Of the whole topic: mirrors that choose partitions anew keep none.
    """
    count = total = 0
    for partition in range(partitions):
        for segment in cluster.segments(TopicPartition(topic, partition)):
            data = segment.read_bytes()
            found = crcs(data, codec.scan(data, 0).end)
            count, total = count + found[0], total + found[1]
    return count, total


def same(source: ClusterClient, target: ClusterClient, topic: str, partitions: int = PARTITIONS) -> bool:
    """Whether a topic has the same messages in both clusters, as far as their number and the sum of their CRCs say."""
    (sent, crc), (there, other) = sums(source, topic), sums(target, topic, partitions)
    if (sent, crc) != (there, other):
        tell({"topic": topic, "messages in the source": sent, "in the target": there, "sums equal": crc == other})
    return (sent, crc) == (there, other)


def crcs(data: bytes, end: int) -> tuple[int, int]:
    """Number of messages of these entries, and the sum of their CRCs."""
    count = total = at = 0
    while at < end:
        _offset, size, crc, _magic, attributes = ENTRY.unpack_from(data, at)
        used, after = attributes & CODEC, at + codec.LOG_OVERHEAD + size
        if used:
            value = memoryview(data)[at + ENTRY.size + 4 + 4 : after]  # without a key, as all wrappers are
            inner = compression.decompress(used, value, OPENED_BYTES)
            found = crcs(inner, len(inner))
            count, total = count + found[0], total + found[1]
        else:
            count += 1
            total += crc
        at = after
    return count, total


@contextmanager
def ground(brokers: int = 1) -> Iterator[tuple[Path, Cluster, Cluster]]:
    """A folder, and two clusters of a broker each."""
    settings = {"log.segment.bytes": 1 << 30}
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        Cluster(version=VERSION, brokers=brokers, settings=settings) as source,
        Cluster(version=VERSION, brokers=brokers, settings=settings) as target,
    ):
        yield Path(folder), source, target
