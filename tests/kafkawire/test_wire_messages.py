"""Message sets of formats v0 and v1: scanning, reading, writing, checking, splitting."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire import compression
from kafkawire.errors import CorruptMessage, LocalError, UnknownMagic
from kafkawire.formats.v01 import messages as m
from kafkawire.formats.v01.messages import LOWEST, Row, encode, message_set, scan, split
from kafkawire.model import Message, MessageSet, Part, Run, TopicPartition
from tests.kafkawire.wire_vectors import named

TP = TopicPartition("t", 0)
CODECS = [0, 1, 2, 3]


def entry(offset: int, value: bytes | None, key: bytes | None = None, magic: int = 0, attributes: int = 0) -> bytes:
    """One entry, packed by hand."""
    body = struct.pack(">BB", magic, attributes) + (struct.pack(">q", 1000 + offset) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapped(offset: int, inner: bytes, codec: int = 1, magic: int = 0, bits: int = 0) -> bytes:
    return entry(offset, compression.compress(codec, inner, magic), magic=magic, attributes=codec | bits)


def read(data: bytes, start: int = LOWEST, check_crcs: bool = True) -> list[Message]:
    fetched, _ = message_set("t", 0, start, memoryview(data), -1)
    return list(fetched.messages(check_crcs))


def brief(found: list[Message]) -> list[tuple[int, bytes | None]]:
    return [(message.offset, message.value) for message in found]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


# ---- scan ------------------------------------------------------------------------------------------------------


def test_plain_neighbours_of_one_format_are_one_run_and_a_wrapper_is_one_alone() -> None:
    pieces = [entry(1, b"a"), entry(2, b"bb"), wrapped(5, entry(5, b"c")), wrapped(6, entry(6, b"d"), 2)]
    pieces += [entry(7, b"e"), entry(8, b"f", magic=1), entry(9, b"g", magic=1, attributes=8), entry(10, b"h")]
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    found = scan(memoryview(b"".join(pieces)), 1)
    assert found.runs == (
        Run(0, ends[2], 0, 0, 2, 3),
        Run(ends[2], ends[3], 1, 0, 1, 6),
        Run(ends[3], ends[4], 2, 0, 1, 7),
        Run(ends[4], ends[5], 0, 0, 1, 8),
        Run(ends[5], ends[7], 0, 1, 2, 10),
        Run(ends[7], ends[8], 0, 0, 1, 11),
    )
    assert (found.end, found.resume_at, found.needed, found.damage) == (ends[8], 11, 0, None)


def test_entries_that_end_before_start_are_in_no_run() -> None:
    pieces = [entry(1, b"a"), wrapped(3, entry(3, b"b")), wrapped(6, entry(4, b"c") + entry(6, b"d")), entry(7, b"e")]
    found = scan(memoryview(b"".join(pieces)), 5)
    assert [(run.codec, run.resume_at) for run in found.runs] == [(1, 7), (0, 8)]
    assert brief(read(b"".join(pieces), 5)) == [(6, b"d"), (7, b"e")]
    old = scan(memoryview(pieces[0]), 9)
    assert (old.runs, old.end, old.resume_at) == ((), len(pieces[0]), 9)


def test_what_a_cut_first_wanted_entry_needs_counts_what_is_before_it() -> None:
    old, wanted = entry(1, b"a"), entry(5, b"wanted")
    for cut in range(len(old) + 12, len(old) + len(wanted)):
        found = scan(memoryview((old + wanted)[:cut]), 5)
        assert (found.runs, found.resume_at, found.needed) == ((), 5, len(old) + len(wanted))
    assert scan(memoryview(old), 5).needed == 0
    assert scan(memoryview(struct.pack(">qi", 5, 3) + bytes(20)), 5).needed == 0


def test_an_empty_buffer_needs_nothing_and_moves_nothing() -> None:
    assert scan(memoryview(b""), 7) == m.Scan(0, 7, (), 0, None)


def test_a_size_below_the_smallest_is_damage_where_it_stands() -> None:
    good = entry(4, b"good")
    for size in (13, 0, -1, -(1 << 31)):
        for rest in (14, 2, 0):
            found = scan(memoryview(good + struct.pack(">qi", 5, size) + bytes(rest)), 4)
            assert (found.end, found.resume_at, len(found.runs)) == (len(good), 5, 1)
            assert isinstance(found.damage, CorruptMessage)
            assert (found.damage.position, found.damage.offset) == (len(good), 5)
    short = struct.pack(">qiIBB", 5, 21, 0, 1, 0) + bytes(15)
    assert isinstance(scan(memoryview(short), 0).damage, CorruptMessage)


def test_an_unknown_format_is_an_error_of_its_own() -> None:
    good = entry(4, b"good")
    found = scan(memoryview(good + entry(5, b"new", magic=2)), 4)
    assert isinstance(found.damage, UnknownMagic)
    assert "unknown message format v2" in str(found.damage)
    assert (found.end, found.damage.position, found.damage.offset) == (len(good), len(good), 5)


@settings(max_examples=80, deadline=None)
@given(sizes=st.lists(st.integers(0, 40), max_size=12), cut=st.integers(0, 50), start=st.integers(0, 12))
def test_scan_equals_the_dumb_twin(sizes: list[int], cut: int, start: int) -> None:
    pieces = [entry(number, b"x" * size, magic=size % 2) for number, size in enumerate(sizes)]
    data = b"".join(pieces)
    data = data[: max(0, len(data) - cut)]
    ends, at = [], 0
    for piece in pieces:
        at += len(piece)
        ends.append(at)
    complete = sum(end <= len(data) for end in ends)
    found = scan(memoryview(data), start)
    assert found.end == (ends[complete - 1] if complete else 0)
    assert found.resume_at == max(start, complete)
    assert sum(run.entries for run in found.runs) == max(0, complete - start)
    assert found.damage is None


# ---- messages --------------------------------------------------------------------------------------------------


def test_a_message_has_what_its_format_has() -> None:
    (v0,) = read(entry(7, b"value", b"key"))
    assert v0 == Message("t", 0, 7, b"key", b"value", None, None, None, 8)
    (v1,) = read(entry(7, None, b"", magic=1))
    assert v1 == Message("t", 0, 7, b"", None, 1007, 0, None, 8)
    (stamped,) = read(entry(7, b"", None, magic=1, attributes=8))
    assert stamped == Message("t", 0, 7, None, b"", 1007, 1, None, 8)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.tuples(st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=99)), max_size=20),
    first=st.integers(0, 1 << 40),
)
def test_what_is_encoded_is_read(
    magic: int, codec: int, rows: list[tuple[bytes | None, bytes | None]], first: int
) -> None:
    given_rows: list[Row] = [(first + n, key, value, 10_000 + n) for n, (key, value) in enumerate(rows)]
    data = encode(iter(given_rows), codec, magic)
    assert m.check(data) is None
    stamps = [stamp if magic else None for *_, stamp in given_rows]
    got = read(data)
    assert [(x.offset, x.key, x.value) for x in got] == [row[:3] for row in given_rows]
    assert [x.timestamp_ms for x in got] == stamps
    assert [x.resume_at for x in got] == [offset + 1 for offset, *_ in given_rows]


def test_nothing_encodes_to_nothing() -> None:
    assert [encode([], codec, magic) for codec in CODECS for magic in (0, 1)] == [b""] * 8


def test_a_missing_timestamp_is_minus_one() -> None:
    rows: list[Row] = [(0, None, b"a", None), (1, None, b"b", -5), (2, None, b"c", 7)]
    assert [x.timestamp_ms for x in read(encode(rows, 0, 1))] == [-1, -1, 7]
    data = encode(rows, 1, 1)
    assert m.wrapper(data, 0, len(data)).timestamp == 7


def test_a_v1_wrapper_is_written_with_inner_offsets_from_0_by_one() -> None:
    data = encode([(n, None, b"x", 1) for n in (5, 9, 12)], 1, 1)
    outer = m.wrapper(data, 0, len(data))
    inner = compression.decompress(1, outer.value, 10_000)
    found = scan(inner, 0)
    assert outer.offset == 12
    assert [struct.unpack_from(">q", inner, at)[0] for at in range(0, found.end, len(inner) // 3)] == [0, 1, 2]


def test_a_v0_wrapper_keeps_the_offsets_as_given() -> None:
    data = encode([(n, None, b"x", None) for n in (5, 9, 12)], 2)
    assert [x.offset for x in read(data)] == [5, 9, 12]


def test_relative_offsets_with_holes_are_counted_back_from_the_wrapper() -> None:
    inner = entry(0, b"a", magic=1) + entry(4, b"b", magic=1) + entry(7, b"c", magic=1)
    assert brief(read(wrapped(1007, inner, magic=1))) == [(1000, b"a"), (1004, b"b"), (1007, b"c")]
    absolute = entry(1000, b"a", magic=1) + entry(1007, b"c", magic=1)
    assert brief(read(wrapped(1007, absolute, magic=1))) == [(1000, b"a"), (1007, b"c")]


def test_the_brokers_stamp_on_a_wrapper_replaces_all_inner_times() -> None:
    inner = entry(0, b"a", magic=1) + entry(1, b"b", magic=1)
    created = read(wrapped(5, inner, magic=1))
    appended = read(wrapped(5, inner, magic=1, bits=m.LOG_APPEND_TIME))
    assert [(x.timestamp_ms, x.timestamp_type) for x in created] == [(1000, 0), (1001, 0)]
    assert [(x.timestamp_ms, x.timestamp_type) for x in appended] == [(1005, 1), (1005, 1)]


def test_a_wrapper_without_messages_moves_past_itself() -> None:
    fetched, found = message_set("t", 0, 3, memoryview(wrapped(5, b"")), -1)
    assert list(fetched.messages()) == []
    assert (fetched.resume_at, found.damage) == (6, None)


def test_wrappers_in_wrappers_are_read_to_a_fixed_depth() -> None:
    data = entry(9, b"deep")
    for depth in range(1, 7):
        data = wrapped(9, data, codec=1 + depth % 3)
        if depth <= m.MAX_DEPTH:
            assert brief(read(data)) == [(9, b"deep")]
        else:
            with pytest.raises(CorruptMessage, match="nested deeper than 4"):
                read(data)


def test_nested_messages_with_offsets_of_their_own_keep_them() -> None:
    nested = wrapped(11, entry(10, b"b") + entry(11, b"c"))
    outer = wrapped(12, entry(9, b"a") + nested + entry(12, b"d"))
    assert brief(read(outer, 10)) == [(10, b"b"), (11, b"c"), (12, b"d")]


def test_a_nested_wrapper_the_broker_did_not_number_inside_loses_nothing_at_a_restart() -> None:
    nested = wrapped(10, entry(0, b"x") + entry(1, b"y") + entry(2, b"z"))
    outer = wrapped(11, entry(9, b"a") + nested + entry(11, b"b"))
    got = read(outer, 0)
    assert brief(got) == [(9, b"a"), (10, b"x"), (10, b"y"), (10, b"z"), (11, b"b")]
    assert [x.resume_at for x in got] == [10, 10, 10, 11, 12]
    for done in range(len(got)):
        again = brief(read(outer, got[done].resume_at))
        assert again[len(again) - len(got) + done + 1 :] == brief(got)[done + 1 :]
        assert len(again) >= len(got) - done - 1


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("offsets", [(4, 1 << 36, 6), (4, 4, 5), (5, 4, 6)])
def test_offsets_that_do_not_ascend_in_a_wrapper_are_damage(magic: int, offsets: tuple[int, ...]) -> None:
    """Under a right checksum: to count one as done would jump over messages, or come back to them for ever."""
    damaged = wrapped(offsets[-1], b"".join(entry(at, b"%d" % at, magic=magic) for at in offsets), magic=magic)
    fetched, _ = message_set("t", 0, 0, memoryview(damaged + entry(9, b"after")), -1)
    with pytest.raises(CorruptMessage, match=r"inside the wrapper, .*offsets that do not ascend") as caught:
        list(fetched.messages())
    assert (caught.value.position, caught.value.offset) == (0, offsets[-1])
    columns = fetched.index()
    assert (len(columns), str(columns.damage)) == (0, str(caught.value))


def test_an_offset_in_a_wrapper_behind_its_own_is_damage() -> None:
    with pytest.raises(CorruptMessage, match="offsets that do not ascend to that of the wrapper, 5"):
        read(wrapped(5, entry(4, b"a") + entry(6, b"b")))


def test_an_inner_format_that_is_not_the_wrappers_is_refused() -> None:
    with pytest.raises(UnknownMagic, match="format v1 in a wrapper of format v0"):
        read(wrapped(5, entry(4, b"a") + entry(5, b"b", magic=1)))


def test_an_inner_set_that_is_cut_is_corrupt() -> None:
    inner = entry(4, b"a") + entry(5, b"b")
    with pytest.raises(CorruptMessage, match="inside the wrapper, entry at byte 27: truncated 26 bytes after"):
        read(wrapped(5, inner[:-1]))


def test_damage_is_met_when_it_is_reached_and_says_where() -> None:
    first, second = entry(4, b"good"), flipped(entry(5, b"bad"), 28)
    fetched, _ = message_set("t", 0, 4, memoryview(first + second + entry(6, b"after")), -1)
    reading = fetched.messages()
    assert next(reading).value == b"good"
    with pytest.raises(CorruptMessage, match=r"entry at byte 30 \(offset 5\): crc mismatch, stored") as caught:
        next(reading)
    assert (caught.value.position, caught.value.offset) == (30, 5)


def test_damage_before_the_wanted_start_is_not_looked_at() -> None:
    inner = flipped(entry(4, b"bad"), 28) + entry(5, b"good")
    assert brief(read(wrapped(5, inner), 5)) == [(5, b"good")]
    with pytest.raises(CorruptMessage):
        read(wrapped(5, inner), 4)


def test_checks_of_checksums_can_be_left_out() -> None:
    data = flipped(entry(5, b"bad"), 28)
    assert len(read(data, check_crcs=False)) == 1
    inner = wrapped(5, data)
    assert len(read(inner, check_crcs=False)) == 1
    with pytest.raises(CorruptMessage, match=r"entry at byte 0 \(offset 5\): inside the wrapper.*crc mismatch"):
        read(inner)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    ("key_size", "value_size"), [(-2, 3), (1000, 3), (-1, 4), (-1, 2), (-1, -2), (1, -1), (0, 900)]
)
def test_lengths_that_do_not_add_up_are_corrupt_though_the_checksum_is_right(
    magic: int, key_size: int, value_size: int
) -> None:
    key = b"k" * max(0, min(key_size, 3))
    body = struct.pack(">BB", magic, 0) + bytes(8 * magic)
    body += struct.pack(">i", key_size) + key + struct.pack(">i", value_size) + b"abc"
    data = struct.pack(">qiI", 5, len(body) + 4, zlib.crc32(body)) + body
    with pytest.raises(CorruptMessage):
        read(data)
    body = bytes([magic, 1]) + body[2:]
    packed = struct.pack(">qiI", 5, len(body) + 4, zlib.crc32(body)) + body
    with pytest.raises(CorruptMessage):
        read(packed)


def test_a_wrapper_that_opens_to_too_much_is_refused() -> None:
    data = wrapped(5, entry(5, bytes(1 << 20)))
    fetched, _ = message_set("t", 0, 0, memoryview(data), -1)
    with pytest.raises(
        CorruptMessage, match=r"entry at byte 0 \(offset 5\): gzip data decompresses to more than the limit of 1000"
    ):
        list(m.messages(fetched, limit=1000))


def test_wrappers_side_by_side_in_a_wrapper_share_one_limit() -> None:
    many = b"".join(wrapped(number, entry(number, bytes(1000))) for number in range(50))
    fetched, _ = message_set("t", 0, 0, memoryview(wrapped(49, many)), -1)
    assert len(list(m.messages(fetched, limit=100_000))) == 50
    with pytest.raises(CorruptMessage, match="more than the limit of"):
        list(m.messages(fetched, limit=20_000))


def test_an_unknown_codec_is_corrupt_for_a_reader_and_our_fault_for_a_writer() -> None:
    with pytest.raises(CorruptMessage, match="unknown codec 4"):
        read(entry(5, b"abc", attributes=4))
    with pytest.raises(LocalError, match="has no codec 4"):
        encode([(0, None, b"a", None)], 4)
    with pytest.raises(LocalError, match="message format v2 is not written"):
        encode([(0, None, b"a", None)], 0, 2)
    with pytest.raises(LocalError, match="does not fit format v0"):
        encode([(1 << 63, None, b"a", None)])


def test_a_set_is_a_view_on_its_buffer_and_is_written_to_be_read() -> None:
    data = bytearray(entry(5, b"a") + entry(6, b"b")[:-1])
    fetched, found = message_set("orders", 3, 5, memoryview(data), 99)
    assert fetched.buffer.obj is data
    assert repr(fetched) == "<MessageSet orders/3 5..6, 27 bytes>"
    assert (fetched.entries, fetched.format, fetched.codecs, found.end) == (1, 0, frozenset({0}), 27)


# ---- strangers -------------------------------------------------------------------------------------------------


def survives(data: bytes) -> None:
    """Whatever the bytes are: scanned without an error, read to the end or to a CorruptMessage, checked alike."""
    fetched, found = message_set("t", 0, LOWEST, memoryview(data), -1)
    assert 0 <= found.end <= len(data)
    assert all(0 <= run.begin < run.end <= found.end for run in found.runs)
    try:
        for message in m.messages(fetched, limit=100_000):
            assert message.value is None or len(message.value) <= 100_000
        assert m.check(data[: found.end]) is None
    except CorruptMessage as exc:
        assert 0 <= exc.position < len(data)  # noqa: PT017 - other errors must come out
    try:
        for _ in m.messages(fetched, check_crcs=False, limit=100_000):
            pass
    except CorruptMessage:
        pass  # lengths can still be wrong


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    survives(data)


ROWS: list[Row] = [(n, b"key" if n % 2 else None, b"value %d" % n, n) for n in range(6)]
SEEDS = [encode(ROWS, codec, magic) for codec in CODECS for magic in (0, 1)]
SEEDS.append(wrapped(9, wrapped(8, encode(ROWS, 2), 3) + entry(9, b"x")) + entry(10, b"y"))


@settings(max_examples=500, deadline=None)
@given(
    seed=st.sampled_from(SEEDS),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 30),
    repair=st.booleans(),
)
def test_damaged_sets_are_read_or_refused(seed: bytes, flips: list[tuple[int, int]], cut: int, repair: bool) -> None:
    data = bytearray(seed)
    for at, byte in flips:
        data[at % len(data)] = byte
    if repair:  # a right checksum lets the damage through to what is behind it
        (size,) = struct.unpack_from(">i", data, 8)
        if 14 <= size <= len(data) - 12:
            struct.pack_into(">I", data, 12, zlib.crc32(data[16 : 12 + size]))
    survives(bytes(data[: len(data) - cut]))


# ---- check and split -------------------------------------------------------------------------------------------


def test_check_finds_the_first_damage_outer_or_inner() -> None:
    good = entry(1, b"a")
    assert m.check(good * 3) is None
    for data, position in (
        (good + flipped(good, 30 - 4) + flipped(good, 26), len(good)),
        (good + wrapped(2, flipped(good, 26)), len(good)),
        (good + flipped(wrapped(2, good), 40), len(good)),
        (good + struct.pack(">qi", 1, 3), len(good)),
        (good + good[:-1], len(good)),
    ):
        damage = m.check(memoryview(data))
        assert isinstance(damage, CorruptMessage)
        assert damage.position == position


def part_of(data: bytes, resume_at: int | None) -> Part:
    fetched, _ = message_set("t", 0, LOWEST, memoryview(data), -1)
    (run,) = fetched.runs
    return Part(TP, memoryview(data), run.magic, run.codec, run.entries, resume_at)


def messages_of(part: Part) -> list[Message]:
    fetched, found = message_set("t", 0, LOWEST, memoryview(part.entries), -1)
    assert found.end == len(part.entries)
    return list(fetched.messages())


def split_to_the_end(part: Part) -> list[Part]:
    halves = split(part)
    return halves if len(halves) == 1 else [each for half in halves for each in split_to_the_end(half)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=20, deadline=None)
@given(
    values=st.lists(st.binary(max_size=60), min_size=1, max_size=12),
    gaps=st.lists(st.integers(1, 9), min_size=12, max_size=12),
)
def test_split_down_to_single_messages_loses_none_and_each_knows_where_it_ends(
    magic: int, codec: int, values: list[bytes], gaps: list[int]
) -> None:
    offsets = [sum(gaps[: n + 1]) for n in range(len(values))]
    rows: list[Row] = [(offset, b"k", value, offset) for offset, value in zip(offsets, values, strict=True)]
    inner: list[Row] = [(offset - offsets[0], *rest) for offset, *rest in rows] if magic and codec else rows  # type: ignore[misc]
    plain = encode(inner, 0, magic)
    data = wrapped(offsets[-1], plain, codec, magic) if codec else plain
    whole = part_of(data, offsets[-1] + 3)
    before = [(x.offset, x.key, x.value, x.timestamp_ms) for x in messages_of(whole)]
    single = split_to_the_end(whole)
    assert [(x.offset, x.key, x.value, x.timestamp_ms) for part in single for x in messages_of(part)] == before
    assert [part.count for part in single[:-1]] == [1] * (len(single) - 1)
    assert [part.resume_at for part in single] == [*(offset + 1 for offset in offsets[:-1]), offsets[-1] + 3]
    assert {(part.tp, part.codec, part.magic) for part in single} == {(TP, codec, magic)}
    if codec and len(single) > 1:
        assert all(len(scan(part.entries, LOWEST).runs) == 1 for part in single)


def test_split_cuts_near_the_middle_of_the_bytes() -> None:
    data = entry(0, bytes(10)) + entry(1, bytes(10)) + entry(2, bytes(1000)) + entry(3, bytes(10))
    first, second = split(part_of(data, 4))
    assert [first.count, second.count] == [2, 2]
    assert [first.resume_at, second.resume_at] == [2, 4]
    first, second = split(second)
    assert [first.count, second.count] == [1, 1]
    assert split(first) == [first]


def test_split_promises_no_position_where_the_part_has_none() -> None:
    for data in (entry(0, b"a") + entry(1, b"b"), wrapped(1, entry(0, b"a") + entry(1, b"b"))):
        assert [half.resume_at for half in split(part_of(data, None))] == [None, None]


def test_split_shares_the_bytes_of_plain_entries() -> None:
    whole = part_of(entry(0, b"a") + entry(1, b"b"), 2)
    assert [half.entries.obj is whole.entries.obj for half in split(whole)] == [True, True]  # type: ignore[union-attr]


def test_splitting_a_wrapper_that_cannot_be_opened_says_so() -> None:
    broken = flipped(wrapped(1, entry(0, b"a") + entry(1, b"b")), 45)
    with pytest.raises(CorruptMessage, match="crc mismatch"):
        split(Part(TP, broken, 0, 1, 1, 2))


def test_a_set_made_by_hand_is_read_by_its_reader() -> None:
    fetched, _ = message_set("t", 0, 101, memoryview(named("v0_snappy_xerial_wrapper").data), 103)
    assert isinstance(fetched, MessageSet)
    assert brief(list(replace(fetched, start=102).messages())) == [(102, b"g2")]


def test_messages_larger_than_a_piece_of_a_set_are_read_among_small_ones():
    rows: list[Row] = [(n, None, bytes([n]) * size, None) for n, size in enumerate((10, 300_000, 700_000, 10, 262_118))]
    fetched, _ = message_set("t", 0, 0, memoryview(encode(rows)), 5)
    assert [(x.offset, x.value) for x in fetched.messages()] == [(row[0], row[2]) for row in rows]
