"""Columns of sets of 0.7: both forms against messages(), on whole, cut and damaged sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.columns import Columns, Field, Part, gather_by
from kafkawire.errors import CorruptMessage, SetTooLarge
from kafkawire.formats.compiled import Kernels, load
from kafkawire.formats.v07 import messages as m
from kafkawire.formats.v07 import scan as scanning
from kafkawire.formats.v07.columns import index_by
from kafkawire.formats.v07.messages import encode, message_set
from kafkawire.kernels import cache_folder
from kafkawire.model import MessageSet
from tests.kafkawire.forms import running
from tests.kafkawire.test_v07_messages import GROUPS, ID, built, entry, row, wrapped

LIMIT = 100_000
Told = tuple[list[tuple[int, bytes | None]], tuple[type, str, int, int | None] | None]


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    return load(cache_folder())


def told_of(damage: CorruptMessage | None) -> tuple[type, str, int, int | None] | None:
    return None if damage is None else (type(damage), str(damage), damage.position, damage.offset)


def by_messages(whole: MessageSet, check_crcs: bool) -> tuple[Told, int]:
    """What messages() tells, and how far one may commit who did all of them."""
    rows, damage, reached = [], None, whole.start
    try:
        for message in m.messages(whole, check_crcs, LIMIT):
            rows.append((message.offset, message.value))
            reached = message.resume_at
    except CorruptMessage as exc:
        damage = exc
    return (rows, told_of(damage)), reached if damage else whole.resume_at


def by_columns(found: Columns) -> Told:
    assert found.keys() == [None] * len(found)
    assert (found.timestamps_ms, found.timestamp_types) == (None, None)
    return list(zip(found.offsets, found.values(), strict=True)), told_of(found.damage)


def agree(kernels: Kernels, data: bytes, start: int = 0, wanted: int | None = None) -> None:
    """messages(), the pure and the compiled form tell the same of a set, with checksums looked at and without."""
    whole, found = message_set("t", ID, start, memoryview(data), None)
    for form in (kernels, None):
        with running(form, scanning):
            again = message_set("t", ID, start, memoryview(bytearray(data)), None)[1]
        assert replace(again, damage=None) == replace(found, damage=None)
        assert told_of(again.damage) == told_of(found.damage)
    if wanted is not None:
        whole = replace(whole, start=wanted)
    borders = {whole.start, whole.resume_at, *(run.resume_at for run in whole.runs)}
    borders |= {message.resume_at for message in until_damage(whole)}
    for check_crcs in (True, False):
        told, reached = by_messages(whole, check_crcs)
        for form in (kernels, None):
            with running(form, scanning):
                try:
                    at_once = index_by(form, whole, check_crcs, LIMIT)
                except SetTooLarge:  # damage of a length has it declare more than all columns may hold at once
                    pass
                else:
                    assert by_columns(at_once) == told
                    # An empty wrapper before damage is passed, too.
                    assert at_once.resume_at >= max(reached, whole.start)
                    assert at_once.resume_at in borders
                in_pieces(form, whole, check_crcs, told, borders)


def until_damage(whole: MessageSet) -> Iterator[m.Message]:
    try:
        yield from m.messages(whole, limit=LIMIT)
    except CorruptMessage:
        return


def in_pieces(kernels: Kernels | None, whole: MessageSet, check_crcs: bool, told: Told, borders: set[int]) -> None:
    """Pieces together are what the set is; each ends at an entry's border, behind all that it holds."""
    for most in (1, 60, 1000):
        parts = list(m.pieces_by(kernels, whole, check_crcs, most, LIMIT))
        rows = [each for part in parts for each in by_columns(part)[0]]
        assert (rows, told_of(parts[-1].damage)) == told
        assert all(part.damage is None for part in parts[:-1])
        reached = whole.start
        for part in parts:
            assert part.resume_at >= reached
            assert all(offset < part.resume_at for offset in part.offsets) or part.damage is not None
            assert check_crcs is False or part.resume_at in borders
            reached = part.resume_at
        if told[1] is None:
            assert reached == whole.resume_at


@settings(max_examples=60, deadline=None)
@given(groups=GROUPS, start=st.integers(0, 1 << 62), cut=st.integers(0, 100))
def test_both_forms_find_what_messages_finds(
    compiled: Kernels, groups: list[tuple[list[bytes], tuple[int, int]]], start: int, cut: int
) -> None:
    data, _ = built(groups, start)
    agree(compiled, data[: max(0, len(data) - cut)], start)


@settings(max_examples=60, deadline=None)
@given(groups=GROUPS, draw=st.data())
def test_both_forms_stop_at_the_same_damage(
    compiled: Kernels, groups: list[tuple[list[bytes], tuple[int, int]]], draw: st.DataObject
) -> None:
    data = bytearray(built(groups, 70)[0])
    for _ in range(draw.draw(st.integers(1, 3))):
        if data:
            data[draw.draw(st.integers(0, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    agree(compiled, bytes(data), 70)


@settings(max_examples=60, deadline=None)
@given(groups=GROUPS, cut=st.integers(0, 100), flip=st.integers(0, 1 << 20), codec=st.sampled_from([1, 2]))
def test_a_wrapper_is_read_as_the_set_inside_is(
    compiled: Kernels, groups: list[tuple[list[bytes], tuple[int, int]]], cut: int, flip: int, codec: int
) -> None:
    """Wherever that one is cut, unless nothing of it is whole; and whatever is damaged in it, all forms agree."""
    inner = built(groups, 0)[0]
    inner = inner[: max(0, len(inner) - cut)]
    alone = [value for _, value in by_messages(message_set("t", ID, 0, memoryview(inner), None)[0], True)[0][0]]
    data = wrapped(inner, codec) + entry(b"behind")
    agree(compiled, data, 70)
    rows, damage = by_messages(message_set("t", ID, 70, memoryview(data), None)[0], True)[0]
    if alone or len(inner) < 4:
        assert ([value for _, value in rows], damage) == ([*alone, b"behind"], None)
    else:
        assert damage is not None
    if inner:
        at, bit = flip % (8 * len(inner)) // 8, flip % 8
        inner = inner[:at] + bytes([inner[at] ^ 1 << bit]) + inner[at + 1 :]
        agree(compiled, wrapped(inner, codec) + entry(b"behind"), 70)


@settings(max_examples=40, deadline=None)
@given(groups=GROUPS, draw=st.data())
def test_both_forms_begin_at_the_same_entry(
    compiled: Kernels, groups: list[tuple[list[bytes], tuple[int, int]]], draw: st.DataObject
) -> None:
    data, _ = built(groups, 500)
    agree(compiled, data, 500, wanted=500 + draw.draw(st.integers(0, len(data))))


@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=80), head=st.integers(0, 30))
def test_rubbish_is_read_alike(compiled: Kernels, data: bytes, head: int) -> None:
    agree(compiled, data, 3)
    agree(compiled, encode([row(b"good")]) + head.to_bytes(4, "big") + b"\1" + data, 3)


@pytest.mark.parametrize("magic", [-1, -2])
@pytest.mark.parametrize("size", [0, 1, 100])
def test_neighbours_that_are_alike(compiled: Kernels, magic: int, size: int) -> None:
    rows = [row(b"%0*d" % (size, n % 10) if size else b"") for n in range(40)]
    data = encode(rows, 0, magic)
    agree(compiled, data, 9)
    agree(compiled, data[:-1] + b"?", 9)
    agree(compiled, data + encode(rows, 0, -3 - magic) + wrapped(data), 9)
    step = len(data) // 40
    agree(compiled, data, 9, wanted=9 + 11 * step + 1)
    for at in (20 * step + 4, 20 * step + 5, 20 * step + 3):  # another format, codec, length among them
        agree(compiled, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], 9)


def test_damage_in_a_wrapper_leaves_the_commit_at_the_wrapper(compiled: Kernels) -> None:
    good, bad = entry(b"good"), wrapped(entry(b"a") + entry(b"b", crc=1))
    whole = message_set("t", ID, 100, memoryview(good + bad + good), None)[0]
    for form in (compiled, None):
        found = index_by(form, whole)
        assert (found.values(), list(found.offsets)) == ([b"good", b"a"], [100, 100 + len(good)])
        assert found.resume_at == 100 + len(good)
        assert found.damage is not None
        assert found.damage.position == len(good)


def test_a_piece_holds_whole_wrappers(compiled: Kernels) -> None:
    groups = [encode([row(b"%d" % n) for n in range(50)], codec) for codec in (1, 2, 0, 1)]
    whole = message_set("t", ID, 1000, memoryview(b"".join(groups)), None)[0]
    for form in (compiled, None):
        with running(form, scanning):
            parts = list(m.pieces_by(form, whole, True, 400))
        assert len(parts) > 3
        assert [value for part in parts for value in part.values()] == [b"%d" % n for n in range(50)] * 4
        wrappers = {run.resume_at - (run.end - run.begin) for run in whole.runs if run.codec}
        seen = [set(part.offsets) & wrappers for part in parts]
        assert sum(map(len, seen)) == 3  # each in one piece only


def test_positions_beyond_int64_are_read_in_python(compiled: Kernels) -> None:
    start = (1 << 63) - 5
    whole = message_set("t", ID, start, memoryview(encode([row(b"a"), row(b"b")])), None)[0]
    assert list(index_by(compiled, whole).offsets) == [start, start + 11]


def test_what_gathers_columns_takes_those_of_0_7(compiled: Kernels) -> None:
    values = [b"x" * (n % 7) for n in range(500)]
    whole = message_set("t", ID, 0, memoryview(encode([row(value) for value in values])), None)[0]
    for form in (compiled, None):
        found = index_by(form, whole)
        gathered = gather_by(form, [Part(found, 0, 500)], Field.VALUE)
        assert (bytes(gathered.data), gathered.nulls) == (b"".join(values), 0)
        assert gather_by(form, [Part(found, 0, 500)], Field.KEY).nulls == 500


@pytest.mark.parametrize("magic", [-1, -2])
@pytest.mark.parametrize("size", [0, 1, 9])
def test_any_bit_among_many_that_are_alike_is_found(compiled: Kernels, magic: int, size: int) -> None:
    """Neighbours are checked by one checksum over all of them."""
    data = encode([row(b"%0*d" % (size, n % 10) if size else b"") for n in range(40)], 0, magic)
    step = len(data) // 40
    for at in range(len(data)):
        if at % step < 7 + magic:
            continue  # length, magic, attributes: no checksum covers them
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        whole = message_set("t", ID, 0, memoryview(damaged), None)[0]
        for form in (compiled, None):
            found = index_by(form, whole)
            assert (len(found), found.resume_at) == (at // step, at // step * step)
        assert sum(1 for _ in until_damage(whole)) == at // step
