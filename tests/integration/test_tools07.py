"""The original 0.7's own programs, against brokers of both kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from localkafka.seven import tools
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.kafka07]


def everything(cluster: Cluster07, topic: str) -> list[bytes]:
    return sorted(value for values in cluster.values(topic).values() for value in values)


def test_what_the_originals_producers_send_its_consumers_read(cluster07: Callable[..., Cluster07], unique: Any) -> None:
    cluster, topic, group = cluster07(partitions={0: 2, 1: 1}), unique.topic(), unique.group()
    cluster.create_topic(topic)
    lines = [f"line {number} ä" for number in range(12)]
    tools.console_producer(cluster, topic, lines[:4])
    tools.producer_shell(cluster, topic, lines[4:8], config={"compression.codec": 2})
    tools.producer_shell(
        cluster, topic, lines[8:], config={"broker.list": cluster.broker_list, "producer.type": "async"}
    )
    sent = sorted(line.encode() for line in lines)
    wait_until(lambda: everything(cluster, topic) == sent, 20, "all lines to be stored")
    with tools.console_consumer(cluster, topic, from_beginning=True) as console:
        with tools.consumer_shell(cluster, topic, group) as shell:
            assert sorted(shell.wait_for(len(sent))) == sent
            shell.stop()
        assert sorted(console.wait_for(len(sent))) == sent
    zk = cluster.zk()
    ends = {str(p): str(end) for p, end in cluster.ends(topic).items()}
    offsets = f"/consumers/{group}/offsets/{topic}"
    assert {p: zk.get(f"{offsets}/{p}")[0].decode() for p in zk.get_children(offsets)} == ends


@pytest.mark.parametrize("kind07", ["python"], indirect=True)
def test_the_originals_mirror_copies_everything(cluster07: Callable[..., Cluster07], unique: Any) -> None:
    source, target, topic = cluster07(partitions=2), cluster07(), unique.topic()
    values = [b"value %d" % number for number in range(300)]
    source.produce(topic, 0, 0, values[:150], codec="gzip")
    source.produce(topic, 0, 1, values[150:])
    with tools.mirror_maker([source], target, whitelist=topic, group=unique.group()) as mirror:
        wait_until(lambda: len(everything(target, topic)) >= len(values), 40, mirror.log_end)
        mirror.stop()
    assert everything(target, topic) == sorted(values)
