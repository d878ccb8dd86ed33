"""What the number of partitions costs the mirror daemon: 4, 200 and 2,000 of them, under the same load.

    python benchmarks/scaling.py [--small] [--partitions 4,200,2000] [--topics 200] [--json FILE]

One broker of 0.8.2.2 on each side; the target topics are there.  For each number of partitions, in a daemon of its own:

    assignment      from the start of the process to the first message of every partition at the target
    idle            CPU seconds a second while nothing is sent
    load            CPU microseconds a message, of so many messages a second spread over all partitions
    backlog         the same for messages that were there already, from the first one at the target on
    resident        the largest resident size (VmHWM)

Then topics that the target lacks: from the start to the last message of each, beside the time that the controller of
0.8.2.2 takes to bring as many up by itself (its own code, one partition after the other), before and after: with each
topic that a cluster has it takes longer.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import yaml
from common import VERSION, Report, Run, cpu_of

from kafkawire.cluster import topics
from kafkawire.cluster.listoffsets import LATEST, ask_offsets
from kafkawire.dialects import dialect
from kafkawire.formats.v01 import messages as codec
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol import requests08 as requests
from localkafka.child import Child
from localkafka.cluster import Cluster
from localkafka.java import SMALL
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until

LOAD, BACKLOG = "spread over all partitions as it comes, 100 B", "a backlog of all partitions, 100 B"
EACH = 10  # partitions of a topic
VALUE_BYTES = 100
SETTINGS = {"log.index.size.max.bytes": 65536, "log.segment.bytes": 1 << 28, "log.flush.interval.messages": 1 << 30}
FLAGS = ("-Xmx768m", *(flag for flag in SMALL if not flag.startswith("-Xmx")))
DIALECT = dialect(VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What a daemon with so many partitions took.  Times in seconds, us: microseconds of CPU time a message."""

    partitions: int
    assignment_s: float
    idle_percent: float
    load_us: float
    backlog_us: float
    backlog_per_s: float
    sent: int
    copied: int
    resident_mb: float
    checked: bool


class Site:
    """One cluster of a broker, spoken to in requests of many partitions."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        host, _, port = cluster.node(0).address.partition(":")
        self.broker = Broker(0, host, int(port))
        self._links = Links("scaling", timeout_ms=60_000)

    def create(self, names: Sequence[str], partitions: int) -> float:
        """Make topics and wait until the broker takes messages for all of them; how many seconds that took."""
        began = time.monotonic()
        assignment, zk = topics.assign([0], partitions, 1), self.cluster.zk()
        for name in names:
            topics.create(zk, name, assignment)
        missing = [TopicPartition(name, p) for name in names for p in range(partitions)]

        def led() -> bool:
            nonlocal missing
            found = self.ends(missing)
            missing = [tp for tp in missing if tp not in found]
            return not missing

        wait_until(led, 300, lambda: f"{len(missing)} partitions to be led")
        return time.monotonic() - began

    def ends(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Ends of the logs that the broker leads."""
        found = ask_offsets(self._links, DIALECT, {self.broker: list(tps)}, dict.fromkeys(tps, LATEST), purpose="ends")
        return {tp: end.offset for tp, end in found.items() if end.offset is not None}

    def total(self, tps: Sequence[TopicPartition]) -> int:
        return sum(self.ends(tps).values())

    def produce(self, tps: Sequence[TopicPartition], count: int, request_partitions: int = 500) -> None:
        """So many messages to each of these."""
        entries = codec.encode((n, None, b"%09d" % n + b"." * (VALUE_BYTES - 9), None) for n in range(count))
        at_once = max(1, min(request_partitions, (8 << 20) // len(entries)))
        for begin in range(0, len(tps), at_once):
            sets = {tp: [entries] for tp in tps[begin : begin + at_once]}
            request = requests.produce(DIALECT, 1, 30_000, sets)
            answers = self._links.link(self.broker, "produce").call(request)
            refused = {tp: answer.error for tp, answer in answers.items() if answer.error}
            if refused:
                raise SystemExit(f"the broker refused {refused}")


class Ground:
    """Two sites, and daemons from one to the other."""

    def __init__(self, folder: Path, source: Site, target: Site) -> None:
        self.folder, self.source, self.target = folder, source, target

    @contextmanager
    def daemon(self, name: str, whitelist: str) -> Iterator[Child]:
        file = self.folder / f"{name}.yaml"
        source, target = self.source.cluster, self.target.cluster
        settings = {
            "sources": [{"name": "bench", "group.id": name, "zookeeper.connect": source.zookeeper}],
            "target": {"metadata.broker.list": target.brokers, "target.zookeeper.connect": target.zookeeper},
            "mirror": {"whitelist": whitelist},
        }
        file.write_text(yaml.safe_dump(settings))
        child = Child(name, [str(COMMAND), "run", str(file)], self.folder / f"{name}.log")
        try:
            yield child
        finally:
            if code := child.stop(timeout_s=60):  # 75: it had not time to commit all, so some is copied twice
                print(f"{name} ended with {code}; {child.log_end(4)}", file=sys.stderr)

    def wait_for(self, child: Child, tps: Sequence[TopicPartition], count: int, poll_s: float = 0.2) -> float:
        """The moment at which the target has so many messages of these partitions."""

        def there() -> bool:
            if not child.running:
                raise SystemExit(f"{child.name} ended with {child.exit_code}; {child.log_end()}")
            return self.target.total(tps) >= count

        wait_until(there, 600, lambda: f"{count} messages; {child.log_end()}", poll_s)
        return time.monotonic()


def scale(ground: Ground, partitions: int, *, rate: int, load_s: float, idle_s: float, backlog: int) -> Scale:
    """One daemon with so many partitions."""
    each = min(EACH, partitions)
    names = [f"s{partitions}-{n}" for n in range(partitions // each)]
    tps = [TopicPartition(name, p) for name in names for p in range(each)]
    for site in (ground.source, ground.target):
        site.create(names, each)
    ground.source.produce(tps, 1)
    began = time.monotonic()
    with ground.daemon(f"scale{partitions}", f"s{partitions}-.*") as child:
        assignment_s = ground.wait_for(child, tps, len(tps)) - began
        time.sleep(12)  # the commits of the start, and what was busy a moment ago counts as that for a while
        idle = cpu_during(child, idle_s)
        per_tick = max(1, rate // 10)
        before = cpu_of(child.pid)
        sent = steady(ground.source, tps, per_tick, load_s)
        ground.wait_for(child, tps, len(tps) + sent)
        load = cpu_of(child.pid) - before
        resident = resident_mb(child)
    more = max(1, backlog // len(tps))
    ground.source.produce(tps, more)
    have = len(tps) + sent
    with ground.daemon(f"scale{partitions}", f"s{partitions}-.*") as child:
        first = ground.wait_for(child, tps, have + 1, 0.02)
        before, there = cpu_of(child.pid), ground.target.total(tps)
        last = ground.wait_for(child, tps, have + more * len(tps), 0.1)
        copied = have + more * len(tps) - there
        after = cpu_of(child.pid) - before
        resident = max(resident, resident_mb(child))
    return Scale(
        partitions=len(tps),
        assignment_s=assignment_s,
        idle_percent=100 * idle,
        load_us=1e6 * load / sent,
        backlog_us=1e6 * after / max(1, copied),
        backlog_per_s=copied / (last - first),
        sent=sent,
        copied=copied,
        resident_mb=resident,
        checked=same(ground, tps, child),
    )


def same(ground: Ground, tps: Sequence[TopicPartition], child: Child) -> bool:
    """Whether both sites have the same number of messages in each partition; if not, what the daemon said of it."""
    source, target = ground.source.ends(tps), ground.target.ends(tps)
    more = sum(max(0, target[tp] - end) for tp, end in source.items())
    less = sum(max(0, end - target[tp]) for tp, end in source.items())
    if more or less:
        print(f"{more} messages twice, {less} missing; {child.log_end(40)}", file=sys.stderr)
    return not (more or less)


def steady(site: Site, tps: Sequence[TopicPartition], per_tick: int, seconds: float) -> int:
    """Send messages ten times a second, to the partitions in turn; how many it were."""
    sent = at = 0
    width = min(len(tps), max(4, per_tick // 100), per_tick)  # partitions a tick
    until = time.monotonic() + seconds
    tick = time.monotonic()
    while tick < until:
        chosen = [tps[(at + n) % len(tps)] for n in range(width)]
        at = (at + width) % len(tps)
        site.produce(chosen, per_tick // width)
        sent += width * (per_tick // width)
        tick += 0.1
        time.sleep(max(0.0, tick - time.monotonic()))
    return sent


def cpu_during(child: Child, seconds: float) -> float:
    """CPU seconds a second."""
    before, began = cpu_of(child.pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_of(child.pid) - before) / (time.monotonic() - began)


def resident_mb(child: Child) -> float:
    status = Path(f"/proc/{child.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def new_topics(ground: Ground, count: int) -> tuple[float, float, float]:
    """Topics that the target lacks: seconds of their first copy, and those that the controller alone takes for as many,
    before and after."""
    names = [f"n{n}" for n in range(count)]
    tps = [TopicPartition(name, p) for name in names for p in range(EACH)]
    before = ground.target.create([f"p{n}" for n in range(count)], EACH)
    ground.source.create(names, EACH)
    ground.source.produce(tps, 5)
    with ground.daemon("new", "n[0-9]+") as child:
        began = time.monotonic()

        def there() -> bool:
            found = ground.target.ends(tps)
            return sum(found.values()) >= 5 * len(tps)

        wait_until(there, 600, lambda: f"the first copy of {count} topics; {child.log_end()}", 0.3)
        took = time.monotonic() - began
    return took, before, ground.target.create([f"q{n}" for n in range(count)], EACH)


@contextmanager
def ground() -> Iterator[Ground]:
    with (
        tempfile.TemporaryDirectory(prefix="scaling-") as folder,
        Cluster(version=VERSION, brokers=1, settings=SETTINGS, flags=FLAGS) as source,
        Cluster(version=VERSION, brokers=1, settings=SETTINGS, flags=FLAGS) as target,
    ):
        yield Ground(Path(folder), Site(source), Site(target))


def told(report: Report, found: Scale) -> None:
    """The runs of one number of partitions."""
    who = f"{found.partitions} partitions"
    also = {
        "first of each s": found.assignment_s,
        "idle % of a core": found.idle_percent,
        "resident MB": found.resident_mb,
    }
    report.add(
        Run(
            LOAD, who, found.sent, VALUE_BYTES, cpu_s=found.load_us * found.sent / 1e6, checked=found.checked, also=also
        )
    )
    report.add(
        Run(
            BACKLOG,
            who,
            found.copied,
            VALUE_BYTES,
            cpu_s=found.backlog_us * found.copied / 1e6,
            clock_s=found.copied / found.backlog_per_s,
            checked=found.checked,
        )
    )


def judge(report: Report, scales: Sequence[Scale]) -> None:
    """The targets, of the most partitions beside the fewest."""
    least, most = scales[0], scales[-1]
    who, peer = f"{most.partitions} partitions", f"{least.partitions} partitions"
    what = "CPU of a message"
    if least is not most:
        ratio = most.load_us / least.load_us
        report.figure(LOAD, what, ratio, target=2.0, at_most=True, who=who, peer=peer)
        ratio = most.backlog_us / least.backlog_us
        report.figure(BACKLOG, what, ratio, target=2.0, at_most=True, who=who, peer=peer)
    report.figure("idle", "% of a core", most.idle_percent, target=5.0, at_most=True, who=who)
    report.figure("resident size", "MB", most.resident_mb, target=256.0, at_most=True, who=who)
    report.figure("first message of every partition", "s", most.assignment_s, who=who)


@click.command()
@click.option("--small", is_flag=True, help="A fifth of the messages and seconds, to try the benchmark itself.")
@click.option("--partitions", "counts", default="4,200,2000", help="Numbers of partitions.")
@click.option("--topics", "topics_", default=200, help="New topics, of 10 partitions each; 0: none.")
@click.option("--rate", default=50_000, help="Messages a second of the load.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="A file for the figures.")
def main(small: bool, counts: str, topics_: int, rate: int, json_file: Path | None) -> None:
    """Mirror over few and many partitions under the same load, and print what a message and an idle second cost."""
    times = 0.2 if small else 1.0
    report = Report("scaling", small, {"messages a second under load": rate})
    scales: list[Scale] = []
    with ground() as site:
        for count in map(int, filter(None, counts.split(","))):
            scales.append(
                scale(
                    site,
                    count,
                    rate=rate,
                    load_s=max(4.0, 20 * times),
                    idle_s=max(5.0, 20 * times),
                    backlog=int(4_000_000 * times),
                )
            )
            told(report, scales[-1])
        if topics_:
            took, before, after = new_topics(site, topics_)
            work = f"{topics_} new topics of {EACH} partitions, first copy"
            report.figure(work, "s", took, target=20.0, at_most=True)
            report.figure(work, "s", before, who="the controller alone")
            report.figure(work, "s", after, who="the controller alone, afterwards")
    if scales:
        judge(report, scales)
    report.end(json_file)


if __name__ == "__main__":
    main()
