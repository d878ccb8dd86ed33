"""A program's own offset store, asked from a hub: what it says is checked before it counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from groundwork.executor import ThreadExecutor
from groundwork.hub import CallersHub
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError, ForeignWrite
from zkconsumer.offsets.store import NONE, Unknown
from zkconsumer.offsets.threaded import ThreadedOffsets
from zkconsumer.session.lease import Lease

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Mine:
    """Answers what the test says."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer

    def read(self, group: str, tps: object) -> Any:
        return self.answer()

    def commit(self, group: str, positions: object, lease: object) -> Any:
        return self.answer()


@pytest.fixture
def asked() -> Iterator[Callable[..., ThreadedOffsets]]:
    hub = CallersHub()
    hub.start()
    beside = ThreadExecutor(hub)
    yield lambda answer: ThreadedOffsets(Mine(answer), beside)
    beside.close()
    hub.stop()


def fails() -> Any:
    raise OSError("the disk is gone")


def refuses() -> Any:
    raise ConsumerError("the table is locked")


def test_positions_none_and_unknown_come_back_as_they_are(asked):
    unknown = Unknown("what is there is no number")
    assert asked(lambda: {A: 7, B: NONE}).read("g", [A, B]) == {A: 7, B: NONE}
    assert asked(lambda: {A: 0, B: unknown}).read("g", [A, B]) == {A: 0, B: unknown}


@pytest.mark.parametrize("said", [None, -1, True, 7.0, "7"])
def test_what_is_no_position_is_unknown_and_never_the_start(asked, said):
    found = asked(lambda: {A: said}).read("g", [A, B])
    assert found[A] == Unknown(
        f"offset store Mine returned {said!r} for orders/0: it must be an offset, NONE or Unknown"
    )
    assert isinstance(found[B], Unknown)  # left out


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (fails, "offset store Mine cannot be read: OSError: the disk is gone"),
        (refuses, "the table is locked"),
        (lambda: [7], "offset store Mine returned [7] from read(): it must return a mapping of partitions"),
    ],
)
def test_a_store_that_cannot_be_read_says_why(asked, answer, says):
    with pytest.raises(ConsumerError) as caught:
        asked(answer).read("g", [A])
    assert str(caught.value) == says


def test_only_what_is_said_to_be_written_is(asked):
    foreign = ForeignWrite("g", B, 1, 2)
    assert asked(lambda: {A: None, B: foreign}).commit("g", {A: 1, B: 2}, Lease()) == {A: None, B: foreign}
    for answer in (lambda: {A: None}, lambda: {A: None, B: True}, lambda: {A: None, B: "ok"}):
        results = asked(answer).commit("g", {A: 1, B: 2}, Lease())
        assert results[A] is None
        assert isinstance(results[B], ConsumerError)
        assert "so the offset may not be written" in str(results[B])


@pytest.mark.parametrize("answer", [fails, refuses, lambda: None, lambda: [A]])
def test_a_commit_that_fails_fails_for_all(asked, answer):
    results = asked(answer).commit("g", {A: 1, B: 2}, Lease())
    assert set(results) == {A, B}
    assert all(isinstance(why, ConsumerError) for why in results.values())
