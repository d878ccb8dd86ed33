"""Our consumer beside an original's on logs of random entries: the same values in the same order, the same commits."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from localkafka.seven import entries, tools
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from tests.integration.readers import Reader

pytestmark = [
    pytest.mark.real,
    pytest.mark.kafka07,
    pytest.mark.parametrize("kind07", ["python"], indirect=True),
]


def some_entries(draw: random.Random, depth: int = 0) -> bytes:
    """Up to four entries: plain of either magic, empty, compressed, compressed again, and wrappers of nothing."""
    data = b""
    for _ in range(draw.randrange(5)):
        value = b"%d-%d" % (depth, draw.randrange(10**6)) + b"x" * draw.choice((0, 3, 90))
        kind = draw.randrange(8)
        if kind < 4 or depth == 3:
            data += entries.message(draw.choice((value, value, b"")), magic=draw.choice((0, 1)))
        else:
            codec = draw.choice((1, 2))
            data += entries.message(entries.compress(codec, some_entries(draw, depth + 1)), codec)
    return data


def commits(zk: KazooClient, group: str, topic: str) -> dict[str, bytes]:
    path = f"/consumers/{group}/offsets/{topic}"
    return {p: zk.get(f"{path}/{p}")[0] for p in zk.get_children(path)} if zk.exists(path) else {}


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.faults) for n in range(2, 8))])
def test_random_logs_are_read_as_the_original_reads_them(
    cluster07: Callable[..., Cluster07], unique: Any, seed: int
) -> None:
    cluster, topic, draw = cluster07(settings={"log.file.size": 5000}), unique.topic(), random.Random(seed)
    with cluster.node(0).client() as link:
        for _ in range(300):
            link.produce(topic, 0, some_entries(draw))
        link.produce(topic, 0, entries.plain([b"the last"]))
        end = link.offsets(topic, 0)[0]
    zk = cluster.zk()
    with tools.consumer_shell(cluster, topic, "original") as shell:
        wait_until(lambda: shell.lines[-1:] == [b"the last"], 30, lambda: f"all; {shell.child.log_end()}")
        read = shell.stop()
    with Reader(cluster.zookeeper, "ours", {topic: 1}, kafka_version="0.7.2") as reader:
        wait_until(lambda: [got.value for got in reader.got[-1:]] == [b"the last"], 20, lambda: str(reader.events))
        reader.stop()
    assert [got.value for got in reader.got] == read
    assert commits(zk, "ours", topic) == commits(zk, "original", topic) == {"0-0": b"%d" % end}
