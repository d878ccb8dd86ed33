"""The mirror daemon over a long link: how much of what the link passes it uses, in steady state.

    python benchmarks/longlink.py [--small] [--far source,target] [--kinds plain,mixed] [--jvm] [--set target.X=Y]
        [--json FILE]

A proxy before one of the brokers is the link: 80 ms round trip, 100 Mbit/s of all connections together.  What it really
passes is measured first, by one connection that only sends: the shares are parts of that.  `far` says which side is
behind the link: the source (fetch far, as conf/wan.yaml) or the target (produce far).  `plain` are sets of messages of
1,000 bytes; `mixed` the same with 30 % of the sets compressed by gzip, in any order.  Both targets are read again:
number of messages, and the sum of the checksums of their values.
"""

from __future__ import annotations

import random
import socket
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import click
import yaml
from arena import cpu_now
from common import PARTITIONS, VERSION, Report, Run

from kafkawire.cluster.client import KafkaClient
from kafkawire.dialects import dialect
from kafkawire.formats.v01 import messages as codec
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol import requests08 as requests
from localkafka import tools
from localkafka.child import Child
from localkafka.client import log_end_offsets
from localkafka.cluster import Cluster
from localkafka.mirror import COMMAND
from localkafka.proxy import Proxy
from localkafka.waiting import wait_until

ROUND_TRIP_MS = 80
LINK_BYTES = 100_000_000 // 8  # a second
TARGETS = {"plain": 0.9, "mixed": 0.5}  # shares of the link
GZIP_SHARE = 0.3
VALUE_BYTES = 1000
SET_MESSAGES = 40  # of a set as it was produced
COUNT = 240_000
VALUES = 512  # different ones, of letters that gzip halves
SHARE = "share of the link"


def link_rate(seconds: float = 4.0) -> float:
    """Bytes a second that a link of the proxy passes for one connection, from the second second on."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server, Proxy(server.getsockname()[:2]) as proxy:
        proxy.link(LINK_BYTES, ROUND_TRIP_MS)

        def send() -> None:
            taken, _ = server.accept()
            with closing(taken):
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    taken.sendall(bytes(1 << 18))

        sender = threading.Thread(target=send)
        sender.start()
        with socket.create_connection(proxy.address) as reader:
            began, before = time.monotonic() + 1, 0
            place = bytearray(1 << 20)
            while reader.recv_into(place):
                now = time.monotonic()
                if now < began:
                    before = proxy.counters.bytes_to_client
            sender.join()
            return (proxy.counters.bytes_to_client - before) / (now - began)


def work(far: str, kind: str) -> str:
    return f"far {far}, {'30 % gzip sets' if kind == 'mixed' else 'plain'}, 1 KB"


class Arena:
    """Two clusters, each broker behind a proxy that is a link while it is far."""

    def __init__(self, folder: Path, source: Cluster, target: Cluster, settings: Sequence[str]) -> None:
        self.folder, self.clusters = folder, {"source": source, "target": target}
        self.settings = settings
        self.link_bytes = link_rate()
        self.topics: dict[tuple[str, int], str] = {}
        self.runs = 0

    def run(self, who: str, far: str, kind: str, count: int) -> Run:
        self.runs += 1
        topic = self.filled(kind, count)
        proxy = self.clusters[far].node(0).proxy
        wanted = self.clusters["target"]
        wanted.create_topic(topic, partitions=PARTITIONS, replication=1)
        child = Child(who, getattr(self, who)(topic), self.folder / f"{who}{self.runs}.log")
        to_client = far == "source"

        def passed() -> int:
            counters = proxy.counters
            return counters.bytes_to_client if to_client else counters.bytes_to_target

        def until(there: bool, what: str) -> bool:
            if not child.running:
                raise SystemExit(f"{who} ended with {child.exit_code} before {what}; {child.log_end()}")
            return there

        try:
            before = passed()
            proxy.link(LINK_BYTES, ROUND_TRIP_MS)
            wait_until(lambda: until(passed() > before + 1_000_000, "a megabyte"), 120, "a megabyte to pass")
            began, before, cpu = time.monotonic(), passed(), cpu_now(child.pid)
            there = lambda: until(sum(log_end_offsets(wanted, [topic]).values()) >= count, "all messages")  # noqa: E731
            wait_until(there, 900, lambda: f"{count} messages of {topic}; {child.log_end()}")
            seconds, crossed, cpu = time.monotonic() - began, passed() - before, cpu_now(child.pid) - cpu
        finally:
            proxy.clear()
            child.stop(timeout_s=20)
        same = all(content(cluster, topic) == (count, self.sum) for cluster in self.clusters.values())
        rate = crossed / seconds
        return Run(
            work=work(far, kind),
            who=who,
            messages=count,
            bytes=VALUE_BYTES,
            cpu_s=cpu,
            clock_s=seconds,
            checked=same,
            also={"MB/s": rate / 1e6, SHARE: rate / self.link_bytes},
        )

    def filled(self, kind: str, count: int) -> str:
        """A new topic of the source with so many messages; the sum of their values is in .sum."""
        topic = f"long{self.runs}"
        source = self.clusters["source"]
        source.create_topic(topic, partitions=PARTITIONS, replication=1)
        dice = random.Random(1)
        letters = [bytes(dice.choices(b"0123456789abcdef", k=VALUE_BYTES)) for _ in range(VALUES)]
        sums = [zlib.crc32(value) for value in letters]
        links = Links("longlink")
        client = KafkaClient.of_brokers([source.node(0).proxy.address], links, dialect(VERSION))
        self.sum = 0
        try:
            for number in range(0, count, SET_MESSAGES):
                chosen = [dice.randrange(VALUES) for _ in range(min(SET_MESSAGES, count - number))]
                self.sum += sum(sums[n] for n in chosen)
                rows = [(at, None, letters[n], None) for at, n in enumerate(chosen)]
                packed = codec.encode(rows, 1 if kind == "mixed" and dice.random() < GZIP_SHARE else 0)
                tp = TopicPartition(topic, number // SET_MESSAGES % PARTITIONS)
                leader = client.leader(tp)
                assert isinstance(leader, Broker), leader
                request = requests.produce(dialect(VERSION), 1, 10_000, {tp: [packed]})
                assert links.link(leader, "load").call(request)[tp].error == 0
        finally:
            links.close()
        return topic

    def ours(self, topic: str) -> Sequence[str]:
        file = self.folder / f"{topic}.yaml"
        source, target = self.clusters["source"], self.clusters["target"]
        where = {"metadata.broker.list": target.brokers, "target.zookeeper.connect": target.zookeeper}
        settings: dict[str, dict[str, object]] = {
            "source": {"name": "bench", "zookeeper.connect": source.zookeeper, "group.id": f"ours-{topic}"},
            "target": {**where, "request.required.acks": 1},
            "mirror": {"whitelist": topic},
        }
        for setting in self.settings:
            name, _, value = setting.partition("=")
            part, _, option = name.partition(".")
            settings[part][option] = yaml.safe_load(value)
        file.write_text(yaml.safe_dump({"sources": [settings.pop("source")], **settings}))
        return [str(COMMAND), "run", str(file)]

    def jvm(self, topic: str) -> Sequence[str]:
        consumer, producer = self.folder / f"{topic}.consumer", self.folder / f"{topic}.producer"
        source, target = self.clusters["source"], self.clusters["target"]
        consumer.write_text(f"zookeeper.connect={source.zookeeper}\ngroup.id=jvm-{topic}\nauto.offset.reset=smallest\n")
        producer.write_text(
            f"metadata.broker.list={target.brokers}\nrequest.required.acks=1\nproducer.type=async\n"
            "batch.num.messages=500\nqueue.enqueue.timeout.ms=-1\n"
        )
        return tools.java_command(
            VERSION,
            "kafka.tools.MirrorMaker",
            f"--consumer.config {consumer} --producer.config {producer} --whitelist {topic} --num.streams 1".split(),
        )


def content(cluster: Cluster, topic: str) -> tuple[int, int]:
    """Number of a topic's messages and the sum of the checksums of their values, straight from the segment files."""
    count = total = 0
    for partition in range(PARTITIONS):
        for segment in cluster.segments(TopicPartition(topic, partition)):
            found, _ = codec.message_set(topic, partition, 0, memoryview(segment.read_bytes()), None)
            for message in found.messages():
                count += 1
                total += zlib.crc32(message.value or b"")
    return count, total


@contextmanager
def ground() -> Iterator[tuple[Path, Cluster, Cluster]]:
    """A folder, and two clusters of a broker behind a proxy each."""
    settings = {"log.segment.bytes": 1 << 30}
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        Cluster(version=VERSION, settings=settings, proxied=True) as source,
        Cluster(version=VERSION, settings=settings, proxied=True) as target,
    ):
        yield Path(folder), source, target


@click.command()
@click.option("--small", is_flag=True, help="A quarter of the messages, to try the benchmark itself.")
@click.option("--far", default="source,target", help="Which side is behind the link.")
@click.option("--kinds", default="plain,mixed", help="plain; mixed: 30 % of the sets are compressed by gzip.")
@click.option("--jvm", is_flag=True, help="The JVM's MirrorMaker too; with mixed it takes minutes.")
@click.option("--set", "settings", multiple=True, help="An option of ours: source.NAME=VALUE, target.NAME=VALUE ..")
@click.option("--json", "file", type=click.Path(path_type=Path), help="File for runs and figures as JSON.")
def main(small: bool, far: str, kinds: str, jvm: bool, settings: Sequence[str], file: Path | None) -> None:
    """Mirror over a long link and print which share of it is used."""
    contestants = ["jvm", "ours"] if jvm else ["ours"]
    with ground() as (folder, source, target):
        arena = Arena(folder, source, target, settings)
        about = {"round trip ms": ROUND_TRIP_MS, "link passes MB/s": round(arena.link_bytes / 1e6, 2), "acks": 1}
        report = Report("longlink", short=small, about=about)
        for side in far.split(","):
            for kind in kinds.split(","):
                for who in contestants:
                    run = report.add(arena.run(who, side, kind, COUNT // (4 if small else 1)))
                    wanted = TARGETS[kind] if who == "ours" else None
                    report.figure(run.work, SHARE, run.also[SHARE], target=wanted, who=who)
                report.compare(work(side, kind), "ours", "jvm")
    report.end(file)


if __name__ == "__main__":
    main()
