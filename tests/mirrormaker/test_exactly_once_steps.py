"""Steps in transactions, and positions in the target: what is done, repeated, or fails alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkawire.model import BrokerPartition, Part, TopicPartition, partition_named
from kafkawire.protocol.stableoffsets import StableOffset
from mirrormaker.exactlyonce.position import (
    Position,
    former_name_of,
    former_position_of,
    is_shared,
    metadata_of,
    name_of,
    position_of,
)
from mirrormaker.exactlyonce.steps import Step, StepQueue, StepTicket
from tests.fakes.tickets import Ticket

TP = TopicPartition("t", 0)


class PlacedTicket(Ticket):
    """A ticket of an offset map."""

    def placed(self, count: int, offset: int | None, exact: bool) -> None:
        self._told("placed", count, offset, exact)


def step(resume_at: int, *tickets: Ticket, size: int = 10) -> Step:
    each = tickets or (Ticket(),)
    return Step(resume_at, [(Part(TP, b"x" * size, 2, 0, 1, resume_at), ticket) for ticket in each])


def sent(queue: StepQueue, max_bytes: int = 1000) -> list[StepTicket]:
    """The tickets of what goes into the transaction now."""
    return [ticket for each in queue.take(max_bytes) for _, ticket in each.parts(lambda: None, lambda: None)]


def filled(*steps: Step) -> StepQueue:
    queue = StepQueue()
    queue.waiting.extend(steps)
    return queue


def told(each: Step) -> list[object]:
    return [ticket.told for _, ticket in each.items]  # type: ignore[attr-defined]


def test_tickets_hear_of_it_when_the_transaction_is_committed():
    ticket = PlacedTicket()
    queue = filled(step(10), step(20, ticket))
    first, second = sent(queue)
    second.placed(1, 7, True)
    second.done()
    assert not queue.stored
    first.done()
    assert queue.stored
    assert ticket.told == []
    assert queue.end == 20
    queue.committed()
    assert ticket.told == [("placed", 1, 7, True), ("done",)]
    assert not queue.open


@pytest.mark.parametrize(("sizes", "waiting", "unstored", "enough"), [
    ((50,), (), 0, True),  # half full and stored: the source may have no room for more
    ((49,), (), 0, False),
    ((50,), (), 1, False),
    ((30, 30), (50,), 1, True),  # full
    ((), (), 0, False),
])  # fmt: skip
def test_a_transaction_has_enough(sizes, waiting, unstored, enough):
    queue = filled(*(step(10 * n, size=size) for n, size in enumerate((*sizes, *waiting), 1)))
    tickets = sent(queue, 100)
    assert len(tickets) == len(sizes)
    for ticket in tickets[: len(sizes) - unstored]:
        ticket.done()
    assert queue.enough(100) is enough


def test_an_aborted_transaction_goes_again_and_its_late_responses_count_for_nothing():
    ticket = PlacedTicket()
    queue = filled(step(10, ticket), step(20))
    late = sent(queue)
    late[0].placed(1, 3, True)
    late[0].done()
    queue.aborted()
    assert [each.resume_at for each in queue.waiting] == [10, 20]
    again = sent(queue)
    late[1].done()
    late[1].failed(ValueError(), None)
    assert not late[0].may_send()
    assert not queue.stored
    assert queue.failed is None
    for each in again:
        each.done()
    queue.committed()
    assert ticket.told == [("done",)]  # where the aborted copy lay is not reported


def test_what_precedes_a_step_that_fails_is_committed_first_and_then_it_is_alone():
    good, bad, behind = step(10), step(20), step(30)
    queue = filled(good, bad, behind)
    tickets = sent(queue)
    tickets[0].done()
    tickets[1].failed(ValueError("too large"), None)
    assert queue.failed is bad
    queue.aborted(bad)
    (ticket,) = sent(queue)
    assert queue.full(1000)
    ticket.done()
    queue.committed()
    assert told(good) == [[("done",)]]
    (ticket,) = sent(queue)
    assert (queue.open, queue.full(1000)) == ([bad], True)
    ticket.reached(15)
    ticket.failed(ValueError("too large"), 15)
    assert bad.failure is not None
    bad.fail(bad.failure.reason, bad.failure.at, bad.reached)
    ((reached, failed),) = told(bad)
    assert reached == ("reached", 15)
    assert failed[0] == "failed"
    assert failed[2] == 15


def test_a_transaction_takes_what_fits_and_at_least_one_step():
    queue = filled(step(1, size=500), step(2, size=400), step(3, size=200))
    assert len(sent(queue, 100)) == 1
    assert queue.full(100)
    assert len(sent(queue, 1000)) == 1
    assert queue.full(1000)
    assert queue.size == 900


def test_a_part_that_may_not_be_sent_any_more_makes_the_transaction_unwanted():
    ticket = Ticket()
    queue = filled(step(10, ticket))
    sent(queue)
    assert not queue.unwanted
    ticket.willing = False
    assert queue.unwanted


A, B, C = (TopicPartition(name, 0) for name in "abc")


def test_a_step_behind_where_the_partition_is_parked_does_not_end_the_transaction_of_those_before_it() -> None:
    """Sets that were fetched before a damaged one was looked at come behind it."""
    dead = Ticket()
    dead.willing = False
    queue = filled(step(1, Ticket()), step(2, Ticket()), step(9, dead), step(10, dead))
    tickets = sent(queue)
    assert len(tickets) == 2
    assert not queue.unwanted
    assert queue.end == 2
    for ticket in tickets:
        ticket.done()
    queue.committed()
    queue.dismiss(lambda: False)  # the lease ended meanwhile: they may be sent again once it is renewed
    assert len(queue.waiting) == 2
    queue.dismiss(lambda: True)
    assert not queue.waiting


def test_a_position_is_that_of_the_same_log():
    rows = {A: StableOffset(40, metadata_of(7), 0), B: StableOffset(90, metadata_of(8), 0), C: StableOffset(30, "", 0)}
    assert position_of(rows, 7) == Position(40, True, (A, C))
    assert position_of(rows, 8) == Position(90, True, (B, C))
    assert position_of(rows, 9) == Position(30, False, (C,))
    assert position_of(rows, None) == Position(90, False, (A, B, C))
    assert position_of({}, 7) is None


def test_a_former_position_is_that_of_the_target_topic_and_of_nobody_else():
    rows = {A: StableOffset(40, metadata_of(7), 0), B: StableOffset(90, "", 0)}
    assert former_position_of(rows, 7, "a", shared=True) == Position(40, True)
    assert former_position_of(rows, None, "b", shared=False) == Position(90)
    assert former_position_of(rows, 7, "b", shared=True) is None
    assert former_position_of(rows, 8, "a", shared=False) is None
    assert former_position_of(rows, 7, "c", shared=False) is None


@pytest.mark.parametrize("partition", [0, 11])
def test_a_source_partition_has_one_name_for_its_transactions_and_its_position(partition: int):
    assert name_of("mirror", "dc1", TopicPartition("or-ders", partition)) == f"mirror-dc1-or-ders-{partition}"
    assert name_of("mirror", "eu-west", TopicPartition("orders", partition)) == (
        f"mirror-eu-west-orders-{partition}@6.7.6"
    )


def readings(joined: str) -> Iterator[tuple[str, str, TopicPartition]]:
    """Every prefix, source and partition that a name without lengths may be of."""
    for cuts in combinations([n for n, c in enumerate(joined) if c == "-"], 3):
        prefix, source, topic, rest = (joined[a + 1 : b] for a, b in pairwise((-1, *cuts, len(joined))))
        partition = partition_named(rest)
        if prefix and source and topic and partition is not None and str(partition) == rest:
            yield prefix, source, TopicPartition(topic, partition)


PARTS = st.text("a1-@.", min_size=1, max_size=6)
PARTITIONS = st.integers(0, 12) | st.builds(BrokerPartition, st.integers(0, 2), st.integers(0, 12))
WHOLES = st.tuples(PARTS, PARTS, st.builds(TopicPartition, st.text("a1-.", min_size=1, max_size=6), PARTITIONS))


@given(WHOLES, WHOLES)
@example(("m", "eu", TopicPartition("west-orders", 0)), ("m", "eu-west", TopicPartition("orders", 0)))
@example(("m", "a-b", TopicPartition("t-1", 0)), ("m", "a", TopicPartition("t", BrokerPartition(1, 0))))
def test_no_two_source_partitions_have_the_same_name(
    one: tuple[str, str, TopicPartition], other: tuple[str, str, TopicPartition]
):
    wholes = {one, other, *readings(former_name_of(*one)), *readings(former_name_of(*other))}
    assert len({name_of(*whole) for whole in wholes}) == len(wholes)


def test_a_former_name_is_shared_where_another_source_may_have_had_it():
    assert is_shared("m-eu-west-orders-0", [("m", "eu")])
    assert is_shared("m-eu-west-orders-0", [("n", "x"), ("m-eu", "west")])
    assert not is_shared("m-eu-west-orders-0", [("m", "us"), ("m-eu-west", "orders")])
