"""Offsets in a table of the user's database, so that offsets and results share one transaction: both are stored, or
neither.

    store = DatabaseOffsets(connection, paramstyle=sqlite3.paramstyle)
    with store.transaction() as cursor:
        cursor.execute("INSERT INTO ...")                       # the results of the messages
        store.write(cursor, "billing", {tp: message_set.resume_at}, {tp: message_set.start})

Works with any DB-API 2.0 connection that is not in autocommit mode; the store owns it during a call or transaction().
The user creates the table (DDL).

A write names the offset that this store last read or wrote: a row that another writer changed meanwhile is a
ForeignWrite, and the transaction is rolled back with its results.  So two processes that read the same partition cannot
both store their results, whichever process owns it in ZooKeeper.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Literal, get_args

from groundwork import clocks
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError, ForeignWrite
from zkconsumer.offsets.store import NONE, Committed, Unknown
from zkconsumer.session.lease import Lease, LeaseOver

ParamStyle = Literal["qmark", "numeric", "named", "format", "pyformat"]
TABLE = "consumer_offsets"

DDL = """\
CREATE TABLE consumer_offsets (
    group_id       VARCHAR(200) NOT NULL,
    topic          VARCHAR(255) NOT NULL,
    partition_id   VARCHAR(32)  NOT NULL,
    next_position  BIGINT       NOT NULL,
    PRIMARY KEY (group_id, topic, partition_id)
)"""
"""For SQLite, PostgreSQL and most others.  Names are compared as they are written: on MySQL give the three names a
binary collation.  The table may have more columns, if they have defaults."""

MARKS = {"qmark": "?", "numeric": ":{}", "named": ":v{}", "format": "%s", "pyformat": "%(v{})s"}
COLUMNS = ("group_id", "topic", "partition_id")
Row = tuple[str, str, str]


class DatabaseOffsets:
    """OffsetStore in one table.  Calls block as long as the database does: a connector makes them in a separate thread
    (SQLite: check_same_thread=False)."""

    def __init__(
        self,
        connection: Any,
        paramstyle: ParamStyle,
        table: str = TABLE,
    ) -> None:
        """paramstyle: that of the driver's module, such as sqlite3.paramstyle.  table may name a schema: `app.offsets`.
        Raises ConsumerError for an invalid table name, an unknown style, or a connection in autocommit mode."""
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", table, re.ASCII):
            raise ConsumerError(f"offsets table {table!r} is not a plain name")
        if paramstyle not in get_args(ParamStyle):
            raise ConsumerError(
                f"paramstyle {paramstyle!r} is not one of DB-API 2.0: {', '.join(get_args(ParamStyle))}"
            )
        if getattr(connection, "autocommit", None) is True or _sqlite_commits_by_itself(connection):
            raise ConsumerError(
                f"offsets table {table}: the connection is in autocommit mode, so that a position and its results "
                "would not be one transaction; switch it off"
            )
        self._connection = connection
        self._style = paramstyle
        self._table = table
        self._lock = threading.RLock()
        self._busy = False
        self._seen: dict[Row, Committed] = {}  # as this store last read or committed it
        self._written: dict[Row, int] = {}  # written in the open transaction

    # ---- as a store --------------------------------------------------------------------------------------------

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Return the committed offsets; Unknown for a row with an invalid one.  Ends the transaction that it opens.

        Raises ConsumerError if the database refuses.
        """
        wanted = list(tps)
        with self._alone():
            try:
                cursor = self._connection.cursor()
                found = {tp: self._read(cursor, _row(group, tp)) for tp in wanted}
                cursor.close()
                self._connection.rollback()  # nothing was written; a reader must not hold an old snapshot for hours
            except Exception as why:  # each driver has its own errors, without a common base class
                self._roll_back()
                raise self._failed("read", why) from why
            self._seen |= {_row(group, tp): at for tp, at in found.items()}
        return found

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """Write offsets in a separate transaction while the lease holds: all of them, or none.

        After a ForeignWrite, a second call by a caller that still owns the partition overwrites it.
        """
        try:
            with self.transaction() as cursor:
                self.write(cursor, group, positions)
                lease.check(clocks.moment())  # after the last wait: a lock on a row uses up the lease, too
        except ForeignWrite as foreign:
            halted = ConsumerError(f"not written, because its transaction was rolled back: {foreign}")
            return {tp: foreign if tp == foreign.tp else halted for tp in positions}
        except (ConsumerError, LeaseOver) as why:
            return dict.fromkeys(positions, why)
        return dict.fromkeys(positions)

    # ---- in the user's transaction -----------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a cursor of the connection; commit at the end of the block, roll back if it raises.

        Raises what the block raises, and ConsumerError if the commit itself fails: then its outcome is unknown until
        the next read.
        """
        with self._alone():
            yield from self._transaction()

    def _transaction(self) -> Iterator[Any]:
        try:
            cursor = self._connection.cursor()
        except Exception as why:
            raise self._failed("written", why) from why
        try:
            yield cursor
            cursor.close()
        except BaseException:
            self._roll_back()
            raise
        try:
            self._connection.commit()
        except Exception as why:
            self._roll_back()
            self._seen.clear()  # the commit may have happened: the next write reads first
            raise self._failed("committed", why) from why
        self.committed()

    def write(
        self,
        cursor: Any,
        group: str,
        positions: Mapping[TopicPartition, int],
        begins: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Write offsets in the cursor's transaction, without a commit.

        begins: by partition, the first offset whose results this transaction stores.

        Raises ForeignWrite if a row is not as this store last saw it; ConsumerError if results from `begins` onwards
        are stored already, if the database refuses, or if an offset is below 0: roll back.  Outside of transaction()
        call committed() or rolled_back() afterwards.
        """
        for tp, at in positions.items():
            if at < 0:
                raise ConsumerError(f"group {group}: {at} is not a valid offset to commit for {tp}")
            try:
                foreign = self._move(cursor, group, tp, at, (begins or {}).get(tp))
            except ConsumerError:
                raise
            except Exception as why:
                raise self._failed(f"written for {tp}", why) from why
            if foreign is not None:
                raise foreign

    def committed(self) -> None:
        """Record that everything written since the last call is committed."""
        self._seen |= self._written
        self._written.clear()

    def rolled_back(self) -> None:
        """Record that everything written since the last call was rolled back."""
        self._written.clear()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Exclude other threads.  A call from inside (a listener in the same event loop) would end the open
        transaction, so it is refused."""
        with self._lock:
            if self._busy:
                raise ConsumerError(f"offsets table {self._table}: a transaction of this store is open")
            self._busy = True
            try:
                yield
            finally:
                self._busy = False

    def _roll_back(self) -> None:
        self.rolled_back()
        try:
            self._connection.rollback()
        except Exception:
            pass  # the connection is gone, and the transaction with it; the first error is raised

    # ---- rows --------------------------------------------------------------------------------------------------

    def _move(self, cursor: Any, group: str, tp: TopicPartition, at: int, begin: int | None) -> ForeignWrite | None:
        row = _row(group, tp)
        before: Committed
        if row in self._written:
            before = self._written[row]
        elif row in self._seen:
            before = self._seen[row]
        else:
            before = self._read(cursor, row)
        if isinstance(before, Unknown):
            raise ConsumerError(before.reason)
        if begin is not None and isinstance(before, int) and begin < before:
            raise ConsumerError(
                f"offsets table {self._table}, group {group}: results of {tp} are stored up to {before}, and these "
                f"begin at {begin}; start again, at the position that read() returns"
            )
        if before == at:
            return None
        if self._insert(cursor, row, at) if before is NONE else self._update(cursor, row, before, at):
            self._written[row] = at
            return None
        self._seen.pop(row, None)  # the next write reads first, and writes ours
        return ForeignWrite(group, tp, "another position", at)

    def _update(self, cursor: Any, row: Row, before: Committed, at: int) -> bool:
        where = " AND ".join(f"{name} = ?" for name in (*COLUMNS, "next_position"))
        self._execute(cursor, f"UPDATE {self._table} SET next_position = ? WHERE {where}", (at, *row, before))
        return bool(cursor.rowcount == 1)

    def _insert(self, cursor: Any, row: Row, at: int) -> bool:
        """Insert a row.  Return False if another writer has created it since it was read."""
        names = ", ".join((*COLUMNS, "next_position"))
        try:
            self._execute(cursor, f"INSERT INTO {self._table} ({names}) VALUES (?, ?, ?, ?)", (*row, at))
        except Exception as why:
            if _key_is_taken(why):
                return False
            raise
        return True

    def _read(self, cursor: Any, row: Row) -> Committed:
        where = " AND ".join(f"{name} = ?" for name in COLUMNS)
        self._execute(cursor, f"SELECT next_position FROM {self._table} WHERE {where}", row)
        found = cursor.fetchone()
        if found is None:
            return NONE
        if isinstance(found[0], (int, Decimal)) and found[0] >= 0 and int(found[0]) == found[0]:
            return int(found[0])
        group, topic, partition = row
        where_it_is = f"offsets table {self._table}, group {group}, {topic}/{partition}"
        return Unknown(
            f"{where_it_is}: next_position is {found[0]!r}, which is not a valid offset; correct or delete the row"
        )

    def _execute(self, cursor: Any, statement: str, values: Sequence[object]) -> None:
        cursor.execute(*in_style(self._style, statement, values))

    def _failed(self, what: str, why: Exception) -> ConsumerError:
        return ConsumerError(
            f"offsets table {self._table} cannot be {what}: {type(why).__name__}: {why}; if it does not exist, create "
            "it: zkconsumer.offsets.database.DDL"
        )


def in_style(
    style: ParamStyle, statement: str, values: Sequence[object]
) -> tuple[str, Sequence[object] | dict[str, object]]:
    """Return a statement with `?` for each value, and the values, in the form that a driver of that paramstyle
    needs."""
    first, *pieces = statement.split("?")
    text = first + "".join(MARKS[style].format(n) + piece for n, piece in enumerate(pieces, start=1))
    if style in ("named", "pyformat"):
        return text, {f"v{n}": value for n, value in enumerate(values, start=1)}
    return text, tuple(values)


def _key_is_taken(why: Exception) -> bool:
    """True if the key exists already, by DB-API's error class, or by the SQL state (class 23) in drivers that keep it:
    psycopg, pg8000."""
    if any(kind.__name__ == "IntegrityError" for kind in type(why).__mro__):
        return True
    sqlstate = why.args[0].get("C") if why.args and isinstance(why.args[0], dict) else None
    states = (getattr(why, "sqlstate", None), getattr(why, "pgcode", None), sqlstate)
    return any(isinstance(state, str) and state.startswith("23") for state in states)


def _sqlite_commits_by_itself(connection: Any) -> bool:
    return type(connection).__module__.startswith("sqlite3") and connection.isolation_level is None


def _row(group: str, tp: TopicPartition) -> Row:
    return group, tp.topic, str(tp.partition)
