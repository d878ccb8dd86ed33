"""Memory that is taken again once nobody looks at it."""

from __future__ import annotations

import threading

from kafkawire.protocol.buffers import LEAST_BYTES, Buffers

BIG = 300_000


def place(view: memoryview) -> int:
    return id(view.obj)


def test_what_nobody_looks_at_any_more_is_given_out_again():
    buffers = Buffers()
    first = buffers.take(BIG)
    where = place(first)
    first.release()
    again = buffers.take(BIG - 1000)
    assert (place(again), len(again)) == (where, BIG - 1000)


def test_what_anybody_still_looks_at_is_left_alone():
    buffers = Buffers()
    part = buffers.take(BIG)[10:20]
    part[:] = b"0123456789"
    others = [buffers.take(BIG) for _ in range(5)]
    for other in others:
        other[:] = bytes(BIG)
    assert part == b"0123456789"
    assert len({place(view) for view in [part, *others]}) == 6


def test_small_ones_and_ones_that_do_not_fit_are_fresh():
    buffers = Buffers()
    small = buffers.take(LEAST_BYTES - 1)
    assert len(small) == LEAST_BYTES - 1
    large = buffers.take(3 * BIG)
    where = place(large)
    del large
    assert place(buffers.take(BIG)) != where  # half of it and more would lie idle
    assert place(buffers.take(2 * BIG)) == where


def test_no_more_is_kept_than_was_said():
    buffers = Buffers(3 * BIG)
    held = [buffers.take(BIG) for _ in range(6)]
    assert sum(map(len, buffers._kept)) <= 3 * BIG
    held.clear()
    assert len(buffers.take(2 * BIG)) == 2 * BIG  # those that are free and too small make room
    assert sum(map(len, buffers._kept)) <= 3 * BIG


def test_two_threads_never_get_the_same():
    buffers, failed = Buffers(), []

    def work(mark: bytes) -> None:
        for _ in range(300):
            view = buffers.take(BIG)
            view[:1000] = mark * 1000
            if view[:1000] != mark * 1000:
                failed.append(mark)
            del view

    threads = [threading.Thread(target=work, args=(mark,)) for mark in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failed
    assert len(buffers._kept) <= 4
