"""What is paused, by topics and partitions: the word said last counts."""

from __future__ import annotations

from kafkawire.model import TopicPartition
from zkconsumer.engine.controls import Pauses

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_a_paused_topic_has_all_its_partitions_also_those_to_come():
    pauses = Pauses()
    pauses.set("orders", True)
    assert A in pauses
    assert TopicPartition("orders", 99) in pauses
    assert TopicPartition("audit", 0) not in pauses


def test_one_partition_may_be_resumed_while_its_topic_stays_paused():
    pauses = Pauses()
    pauses.set("orders", True)
    pauses.set(A, False)
    assert A not in pauses
    assert B in pauses


def test_naming_the_topic_again_ends_all_exceptions():
    pauses = Pauses()
    pauses.set(A, True)
    pauses.set("orders", False)
    assert A not in pauses
    pauses.set(A, False)
    pauses.set("orders", True)
    assert A in pauses
