"""Wrappers of 0.7 whose last inner message is cut: brokers of both kinds take them, and nobody stops at one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.compression import compress
from localkafka.seven import entries, tools
from localkafka.seven.client import Closed
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from tests.integration.readers import Reader

pytestmark = pytest.mark.real


def cut_wrappers() -> bytes:
    """Each cut elsewhere, alone and in another one; and one of which not even the first length is whole."""
    data = b""
    for codec in (1, 2):
        for cut in (1, 8, 11, 13, 15):
            inner = entries.plain([b"%d-%d-%d" % (codec, cut, n) for n in range(3)])
            wrapper = entries.message(compress(codec, inner[:-cut]), codec)
            data += wrapper + entries.message(compress(codec, wrapper + wrapper[:-cut]), codec)
        data += entries.message(compress(codec, b"\0\0\0"), codec) + entries.plain([b"between"])
    return data


def commits(cluster: Cluster07, group: str, topic: str) -> bytes:
    found: bytes = cluster.zk().get(f"/consumers/{group}/offsets/{topic}/0-0")[0]
    return found


def test_what_is_cut_inside_a_wrapper_is_left_out_and_what_follows_is_read(
    cluster07: Callable[..., Cluster07], kind07: str, unique: Any
) -> None:
    cluster, topic = cluster07(), unique.topic()
    with cluster.node(0).client() as link:
        link.produce(topic, 0, cut_wrappers() + entries.plain([b"the last"]))
        end = link.offsets(topic, 0)[0]
    values = [row.value for row in cluster.read(topic, 0, 0)]
    with Reader(cluster.zookeeper, "ours", {topic: 1}, kafka_version="0.7.2") as reader:
        wait_until(lambda: [got.value for got in reader.got[-1:]] == [b"the last"], 20, lambda: str(reader.events))
        reader.stop()
    assert [got.value for got in reader.got] == values
    assert len(values) == 2 * (5 * 4 + 1) + 1
    assert commits(cluster, "ours", topic) == b"%d" % end
    if kind07 == "original":
        with tools.consumer_shell(cluster, topic, "original") as shell:
            wait_until(lambda: shell.lines[-1:] == [b"the last"], 30, lambda: f"all; {shell.child.log_end()}")
            assert shell.stop() == values
        assert commits(cluster, "original", topic) == b"%d" % end


def test_a_wrapper_whose_first_message_is_cut_is_taken_by_no_broker(
    cluster07: Callable[..., Cluster07], unique: Any
) -> None:
    cluster, topic = cluster07(), unique.topic()
    for codec in (1, 2):
        bad = entries.message(compress(codec, entries.plain([b"cut"])[:-1]), codec)
        with cluster.node(0).client() as link:
            link.produce(topic, 0, bad)
            with pytest.raises(Closed):
                link.offsets(topic, 0)
    with cluster.node(0).client() as link:
        assert link.offsets(topic, 0) == [0]
