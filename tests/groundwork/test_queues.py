from __future__ import annotations

import queue
import random
import signal
import threading
import time

import pytest

from groundwork.hub import CallersHub, OwnThread
from groundwork.queues import BoundedQueue, Closed, InSteps
from groundwork.tasks import TaskGroup, sleep


def put_all(bounded_queue: BoundedQueue[int], count: int, nbytes: int) -> None:
    for n in range(count):
        bounded_queue.put(n, nbytes)
    bounded_queue.close()


def drain(bounded_queue: BoundedQueue[int]) -> list[int]:
    got = []
    while True:
        try:
            got.append(bounded_queue.get(10))
        except Closed:
            return got


@pytest.mark.parametrize("nbytes", [1, 40, 99, 100, 250])
def test_all_arrive_in_order_and_the_limit_holds(own: OwnThread, nbytes: int) -> None:
    bounded_queue: BoundedQueue[int] = own.bounded_queue(100)
    own.post(put_all, bounded_queue, 500, nbytes)
    most = 0
    got = []
    try:
        while True:
            most = max(most, bounded_queue.queued_bytes)
            got.append(bounded_queue.get(10))
    except Closed:
        pass
    assert got == list(range(500))
    assert most <= max(100, nbytes)
    assert bounded_queue.queued_bytes == 0


def test_put_waits_while_full_and_goes_on_when_half_is_free(own: OwnThread) -> None:
    bounded_queue: BoundedQueue[int] = own.bounded_queue(100)
    own.post(put_all, bounded_queue, 10, 50)
    assert bounded_queue.get(5) == 0  # two fit; the next puts wait for room
    for _ in range(500):
        if bounded_queue.queued_bytes == 100:
            break
        time.sleep(0.01)
    assert bounded_queue.queued_bytes == 100
    assert drain(bounded_queue) == list(range(1, 10))


def test_many_putters_share_the_room(own: OwnThread) -> None:
    bounded_queue: BoundedQueue[tuple[int, int]] = own.bounded_queue(64)
    rng = random.Random(3)
    sizes = [[rng.randint(1, 80) for _ in range(200)] for _ in range(4)]

    def putter(who: int) -> None:
        for n, size in enumerate(sizes[who]):
            bounded_queue.put((who, n), size)

    for who in range(4):
        own.post(putter, who)
    got = [bounded_queue.get(10) for _ in range(800)]
    for who in range(4):
        assert [n for w, n in got if w == who] == list(range(200))


def test_get_in_vain_is_empty_in_time(own: OwnThread) -> None:
    bounded_queue: BoundedQueue[int] = own.bounded_queue(100)
    began = time.monotonic()
    with pytest.raises(queue.Empty):
        bounded_queue.get(0.05)
    with pytest.raises(queue.Empty):
        bounded_queue.get(0)
    assert 0.04 < time.monotonic() - began < 5


def test_close_lets_the_rest_out_then_ends_every_getter(own: OwnThread) -> None:
    bounded_queue: BoundedQueue[int] = own.bounded_queue(100)
    own.call(bounded_queue.put, 1, 10)
    ended: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
    threads = [threading.Thread(target=lambda: ended.put(drain(bounded_queue))) for _ in range(3)]
    for thread in threads:
        thread.start()
    bounded_queue.close()
    bounded_queue.close()
    got = [ended.get(timeout=5) for _ in threads]
    for thread in threads:
        thread.join(5)
    assert sorted(got) == [[], [], [1]]
    with pytest.raises(Closed):
        own.call(bounded_queue.put, 2, 10)


def test_close_with_a_reason_gives_it_to_getters_and_waiting_putters(own: OwnThread) -> None:
    bounded_queue: BoundedQueue[int] = own.bounded_queue(10)
    own.call(bounded_queue.put, 1, 10)
    failed: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
    own.on_error = lambda _, exc: failed.put(exc)
    own.post(bounded_queue.put, 2, 10)
    own.call(sleep, 0.01)  # it waits for room by now
    reason = OSError("session lost")
    bounded_queue.close(reason)
    assert failed.get(timeout=5).__cause__ is reason
    assert bounded_queue.get(5) == 1
    with pytest.raises(Closed, match="session lost") as raised:
        bounded_queue.get(5)
    assert raised.value.__cause__ is reason


def test_drop_takes_out_what_is_told_and_makes_room(own: OwnThread) -> None:
    bounded_queue: BoundedQueue[int] = own.bounded_queue(100)
    for n in range(10):
        own.call(bounded_queue.put, n, 10)
    own.post(put_all, bounded_queue, 3, 10)  # waits: it is full
    assert own.call(bounded_queue.drop, lambda n: n % 2 == 1) == [1, 3, 5, 7, 9]
    assert drain(bounded_queue) == [0, 2, 4, 6, 8, 0, 1, 2]
    assert bounded_queue.queued_bytes == 0


def test_drop_of_all_leaves_the_getter_waiting_for_the_next(own: OwnThread) -> None:
    bounded_queue: BoundedQueue[int] = own.bounded_queue(100)
    for n in range(5):
        own.call(bounded_queue.put, n, 10)
    assert bounded_queue.drop(lambda _: True) == [0, 1, 2, 3, 4]
    with pytest.raises(queue.Empty):
        bounded_queue.get(0.02)
    own.call(bounded_queue.put, 7, 10)
    assert bounded_queue.get(5) == 7


def test_drop_while_another_thread_gets_loses_and_swaps_nothing(own: OwnThread) -> None:
    bounded_queue: BoundedQueue[int] = own.bounded_queue(200)
    dropped: list[int] = []

    def feed() -> None:
        for n in range(3000):
            bounded_queue.put(n, 1)
            if n % 50 == 0:
                dropped.extend(bounded_queue.drop(lambda item: item % 7 == 0))
        bounded_queue.close()

    own.post(feed)
    got = drain(bounded_queue)
    assert got == sorted(got)
    assert sorted([*got, *dropped]) == list(range(3000))


def test_lost_token_of_an_interrupted_getter_does_not_hang_the_end(own: OwnThread) -> None:
    bounded_queue: BoundedQueue[int] = own.bounded_queue(100)
    own.call(bounded_queue.put, 1, 10)
    bounded_queue._tokens.get()  # what ctrl-C between the two halves of get leaves behind
    bounded_queue.close()
    assert drain(bounded_queue) == [1]


def test_end_of_the_hub_ends_getters_and_putters() -> None:
    hub = OwnThread()
    hub.start()
    bounded_queue: BoundedQueue[int] = hub.bounded_queue(10)
    hub.post(put_all, bounded_queue, 100, 10)
    assert bounded_queue.get(5) == 0
    hub.stop()
    assert drain(bounded_queue) in ([], [1])
    bounded_queue.close()


def test_limit_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="room for a byte at least, not 0"):
        CallersHub().bounded_queue(0)


def test_in_one_hub_both_sides_are_greenlets() -> None:
    hub = CallersHub()
    hub.start()
    bounded_queue: BoundedQueue[int] = hub.bounded_queue(100)
    tasks = TaskGroup()
    tasks.spawn("putter", put_all, bounded_queue, 300, 30)
    assert drain(bounded_queue) == list(range(300))
    with pytest.raises(queue.Empty):
        hub.bounded_queue(10).get(0.01)
    assert tasks.death is None
    hub.stop()


@pytest.mark.parametrize("timeout_s", [None, 60.0])
def test_a_signal_that_ends_no_wait_is_handled_at_the_next_step(timeout_s: float | None) -> None:
    """As one that comes just before the wait begins: here another thread takes it."""

    class Heeded(Exception):
        pass

    def heed(*_: object) -> None:
        raise Heeded

    bounded_queue: BoundedQueue[bytes] = BoundedQueue(100, InSteps())
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    later = threading.Timer(0.2, lambda: signal.pthread_kill(other.ident or 0, signal.SIGUSR1))
    before = signal.signal(signal.SIGUSR1, heed)
    try:
        other.start()
        later.start()
        with pytest.raises(Heeded):
            bounded_queue.get(timeout_s)
    finally:
        over.set()
        other.join()
        later.join()
        signal.signal(signal.SIGUSR1, before)
