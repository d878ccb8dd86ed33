"""Columns of a topic: exactly those of Spark's own `kafka` format, all nullable.

A user may ask for fewer of them, in any order (`.schema("value binary, offset bigint")`): other columns are not sent to
the JVM. With offsetRanges there are more columns, which the loader uses for counting.

Kafka 0.7, whose partitions belong to brokers and whose offsets are the bytes at which entries begin, has two more:
broker, which tells partition 0 of one broker from that of another, and innerIndex, which tells the messages of one
compressed entry apart, 0, 1, 2 ..
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sparkpipeline.errors import OptionRefused

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
HEADERS = {"headers": "array<struct<key:string,value:binary>>"}  # with includeHeaders
BY_BROKER = {"broker": "int", "innerIndex": "int"}  # where partitions belong to brokers: Kafka 0.7
COUNTED = {"rowNumber": "bigint", "valueCrc": "bigint"}  # 0, 1, 2 .. within a range; CRC-32 of the value, or null
COVERED = {"coveredBytes": "bigint"}  # of the log, from where the row before it ended: as many in all as the range has
KEPT_BACK = {"keptBack": "bigint"}  # 0; in the last row of a range: offsets of it that transactions keep from readers
DAMAGED = {"damagedOffsets": "bigint"}  # 0; in the last row of a range: offsets of it that were skipped as damaged
TYPES = {**COLUMNS, **HEADERS, **BY_BROKER, **COUNTED, **COVERED, **KEPT_BACK, **DAMAGED}


def struct_type(columns: str | Mapping[str, str]) -> StructType:
    """Return the StructType of columns: their types by name, or a text such as "offset bigint, timestamp timestamp".

    Spark is not given the text: it takes "timestamp" for another type where spark.sql.timestampType says so."""
    from pyspark.sql import types as T

    of_header = [T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())]
    known: dict[str, T.DataType] = {
        "binary": T.BinaryType(), "string": T.StringType(), "int": T.IntegerType(), "bigint": T.LongType(),
        "timestamp": T.TimestampType(), HEADERS["headers"]: T.ArrayType(T.StructType(of_header)),
    }  # fmt: skip
    pairs = columns.items() if isinstance(columns, Mapping) else [one.split(" ", 1) for one in columns.split(", ")]
    return T.StructType([T.StructField(name, known[kind]) for name, kind in pairs])


def columns_by_default(include_headers: bool, by_broker: bool) -> dict[str, str]:
    """Return the default columns' types, by name."""
    return {**COLUMNS, **(BY_BROKER if by_broker else {}), **(HEADERS if include_headers else {})}


def check_columns(text: str) -> str:
    """Return columns as DDL, a text that a file of a ledger holds, if each is one of a message.  Raises ValueError."""
    known = {f"{name} {kind}" for name, kind in TYPES.items()}
    for column in text.split(", "):
        if column not in known:
            raise ValueError(f"a load has no column {column!r}")
    return text


def counted(by_broker: bool, transactions: bool = False, damaged: bool = False) -> dict[str, str]:
    """Return the columns that a load counts by: rows; by_broker: bytes, which offsets are there; transactions: offsets
    that they keep back; damaged: offsets that were skipped."""
    optional = ((by_broker, COVERED), (transactions, KEPT_BACK), (damaged, DAMAGED))
    return {**COUNTED, **{name: kind for wanted, columns in optional if wanted for name, kind in columns.items()}}


def columns_of(
    schema: StructType, include_headers: bool, ranges_given: bool, by_broker: bool = False
) -> tuple[str, ...]:
    """Return the columns that a query reads, in its order.  Raises OptionRefused for unknown columns."""
    known = {**columns_by_default(include_headers, by_broker), **(counted(by_broker) if ranges_given else {})}
    for field in schema.fields:
        _check(field.name, field.dataType.simpleString(), field.nullable, known)
    names = tuple(field.name for field in schema.fields)
    if not names or len(set(names)) < len(names):
        raise OptionRefused(f"a schema names each column once: {schema.simpleString()}", option="schema")
    return names


def _check(name: str, kind: str, nullable: bool, known: dict[str, str]) -> None:
    if name not in known:
        helps = ""
        if name in HEADERS:
            helps = "; headers need includeHeaders=true"
        elif name in COUNTED or (name in COVERED and "broker" in known):
            helps = f"; {name} needs offsetRanges"
        elif name in BY_BROKER or name in COVERED:
            helps = f"; {name} needs protocol=0.7"
        raise OptionRefused(f"the source has no column {name!r}, it has {', '.join(known)}{helps}", option="schema")
    if kind != known[name]:
        helps = "write timestamp_ltz" if kind == "timestamp_ntz" else "cast it in the query"
        raise OptionRefused(f"column {name!r} is {known[name]}, not {kind}: {helps}", option="schema")
    if not nullable:
        raise OptionRefused(f"column {name!r} is nullable: NOT NULL is not promised", option="schema")
