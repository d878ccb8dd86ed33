from __future__ import annotations

import queue
import random
import threading
import time

import pytest

from groundwork.crew import Crew, sleep
from groundwork.handover import Closed, Handover
from groundwork.hub import CallersHub, OwnThread


def put_all(handover: Handover[int], count: int, nbytes: int) -> None:
    for n in range(count):
        handover.put(n, nbytes)
    handover.close()


def drain(handover: Handover[int]) -> list[int]:
    got = []
    while True:
        try:
            got.append(handover.get(10))
        except Closed:
            return got


@pytest.mark.parametrize("nbytes", [1, 40, 99, 100, 250])
def test_all_arrive_in_order_and_the_limit_holds(own: OwnThread, nbytes: int) -> None:
    handover: Handover[int] = own.handover(100)
    own.post(put_all, handover, 500, nbytes)
    most = 0
    got = []
    try:
        while True:
            most = max(most, handover.bytes_on_the_way)
            got.append(handover.get(10))
    except Closed:
        pass
    assert got == list(range(500))
    assert most <= max(100, nbytes)
    assert handover.bytes_on_the_way == 0


def test_put_waits_while_full_and_goes_on_when_half_is_free(own: OwnThread) -> None:
    handover: Handover[int] = own.handover(100)
    own.post(put_all, handover, 10, 50)
    assert handover.get(5) == 0  # two fit; the next puts wait for room
    for _ in range(500):
        if handover.bytes_on_the_way == 100:
            break
        time.sleep(0.01)
    assert handover.bytes_on_the_way == 100
    assert drain(handover) == list(range(1, 10))


def test_many_putters_share_the_room(own: OwnThread) -> None:
    handover: Handover[tuple[int, int]] = own.handover(64)
    rng = random.Random(3)
    sizes = [[rng.randint(1, 80) for _ in range(200)] for _ in range(4)]

    def putter(who: int) -> None:
        for n, size in enumerate(sizes[who]):
            handover.put((who, n), size)

    for who in range(4):
        own.post(putter, who)
    got = [handover.get(10) for _ in range(800)]
    for who in range(4):
        assert [n for w, n in got if w == who] == list(range(200))


def test_get_in_vain_is_empty_in_time(own: OwnThread) -> None:
    handover: Handover[int] = own.handover(100)
    began = time.monotonic()
    with pytest.raises(queue.Empty):
        handover.get(0.05)
    with pytest.raises(queue.Empty):
        handover.get(0)
    assert 0.04 < time.monotonic() - began < 5


def test_close_lets_the_rest_out_then_ends_every_getter(own: OwnThread) -> None:
    handover: Handover[int] = own.handover(100)
    own.call(handover.put, 1, 10)
    ended: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
    threads = [threading.Thread(target=lambda: ended.put(drain(handover))) for _ in range(3)]
    for thread in threads:
        thread.start()
    handover.close()
    handover.close()
    got = [ended.get(timeout=5) for _ in threads]
    for thread in threads:
        thread.join(5)
    assert sorted(got) == [[], [], [1]]
    with pytest.raises(Closed):
        own.call(handover.put, 2, 10)


def test_close_with_a_reason_gives_it_to_getters_and_waiting_putters(own: OwnThread) -> None:
    handover: Handover[int] = own.handover(10)
    own.call(handover.put, 1, 10)
    failed: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
    own.on_error = lambda _, exc: failed.put(exc)
    own.post(handover.put, 2, 10)
    own.call(sleep, 0.01)  # it waits for room by now
    reason = OSError("session lost")
    handover.close(reason)
    assert failed.get(timeout=5).__cause__ is reason
    assert handover.get(5) == 1
    with pytest.raises(Closed, match="session lost") as raised:
        handover.get(5)
    assert raised.value.__cause__ is reason


def test_drop_takes_out_what_is_told_and_makes_room(own: OwnThread) -> None:
    handover: Handover[int] = own.handover(100)
    for n in range(10):
        own.call(handover.put, n, 10)
    own.post(put_all, handover, 3, 10)  # waits: it is full
    assert own.call(handover.drop, lambda n: n % 2 == 1) == [1, 3, 5, 7, 9]
    assert drain(handover) == [0, 2, 4, 6, 8, 0, 1, 2]
    assert handover.bytes_on_the_way == 0


def test_drop_of_all_leaves_the_getter_waiting_for_the_next(own: OwnThread) -> None:
    handover: Handover[int] = own.handover(100)
    for n in range(5):
        own.call(handover.put, n, 10)
    assert handover.drop(lambda _: True) == [0, 1, 2, 3, 4]
    with pytest.raises(queue.Empty):
        handover.get(0.02)
    own.call(handover.put, 7, 10)
    assert handover.get(5) == 7


def test_drop_while_another_thread_gets_loses_and_swaps_nothing(own: OwnThread) -> None:
    handover: Handover[int] = own.handover(200)
    dropped: list[int] = []

    def feed() -> None:
        for n in range(3000):
            handover.put(n, 1)
            if n % 50 == 0:
                dropped.extend(handover.drop(lambda item: item % 7 == 0))
        handover.close()

    own.post(feed)
    got = drain(handover)
    assert got == sorted(got)
    assert sorted([*got, *dropped]) == list(range(3000))


def test_lost_token_of_an_interrupted_getter_does_not_hang_the_end(own: OwnThread) -> None:
    handover: Handover[int] = own.handover(100)
    own.call(handover.put, 1, 10)
    handover._tokens.get()  # what ctrl-C between the two halves of get leaves behind
    handover.close()
    assert drain(handover) == [1]


def test_end_of_the_hub_ends_getters_and_putters() -> None:
    hub = OwnThread()
    hub.start()
    handover: Handover[int] = hub.handover(10)
    hub.post(put_all, handover, 100, 10)
    assert handover.get(5) == 0
    hub.stop()
    assert drain(handover) in ([], [1])
    handover.close()


def test_limit_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="room for a byte at least, not 0"):
        CallersHub().handover(0)


def test_in_one_hub_both_sides_are_greenlets() -> None:
    hub = CallersHub()
    hub.start()
    handover: Handover[int] = hub.handover(100)
    crew = Crew()
    crew.spawn("putter", put_all, handover, 300, 30)
    assert drain(handover) == list(range(300))
    with pytest.raises(queue.Empty):
        hub.handover(10).get(0.01)
    assert crew.death is None
    hub.stop()
