"""The mirror daemon out of a 0.7 cluster, against the JVM's MirrorMaker of 0.8.2.2 between two of 0.8, in one run.

    python benchmarks/mirror07.py [--small] [--sizes 100,1000] [--rounds 1]

Nothing but the KafkaMigrationTool ever did what ours does here: every message is decoded and encoded anew.  The JVM's
MirrorMaker, which copies within one generation, is the measure: messages per CPU second of the whole process (start
included) and per second of wall time.  0.7's side is a broker in Python in a process of its own; where it is the
slower one, the wall time is its.  The target of ours is then checked: number of messages and the sum of their CRCs as
they stand in the segment files, against what was produced.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import yaml
from common import PARTITIONS, VERSION, cpu_of, tell
from mirror import COLUMNS, COUNTS, ENTRY, Arena, Result, Task, sums

from groundwork import output
from kafkawire.v08 import messages as codec
from localkafka.child import Child
from localkafka.cluster import Cluster
from localkafka.mirror import COMMAND
from localkafka.seven.cluster import Cluster07

LOT = 10_000


class OldArena(Arena):
    """The same, and a 0.7 cluster that ours reads."""

    def __init__(self, folder: Path, source: Cluster, target: Cluster, old: Cluster07) -> None:
        super().__init__(folder, source, target)
        self.old = old

    def out_of_07(self, task: Task) -> Result:
        self.runs += 1
        topic = f"old{self.runs}"
        self.target.create_topic(topic, partitions=PARTITIONS, replication=1)
        wanted = self.fill_old(topic, task)
        child = Child("ours07", self.ours07(topic), self.folder / f"{topic}.log")
        try:
            started = self.wait_for(topic, 1, child)
            seconds = self.wait_for(topic, task.count, child) - started
            cpu_seconds = cpu_of(child.pid)
        finally:
            child.stop(timeout_s=20)
        return Result(task, "ours07", seconds, cpu_seconds, sums(self.target, topic) == (task.count, wanted))

    def fill_old(self, topic: str, task: Task) -> int:
        """The sum of the CRCs that the messages have in the format of 0.8."""
        total = 0
        for number, lot in enumerate(lots(task)):
            self.old.produce(topic, 0, number % PARTITIONS, lot)
            data, at = codec.encode((n, None, value, None) for n, value in enumerate(lot)), 0
            while at < len(data):
                _, size, crc = ENTRY.unpack_from(data, at)
                at, total = at + codec.LOG_OVERHEAD + size, total + crc
        return total

    def ours07(self, topic: str) -> Sequence[str]:
        file = self.folder / f"{topic}.yaml"
        read = {"name": "old", "version": "0.7.2", "zookeeper.connect": self.old.zookeeper, "group.id": f"ours-{topic}"}
        numbers = {"broker.partitions": f"0:{PARTITIONS}"}
        write = {"metadata.broker.list": self.target.brokers, "target.zookeeper.connect": self.target.zookeeper}
        file.write_text(
            yaml.safe_dump({"sources": [{**read, **numbers}], "target": write, "mirror": {"whitelist": topic}})
        )
        return [str(COMMAND), "run", str(file)]


def lots(task: Task) -> Iterator[list[bytes]]:
    filler = b"x" * (task.size - 12)
    for begin in range(0, task.count, LOT):
        yield [b"%012d%s" % (n, filler) for n in range(begin, min(task.count, begin + LOT))]


def report(results: Sequence[Result]) -> None:
    output.write([r.row() for r in results], COLUMNS)
    print()
    for task in dict.fromkeys(r.task for r in results):
        ours, jvm = ([r for r in results if r.task == task and r.who == who] for who in ("ours07", "jvm"))
        wall = sum(r.per_second for r in ours) / sum(r.per_second for r in jvm)
        cpu = sum(r.per_cpu_second for r in ours) / sum(r.per_cpu_second for r in jvm)
        print(f"{task.size} bytes: {wall:.1f} times the JVM's 0.8 to 0.8 per second, {cpu:.1f} per CPU second")


@click.command()
@click.option("--small", is_flag=True, help="A tenth of the messages, to try the benchmark itself.")
@click.option("--sizes", default="100,1000", help="Bytes of a value.")
@click.option("--rounds", default=1, help="How often each comparison is made, in turns.")
def main(small: bool, sizes: str, rounds: int) -> None:
    """Copy as many messages with the JVM's MirrorMaker (0.8 to 0.8) and with ours (0.7 to 0.8), in turns."""
    tasks = [Task(int(size), -1, COUNTS.get(int(size), 1_000_000) // (10 if small else 1)) for size in sizes.split(",")]
    results = []
    settings = {"log.segment.bytes": 1 << 30}
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        Cluster(version=VERSION, brokers=1, settings=settings) as source,
        Cluster(version=VERSION, brokers=1, settings=settings) as target,
        Cluster07(partitions=PARTITIONS, settings={"log.flush.interval": 1000, "log.file.size": 1 << 30}) as old,
    ):
        arena = OldArena(Path(folder), source, target, old)
        for task in tasks:
            for _ in range(rounds):
                results.append(arena.run("jvm", task))
                tell(results[-1].row())
                results.append(arena.out_of_07(task))
                tell(results[-1].row())
    report(results)
    sys.exit(0 if all(result.checked for result in results) else 1)


if __name__ == "__main__":
    main()
