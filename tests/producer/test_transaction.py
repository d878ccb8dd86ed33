"""The state machine of a transaction: what is asked of coordinators, in which order, and what follows each answer."""

from __future__ import annotations

import pytest

from kafkawire.model import ProducerId, TopicPartition
from producer.transaction import (
    AddOffsets,
    AddPartitions,
    Ask,
    CommitOffsets,
    End,
    Initialize,
    Next,
    State,
    Transaction,
    follows,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ID = ProducerId(5, 0)
OFFSETS = {TopicPartition("source", 3): (17, "")}


def ready() -> Transaction:
    made = Transaction("mirror-1", 60000)
    assert made.ask == Initialize()
    made.initialized(ID)
    return made


def opened(*tps: TopicPartition) -> Transaction:
    made = ready()
    made.begin()
    made.need(tps)
    if tps:
        asked(made)
    return made


def asked(transaction: Transaction, *codes: int) -> Ask:
    """Answer what is asked: well, or with these codes."""
    ask = transaction.ask
    assert ask is not None
    transaction.answered(ask, codes or [0], "of broker 1")
    return ask


def test_partitions_are_added_before_they_are_sent_to_and_only_once():
    transaction = ready()
    transaction.begin()
    assert transaction.ask is None
    transaction.need([A, B])
    assert asked(transaction) == AddPartitions(frozenset({A, B}))
    transaction.need([B])
    assert transaction.ask is None
    assert transaction.added == {A, B}


def test_a_commit_puts_offsets_into_the_transaction_before_it_ends():
    transaction = opened(A)
    transaction.commit("mirror", OFFSETS)
    assert [asked(transaction) for _ in range(3)] == [AddOffsets("mirror"), CommitOffsets("mirror", OFFSETS), End(True)]
    assert (transaction.state, transaction.ask, transaction.added) == (State.READY, None, set())
    transaction.begin()
    transaction.commit("mirror", OFFSETS)
    assert transaction.ask == AddOffsets("mirror")  # of each transaction anew


def test_offsets_may_become_part_of_a_transaction_that_is_aborted():
    """The group's coordinator then drops what the producer id has pending there."""
    transaction = opened()
    transaction.abort("mirror", OFFSETS)
    assert [asked(transaction) for _ in range(3)] == [
        AddOffsets("mirror"),
        CommitOffsets("mirror", OFFSETS),
        End(False),
    ]
    assert transaction.state is State.READY


@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_a_transaction_with_a_question_that_was_not_answered_is_followed_by_another_epoch(lost: int):
    """A copy of the question may come while the next transaction is open."""
    transaction = opened()
    transaction.need([A])
    for number in range(4):
        if transaction.ask is None:
            transaction.commit("mirror", OFFSETS)
        if number == lost:
            transaction.unanswered(transaction.ask)  # type: ignore[arg-type]
        asked(transaction)
    assert (transaction.state, transaction.settled, transaction.ask) == (State.NEW, True, Initialize())
    transaction.unanswered(Initialize())  # which says nothing of the epoch that comes
    transaction.initialized(ProducerId(5, 1))
    transaction.begin()
    transaction.commit("mirror", OFFSETS)
    for _ in range(3):
        asked(transaction)
    assert (transaction.state, transaction.settled) == (State.READY, False)


def test_without_offsets_only_the_end_is_asked_for():
    transaction = opened(A)
    transaction.commit()
    assert asked(transaction) == End(True)
    transaction = opened(A)
    transaction.abort()
    assert asked(transaction) == End(False)
    assert transaction.state is State.READY


def test_a_transaction_that_no_coordinator_knows_of_ends_without_a_word():
    transaction = opened()
    transaction.commit()
    assert (transaction.state, transaction.ask) == (State.READY, None)
    transaction.begin()
    transaction.abort()
    assert (transaction.state, transaction.ask) == (State.READY, None)


@pytest.mark.parametrize("code", [14, 51, 3, 88])
def test_a_coordinator_that_is_busy_is_asked_again(code: int):
    transaction = opened(A)
    transaction.commit()
    assert transaction.answered(End(True), [code], "") is Next.AGAIN
    assert transaction.ask == End(True)


@pytest.mark.parametrize("code", [15, 16])
def test_another_coordinator_is_looked_up(code: int):
    transaction = opened(A)
    transaction.commit()
    assert transaction.answered(End(True), [code], "") is Next.FIND
    assert transaction.ask == End(True)


@pytest.mark.parametrize(("code", "fenced"), [(47, True), (90, True), (49, False), (48, False), (59, False)])
def test_what_is_over_begins_with_another_epoch(code: int, fenced: bool):
    transaction = opened(A)
    transaction.commit("mirror", OFFSETS)
    asked(transaction)
    asked(transaction, code)
    assert (transaction.state, transaction.fenced) == (State.NEW, fenced)
    assert transaction.why.startswith("of broker 1: ")
    assert transaction.ask == Initialize()
    transaction.initialized(ProducerId(5, 2))
    assert (transaction.state, transaction.fenced, transaction.added) == (State.READY, False, set())


@pytest.mark.parametrize("code", [53, 30, 29, 31, 50, 35])
def test_what_the_cluster_does_not_allow_is_not_asked_again(code: int):
    transaction = ready()
    transaction.begin()
    transaction.need([A])
    assert transaction.answered(AddPartitions(frozenset({A})), [code], "x") is Next.REFUSED
    assert (transaction.state, transaction.ask) == (State.REFUSED, None)
    assert f"({code})" in transaction.why


def test_of_several_partitions_the_worst_code_counts():
    transaction = ready()
    transaction.begin()
    transaction.need([A, B])
    assert transaction.answered(AddPartitions(frozenset({A, B})), [55, 3], "") is Next.AGAIN
    assert transaction.answered(AddPartitions(frozenset({A, B})), [0, 47], "") is Next.OVER


def test_every_code_has_a_meaning():
    assert follows(0) is Next.DONE
    assert follows(4711) is Next.REFUSED
