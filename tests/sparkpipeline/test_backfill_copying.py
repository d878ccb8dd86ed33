"""A chunk copied between two fake clusters: exactly, whatever becomes of requests; or counted, at least once."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.dialects import dialect
from kafkawire.headers import packed
from producer.config import ProducerConfig
from sparkpipeline.backfill import chunkcopy
from sparkpipeline.backfill.backfillplan import Copied
from sparkpipeline.backfill.chunkcopy import ChunkTask, copy_chunk
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import CorruptData, NotDelivered, Refused
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.readoptions import ReadOptions
from tests.fakes.broker import Close, Fail, FakeCluster, entry, gzipped

CONFIG = ProducerConfig(
    brokers=(), request_timeout_ms=200, retries=-1, retry_backoff_ms=10, delivery_timeout_ms=3000, topic_wait_ms=200,
    reconnect_ms=10, batch_bytes=1024,
)  # fmt: skip


def access(cluster: FakeCluster) -> ClusterAccess:
    return ClusterAccess(tuple(cluster.bootstrap), "0.8.2", socket_timeout_ms=2000, retries=2, retry_interval_ms=10)


def task(source: FakeCluster, target: FakeCluster, start: int, until: int, target_start: int | None = 0,
         **changed: Any) -> ChunkTask:  # fmt: skip
    read = ReadOptions(max_wait_ms=50, patience_ms=2000)
    made = ChunkTask(
        rng=OffsetRange("t", 0, start, until),
        source=access(source),
        target=access(target),
        config=CONFIG,
        read=read,
        target_start=target_start,
        is_stable=True,
        partitioner=None,
        partitions=1,
        codec=None,
    )
    return replace(made, **changed)


def filled(count: int, codec: bool = False, a_set: int = 10) -> FakeCluster:
    cluster = FakeCluster({"t": 1})
    for first in range(0, count, a_set):
        entries = [entry(b"v%d" % n, key=b"k%d" % n, offset=n - first) for n in range(first, first + a_set)]
        cluster.append("t", 0, gzipped(*entries) if codec else b"".join(entries))
    return cluster


def values(first: int, until: int) -> list[bytes]:
    return [b"v%d" % n for n in range(first, until)]


@pytest.mark.parametrize("codec", [False, True])
def test_a_range_that_cuts_sets_and_wrappers_is_copied_exactly(codec):
    with filled(100, codec) as source, FakeCluster({"t": 1}) as target:
        assert copy_chunk(task(source, target, 13, 87)) == Copied(74, 74 * 6, 0, 0, 0, 74)
        assert target.values("t", 0) == values(13, 87)


@pytest.mark.parametrize(
    "trouble", [Close(store=True), Close(), Fail(7, store=True), Fail(7), Fail(6), Fail(6, store=True)]
)
@pytest.mark.parametrize("codec", [False, True])
def test_an_answer_that_is_missing_repeats_nothing(trouble, codec):
    with filled(200, codec) as source, FakeCluster({"t": 1}) as target:
        target.script("produce", trouble, None, trouble)
        copied = copy_chunk(task(source, target, 5, 195))
        assert target.values("t", 0) == values(5, 195)
        assert (copied.messages, copied.target_until, copied.may_repeat) == (190, 190, 0)
        assert copied.resyncs >= 1


@pytest.mark.parametrize("trouble", [Fail(0), Fail(3), Fail(5), Fail(19)])
def test_a_refusal_before_the_append_is_sent_again_and_needs_no_look_at_the_target(trouble):
    with filled(200) as source, FakeCluster({"t": 1}) as target:
        target.script("produce", trouble, None, trouble)
        copied = copy_chunk(task(source, target, 5, 195))
        assert target.values("t", 0) == values(5, 195)
        assert (copied.target_until, copied.may_repeat, copied.resyncs) == (190, 0, 0)


@pytest.mark.parametrize("there", [1, 7, 30, 90])
def test_what_an_earlier_try_has_stored_is_compared_and_kept(there):
    with filled(100, codec=True) as source, FakeCluster({"t": 1}) as target:
        target.append("t", 0, b"".join(entry(b"theirs", offset=n) for n in range(3)))
        early = task(source, target, 0, there, target_start=3)
        assert copy_chunk(early).kept == 0
        again = copy_chunk(task(source, target, 0, 90, target_start=3), attempt=1)
        assert (again.kept, again.messages, again.target_until) == (there, 90, 93)
        assert target.values("t", 0) == [b"theirs"] * 3 + values(0, 90)


def test_a_chunk_that_is_there_already_is_only_compared():
    with filled(50) as source, FakeCluster({"t": 1}) as target:
        copy_chunk(task(source, target, 0, 50))
        assert copy_chunk(task(source, target, 0, 50)) == Copied(50, 280, 50, 0, 0, 50)
        assert len(target.values("t", 0)) == 50


def test_messages_of_somebody_else_end_it():
    with filled(50) as source, FakeCluster({"t": 1}) as target:
        copy_chunk(task(source, target, 0, 20))
        target.append("t", 0, entry(b"not ours"))
        with pytest.raises(Refused, match=r"partition=0 target_offset=20: .*not the message at 20 of the source"):
            copy_chunk(task(source, target, 0, 50))


def test_somebody_else_who_writes_meanwhile_is_noticed_by_the_offset_that_is_answered():
    with filled(100) as source, FakeCluster({"t": 1}) as target:
        made = task(source, target, 0, 100)
        original = target.append

        def both(topic: str, partition: int, data: bytes) -> int:
            if len(target.logs["t", 0].entries) < 5:
                original("t", 0, entry(b"not ours"))
            return original(topic, partition, data)

        target.append = both  # type: ignore[method-assign]
        with pytest.raises(Refused, match="was expected at 0 and is at 1: another program writes there"):
            copy_chunk(made)


def test_a_target_that_lost_what_it_acknowledged_is_told():
    with filled(50) as source, FakeCluster({"t": 1}) as target, pytest.raises(Refused, match="messages are lost there"):
        copy_chunk(task(source, target, 20, 50, target_start=20))


def test_a_message_that_is_too_large_is_named_by_its_offset_in_the_source():
    with FakeCluster({"t": 1}) as source, FakeCluster({"t": 1}, message_max_bytes=500) as target:
        source.append("t", 0, b"".join(entry(b"x" * (600 if n == 7 else 5), offset=n) for n in range(10)))
        with pytest.raises(NotDelivered, match="topic=t partition=0 source_offset=7: a message of 626 bytes"):
            copy_chunk(task(source, target, 0, 10))
        assert target.values("t", 0) == [b"x" * 5] * 7


def test_damage_is_told_behind_what_precedes_it():
    with FakeCluster({"t": 1}) as source, FakeCluster({"t": 1}) as target:
        bad = bytearray(entry(b"bad", offset=4))
        bad[-1] ^= 1
        good = b"".join(entry(b"v%d" % n, offset=n) for n in range(4))
        source.logs["t", 0].entries += [(0, good + bytes(bad) + entry(b"v5", offset=5))]
        source.logs["t", 0].end = 6
        with pytest.raises(CorruptData, match="topic=t partition=0 offset=4: "):
            copy_chunk(task(source, target, 0, 6))


def test_at_least_once_counts_what_may_be_there_twice():
    with filled(40) as source, FakeCluster({"t": 1}) as target:
        target.script("produce", Close(store=True))
        copied = copy_chunk(task(source, target, 0, 40, target_start=None))
        found = target.values("t", 0)
        assert set(found) == set(values(0, 40))
        assert 0 < len(found) - 40 <= copied.may_repeat
        assert copied.messages == 40


def test_a_second_attempt_counts_all_of_its_chunk_as_repeated():
    with filled(40) as source, FakeCluster({"t": 1}) as target:
        made = task(source, target, 0, 40, target_start=None)
        assert [copy_chunk(made, attempt).may_repeat for attempt in range(2)] == [0, 40]


def test_keys_choose_and_nothing_is_lost():
    with filled(60, codec=True) as source, FakeCluster({"t": 3}) as target:
        made = task(source, target, 5, 55, target_start=None, partitioner="default", partitions=3, codec=1)
        assert copy_chunk(made).messages == 50
        found = [target.messages("t", p) for p in range(3)]
        assert sorted((k, v) for messages in found for _, k, v in messages) == sorted(
            (b"k%d" % n, b"v%d" % n) for n in range(5, 55)
        )
        assert all(found)


def test_nobody_answers_for_long_and_it_is_told():
    with filled(10) as source, FakeCluster({"t": 1}) as target:
        target.script("produce", *[Fail(6)] * 100)
        made = task(source, target, 0, 10)
        quick = replace(made, config=replace(CONFIG, delivery_timeout_ms=300, request_timeout_ms=100))
        with pytest.raises(NotDelivered, match=r"source_offset=0: nothing was stored for 300 ms"):
            copy_chunk(quick)


def test_messages_that_are_dealt_by_key_keep_their_headers(monkeypatch):
    spoken, block = dialect("3.9"), packed([("h", b"1")])
    data = spoken.messages.encode([(n, b"k", b"v%d" % n, 7) for n in range(3)], 0, 2, [block, None, block])
    found, _ = spoken.messages.message_set("t", 0, 0, memoryview(data), 99)
    monkeypatch.setattr(chunkcopy, "_sets", lambda rng, task: nullcontext([found]))
    sent: list[tuple[Any, ...]] = []
    sender = SimpleNamespace(send=lambda tp, rows, numbers, headers: sent.append((tp.partition, numbers, headers)))
    there = ClusterAccess((), "3.9")
    made = ChunkTask(
        rng=OffsetRange("t", 0, 0, 2), source=there, target=there, config=CONFIG, read=ReadOptions(),
        target_start=None, is_stable=True, partitioner="default", partitions=1, codec=None,
    )  # fmt: skip
    assert chunkcopy._dealt(made, sender) == (2, 6)  # type: ignore[arg-type]
    assert sent == [(0, [0, 1], [block, None])]
