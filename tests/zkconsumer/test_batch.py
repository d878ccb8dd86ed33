"""Batches: the columns of one set, what counts as done, and what follows damage."""

from __future__ import annotations

import math
import queue
import threading
from typing import Any

import pytest

from groundwork.queues import BoundedQueue
from kafkawire.errors import CorruptMessage
from kafkawire.formats.v01 import messages
from kafkawire.model import MessageSet, TopicPartition
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.fetching.budget import Budget
from zkconsumer.fetching.partitioncursor import Cursor, DeliveredSet
from zkconsumer.session.lease import Lease
from zkconsumer.streams.stream import Stream

TP = TopicPartition("orders", 3)
Rows = list[tuple[int, bytes | None, bytes | None, int | None]]


class World:
    """A stream of one partition, begun at 0."""

    def __init__(self, **how: Any) -> None:
        self.budget = Budget(1_000_000)
        self.channel: BoundedQueue[DeliveredSet] = BoundedQueue(1_000_000, queue.SimpleQueue())
        self.stream = Stream("orders-0", self.channel, timeout_ms=0, **how)
        self.corrupt: list[tuple[int, CorruptMessage]] = []
        lease = Lease()
        lease.valid_until = math.inf
        self.cursor = Cursor(
            TP,
            "g-0",
            lease=lease,
            budget=self.budget.for_stream(1),
            channel=self.channel,
            on_corrupt=lambda c, at, e: self.corrupt.append((at, e)),
        )
        self.cursor.apply(self.cursor.partition.reset_to, 0)


def fetched(rows: Rows, start: int = 0, codec: int = 0, magic: int = 0, damage: int | None = None) -> MessageSet:
    data = bytearray(messages.encode(rows, codec, magic))
    if damage is not None:
        data[damage] ^= 1
    return messages.message_set(*TP, start, memoryview(bytes(data)), 1000)[0]


def rows(start: int, count: int) -> Rows:
    return [(n, None, b"value %d" % n, None) for n in range(start, start + count)]


@pytest.mark.parametrize("codec", [0, 1, 2])
def test_a_batch_has_the_columns_of_one_set(codec):
    world = World()
    world.cursor.enqueue(
        fetched([(0, b"k", b"a", None), (1, None, None, None), (2, b"", b"c", None)], codec=codec), 100
    )
    (batch,) = [next(world.stream.batches())]
    assert (batch.tp, batch.topic, batch.partition, batch.resume_at, len(batch)) == (TP, "orders", 3, 3, 3)
    assert batch.offsets == [0, 1, 2]
    assert batch.keys == [b"k", None, b""]
    assert batch.values == [b"a", None, b"c"]
    assert batch.timestamps_ms == [None, None, None]
    assert repr(batch) == "<Batch orders/3 ..3, 3 messages>"


def test_timestamps_are_there_where_the_format_has_them():
    world = World()
    world.cursor.enqueue(fetched([(0, None, b"a", 17), (1, None, b"b", -1)], magic=1), 100)
    assert next(world.stream.batches()).timestamps_ms == [17, None]


def test_a_wrapper_that_is_entered_in_its_middle_gives_what_is_wanted():
    world = World()
    world.cursor.apply(world.cursor.partition.reset_to, 3)
    world.cursor.enqueue(fetched(rows(0, 5), start=3, codec=1), 100)
    assert next(world.stream.batches()).offsets == [3, 4]


def test_a_batch_is_done_when_its_successor_is_asked_for():
    world = World()
    world.cursor.enqueue(fetched(rows(0, 2)), 100)
    world.cursor.enqueue(fetched(rows(2, 2), 2), 100)
    batches = world.stream.batches()
    assert next(batches).offsets == [0, 1]
    assert (world.cursor.committable(), world.cursor.drained) == (0, False)
    assert next(batches).offsets == [2, 3]
    assert (world.cursor.committable(), world.budget.used) == (2, 100)
    with pytest.raises(ConsumerTimeout):
        next(batches)
    assert (world.cursor.committable(), world.cursor.drained, world.budget.used) == (4, True, 0)


def test_an_acknowledged_batch_is_done_at_once():
    world = World()
    world.cursor.enqueue(fetched(rows(0, 2)), 100)
    batch = next(world.stream.batches())
    batch.ack()
    batch.ack()
    assert (world.cursor.committable(), world.cursor.drained) == (2, True)


def test_what_comes_before_damage_is_a_batch_and_the_damage_is_told_after_it():
    world = World()
    world.cursor.enqueue(fetched(rows(0, 3), damage=2 * 33 + 30), 100)
    batches = world.stream.batches()
    batch = next(batches)
    assert (batch.offsets, batch.resume_at, world.corrupt) == ([0, 1], 2, [])
    with pytest.raises(ConsumerTimeout):
        next(batches)
    ((at, _error),) = world.corrupt
    assert (at, world.cursor.committable(), world.budget.used) == (2, 2, 0)
    world.cursor.apply(world.cursor.partition.refetch, at)
    world.cursor.enqueue(fetched(rows(2, 1), 2), 100)
    assert next(batches).offsets == [2]


def test_damage_at_the_very_beginning_makes_no_empty_batch():
    world = World()
    world.cursor.enqueue(fetched(rows(0, 2), damage=30), 100)
    with pytest.raises(ConsumerTimeout):
        next(world.stream.batches())
    assert [at for at, _ in world.corrupt] == [0]
    assert (world.cursor.committable(), world.budget.used) == (0, 0)


def test_checksums_are_left_alone_where_nobody_wants_them():
    world = World(check_crcs=False)
    world.cursor.enqueue(fetched(rows(0, 2), damage=30), 100)
    assert next(world.stream.batches()).offsets == [0, 1]


def test_a_reader_that_will_not_come_back_keeps_nobody_waiting_and_its_batch_is_not_done():
    world = World()
    world.cursor.enqueue(fetched(rows(0, 2)), 100)
    next(world.stream.batches())
    world.cursor.apply(world.cursor.partition.revoke)
    world.stream.give_up(threading.get_ident())
    assert (world.cursor.drained, world.cursor.committable(), world.budget.used) == (True, 0, 0)


# ---- sets of several pieces ------------------------------------------------------------------------------------


def large(start: int, count: int) -> Rows:
    """Rows of which two make a piece."""
    return [(n, None, b"%d" % n * 100_000, None) for n in range(start, start + count)]


def test_on_ack_done_says_nothing_of_the_last_batch():
    world = World(delivery="on-ack")
    world.cursor.enqueue(fetched(rows(0, 2)), 100)
    batch = next(world.stream.batches())
    world.stream.done()
    assert world.cursor.committable() == 0
    batch.ack()
    assert world.cursor.committable() == 2


@pytest.mark.parametrize("codec", [0, 2])
def test_a_large_set_makes_several_batches_each_done_when_the_next_is_asked_for(codec):
    world = World()
    sets = [fetched(large(0, 5), 0)] if not codec else [fetched(large(n, 1), n, codec) for n in range(5)]
    for each in sets:
        world.cursor.enqueue(each, 100)
    batches = world.stream.batches()
    seen = []
    for batch in (next(batches) for _ in range(3 if not codec else 5)):
        assert world.cursor.committable() == len(seen)
        seen += batch.offsets
        assert batch.resume_at == len(seen)
        assert batch.values == [row[2] for row in large(batch.offsets[0], len(batch))]
    with pytest.raises(ConsumerTimeout):
        next(batches)
    assert (seen, world.cursor.committable()) == ([0, 1, 2, 3, 4], 5)
    assert (world.cursor.drained, world.budget.used) == (True, 0)


def test_nothing_more_of_a_set_is_handed_out_once_its_partition_is_let_go():
    world = World()
    world.cursor.enqueue(fetched(large(0, 5)), 100)
    batches = world.stream.batches()
    batch = next(batches)
    world.cursor.apply(world.cursor.partition.revoke)
    assert not world.cursor.drained
    batch.ack()
    assert (world.cursor.drained, world.cursor.committable()) == (True, 2)  # nobody waits for a reader that rests
    with pytest.raises(ConsumerTimeout):
        next(batches)
    assert (world.cursor.drained, world.cursor.committable(), world.budget.used) == (True, 2, 0)


def test_damage_in_a_later_piece_is_told_after_the_batch_before_it():
    world = World()
    world.cursor.enqueue(fetched(large(0, 5), damage=3 * 100_026 + 5000), 100)
    batches = world.stream.batches()
    assert [next(batches).offsets for _ in range(2)] == [[0, 1], [2]]
    assert world.corrupt == []
    with pytest.raises(ConsumerTimeout):
        next(batches)
    ((at, error),) = world.corrupt
    assert (at, error.offset, error.position, world.cursor.committable()) == (3, 3, 3 * 100_026, 3)


def test_acknowledged_pieces_count_in_any_order():
    world = World(delivery="on-ack")
    world.cursor.enqueue(fetched(large(0, 5)), 100)
    batches = world.stream.batches()
    first, second, third = (next(batches) for _ in range(3))
    second.ack()
    third.ack()
    assert world.cursor.committable() == 0
    first.ack()
    assert (world.cursor.committable(), world.budget.used) == (5, 0)


def test_a_reader_that_gives_up_between_two_pieces_has_done_neither_the_batch_nor_the_rest():
    world = World()
    world.cursor.enqueue(fetched(large(0, 5)), 100)
    batches = world.stream.batches()
    next(batches)
    next(batches)
    world.cursor.apply(world.cursor.partition.revoke)
    world.stream.give_up(threading.get_ident())
    assert (world.cursor.drained, world.cursor.committable(), world.budget.used) == (True, 2, 0)


def test_damage_behind_a_batch_is_told_though_its_partition_was_paused_meanwhile():
    world = World()
    good = messages.encode(rows(0, 2))
    world.cursor.enqueue(fetched(rows(0, 4), damage=len(good) + 30), 100)
    world.cursor.enqueue(fetched(rows(4, 2)), 100)
    reading = world.stream.batches()
    assert next(reading).offsets == [0, 1]
    world.cursor.apply(world.cursor.partition.pause)
    world.cursor.apply(world.cursor.partition.resume)  # what stood behind it is fetched again
    world.cursor.enqueue(fetched(rows(4, 2)), 100)
    with pytest.raises(ConsumerTimeout):
        next(reading)
    ((at, error),) = world.corrupt
    assert (at, error.offset, world.cursor.partition.next_delivery) == (2, 2, 2)
    assert world.cursor.committable() == 2
    world.cursor.apply(world.cursor.partition.refetch, 2)
    world.cursor.enqueue(fetched(rows(2, 4), 2), 100)
    assert next(reading).offsets == [2, 3, 4, 5]
