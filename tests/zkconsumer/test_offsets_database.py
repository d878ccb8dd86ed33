"""The database store: a position and its results are one transaction, and of two writers one goes away empty-handed."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.model import BrokerPartition, TopicPartition
from tests.fakes.stores import held
from zkconsumer.errors import ConsumerError, ForeignWrite
from zkconsumer.offsets.database import DDL, DatabaseOffsets, in_style
from zkconsumer.offsets.store import NONE, Unknown
from zkconsumer.session.lease import Lease, LeaseOver

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with contextlib.closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        connection.execute(DDL)
        connection.execute("CREATE TABLE results (text VARCHAR(100))")
        connection.commit()
    return tmp_path / "app.db"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tuple[sqlite3.Connection, DatabaseOffsets]]:
    with contextlib.closing(sqlite3.connect(path, timeout=0.2)) as connection:
        yield connection, DatabaseOffsets(connection, "qmark")


def results(connection: sqlite3.Connection) -> list[str]:
    return [text for (text,) in connection.execute("SELECT text FROM results ORDER BY text")]


def process(store: DatabaseOffsets, text: str, position: int, crash: bool = False) -> None:
    """A result and its position."""
    with store.transaction() as cursor:
        cursor.execute(f"INSERT INTO results VALUES ('{text}')")
        store.write(cursor, "g", {T0: position})
        if crash:
            raise ZeroDivisionError


def test_what_was_committed_is_read_by_the_next_process(path: Path):
    with opened(path) as (_, store):
        assert store.read("g", [T0, T1]) == {T0: NONE, T1: NONE}
        assert store.commit("g", {T0: 0, T1: 7}, held()) == {T0: None, T1: None}
        assert store.commit("g", {T0: 5, T1: 7}, held()) == {T0: None, T1: None}
    with opened(path) as (_, store):
        assert store.read("g", [T0, T1]) == {T0: 5, T1: 7}
        assert store.read("other", [T0]) == {T0: NONE}


def test_a_partition_of_0_7_has_a_row_of_its_own(path: Path):
    old = TopicPartition("orders", BrokerPartition(1, 0))
    with opened(path) as (connection, store):
        assert store.commit("g", {old: 5}, held()) == {old: None}
        assert store.read("g", [old, T0]) == {old: 5, T0: NONE}
        assert list(connection.execute("SELECT partition_id FROM consumer_offsets")) == [("1-0",)]


def test_position_and_results_are_both_there_or_neither(path: Path):
    with opened(path) as (connection, store):
        process(store, "one", 1)
        with pytest.raises(ZeroDivisionError):
            process(store, "two", 2, crash=True)
        assert results(connection) == ["one"]
        assert store.read("g", [T0]) == {T0: 1}
        with store.transaction() as cursor:  # and it goes on where it is
            store.write(cursor, "g", {T0: 2})
        assert store.read("g", [T0]) == {T0: 2}


def test_two_writes_in_one_transaction(path: Path):
    with opened(path) as (_, store):
        with store.transaction() as cursor:
            store.write(cursor, "g", {T0: 1})
            store.write(cursor, "g", {T0: 2})
            store.write(cursor, "g", {T0: 2})
        assert store.read("g", [T0]) == {T0: 2}


def test_results_that_are_stored_already_are_refused(path: Path):
    """A member that began elsewhere than the row says, because its listener came too late."""
    with opened(path) as (connection, store):
        process(store, "up to 5", 5)
        with pytest.raises(ConsumerError, match=rf"{T0} are stored up to 5, and these begin at 3; start again"):
            store_from(store, "from 3", 3, 8)
        store_from(store, "from 5", 5, 8)
        store_from(store, "behind a gap", 20, 21)
        assert results(connection) == ["behind a gap", "from 5", "up to 5"]
    with opened(path) as (_, store), pytest.raises(ConsumerError, match="stored up to 21"):
        store_from(store, "by a store that has not read", 20, 22)


def store_from(store: DatabaseOffsets, text: str, begin: int, position: int) -> None:
    with store.transaction() as cursor:
        cursor.execute(f"INSERT INTO results VALUES ('{text}')")
        store.write(cursor, "g", {T0: position}, {T0: begin})


def test_a_transaction_of_the_user_s_own_tells_what_became_of_it(path: Path):
    with opened(path) as (connection, store):
        cursor = connection.cursor()
        store.write(cursor, "g", {T0: 1})
        connection.rollback()
        store.rolled_back()
        store.write(cursor, "g", {T0: 3})
        connection.commit()
        store.committed()
        store.write(cursor, "g", {T0: 4})
        connection.commit()
        store.committed()
        assert store.read("g", [T0]) == {T0: 4}


@pytest.mark.parametrize("first_position", [None, 10])
def test_of_two_writers_the_second_is_told_and_its_results_are_gone(path: Path, first_position: int | None):
    with opened(path) as (ours, store), opened(path) as (_, others):
        if first_position is not None:
            store.commit("g", {T0: first_position}, held())
        assert store.read("g", [T0]) == others.read("g", [T0])
        assert others.commit("g", {T0: 20}, held()) == {T0: None}
        with pytest.raises(ForeignWrite, match=f"another writer set the offset of {T0}"):
            process(store, "late", 15)
        assert results(ours) == []
        assert store.read("g", [T0]) == {T0: 20}


def test_one_foreign_partition_halts_the_whole_commit_and_a_second_call_takes_ours(path: Path):
    with opened(path) as (_, store), opened(path) as (_, others):
        store.commit("g", {T0: 1, T1: 1}, held())
        others.read("g", [T0])
        others.commit("g", {T0: 5}, held())
        found = store.commit("g", {T1: 2, T0: 2}, held())
        assert isinstance(found[T0], ForeignWrite)
        assert "rolled back" in str(found[T1])
        assert others.read("g", [T0, T1]) == {T0: 5, T1: 1}
        assert store.commit("g", {T1: 2, T0: 2}, held()) == {T0: None, T1: None}
        assert others.read("g", [T0, T1]) == {T0: 2, T1: 2}


def test_another_thread_waits_until_a_transaction_is_over(path: Path):
    with contextlib.closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        store = DatabaseOffsets(connection, "qmark")
        seen: list[object] = []
        reader = threading.Thread(target=lambda: seen.append(store.read("g", [T0])))
        with store.transaction() as cursor:
            store.write(cursor, "g", {T0: 1})
            reader.start()
            reader.join(0.1)
            assert seen == []
        reader.join(5)
        assert seen == [{T0: 1}]


def test_a_read_from_within_a_transaction_is_refused_and_does_not_end_it(path: Path):
    with opened(path) as (_, store):
        with store.transaction() as cursor:
            store.write(cursor, "g", {T0: 1})
            with pytest.raises(ConsumerError, match="a transaction of this store is open"):
                store.read("g", [T0])
        assert store.read("g", [T0]) == {T0: 1}


def test_nothing_is_committed_once_the_lease_is_over(path: Path):
    with opened(path) as (_, store):
        assert isinstance(store.commit("g", {T0: 1}, Lease())[T0], LeaseOver)
        assert store.read("g", [T0]) == {T0: NONE}


def test_a_database_that_is_busy_is_an_error_and_nothing_is_lost(path: Path):
    with opened(path) as (connection, _), opened(path) as (_, store):
        connection.execute("BEGIN EXCLUSIVE")
        failed = store.commit("g", {T0: 1}, held())[T0]
        assert isinstance(failed, ConsumerError)
        assert "locked" in str(failed)
        connection.rollback()
        assert store.commit("g", {T0: 1}, held()) == {T0: None}


def test_a_commit_nobody_knows_the_end_of_is_looked_up_before_the_next(path: Path):
    with opened(path) as (connection, store):
        store.commit("g", {T0: 1}, held())

        class Cut:
            """It commits, and the answer is lost."""

            autocommit = False
            cursor, rollback = connection.cursor, connection.rollback

            def commit(self) -> None:
                connection.commit()
                raise OSError("connection reset")

        store._connection = Cut()
        failed = store.commit("g", {T0: 2}, held())[T0]
        assert "cannot be committed: OSError: connection reset" in str(failed)
        store._connection = connection
        assert store.commit("g", {T0: 3}, held()) == {T0: None}  # not a foreign write: 2 was ours


def test_a_table_that_is_not_there_says_how_to_make_it(tmp_path: Path):
    with opened(tmp_path / "empty.db") as (_, store):
        with pytest.raises(ConsumerError, match=r"consumer_offsets cannot be read: OperationalError: .*database\.DDL"):
            store.read("g", [T0])
        assert isinstance(store.commit("g", {T0: 1}, held())[T0], ConsumerError)


@pytest.mark.parametrize("held_value", ["'x'", "-1", "1.5"])
def test_a_row_that_holds_no_position_is_unknown_and_stays_as_it_is(path: Path, held_value: str):
    with opened(path) as (connection, store):
        connection.execute(f"INSERT INTO consumer_offsets VALUES ('g', 'orders', '0', {held_value})")
        connection.commit()
        found = store.read("g", [T0])[T0]
        assert isinstance(found, Unknown)
        assert "orders/0: next_position is" in found.reason
        assert found.reason in str(store.commit("g", {T0: 5}, held())[T0])
        assert store.read("g", [T0]) == {T0: found}


def test_a_position_below_0_is_not_written(path: Path):
    with opened(path) as (_, store):
        assert "-1 is not a valid offset" in str(store.commit("g", {T0: -1}, held())[T0])


def test_a_connection_that_commits_by_itself_is_refused(path: Path):
    with (
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection,
        pytest.raises(ConsumerError, match="autocommit"),
    ):
        DatabaseOffsets(connection, "qmark")
    with pytest.raises(ConsumerError, match="autocommit"):
        DatabaseOffsets(SimpleNamespace(autocommit=True), "qmark")


@pytest.mark.parametrize("table", ["", "offsets; DROP TABLE x", "1offsets", "a.b.c", "größe", "a b"])
def test_a_table_s_name_is_a_plain_name(table: str):
    with pytest.raises(ConsumerError, match="not a plain name"):
        DatabaseOffsets(SimpleNamespace(), "qmark", table)


def test_an_unknown_paramstyle_is_refused():
    with pytest.raises(ConsumerError, match=r"paramstyle 'dollar' is not one of DB-API 2\.0: qmark, numeric"):
        DatabaseOffsets(SimpleNamespace(), "dollar")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("qmark", ("a = ? AND b = ?", (1, "x"))),
        ("numeric", ("a = :1 AND b = :2", (1, "x"))),
        ("named", ("a = :v1 AND b = :v2", {"v1": 1, "v2": "x"})),
        ("format", ("a = %s AND b = %s", (1, "x"))),
        ("pyformat", ("a = %(v1)s AND b = %(v2)s", {"v1": 1, "v2": "x"})),
    ],
)
def test_statements_are_in_the_driver_s_style(style: Any, expected: Any):
    assert in_style(style, "a = ? AND b = ?", [1, "x"]) == expected


class Percent:
    """A connection of SQLite that takes %s and %(name)s, as PostgreSQL's and MySQL's drivers do, and gives Decimals."""

    autocommit = False

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.commit, self.rollback = connection.commit, connection.rollback
        self._connection = connection

    def cursor(self) -> Any:
        inner = self._connection.cursor()

        class Cursor:
            close = inner.close

            def execute(self, statement: str, values: Any) -> None:
                inner.execute(re.sub(r"%\((\w+)\)s", r":\1", statement).replace("%s", "?"), values)
                self.rowcount = inner.rowcount

            def fetchone(self) -> Any:
                row = inner.fetchone()
                return None if row is None else tuple(map(Decimal, row))

        return Cursor()


@pytest.mark.parametrize("style", ["format", "pyformat", "named"])
def test_each_style_reads_and_writes(path: Path, style: Any):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        store = DatabaseOffsets(Percent(connection) if "format" in style else connection, style)
        assert store.read("g", [T0]) == {T0: NONE}
        for at in (5, 6):
            assert store.commit("g", {T0: at}, held()) == {T0: None}
        found = store.read("g", [T0])[T0]
        assert (found, type(found)) == (6, int)
