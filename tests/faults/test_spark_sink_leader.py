"""A leader of the target is killed in the middle of a write: nothing is lost, and the order of a partition is kept."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import log_end_offsets
from localkafka.cluster import Cluster
from tests.integration.sparktopics import everything

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.faults]

COUNT = 400_000
KILLED_AT = 20_000  # messages there
DEADLINE_S = 300.0


def leader_killed(cluster: Cluster) -> int:
    """Kill who leads the first partition as soon as messages arrive; how many there were."""
    deadline = time.monotonic() + DEADLINE_S
    arrived = 0
    while arrived < KILLED_AT:
        assert time.monotonic() < deadline, "nothing arrives"
        arrived = sum(log_end_offsets(cluster, ["rows"]).values())
    leader = cluster.registry().view("rows").leader(TopicPartition("rows", 0))
    assert leader is not None
    cluster.node(leader.id).kill()
    cluster.wait_leader("rows", 0, other_than=leader.id)
    return arrived


def test_every_row_arrives_when_a_leader_dies_meanwhile(spark: Any, own_cluster: Any) -> None:
    cluster = own_cluster(brokers=2)
    cluster.create_topic("rows", partitions=2, replication=2)
    frame = spark.range(0, COUNT, numPartitions=2).selectExpr(
        "concat(lpad(id, 8, '0'), repeat('x', 100)) value", "cast(id % 2 as int) partition"
    )
    options = {"kafka.bootstrap.servers": cluster.brokers, "topic": "rows", "kafka.batch.bytes": "32768"}
    with ThreadPoolExecutor(1) as pool:  # Spark looks for kafka08 in the session of the thread that writes: this one
        killing = pool.submit(leader_killed, cluster)
        frame.write.format("kafka08").mode("append").options(**options).save()
        assert killing.result(DEADLINE_S) < COUNT
    for partition, messages in everything(cluster, "rows").items():
        numbers = [int((value or b"")[:8]) for _, _, value in messages]
        assert set(numbers) == set(range(partition, COUNT, 2))
        for task in (range(COUNT // 2), range(COUNT // 2, COUNT)):
            own = list(dict.fromkeys(n for n in numbers if n in task))  # a batch whose answer was lost is there twice
            assert own == sorted(own)
        print(f"partition {partition}: {len(numbers) - len(set(numbers))} repeated")
