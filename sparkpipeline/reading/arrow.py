"""Columns of message sets as an Arrow record batch with the columns of Spark's `kafka` format."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from kafkawire.columns import Columns
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.options import ReadOptions

TYPES: dict[str, Any] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    "rowNumber": pa.int64(),
    "valueCrc": pa.int64(),
}


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows since..until of the columns of a set of one range; number is what the first row of columns has there."""

    range: OffsetRange
    columns: Columns
    since: int
    until: int
    number: int

    def __len__(self) -> int:
        return self.until - self.since

    @property
    def bytes(self) -> int:
        """About so many bytes of keys and values."""
        if not len(self):
            return 0
        places, last = self.columns.value_at, self.until - 1
        return max(0, places[last] + max(0, self.columns.value_size[last]) - places[self.since])

    def within(self, until: int) -> Piece:
        """Its rows before an offset."""
        offsets = self.columns.offsets
        if self.until == self.since or offsets[self.until - 1] < until:
            return self
        return replace(self, until=bisect_left(offsets, until, self.since, self.until))

    def cut(self, most_bytes: int, most_rows: int) -> Iterator[Piece]:
        """The same rows in pieces of at most so many bytes and rows, one row at least in each."""
        places, since = self.columns.value_at, self.since
        while since < self.until:
            end = bisect_left(places, places[since] + most_bytes, since + 1, self.until)
            end = min(end, since + most_rows)
            yield replace(self, since=since, until=end)
            since = end


def schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, TYPES[name]) for name in columns])


def record_batch(pieces: Sequence[Piece], options: ReadOptions) -> pa.RecordBatch:
    """The rows of pieces, in order."""
    made = [pa.array(_MAKERS[name](pieces, options), TYPES[name]) for name in options.columns]
    return pa.RecordBatch.from_arrays(made, schema=schema(options.columns))


def _rows(pieces: Sequence[Piece], name: str) -> list[Any]:
    return [v for p in pieces for v in list(getattr(p.columns, name))[p.since : p.until]]


def _blobs(pieces: Sequence[Piece], kind: str) -> list[bytes | None]:
    return [v for p in pieces for v in getattr(p.columns, kind)()[p.since : p.until]]


def _times(pieces: Sequence[Piece], options: ReadOptions) -> list[int | None]:
    none: int | None = {"none": -1, "null": None, "plan": options.plan_time_ms}[options.timestamp_fallback]
    out: list[int | None] = []
    for p in pieces:
        stamps = p.columns.timestamps_ms
        out += [none] * len(p) if stamps is None else [none if t == -1 else t for t in list(stamps)[p.since : p.until]]
    return [None if t is None else t * 1000 for t in out]


_MAKERS: dict[str, Any] = {
    "key": lambda ps, o: _blobs(ps, "keys"),
    "value": lambda ps, o: _blobs(ps, "values"),
    "topic": lambda ps, o: [p.range.topic for p in ps for _ in range(len(p))],
    "partition": lambda ps, o: [p.range.partition for p in ps for _ in range(len(p))],
    "offset": lambda ps, o: _rows(ps, "offsets"),
    "timestamp": _times,
    "timestampType": lambda ps, o: [-1 if p.columns.timestamps_ms is None else 0 for p in ps for _ in range(len(p))],
    "headers": lambda ps, o: [None for p in ps for _ in range(len(p))],
    "rowNumber": lambda ps, o: [n + p.number for p in ps for n in range(p.since, p.until)],
    "valueCrc": lambda ps, o: [None if v is None else zlib.crc32(v) for v in _blobs(ps, "values")],
}
