"""What a member shows of its commits: when, how many partitions, per store."""

from __future__ import annotations

from kafkawire.model import TopicPartition
from tests.fakes.stores import MemoryOffsets, held
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.dual import DualOffsets
from zkconsumer.offsets.group import CountedOffsets
from zkconsumer.offsets.modes import MemberMode, StoreCommit, mode_text, read_mode

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_each_store_remembers_what_it_accepted_last():
    times = iter([1000, 1001, 2000])
    inner = MemoryOffsets("kafka"), MemoryOffsets("zookeeper")
    kafka, zookeeper = (CountedOffsets(store, lambda: next(times)) for store in inner)
    both = DualOffsets(kafka, zookeeper)
    assert (kafka.last, zookeeper.last) == (None, None)
    both.commit("g", {T0: 5, T1: 6}, held())
    assert (kafka.last, zookeeper.last) == (StoreCommit(1000, 2), StoreCommit(1001, 2))
    inner[0].refuse[T1] = inner[1].refuse[T0] = ConsumerError("no")
    both.commit("g", {T0: 7, T1: 8}, held())
    assert (kafka.last, zookeeper.last) == (StoreCommit(2000, 1), StoreCommit(1001, 2))
    assert both.read("g", [T0]) == {T0: 7}
    shown = MemberMode("dual", zookeeper.last, kafka.last)
    assert read_mode(mode_text(shown)) == shown
