"""Format kafka08 against what people would write otherwise: rows a second out of a real 0.8.2.2 broker, in one run.

    python benchmarks/spark.py [--small] [--rounds 3] [--without-many] [--json FILE]

    kafka08      this source, with the compiled kernels, and again without (KAFKAWIRE_KERNELS=python)
    tuples       a Python data source that yields a tuple a message, over the same decoder
    constant     record batches that are there already: what Spark itself takes of each, and so the bound of all of them
    mapInArrow   over confluent-kafka's consume(10000), assigned ranges, columns built from lists

All in a Spark session of two cores (one for each form of the decoder), with checksums on and fetches of the same size,
from topics of 4 partitions written in batches of 200 messages of random bytes, to noop and to Parquet.  Then
20,000,000 rows in 1,000 partitions against the same rows in 4, planning included.  Processor time is that
of Spark's JVM and its Python workers; the median round of each counts.

confluent-kafka and pandas, which mapInArrow asks for, are installed into an environment that is thrown away and that
sees this one's packages; the whole run is made in it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import pyarrow
from common import VERSION, Peers, Report, Run

from kafkawire.dialects import dialect
from kafkawire.model import TopicPartition
from kafkawire.net.links import Links
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster

BATCH = 200
DIFFERENT = 500  # batches, sent again and again: fifty thousand messages later no compression remembers them
SIZES = {100: 6_400_000, 1000: 1_600_000}
MANY = 20_000_000
FEW, MANY_PARTITIONS = 4, 1000
SETTINGS = {"log.segment.bytes": 1 << 30, "log.index.size.max.bytes": 1 << 20}
HERE = Path(__file__).resolve()
PEER = "mapInArrow"
NEEDS = {PEER: ["confluent-kafka", "pandas<3"]}
# who, beside whom, sink: the ratio wanted by the clock, of each size, with kernels and without
WANTED: dict[tuple[str, str, str], dict[int, tuple[float | None, float | None]]] = {
    ("kafka08", "tuples", "noop"): {100: (4.0, 2.0), 1000: (3.0, None)},
    ("kafka08", "tuples", "parquet"): {100: (1.5, 1.2)},
    ("kafka08", PEER, "noop"): {100: (2.0, None)},
    ("constant", "tuples", "noop"): {},
}
FLOOR = {"numba": 2_500_000, "python": 1_000_000}  # rows a second of 100 bytes to noop
SAME = 1.3  # what a row in 1,000 partitions may cost of one in 4


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    partitions: int
    count: int
    size: int

    @property
    def task(self) -> dict[str, Any]:
        return {**asdict(self), "bytes": self.count * self.size}


def fill(cluster: ClusterClient, topic: Topic) -> None:
    """Equal partitions, in batches as 0.8's producers send them, every batch of one partition."""
    cluster.create_topic(topic.name, partitions=topic.partitions, timeout_s=300)
    spoken, draw = dialect(VERSION), random.Random(topic.size)
    each = topic.count // topic.partitions
    sets = [
        bytes(spoken.messages.encode([(n, None, draw.randbytes(topic.size), None) for n in range(BATCH)]))
        for _ in range(min(DIFFERENT, -(-topic.count // BATCH)))
    ]
    view, links = cluster.registry().view(topic.name), Links("bench")
    for partition in range(topic.partitions):
        tp = TopicPartition(topic.name, partition)
        link = links.link(view.leader(tp), "produce")  # type: ignore[arg-type]
        for number in range(each // BATCH):
            entries = sets[(number + 7 * partition) % len(sets)]
            answer = link.call(spoken.requests.produce(spoken, 1, 10_000, {tp: [entries]}))[tp]
            if not answer.stored:
                raise SystemExit(f"{tp}: error {answer.error} from the broker")
    links.close()


def lines(python: Path, kernels: str, task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What sparkways.py prints."""
    surroundings = {**os.environ, "KAFKAWIRE_KERNELS": kernels, "PYSPARK_PYTHON": str(python)}
    command = [str(python), str(HERE.with_name("sparkways.py")), json.dumps(task)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=surroundings) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("{"):
                print(f"{kernels}: {line.strip()}", file=sys.stderr, flush=True)
                yield {"kernels": kernels, **json.loads(line)}
    if child.returncode:
        raise SystemExit(f"sparkways.py with kernels of {kernels} ended with {child.returncode}")


def work(kernels: str, size: int, sink: str) -> str:
    return f"{size} B to {sink}{'' if kernels == 'numba' else ', pure'}"


def compare(report: Report) -> None:
    """Rates with kernels and without, and the ratios to the other ways, beside what is wanted."""
    for number, (kernels, least) in enumerate(FLOOR.items()):
        rate = report.median(work(kernels, 100, "noop"), "kafka08", "per_s")
        if rate is not None:
            report.figure(work(kernels, 100, "noop"), "million rows a second", rate / 1e6, target=least / 1e6)
        for (ours, other, sink), wanted in WANTED.items():
            for size in SIZES:
                clock = wanted.get(size, (None, None))[number]
                report.compare(work(kernels, size, sink), ours, other, clock=clock)


@dataclass(frozen=True, slots=True)
class Lot:
    """Topics that are read in one session, and how."""

    topics: tuple[Topic, ...]
    kernels: str
    ways: tuple[str, ...]
    sinks: tuple[str, ...]
    plans_before: bool


def measure(report: Report, python: Path, common: dict[str, Any], lot: Lot, name: Callable[[Topic, str], str]) -> None:
    """Every timing of a lot as a run; name: what the work of a topic and a sink is called."""
    topics = {topic.name: topic for topic in lot.topics}
    tasks = [topic.task for topic in lot.topics]
    split = tasks if lot.plans_before else []
    ways = {"ways": list(lot.ways), "sinks": list(lot.sinks), "plans before": lot.plans_before}
    for row in lines(python, lot.kernels, {**common, "topics": tasks, "split": split, **ways}):
        topic = topics[row["topic"]]
        if "split" in row:
            for step, ns in row["split"].items():
                report.figure(f"{work(lot.kernels, topic.size, 'nothing')}, {step}", "ns a row, one process", ns)
            continue
        spent = row["ns"]
        report.add(
            Run(
                work=name(topic, row["sink"]),
                who=row["way"],
                messages=topic.count,
                bytes=topic.size,
                cpu_s=(spent["workers"] + spent["JVM"]) * topic.count / 1e9,
                clock_s=row["seconds"],
                also={f"{who} ns": ns for who, ns in spent.items()},
            )
        )


@click.command()
@click.option("--small", is_flag=True, help="A tenth of the messages, to try the benchmark itself.")
@click.option("--rounds", default=3, help="How often each way reads each topic, in turns; the best counts.")
@click.option("--without-many", is_flag=True, help="Leave out 1,000 partitions against 4.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="File for runs and figures as JSON.")
def main(small: bool, rounds: int, without_many: bool, file: Path | None) -> None:
    """Read the same topics in several ways, in turns, and print rates, ratios and what the time is spent on."""
    less = 10 if small else 1
    compared = tuple(Topic(f"b{size}", 4, count // less, size) for size, count in SIZES.items())
    counted = () if without_many else tuple(Topic(f"t{n}", n, MANY // less, 100) for n in (FEW, MANY_PARTITIONS))
    report = Report("spark", short=small, about={"cores": 2})
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        Cluster(version=VERSION, brokers=1, settings=SETTINGS) as cluster,
    ):
        peers = Peers(Path(folder) / "peers", NEEDS, (Path(pyarrow.__file__).parents[1], HERE.parents[1]))
        report.absent |= peers.absent
        ways = ("kafka08", "tuples", "constant", *({PEER} - set(peers.absent)))
        for topic in (*compared, *counted):
            fill(cluster, topic)
        common = {"broker": cluster.brokers.split(",")[0], "folder": folder, "rounds": rounds}
        for kernels in FLOOR:
            lot = Lot(compared, kernels, ways, ("noop", "parquet"), True)
            measure(report, peers.python, common, lot, lambda topic, sink, by=kernels: work(by, topic.size, sink))
        if counted:
            lot = Lot(counted, "numba", ("kafka08",), ("noop",), False)
            measure(report, peers.python, common, lot, lambda topic, _: f"{topic.partitions:,} partitions")
    compare(report)
    few, many = (report.median(f"{n:,} partitions", "kafka08", "per_s") for n in (FEW, MANY_PARTITIONS))
    if few and many:
        cost = f"{MANY_PARTITIONS:,} partitions"
        report.figure(cost, f"times what a row costs in {FEW}", few / many, target=SAME, at_most=True)
    report.end(file)


if __name__ == "__main__":
    main()
