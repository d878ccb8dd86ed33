"""The states of the queue in front of a producer that has handlers: what may be queued, and how its items end."""

from __future__ import annotations

import threading
from time import monotonic

import pytest

from kafkawire.model import TopicPartition
from producer.delivery import Bucket, Promise
from producer.errors import Closed
from producer.handlerqueue import APPENDING, End, QueueState, State, _Mark
from producer.handlers import Item


def item(number: int) -> Item:
    bucket = Bucket(TopicPartition("t", -1), threading.Lock(), threading.Event)
    return Item("t", number, promise=Promise(bucket, None))


def counts(state: QueueState) -> tuple[int, ...]:
    return (state.waiting, state.handled, state.dropped)


def test_an_item_waits_until_it_ends_and_makes_room_then():
    state = QueueState(2, threading.Event)
    items = [item(n) for n in range(3)]
    assert [state.put(each) for each in items] == [True, True, False]
    assert [state.take(monotonic()) for _ in range(3)] == [*items[:2], None]
    assert not state.put(items[2])  # a batch that is not sent yet waits, too
    assert state.append()
    assert state.at == APPENDING
    assert state.end([items[0]], End.APPENDED)
    assert (counts(state), state.at) == ((1, 0, 0), "")
    assert state.put(items[2])
    assert state.end([items[1]], End.HANDLED)
    assert state.end([items[2]], End.DROPPED)
    assert counts(state) == (0, 1, 1)


def test_behind_the_last_mark_nothing_is_queued_and_what_is_there_comes_out():
    state = QueueState(2, threading.Event)
    first, last = item(0), _Mark(threading.Event(), True)
    state.put(first)
    state.mark(_Mark(threading.Event(), False))
    assert state.state is State.OPEN
    state.mark(last)
    assert state.state is State.CLOSING
    with pytest.raises(Closed):
        state.put(item(1))
    assert state.take(monotonic()) is first
    state.take(monotonic())
    assert state.take(monotonic()) is last


def test_an_abandoned_queue_has_counted_what_was_left_and_counts_nothing_after_it():
    state = QueueState(3, threading.Event)
    items = [item(n) for n in range(3)]
    for each in items:
        state.put(each)
    state.take(monotonic())
    state.end(items[:1], End.APPENDED)
    state.at = "callback.handler: before_sending"
    promises, count, at = state.abandon()
    assert ({id(promise) for promise in promises}, count) == ({id(each.promise) for each in items[1:]}, 2)
    assert at == "callback.handler: before_sending"
    assert counts(state) == (0, 0, 2)
    assert not state.append()
    assert not state.changed(5)
    assert not state.end(items[1:], End.HANDLED)
    assert state.take(monotonic() + 60) is None
    assert counts(state) == (0, 0, 2)
