"""Record batches of a task: ranges as Arrow batches of a few megabytes, with the columns of Spark's `kafka` format.

Makes no Python object per row: keys and values come from kafkawire.columns, offsets and times are buffers, repeated
values are views of a column made before.  While one set is decoded, the broker already sends the next
(rangefetcher.py).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkawire.columns import Column, Field, checksums, gather
from kafkawire.errors import RemoteError
from kafkawire.headers import Headers, unpacked
from kafkawire.model import BrokerPartition, PartitionId
from kafkawire.primitives import Bytes
from kafkawire.protocol.buffers import Buffers
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import CorruptData
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.damagelog import DamageLog
from sparkpipeline.reading.pieces import Piece, accounting, covering, grouped, pieces_of
from sparkpipeline.reading.rangefetcher import read_many
from sparkpipeline.reading.readoptions import ReadOptions

MILLIS = pa.timestamp("ms", tz="UTC")
MICROS = pa.timestamp("us", tz="UTC")
TYPES: dict[str, Any] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": MICROS,
    "timestampType": pa.int32(),
    "broker": pa.int32(),
    "innerIndex": pa.int32(),
    "headers": pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    "rowNumber": pa.int64(),
    "valueCrc": pa.int64(),
    "coveredBytes": pa.int64(),
    "keptBack": pa.int64(),
    "damagedOffsets": pa.int64(),
}
NO_TIME = -1  # of a message without a timestamp, and its timestampType: as Spark has them
_FARTHEST_MS = (1 << 63) // 1000  # what fits into microseconds

Pieces = Sequence[Piece]
# Of this process, not of a task: Spark's workers run one after the other in it, and memory that is new costs a page
# fault every 4 KB.
_BUFFERS = Buffers(32 << 20)
_CONSTANTS: dict[str, tuple[object, Any]] = {}  # by column: the last repeated value, and a column of it
_CONSTANT_ROWS = 10_000
_HEADERS_KEPT = 4096  # opened blocks; one of them may be as large as a message


def read_ranges(
    ranges: Sequence[OffsetRange], access: ClusterAccess, options: ReadOptions
) -> Generator[Any, None, None]:
    """Yield a pyarrow.RecordBatch at a time: the messages of the ranges, in order, with the columns that options name.

    A batch has at most options.batch_bytes of keys and values and options.batch_rows rows; small ranges share one.
    Raises the exceptions of read_sets, and CorruptData and CodecMissing for the content of a set.
    """
    spoken = access.spoken
    kept_back: dict[OffsetRange, int] = {}
    damages = DamageLog()
    with closing(read_many(ranges, access, options, kept_back, damages)) as sets:
        found = pieces_of(spoken, sets, ranges, options, damages)
        if "coveredBytes" in options.columns:
            found = covering(found)
        if {"keptBack", "damagedOffsets"} & set(options.columns):
            found = accounting(found, kept_back, damages.counts)
        small = (part for piece in found for part in piece.cut(options.batch_bytes, options.batch_rows))
        for pieces in grouped(small, options.batch_bytes, options.batch_rows):
            yield record_batch(pieces, options)


@lru_cache(maxsize=8)
def schema(columns: tuple[str, ...]) -> Any:
    """Return the Arrow schema of columns by their names, as pyspark makes it of the source's own."""
    return pa.schema([(name, TYPES[name]) for name in columns])


def record_batch(pieces: Pieces, options: ReadOptions) -> Any:
    """Return the rows of some pieces, in order, with the columns that options name."""
    made = [_MAKERS[name](pieces, options) for name in options.columns]
    return pa.RecordBatch.from_arrays(made, schema=schema(options.columns))


# ---- contents of messages ----------------------------------------------------------------------------------------


def _blobs(pieces: Pieces, field: Field) -> Any:
    found = gather([piece.part for piece in pieces], field, _BUFFERS.take)
    buffers = [_buffer(found.validity), pa.py_buffer(found.ends), pa.py_buffer(found.data)]
    return pa.Array.from_buffers(pa.binary(), _count(pieces), buffers, null_count=found.nulls)


def _checksums(pieces: Pieces, options: ReadOptions) -> Any:
    found = checksums([piece.part for piece in pieces])
    buffers = [_buffer(found.validity), pa.py_buffer(found.numbers)]
    return pa.Array.from_buffers(pa.int64(), _count(pieces), buffers, null_count=found.nulls)


def _offsets(pieces: Pieces, options: ReadOptions) -> Any:
    return _int64([piece.columns.offsets[piece.since : piece.until] for piece in pieces])


def _timestamps(pieces: Pieces, options: ReadOptions) -> Any:
    """Return timestamps in microseconds; null for a time out of their range."""
    if all(piece.columns.timestamps_ms is None for piece in pieces):
        return _constant("timestamp", _fallback(options), _count(pieces))
    told = _known([piece.columns.timestamps_ms for piece in pieces], pieces)
    far = pc.or_(pc.greater_equal(told, _FARTHEST_MS), pc.less_equal(told, -_FARTHEST_MS))
    if pc.any(far).as_py():
        told = pc.if_else(far, pa.scalar(None, pa.int64()), told)
    times = told.view(MILLIS).cast(MICROS)
    if options.timestamp_fallback == "none":
        return times
    return pc.if_else(pc.equal(told, NO_TIME), pa.scalar(_fallback(options), MICROS), times)


def _timestamp_types(pieces: Pieces, options: ReadOptions) -> Any:
    if all(piece.columns.timestamp_types is None for piece in pieces):
        return _constant("timestampType", NO_TIME, _count(pieces))
    return _known([piece.columns.timestamp_types for piece in pieces], pieces).cast(pa.int32())


def _fallback(options: ReadOptions) -> int | None:
    """Return the timestamp for a message that has none, in microseconds."""
    millis = {"none": NO_TIME, "null": None, "plan": options.plan_time_ms}[options.timestamp_fallback]
    return None if millis is None else 1000 * millis


def _constant(name: str, value: object, rows: int) -> Any:
    """Return a column of one value.  All batches of a range have it, so one is made for many, and each gets a view."""
    last, known = _CONSTANTS.get(name, (None, None))
    if known is not None and last == value and len(known) >= rows:
        return known.slice(0, rows)
    again = known is not None and last == value  # a range of few rows needs no more than these
    made = pa.repeat(pa.scalar(value, TYPES[name]), max(rows, _CONSTANT_ROWS) if again else rows)
    _CONSTANTS[name] = (value, made)
    return made.slice(0, rows)


def _known(columns: Sequence[Column | None], pieces: Pieces) -> Any:
    """Return a column that only some sets have; -1 in the others."""
    there = [
        [NO_TIME] * len(piece) if column is None else column[piece.since : piece.until]
        for column, piece in zip(columns, pieces, strict=True)
    ]
    return _int64(there)


# ---- coordinates and counts -----------------------------------------------------------------------------


def _repeated(name: str, of: Callable[[Piece], object]) -> Callable[[Pieces, ReadOptions], Any]:
    def make(pieces: Pieces, options: ReadOptions) -> Any:
        runs = groupby(pieces, of)  # of several partitions, where small ranges share a batch
        lengths = [(value, _count(list(run))) for value, run in runs]
        if len(lengths) == 1:
            return _constant(name, *lengths[0])
        return _joined([pa.repeat(pa.scalar(value, TYPES[name]), rows) for value, rows in lengths])

    return make


def _row_numbers(pieces: Pieces, options: ReadOptions) -> Any:
    return _joined([_numbers(piece.first_row, len(piece)) for piece in pieces])


def _numbers(first: int, count: int) -> Any:
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=first - 1)


def _index(partition: PartitionId) -> int:
    return partition.index if isinstance(partition, BrokerPartition) else partition


def _broker(partition: PartitionId) -> int | None:
    return partition.broker if isinstance(partition, BrokerPartition) else None


def _inner_indexes(pieces: Pieces, options: ReadOptions) -> Any:
    """Return the number of each message within its entry, whose offset all of them have.  A piece may begin inside an
    entry; columns hold whole ones."""
    return _joined([_within_entries(piece) for piece in pieces])


def _within_entries(piece: Piece) -> Any:
    offsets = piece.columns.offsets
    begin = bisect_left(offsets, offsets[piece.since])
    ends = pc.run_end_encode(_int64([offsets[begin : piece.until]])).run_ends
    begins = pa.concat_arrays([pa.array([0], ends.type), ends[:-1]])
    firsts = pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, begins))
    rows = _numbers(0, piece.until - begin)
    return pc.subtract(rows, firsts.cast(pa.int64())).slice(piece.since - begin).cast(pa.int32())


def _kept_back(pieces: Pieces, options: ReadOptions) -> Any:
    """Return 0, and in the last row of a range the number of its offsets that transactions keep back."""
    return _joined([_at_the_end(piece, piece.kept_back) for piece in pieces])


def _damaged(pieces: Pieces, options: ReadOptions) -> Any:
    """Return 0, and in the last row of a range the number of its damaged offsets."""
    return _joined([_at_the_end(piece, piece.damaged) for piece in pieces])


def _at_the_end(piece: Piece, number: int) -> Any:
    zeros = pa.repeat(pa.scalar(0, pa.int64()), len(piece) - 1)
    return pa.concat_arrays([zeros, pa.array([number], pa.int64())])


def _covered(pieces: Pieces, options: ReadOptions) -> Any:
    return _joined([_covered_by(piece) for piece in pieces])


def _covered_by(piece: Piece) -> Any:
    """Return the bytes from each row to the next: 0 within an entry.  The first row also has the bytes before it."""
    offsets, since, until = piece.columns.offsets, piece.since, piece.until
    begins = _int64([offsets[since:until] if since else [piece.covered_from, *offsets[1:until]]])
    ends = _int64([offsets[since + 1 : until + 1], *([[piece.covered_to]] if until == len(piece.columns) else [])])
    return pc.subtract(ends, begins)


# ---- headers ---------------------------------------------------------------------------------------------------

# array<struct<key:string,value:binary>>, as Spark's own kafka format has it.  Headers travel as their blocks
# (kafkawire.headers) and are opened here, at the program's border.  Blocks of one producer repeat from message to
# message, so each is opened once.


def _headers(pieces: Pieces, options: ReadOptions) -> Any:
    """Return the headers of each message; null if it has none.  Raises CorruptData."""
    if all(piece.columns.header_at is None for piece in pieces):
        return pa.nulls(_count(pieces), TYPES["headers"])
    return _joined([headers_of(piece, TYPES["headers"]) for piece in pieces])


def headers_of(piece: Piece, kind: Any) -> Any:
    """Return a pyarrow.ListArray of this type; null if a message has no headers.  Raises CorruptData."""
    columns = piece.columns
    if columns.header_at is None or columns.header_size is None:
        return pa.nulls(len(piece), kind)
    data = memoryview(columns.data)
    opened: dict[bytes, Headers] = {}
    names: list[str] = []
    values: list[bytes | None] = []
    ends: list[int | None] = []
    for row in range(piece.since, piece.until):
        at, size = columns.header_at[row], columns.header_size[row]
        block = bytes(data[at : at + size]) if size else b""
        found = opened.get(block)
        if found is None:
            found = _unpacked(block, piece, row)
            if len(opened) < _HEADERS_KEPT:
                opened[block] = found
        ends.append(len(names) if found else None)  # where it begins: ListArray takes the next one for its end
        for name, value in found:
            names.append(name)
            values.append(value)
    ends.append(len(names))
    structs = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())], fields=list(kind.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs).cast(kind)


def _unpacked(block: bytes, piece: Piece, row: int) -> Headers:
    try:
        return unpacked(block)
    except RemoteError as damaged:
        raise CorruptData(
            str(damaged),
            topic=piece.range.topic,
            partition=piece.range.partition,
            offset=piece.columns.offsets[row],
        ) from None


# ---- buffers ---------------------------------------------------------------------------------------------------


def _int64(columns: Sequence[Column]) -> Any:
    parts = [column if isinstance(column, memoryview) else memoryview(array("q", column)) for column in columns]
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    return pa.Array.from_buffers(pa.int64(), sum(map(len, parts)), [None, pa.py_buffer(data)], null_count=0)


def _joined(arrays: Sequence[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _buffer(data: Bytes | None) -> Any:
    return None if data is None else pa.py_buffer(data)


def _count(pieces: Pieces) -> int:
    return sum(map(len, pieces))


_MAKERS: dict[str, Callable[[Pieces, ReadOptions], Any]] = {
    "key": lambda pieces, _: _blobs(pieces, Field.KEY),
    "value": lambda pieces, _: _blobs(pieces, Field.VALUE),
    "topic": _repeated("topic", lambda piece: piece.range.topic),
    "partition": _repeated("partition", lambda piece: _index(piece.range.partition)),
    "broker": _repeated("broker", lambda piece: _broker(piece.range.partition)),
    "innerIndex": _inner_indexes,
    "offset": _offsets,
    "timestamp": _timestamps,
    "timestampType": _timestamp_types,
    "headers": _headers,
    "rowNumber": _row_numbers,
    "valueCrc": _checksums,
    "coveredBytes": _covered,
    "keptBack": _kept_back,
    "damagedOffsets": _damaged,
}
