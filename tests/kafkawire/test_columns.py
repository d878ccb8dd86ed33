"""Columns of sets: both forms against messages(), on whole, cut and damaged sets; which form runs, what is kept."""

from __future__ import annotations

import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire import compression
from kafkawire.__main__ import main
from kafkawire.columns import Columns
from kafkawire.errors import CorruptMessage, RemoteError
from kafkawire.formats.compiled import Kernels, load
from kafkawire.formats.v01 import columns as indexing
from kafkawire.formats.v01 import messages as m
from kafkawire.formats.v01 import scan as scanning
from kafkawire.formats.v01.columns import index_by
from kafkawire.formats.v01.messages import LOWEST, Row, encode, message_set
from kafkawire.kernels import cache_folder
from kafkawire.model import Message, MessageSet
from tests.kafkawire.forms import running

LIMIT = 100_000
CODECS = (0, 1, 2, 3)


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    return load(cache_folder())


def entry(offset: int, value: bytes | None, key: bytes | None = None, magic: int = 0, attributes: int = 0) -> bytes:
    """One entry, packed by hand."""
    body = struct.pack(">BB", magic, attributes) + (struct.pack(">q", 1000 + offset % (1 << 62)) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapped(offset: int, inner: bytes, codec: int = 1, magic: int = 0, bits: int = 0) -> bytes:
    return entry(offset, compression.compress(codec, inner, magic), magic=magic, attributes=codec | bits)


def set_of(data: bytes, start: int = LOWEST) -> MessageSet:
    return message_set("t", 0, start, memoryview(data), -1)[0]


@dataclass(frozen=True)
class Told:
    """What a reader says of a set, in a form that can be compared."""

    rows: list[tuple[int, bytes | None, bytes | None, int, int]]
    damage: tuple[type, str, int, int | None] | None


def by_messages(whole: MessageSet, check_crcs: bool) -> tuple[Told, list[Message]]:
    found, damage = [], None
    try:
        for message in m.messages(whole, check_crcs, LIMIT):
            found.append(message)
    except CorruptMessage as exc:
        damage = exc
    rows = [
        (
            x.offset,
            x.key,
            x.value,
            -1 if x.timestamp_ms is None else x.timestamp_ms,
            -1 if x.timestamp_type is None else x.timestamp_type,
        )
        for x in found
    ]
    return Told(rows, _damage(damage)), found


def by_columns(found: Columns) -> Told:
    stamps = [-1] * len(found) if found.timestamps_ms is None else list(found.timestamps_ms)
    types = [-1] * len(found) if found.timestamp_types is None else list(found.timestamp_types)
    rows = list(zip(found.offsets, found.keys(), found.values(), stamps, types, strict=True))
    return Told(rows, _damage(found.damage))


def _damage(damage: CorruptMessage | None) -> tuple[type, str, int, int | None] | None:
    return None if damage is None else (type(damage), str(damage), damage.position, damage.offset)


def agree(kernels: Kernels, data: bytes, start: int = LOWEST, exact: bool = False) -> None:
    """messages(), the pure and the compiled form tell the same of a set, with checksums looked at and without."""
    whole, found = message_set("t", 0, start, memoryview(data), -1)
    for form in (kernels, None):
        with running(form, scanning):
            _, again = message_set("t", 0, start, memoryview(bytearray(data)), -1)
        assert replace(again, damage=None) == replace(found, damage=None)
        assert _damage(again.damage) == _damage(found.damage)
    for check_crcs in (True, False):
        told, read = by_messages(whole, check_crcs)
        pure = index_by(None, whole, check_crcs, LIMIT)
        assert by_columns(pure) == told
        with running(kernels, scanning):
            quick = index_by(kernels, whole, check_crcs, LIMIT)
            assert by_columns(quick) == told
        for name in ("offsets", "key_at", "key_size", "value_at", "value_size", "timestamps_ms", "timestamp_types"):
            one, other = getattr(pure, name), getattr(quick, name)
            assert one == other or list(one) == list(other), name
        assert (pure.data, pure.resume_at) == (quick.data, quick.resume_at)
        if told.damage is None:
            assert pure.resume_at == whole.resume_at
        else:
            safe = read[-1].resume_at if read else whole.start
            assert pure.resume_at in (safe, read[-1].offset if read else safe)  # the latter repeats some
            assert pure.resume_at == safe or not exact
        if check_crcs:
            in_pieces(kernels, whole, told)


def in_pieces(kernels: Kernels, whole: MessageSet, told: Told) -> None:
    """Pieces together are what the set is, and each begins where the one before ended."""
    for form in (kernels, None):
        with running(form, scanning):
            for most in (1, 300):
                found = list(indexing.pieces(whole, True, most, LIMIT))
                parts = [by_columns(piece) for piece in found]
                assert Told([row for part in parts for row in part.rows], parts[-1].damage) == told
                assert all(part.damage is None for part in parts[:-1])
                ends = [piece.resume_at for piece in found]
                assert all(whole.start <= end < max(whole.resume_at, whole.start + 1) for end in ends[:-1])
                if told.damage is None:
                    assert (ends, ends[-1]) == (sorted(ends), whole.resume_at)


# ---- every format ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_columns_of_each_format_and_codec_are_what_was_written(magic: int, codec: int, compiled: Kernels) -> None:
    rows: list[Row] = [(7, b"k", b"v", 5), (9, None, b"", 6), (10, b"", None, 7), (12, b"key", b"value" * 99, 8)]
    offsets = [7, 9, 10, 12] if magic == 0 or not codec else [9, 10, 11, 12]
    for kernels in (None, compiled):
        found = index_by(kernels, set_of(encode(rows, codec, magic)))
        assert list(found.offsets) == offsets
        assert found.keys() == [b"k", None, b"", b"key"]
        assert found.values() == [b"v", b"", None, b"value" * 99]
        assert (list(found.timestamps_ms) if found.timestamps_ms else None) == ([5, 6, 7, 8] if magic else None)
        assert (found.resume_at, found.damage, len(found)) == (13, None, 4)
        at, size = found.value_at[3], found.value_size[3]
        assert found.data[at : at + size] == b"value" * 99


BAD = entry(2, b"flipped")[:-1] + b"D"
MIXED = [
    entry(1, b"a", b"k") + wrapped(5, entry(3, b"b") + entry(5, None)) + entry(6, b"c", magic=1),
    wrapped(1007, entry(0, b"a", magic=1) + entry(4, b"b", magic=1) + entry(7, b"c", magic=1), 2, magic=1),
    wrapped(5, entry(0, b"a", magic=1) + entry(1, b"b", magic=1), 3, magic=1, bits=m.LOG_APPEND_TIME),
    entry(4, b"a", magic=1, attributes=m.LOG_APPEND_TIME) + entry(5, b"b", magic=1) + entry(6, b"of format v0"),
    b"".join(entry(n, b"alike", magic=1, attributes=m.LOG_APPEND_TIME) for n in range(20)) + entry(20, b"a", magic=1),
    wrapped(5, b"") + entry(6, b"after an empty wrapper"),
    wrapped(12, entry(9, b"a") + wrapped(11, entry(10, b"b") + entry(11, b"c"), 2) + entry(12, b"d")),
    wrapped(11, entry(9, b"a") + wrapped(10, entry(0, b"x") + entry(1, b"y") + entry(2, b"z")) + entry(11, b"b")),
    wrapped(11, wrapped(10, wrapped(4, entry(0, b"x") + entry(1, b"y")) + entry(2, b"z")) + entry(11, b"b")),
    wrapped(11, wrapped(10, entry(0, b"x") + entry(1, b"y") + BAD) + entry(11, b"b")),
    wrapped(11, wrapped(10, wrapped(4, entry(0, b"x") + BAD) + entry(2, b"z")) + entry(11, b"b")),
    wrapped(11, wrapped(10, entry(0, b"x") + entry(1, b"y")) + BAD + entry(11, b"b")),
    wrapped(11, wrapped(10, entry(0, b"x") + entry(1, b"y")) + wrapped(11, b"short")),
    wrapped(11, wrapped(10, entry(0, b"x") + wrapped(1, b"short")) + entry(11, b"b")),
    wrapped(11, wrapped(10, entry(0, b"x") + entry(1, b"y")) + entry(11, b"b")) + wrapped(12, BAD),
    wrapped(9, wrapped(8, wrapped(8, wrapped(8, wrapped(8, entry(8, b"deep")))))),
    wrapped(5, entry(4, b"a") + entry(5, b"b", magic=1)),
    wrapped(5, entry(4, b"a")[:-1]),
    entry(4, b"a") + entry(5, b"abc", attributes=4) + entry(6, b"b"),
    entry(4, b"a") + wrapped(5, entry(5, bytes(LIMIT + 1))) + entry(6, b"b"),
    entry((1 << 63) - 2, b"a") + entry((1 << 63) - 1, b"b"),
    wrapped((1 << 63) - 1, entry(-(1 << 63), b"a", magic=1) + entry(-5, b"b", magic=1), magic=1),
    b"",
]


@pytest.mark.parametrize("data", MIXED, ids=range(len(MIXED)))
def test_wrappers_nested_empty_stamped_too_deep_or_too_large_are_told_alike(data: bytes, compiled: Kernels) -> None:
    for start in (LOWEST, 0, 4, 5, 10, 11, 1005, 1 << 62):
        agree(compiled, data, start, exact=True)


def test_snappy_of_many_blocks_is_told_alike_whole_and_where_one_of_them_is_damaged(compiled: Kernels) -> None:
    inner = b"".join(entry(n, bytes(n % 251 for n in range(997)) + b"%d" % n) for n in range(90))
    packed = compression.compress(2, inner)
    agree(compiled, entry(89, packed, attributes=2), exact=True)
    agree(compiled, entry(89, packed, attributes=2), start=50, exact=True)
    second = 20 + int.from_bytes(packed[16:20], "big") + 4
    for flipped in (16, second - 4, second, second + 1, second + 40, len(packed) - 1):
        bad = packed[:flipped] + bytes([packed[flipped] ^ 0x55]) + packed[flipped + 1 :]
        agree(compiled, entry(89, bad, attributes=2))
    with (
        running(compiled, scanning),
        pytest.raises(RemoteError, match=f"more than the limit of {len(inner) - 1} bytes"),
    ):
        compression.decompress(2, packed, len(inner) - 1)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    ("key_size", "value_size"), [(-2, 3), (1000, 3), (-1, 4), (-1, 2), (-1, -2), (1, -1), (0, 900), ((1 << 31) - 1, 0)]
)
def test_lengths_that_do_not_add_up_are_told_alike(
    magic: int, key_size: int, value_size: int, compiled: Kernels
) -> None:
    body = struct.pack(">BB", magic, 0) + bytes(8 * magic) + struct.pack(">i", key_size)
    body += b"k" * max(0, min(key_size, 3)) + struct.pack(">i", value_size) + b"abc"
    bad = struct.pack(">qiI", 5, len(body) + 4, zlib.crc32(body)) + body
    for data in (bad, entry(4, b"good", magic=magic) + bad + entry(6, b"never reached", magic=magic)):
        agree(compiled, data)
        assert index_by(compiled, set_of(data)).damage is not None


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=99), st.integers(1, 3)), max_size=30
    ),
    first=st.integers(0, 1 << 40),
    cut=st.integers(0, 60),
    skipped=st.integers(0, 40),
    kinds=st.lists(st.sampled_from([(c, g) for c in CODECS for g in (0, 1)]), min_size=1, max_size=3),
)
def test_whole_and_cut_sets_of_any_start_are_told_alike(
    rows: list[tuple[bytes | None, bytes | None, int]],
    first: int,
    cut: int,
    skipped: int,
    kinds: list[tuple[int, int]],
    compiled: Kernels,
) -> None:
    written: list[Row] = []
    offset = first
    for key, value, gap in rows:
        written.append((offset, key, value, 10_000 + gap))
        offset += gap
    step = max(1, len(written) // len(kinds))
    groups = [written[at : at + step] for at in range(0, len(written), step)]
    data = b"".join(encode(group, *kinds[n % len(kinds)]) for n, group in enumerate(groups))
    agree(compiled, data[: max(0, len(data) - cut)], first + skipped)


SEEDS = [
    encode([(n, b"key" if n % 2 else None, b"value %d" % n, n) for n in range(6)], c, g) for c in CODECS for g in (0, 1)
]
SEEDS += [piece for piece in MIXED if piece and len(piece) < 1000]


@settings(max_examples=500, deadline=None)
@given(
    seed=st.sampled_from(SEEDS),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 30),
    repair=st.booleans(),
    start=st.sampled_from([LOWEST, 0, 3, 5, 10]),
)
def test_damaged_sets_are_told_alike(
    seed: bytes, flips: list[tuple[int, int]], cut: int, repair: bool, start: int, compiled: Kernels
) -> None:
    data = bytearray(seed)
    for at, byte in flips:
        data[at % len(data)] = byte
    if repair:  # a right checksum lets the damage through to what is behind it
        (size,) = struct.unpack_from(">i", data, 8)
        if 14 <= size <= len(data) - 12:
            struct.pack_into(">I", data, 12, zlib.crc32(data[16 : 12 + size]))
    agree(compiled, bytes(data[: len(data) - cut]), start)


@settings(max_examples=150, deadline=None)
@given(inner=st.sampled_from(SEEDS), at=st.integers(0, 10_000), bit=st.integers(0, 7), magic=st.sampled_from([0, 1]))
def test_one_flipped_bit_inside_a_wrapper_is_told_alike(
    inner: bytes, at: int, bit: int, magic: int, compiled: Kernels
) -> None:
    data = bytearray(inner)
    data[at % len(data)] ^= 1 << bit
    agree(compiled, entry(1, b"before") + wrapped(20, bytes(data), magic=magic) + entry(21, b"behind"))


def test_what_is_before_a_wrapper_that_does_not_open_is_told_though_none_of_it_is_numbered(compiled: Kernels) -> None:
    broken = bytearray(compression.compress(1, entry(3, b"c"), 0))
    broken[-6] ^= 1  # gzip's own checksum; that of the entry is right
    unnumbered = entry(0, b"a") + entry(1, b"b") + entry(2, bytes(broken), attributes=1)
    agree(compiled, wrapped(20, wrapped(5, unnumbered)) + entry(21, b"behind"))


@pytest.mark.parametrize("byte", range(8))
def test_an_offset_in_a_wrapper_that_is_wrong_in_any_byte_is_damage(byte: int, compiled: Kernels) -> None:
    plain = bytearray(b"".join(entry(n, None) for n in range(9)))
    plain[2 * len(entry(0, None)) + byte] ^= 1
    data = wrapped(8, bytes(plain))
    agree(compiled, data)
    told, _ = by_messages(message_set("t", 0, LOWEST, memoryview(data), -1)[0], True)
    assert told.damage is not None


@settings(max_examples=120, deadline=None)
@given(
    magic=st.integers(0, 1),
    key=st.one_of(st.none(), st.binary(max_size=3)),
    value=st.one_of(st.none(), st.binary(max_size=9)),
    count=st.integers(8, 60),
    others=st.lists(st.tuples(st.integers(0, 30), st.binary(max_size=9)), max_size=3),
    flips=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 7)), max_size=2),
    start=st.integers(0, 12),
    codec=st.sampled_from([0, 0, 1]),
    cut=st.integers(0, 60),
)
def test_neighbours_that_are_alike_are_told_as_one_by_one(
    magic: int,
    key: bytes | None,
    value: bytes | None,
    count: int,
    others: list[tuple[int, bytes]],
    flips: list[tuple[int, int]],
    start: int,
    codec: int,
    cut: int,
    compiled: Kernels,
) -> None:
    rows: list[Row] = [(n, key, value, 1000 + n) for n in range(count)]
    for at, other in others:
        rows[at % count] = (at % count, key, other, 5)
    plain = bytearray(b"".join(entry(n, v, k, magic) for n, k, v, _ in rows))
    for at, bit in flips:
        plain[at % len(plain)] ^= 1 << bit
    data = wrapped(count - 1, bytes(plain), codec, magic) if codec else bytes(plain)
    agree(compiled, data[: len(data) - cut] if not codec and cut < len(data) else data, start)


SHAPES = st.lists(
    st.tuples(st.none() | st.integers(0, 9), st.none() | st.integers(0, 9)), min_size=1, max_size=5, unique=True
)  # lengths of key and value


@settings(max_examples=40, deadline=None)
@given(
    magic=st.integers(0, 1),
    shapes=SHAPES,
    picks=st.lists(st.integers(0, 4), min_size=80, max_size=100),
    gap=st.integers(1, 2),
    flips=st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 7)), max_size=2),
    start=st.sampled_from([LOWEST, 0, 7]),
    cut=st.integers(0, 60),
)
def test_entries_of_a_few_shapes_are_told_as_one_by_one(
    magic: int,
    shapes: list[tuple[int | None, int | None]],
    picks: list[int],
    gap: int,
    flips: list[tuple[int, int]],
    start: int,
    cut: int,
    compiled: Kernels,
) -> None:
    plain = bytearray()
    for n, pick in enumerate(picks):
        sizes = shapes[pick % len(shapes)]
        key, value = (None if size is None else (b"%09d" % n)[:size] for size in sizes)
        plain += entry(n * gap, value, key, magic)
    told_apart = {(key, (key or 0) + (value or 0)) for key, value in shapes}
    if not flips and start <= 0 and len(told_apart) == len(shapes):
        found = index_by(None, set_of(bytes(plain), start))
        assert found.entries is not None
        assert b"".join(found.entries.all) == plain
    for at, bit in flips:
        plain[at % len(plain)] ^= 1 << bit
    agree(compiled, bytes(plain[: len(plain) - cut]), start)


@settings(max_examples=60, deadline=None)
@given(size=st.integers(0, 70), fill=st.binary(min_size=70, max_size=70))
def test_the_compiled_checksum_is_zlibs_at_every_length(size: int, fill: bytes, compiled: Kernels) -> None:
    data = entry(1, fill[:size]) + entry(2, b"second")
    assert len(index_by(compiled, set_of(data))) == 2
    for at in range(16, 26 + size):
        flipped = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
        damage = index_by(compiled, set_of(flipped)).damage
        assert damage is None or damage.position == 0
        agree(compiled, flipped)


@pytest.mark.parametrize("size", [0, 1, 16, 512, 513])
def test_slices_of_one_size_are_the_bytes_that_stand_there(size: int, compiled: Kernels) -> None:
    rows: list[Row] = [(n, bytes([n]) * 8, bytes([n, 0]) * (size // 2) + b"\0" * (size % 2), 0) for n in range(50)]
    for codec in (0, 2):
        found = index_by(compiled, set_of(encode(rows, codec)))
        with running(compiled, scanning):
            assert found.keys() == [row[1] for row in rows]
            assert found.values() == [row[2] for row in rows]
            assert {type(value) for value in found.values()} == {bytes}


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("alike", [3, 10, 40, 100])
def test_sets_whose_sizes_change_are_told_alike_whole_and_where_one_is_damaged(
    magic: int, alike: int, compiled: Kernels
) -> None:
    """Longer than what is taken entry by entry before stretches of one size are looked for again."""
    data, count = b"", 0
    while len(data) < 3 * scanning.AGAIN:
        size = 40 + count // alike % 2
        data += entry(count, b"v" * size, b"k%d" % (count % 7), magic)
        count += 1
    for place in (None, len(data) // 2, len(data) - 1):
        damaged = bytearray(data)
        if place is not None:
            damaged[place] ^= 0x10
        for start in (LOWEST, count // 3):
            with running(None, scanning):
                whole = set_of(bytes(damaged), start)
                found = by_columns(index_by(None, whole))
            assert whole.runs == set_of(bytes(damaged), start).runs
            assert found == by_columns(index_by(compiled, whole))


def test_a_long_set_is_hopped_over_as_entry_by_entry(compiled: Kernels) -> None:
    long = encode([(n, b"k", b"v" * (n * 3 % 300), n) for n in range(100)])
    newer = encode([(n, b"k", b"v" * (n * 3 % 300), n) for n in range(100, 200)], 0, 1)
    packed = encode([(n, None, b"v", n) for n in range(200, 300)], 2, 1)
    data = long + newer + packed + newer
    assert len(index_by(compiled, set_of(data))) == 400
    for cut in (0, 1, 20, 100, 330, len(newer), len(newer) + len(packed) + 5):
        agree(compiled, data[: len(data) - cut], 13)
    middle = m.scan(memoryview(long[: len(long) // 2]), 0).end
    for size in (13, 14, 0, -1, -(1 << 31), (1 << 31) - 1):
        agree(compiled, data[: middle + 8] + struct.pack(">i", size) + data[middle + 12 :])
        agree(compiled, data[: len(long) + middle + 8] + struct.pack(">i", size) + data[len(long) + middle + 12 :])
    for at in (8, 11, 16, 17):  # size and kind of the entry where the format changes
        for bit in range(8):
            flipped = bytearray(data)
            flipped[len(long) + at] ^= 1 << bit
            agree(compiled, bytes(flipped))


@settings(max_examples=150, deadline=None)
@given(
    runs=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30), st.integers(0, 1)), min_size=1, max_size=6),
    flips=st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 7)), max_size=2),
    cut=st.integers(0, 200),
)
def test_stretches_of_one_size_are_hopped_over_as_entry_by_entry(
    runs: list[tuple[int, int, int]], flips: list[tuple[int, int]], cut: int, compiled: Kernels
) -> None:
    entries = [entry(n, b"v" * size, None, magic) for size, count, magic in runs for n in range(count)]
    data = bytearray(b"".join(entries))
    for at, bit in flips:
        data[at % len(data)] ^= 1 << bit
    del data[len(data) - min(cut, len(data) - 1) :]
    at = count = last = 0
    kind, least = int.from_bytes(data[16:18], signed=True), 14  # as scanning reads it
    while at + 26 <= len(data):
        offset, size, found = struct.unpack_from(">qi4xh", data, at)
        if found != kind or size < least or at + 12 + size > len(data):
            break
        at, count, last = at + 12 + size, count + 1, offset
    assert compiled.hop(bytes(data), 0, kind, least) == (at, count, last)


@given(
    st.lists(st.tuples(st.sampled_from([None, b"kkk", b"kkkk"]), st.sampled_from([b"vvvvv", b"vvvvvv"])), max_size=200),
    st.integers(0, 80),
    st.integers(0, 120),
    st.sampled_from([0, 1]),
)
def test_a_piece_ends_behind_its_last_complete_entry_whatever_their_sizes(
    differ: list[tuple[bytes | None, bytes]], alike: int, cut: int, magic: int
) -> None:
    pairs = [*differ, *[(b"kk", b"v")] * alike, *differ]
    whole = [entry(7 + n, value, key, magic) for n, (key, value) in enumerate(pairs)]
    data = b"".join(whole)[: -cut or None]
    at = count = 0
    while count < len(whole) and at + len(whole[count]) <= len(data):
        at, count = at + len(whole[count]), count + 1
    with running(None, scanning):
        found = indexing._hop(memoryview(data), magic)
    assert found == (at, count, 6 + count if count else 0)


# ---- which form runs -------------------------------------------------------------------------------------------

SHOWN = """
import sys
from kafkawire import kernels
from kafkawire.formats.v01.messages import encode, message_set
from kafkawire.errors import LocalError
try:
    print(kernels.name())
    kernels.prepare()
    found = message_set("t", 0, 0, memoryview(encode([(0, b"k", b"v", 1)])), -1)[0].index()
except LocalError as exc:
    sys.exit(f"refused: {exc}")
print(type(found.offsets).__name__, list(found.offsets), found.values(), "numba" in sys.modules)
"""
HIDDEN = """
import importlib.util as u
real = u.find_spec
u.find_spec = lambda name, *more: None if name == "numba" else real(name, *more)
"""


def shown(text: str = SHOWN, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("KAFKAWIRE_KERNELS", "NUMBA_CACHE_DIR")}
    return subprocess.run(
        [sys.executable, "-c", text], env={**kept, **environment}, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A folder with what a process compiled that found nothing in it, and what that process said."""
    folder = tmp_path_factory.mktemp("kept") / "deep" / "cache"
    return folder, shown(KAFKAWIRE_CACHE=str(folder))


def test_python_asked_for_never_loads_numba() -> None:
    assert shown(KAFKAWIRE_KERNELS="python").stdout.split("\n")[:2] == ["python", "list [0] [b'v'] False"]


def test_without_numba_auto_runs_in_python_and_numba_asked_for_is_one_sentence() -> None:
    assert shown(HIDDEN + SHOWN).stdout.split("\n")[:2] == ["python", "list [0] [b'v'] False"]
    refused = shown(HIDDEN + SHOWN, KAFKAWIRE_KERNELS="numba")
    assert refused.stderr.strip() == (
        "refused: KAFKAWIRE_KERNELS=numba: numba is not installed; the extra kafka-legacy-mirror[fast] has it"
    )


def test_an_unknown_choice_is_refused_with_those_there_are() -> None:
    assert "KAFKAWIRE_KERNELS=cython: known are auto, python, numba" in shown(KAFKAWIRE_KERNELS="cython").stderr


@pytest.mark.thorough
def test_what_was_compiled_is_kept_in_the_folder_named_and_found_again(
    kept: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, first = kept
    written = {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")}
    again = shown(KAFKAWIRE_CACHE=str(folder), KAFKAWIRE_KERNELS="numba")
    for run in (first, again):
        assert run.stdout.startswith("numba ")
        assert "memoryview [0] [b'v'] True" in run.stdout
        assert run.stderr == ""
    assert written
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o700]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")} == written


@pytest.mark.thorough
def test_a_cache_that_cannot_be_written_or_read_costs_a_warning_only(
    kept: tuple[Path, subprocess.CompletedProcess[str]], passable_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = passable_path / "a file"
    blocked.write_text("")
    run = shown(KAFKAWIRE_CACHE=str(blocked))
    assert "memoryview [0] [b'v'] True" in run.stdout
    assert "set KAFKAWIRE_CACHE to another folder" in run.stderr
    folder = passable_path / "cache"
    shutil.copytree(kept[0], folder)
    monkeypatch.setenv("KAFKAWIRE_CACHE", str(folder))
    for mode in (0o777, 0o775):
        folder.chmod(mode)
        assert cache_folder() is None
    folder.chmod(0o755)
    assert cache_folder() == folder
    broken = list(folder.rglob("*.nb?"))
    assert broken
    for path in broken:
        path.write_bytes(path.read_bytes()[:50])
    run = shown(KAFKAWIRE_CACHE=str(folder))
    assert "memoryview [0] [b'v'] True" in run.stdout
    assert "Traceback" not in run.stderr


def test_the_version_tells_which_kernels_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKAWIRE_KERNELS", "python")
    told = CliRunner().invoke(main, ["--version", "-v"])
    assert told.exit_code == 0
    assert re.fullmatch(r"kafkawire \S+\ncolumn kernels python\n", told.output)
    monkeypatch.setenv("KAFKAWIRE_KERNELS", "numba")
    assert re.search(r"\ncolumn kernels numba \d+\.\d+", CliRunner().invoke(main, ["--version", "-v"]).output)
    monkeypatch.setenv("KAFKAWIRE_KERNELS", "fortran")
    refused = CliRunner().invoke(main, ["--version", "-v"])
    assert (refused.exit_code, "known are auto, python, numba" in refused.output) == (2, True)
