"""Format kafka08 against what people would write otherwise: rows a second out of a real 0.8.2.2 broker, in one run.

    python benchmarks/spark.py [--small] [--rounds 3] [--without-many]

    kafka08      this source, with the compiled kernels, and again without (KAFKAWIRE_KERNELS=python)
    tuples       a Python data source that yields a tuple a message, over the same decoder
    mapInArrow   over confluent-kafka's consume(10000), assigned ranges, columns built from lists

All in a Spark session of two cores (one for each form of the decoder), with checksums on and fetches of the same size,
from topics of 4 partitions written in batches of 200 messages of random bytes, to noop and to Parquet.  Then
20,000,000 rows in 1,000 partitions against the same rows in 4, planning included.  The best round of each counts.

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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import pyarrow
from common import VERSION, Peers

from groundwork import output
from kafkawire.dialects import dialect
from kafkawire.model import TopicPartition
from kafkawire.net.links import Links
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster

BATCH = 200
DIFFERENT = 500  # batches, sent again and again: fifty thousand messages later no compression remembers them
SIZES = {100: 6_400_000, 1000: 1_600_000}
MANY = 20_000_000
SETTINGS = {"log.segment.bytes": 1 << 30, "log.index.size.max.bytes": 1 << 20}
HERE = Path(__file__).resolve()
PEER = "mapInArrow"
NEEDS = {PEER: ["confluent-kafka", "pandas<3"]}
COLUMNS = ["kernels", "topic", "sink", "way", "rows per second", "seconds", "workers", "JVM", "broker"]
# compared ways, sink, and the ratio wanted of a topic with kernels and without
WANTED: dict[tuple[str, str, str], dict[str, tuple[float | None, float | None]]] = {
    ("kafka08", "tuples", "noop"): {"b100": (4.0, 2.0), "b1000": (3.0, None)},
    ("kafka08", "tuples", "parquet"): {"b100": (1.5, 1.2)},
    ("kafka08", PEER, "noop"): {"b100": (2.0, None)},
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


def report(found: Sequence[dict[str, Any]], topics: dict[str, Topic]) -> bool:
    """Print the best rounds, the split and the ratios; whether all wanted was reached."""
    best: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    for row in found:
        if "way" in row:
            key = (row["kernels"], row["topic"], row["sink"], row["way"])
            if key not in best or row["seconds"] < best[key]["seconds"]:
                best[key] = row
    rate = {key: topics[key[1]].count / row["seconds"] for key, row in best.items()}
    output.write(
        [
            dict(zip(COLUMNS, (*key, round(rate[key]), round(row["seconds"], 2)), strict=False)) | row["ns"]
            for key, row in best.items()
        ],
        COLUMNS,
    )
    print("\nworkers, JVM, broker: nanoseconds of processor time a row\n")
    for row in found:
        if "split" in row:
            steps = ", ".join(f"{step} {ns:.0f}" for step, ns in row["split"].items())
            print(f"one process, {row['kernels']}, {row['topic']}: {steps} ns a row")
    return all([_floors(rate), _ratios(rate), _many(rate)])


Rates = dict[tuple[str, str, str, str], float]


def _floors(rate: Rates) -> bool:
    good = True
    for kernels, least in FLOOR.items():
        reached = rate.get((kernels, "b100", "noop", "kafka08"))
        if reached is not None:
            good &= _said(f"{kernels}: {reached / 1e6:.2f} M rows/s of 100 bytes to noop", reached / 1e6, least / 1e6)
    return good


def _ratios(rate: Rates) -> bool:
    good = True
    for kernels in FLOOR:
        for topic in ("b100", "b1000"):
            for (ours, other, sink), wanted in WANTED.items():
                one, two = rate.get((kernels, topic, sink, ours)), rate.get((kernels, topic, sink, other))
                if one and two:
                    least = wanted.get(topic, (None, None))[kernels != "numba"]
                    text = f"{kernels}, {topic} to {sink}: {ours} is {one / two:.2f} times {other}"
                    good &= _said(text, one / two, least)
    return good


def _many(rate: Rates) -> bool:
    few, many = (rate.get(("numba", name, "noop", "kafka08")) for name in ("few", "many"))
    if not few or not many:
        return True
    print(f"a row in 1,000 partitions costs {few / many:.2f} of one in 4 (wanted: at most {SAME:.2f})")
    return few / many <= SAME


def _said(text: str, reached: float, least: float | None) -> bool:
    short = least is not None and reached < least
    print(f"{text}{f' (wanted: {least:.2f})' if least is not None else ''}{'  SHORT OF IT' if short else ''}")
    return not short


@click.command()
@click.option("--small", is_flag=True, help="A tenth of the messages, to try the benchmark itself.")
@click.option("--rounds", default=3, help="How often each way reads each topic, in turns; the best counts.")
@click.option("--without-many", is_flag=True, help="Leave out 1,000 partitions against 4.")
def main(small: bool, rounds: int, without_many: bool) -> None:
    """Read the same topics in several ways, in turns, and print rates, ratios and what the time is spent on."""
    less = 10 if small else 1
    compared = [Topic(f"b{size}", 4, count // less, size) for size, count in SIZES.items()]
    counted = [] if without_many else [Topic("few", 4, MANY // less, 100), Topic("many", 1000, MANY // less, 100)]
    found: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        Cluster(version=VERSION, brokers=1, settings=SETTINGS) as cluster,
    ):
        peers = Peers(Path(folder) / "peers", NEEDS, (Path(pyarrow.__file__).parents[1], HERE.parents[1]))
        python, absent = peers.python, peers.absent.get(PEER)
        ways = ["kafka08", "tuples", *([] if absent else [PEER])]
        for topic in (*compared, *counted):
            fill(cluster, topic)
        common = {"broker": cluster.brokers.split(",")[0], "folder": folder, "rounds": rounds}
        tasks = [topic.task for topic in compared]
        for kernels in FLOOR:
            task = {**common, "topics": tasks, "split": tasks, "ways": ways, "sinks": ["noop", "parquet"]}
            task["plans before"] = True
            found += lines(python, kernels, task)
        counts = {**common, "topics": [t.task for t in counted], "split": [], "ways": ["kafka08"], "sinks": ["noop"]}
        if counted:
            found += lines(python, "numba", {**counts, "plans before": False})
    good = report(found, {topic.name: topic for topic in (*compared, *counted)})
    if absent:
        print(f"without {PEER}: {absent}")
    sys.exit(0 if good or small else 1)


if __name__ == "__main__":
    main()
