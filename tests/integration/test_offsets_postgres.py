"""Positions and results in one transaction of a real PostgreSQL, with a real second connection that gets in between."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkawire.model import TopicPartition
from tests.fakes.stores import held
from tests.integration import postgres
from zkconsumer.errors import ConsumerError, ForeignWrite
from zkconsumer.offsets.database import DDL, DatabaseOffsets
from zkconsumer.offsets.store import NONE

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(postgres.missing() is not None, reason=f"needs {postgres.missing()}"),
]
T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
Open = Callable[[], tuple[Any, DatabaseOffsets]]


@pytest.fixture(scope="module")
def connect() -> Iterator[Callable[[], Any]]:
    with postgres.running() as opened:
        yield opened


@pytest.fixture
def open_store(connect: Callable[[], Any]) -> Iterator[Open]:
    """Each call: another connection and a store on it; the tables are fresh."""
    connections: list[Any] = []

    def opened() -> tuple[Any, DatabaseOffsets]:
        connections.append(connect())
        return connections[-1], DatabaseOffsets(connections[-1], "format")

    first, _ = opened()
    cursor = first.cursor()
    cursor.execute("DROP TABLE IF EXISTS consumer_offsets")
    cursor.execute("DROP TABLE IF EXISTS results")
    cursor.execute(DDL)
    cursor.execute("CREATE TABLE results (text VARCHAR(100))")
    first.commit()
    yield opened
    for each in connections:
        with contextlib.suppress(Exception):  # a test may have closed it
            each.close()


def process(store: DatabaseOffsets, text: str, position: int) -> None:
    with store.transaction() as cursor:
        cursor.execute("INSERT INTO results VALUES (%s)", (text,))
        store.write(cursor, "g", {T0: position})


def results(connection: Any) -> list[str]:
    cursor = connection.cursor()
    cursor.execute("SELECT text FROM results ORDER BY text")
    rows = [text for (text,) in cursor.fetchall()]
    connection.rollback()
    return rows


def test_positions_and_results_survive_together(open_store: Open):
    connection, store = open_store()
    assert store.read("g", [T0, T1]) == {T0: NONE, T1: NONE}
    process(store, "one", 1)
    process(store, "two", 2**40)
    with contextlib.suppress(ZeroDivisionError), store.transaction() as cursor:
        cursor.execute("INSERT INTO results VALUES ('three')")
        store.write(cursor, "g", {T0: 2**41, T1: 3})
        raise ZeroDivisionError
    assert results(connection) == ["one", "two"]
    _, other = open_store()
    assert other.read("g", [T0, T1]) == {T0: 2**40, T1: NONE}
    assert other.commit("g", {T0: 2**40 + 1, T1: 0}, held()) == {T0: None, T1: None}


@pytest.mark.parametrize("first_position", [None, 10])
def test_of_two_writers_at_once_one_has_no_results(open_store: Open, first_position: int | None):
    """The second waits for the first one's row, then finds it moved (or made): its transaction is rolled back."""
    first_connection, first = open_store()
    second_connection, second = open_store()
    if first_position is not None:
        first.commit("g", {T0: first_position}, held())
    assert first.read("g", [T0]) == second.read("g", [T0])
    failures: list[Exception] = []

    def late() -> None:
        try:
            process(second, "second", 15)
        except ConsumerError as why:
            failures.append(why)

    with first.transaction() as cursor:
        cursor.execute("INSERT INTO results VALUES ('first')")
        first.write(cursor, "g", {T0: 20})
        waiting = threading.Thread(target=late)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()  # for the row's lock
    waiting.join(10)
    assert not waiting.is_alive()
    assert [type(why) for why in failures] == [ForeignWrite]
    assert results(first_connection) == ["first"]
    assert second.read("g", [T0]) == {T0: 20}
    process(second, "third", 25)  # it read again: it goes on
    assert results(second_connection) == ["first", "third"]


def test_a_server_that_is_gone_is_an_error_with_the_reason(open_store: Open):
    connection, store = open_store()
    store.read("g", [T0])
    connection.close()
    with pytest.raises(ConsumerError, match="offsets table consumer_offsets cannot be read"):
        store.read("g", [T0])
    assert isinstance(store.commit("g", {T0: 1}, held())[T0], ConsumerError)


def test_a_missing_table_is_an_error_that_says_what_to_do(open_store: Open):
    connection, _ = open_store()
    store = DatabaseOffsets(connection, "format", "app_offsets")
    with pytest.raises(ConsumerError, match=r"app_offsets cannot be read: .*zkconsumer\.offsets\.database\.DDL"):
        store.read("g", [T0])
    process(DatabaseOffsets(connection, "format"), "after", 1)  # the connection is not stuck in a failed transaction
    assert results(connection) == ["after"]
