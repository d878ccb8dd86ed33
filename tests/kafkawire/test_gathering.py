"""Keys and values side by side: both forms are what the columns say, on any rows of any sets."""

from __future__ import annotations

import struct
import zlib
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire import columns
from kafkawire.columns import Checksums, Columns, Field, Gathered, Part, ascending, checksums_by, gather_by
from kafkawire.errors import LocalError
from kafkawire.formats.compiled import Kernels, load
from kafkawire.formats.v01.columns import index_by
from kafkawire.formats.v01.messages import Row, encode, message_set
from kafkawire.kernels import cache_folder
from kafkawire.protocol.buffers import Buffers

Blob = bytes | None


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    return load(cache_folder())


def columns_of(kernels: Kernels | None, rows: list[Row], codec: int = 0, magic: int = 0) -> Columns:
    return index_by(kernels, message_set("t", 0, 0, memoryview(encode(rows, codec, magic)), -1)[0])


def there(validity: bytes | memoryview | bytearray | None, row: int) -> bool:
    return validity is None or bool(bytes(validity)[row >> 3] >> (row & 7) & 1)


def items(found: Gathered) -> list[Blob]:
    ends = array("i", bytes(found.ends))
    data = bytes(found.data)
    rows = range(len(ends) - 1)
    cut: list[Blob] = [data[ends[n] : ends[n + 1]] if there(found.validity, n) else None for n in rows]
    assert cut.count(None) == found.nulls
    assert (found.nulls > 0) == (found.validity is not None)
    assert (ends[0], ends[-1]) == (0, len(data))
    return cut


def sums(found: Checksums) -> list[int | None]:
    numbers = array("q", bytes(found.numbers))
    return [number if there(found.validity, n) else None for n, number in enumerate(numbers)]


blobs = st.none() | st.binary(max_size=20)


@settings(max_examples=150, deadline=None)
@given(
    sets=st.lists(
        st.tuples(
            st.lists(st.tuples(blobs, blobs), max_size=20),
            st.sampled_from([0, 1]),
            st.sampled_from([0, 1]),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    ),
    cut=st.integers(0, 8),
    shorter=st.integers(0, 8),
)
def test_both_forms_put_the_same_rows_side_by_side(
    sets: list[tuple[list[tuple[Blob, Blob]], int, int, bool]], cut: int, shorter: int, compiled: Kernels
) -> None:
    parts, keys, values = [], [], []
    for rows, codec, magic, by_kernels in sets:
        written: list[Row] = [(n, key, value, n) for n, (key, value) in enumerate(rows)]
        found = columns_of(compiled if by_kernels else None, written, codec, magic)
        since = min(cut, len(found))
        until = max(since, len(found) - shorter)
        parts.append(Part(found, since, until))
        keys += [key for key, _ in rows[since:until]]
        values += [value for _, value in rows[since:until]]
    for kernels in (None, compiled):
        assert items(gather_by(kernels, parts, Field.KEY)) == keys
        assert items(gather_by(kernels, parts, Field.VALUE)) == values
        found_sums = sums(checksums_by(kernels, parts))
        assert found_sums == [None if value is None else zlib.crc32(value) for value in values]


@pytest.mark.parametrize("value", [b"of one size", b"", None])
def test_many_that_are_alike_are_put_side_by_side(value: Blob, compiled: Kernels) -> None:
    rows: list[Row] = [(n, b"%04d" % n, value, 0) for n in range(1000)]
    for kernels in (None, compiled):
        part = Part(columns_of(kernels, rows), 3, 900)
        assert items(gather_by(kernels, [part], Field.KEY)) == [b"%04d" % n for n in range(3, 900)]
        assert items(gather_by(kernels, [part], Field.VALUE)) == [value] * 897


def test_the_room_given_is_what_is_filled_and_is_taken_again(compiled: Kernels) -> None:
    room = Buffers()
    found = columns_of(compiled, [(0, None, b"x" * (200 << 10), 0)])
    first = gather_by(compiled, [Part(found, 0, 1)], Field.VALUE, room.take)
    assert items(first) == [b"x" * (200 << 10)]
    held = first.data
    assert isinstance(held, memoryview)
    second = gather_by(compiled, [Part(found, 0, 1)], Field.VALUE, room.take)
    assert isinstance(second.data, memoryview)
    assert second.data.obj is not held.obj, "what somebody looks at was given to another"
    assert len(room._kept) == 2


def test_more_than_an_array_can_hold_is_refused_before_anything_is_copied(
    compiled: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "MOST_BYTES", 99)
    for kernels in (None, compiled):
        fits, more = (columns_of(kernels, [(n, None, b"v" * size, 0) for n in range(3)]) for size in (33, 34))
        assert len(gather_by(kernels, [Part(fits, 0, 3)], Field.VALUE).data) == 99
        with pytest.raises(LocalError, match="102 bytes of keys or values do not fit"):
            gather_by(kernels, [Part(more, 0, 3)], Field.VALUE)


def test_offsets_that_go_back_are_seen(compiled: Kernels) -> None:
    data = encode([(n, None, b"v", 0) for n in range(20)])
    back = bytearray(data)
    struct.pack_into(">q", back, 10 * 27, 3)  # what no checksum covers
    for kernels in (None, compiled):
        found = index_by(kernels, message_set("t", 0, 0, memoryview(back), -1)[0])
        assert ascending(Part(found, 0, 10))
        assert not ascending(Part(found, 0, 20))
        assert not ascending(Part(found, 9, 11))
        assert ascending(Part(found, 10, 20))
        assert ascending(Part(found, 5, 5))
