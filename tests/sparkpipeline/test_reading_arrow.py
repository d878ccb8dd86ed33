"""Record batches: both forms of the decoder make the same, with the columns and types that Spark expects."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire import compression
from kafkawire.columns import Columns
from kafkawire.dialects import dialect
from kafkawire.formats.compiled import Kernels, load
from kafkawire.formats.v01 import messages as m
from kafkawire.formats.v01.columns import index_by
from kafkawire.kernels import _CHOICE, cache_folder
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.arrow import TYPES, record_batch, schema
from sparkpipeline.reading.pieces import Piece
from sparkpipeline.reading.readoptions import COLUMNS, ReadOptions

ALL = (*COLUMNS, "headers", "rowNumber", "valueCrc")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RANGE = OffsetRange("größe", 3, 0, 1 << 40)
Blob = bytes | None
OLD = dialect("0.8.2")


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    return load(cache_folder())


def columns_of(kernels: Kernels | None, data: bytes) -> Columns:
    return index_by(kernels, m.message_set("t", 0, 0, memoryview(data), -1)[0])


def patched(data: bytes, at: int, piece: bytes) -> bytes:
    """With other bytes in the first entry, and its checksum made anew."""
    end = 12 + int.from_bytes(data[8:12], "big")
    body = data[16:at] + piece + data[at + len(piece) : end]
    return data[:12] + struct.pack(">I", zlib.crc32(body)) + body + data[end:]


def batch_of(kernels: Kernels | None, sets: list[bytes], options: ReadOptions) -> Any:
    """All rows of some sets of one range, made by one form."""
    before, _CHOICE.kernels = _CHOICE.kernels, kernels
    try:
        pieces, count = [], 0
        for data in sets:
            found = columns_of(kernels, data)
            pieces.append(Piece(RANGE, found, 0, len(found), count))
            count += len(found)
        return record_batch(pieces, options)
    finally:
        _CHOICE.kernels = before


blobs = st.none() | st.binary(max_size=20)
times = st.sampled_from([-1, 0, 5, 1_700_000_000_000])


@settings(max_examples=80, deadline=None)
@given(
    sets=st.lists(
        st.tuples(
            st.lists(st.tuples(blobs, blobs, times), max_size=12), st.sampled_from([0, 1, 2]), st.sampled_from([0, 1])
        ),
        min_size=1,
        max_size=4,
    ),
    fallback=st.sampled_from(["none", "null", "plan"]),
)
def test_both_forms_make_the_same_batch_of_any_sets(
    sets: list[tuple[list[tuple[Blob, Blob, int]], int, int]], fallback: Any, compiled: Kernels
) -> None:
    options = ReadOptions(columns=ALL, timestamp_fallback=fallback, plan_time_ms=86_400_000)
    instead = {"none": EPOCH - timedelta(milliseconds=1), "null": None, "plan": EPOCH + timedelta(days=1)}[fallback]
    encoded, expected = [], []
    for rows, codec, magic in sets:
        encoded.append(m.encode([(n, k, v, t) for n, (k, v, t) in enumerate(rows)], codec, magic))
        for n, (key, value, ms) in enumerate(rows):
            told = instead if magic == 0 or ms == -1 else EPOCH + timedelta(milliseconds=ms)
            expected.append((key, value, n, told, 0 if magic else -1, None if value is None else zlib.crc32(value)))
    for kernels in (None, compiled):
        batch = batch_of(kernels, encoded, options)
        batch.validate(full=True)
        assert batch.schema == schema(ALL)
        names = ("key", "value", "offset", "timestamp", "timestampType", "valueCrc")
        assert list(zip(*(batch.column(name).to_pylist() for name in names), strict=True)) == expected
        assert batch.column("rowNumber").to_pylist() == list(range(len(expected)))
        assert set(batch.column("topic").to_pylist()) <= {"größe"}
        assert set(batch.column("partition").to_pylist()) <= {3}
        assert batch.column("headers").null_count == len(expected)


def test_what_a_broker_stamped_has_its_type(compiled: Kernels) -> None:
    inner = m.encode([(0, None, b"a", 1), (1, None, b"b", 2)], 0, 1)
    plain = patched(inner, 17, bytes([m.LOG_APPEND_TIME]))
    packed = compression.compress(1, inner, 1)
    body = bytes([1, 1 | m.LOG_APPEND_TIME]) + struct.pack(">qii", 9, -1, len(packed)) + packed
    wrapped = struct.pack(">qiI", 1, len(body) + 4, zlib.crc32(body)) + body
    options = ReadOptions(columns=("timestamp", "timestampType"))
    for kernels in (None, compiled):
        batch = batch_of(kernels, [plain, wrapped], options)
        assert batch.column(1).to_pylist() == [1, 0, 1, 1]
        assert batch.column(0).cast("int64").to_pylist() == [1000, 2000, 9000, 9000]


@pytest.mark.parametrize("far", [(1 << 63) - 1, -(1 << 63), (1 << 63) // 1000 + 1])
def test_a_time_that_no_microseconds_can_say_is_null(far: int, compiled: Kernels) -> None:
    data = patched(m.encode([(0, None, b"a", 0), (1, None, b"b", 7)], 0, 1), 18, struct.pack(">q", far))
    for kernels in (None, compiled):
        batch = batch_of(kernels, [data], ReadOptions(columns=("timestamp",)))
        assert batch.column(0).cast("int64").to_pylist() == [None, 7000]


def test_types_are_those_that_pyspark_makes_of_the_schema() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    kinds = {
        "key": BinaryType(), "value": BinaryType(), "topic": StringType(), "partition": IntegerType(),
        "offset": LongType(), "timestamp": TimestampType(), "timestampType": IntegerType(),
        "broker": IntegerType(), "innerIndex": IntegerType(),
        "headers": ArrayType(header), "rowNumber": LongType(), "valueCrc": LongType(), "coveredBytes": LongType(),
        "keptBack": LongType(), "damagedOffsets": LongType(),
    }  # fmt: skip
    assert list(kinds) == list(TYPES)
    of_spark = to_arrow_schema(StructType([StructField(name, kind) for name, kind in kinds.items()]), timezone="UTC")
    assert of_spark.equals(schema(tuple(kinds)))


def test_pieces_end_before_an_offset_and_fit_the_bounds_they_are_cut_to(compiled: Kernels) -> None:
    sizes = [10, 10, 500, 10, 0, 10, 10]
    data = m.encode([(2 * n, None, b"x" * size, None) for n, size in enumerate(sizes)])
    for kernels in (None, compiled):
        found = columns_of(kernels, data)
        whole = Piece(RANGE, found, 0, 7, 100)
        assert [len(whole.within(until)) for until in (0, 1, 2, 3, 12, 13, 99)] == [0, 1, 1, 2, 6, 7, 7]
        cut = list(whole.cut(100, 3))
        assert [(piece.since, piece.until) for piece in cut] == [(0, 2), (2, 3), (3, 6), (6, 7)]
        assert [piece.first_row for piece in cut] == [100, 102, 103, 106]
        assert all(piece.bytes <= 100 or len(piece) == 1 for piece in cut)


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("arrow", ("gevent", "kazoo", "pandas", "numba", "cramjam", "click", "yaml", "pyspark")),
        ("rangefetcher", ("gevent", "kazoo", "pyarrow", "numpy", "numba", "cramjam", "click", "yaml", "pyspark")),
    ],
)
def test_what_a_task_imports_is_light(module: str, without: tuple[str, ...]) -> None:
    text = f"import sys, sparkpipeline.reading.{module}; print([n for n in {without!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_options_travel_small() -> None:
    import pickle

    assert len(pickle.dumps(replace(ReadOptions(), plan_time_ms=1))) < 1000


def test_batches_of_changing_ranges_and_lengths_have_the_right_constants(compiled: Kernels) -> None:
    """Columns of one value are views of what was made for another batch: of other topics, longer, shorter, longer."""
    found = columns_of(compiled, m.encode([(n, None, b"x", None) for n in range(300)]))
    options = ReadOptions(columns=("topic", "partition", "timestamp", "timestampType"))
    other = ReadOptions(columns=options.columns, timestamp_fallback="null")
    for told, before in ((options, EPOCH - timedelta(milliseconds=1)), (other, None)):
        for topic, partition, rows in [("a", 0, 2), ("a", 0, 300), ("b", 0, 7), ("b", 1, 8), ("b", 1, 3), ("a", 1, 40)]:
            one, two = OffsetRange(topic, partition, 0, 300), OffsetRange("z", 9, 0, 300)
            batch = record_batch([Piece(one, found, 0, rows, 0)], told)
            batch.validate(full=True)
            expected = {"topic": topic, "partition": partition, "timestamp": before, "timestampType": -1}
            assert batch.to_pylist() == [expected] * rows
            mixed = record_batch([Piece(one, found, 0, rows, 0), Piece(two, found, 0, 5, 0)], told)
            assert [(row["topic"], row["partition"]) for row in mixed.to_pylist()] == [
                *[(topic, partition)] * rows,
                *[("z", 9)] * 5,
            ]
