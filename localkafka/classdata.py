"""`python -m localkafka.classdata VERSION... [--spark]`: archives of the classes that JVMs load at their start.

A JVM with its archive starts with about half the processor time (JEP 350).  A run that starts hundreds of JVMs, as the
tests do, creates the archives first; a few clusters do not need them.

    CACHE/classes/0.8.2.2-kafka-JAVA.jsa       brokers and tools of that release
    CACHE/classes/0.8.2.2-zookeeper-JAVA.jsa   ZooKeeper, with the first release
    CACHE/classes/spark-VENV-JAVA.jsa          drivers of the Spark that is installed beside this Python
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import click

from kafkawire.model import TopicPartition
from localkafka import java, releases
from localkafka.cluster import Cluster
from localkafka.errors import LocalKafkaError
from localkafka.kraft import KraftBroker
from localkafka.load import GZIP, PLAIN, Load, Mixture
from localkafka.workfolder import WorkFolder
from localkafka.zookeeper import MAIN as ZOOKEEPER
from localkafka.zookeeper import ZooKeeperServer

STOP_S = 120.0  # the JVM writes the archive when it ends
TOPIC = "t"
SPARK = """
import sys, tempfile
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
with tempfile.TemporaryDirectory() as folder:
    spark.range(10).selectExpr("id % 3 AS part", "id AS value").write.partitionBy("part").parquet(folder + "/rows")
    assert spark.read.parquet(folder + "/rows").groupBy("part").sum("value").count() == 3
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
sys.exit(gateway.proc.wait(STOP_S))
""".replace("STOP_S", str(STOP_S))


def of_release(version: str) -> None:
    """Create the archives of a release, unless they exist.  Raises LocalKafkaError."""
    release = releases.release(version)
    java.ready(release)
    mains = ["kafka.Kafka", *([ZOOKEEPER] if version == releases.ZOOKEEPER_FROM else [])]
    with _drafts(*(java.archive_name(version, main) for main in mains)) as drafts, closing(WorkFolder()) as work:
        flags = [(*java.SMALL, f"{java.WRITES_ARCHIVE}{draft}") for draft in drafts]
        if flags and release.kraft:
            _kraft(version, work.path, flags[0])
        elif flags:
            _cluster(version, work.path, *flags)


def _kraft(version: str, folder: Path, flags: Sequence[str]) -> None:
    with KraftBroker(folder, version, flags=flags) as broker:
        broker.topics("--create", "--topic", TOPIC)
        broker.stop(STOP_S)


def _cluster(version: str, folder: Path, flags: Sequence[str], of_zookeeper: Sequence[str] = java.SMALL) -> None:
    server = ZooKeeperServer(folder / "zookeeper", flags=of_zookeeper)
    server.start()
    try:
        with Cluster(version, zookeeper=server, flags=flags) as cluster:
            cluster.create_topic(TOPIC)
            load = Load(cluster.brokers, version)
            load.send(TopicPartition(TOPIC, 0), 10, Mixture(keyed=0.5, codecs=(PLAIN, GZIP)))
            load.close()
            cluster.node(0).stop(STOP_S)
        server.stop(STOP_S)
    finally:
        server.close()


def of_spark() -> None:
    """Create the archive of Spark's drivers, unless it exists.  Raises LocalKafkaError."""
    with _drafts(java.spark_name()) as drafts:
        if not drafts:
            return
        options = " ".join((*java.QUICK, f"{java.WRITES_ARCHIVE}{drafts[0]}"))
        env = {**os.environ, **java.quick_spark(), "SPARK_SUBMIT_OPTS": options}
        done = subprocess.run([sys.executable, "-c", SPARK], env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LocalKafkaError(f"Spark ended with {done.returncode}: {done.stderr[-2000:]}")


@contextmanager
def _drafts(*names: str) -> Iterator[list[Path]]:
    """Yield temporary paths for these archives, none if all exist; archives written there are moved into place
    afterwards."""
    ready = [java.archive(name) for name in names]
    if all(file.is_file() for file in ready):
        yield []
        return
    ready[0].parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ready[0].parent, prefix=".draft-") as folder:
        drafts = [Path(folder, file.name) for file in ready]
        yield drafts
        for draft, file in zip(drafts, ready, strict=True):
            if draft.is_file():
                draft.rename(file)


@click.command(help=(__doc__ or "").partition("\n")[0])
@click.argument("versions", nargs=-1, metavar="VERSION...")
@click.option("--spark", is_flag=True, help="of Spark's drivers, too")
def main(versions: tuple[str, ...], spark: bool) -> None:
    jobs: list[Callable[[], None]] = [of_spark] if spark else []
    jobs += [partial(of_release, version) for version in versions]
    with ThreadPoolExecutor(2) as pool:
        try:
            for done in [pool.submit(job) for job in jobs]:
                done.result()
        except LocalKafkaError as error:
            sys.exit(f"localkafka: {error}")


if __name__ == "__main__":
    main()
