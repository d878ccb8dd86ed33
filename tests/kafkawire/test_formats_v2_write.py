"""Record batches that are written: both forms byte for byte, read back by the reader; new heads, halves, checks."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.batchseal import unsealed
from kafkawire.columns import Columns
from kafkawire.columns import Part as Stretch
from kafkawire.compression import GZIP, LZ4, SNAPPY, ZSTD
from kafkawire.errors import CorruptMessage, LocalError
from kafkawire.formats import mixed
from kafkawire.formats.compiled import Kernels, load
from kafkawire.formats.v2 import write
from kafkawire.formats.v2.layout import OVERHEAD, Batch, batch_at
from kafkawire.formats.v2.read import Record, records
from kafkawire.headers import packed
from kafkawire.kernels import cache_folder
from kafkawire.model import Part, TopicPartition
from tests.kafkawire.wire_vectors import FILE

TP = TopicPartition("t", 0)
CODECS = (0, GZIP, SNAPPY, LZ4, ZSTD)
BLOB = st.none() | st.binary(max_size=80) | st.integers(0, 20_000).map(bytes)
STAMP = st.none() | st.integers(-3, 1 << 45)
HEADERS = st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=90)), max_size=3)
ROWS = st.lists(st.tuples(BLOB, BLOB, STAMP, HEADERS), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    return load(cache_folder())


def vector(name: str) -> dict[str, Any]:
    (found,) = [row for row in json.loads(FILE.read_text())["vectors"] if row["name"] == name]
    return dict(found)


def head_of(data: bytes) -> Batch:
    found = batch_at(data, 0)
    assert found is not None
    assert found.end == len(data)
    return found


def read(data: bytes) -> list[Record]:
    return list(records(data, head_of(data)))


def lists(rows: list[Any]) -> tuple[list[Any], list[Any], list[Any], list[bytes | None]]:
    keys, values, stamps, headers = map(list, zip(*rows, strict=True))
    return keys, values, stamps, [packed(one) for one in headers]


def expected(rows: list[Any]) -> list[Record]:
    return [
        Record(n, -1 if stamp is None or stamp < 0 else stamp, key, value, tuple(headers))
        for n, (key, value, stamp, headers) in enumerate(rows)
    ]


# ---- what a producer of the JVM writes -----------------------------------------------------------------------------


def test_a_batch_is_that_of_the_originals_producer_byte_for_byte() -> None:
    theirs = bytes.fromhex(vector("produce_request_v3")["hex"])[-69:]
    assert write.encode([(0, None, b"x", 1500000000000)]) == theirs


def test_headers_null_values_and_times_that_go_back_are_those_of_the_vector() -> None:
    theirs = bytes.fromhex(vector("v2_batch_headers")["hex"])
    rows = [
        (0, None, b"no key", 1500000000000),
        (1, b"k", None, 1500000000005),
        (2, b"key", b"with headers", 1499999999997),
    ]
    made = write.encode(rows, 0, [None, None, packed([("h1", b"\1\2"), ("h2", None)])])
    # Base offset and leader epoch are written by brokers, outside of the checksum.
    assert struct.pack(">q", 3000) + made[8:12] + struct.pack(">i", 4) + made[16:] == theirs


def test_rows_at_an_offset_are_a_batch_at_that_offset() -> None:
    assert [row.offset for row in read(write.encode([(70, None, b"a", None), (71, None, b"b", None)]))] == [70, 71]


# ---- both forms ----------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(rows=ROWS, codec=st.sampled_from(CODECS))
def test_what_is_written_is_what_is_read_in_either_form(compiled: Kernels, rows: list[Any], codec: int) -> None:
    columns = lists(rows)
    plain = write.encode_lists_by(None, *columns, 0)
    assert write.encode_lists_by(compiled, *columns, 0) == plain
    data = write.encode_lists_by(None, *columns, codec)
    assert read(data) == expected(rows)
    head = head_of(data)
    times = [record.timestamp_ms for record in expected(rows)]
    assert (head.base_offset, head.leader_epoch, head.codec) == (0, -1, codec)
    assert (head.first_timestamp_ms, head.max_timestamp_ms) == (times[0], max(times))
    assert (head.count, head.last_offset_delta) == (len(rows), len(rows) - 1)
    assert (head.producer_id, head.producer_epoch, head.base_sequence) == (-1, -1, -1)


def laid(rows: list[Any], timed: bool, headed: bool) -> Columns:
    """Columns of rows, in a buffer with other bytes between what they point to."""
    data, columns = bytearray(b"~~~"), [[], [], [], [], [], []]  # type: ignore[var-annotated]
    for key, value, _, headers in rows:
        for field, (at, size) in zip((key, value, packed(headers)), ((0, 1), (2, 3), (4, 5)), strict=True):
            columns[at].append(len(data))
            columns[size].append((0 if size == 5 else -1) if field is None else len(field))
            data += (field or b"") + b"~"
    stamps = [-1 if stamp is None else stamp for _, _, stamp, _ in rows]
    return Columns(
        offsets=range(70, 70 + len(rows)),
        key_at=columns[0],
        key_size=columns[1],
        value_at=columns[2],
        value_size=columns[3],
        timestamps_ms=stamps if timed else None,
        timestamp_types=[0] * len(rows) if timed else None,
        data=bytes(data),
        resume_at=70 + len(rows),
        damage=None,
        header_at=columns[4] if headed else None,
        header_size=columns[5] if headed else None,
    )


@settings(deadline=None)
@given(rows=ROWS, data=st.data(), timed=st.booleans(), headed=st.booleans())
def test_columns_become_the_same_batch(
    compiled: Kernels, rows: list[Any], data: st.DataObject, timed: bool, headed: bool
) -> None:
    since = data.draw(st.integers(0, len(rows) - 1))
    until = data.draw(st.integers(since + 1, len(rows)))
    kept = [(key, value, stamp if timed else None, found if headed else []) for key, value, stamp, found in rows]
    columns = laid(kept, timed, headed)
    wanted = write.encode_lists_by(None, *lists(kept[since:until]))
    middle = data.draw(st.integers(since, until))
    parts = [Stretch(columns, since, middle)] if middle > since else []
    parts += [Stretch(columns, middle, until)] if middle < until else []
    assert write.encode_columns_by(compiled, parts) == wanted
    assert write.encode_columns_by(None, parts) == wanted
    assert mixed.encode_columns(parts, 0, 2) == wanted


def test_rows_of_columns_with_times_and_headers_and_without_share_a_batch(compiled: Kernels) -> None:
    rows = [(None, b"a", 50, [("h", b"1")]), (b"k", b"b", None, []), (None, None, 70, [])]
    bare, full = laid([rows[1]], False, False), laid([rows[0], rows[2]], True, True)
    parts = [Stretch(full, 0, 1), Stretch(bare, 0, 1), Stretch(full, 1, 2)]
    wanted = write.encode_lists_by(None, *lists(rows))
    assert write.encode_columns_by(compiled, parts) == wanted
    assert write.encode_columns_by(None, parts) == wanted
    assert read(wanted) == expected(rows)


def test_many_and_large_messages_are_written_alike(compiled: Kernels) -> None:
    rows = [(b"k" * (n % 9) if n % 4 else None, b"v" * (n % 200), 1500000000000 + n // 7, []) for n in range(20_000)]
    rows[77] = (b"K" * 70_000, b"V" * 3_000_000, None, [("h", b"H" * 40_000)])
    pure = write.encode_lists_by(None, *lists(rows))
    assert write.encode_lists_by(compiled, *lists(rows)) == pure
    assert write.encode_columns_by(compiled, [Stretch(laid(rows, True, True), 0, len(rows))]) == pure
    assert read(pure) == expected(rows)


def test_columns_of_older_formats_are_written_as_rows_are() -> None:
    rows = [(None, b"a", None, []), (b"k", b"b", None, [])]
    columns = laid(rows, False, False)
    for magic in (0, 1):
        made = mixed.encode_columns([Stretch(columns, 1, 2)], 0, magic)
        assert made == mixed.encode([(0, b"k", b"b", None)], 0, magic)
    with pytest.raises(LocalError, match="v0 has no headers"):
        mixed.encode_columns([Stretch(laid([(None, b"a", None, [("h", b"")])], False, True), 0, 1)], 0, 0)


def test_no_messages_are_no_batch_and_an_unknown_codec_is_named() -> None:
    assert write.encode([]) == b""
    with pytest.raises(LocalError, match="no codec 5"):
        write.encode([(0, None, b"x", None)], 5)


# ---- a batch that exists -------------------------------------------------------------------------------------------


def fetched(attributes: int = 0, base: int = 500, producer: tuple[int, int, int] = (9, 2, 41)) -> bytes:
    """A batch as a broker gives it: its offsets, the leader's epoch, a producer."""
    return written(write.encode(SOME, 0, [None, packed([("h", b"x")]), None]), attributes, base, producer)


SOME = [(0, None, b"one", 1500000000000), (1, b"k", None, 1500000000009), (2, b"", b"three" * 9, 1500000000003)]


def written(data: bytes, attributes: int, base: int, producer: tuple[int, int, int]) -> bytes:
    body = bytearray(data)
    struct.pack_into(">qhi", body, 43, *producer)
    struct.pack_into(">h", body, 21, struct.unpack_from(">h", body, 21)[0] | attributes)
    struct.pack_into(">q", body, 0, base)
    struct.pack_into(">i", body, 12, 6)
    struct.pack_into(">I", body, 17, crc32c.crc32c(bytes(body[21:])))
    return bytes(body)


def test_a_new_head_is_that_of_a_producer_and_the_records_stay() -> None:
    old = fetched(attributes=0x10 | 0x40)  # transactional, and with the mark of a cleaner
    new = b"".join(unsealed(old))
    assert new == write.encode(SOME, 0, [None, packed([("h", b"x")]), None])
    assert new[OVERHEAD:] == old[OVERHEAD:]


def test_damage_does_not_pass_to_be_covered_by_a_new_head() -> None:
    data = bytearray(fetched())
    data[-3] ^= 1
    with pytest.raises(CorruptMessage, match="wrong checksum") as caught:
        write.may_pass(bytes(data), 0, 500)
    assert caught.value.offset == 500


def test_what_brokers_refuse_or_would_change_does_not_pass() -> None:
    assert write.may_pass(fetched(), 0, 500)
    assert write.may_pass(fetched(0x10), 0, 0)
    assert not write.may_pass(fetched(), 0, 501)  # begins before the wanted offset
    assert not write.may_pass(fetched(0x08), 0, 500)  # the broker's own times
    assert not write.may_pass(fetched(0x20), 0, 500)  # the end of a transaction
    cleaned = bytearray(fetched())
    struct.pack_into(">i", cleaned, 23, 5)  # a cleaner took records out
    assert not write.may_pass(bytes(cleaned), 0, 500)


def test_batches_are_counted_and_checked() -> None:
    data = fetched() + write.encode(SOME[:2], LZ4)
    assert mixed.count(data) == 5
    assert mixed.check(data) is None
    damaged = bytearray(data)
    damaged[len(fetched()) + 70] ^= 4
    damage = mixed.check(bytes(damaged))
    assert damage is not None
    assert (damage.position, damage.why) == (len(fetched()), "wrong checksum")
    cut = mixed.check(data[:-3])
    assert cut is not None
    assert cut.position == len(fetched())


@pytest.mark.parametrize("codec", CODECS)
def test_halves_of_a_fetched_batch_keep_their_offsets(codec: int) -> None:
    """They are what the position is told after a batch that was too large."""
    data = written(write.encode(SOME, codec), 0, 500, (-1, -1, -1))
    left, found = [Part(TP, memoryview(data), 2, codec, 3, resume_at=503)], []
    while left:
        halves = mixed.split(left.pop(0))
        found, left = (found + halves, left) if len(halves) == 1 else (found, halves + left)
    assert [one.resume_at for one in found] == [501, 502, 503]
    assert [head_of(bytes(one.entries)).base_offset for one in found] == [500, 501, 502]


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_is_split_into_halves_until_each_is_one_record(codec: int) -> None:
    rows = [(n, b"k%d" % n, b"v" * 50 * n, 1500000000000 - n) for n in range(7)]
    headers = [packed([("n", b"%d" % n)]) if n % 2 else None for n in range(7)]
    part = Part(TP, write.encode(rows, codec, headers), 2, codec, 7, resume_at=7, counted=False)
    left, found = [part], []
    while left:
        halves = mixed.split(left.pop(0))
        if len(halves) == 1:
            found += halves
        else:
            assert sum(half.count for half in halves) == halves[0].count + halves[1].count
            left = halves + left
    assert [one.resume_at for one in found] == list(range(1, 8))
    for n, one in enumerate(found):
        (record,) = read(bytes(one.entries))
        wanted = () if headers[n] is None else (("n", b"%d" % n),)
        assert record == Record(n, 1500000000000 - n, b"k%d" % n, b"v" * 50 * n, wanted)
        assert head_of(bytes(one.entries)).codec == codec


def test_halves_of_a_part_without_source_offsets_have_none() -> None:
    part = Part(TP, fetched(), 2, 0, 3, None)
    assert [(half.count, half.resume_at) for half in mixed.split(part)] == [(2, None), (1, None)]


def test_a_batch_that_cannot_be_read_is_not_split() -> None:
    whole = write.encode(SOME, GZIP)
    data = bytearray(whole)
    data[-9:] = b"\xff" * 9
    with pytest.raises(CorruptMessage, match="wrong checksum"):
        mixed.split(replace(Part(TP, whole, 2, GZIP, 3), entries=bytes(data)))
