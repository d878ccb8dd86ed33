"""`make demo`: the mirror on real clusters, with the proof that no message is lost.

    source cluster (2 brokers, ZooKeeper) --> mirrormaker, a child process --> target cluster (2 brokers, ZooKeeper)
                                                             --> sparkpipeline, a child process --> Parquet, and a table

Three topics of keyed and unkeyed, plain, gzip and snappy messages are copied; a fourth one is created while the mirror
runs; the mirror is killed with -9 under load and started again.  Then both clusters' logs are read with the JVM's
DumpLogSegments and compared message by message.  At the end `sparkpipeline run` loads the target's topics into Parquet
and one SQL stage counts them by hour.  Exit code 1 if anything is lost.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from groundwork import output
from groundwork.logs import set_up_logging
from kafkawire.model import TopicPartition
from localkafka import java, tools
from localkafka.client import log_end_offsets
from localkafka.cluster import Cluster
from localkafka.errors import LocalKafkaError, last_lines
from localkafka.load import GZIP, PLAIN, SNAPPY, Load, Mixture
from localkafka.mirror import MirrorProcess, Positions, committed
from localkafka.waiting import wait_until

VERSION = "0.8.2.2"
GROUP = "demo-mirror"
PARTITIONS = 4
TOPICS = {
    "orders": Mixture(keyed=1.0, codecs=(PLAIN,)),
    "clicks": Mixture(keyed=0.0, codecs=(GZIP, PLAIN)),
    "payments": Mixture(keyed=0.5, codecs=(PLAIN, GZIP, SNAPPY), value_bytes=300),
}
LATE_TOPIC, LATE_MIXTURE = "returns", Mixture(keyed=0.9, codecs=(SNAPPY, PLAIN))
COUNT = 30_000  # messages of each topic; two thirds are sent before the mirror starts
SPARKPIPELINE = Path(sys.executable).with_name("sparkpipeline")
LOAD_TIMEOUT_S = 300
HOURS_STAGE = "by_hour"
HOUR_COLUMNS = ("topic", "date", "hour", "messages", "keyed", "bytes")
HOURS_SQL = """
select topic, date, hour, count(*) as messages, count(key) as keyed, sum(length(value)) as bytes
from mirrored group by topic, date, hour
"""
COMPARED = ["topic", "partition", "source", "target", "lost", "duplicates"]


class Demo:
    """The steps of the demo; each prints what it does and the time since the start.

    Attributes: source, target (running clusters), mirror (the daemon's process), committed (the group's committed
    offsets when the mirror was killed).
    """

    def __init__(self, folder: Path, source: Cluster, target: Cluster) -> None:
        self.folder, self.source, self.target = folder, source, target
        self.started = time.monotonic()
        self.load = Load(source.brokers, VERSION)
        self.mirror = MirrorProcess(folder, source, target, GROUP, "|".join([*TOPICS, LATE_TOPIC]))
        self.committed: Positions = {}

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.started:6.1f} s  {text}", file=sys.stderr, flush=True)

    def fill(self, share: float) -> None:
        """Produce this share of every topic's messages."""
        for topic, mixture in TOPICS.items():
            self.load.produce(topic, PARTITIONS, int(COUNT * share), mixture)
        self.say(f"source: {self.load.sent} messages, acknowledged by both replicas")

    def copy(self) -> None:
        """Run the mirror from its first message to its clean stop."""
        for topic in TOPICS:
            self.source.create_topic(topic, partitions=PARTITIONS, replication=2)
        self.fill(2 / 3)
        self.mirror.start()
        wait_until(lambda: self.arrived() > 0, 45, lambda: f"the mirror's first message; {self.mirror.log_end()}")
        self.say(f"mirror runs: {self.arrived()} messages have arrived in the target")
        self.source.create_topic(LATE_TOPIC, partitions=PARTITIONS, replication=2)
        self.load.produce(LATE_TOPIC, PARTITIONS, COUNT // 3, LATE_MIXTURE)
        self.say(f"topic {LATE_TOPIC} was created and filled while the mirror runs")
        self.kill_and_restart()
        self.wait_for_all()
        self.say("everything is committed; the mirror gets SIGTERM")
        code = self.mirror.stop()
        if code:
            raise LocalKafkaError(f"the mirror ended with exit code {code}; {self.mirror.log_end()}")
        self.say("mirror drained, committed, released its partitions, exit 0")

    def kill_and_restart(self) -> None:
        """Kill the mirror with -9 under load, and start it again."""
        before = self.load.sent
        with self.load.in_background(TOPICS, PARTITIONS, COUNT // 6):
            wait_until(lambda: self.load.sent > before + COUNT // 12, 30, "the load to flow")
            self.mirror.kill()
        self.committed = committed(self.source, GROUP, self.partitions())
        self.say(f"mirror killed with -9 under load: {self.arrived()} of {self.load.sent} messages had arrived")
        self.fill(1 / 6)
        self.mirror.start()
        self.say("mirror started again: it takes over when the dead one's ZooKeeper session has ended")

    def wait_for_all(self) -> None:
        def caught_up() -> bool:
            ends = log_end_offsets(self.source, [*TOPICS, LATE_TOPIC])
            return committed(self.source, GROUP, self.partitions()) == ends

        wait_until(caught_up, 60, lambda: f"the mirror to have copied everything; {self.mirror.log_end()}")

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(topic, p) for topic in [*TOPICS, LATE_TOPIC] for p in range(PARTITIONS)]

    def arrived(self) -> int:
        return sum(log_end_offsets(self.target, [*TOPICS, LATE_TOPIC]).values())

    def compare(self) -> list[Comparison]:
        """Compare both clusters' logs, read by the JVM's DumpLogSegments."""
        rows = []
        for topic in [*TOPICS, LATE_TOPIC]:
            source, target = logged(self.source, topic), logged(self.target, topic)
            rows += [
                compare(topic, p, source[p], target[p], committed=self.committed.get(TopicPartition(topic, p), 0))
                for p in range(PARTITIONS)
            ]
        self.say("both clusters' logs read with the JVM's DumpLogSegments and compared")
        return rows

    def load_into_parquet(self) -> int:
        """Load the target into Parquet; exit code 1 when Parquet has other counts than the target's logs."""
        self.say("sparkpipeline loads the target's topics into Parquet, and counts them by hour")
        topics = [*TOPICS, LATE_TOPIC]
        loaded = load_and_count(self.folder, self.target.brokers, topics)
        self.say(f"{sum(loaded.messages.values())} messages in {loaded.files} Parquet files")
        print()
        output.write(loaded.hours, HOUR_COLUMNS)
        there: Counter[str] = Counter()
        for tp, end in log_end_offsets(self.target, topics).items():
            there[tp.topic] += end
        wrong = {
            topic: (there[topic], loaded.messages[topic]) for topic in topics if there[topic] != loaded.messages[topic]
        }
        for topic, (logs, rows) in wrong.items():
            print(f"{topic}: the target's logs hold {logs} messages, Parquet {rows}")
        print("\nParquet holds each message of the target's logs, once" if not wrong else "")
        return 1 if wrong else 0

    def close(self) -> None:
        self.mirror.close()
        self.load.close()


# the comparison of both logs ------------------------------------------------------------------------------------------

# No decoder of this project is used: a decoder must not check itself.  A partition is compared as a multiset of
# (key, value): messages that the source has more of are lost; those that the target has more of are duplicates when the
# source has them at all, and phantoms when it does not.

Logged = tuple[int, str | None, str | None]  # offset, key and value as text


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of one partition; every number counts messages."""

    topic: str
    partition: int
    source: int
    target: int
    lost: int
    duplicates: int
    outside: int  # duplicates of messages that were committed before the mirror was killed: there must be none
    phantoms: int
    examples: tuple[str, ...]  # the first values that are lost, outside or phantoms


def compare(
    topic: str, partition: int, source: Sequence[Logged], target: Sequence[Logged], *, committed: int = 0
) -> Comparison:
    """Compare the logs of a partition in both clusters.

    committed: the group's committed offset when the mirror was killed; only messages after it may be in the target
    twice.
    """
    offsets = {(key, value): offset for offset, key, value in source}
    wanted = Counter((key, value) for _offset, key, value in source)
    found = Counter((key, value) for _offset, key, value in target)
    lost, extra = wanted - found, found - wanted
    phantoms = Counter({message: n for message, n in extra.items() if message not in offsets})
    duplicates = extra - phantoms
    outside = Counter({message: n for message, n in duplicates.items() if offsets[message] < committed})
    examples = [str(value)[:60] for _key, value in [*lost, *outside, *phantoms]][:5]
    return Comparison(
        topic=topic,
        partition=partition,
        source=wanted.total(),
        target=found.total(),
        lost=lost.total(),
        duplicates=duplicates.total(),
        outside=outside.total(),
        phantoms=phantoms.total(),
        examples=tuple(examples),
    )


def logged(cluster: Cluster, topic: str) -> dict[int, list[Logged]]:
    """Return the log of every partition as the JVM reads it."""
    dumped = tools.dump_topic(cluster, topic, range(PARTITIONS))
    return {partition: [(row.offset, row.key, row.payload) for row in rows] for partition, rows in dumped.items()}


def verdict(rows: Sequence[Comparison]) -> int:
    """Print the table; exit code 1 when messages are lost, repeated although committed, or phantoms."""
    output.write([{column: getattr(row, column) for column in COMPARED} for row in rows], COMPARED)
    lost, outside, phantoms = (sum(getattr(row, c) for row in rows) for c in ("lost", "outside", "phantoms"))
    print(f"\n{sum(row.source for row in rows)} messages: lost {lost}, duplicates {sum(r.duplicates for r in rows)}")
    if outside:
        print(f"{outside} of the duplicates were committed before the kill -9: the mirror must not repeat them")
    elif any(row.duplicates for row in rows):
        print("every duplicate was sent before the kill -9 and not yet committed: delivery is at least once")
    if phantoms:
        print(f"{phantoms} messages of the target were never in the source")
    for row in rows:
        for example in row.examples:
            print(f"  {row.topic}/{row.partition}: {example}")
    return 1 if lost or outside or phantoms else 0


# the load into Parquet ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loaded:
    """Result of the load.  hours: rows of HOUR_COLUMNS, by topic and hour; files: number of Parquet files written."""

    hours: list[dict[str, Any]]
    files: int

    @property
    def messages(self) -> Counter[str]:
        """Return the number of messages by topic."""
        found: Counter[str] = Counter()
        for row in self.hours:
            found[row["topic"]] += row["messages"]
        return found


def load_and_count(folder: Path, brokers: str, topics: Sequence[str]) -> Loaded:
    """Load the topics of a cluster into folder/warehouse and count them.  Raises LocalKafkaError when it fails."""
    if not SPARKPIPELINE.exists():
        raise LocalKafkaError(
            f"the command {SPARKPIPELINE.name} is not installed beside {sys.executable}: run make demo"
        )
    file, log = folder / "pipeline.yaml", folder / "pipeline.log"
    file.write_text(yaml.safe_dump(pipeline(folder / "warehouse", brokers, topics), sort_keys=False))
    local = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    argv = [str(SPARKPIPELINE), "run", str(file), "--master", "local[2]", *local, "--conf", "spark.ui.enabled=false"]
    with log.open("wb") as out:
        try:
            code = subprocess.run(
                argv,
                stdout=out,
                stderr=out,
                env={**java.quick_spark(), **os.environ},
                timeout=LOAD_TIMEOUT_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise LocalKafkaError(f"the load does not end within {LOAD_TIMEOUT_S} s; {last_lines(log)}") from None
    if code:
        raise LocalKafkaError(f"sparkpipeline run ended with exit code {code}; {last_lines(log)}")
    return Loaded(_hours(folder / "warehouse"), sum(1 for _ in (folder / "warehouse/mirrored/data").rglob("*.parquet")))


def pipeline(base: Path, brokers: str, topics: Sequence[str]) -> Mapping[str, object]:
    """Content of pipeline.yaml: one load, followed by one stage."""
    job = {"base": str(base / "mirrored"), "bootstrap.servers": brokers, "topics": list(topics)}
    stage = {
        "name": HOURS_STAGE,
        "inputs": ["mirrored"],
        "mode": "partition",
        "partition.by": ["date", "hour"],
        "sql": HOURS_SQL.strip(),
    }
    return {"name": "demo", "base": str(base), "loads": [{"name": "mirrored", "job": job}], "stages": [stage]}


def _hours(base: Path) -> list[dict[str, Any]]:
    from pyarrow import dataset, parquet  # imported late: only this step needs it

    rows: list[dict[str, Any]] = []
    files = dataset.dataset(base / "stages" / HOURS_STAGE / "data", format="parquet", partitioning="hive").files
    for name in files:
        parts = dict(part.split("=", 1) for part in Path(name).parts if "=" in part)
        rows += [{**parts, **row} for row in parquet.ParquetFile(name).read().to_pylist()]
    return sorted(rows, key=lambda row: (row["topic"], row["date"], row["hour"]))


# the program ----------------------------------------------------------------------------------------------------------


def closer_look(demo: Demo) -> str:
    """Commands to try on the clusters of this run."""
    return f"""
To try more (in another terminal, same folder; ctrl-C here ends everything):
  .venv/bin/mirrormaker run {demo.mirror.file}
  .venv/bin/zkconsumer groups describe -z {demo.source.zookeeper} --group {GROUP}
  .venv/bin/zkconsumer consume -z {demo.target.zookeeper} --topic orders --group look --from-beginning --max-messages 5
  echo hello | .venv/bin/zkproducer --broker-list {demo.source.brokers} --topic orders
  .venv/bin/sparkpipeline run {demo.folder}/pipeline.yaml --master 'local[2]'
"""


def run(keep: bool = False, before_compare: Callable[[Demo], None] | None = None) -> int:
    """Run the whole demo, and return its exit code.  before_compare is called with the stopped demo: tests damage the
    logs in it."""
    folder = Path(tempfile.mkdtemp(prefix="localkafka-demo-"))
    try:
        with Cluster(version=VERSION, brokers=2) as source, Cluster(version=VERSION, brokers=2) as target:
            demo = Demo(folder, source, target)
            try:
                demo.say(f"two clusters of Kafka {VERSION} run: source {source.brokers}, target {target.brokers}")
                demo.copy()
                if before_compare is not None:
                    before_compare(demo)
                code = verdict(demo.compare()) or demo.load_into_parquet()
                if keep:
                    print(closer_look(demo))
                    stay()
                else:
                    print("\nTo look closer: `make demo KEEP=1` keeps the clusters running and prints commands to try.")
            finally:
                demo.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def stay() -> None:
    """Wait for ctrl-C."""
    try:
        signal.pause()
    except KeyboardInterrupt:
        print("stopping", file=sys.stderr)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--keep", is_flag=True, help="Keep the clusters running until ctrl-C, and print commands to try.")
def main(keep: bool) -> None:
    """Mirror one real cluster to another, kill the mirror under load, and prove that no message is lost."""
    set_up_logging("warning")  # otherwise the ZooKeeper client prints each failed connect on stderr
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(run(keep))
    except LocalKafkaError as problem:
        print(f"demo: {problem}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("demo: stopped by ctrl-C; nothing is left running", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
