"""The mirror daemon out of a 0.7 cluster, against the JVM's MirrorMaker of 0.8.2.2 between two of 0.8, in one run.

    python benchmarks/mirror07.py [--small] [--sizes 100,1000] [--rounds 1]

Nothing but the KafkaMigrationTool ever did what ours does here: every message is decoded and encoded anew.  The JVM's
MirrorMaker, which copies within one generation, is the measure: messages per CPU second of the whole process (start
included) and per second of wall time.  0.7's side is a broker in Python in a process of its own; where it is the
slower one, the wall time is its.  The target of ours is then checked: number of messages and the sum of their CRCs as
they stand in the segment files, against what was produced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from common import PARTITIONS, Result, Task, leave, told
from mirror import COLUMNS, COUNTS, ENTRY, Arena, ground, ratios, sums

from groundwork import output
from kafkawire.formats.v01 import messages as codec
from localkafka.cluster import Cluster
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
        took = self.timed("ours07", self.ours07(topic), topic, task)
        return Result(task, "ours07", *took, sums(self.target, topic) == (task.count, wanted))

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
        numbers = {"broker.partitions": f"0:{PARTITIONS}"}
        return self.mirror(topic, {"version": "0.7.2", "zookeeper.connect": self.old.zookeeper, **numbers}, {})


def lots(task: Task) -> Iterator[list[bytes]]:
    filler = b"x" * (task.size - 12)
    for begin in range(0, task.count, LOT):
        yield [b"%012d%s" % (n, filler) for n in range(begin, min(task.count, begin + LOT))]


def report(results: Sequence[Result]) -> None:
    output.write([r.row() for r in results], COLUMNS)
    print()
    for task, wall, cpu in ratios(results, "ours07"):
        print(f"{task.size} bytes: {wall:.1f} times the JVM's 0.8 to 0.8 per second, {cpu:.1f} per CPU second")


@click.command()
@click.option("--small", is_flag=True, help="A tenth of the messages, to try the benchmark itself.")
@click.option("--sizes", default="100,1000", help="Bytes of a value.")
@click.option("--rounds", default=1, help="How often each comparison is made, in turns.")
def main(small: bool, sizes: str, rounds: int) -> None:
    """Copy as many messages with the JVM's MirrorMaker (0.8 to 0.8) and with ours (0.7 to 0.8), in turns."""
    tasks = [Task(int(size), -1, COUNTS.get(int(size), 1_000_000) // (10 if small else 1)) for size in sizes.split(",")]
    with (
        ground() as (folder, source, target),
        Cluster07(partitions=PARTITIONS, settings={"log.flush.interval": 1000, "log.file.size": 1 << 30}) as old,
    ):
        arena = OldArena(folder, source, target, old)
        ways = (lambda task: arena.run("jvm", task), arena.out_of_07)
        results = told(way(task) for task in tasks for _ in range(rounds) for way in ways)
    report(results)
    leave(results)


if __name__ == "__main__":
    main()
