"""`sparkpipeline run` from one real cluster to another: a load, a query by hour, and a topic."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from groundwork import failpoints
from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from sparkpipeline.commands.cli import outcome
from tests.conftest import Unique
from tests.integration.sparktopics import everything, produce

pytestmark = [pytest.mark.real, pytest.mark.spark]
YAML = """
name: shop
base: {base}/flow
loads:
  - name: orders
    job:
      base: {base}/orders
      bootstrap.servers: {source}
      topics: [{topic}]
stages:
  - name: counts
    inputs: [orders]
    mode: partition
    partition.by: [date, hour]
    sql: select date, hour, partition, count(*) as orders from orders group by date, hour, partition
  - name: loud
    inputs: [orders]
    output: kafka08
    options: {{kafka.bootstrap.servers: "{target}", topic: {topic}-loud}}
    sql: select key, upper(cast(value as string)) as value, partition from orders where partition = 1
"""


def test_a_topic_becomes_counts_by_hour_and_another_topic(
    tmp_path: Path, spark: Any, source: ClusterClient, target: ClusterClient, unique: Unique, capsys: Any
) -> None:
    topic = unique.topic("orders")
    source.create_topic(topic, partitions=2)
    target.create_topic(f"{topic}-loud", partitions=2)
    flow = tmp_path / "flow.yaml"
    flow.write_text(YAML.format(base=tmp_path, source=source.brokers, target=target.brokers, topic=topic))

    def fill(first: int, until: int) -> None:
        for partition in (0, 1):
            rows = [(b"k%d" % n, b"order %d" % n) for n in range(first, until)]
            produce(source, TopicPartition(topic, partition), rows)

    def counts() -> Counter[int]:
        found: Counter[int] = Counter()
        for path in (tmp_path / "flow" / "stages" / "counts" / "data").rglob("*.parquet"):
            for row in parquet.ParquetFile(path).read().to_pylist():
                found[row["partition"]] += row["orders"]
        return found

    fill(0, 300)
    assert outcome(["plan", str(flow), "-o", "json"]) == 0
    assert [row["does"] for row in json.loads(capsys.readouterr().out)] == [
        "loads what is new",
        "waits: orders has no batch yet, then follows orders",
        "waits: orders has no batch yet, then follows orders",
    ]
    assert outcome(["run", str(flow), "-o", "json", "--report", str(tmp_path / "report.json")]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert {name: (row["result"], row["rows"]) for name, row in rows.items()} == {
        "orders": ("done", 600), "counts": ("done", rows["counts"]["rows"]), "loud": ("done", 300),
    }  # fmt: skip
    assert json.loads((tmp_path / "report.json").read_text())["outcome"] == "done"
    assert counts() == {0: 300, 1: 300}
    sent = everything(target, f"{topic}-loud")
    assert (len(sent[0]), [value for _, _, value in sent[1]][:2]) == (0, [b"ORDER 0", b"ORDER 1"])

    # A crash between sending and the commit: Parquet stays exactly once, the topic gets the batch again.
    fill(300, 400)
    failpoints.arm("stage after send=raise@1")
    try:
        assert outcome(["run", str(flow)]) == 4
    finally:
        failpoints.arm("")
    assert outcome(["run", str(flow), "--only", "loud"]) == 0
    assert counts() == {0: 400, 1: 400}
    times = Counter(value for _, _, value in everything(target, f"{topic}-loud")[1])
    assert times == {b"ORDER %d" % n: 1 if n < 300 else 2 for n in range(400)}

    assert outcome(["run", str(flow), "--only", "lout"]) == 2
    assert "'lout' is not a load or stage of the pipeline; did you mean 'loud'?" in capsys.readouterr().err
