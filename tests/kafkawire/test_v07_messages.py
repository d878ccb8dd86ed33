"""Message sets of 0.7: scanning, reading, writing, checking, splitting."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire import compression
from kafkawire.errors import CorruptMessage, LocalError, UnknownMagic
from kafkawire.formats.v07 import messages as m
from kafkawire.formats.v07.messages import Row, Scan, check, encode, message_set, scan, split
from kafkawire.model import BrokerPartition, Message, MessageSet, Part, Run, TopicPartition
from tests.kafkawire.wire_vectors07 import exchanges

ID = BrokerPartition(1, 0)
TP = TopicPartition("t", ID)
LIMIT = 100_000


def entry(value: bytes, magic: int = 1, attributes: int = 0, crc: int | None = None) -> bytes:
    """One entry, packed by hand."""
    body = struct.pack(">B", magic) + (struct.pack(">B", attributes) if magic else b"")
    body += struct.pack(">I", zlib.crc32(value) if crc is None else crc) + value
    return struct.pack(">i", len(body)) + body


def wrapped(inner: bytes, codec: int = 1) -> bytes:
    return entry(compression.compress(codec, inner), attributes=codec)


def row(value: bytes | None) -> Row:
    return 0, None, value, None


def fetched(data: bytes, start: int = 0) -> MessageSet:
    return message_set("t", ID, start, memoryview(data), 0)[0]


def read(data: bytes, start: int = 0, check_crcs: bool = True) -> list[Message]:
    return list(fetched(data, start).messages(check_crcs))


def brief(found: list[Message]) -> list[tuple[int, bytes | None, int]]:
    return [(message.offset, message.value, message.resume_at) for message in found]


def until_damage(whole: MessageSet) -> tuple[list[tuple[int, bytes | None, int]], CorruptMessage | None]:
    found = []
    try:
        for message in m.messages(whole, limit=LIMIT):
            found.append(message)
    except CorruptMessage as exc:
        return brief(found), exc
    return brief(found), None


# ---- scan ------------------------------------------------------------------------------------------------------


def test_plain_neighbours_of_one_format_are_one_run_and_a_wrapper_is_one_alone() -> None:
    pieces = [entry(b"a"), entry(b"bb"), wrapped(entry(b"c")), wrapped(entry(b"d"), 2)]
    pieces += [entry(b"e"), entry(b"f", magic=0), entry(b"g", magic=0), entry(b"h")]
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    found = scan(memoryview(b"".join(pieces)), 1000)
    assert found.runs == (
        Run(0, ends[2], 0, -1, 2, 1000 + ends[2]),
        Run(ends[2], ends[3], 1, -1, 1, 1000 + ends[3]),
        Run(ends[3], ends[4], 2, -1, 1, 1000 + ends[4]),
        Run(ends[4], ends[5], 0, -1, 1, 1000 + ends[5]),
        Run(ends[5], ends[7], 0, -2, 2, 1000 + ends[7]),
        Run(ends[7], ends[8], 0, -1, 1, 1000 + ends[8]),
    )
    assert (found.end, found.resume_at, found.needed, found.damage) == (ends[8], 1000 + ends[8], 0, None)


def test_an_empty_buffer_needs_nothing_and_moves_nothing() -> None:
    assert scan(memoryview(b""), 7) == Scan(0, 7, (), 0, None)


def test_a_first_message_larger_than_the_fetch_says_what_it_needs() -> None:
    whole = entry(b"a message of some length")
    for cut in range(1, len(whole)):
        found = scan(memoryview(whole[:cut]), 50)
        assert (found.runs, found.end, found.resume_at, found.damage) == ((), 0, 50, None)
        assert found.needed == (len(whole) if cut >= 4 else 9), cut


def test_a_cut_tail_behind_a_whole_entry_is_left_for_the_next_fetch() -> None:
    first, second = entry(b"first"), entry(b"second", magic=0)
    for cut in range(len(second)):
        found = scan(memoryview(first + second[:cut]), 50)
        assert (found.end, found.resume_at, found.needed, found.damage) == (len(first), 50 + len(first), 0, None)


@pytest.mark.parametrize("length", [4, 1, 0, -1, -(1 << 31)])
def test_an_impossible_length_is_damage_where_it_stands(length: int) -> None:
    good = entry(b"good")
    for before in (b"", good):
        for rest in (0, 1, 4, 5, 40):
            found = scan(memoryview(before + struct.pack(">i", length) + bytes(rest)), 100)
            assert (found.end, found.needed, len(found.runs)) == (len(before), 0, len(before) // len(good))
            assert isinstance(found.damage, CorruptMessage)
            assert (found.damage.position, found.damage.offset) == (len(before), 100 + len(before))


def test_magic_1_has_no_entry_without_attributes() -> None:
    for tail in (b"\1", b"\1\0\0\0\0", b"\1\0\0\0\0" + entry(b"next")):
        damage = scan(memoryview(struct.pack(">i", 5) + tail), 0).damage
        assert "impossible length 5 for magic 1" in str(damage)


def test_rubbish_from_inside_an_entry_is_an_unknown_magic_and_asks_for_no_gigabytes() -> None:
    found = scan(memoryview(b"text inside a message"), 77)
    assert isinstance(found.damage, UnknownMagic)
    assert (found.needed, found.damage.position, found.damage.offset) == (0, 0, 77)
    assert "unknown magic 32" in str(found.damage)
    assert isinstance(scan(memoryview(entry(b"") + entry(b"x", magic=2)), 0).damage, UnknownMagic)
    assert isinstance(scan(memoryview(b"\0\0\0\x09\xff"), 0).damage, UnknownMagic)


@settings(max_examples=80, deadline=None)
@given(kinds=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1)), max_size=12), cut=st.integers(0, 60))
def test_scan_equals_the_dumb_twin(kinds: list[tuple[int, int]], cut: int) -> None:
    pieces = [entry(b"x" * size, magic) for size, magic in kinds]
    data = b"".join(pieces)
    data = data[: max(0, len(data) - cut)]
    complete = end = 0
    while complete < len(pieces) and end + len(pieces[complete]) <= len(data):
        end += len(pieces[complete])
        complete += 1
    found = scan(memoryview(data), 900)
    assert (found.end, found.resume_at, found.damage) == (end, 900 + end, None)
    assert sum(run.entries for run in found.runs) == complete
    assert [run.begin for run in found.runs] == [0, *(run.end for run in found.runs)][: len(found.runs)]


# ---- messages --------------------------------------------------------------------------------------------------


def test_a_message_has_its_position_its_payload_and_nothing_else() -> None:
    for magic in (0, 1):
        (found,) = read(entry(b"value", magic), 40)
        assert found == Message("t", ID, 40, None, b"value", None, None, None, 40 + 14 + magic)


def test_only_the_last_message_of_a_wrapper_moves_the_position() -> None:
    first, second = wrapped(entry(b"a") + entry(b"b", magic=0)), wrapped(entry(b"c"), 2)
    at, after = 500 + len(first), 500 + len(first) + len(second)
    plain = entry(b"d")
    assert brief(read(first + second + plain, 500)) == [
        (500, b"a", 500),
        (500, b"b", at),
        (at, b"c", after),
        (after, b"d", after + len(plain)),
    ]


def test_wrappers_in_wrappers_are_one_unit() -> None:
    nested = wrapped(entry(b"a") + wrapped(entry(b"b") + entry(b"c"), 2) + wrapped(b"") + entry(b"d"))
    assert brief(read(nested, 9)) == [(9, b"a", 9), (9, b"b", 9), (9, b"c", 9), (9, b"d", 9 + len(nested))]
    # What follows the last message in its wrapper holds nothing: the message is the last all the same.
    trailing = wrapped(entry(b"a") + wrapped(wrapped(b"")))
    assert brief(read(trailing)) == [(0, b"a", len(trailing))]


def test_an_empty_wrapper_is_stepped_over() -> None:
    empty, plain = wrapped(b""), entry(b"a")
    assert brief(read(empty + plain)) == [(len(empty), b"a", len(empty) + len(plain))]
    alone = fetched(empty, 30)
    assert (list(alone.messages()), alone.resume_at, alone.entries) == ([], 30 + len(empty), 1)


def test_nesting_has_an_end() -> None:
    data = entry(b"deep")
    for _ in range(m.MAX_DEPTH):
        data = wrapped(data)
    assert [message.value for message in read(data)] == [b"deep"]
    with pytest.raises(CorruptMessage, match="nested deeper than 4"):
        read(wrapped(data))


def test_a_wrapper_opens_to_a_limit_and_no_further() -> None:
    data = wrapped(entry(bytes(5000)) + wrapped(entry(bytes(5000))))
    whole = fetched(data)
    assert len(list(m.messages(whole, limit=11_000))) == 2
    found, damage = [], None
    try:
        for message in m.messages(whole, limit=9000):
            found.append(message)
    except CorruptMessage as exc:
        damage = exc
    assert [message.resume_at for message in found] == [0]
    assert "gzip data decompresses to more than the limit of" in str(damage)


def test_a_bad_checksum_is_told_at_its_position_after_what_is_before_it() -> None:
    good, bad = entry(b"good"), entry(b"bad", crc=1)
    found, damage = until_damage(fetched(good + bad, 1000))
    assert found == [(1000, b"good", 1000 + len(good))]
    assert damage is not None
    assert (damage.position, damage.offset) == (len(good), 1000 + len(good))
    assert damage.why == f"crc mismatch, stored 00000001, computed {zlib.crc32(b'bad'):08x}"
    assert [message.value for message in read(good + bad, check_crcs=False)] == [b"good", b"bad"]


def test_the_checksum_of_a_wrapper_covers_what_is_compressed() -> None:
    payload = compression.compress(1, entry(b"a"))
    damaged = entry(payload[:-1] + b"\xff", attributes=1, crc=zlib.crc32(payload))
    with pytest.raises(CorruptMessage, match="crc mismatch"):
        read(damaged)


def test_damage_inside_a_wrapper_is_at_the_wrapper_and_never_moves_past_it() -> None:
    before, bad = entry(b"x"), wrapped(entry(b"a") + entry(b"b") + entry(b"c", crc=3) + entry(b"d"))
    found, damage = until_damage(fetched(before + bad, 200))
    at = 200 + len(before)
    assert found == [(200, b"x", at), (at, b"a", at), (at, b"b", at)]
    assert damage is not None
    assert (damage.position, damage.offset) == (len(before), at)
    assert damage.why.startswith("inside the wrapper, entry at byte 22: crc mismatch, stored 00000003")


@pytest.mark.parametrize("codec", [1, 2])
def test_a_wrapper_that_does_not_open_is_damage(codec: int) -> None:
    for payload in (b"", b"no codec", compression.compress(codec, entry(b"abc"))[:-9]):
        with pytest.raises(CorruptMessage):
            read(entry(payload, attributes=codec))


def size(length: int) -> bytes:
    return struct.pack(">i", length)


WHOLE, CUT = entry(b"whole"), entry(b"cut")[:-1]
LEFT_OUT = {  # what is inside, and what is read of it
    "in its length": (WHOLE + b"\0\0", [b"whole"]),
    "behind its length": (WHOLE + size(9), [b"whole"]),
    "in its payload": (WHOLE + CUT, [b"whole"]),
    "far beyond the end": (WHOLE + size(0x7FFFFFFF) + bytes(20), [b"whole"]),
    "too short and cut": (WHOLE + size(3) + bytes(2), [b"whole"]),
    "of no magic and cut": (WHOLE + size(50) + b"\x09" + bytes(20), [b"whole"]),
    "of magic 1, too short, and cut": (WHOLE + size(5) + b"\1\0\0\0", [b"whole"]),
    "nothing before it": (b"\0\0\0", []),
    "an empty wrapper before it": (wrapped(b"") + CUT, []),
    "a wrapper that is cut itself": (WHOLE + wrapped(WHOLE)[:-1], [b"whole"]),
    "in a wrapper inside": (wrapped(WHOLE + CUT) + WHOLE, [b"whole", b"whole"]),
    "in both": (WHOLE + wrapped(WHOLE + b"\0") + CUT, [b"whole", b"whole"]),
}


@pytest.mark.parametrize("codec", [1, 2])
@pytest.mark.parametrize(("inner", "values"), LEFT_OUT.values(), ids=list(LEFT_OUT))
def test_a_cut_entry_at_the_end_of_a_wrapper_is_left_out(inner: bytes, values: list[bytes], codec: int) -> None:
    outer, behind = wrapped(inner, codec), entry(b"behind")
    at, after = 700 + len(outer), 700 + len(outer) + len(behind)
    moved = [700] * len(values[:-1]) + [at] * len(values[-1:])
    expected = [(700, value, resume) for value, resume in zip(values, moved, strict=True)]
    assert brief(read(outer + behind, 700)) == [*expected, (at, b"behind", after)]
    assert brief(read(outer + behind, 700, check_crcs=False)) == [*expected, (at, b"behind", after)]
    assert check(outer) is None


@pytest.mark.parametrize(
    ("inner", "says"),
    [
        (CUT, "entry at byte 0: truncated 12 bytes after its beginning"),
        (size(9), "entry at byte 0: truncated 4 bytes after its beginning"),
        (size(3) + bytes(1), "entry at byte 0: impossible length 3"),
        (WHOLE + wrapped(CUT), "entry at byte 0: truncated 12 bytes after its beginning"),
        (WHOLE + size(0), "entry at byte 15: impossible length 0"),
        (WHOLE + size(3) + bytes(3), "entry at byte 15: impossible length 3"),
        (WHOLE + size(5) + b"\1" + bytes(4), "entry at byte 15: impossible length 5 for magic 1"),
        (WHOLE + size(-5) + bytes(9), "entry at byte 15: impossible length -5"),
        (WHOLE + entry(b"x", magic=3) + CUT, "entry at byte 15: unknown magic 3"),
        (WHOLE + entry(b"x", crc=4) + CUT, "entry at byte 15: crc mismatch"),
    ],
)
def test_anything_else_inside_a_wrapper_that_the_original_throws_for_is_damage(inner: bytes, says: str) -> None:
    for codec in (1, 2):
        found, damage = until_damage(fetched(wrapped(inner, codec) + WHOLE, 700))
        assert damage is not None
        assert says in damage.why
        assert (damage.position, damage.offset) == (0, 700)
        assert found == ([(700, b"whole", 700)] if inner.startswith(WHOLE) else [])


def test_codec_3_is_not_the_lz4_of_later_releases() -> None:
    with pytest.raises(CorruptMessage, match="unknown codec 3"):
        read(entry(compression.compress(3, entry(b"a")), attributes=3))


def test_other_bits_of_the_attributes_mean_nothing() -> None:
    found = fetched(entry(b"a", attributes=0xFC) + entry(b"b", attributes=0x04))
    assert [message.value for message in found.messages()] == [b"a", b"b"]
    assert found.codecs == {0}


def test_what_ends_before_start_is_left_out_and_not_checked() -> None:
    pieces = [entry(b"a", crc=5), wrapped(entry(b"b", crc=5)), entry(b"c"), entry(b"d")]
    ends = [sum(map(len, pieces[: n + 1])) for n in range(4)]
    whole = fetched(b"".join(pieces), 100)
    assert [x.value for x in replace(whole, start=100 + ends[1]).messages()] == [b"c", b"d"]
    assert [x.value for x in replace(whole, start=100 + ends[2]).messages()] == [b"d"]
    # A position inside an entry: the whole of it, rather twice than never.
    assert [x.value for x in replace(whole, start=100 + ends[2] - 1).messages()] == [b"c", b"d"]
    assert [x.value for x in replace(whole, start=100 + ends[3]).messages()] == []


def test_a_run_of_a_set_knows_its_positions_wherever_it_is_cut_out() -> None:
    pieces = [entry(b"a"), wrapped(entry(b"b") + entry(b"c")), entry(b"d", magic=0)]
    whole = fetched(b"".join(pieces), 100)
    together = brief(list(whole.messages()))
    alone, start = [], whole.start
    for run in whole.runs:
        cut = replace(run, begin=0, end=run.end - run.begin)
        view = whole.buffer[run.begin : run.end]
        part = replace(whole, start=start, resume_at=run.resume_at, buffer=view, runs=(cut,))
        alone += brief(list(part.messages()))
        start = run.resume_at
    assert alone == together


def test_messages_of_any_size_come_out_of_a_set_larger_than_a_piece() -> None:
    values = [b"x" * size for size in (10, 300_000, 10, 262_134, 20, 600_000, 1)] + [b"small"] * 30_000
    assert [message.value for message in read(encode([row(value) for value in values]))] == values


# ---- writing ---------------------------------------------------------------------------------------------------


def test_entries_are_written_as_they_are_read() -> None:
    assert encode([row(b"a"), row(b"")]) == entry(b"a") + entry(b"")
    assert encode([row(b"a"), row(b"")], magic=-2) == entry(b"a", magic=0) + entry(b"", magic=0)
    assert encode([]) == encode([], 1) == b""
    made = encode([row(b"a"), row(b"b")], 1)
    assert made[5] == 1
    assert compression.decompress(1, made[10:], LIMIT) == entry(b"a") + entry(b"b")


def test_keys_and_times_have_no_place() -> None:
    assert encode([(7, b"key", b"a", 123)]) == entry(b"a")


@pytest.mark.parametrize(
    ("codec", "magic", "says"),
    [
        (0, 0, "message format v0 is not one of Kafka 0.7"),
        (0, 1, "message format v1 is not one of Kafka 0.7"),
        (1, 0, "message format v0 is not one of Kafka 0.7"),
        (1, -2, "magic 0 of Kafka 0.7 has no attributes byte"),
        (3, -1, "Kafka 0.7 has no codec lz4"),
        (9, -1, "Kafka 0.7 has no codec 9"),
    ],
)
def test_what_there_is_not_is_not_written(codec: int, magic: int, says: str) -> None:
    with pytest.raises(LocalError, match=says):
        encode([row(b"a")], codec, magic)


def test_there_is_no_null() -> None:
    for codec in (0, 1):
        with pytest.raises(LocalError, match="message 5 has no value"):
            encode([row(b"a"), (5, None, None, None)], codec)


# ---- round trips, cuts, flips ----------------------------------------------------------------------------------

VALUES = st.lists(st.binary(max_size=60), max_size=8)
GROUPS = st.lists(st.tuples(VALUES, st.sampled_from([(0, -1), (0, -2), (1, -1), (2, -1)])), max_size=5)


def built(groups: list[tuple[list[bytes], tuple[int, int]]], start: int) -> tuple[bytes, list[tuple[int, bytes, int]]]:
    """A set of mixed codecs and formats, and what its reader has to find."""
    data, expected = b"", []
    for values, (codec, magic) in groups:
        if not codec:
            for value in values:
                at = start + len(data)
                data += encode([row(value)], 0, magic)
                expected.append((at, value, start + len(data)))
        elif values:
            at = start + len(data)
            data += encode([row(value) for value in values], codec, magic)
            expected += [(at, value, at) for value in values[:-1]] + [(at, values[-1], start + len(data))]
    return data, expected


@settings(max_examples=150, deadline=None)
@given(groups=GROUPS, start=st.integers(0, 1 << 62))
def test_decode_is_the_inverse_of_encode(groups: list[tuple[list[bytes], tuple[int, int]]], start: int) -> None:
    data, expected = built(groups, start)
    whole = fetched(data, start)
    assert brief(list(whole.messages())) == expected
    assert whole.resume_at == start + len(data)
    assert check(data) is None


@settings(max_examples=60, deadline=None)
@given(groups=GROUPS, start=st.integers(0, 1 << 40))
def test_a_cut_at_any_byte_loses_only_the_entry_it_is_in(
    groups: list[tuple[list[bytes], tuple[int, int]]], start: int
) -> None:
    data, expected = built(groups, start)
    borders = {start, *(resume for at, _, resume in expected if resume != at)}
    for cut in range(len(data) + 1):
        whole, found = message_set("t", ID, start, memoryview(data[:cut]), 0)
        reached = max(border for border in borders if border <= start + cut)
        assert found.damage is None
        assert (found.resume_at, whole.resume_at, found.end) == (reached, reached, reached - start)
        assert brief(list(whole.messages())) == [x for x in expected if x[0] < reached]
        if found.end == 0 and cut >= 4:
            assert found.needed == min(borders - {start}) - start
        assert (check(data[:cut]) is None) == (found.end == cut)


@settings(max_examples=40, deadline=None)
@given(groups=GROUPS, bit=st.integers(0, 7))
def test_a_flipped_bit_is_told_or_has_a_reading_that_is_written_down(
    groups: list[tuple[list[bytes], tuple[int, int]]], bit: int
) -> None:
    """Magic and attributes are under no checksum.  What may change unseen is the codec of an entry, and nothing else:
    what is left of the entries before and after it is read as it was."""
    data, expected = built(groups, 0)
    borders = sorted({0, *(resume for at, _, resume in expected if resume != at)})
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << bit
        whole, found = message_set("t", ID, 0, memoryview(bytes(damaged)), 0)
        rows, damage = until_damage(whole)
        entry_at = max(border for border in borders if border <= at)
        assert rows[: sum(x[0] < entry_at for x in expected)] == [x for x in expected if x[0] < entry_at]
        told = damage is not None or found.damage is not None or found.end < len(data)
        place = at - entry_at
        if not told:
            assert (place, data[entry_at + 4]) == (5, 1)  # the attributes of an entry of magic 1
            if bit > 1:
                assert rows == expected
            else:
                assert [x for x in rows if x[0] != entry_at] == [x for x in expected if x[0] != entry_at]
        if damage is not None:
            assert damage.offset == entry_at


# ---- check and split -------------------------------------------------------------------------------------------


def test_check_names_the_first_damage_outer_or_inner() -> None:
    good = entry(b"good") + wrapped(entry(b"a") + entry(b"b"), 2) + entry(b"old", magic=0)
    assert check(good) is None
    assert check(b"") is None
    cases = {
        entry(b"bad", crc=1): "crc mismatch",
        wrapped(entry(b"bad", crc=1)): "inside the wrapper",
        entry(b"x", magic=2): "unknown magic 2",
        entry(b"x", attributes=3): "unknown codec 3",
        entry(b"cut")[:-1]: "truncated 12 bytes after its beginning",
        b"\0\0": "truncated 2 bytes after its beginning",
        struct.pack(">i", 3) + bytes(20): "impossible length 3",
    }
    for bad, says in cases.items():
        damage = check(memoryview(good + bad))
        assert says in str(damage)
        assert damage is not None
        assert damage.position == len(good)


def part(entries: bytes, codec: int, count: int, resume_at: int | None, magic: int = -1) -> Part:
    return Part(TP, entries, magic, codec, count, resume_at)


@pytest.mark.parametrize("magic", [-1, -2])
def test_a_plain_part_is_cut_near_its_middle_at_a_source_position(magic: int) -> None:
    values = [b"x" * 10, b"y" * 10, b"z" * 100, b"w" * 10]
    data = encode([row(value) for value in values], 0, magic)
    whole = part(data, 0, 4, 5000 + len(data), magic)
    first, second = split(whole)
    assert bytes(first.entries) + bytes(second.entries) == data
    assert (first.count, second.count) == (2, 2)
    assert first.resume_at == 5000 + len(first.entries)
    assert second.resume_at == whole.resume_at
    assert split(split(first)[0]) == [split(first)[0]]
    assert [half.resume_at for half in split(replace(whole, resume_at=None))] == [None, None]


@pytest.mark.parametrize("codec", [1, 2])
def test_a_wrapper_is_opened_and_its_first_half_moves_nothing(codec: int) -> None:
    values = [b"%d" % n * 20 for n in range(7)]
    whole = part(encode([row(value) for value in values], codec), codec, 7, 777)
    first, second = split(whole)
    assert [x.value for half in (first, second) for x in read(bytes(half.entries))] == values
    assert (first.codec, second.codec) == (codec, codec)
    assert (first.count + second.count, first.resume_at, second.resume_at) == (7, None, 777)
    alone = part(encode([row(b"one")], codec), codec, 1, 3)
    assert split(alone) == [alone]
    with pytest.raises(CorruptMessage):
        split(part(entry(b"no", attributes=codec), codec, 1, None))


def test_halves_of_a_wrapper_are_without_what_is_cut_in_it() -> None:
    first, second = split(part(wrapped(WHOLE + entry(b"second") + CUT), 1, 2, 777))
    assert [read(bytes(half.entries))[0].value for half in (first, second)] == [b"whole", b"second"]
    assert [half.count for half in (first, second)] == [1, 1]
    alone = part(wrapped(WHOLE + CUT), 1, 1, 777)
    assert split(alone) == [alone]


def test_overheads_are_by_format() -> None:
    for magic in (-2, -1):
        assert len(encode([row(b"abc")], 0, magic)) == m.ENTRY_OVERHEAD[magic] + 3
    assert fetched(entry(b"a", magic=0)).format == -2
    assert fetched(entry(b"a", magic=0) + entry(b"b")).format == -1


@pytest.mark.parametrize(
    ("name", "offsets", "values"),
    [
        ("fetch_plain", [15, 25, 41], [b"hello", b"", "wörld".encode()]),
        ("fetch_gzip", [0, 0, 59], [b"g1", b"g2", b"g3"]),
        ("fetch_snappy", [0, 0, 65], [b"s1", b"s2", b"s3"]),
    ],
)
def test_an_original_s_answers_are_read_as_its_own_iterator_read_them(
    name: str, offsets: list[int], values: list[bytes]
) -> None:
    (exchange,) = (each for each in exchanges() if each.name == name)
    found = read(exchange.response[6:])
    assert [message.resume_at for message in found] == offsets
    assert [message.value for message in found] == values
