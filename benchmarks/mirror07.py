"""The mirror daemon out of a 0.7 cluster, against the JVM's MirrorMaker of 0.8.2.2 between two of 0.8, in one run.

    python benchmarks/mirror07.py [--small] [--sizes 100,1000] [--rounds 1] [--json FILE]

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
from arena import ENTRY, Arena, Work, ground, sums
from common import PARTITIONS, Report, Run, turns

from kafkawire.formats.v01 import messages as codec
from localkafka.child import Child
from localkafka.cluster import Cluster
from localkafka.seven.cluster import Cluster07

COUNTS = {100: 2_000_000, 1000: 500_000}
LOT = 10_000
NAME = "out of 0.7, {} bytes"


class OldArena(Arena):
    """The same, and a 0.7 cluster that ours reads."""

    def __init__(self, folder: Path, source: Cluster, target: Cluster, old: Cluster07) -> None:
        super().__init__(folder, source, target)
        self.old = old

    def out_of_07(self, work: Work) -> Run:
        """Ours, out of the 0.7 cluster."""
        self.runs += 1
        topic = f"old{self.runs}"
        self.target.create_topic(topic, partitions=PARTITIONS, replication=1)
        wanted = self.fill_old(topic, work)
        with Child("ours", self.ours07(topic), self.folder / f"{topic}.log") as child:
            first, last = self.measured(topic, work.count, child)
        return Run(
            work=work.name,
            who="ours",
            messages=last.messages - first.messages,
            bytes=work.size,
            cpu_s=last.cpu_s - first.cpu_s,
            clock_s=last.at - first.at,
            checked=sums(self.target, topic) == (work.count, wanted),
        )

    def fill_old(self, topic: str, work: Work) -> int:
        """The sum of the CRCs that the messages have in the format of 0.8."""
        total = 0
        for number, lot in enumerate(lots(work)):
            self.old.produce(topic, 0, number % PARTITIONS, lot)
            data, at = codec.encode((n, None, value, None) for n, value in enumerate(lot)), 0
            while at < len(data):
                _, size, crc, _, _ = ENTRY.unpack_from(data, at)
                at, total = at + codec.LOG_OVERHEAD + size, total + crc
        return total

    def ours07(self, topic: str) -> Sequence[str]:
        numbers = {"broker.partitions": f"0:{PARTITIONS}"}
        return self.mirror(topic, {"version": "0.7.2", "zookeeper.connect": self.old.zookeeper, **numbers}, {})


def lots(work: Work) -> Iterator[list[bytes]]:
    filler = b"x" * (work.size - 12)
    for begin in range(0, work.count, LOT):
        yield [b"%012d%s" % (n, filler) for n in range(begin, min(work.count, begin + LOT))]


@click.command()
@click.option("--small", is_flag=True, help="A tenth of the messages.")
@click.option("--sizes", default="100,1000", help="Bytes of a value.")
@click.option("--rounds", default=1, show_default=True, help="Runs of each, in turns; the median counts.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="File for runs and figures as JSON.")
def main(small: bool, sizes: str, rounds: int, file: Path | None) -> None:
    """Copy as many messages with the JVM's MirrorMaker (0.8 to 0.8) and with ours (0.7 to 0.8), in turns."""
    report = Report("mirror07", short=small)
    with (
        ground() as (folder, source, target),
        Cluster07(partitions=PARTITIONS, settings={"log.flush.interval": 1000, "log.file.size": 1 << 30}) as old,
    ):
        arena = OldArena(folder, source, target, old)
        for size in map(int, sizes.split(",")):
            work = Work(NAME.format(size), size, COUNTS.get(size, 500_000) // (10 if small else 1))
            for who in turns(("jvm, 0.8 to 0.8", "ours"), rounds):
                report.add(arena.out_of_07(work) if who == "ours" else arena.run(work, who, arena.jvm))
            report.compare(work.name, "ours", "jvm, 0.8 to 0.8")
    report.end(file)


if __name__ == "__main__":
    main()
