"""The JVM's own programs against real clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.model import TopicPartition
from localkafka import tools
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until

pytestmark = pytest.mark.real
CODECS = ("none", "gzip", "snappy", "lz4")


def test_what_the_console_producer_sends_is_dumped_and_consumed(source: ClusterClient, unique: Any) -> None:
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic)
    for codec in CODECS:
        tools.console_producer(source, topic, [f"k{n}:ä {codec} {n}" for n in range(3)], codec=codec, key_separator=":")
    rows = list(tools.dump_partition(source, topic, 0))
    assert [(row.offset, row.key, row.payload) for row in rows] == [
        (3 * batch + n, f"k{n}", f"ä {codec} {n}") for batch, codec in enumerate(CODECS) for n in range(3)
    ]
    assert all(row.valid for row in rows)
    assert log_end_offsets(source, [topic]) == {TopicPartition(topic, 0): 12}
    with tools.console_consumer(source, topic, group, key_separator=":") as consumer:
        lines = consumer.wait_for(12)
        assert lines[0].decode() == "k0:ä none 0"
        assert consumer.stop() == lines
    checked = tools.consumer_offset_checker(source, group, topic)
    assert [(row.partition, row.offset, row.lag, row.owner) for row in checked] == [(0, 12, 0, None)]


def test_topics_that_are_not_there_have_no_log_ends(source: ClusterClient, unique: Any) -> None:
    assert log_end_offsets(source, [unique.topic()]) == {}
    assert unique.topic() not in tools.topic_command(source, "--list")


@pytest.mark.faults
def test_the_jvms_mirror_copies_everything(
    own_cluster: Callable[..., Cluster], source: ClusterClient, unique: Any
) -> None:
    target, topic = own_cluster(), unique.topic()
    source.create_topic(topic)
    target.create_topic(topic)
    lines = [f"line {number}" for number in range(100)]
    tools.console_producer(source, topic, lines)
    with tools.mirror_maker([source], target, whitelist=topic, group=unique.group()) as mirror:
        wait_until(lambda: log_end_offsets(target, [topic])[TopicPartition(topic, 0)] >= len(lines), 40, mirror.log_end)
    assert [row.payload for row in tools.dump_partition(target, topic, 0)] == lines
