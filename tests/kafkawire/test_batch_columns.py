"""Columns and messages of record batches: both forms against records one by one, on whole, cut and damaged sets."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.columns import Columns
from kafkawire.errors import CorruptMessage
from kafkawire.formats import mixed
from kafkawire.formats.compiled import Kernels, load
from kafkawire.formats.layouts import OpenBudget
from kafkawire.formats.mixed import message_set
from kafkawire.formats.v2 import columns as batches
from kafkawire.formats.v2.layout import LOG_APPEND_TIME, OVERHEAD, batch_at
from kafkawire.formats.v2.read import Record, records
from kafkawire.headers import NO_HEADERS, packed, unpacked
from kafkawire.kernels import _CHOICE, cache_folder
from kafkawire.model import MessageSet
from tests.kafkawire.recordbatches import batch, number, record, rows_of, sealed

Rows = list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    return load(cache_folder())


def set_of(data: bytes, start: int = 0) -> MessageSet:
    return message_set("t", 0, start, memoryview(data), 1 << 40)[0]


def one_by_one(whole: MessageSet) -> Rows:
    """By the reader of single records, up to where a record is damaged."""
    found: Rows = []
    try:
        for run in whole.runs:
            head = batch_at(whole.buffer, run.begin)
            assert head is not None
            found += [
                (row.offset, row.timestamp_ms, row.key, row.value, row.headers)
                for row in records(whole.buffer, head)
                if row.offset >= whole.start
            ]
    except CorruptMessage:
        pass
    return found


def by_columns(found: Columns) -> Rows:
    blocks = found.headers() or [None] * len(found)
    headers = [unpacked(block) for block in blocks]
    assert found.timestamps_ms is not None
    return list(zip(found.offsets, found.timestamps_ms, found.keys(), found.values(), headers, strict=True))


def agree(kernels: Kernels, data: bytes, start: int = 0) -> Columns:
    """messages(), the pure and the compiled form say the same of a set; the pure form's columns."""
    whole = set_of(data, start)
    for check in (True, False):
        pure, quick = (batches.index_by(form, whole, check) for form in (None, kernels))
        for name in (
            "offsets", "key_at", "key_size", "value_at", "value_size", "timestamps_ms", "timestamp_types",
            "header_at", "header_size",
        ):  # fmt: skip
            one, other = getattr(pure, name), getattr(quick, name)
            assert (one is None) == (other is None), name
            assert one is None or list(one) == list(other), name
        assert (bytes(pure.data), pure.resume_at, str(pure.damage)) == (
            bytes(quick.data),
            quick.resume_at,
            str(quick.damage),
        )
        rows, reached = by_columns(pure), pure.offsets[-1] + 1 if pure.offsets else start
        assert pure.resume_at == (whole.resume_at if pure.damage is None else reached)
        for form in (None, kernels):
            said: Rows = []
            damage = None
            before, _CHOICE.kernels = _CHOICE.kernels, form
            try:
                for message in whole.messages(check):
                    assert (message.resume_at, message.topic, message.partition) == (message.offset + 1, "t", 0)
                    assert message.timestamp_ms is not None
                    assert message.headers is not None
                    said.append((message.offset, message.timestamp_ms, message.key, message.value, message.headers))
            except CorruptMessage as exc:
                damage = exc
            finally:
                _CHOICE.kernels = before
            assert (said, str(damage)) == (rows, str(pure.damage))
            for most in (1, 300):
                parts = list(batches.pieces_by(form, whole, check, most))
                assert [row for part in parts for row in by_columns(part)] == rows
                assert str(parts[-1].damage) == str(pure.damage)
                ends = [part.resume_at for part in parts]
                assert ends == sorted(ends)
                assert pure.damage is not None or ends[-1] == whole.resume_at
    return batches.index_by(None, whole)


ROWS = [
    Record(70, 1500000000000, None, b"no key", ()),
    Record(71, 1499999999990, b"k", None, (("h", b"\x00\xff"), ("h", None), ("é", b""))),
    Record(74, 1500000000007, b"", b"v" * 300, ()),
    Record(75, -1, b"key" * 50, b"", (("a" * 70, b"b" * 200),) * 3),
]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("stamped", [0, LOG_APPEND_TIME])
@pytest.mark.parametrize("start", [0, 71, 72, 75, 76])
def test_columns_of_each_codec_and_both_types_of_timestamps_are_what_was_written(
    codec: int, stamped: int, start: int, compiled: Kernels
) -> None:
    data = batch(ROWS, codec | stamped, last=80) + batch(rows_of(81, 20), codec)
    found = agree(compiled, data, start)
    assert found.damage is None
    assert found.resume_at == 101
    rows = by_columns(found)
    assert rows == one_by_one(set_of(data, start))
    assert [row[0] for row in rows] == [n for n in [70, 71, 74, 75, *range(81, 101)] if n >= start]
    assert found.timestamp_types == [int(bool(stamped))] * (len(rows) - 20) + [0] * 20


def test_blocks_of_headers_are_the_bytes_that_stand_there(compiled: Kernels) -> None:
    for form in (None, compiled):
        found = batches.index_by(form, set_of(batch(ROWS)))
        assert found.headers() == [None, packed(ROWS[1].headers), None, packed(ROWS[3].headers)]
        assert batches.index_by(form, set_of(batch(rows_of(0, 5)))).headers() is None
        assert NO_HEADERS not in (found.headers() or ())


def test_neighbours_without_a_codec_are_not_copied() -> None:
    data = memoryview(bytearray(b"".join(batch(rows_of(n, 10)) for n in range(0, 1000, 10))))
    found = list(batches.layouts(message_set("t", 0, 0, data, 1000)[0], True, OpenBudget(1 << 20), 1 << 30))
    assert len(found) == 1
    assert len(found[0].pieces) == 1
    assert found[0].data() is found[0].pieces[0]
    assert found[0].size == len(data)
    assert len(found[0].segments) == 100


NAME = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
HEADER = st.tuples(NAME, st.none() | st.binary(max_size=70))


@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.binary(max_size=90),
            st.none() | st.binary(max_size=200),
            st.integers(-1, 1 << 45),
            st.integers(1, 300),
            st.lists(HEADER, max_size=2),
        ),
        max_size=40,
    ),
    first=st.integers(0, 1 << 40),
    skipped=st.integers(0, 400),
    cut=st.integers(0, 80),
    kinds=st.lists(st.sampled_from([0, 1, 2, 3, 4, LOG_APPEND_TIME, LOG_APPEND_TIME | 1]), min_size=1, max_size=4),
)
def test_whole_and_cut_sets_of_any_start_are_told_alike(
    rows: list[tuple[bytes | None, bytes | None, int, int, list[tuple[str, bytes | None]]]],
    first: int,
    skipped: int,
    cut: int,
    kinds: list[int],
    compiled: Kernels,
) -> None:
    written, offset = [], first
    for key, value, stamp, gap, headers in rows:
        written.append(Record(offset, stamp, key, value, tuple(headers)))
        offset += gap
    step = max(1, len(written) // len(kinds))
    groups = [written[at : at + step] for at in range(0, len(written), step)]
    data = b"".join(batch(group, kinds[n % len(kinds)]) for n, group in enumerate(groups))
    found = agree(compiled, data[: max(0, len(data) - cut)], first + skipped)
    assert found.damage is None
    assert by_columns(found) == one_by_one(set_of(data[: max(0, len(data) - cut)], first + skipped))


MAGIC_AT = 16  # of a batch and of an entry alike
SEEDS = [batch(ROWS), batch(rows_of(0, 9)), batch(rows_of(3, 3, b"x" * 200)), batch(ROWS, 1), batch(rows_of(0, 300))]


@settings(max_examples=600, deadline=None)
@given(
    seed=st.sampled_from(SEEDS),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
    inside=st.booleans(),
    repair=st.booleans(),
    start=st.sampled_from([0, 3, 71, 75]),
)
def test_damaged_batches_are_told_alike(
    seed: bytes, flips: list[tuple[int, int]], inside: bool, repair: bool, start: int, compiled: Kernels
) -> None:
    data = bytearray(seed)
    for at, byte in flips:  # mostly in the records: what is in front of them is mostly found by a look at the head
        begin = OVERHEAD if inside else 0
        data[begin + at % (len(data) - begin)] = byte
    data[MAGIC_AT] = max(2, data[MAGIC_AT])  # an entry that says it is of an older format is for its own reader
    (base,) = struct.unpack_from(">q", seed)
    whole = sealed(base, bytes(data[21:])) if repair else bytes(data)
    agree(compiled, whole + batch(rows_of(1000, 3)), start)


def with_records(body: bytes, count: int = 1, last: int = 5, first_ms: int = 1000) -> bytes:
    head = struct.pack(">hiqqqhii", 0, last, first_ms, first_ms, -1, -1, -1, count)
    return sealed(0, head + body)


def sized(body: bytes) -> bytes:
    return number(len(body)) + body


GOOD = record(Record(0, 1000, b"k", b"v", ()), 0, 1000)
FIELDS = b"\0" + number(0) + number(1)
BAD = {
    "a length of nothing": number(0) + bytes(8),
    "a negative length": number(-5) + bytes(8),
    "a length beyond the batch": number(500) + FIELDS + number(-1) + number(-1) + number(0),
    "a number that does not end": b"\xff" * 12,
    "a key beyond the record": sized(FIELDS + number(50) + b"k" + number(-1) + number(0)) + bytes(50),
    "a value beyond the record": sized(FIELDS + number(-1) + number(9) + b"v" + number(0)) + bytes(50),
    "a negative count of headers": sized(FIELDS + number(-1) + number(-1) + number(-1)),
    "headers that are not there": sized(FIELDS + number(-1) + number(-1) + number(3) + number(1)),
    "a header without a name": sized(FIELDS + number(-1) + number(-1) + number(1) + number(-1) + number(-1)),
    "a header's value beyond the record": sized(FIELDS + number(-1) + number(-1) + number(1) + number(0) + number(7)),
    "fields that end too early": sized(FIELDS + number(-1) + number(-1) + number(0) + b"\0"),
    "an offset that goes back": sized(b"\0" + number(0) + number(0) + number(-1) + number(-1) + number(0)),
    "an offset behind the last": sized(b"\0" + number(0) + number(6) + number(-1) + number(-1) + number(0)),
    "a timestamp of no 64 bits": sized(b"\0" + number((1 << 63) - 1) + number(1) + number(-1) * 2 + number(0)),
    "an offset of ten bytes": sized(b"\0" + number(0) + b"\x82" + b"\x80" * 8 + b"\x7e" + number(-1) * 2 + number(0)),
}


@pytest.mark.parametrize("name", BAD)
def test_a_record_that_makes_no_sense_is_damage_behind_the_one_before_it(name: str, compiled: Kernels) -> None:
    found = agree(compiled, with_records(GOOD + BAD[name], count=2) + batch(rows_of(10, 2)))
    if name == "an offset of ten bytes":  # of which only one bit of the last counts: offset 1
        assert list(found.offsets) == [0, 1, 10, 11]
        return
    assert list(found.offsets) == [0]
    assert found.damage is not None
    assert (found.damage.position, found.damage.offset, found.resume_at) == (0, 0, 1)
    assert "inside the batch, the record at byte" in found.damage.why


@pytest.mark.parametrize("count", [-1, 0, 1, 2, 9, (1 << 31) - 1])
def test_a_count_that_is_wrong_is_damage_and_makes_nothing_large(count: int, compiled: Kernels) -> None:
    data = with_records(GOOD + sized(FIELDS + number(-1) + number(-1) + number(0)), count)
    found = agree(compiled, data)
    assert len(found) == (0 if count < 0 or count > 2 else count)
    assert (found.damage is None) == (count in (-1, 0, 2))


def test_a_wrong_checksum_is_damage_of_the_whole_batch_and_may_be_left_unread(compiled: Kernels) -> None:
    good, bad = batch(rows_of(0, 3)), bytearray(batch(rows_of(3, 3)))
    bad[-3] ^= 1
    found = agree(compiled, good + bytes(bad) + batch(rows_of(6, 3)))
    assert (list(found.offsets), found.resume_at) == ([0, 1, 2], 3)
    assert found.damage is not None
    assert (found.damage.why, found.damage.position, found.damage.offset) == ("wrong checksum", len(good), 3)
    assert len(batches.index_by(None, set_of(good + bytes(bad)), check_crcs=False)) == 6


def test_a_batch_that_opens_to_too_much_is_damage() -> None:
    whole = set_of(batch(rows_of(0, 3, bytes(10_000)), 1))
    found = batches.index(whole, limit=20_000)
    assert found.damage is not None
    assert "more than the limit of 20000 bytes" in found.damage.why
    assert len(batches.index(whole, limit=40_000)) == 3


def test_a_header_whose_name_is_no_utf8_does_not_keep_a_message_away() -> None:
    block = number(1) + number(2) + b"\xffa" + number(1) + b"v"
    body = b"\0" + number(0) + number(0) + number(-1) + number(1) + b"x" + block
    (message,) = set_of(with_records(sized(body))).messages()
    assert message.headers == (("�a", b"v"),)
    found = mixed.batches.READER.index(set_of(with_records(sized(body))), True)
    assert found.headers() == [block]  # what travels on is as it came
