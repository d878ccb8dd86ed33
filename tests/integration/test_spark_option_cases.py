"""Options after Spark's own kafka format: one table, through ours always, and through Spark's where its jars are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from kafkawire.model import TopicPartition
from localkafka import jars
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.errors import LocalKafkaError
from localkafka.zookeeper import ZooKeeperAt
from sparkpipeline.datasource import Kafka08DataSource
from sparkpipeline.errors import PipelineError, sentence_in
from tests.integration.optioncases import CASES, FILLED, Case, Ranges, options_of, placed, ranges_of, run
from tests.integration.sparktopics import produce

pytestmark = pytest.mark.real
COLUMNS = StructType(
    [StructField("topic", StringType()), StructField("partition", IntegerType()), StructField("offset", LongType())]
)
CHILD = "import sys; from tests.integration.kafkaformat import main; main(*sys.argv[1:])"


def name_of(case: Case) -> str:
    return case.name.replace(" ", "-")


def fill(cluster: ClusterClient, place: str) -> None:
    cluster.create_topic(f"a-{place}", partitions=2)
    cluster.create_topic(f"b-{place}", partitions=1)
    minute_ago = int(time.time() * 1000) - 60_000  # for formats with a time; an old one would be past its retention
    for (topic, partition), count in FILLED.items():
        rows = [(b"k", b"value %d" % n) for n in range(count)]
        produce(cluster, TopicPartition(f"{topic}-{place}", partition), rows, at_ms=minute_ago)


@pytest.fixture(scope="module")
def place(source: ClusterClient) -> str:
    """The tag of the topics."""
    tag = uuid.uuid4().hex[:10]
    fill(source, tag)
    return tag


def ours(case: Case, brokers: str, place: str) -> Ranges | str:
    """What Spark's planner and its tasks call, in their order, without a JVM."""
    source = Kafka08DataSource(CaseInsensitiveDict(options_of(case, brokers, place)))
    try:
        source.schema()
        reader = source.reader(COLUMNS)
        rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    except PipelineError as exc:
        return str(exc)
    return ranges_of(((row["topic"], row["partition"], row["offset"]) for row in rows), place)


def check(case: Case, place: str, found: Ranges | str) -> None:
    if case.rows is not None:
        assert found == case.rows
    else:
        assert isinstance(found, str), f"was not refused, but read {found}"
        assert placed(case.says, place) in (sentence_in(found) or found)


@pytest.mark.parametrize("case", CASES, ids=[name_of(case) for case in CASES])
def test_ours_does_what_the_table_says(case: Case, source: ClusterClient, place: str) -> None:
    check(case, place, ours(case, source.brokers, place))


@pytest.mark.spark
@pytest.mark.parametrize("case", [case for case in CASES if case.session], ids=name_of)
def test_ours_does_it_in_a_session(case: Case, spark: Any, source: ClusterClient, place: str) -> None:
    check(case, place, run(spark, "kafka08", case, source.brokers, place))


@pytest.mark.spark
def test_sparks_own_does_what_the_table_says(zk_server: ZooKeeperAt) -> None:
    """In a session of its own, against a newer broker."""
    try:
        folder = jars.fetched("spark-kafka-4.3.0", "Spark's own Kafka connector")
    except LocalKafkaError as exc:
        pytest.skip(f"Spark's own connector, or its token provider, is not to be had from this registry: {why(exc)}")
    tag = uuid.uuid4().hex[:10]
    with Cluster(version="2.8.2", zookeeper=zk_server) as cluster:
        fill(cluster, tag)
        found = through("kafka", cluster.brokers, tag, folder)
    differ = {case.name: (found[case.name], expected(case)) for case in CASES if not agrees(found[case.name], case)}
    assert differ == {}


def through(source: str, brokers: str, place: str, folder: Path) -> dict[str, Ranges | str]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, source, brokers, place, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    outcomes = json.loads(done.stdout.splitlines()[-1])
    return {name: said if isinstance(said, str) else _tuples(said) for name, said in outcomes.items()}


def _tuples(said: dict[str, list[int]]) -> Ranges:
    return {name: (first, behind) for name, (first, behind) in said.items()}


def expected(case: Case) -> Ranges | None:
    return case.kafka if case.differs else case.rows


def agrees(found: Ranges | str, case: Case) -> bool:
    """A refusal in Spark's own words is one, whatever they are."""
    wanted = expected(case)
    return isinstance(found, str) if wanted is None else found == wanted


def why(exc: LocalKafkaError) -> str:
    lines = [line.strip() for line in str(exc).splitlines()]
    return next((line for line in lines if "org.apache.spark" in line), lines[0])
