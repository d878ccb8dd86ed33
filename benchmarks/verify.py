"""`mirrormaker verify` against the JVM's SimpleConsumerShell, which only reads: the same two logs, in one run.

    python benchmarks/verify.py [--small] [--count 2000000] [--size 100] [--rounds 1] [--json FILE]

One message of the target is missing, so verify reads everything twice and has to find it.  The JVM's tool reads each
log once and formats nothing.  Printed for each: messages of both clusters per second and per CPU second of the whole
process, its start included, and its largest memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import yaml
from arena import ground
from common import VERSION, Report, Run, turns

from kafkawire.cluster.client import KafkaClient
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from localkafka import tools
from localkafka.cluster import Cluster
from localkafka.mirror import COMMAND

JVM = "JVM SimpleConsumerShell"
TOPIC = TopicPartition("verified", 0)
GROUP = "verify-benchmark"
LOT = 10_000
WAYS: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
    "verify": ((), {}),
    "verify, python": ((), {"KAFKAWIRE_KERNELS": "python"}),
    "verify --deep": (("--deep",), {}),
}


def fill(cluster: Cluster, count: int, size: int, without: int | None) -> None:
    """Messages of which no two are equal; without: the number of one that is left out."""
    cluster.create_topic(TOPIC.topic, 1)
    speaks, links = dialect(VERSION), Links("benchmark")
    host, port = cluster.brokers.split(",")[0].split(":")
    client = KafkaClient.of_brokers([(host, int(port))], links, speaks)
    leader = client.leader(TOPIC)
    assert isinstance(leader, Broker), leader
    for first in range(0, count, LOT):
        wanted = [n for n in range(first, min(count, first + LOT)) if n != without]
        rows = [(at, None, b"%d " % n + b"." * (size - len(str(n)) - 1), None) for at, n in enumerate(wanted)]
        request = speaks.requests.produce(speaks, -1, 10_000, {TOPIC: [speaks.messages.encode(rows, 0)]})
        assert not links.link(leader, "write").call(request)[TOPIC].error
    links.close()


def timed(command: Sequence[str], env: Mapping[str, str]) -> tuple[str, float, float, int]:
    """What a command printed, its seconds, its CPU seconds, its largest memory in MB."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as out, subprocess.Popen(command, stdout=out, env={**os.environ, **env}) as child:
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = 0
        seconds = time.monotonic() - began
        out.seek(0)
        return out.read().decode(), seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024


def run(who: str, count: int, size: int, cost: tuple[float, float, int], found: bool) -> Run:
    seconds, cpu, megabytes = cost
    return Run(f"{size} B", who, 2 * count - 1, size, cpu, seconds, found, {"MB of memory": megabytes})


def ours(who: str, file: Path, count: int, size: int) -> Run:
    flags, env = WAYS[who]
    printed, *cost = timed([str(COMMAND), "verify", str(file), "-o", "json", *flags], env)
    found = [(each["first_offset"], each["messages"]) for each in json.loads(printed)["differences"]]
    return run(who, count, size, (cost[0], cost[1], cost[2]), found == [(count // 3, 1)])


def jvm(clusters: Sequence[Cluster], count: int, size: int) -> Run:
    seconds, cpu, megabytes = 0.0, 0.0, 0
    for cluster in clusters:
        argv = f"--broker-list {cluster.brokers} --topic {TOPIC.topic} --partition 0 --offset -2 --fetchsize {4 << 20}"
        more = ["--no-wait-at-logend", "--formatter", "kafka.tools.NoOpMessageFormatter"]
        command = tools.java_command(VERSION, "kafka.tools.SimpleConsumerShell", [*argv.split(), *more])
        _, took, used, largest = timed(command, {})
        seconds, cpu, megabytes = seconds + took, cpu + used, max(megabytes, largest)
    return run(JVM, count, size, (seconds, cpu, megabytes), True)


@click.command()
@click.option("--small", is_flag=True, help="A tenth of the messages, to try the benchmark itself.")
@click.option("--count", default=2_000_000, help="Messages of each cluster.")
@click.option("--size", default=100, help="Bytes of a value.")
@click.option("--rounds", default=1, help="Runs of each, in turns; the median counts.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="File for runs and figures as JSON.")
def main(small: bool, count: int, size: int, rounds: int, json_file: Path | None) -> None:
    """Compare two logs with verify, read them with the JVM's tool, and print the ratios."""
    report, count = Report("verify", short=small), count // 10 if small else count
    with ground() as (folder, source, target):
        fill(source, count, size, None)
        fill(target, count, size, count // 3)
        zk, path = source.zk(), f"/consumers/{GROUP}/offsets/{TOPIC.topic}/0"
        zk.create(path, str(count).encode(), makepath=True)
        file = folder / "verify.yaml"
        settings = {
            "sources": [{"zookeeper.connect": source.zookeeper, "group.id": GROUP}],
            "target": {"metadata.broker.list": target.brokers, "target.zookeeper.connect": target.zookeeper},
            "mirror": {"whitelist": TOPIC.topic},
        }
        file.write_text(yaml.safe_dump(settings))
        for who in turns([*WAYS, JVM], rounds):
            report.add(jvm((source, target), count, size) if who == JVM else ours(who, file, count, size))
    for who in WAYS:
        report.compare(f"{size} B", who, JVM)
    report.end(json_file)


if __name__ == "__main__":
    main()
