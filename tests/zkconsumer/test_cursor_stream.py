"""Cursors and streams without brokers: what may be handed out, what counts as done, whose bytes they are."""

from __future__ import annotations

import math
import queue

import pytest

from groundwork.handover import Handover
from kafkawire.errors import CorruptMessage
from kafkawire.model import MessageSet, TopicPartition
from kafkawire.v08 import messages
from zkconsumer.budget import Budget
from zkconsumer.cursor import Cursor, Share
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.lease import Lease
from zkconsumer.stream import Stream

TP = TopicPartition("orders", 3)


class World:
    """One stream, its budget and lease, and cursors on it."""

    def __init__(self, limit: int = 1_000_000) -> None:
        self.budget = Budget(limit)
        self.lane = self.budget.lane(1)
        self.lease = Lease()
        self.lease.valid_until = math.inf
        self.channel: Handover[Share] = Handover(limit, queue.SimpleQueue())
        self.stream = Stream("orders-0", self.channel, timeout_ms=0)
        self.corrupt: list[tuple[int, CorruptMessage]] = []

    def cursor(self, position: int = 0, tp: TopicPartition = TP) -> Cursor:
        cursor = Cursor(
            tp, "g-0", self.lease, self.lane, self.channel, on_corrupt=lambda c, at, e: self.corrupt.append((at, e))
        )
        cursor.begin(position)
        return cursor

    def offsets(self) -> list[int]:
        found: list[int] = []
        try:
            while True:
                found.append(next(self.stream).offset)
        except ConsumerTimeout:
            return found


def a_set(start: int, count: int, tp: TopicPartition = TP, damage_at: int | None = None) -> MessageSet:
    data = bytearray(messages.encode([(start + i, None, b"value %d" % i, None) for i in range(count)]))
    if damage_at is not None:
        data[len(data) // count * damage_at + 30] ^= 1  # in its value
    fetched, _ = messages.message_set(tp.topic, tp.partition, start, memoryview(bytes(data)), 1000)
    return fetched


def test_a_message_is_done_when_the_next_one_is_asked_for():
    world = World()
    cursor = world.cursor()
    cursor.deliver(a_set(0, 3), 100)
    assert cursor.committable() == 0
    for expected_done in (0, 1, 2):
        next(world.stream)
        assert cursor.committable() == expected_done
    assert world.offsets() == []
    assert cursor.committable() == 3


def test_done_says_it_for_the_last_message_of_a_loop():
    world = World()
    cursor = world.cursor()
    cursor.deliver(a_set(0, 3), 100)
    next(world.stream)
    next(world.stream)
    world.stream.done()
    assert cursor.committable() == 2


def test_bytes_are_counted_until_the_set_is_done():
    world = World()
    cursor = world.cursor()
    cursor.deliver(a_set(0, 2), 100)
    fetched, share = next(world.stream.sets())
    first, last = share.ticket(1), share.ticket(fetched.resume_at)
    last.done()
    assert (world.budget.used, cursor.drained) == (0, False)
    first.done()
    assert (cursor.committable(), cursor.drained, world.budget.used) == (2, True, 0)


@pytest.mark.parametrize("taken", [False, True])
def test_dropping_gives_every_byte_back_and_ends_sending_and_committing(taken):
    world = World()
    cursor = world.cursor()
    cursor.deliver(a_set(0, 2), 100)
    cursor.deliver(a_set(2, 2), 100)
    ticket = None
    if taken:
        _, share = next(world.stream.sets())
        ticket = share.ticket(1)
    cursor.drop()
    cursor.discard_fetched()
    assert (world.budget.used, world.lane.used, cursor.committable()) == (0, 0, None)
    assert ticket is None or not ticket.may_send()
    assert world.offsets() == []


def test_a_closing_cursor_hands_out_nothing_more_and_counts_what_is_in_hands():
    world = World()
    cursor = world.cursor()
    cursor.deliver(a_set(0, 3), 100)
    next(world.stream)
    cursor.close()
    assert not cursor.drained
    assert world.offsets() == []  # the user came back: message 0 is done
    assert cursor.drained
    assert cursor.committable() == 1


def test_nothing_is_handed_out_once_the_lease_is_over_not_even_the_rest_of_a_set():
    world = World()
    cursor = world.cursor()
    cursor.deliver(a_set(0, 3), 100)
    next(world.stream)
    world.lease.revoke()
    assert world.offsets() == []
    assert cursor.stranded
    assert not cursor.fetchable


def test_a_set_kept_back_is_never_jumped_over():
    world = World()
    cursor = world.cursor()
    cursor.deliver(a_set(0, 2), 100)
    cursor.deliver(a_set(2, 2), 100)
    world.lease.valid_until = -math.inf
    with pytest.raises(ConsumerTimeout):
        next(world.stream)  # both were due, neither was handed out
    world.lease.valid_until = math.inf
    cursor.deliver(a_set(4, 2), 100)
    assert world.offsets() == []
    assert cursor.stranded
    cursor.begin(cursor.committable())
    cursor.deliver(a_set(0, 6), 300)
    assert world.offsets() == [0, 1, 2, 3, 4, 5]


def test_what_a_sender_let_go_because_the_lease_was_over_is_read_again():
    world = World()
    cursor = world.cursor()
    cursor.deliver(a_set(0, 2), 100)
    _, share = next(world.stream.sets())
    ticket = share.ticket(2)
    world.lease.valid_until = -math.inf
    assert not ticket.may_send()
    world.lease.valid_until = math.inf  # renewed right after: the part is gone all the same
    assert cursor.stranded


def test_a_reset_under_a_reader_costs_no_second_reset():
    world = World()
    cursor = world.cursor()
    cursor.deliver(a_set(0, 3), 100)
    next(world.stream)
    cursor.begin(1)
    cursor.deliver(a_set(1, 2), 100)
    assert world.offsets() == [1, 2]
    assert not cursor.stranded
    assert cursor.committable() == 3


def test_sets_from_before_a_reset_are_not_handed_out():
    world = World()
    cursor = world.cursor()
    cursor.deliver(a_set(0, 2), 100)
    cursor.begin(10)
    cursor.deliver(a_set(10, 2), 100)
    assert world.offsets() == [10, 11]
    assert cursor.committable() == 12


def test_what_was_fetched_before_a_parked_position_is_still_delivered():
    world = World()
    cursor = world.cursor()
    cursor.deliver(a_set(0, 2), 100)
    cursor.park("orders/3 at 2: damaged")
    assert world.offsets() == [0, 1]
    assert cursor.committable() == 2
    assert cursor.parked == "orders/3 at 2: damaged"
    assert not cursor.fetchable


def test_parked_at_once_keeps_back_what_nobody_has_taken():
    world = World()
    cursor = world.cursor()
    cursor.deliver(a_set(0, 2), 100)
    cursor.park("by hand", at_once=True)
    assert world.offsets() == []
    assert (cursor.committable(), world.budget.used) == (0, 0)


def test_a_damaged_message_ends_its_set_after_the_good_ones_and_is_reported_with_its_place():
    world = World()
    cursor = world.cursor()
    cursor.deliver(a_set(0, 4, damage_at=2), 100)
    assert world.offsets() == [0, 1]
    cursor.deliver(a_set(4, 2), 100)  # fetched before anybody knew of the damage
    assert world.offsets() == []
    ((at, error),) = world.corrupt
    assert at == 2
    assert "orders" not in str(error)
    assert cursor.committable() == 2


def test_two_partitions_of_a_stream_are_done_each_for_itself():
    world = World()
    other = TopicPartition("orders", 4)
    a, b = world.cursor(), world.cursor(7, other)
    a.deliver(a_set(0, 2), 100)
    b.deliver(a_set(7, 2, other), 100)
    for _ in range(3):
        next(world.stream)
    assert (a.committable(), b.committable()) == (2, 7)


def test_a_stream_that_stands_still_fills_its_own_lane_only():
    budget = Budget(1000)
    still, flowing = budget.lane(2), budget.lane(2)
    still.take(500)
    assert not still.fits(1)
    assert flowing.fits(500)
    assert budget.lane(2).fits(5000)  # one message larger than the lane comes through an empty lane
    assert budget.free == 500


def test_a_reader_ends_with_the_connector_and_raises_what_killed_it():
    world = World()
    world.channel.close(RuntimeError("fetcher-1 died"))
    with pytest.raises(RuntimeError, match="fetcher-1 died"):
        next(world.stream)
    world = World()
    world.channel.close()
    assert list(world.stream) == []


def test_a_parked_cursor_is_read_again_from_what_is_done_once_all_before_it_is_settled():
    world = World()
    cursor = world.cursor()
    assert not cursor.unpark()  # it is not parked
    cursor.deliver(a_set(0, 4), 100)
    [(fetched, share)] = [next(world.stream.sets()) for _ in range(1)]
    before, large = share.ticket(2), share.ticket(fetched.resume_at)
    large.failed(RuntimeError("too large"))
    assert not cursor.unpark()  # what is under way would be sent twice
    before.done()
    assert cursor.unpark()
    assert (cursor.parked, cursor.position, cursor.committable(), cursor.fetchable) == (None, 2, 2, True)
    cursor.deliver(a_set(2, 2), 100)
    assert world.offsets() == [2, 3]
    assert world.budget.free == world.budget.limit


def test_a_damage_that_is_met_again_after_a_retry_is_told_in_the_same_words():
    cursor = World().cursor(7)
    times = [cursor.count_damage(7) for _ in range(4)][-1]
    cursor.park("damaged")
    assert cursor.unpark()
    assert cursor.count_damage(7) == times


def test_a_cursor_that_is_being_let_go_is_not_read_again():
    cursor = World().cursor(7)
    cursor.park("damaged")
    cursor.close()
    assert not cursor.unpark()
