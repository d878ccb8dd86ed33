"""What may be committed: single rules, and the dumb twin that scans all tickets from the start each time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zkconsumer.fetching.committable import DeliveryTicket, Parked, Progress

TOO_LARGE = RuntimeError("orders/3 at 40: larger than the target takes")


@pytest.mark.parametrize("before_is_done", [False, True])
def test_what_counted_without_parts_is_taken_back(before_is_done):
    progress = Progress(0)
    first = progress.ticket(10)
    if before_is_done:
        first.done()
    progress.take_back(progress.ticket(20, parts=0), 10)
    first.done()
    assert (progress.committable, progress.given, progress.idle) == (10, 10, True)
    progress.ticket(15).done()
    assert progress.committable == 15


def test_positions_do_not_go_back():
    progress = Progress(50)
    with pytest.raises(ValueError, match="up to 40 after one up to 50"):
        progress.ticket(40)


def test_what_failed_parks_the_partition_and_nothing_after_it_is_committed():
    progress = Progress(0)
    before, bad, after = progress.ticket(40), progress.ticket(50), progress.ticket(60)
    after.done()
    bad.failed(TOO_LARGE)
    assert progress.parked == Parked(TOO_LARGE, 40, 50)
    assert [t.may_send() for t in (before, bad, after)] == [True, False, False]
    assert not progress.ticket(70).may_send()
    before.done()
    bad.done()
    assert progress.committable == 40
    assert progress.idle


def test_what_was_stored_of_the_failed_ticket_is_committed():
    progress = Progress(0)
    before, bad = progress.ticket(40), progress.ticket(50)
    bad.reached(45)
    bad.failed(TOO_LARGE, 45)
    assert (progress.committable, progress.parked.position) == (0, 45)
    before.done()
    assert progress.committable == 45


def test_an_earlier_failure_takes_the_place_of_a_later_one():
    progress = Progress(0)
    first, second, third = progress.ticket(10), progress.ticket(20), progress.ticket(30)
    third.failed(RuntimeError("third"))
    second.failed(TOO_LARGE)
    assert progress.parked[:2] == (TOO_LARGE, 10)
    third.failed(RuntimeError("again"))
    assert progress.parked[:2] == (TOO_LARGE, 10)
    first.done()
    assert progress.committable == 10


def test_messages_of_one_compressed_07_entry_share_a_position():
    progress = Progress(100)
    inner = [progress.ticket(100), progress.ticket(100), progress.ticket(180)]
    inner[0].done()
    inner[1].failed(TOO_LARGE)
    assert not progress.ticket(180).may_send()
    assert not inner[2].may_send()
    assert progress.committable == 100


def test_parked_by_the_fetcher_what_comes_before_goes_on():
    progress = Progress(0)
    first = progress.ticket(10)
    progress.park(TOO_LARGE, 20)
    second = progress.ticket(20)
    third = progress.ticket(30)
    assert [t.may_send() for t in (first, second, third)] == [True, True, False]
    for ticket in (first, second, third):
        ticket.done()
    assert progress.committable == 20


def test_the_first_reason_for_parking_stands():
    progress = Progress(0)
    progress.park(TOO_LARGE)
    progress.park(RuntimeError("other"), 50)
    assert progress.parked[:2] == (TOO_LARGE, 0)


def test_a_dropped_ticket_is_never_passed_and_is_no_reason():
    progress = Progress(0)
    first, second, third = progress.ticket(10), progress.ticket(20), progress.ticket(30)
    second.reached(15)
    second.drop()
    third.done()
    first.done()
    assert (progress.committable, progress.parked, progress.idle) == (15, None, True)
    progress.park(TOO_LARGE, 100)
    assert not progress.ticket(40).may_send()


def test_after_close_a_late_done_changes_nothing():
    progress = Progress(0)
    first, second = progress.ticket(10), progress.ticket(20)
    first.done()
    progress.close()
    second.reached(15)
    second.done()
    second.failed(TOO_LARGE)
    assert (progress.committable, progress.parked, progress.idle) == (10, None, True)
    assert not second.may_send()
    assert not progress.ticket(30).may_send()


def test_the_callback_may_ask_us():
    owner = Owner(0, lambda nbytes: seen.append(owner.progress.committable))
    seen: list[int] = []
    owner.ticket(10, nbytes=1).done()
    assert seen == [10]


def test_threads_may_settle_what_the_hub_counts():
    owner = Owner(0)
    progress = owner.progress
    tickets = [owner.ticket(n) for n in range(1, 4001)]
    threads = [threading.Thread(target=lambda mine: [t.done() for t in mine], args=(tickets[n::4],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (progress.committable, progress.idle) == (4000, True)


class Owner:
    """What tickets report to, as a cursor does: one lock, and the bytes that come back."""

    def __init__(self, position: int, on_released: Callable[[int], object] = lambda nbytes: None) -> None:
        self.progress = Progress(position, self)
        self._on_released = on_released
        self._lock = threading.Lock()

    def ticket(self, resume_at: int, parts: int = 1, nbytes: int = 0) -> DeliveryTicket:
        with self._lock:
            ticket = self.progress.ticket(resume_at, parts, nbytes)
            gone = 0 if ticket.live else nbytes
        self._release(gone)
        return ticket

    def close(self) -> None:
        self._release(self.progress.close())

    @property
    def partition(self) -> Progress:
        return self.progress

    def report(self, event: Callable[..., int], *args: Any) -> None:
        with self._lock:
            nbytes = event(*args)
        self._release(nbytes)

    def under_lease(self, event: Callable[..., bool], ticket: DeliveryTicket) -> bool:
        return event(ticket, 0.0)

    def _release(self, nbytes: int) -> None:
        if nbytes:
            self._on_released(nbytes)


class Twin:
    """The dumb one: keeps every ticket for ever and scans them all."""

    def __init__(self, position: int) -> None:
        self.start = position
        self.rows: list[dict] = []

    def ticket(self, resume_at: int, parts: int, nbytes: int) -> None:
        alive = not any(row["state"] == "ended" for row in self.rows)
        row = {"resume_at": resume_at, "left": parts, "parts": parts, "at": None, "nbytes": nbytes}
        self.rows.append({**row, "state": "open" if alive else "refused"})

    def event(self, index: int, what: str, amount: int) -> None:
        row = self.rows[index]
        if row["state"] != "open" or row["left"] == 0:
            return
        begin = self.rows[index - 1]["resume_at"] if index else self.start
        if what == "done":
            row["left"] -= 1
        elif what == "reached" and row["parts"] == 1:
            row["at"] = max(row["at"] or begin, min(begin + amount, row["resume_at"]))
        elif what in ("failed", "drop"):
            row["state"] = "ended"
            for later in self.rows[index + 1 :]:
                if later["left"]:
                    later["state"] = "refused"

    @property
    def committable(self) -> int:
        position = self.start
        for row in self.rows:
            if row["state"] == "open" and row["left"] == 0:
                position = row["resume_at"]
                continue
            return max(position, row["at"] or position)
        return position

    @property
    def undone_bytes(self) -> int:
        return sum(row["nbytes"] for row in self.rows if row["state"] == "open" and row["left"])


moves = st.one_of(
    st.tuples(st.just("ticket"), st.integers(0, 5), st.integers(0, 3), st.integers(0, 9)),
    st.tuples(st.sampled_from(["done", "done", "done", "reached"]), st.integers(0, 30), st.integers(0, 5)),
    st.tuples(st.sampled_from(["failed", "drop"]), st.integers(0, 30), st.just(0)),
)


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 100), st.lists(moves, max_size=60))
def test_quick_and_dumb_agree_under_any_order_of_completion(start, events):
    freed: list[int] = []
    owner, dumb = Owner(start, freed.append), Twin(start)
    quick = owner.progress
    tickets, given_bytes, newest = [], 0, start
    before = start
    for event in events:
        if event[0] == "ticket":
            _, step, parts, nbytes = event
            newest += step
            tickets.append(owner.ticket(newest, parts, nbytes))
            dumb.ticket(newest, parts, nbytes)
            given_bytes += nbytes
        elif tickets:
            what, index, amount = event
            index %= len(tickets)
            ticket = tickets[index]
            {
                "done": ticket.done,
                "drop": ticket.drop,
                "failed": lambda t=ticket: t.failed(TOO_LARGE),
                "reached": lambda t=ticket, a=amount: t.reached(t.begin + a),
            }[what]()
            dumb.event(index, what, amount)
        assert quick.committable == dumb.committable
        assert quick.undone_bytes == dumb.undone_bytes == given_bytes - sum(freed)
        assert quick.committable >= before
        before = quick.committable
