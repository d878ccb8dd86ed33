"""Cursors and streams without brokers: what may be handed out, what counts as done, whose bytes they are."""

from __future__ import annotations

import gc
import math
import queue
import threading
import weakref
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from groundwork.queues import BoundedQueue
from groundwork.tasks import GreenletExit
from kafkawire.columns import Columns
from kafkawire.errors import CorruptMessage, LibraryMissing
from kafkawire.formats.v01 import messages
from kafkawire.model import Message, MessageSet, TopicPartition
from zkconsumer.errors import ConsumerError, ConsumerTimeout, DecodeFailed
from zkconsumer.fetching.budget import Budget
from zkconsumer.fetching.partition import Partition
from zkconsumer.fetching.partitioncursor import Cursor, DeliveredSet
from zkconsumer.session.lease import Lease
from zkconsumer.streams.stream import Stream

TP = TopicPartition("orders", 3)


class World:
    """One stream, its budget and lease, and cursors on it."""

    def __init__(self, limit: int = 1_000_000, **how: Any) -> None:
        self.budget = Budget(limit)
        self.part = self.budget.for_stream(1)
        self.lease = Lease()
        self.lease.valid_until = math.inf
        self.channel: BoundedQueue[DeliveredSet] = BoundedQueue(limit, queue.SimpleQueue())
        self.stream = Stream("orders-0", self.channel, timeout_ms=0, **how)
        self.corrupt: list[tuple[int, CorruptMessage]] = []

    def cursor(self, position: int = 0, tp: TopicPartition = TP) -> Cursor:
        cursor = Cursor(
            tp,
            "g-0",
            lease=self.lease,
            budget=self.part,
            channel=self.channel,
            on_corrupt=lambda c, at, e: self.corrupt.append((at, e)),
        )
        cursor.apply(cursor.partition.reset_to, position)
        return cursor

    def read(self, reads: str, went_on: tuple[type[BaseException], ...] = (), again: Any = lambda: None) -> list[int]:
        """The offsets of all there is, in this style, by a user who asks again after these exceptions."""
        found: list[int] = []
        sets, batches = self.stream.sets(), self.stream.batches()
        while True:
            try:
                if reads == "messages":
                    found.append((message := next(self.stream)).offset)
                    message.ack()
                elif reads == "batches":
                    found += (batch := next(batches)).offsets
                    batch.ack()
                else:
                    fetched, share = next(sets)
                    found += [message.offset for message in fetched.messages()]
                    share.ticket(fetched.resume_at).done()
            except ConsumerTimeout:
                return found
            except went_on:
                again()

    def offsets(self) -> list[int]:
        found: list[int] = []
        try:
            while True:
                found.append(next(self.stream).offset)
        except ConsumerTimeout:
            return found


class Seen:
    """An observer."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def message(self, message: Message) -> None:
        self.offsets.append(message.offset)

    def batch(self, columns: Columns) -> None:
        self.offsets += columns.offsets

    def message_set(self, message_set: MessageSet) -> None:
        self.offsets += range(message_set.start, message_set.resume_at)


class Raising(Seen):
    """An observer that raises, the first time it is called."""

    def __init__(self, exc: type[BaseException]) -> None:
        super().__init__()
        self.exc = exc

    def _raise(self, _: object) -> None:
        if not self.offsets:
            self.offsets.append(-1)
            raise self.exc("of the observer")

    message = batch = message_set = _raise


def a_set(start: int, count: int, tp: TopicPartition = TP, damage_at: int | None = None) -> MessageSet:
    data = bytearray(messages.encode([(start + i, None, b"value %d" % i, None) for i in range(count)]))
    if damage_at is not None:
        data[len(data) // count * damage_at + 30] ^= 1  # in its value
    fetched, _ = messages.message_set(tp.topic, tp.partition, start, memoryview(bytes(data)), 1000)
    return fetched


def test_a_message_is_done_when_the_next_one_is_asked_for():
    world = World()
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 3), 100)
    assert cursor.committable() == 0
    for expected_done in (0, 1, 2):
        next(world.stream)
        assert cursor.committable() == expected_done
    assert world.offsets() == []
    assert cursor.committable() == 3


def test_done_says_it_for_the_last_message_of_a_loop():
    world = World()
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 3), 100)
    next(world.stream)
    next(world.stream)
    world.stream.done()
    assert cursor.committable() == 2


def test_what_is_queued_of_many_is_discarded_in_one_pass_and_of_no_other():
    world = World()
    cursors = [world.cursor(tp=TopicPartition("orders", n)) for n in range(200)]
    judged = 0
    drop = world.channel.drop

    def counted(predicate: Any) -> Any:
        def judge(delivered: DeliveredSet) -> bool:
            nonlocal judged
            judged += 1
            return bool(predicate(delivered))

        return drop(judge)

    world.channel.drop = counted  # type: ignore[method-assign]
    for cursor in cursors:
        cursor.enqueue(a_set(0, 2), 100)
    leaving = cursors[:150]
    for cursor in leaving:
        cursor.apply(cursor.partition.revoke)
    Cursor.discard_fetched(leaving)
    assert judged == 200
    assert world.budget.used == 50 * 100
    assert world.offsets() == [0, 1] * 50


def test_nothing_is_handed_out_once_the_lease_is_over_not_even_the_rest_of_a_set():
    world = World()
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 3), 100)
    next(world.stream)
    world.lease.revoke()
    assert world.offsets() == []
    assert cursor.partition.refetch_due
    assert cursor.partition.fetch_offset is None


def test_what_a_sender_let_go_because_the_lease_was_over_is_read_again():
    world = World()
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 2), 100)
    _, share = next(world.stream.sets())
    ticket = share.ticket(2)
    world.lease.valid_until = -math.inf
    assert not ticket.may_send()
    world.lease.valid_until = math.inf  # renewed right after: the part is gone all the same
    assert cursor.partition.refetch_due


def test_a_damaged_message_ends_its_set_after_the_good_ones_and_is_reported_with_its_place():
    world = World()
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 4, damage_at=2), 100)
    assert world.offsets() == [0, 1]
    cursor.enqueue(a_set(4, 2), 100)  # fetched before anybody knew of the damage
    assert world.offsets() == []
    ((at, error),) = world.corrupt
    assert at == 2
    assert "orders" not in str(error)
    assert cursor.committable() == 2


def test_a_stream_that_stands_still_fills_its_own_lane_only():
    budget = Budget(1000)
    still, flowing = budget.for_stream(2), budget.for_stream(2)
    one, another, other = still.open(), still.open(), flowing.open()
    still.take(one, 500)
    assert still.offer().room(another) <= 0
    assert flowing.offer().room(other) >= 300
    assert flowing.offer().grant_whole(other, 5000)  # one message larger than the lane comes through an empty lane
    assert budget.free == 500


def test_a_reader_ends_with_the_connector_and_raises_what_killed_it():
    world = World()
    world.channel.close(RuntimeError("fetcher-1 died"))
    with pytest.raises(RuntimeError, match="fetcher-1 died"):
        next(world.stream)
    world = World()
    world.channel.close()
    assert list(world.stream) == []


def test_a_damage_that_is_met_again_after_a_retry_is_told_in_the_same_words():
    cursor = World().cursor(7)
    times = [cursor.partition.position.count_damage(7, 0) for _ in range(4)][-1]
    cursor.apply(cursor.partition.park, "damaged")
    assert cursor.apply(cursor.partition.unpark)
    assert cursor.partition.position.count_damage(7, 0) == times


# what counts as done ----------------------------------------------------------------------------------------------


def test_on_ack_only_acknowledged_messages_count_and_only_the_prefix_is_committable():
    world = World(delivery="on-ack")
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 2), 100)
    cursor.enqueue(a_set(2, 2), 100)
    messages = [next(world.stream) for _ in range(4)]
    assert world.offsets() == []
    assert (cursor.committable(), cursor.drained) == (0, False)
    for n, committable in ((1, 0), (3, 0), (0, 2), (0, 2)):
        messages[n].ack()
        assert cursor.committable() == committable
    threads = [threading.Thread(target=messages[2].ack) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (cursor.committable(), cursor.drained, world.budget.used, world.part.used) == (4, True, 0, 0)


def test_on_ack_a_set_that_was_handed_out_gives_its_bytes_back_so_that_late_acks_stop_nobody():
    world = World(limit=100, delivery="on-ack")
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 2), 100)
    kept = [next(world.stream), next(world.stream)]
    assert world.budget.used == 100
    assert world.offsets() == []
    assert world.budget.used == 0
    assert [m.offset for m in kept] == [0, 1]
    assert cursor.committable() == 0


def test_on_ack_damage_does_not_count_what_was_not_acknowledged():
    world = World(delivery="on-ack")
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 4, damage_at=2), 100)
    first, second = next(world.stream), next(world.stream)
    assert world.offsets() == []
    ((at, _error),) = world.corrupt
    assert (at, cursor.partition.next_delivery) == (2, 2)
    cursor.apply(cursor.partition.refetch, at)
    cursor.enqueue(a_set(2, 2), 100)
    assert world.offsets() == [2, 3]
    assert cursor.committable() == 0
    second.ack()
    first.ack()
    assert cursor.committable() == 2


def test_at_most_once_a_set_is_committed_before_any_of_it_is_handed_out():
    commits: list[tuple[TopicPartition, int]] = []
    world = World(delivery="at-most-once", commit=lambda tp, at: commits.append((tp, at)))
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 2), 100)
    cursor.enqueue(a_set(2, 2), 100)
    assert next(world.stream).offset == 0
    assert commits == [(TP, 2)]
    assert (cursor.committable(), cursor.drained, world.budget.used) == (2, False, 200)
    assert world.offsets() == [1, 2, 3]
    assert commits == [(TP, 2), (TP, 4)]
    assert (cursor.committable(), cursor.drained, world.budget.used) == (4, True, 0)


def test_at_most_once_needs_somebody_who_commits():
    with pytest.raises(ValueError, match="at-most-once needs a commit function"):
        World(delivery="at-most-once")


# decoders ---------------------------------------------------------------------------------------------------------


def test_decoders_get_the_topic_and_what_is_there_and_their_error_ends_nothing():
    def number(topic: str, data: bytes) -> int:
        assert topic == "orders"
        if data.endswith(b"1"):
            raise ValueError("not that one")
        return int(data.rpartition(b" ")[2])

    world = World(decoders=(number, number))
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 3), 100)
    first = next(world.stream)
    assert (first.key, first.value) == (None, 0)
    with pytest.raises(
        DecodeFailed, match=r"orders/3 at 1: the decoder refused the message: ValueError: not that"
    ) as e:
        next(world.stream)
    assert (e.value.tp, e.value.offset, e.value.message.value) == (TP, 1, b"value 1")
    assert isinstance(e.value.__cause__, ValueError)
    assert cursor.committable() == 1  # the refused one is in the user's hands
    assert next(world.stream).value == 2
    assert cursor.committable() == 2


# pauses -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", ["messages", "batches"])
def test_a_set_that_is_taken_while_its_partition_is_paused_and_resumed_is_not_left_out(reads):
    """The pause comes between the taking and the delivery, from another thread: here where an observer is called."""

    class Pausing(Seen):
        def message(self, message: Message) -> None:
            if message.offset == 0:
                self.again()

        def batch(self, columns: Columns) -> None:
            if columns.offsets[0] == 0:
                self.again()

        def again(self) -> None:
            cursor.apply(cursor.partition.pause)
            cursor.apply(cursor.partition.resume)

    world = World(observer=Pausing())
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 3), 100)
    cursor.enqueue(a_set(3, 2), 100)
    batches, found = world.stream.batches(), []
    for _ in range(3):
        try:
            found += next(batches).offsets if reads == "batches" else [next(world.stream).offset]
        except ConsumerTimeout:
            break
        if cursor.partition.position.offset == 3:  # what stood behind it is fetched again
            cursor.enqueue(a_set(3, 2), 100)
    assert found == ([0, 1, 2, 3, 4] if reads == "batches" else [0, 1, 2])


def test_a_resume_does_not_take_up_a_partition_whose_message_failed():
    world = World(delivery="on-ack")
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 3), 100)
    cursor.enqueue(a_set(3, 2), 100)
    next(world.stream).ack()
    next(world.stream).handed.failed(ValueError("a handler parked it"), 1)
    cursor.apply(cursor.partition.pause)
    cursor.apply(cursor.partition.resume)
    assert cursor.parked == "a handler parked it"
    assert world.offsets() == []
    assert cursor.committable() == 1
    assert cursor.apply(cursor.partition.unpark)
    cursor.enqueue(a_set(1, 4), 100)
    assert world.offsets() == [1, 2, 3, 4]


def test_what_a_stream_is_to_raise_is_raised_though_its_partition_was_paused_before():
    world = World(delivery="on-ack")
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 2), 100)
    assert world.offsets() == [0, 1]
    why = ConsumerError("damaged at 2")
    cursor.apply(cursor.partition.park, why)
    cursor.enqueue(a_set(2, 0), 0, why)  # as with corrupt.message.policy=fail
    for _ in range(2):
        cursor.apply(cursor.partition.pause)
        assert world.offsets() == []
        cursor.apply(cursor.partition.resume)
    with pytest.raises(ConsumerError, match="damaged at 2"):
        next(world.stream)
    assert world.offsets() == []
    assert (cursor.parked, cursor.committable()) == ("damaged at 2", 0)


def test_damage_behind_a_message_that_failed_does_not_take_the_partition_up_again():
    world = World(delivery="on-ack")
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 4, damage_at=2), 100)
    next(world.stream).ack()
    next(world.stream).handed.failed(ValueError("a handler parked it"), 1)
    assert world.offsets() == []
    ((at, _),) = world.corrupt
    cursor.apply(cursor.partition.refetch, at)  # as the engine does
    assert cursor.parked == "a handler parked it"
    assert cursor.committable() == 1


def test_a_reader_that_stops_in_a_pause_while_it_is_resumed_leaves_nothing_out(monkeypatch):
    """The reader is between its look and its word when the hub asks where to go on."""
    world = World()
    cursor = world.cursor()
    stopping, may_stop, seen = threading.Event(), threading.Event(), []
    report = cursor.report

    def slowly(event: Callable[..., Any], *args: Any) -> Any:
        if event == cursor.partition.iteration_ended:
            stopping.set()
            assert may_stop.wait(5)
        return report(event, *args)

    monkeypatch.setattr(cursor, "report", slowly)
    cursor.enqueue(a_set(0, 3), 100)
    cursor.enqueue(a_set(3, 2), 100)
    assert next(world.stream).offset == 0
    world.stream.done()  # another thread reads on
    cursor.apply(cursor.partition.pause)
    reader = threading.Thread(target=lambda: seen.extend(world.offsets()))
    reader.start()
    assert stopping.wait(5)
    positions = [cursor.partition.next_delivery]

    def look(partition: Partition) -> int:
        value = positions[0]
        if not may_stop.is_set():
            may_stop.set()
            reader.join(0.1)  # it may have to wait for us
        return value

    following = property(look, lambda partition, at: positions.insert(0, at))
    monkeypatch.setattr(Partition, "next_delivery", following, raising=False)
    cursor.apply(cursor.partition.resume)
    reader.join(5)
    if cursor.partition.refetch_due:
        cursor.apply(cursor.partition.refetch_withheld)  # as the engine's timer does
    cursor.enqueue(a_set(cursor.partition.position.offset, 5 - cursor.partition.position.offset), 100)
    assert seen + world.offsets() == [1, 2, 3, 4]


def test_damage_met_before_a_seek_does_not_take_it_back():
    world = World()
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 2, damage_at=1), 100)
    next(world.stream)
    cursor.apply(cursor.partition.reset_to, 50)
    assert world.offsets() == []
    assert world.corrupt == []
    assert cursor.partition.next_delivery == 50


# between the taking of a set and its delivery -----------------------------------------------------------------------


@pytest.mark.parametrize("reads", ["messages", "batches", "sets"])
@pytest.mark.parametrize("exc", [MemoryError, LibraryMissing])
def test_an_observer_that_fails_is_logged_and_costs_nothing(reads, exc, caplog):
    world = World(observer=Raising(exc))
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 4), 100)
    cursor.enqueue(a_set(4, 4), 100)
    assert world.read(reads) == list(range(8))
    assert (cursor.committable(), cursor.drained, world.budget.used) == (8, True, 0)
    (line,) = [record.getMessage() for record in caplog.records]
    assert f"the observer of stream orders-0 raised {exc.__name__}" in line


Interrupts = tuple[type[BaseException], ...]
INTERRUPTS: Interrupts = (KeyboardInterrupt, GreenletExit, MemoryError)


def once(exc: type[BaseException], call: Any) -> Any:
    """A function that raises the first time, and then is call()."""
    calls: list[int] = []

    def raising(*args: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise exc
        return call(*args, **named)

    return raising


CALLS = {
    "messages": ["observer", "take", "taken", "commit", "iterated", "pieces"],
    "batches": ["observer", "take", "taken", "commit", "ended", "pieces", "may_deliver", "ticket"],
    "sets": ["observer", "take", "taken", "commit"],
}


@pytest.mark.parametrize("exc", INTERRUPTS)
@pytest.mark.parametrize("delivery", ["at-least-once", "on-ack", "at-most-once"])
@pytest.mark.parametrize(("reads", "at"), [(reads, at) for reads, calls in CALLS.items() for at in calls])
def test_a_set_that_cannot_be_handed_out_is_fetched_again(at, delivery, reads, exc, monkeypatch):
    """An interrupt anywhere between the queue and the user: nothing after that set may count as if it were done."""
    world = World(
        delivery=delivery,
        observer=Raising(exc) if at == "observer" and exc is not MemoryError else None,
        commit=once(exc, lambda tp, to: None) if at == "commit" else lambda tp, to: None,
    )
    cursor = world.cursor()
    if at == "take":  # before it has an effect
        monkeypatch.setattr(cursor, "under_lease", once(exc, cursor.under_lease))
    elif at == "taken":  # after it
        take = cursor.under_lease
        raising = once(exc, lambda taken: taken)
        monkeypatch.setattr(cursor, "under_lease", lambda *args: raising(take(*args)))
    elif at == "may_deliver":
        monkeypatch.setattr(DeliveredSet, "may_deliver", once(exc, DeliveredSet.may_deliver))
    elif at == "ticket":  # has its effect
        ticket = DeliveredSet.ticket
        raising = once(exc, lambda made: made)
        monkeypatch.setattr(DeliveredSet, "ticket", lambda *args: raising(ticket(*args)))
    elif at == "pieces":
        decode = MessageSet.messages if reads == "messages" else MessageSet.pieces
        first = once(exc, lambda: None)

        def decoding(*args: Any, **named: Any) -> Any:
            first()
            yield from decode(*args, **named)

        monkeypatch.setattr(MessageSet, "messages" if reads == "messages" else "pieces", decoding)
    elif at in ("iterated", "ended"):
        monkeypatch.setattr(cursor.partition, at, once(exc, getattr(cursor.partition, at)))
    cursor.enqueue(a_set(0, 4), 100)
    cursor.enqueue(a_set(4, 4), 100)

    found = world.read(reads, (exc,))
    if found != list(range(8)):
        assert found == []
        assert cursor.partition.refetch_due
        assert cursor.committable() == 0 or delivery == "at-most-once"  # there it was committed first
        cursor.apply(cursor.partition.refetch_withheld)
        assert cursor.partition.position.offset == 0
        cursor.enqueue(a_set(0, 4), 100)
        cursor.enqueue(a_set(4, 4), 100)
        assert world.read(reads) == list(range(8))
    assert (cursor.committable(), cursor.drained, world.budget.used) == (8, True, 0)


@pytest.mark.parametrize("delivery", ["at-least-once", "on-ack", "at-most-once"])
@pytest.mark.parametrize("exc", [KeyboardInterrupt, GreenletExit])
def test_a_message_whose_decoder_is_interrupted_is_fetched_again(delivery, exc):
    """It did not reach the user, so asking for the next one does not say that it is done."""

    interrupted: list[bytes] = []

    def decode(topic: str, value: bytes) -> bytes:
        if value == b"value 2" and not interrupted:
            interrupted.append(value)
            raise exc
        return value

    world = World(delivery=delivery, decoders=(None, decode), commit=lambda tp, to: None)
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 4), 100)
    cursor.enqueue(a_set(4, 4), 100)
    assert world.read("messages", (exc,)) == [0, 1]
    if delivery != "at-most-once":
        assert cursor.committable() == 2
    cursor.apply(cursor.partition.refetch_withheld)
    assert cursor.partition.position.offset == 2
    cursor.enqueue(a_set(2, 2), 100)
    cursor.enqueue(a_set(4, 4), 100)
    assert world.read("messages") == [2, 3, 4, 5, 6, 7]
    assert (cursor.committable(), cursor.drained, world.budget.used) == (8, True, 0)


@pytest.mark.parametrize("reads", ["messages", "batches"])
def test_damage_that_cannot_be_reported_is_met_again_and_nothing_behind_it_counts(reads):
    world = World()
    cursor = world.cursor()
    cursor.on_corrupt = once(KeyboardInterrupt, cursor.on_corrupt)
    cursor.enqueue(a_set(0, 4, damage_at=2), 100)
    cursor.enqueue(a_set(4, 4), 100)
    assert world.read(reads, (KeyboardInterrupt,)) == [0, 1]
    assert (cursor.committable(), cursor.partition.refetch_due, cursor.partition.next_delivery) == (2, True, 2)


# the rest ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", ["messages", "batches", "sets"])
def test_what_is_handed_out_is_observed_once(reads):
    seen = Seen()
    world = World(observer=seen)
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 2), 100)
    cursor.apply(cursor.partition.reset_to, 5)
    cursor.enqueue(a_set(5, 2), 100)
    assert world.read(reads) == [5, 6]
    assert seen.offsets == [5, 6]


def test_an_error_from_elsewhere_is_raised_once_at_the_next_ask_and_costs_no_message():
    world = World()
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 2), 100)
    next(world.stream)
    world.stream.raise_next(ConsumerError("the listener failed"))
    with pytest.raises(ConsumerError, match="the listener failed"):
        next(world.stream)
    assert world.offsets() == [1]


def test_sets_asked_for_in_the_middle_of_an_iteration_leave_nothing_out():
    world = World()
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 3), 100)
    next(world.stream)
    with pytest.raises(ConsumerTimeout):
        next(world.stream.sets())
    assert (cursor.committable(), cursor.partition.refetch_due) == (1, True)
    cursor.apply(cursor.partition.refetch_withheld)
    cursor.enqueue(a_set(1, 2), 100)
    fetched, share = next(world.stream.sets())
    share.ticket(fetched.resume_at).done()
    assert (fetched.start, cursor.committable()) == (1, 3)


def test_an_iterator_goes_on_after_whatever_it_raised():
    world = World()
    cursor = world.cursor()
    messages = iter(world.stream)
    with pytest.raises(ConsumerTimeout):
        next(messages)
    cursor.enqueue(a_set(0, 3), 100)
    assert next(messages).offset == 0
    world.stream.raise_next(ConsumerError("the listener failed"))
    with pytest.raises(ConsumerError):
        next(messages)
    assert cursor.committable() == 1  # the user came back
    assert [next(messages).offset, next(world.stream).offset] == [1, 2]
    with pytest.raises(ConsumerTimeout):
        next(messages)
    assert cursor.committable() == 3
    world.channel.close()
    assert list(messages) == list(world.stream) == []
    world.stream.raise_next(ConsumerError("once more"))
    with pytest.raises(ConsumerError):
        next(world.stream)


def test_an_iterator_that_was_left_for_batches_hands_out_nothing_of_the_set_it_had():
    world = World()
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 4), 100)
    messages = iter(world.stream)
    next(messages)
    with pytest.raises(ConsumerTimeout):
        next(world.stream.batches())  # what is left of the set comes again
    cursor.apply(cursor.partition.refetch_withheld)
    cursor.enqueue(a_set(1, 3), 100)
    fresh = iter(world.stream)
    assert next(fresh).offset == 1
    with pytest.raises(ConsumerTimeout):
        next(messages)  # an older one: the message in hand is not counted, and comes once more
    assert cursor.committable() == 1
    cursor.apply(cursor.partition.refetch_withheld)
    cursor.enqueue(a_set(1, 3), 100)
    assert [message.offset for message in islice(messages, 3)] == [1, 2, 3]


def test_a_set_is_not_held_by_a_stream_that_reads_batches_now():
    world = World()
    cursor = world.cursor()
    fetched = weakref.ref((message_set := a_set(0, 2)).buffer)
    cursor.enqueue(message_set, 100)
    del message_set
    next(world.stream)
    with pytest.raises(ConsumerTimeout):
        next(world.stream.batches())
    gc.collect()
    assert fetched() is None
