"""Latency that a mirror adds at half load, and how long it takes from its start to the first message.

    python benchmarks/latency.py [--small] [--seconds 20] [--rate 0] [--json FILE]

Half load: half of the rate that the JVM's MirrorMaker of 0.8.2.2 reached in this run (--rate: another one), messages of
100 bytes, for both mirrors.  Both linger 5 ms (queue.buffering.max.ms); everything else is their default.

A writer adds a batch every 5 ms to a partition of the source, one of its messages marked.  Two readers ask source and
target for news all the time, and note when each mark was there.  What a mirror adds is the time between the two.
The first seconds are left out.  Start to first message: from the start of the process until the target has a message,
while messages are waiting at the source.  CRCs and counts are compared at the end.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import quantiles

import click
from arena import Arena, Progress, Work, fill, ground, same
from common import PARTITIONS, Report, Run, turns

from kafkawire.dialects import dialect
from kafkawire.formats.v01 import messages as codec
from kafkawire.model import TopicPartition
from kafkawire.net.links import Links
from localkafka.child import Child
from localkafka.client import ClusterClient
from localkafka.waiting import wait_until

SIZE = 100
EVERY_S = 0.005  # between batches
LINGER_MS = 5
WARM_S = 5.0
P99_MS = 100
MARK = re.compile(rb"mark (\d+) ")
FETCH_BYTES = 1 << 20


class Reader(threading.Thread):
    """Asks for all partitions of a topic all the time.  seen: when each mark was there."""

    def __init__(self, cluster: ClusterClient, topic: str) -> None:
        super().__init__(name=f"reader of {topic}", daemon=True)
        self.seen: dict[int, float] = {}
        self.ended = threading.Event()
        self._speaks, self._links = dialect(cluster.version), Links("reader")
        self._leader = cluster.registry().view(topic).leader(TopicPartition(topic, 0))
        self._offsets = {TopicPartition(topic, partition): 0 for partition in range(PARTITIONS)}

    def run(self) -> None:
        link = self._links.link(self._leader, "read")  # type: ignore[arg-type]
        while not self.ended.is_set():
            asked = [(tp, offset, FETCH_BYTES) for tp, offset in self._offsets.items()]
            response = link.call(self._speaks.requests.fetch(self._speaks, 100, 1, asked))
            at = time.monotonic()
            for fetched in response:
                if not len(fetched.buffer):
                    continue
                found, _ = self._speaks.messages.message_set(
                    fetched.tp.topic, fetched.tp.partition, self._offsets[fetched.tp], fetched.buffer, None
                )
                self._offsets[fetched.tp] = found.resume_at
                for mark in MARK.findall(fetched.buffer):
                    self.seen.setdefault(int(mark), at)
        self._links.close()


def write(cluster: ClusterClient, topic: str, rate: float, seconds: float) -> int:
    """Add so many messages a second; the number of them all."""
    speaks, links = dialect(cluster.version), Links("writer")
    leader = cluster.registry().view(topic).leader(TopicPartition(topic, 0))
    link = links.link(leader, "write")  # type: ignore[arg-type]
    each = max(1, round(rate * EVERY_S))
    rest = [(n, None, b"value".ljust(SIZE, b"."), None) for n in range(1, each)]
    began, turn = time.monotonic(), 0
    while (due := began + turn * EVERY_S) < began + seconds:
        time.sleep(max(0.0, due - time.monotonic()))
        tp = TopicPartition(topic, turn % PARTITIONS)
        entries = codec.encode([(0, None, (b"mark %d " % turn).ljust(SIZE, b"."), None), *rest])
        if not link.call(speaks.requests.produce(speaks, 1, 10_000, {tp: [entries]}))[tp].stored:
            raise SystemExit(f"{tp}: not stored")
        turn += 1
    links.close()
    return turn * each


def latency(arena: Arena, who: str, command: Callable[[str, Work], Sequence[str]], rate: float, seconds: float) -> Run:
    """One mirror at that load."""
    arena.runs += 1
    topic, work = f"latency{arena.runs}", Work("half load, 100 B", SIZE, 0, acks=1)
    for cluster in (arena.source, arena.target):
        cluster.create_topic(topic, partitions=PARTITIONS, replication=1)
    readers = [Reader(cluster, topic) for cluster in (arena.source, arena.target)]
    begins = replace(work, count=PARTITIONS)
    fill(arena.source, topic, begins)
    progress = Progress(arena.target, topic)
    with Child(who, command(topic, work), arena.folder / f"{topic}.log"):
        wait_until(lambda: progress.messages() >= begins.count, 60, f"{who} to begin")
        for reader in readers:
            reader.start()
        count = begins.count + write(arena.source, topic, rate, WARM_S + seconds)
        wait_until(lambda: progress.messages() >= count, 60, f"{count} messages of {topic}")
        wait_until(lambda: len(readers[1].seen) == len(readers[0].seen), 10, "the last mark")
        for reader in readers:
            reader.ended.set()
            reader.join()
        progress.close()
    at_source, at_target = (reader.seen for reader in readers)
    warm = int(WARM_S / EVERY_S)
    added = [1000 * (at_target[mark] - at) for mark, at in at_source.items() if mark >= warm]
    cuts = quantiles(added, n=100)
    equal = same(arena.source, arena.target, topic)
    also = {"rate": rate, "p50 ms": cuts[49], "p99 ms": cuts[98], "max ms": max(added)}
    return Run(work=work.name, who=who, messages=count, bytes=SIZE, checked=equal, also=also)


def first_message(arena: Arena, who: str, command: Callable[[str, Work], Sequence[str]]) -> Run:
    """From the start of a process to the first message at the target."""
    arena.runs += 1
    topic, work = f"first{arena.runs}", Work("start to first message", SIZE, 1000)
    for cluster in (arena.source, arena.target):
        cluster.create_topic(topic, partitions=PARTITIONS, replication=1)
    fill(arena.source, topic, work)
    progress, argv = Progress(arena.target, topic), command(topic, work)
    began = time.monotonic()
    with Child(who, argv, arena.folder / f"{topic}.log"):
        wait_until(lambda: progress.messages() >= 1, 60, f"the first message of {topic}", every_s=0.01)
        seconds = time.monotonic() - began
        wait_until(lambda: progress.messages() >= work.count, 60, f"all messages of {topic}")
    progress.close()
    equal = same(arena.source, arena.target, topic)
    return Run(work=work.name, who=who, messages=1, bytes=SIZE, clock_s=seconds, checked=equal)


@click.command()
@click.option("--small", is_flag=True, help="Ten seconds of load instead of thirty.")
@click.option("--seconds", default=0.0, help="Seconds of load that count; 0: thirty, or ten with --small.")
@click.option("--rate", default=0.0, help="Messages per second; 0: half of what the JVM's mirror reaches here.")
@click.option("--rounds", default=1, show_default=True, help="Runs of each, in turns; the median counts.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="File for runs and figures as JSON.")
def main(small: bool, seconds: float, rate: float, rounds: int, file: Path | None) -> None:
    """Compare what mirrors add to the latency at half load, and how quickly they start."""
    sys.setswitchinterval(0.0005)  # writer and readers share an interpreter
    seconds = seconds or (10.0 if small else 30.0)
    with ground() as (folder, source, target):
        arena = Arena(folder, source, target)

        def jvm(topic: str, work: Work) -> Sequence[str]:
            return arena.jvm(topic, work, **{"queue.buffering.max.ms": LINGER_MS})

        contestants = {"jvm": jvm, "ours": arena.ours}
        report = Report("latency", short=small, about={"linger ms": LINGER_MS, "acks": 1})
        if not rate:
            whole = report.add(arena.run(Work("full load, 100 B", SIZE, 400_000, acks=1), "jvm", jvm))
            rate = (whole.per_s or 0) / 2
        for who in turns(list(contestants), rounds):
            report.add(latency(arena, who, contestants[who], rate, seconds))
        for who in turns(list(contestants), rounds):
            report.add(first_message(arena, who, contestants[who]))
    work = "half load, 100 B"
    theirs = report.median(work, "jvm", "p99 ms") or 0.0
    report.figure(work, "p50 ms", report.median(work, "ours", "p50 ms") or 0.0)
    report.figure(work, "p99 ms", report.median(work, "ours", "p99 ms") or 0.0, target=P99_MS, at_most=True)
    report.figure(work, "p99 ms", theirs, who="jvm")
    report.figure(
        work, "p99 ms", (report.median(work, "ours", "p99 ms") or 0.0) / theirs, peer="jvm", target=1, at_most=True
    )
    work = "start to first message"
    for who in contestants:
        report.figure(work, "s", report.median(work, who, "clock_s") or 0.0, who=who)
    report.end(file)


if __name__ == "__main__":
    main()
