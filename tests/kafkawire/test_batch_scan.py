"""Record batches found by their heads: what is delivered, what is left out, and logs that hold every format."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.errors import CorruptMessage, UnknownMagic
from kafkawire.formats import mixed
from kafkawire.formats.compiled import load
from kafkawire.formats.mixed import message_set, scan
from kafkawire.formats.v01 import messages as v01
from kafkawire.formats.v2 import scan as batchscan
from kafkawire.formats.v2.layout import LOG_APPEND_TIME
from kafkawire.kernels import cache_folder
from kafkawire.model import Scan
from tests.kafkawire.recordbatches import (
    ABORT,
    COMMIT,
    TRANSACTIONAL,
    batch,
    marker,
    rows_of,
)


def delivered(data: bytes, start: int = 0, aborted: tuple[tuple[int, int], ...] = ()) -> list[int]:
    return [message.offset for message in message_set("t", 0, start, memoryview(data), 99, aborted)[0].messages()]


def transactional(first: int, count: int, producer: int) -> bytes:
    return batch(rows_of(first, count), TRANSACTIONAL, producer=producer)


# ---- batches -------------------------------------------------------------------------------------------------------


def test_each_batch_is_a_run_of_its_own_and_atomic() -> None:
    data = batch(rows_of(5, 3)) + batch(rows_of(8, 2), 1) + batch(rows_of(12, 1), last=20)
    whole, found = message_set("t", 0, 5, memoryview(data), 99)
    assert [(run.codec, run.magic, run.entries, run.resume_at) for run in whole.runs] == [
        (0, 2, 3, 8), (1, 2, 2, 10), (0, 2, 1, 21),
    ]  # fmt: skip
    assert all(run.atomic for run in whole.runs)
    assert (found.end, found.resume_at, found.damage, whole.entries) == (len(data), 21, None, 6)
    for run in whole.runs:
        assert list(whole.cut(run, 1)) == [run]
        assert whole.before(run, run.resume_at) == run
        assert whole.before(run, run.resume_at - 1) is None
        assert not whole.stamped(run)
    stamped, _ = message_set("t", 0, 5, memoryview(batch(rows_of(5, 3), LOG_APPEND_TIME)), 99)
    assert stamped.stamped(stamped.runs[0])


def test_what_ends_before_the_position_is_left_out_and_what_contains_it_is_read_from_there() -> None:
    data = batch(rows_of(0, 5)) + batch(rows_of(5, 5)) + batch(rows_of(10, 5))
    for start in range(16):
        found = scan(data, start)
        assert delivered(data, start) == list(range(start, 15))
        assert len(found.runs) == (15 - start + 4) // 5
        assert found.resume_at == max(start, 15)


def test_a_cut_tail_is_left_for_the_next_fetch_and_a_first_batch_says_what_it_needs() -> None:
    first, second = batch(rows_of(0, 5)), batch(rows_of(5, 500))
    for end in range(len(first), len(first) + len(second)):
        found = scan((first + second)[:end], 0)
        assert (found.end, found.resume_at, found.damage, len(found.runs)) == (len(first), 5, None, 1)
    for end in (1, 11, 12, 16, 17, 60, 61, len(first) - 1):
        found = scan(first[:end], 0)
        assert (found.runs, found.end, found.resume_at, found.damage) == ((), 0, 0, None)
        assert found.needed == (len(first) if end >= 12 else found.needed)
        assert found.needed > 0
    assert scan(b"", 7) == Scan(0, 7, (), 0, None)


@pytest.mark.parametrize(
    ("size", "why"), [(-1, "impossible size -1"), (0, "impossible size 0"), (48, "impossible size 48")]
)
def test_a_size_that_no_batch_has_is_damage(size: int, why: str) -> None:
    good, bad = batch(rows_of(0, 5)), bytearray(batch(rows_of(5, 5)))
    struct.pack_into(">i", bad, 8, size)
    found = scan(good + bytes(bad), 0)
    assert isinstance(found.damage, CorruptMessage)
    assert f"impossible size {size}" in found.damage.why
    assert (found.damage.position, found.damage.offset, found.resume_at, len(found.runs)) == (len(good), 5, 5, 1)


def test_offsets_that_do_not_ascend_are_damage() -> None:
    data = batch(rows_of(10, 5)) + batch(rows_of(14, 5))
    found = scan(data, 10)
    assert found.damage is not None
    assert found.damage.why == "it begins at offset 14, and the batch before it ends at 14"
    assert (len(found.runs), found.resume_at) == (1, 15)


def test_an_unknown_format_is_damage() -> None:
    bad = bytearray(batch(rows_of(5, 5)))
    bad[16] = 3
    found = scan(batch(rows_of(0, 5)) + bytes(bad), 0)
    assert isinstance(found.damage, UnknownMagic)
    assert (len(found.runs), found.resume_at) == (1, 5)


# ---- what is left out ----------------------------------------------------------------------------------------------


def test_aborted_transactions_are_left_out_as_the_java_consumer_does() -> None:
    """Producers 1 and 2 at once; 1 aborts, begins again and commits; a plain producer between them."""
    data = b"".join(
        (
            transactional(0, 5, 1),
            transactional(5, 5, 2),
            batch(rows_of(10, 5), producer=1),  # of the same id, but in no transaction
            marker(15, 1, ABORT),
            transactional(16, 4, 1),
            marker(20, 2, COMMIT),
            transactional(21, 4, 2),
            marker(25, 1, COMMIT),
            batch(rows_of(26, 2), producer=-1),
            marker(28, 2, ABORT),
            transactional(29, 1, 2),
        )
    )
    aborted = ((2, 21), (1, 0))  # in no order
    expected = [*range(5, 15), *range(16, 20), 26, 27, 29]
    for start in (0, 3, 15, 16, 25):
        relevant = aborted if start <= 15 else aborted[:1]
        assert delivered(data, start, relevant) == [n for n in expected if n >= start]
    assert delivered(data) == [*range(15), *range(16, 20), *range(21, 25), 26, 27, 29]  # read_uncommitted
    assert scan(data, 0, aborted).resume_at == 30


@pytest.mark.parametrize("tail", [b"", batch(rows_of(40, 3))])
def test_reading_goes_on_behind_what_holds_no_message(tail: bytes) -> None:
    """A marker, an aborted transaction, and a head that a cleaner left alone."""
    data = transactional(20, 5, 1) + marker(25, 1, ABORT) + batch([], base=26, last=39) + tail
    found = scan(data, 20, ((1, 20),))
    assert (found.resume_at, found.damage, found.left_out) == (43 if tail else 40, None, not tail)
    assert delivered(data, 20, ((1, 20),)) == ([40, 41, 42] if tail else [])


def test_a_marker_that_a_cleaner_emptied_ends_nothing() -> None:
    data = transactional(0, 2, 1) + batch([], TRANSACTIONAL | 0x20, base=2, last=2, producer=1) + transactional(3, 2, 1)
    assert delivered(data, 0, ((1, 0),)) == []
    assert scan(data, 0, ((1, 0),)).resume_at == 5


@pytest.mark.parametrize("bad", ["marker", "aborted", "emptied"])
def test_what_would_be_left_out_is_checked_first(bad: str) -> None:
    """A wrong bit that makes a marker of a batch must not lose its messages."""
    pieces = {
        "marker": marker(5, 1, COMMIT),
        "aborted": transactional(5, 2, 1),
        "emptied": batch([], base=5, last=9),
    }
    data = bytearray(pieces[bad])
    data[40] ^= 1  # of a timestamp
    good = batch(rows_of(0, 5))
    found = scan(good + bytes(data), 0, ((1, 5),))
    assert found.damage is not None
    assert (found.damage.why, found.resume_at) == ("wrong checksum", 5)
    alone = scan(bytes(data), 5, ((1, 5),))
    assert (alone.damage is not None, alone.resume_at, alone.left_out) == (True, 5, False)
    behind = scan(marker(4, 9, COMMIT) + bytes(data), 4, ((1, 5),))
    assert (behind.damage, behind.resume_at, behind.left_out) == (None, 5, True)  # the next fetch begins at the damage


def test_a_damaged_abort_marker_is_damage() -> None:
    short = batch(rows_of(3, 1), TRANSACTIONAL | 0x20, producer=1)  # its key is b"k3"
    found = scan(transactional(0, 3, 1) + short, 1, ((1, 0),))
    assert (found.resume_at, found.left_out, found.damage) == (3, True, None)
    found = scan(short, 3, ((1, 0),))
    assert found.damage is not None
    assert "shorter than its type" in found.damage.why


# ---- one entry for policies and searches ----------------------------------------------------------------------------


def test_an_entry_leads_on_where_what_follows_it_lies_behind() -> None:
    first, second = batch(rows_of(5, 3), last=9), batch(rows_of(10, 2))
    entry = mixed.entry_at(first + second, 0, 5)
    assert entry is not None
    assert (entry.offset, entry.resume_at, entry.wrapper, entry.nbytes) == (9, 10, True, len(first))
    far = bytearray(first)
    struct.pack_into(">i", far, 23, 1000)  # last offset delta
    assert mixed.entry_at(bytes(far) + second, 0, 5) is None
    assert mixed.entry_at(first[:-1], 0, 5) is None
    assert mixed.entry_at(struct.pack(">qi", 5, 3) + first[12:], 0, 5) is None
    assert mixed.behind(first[:40], 0, 5) == 10
    assert mixed.behind(first[:20], 0, 5) is None
    assert mixed.behind(bytes(far), 0, 2000) is None


def test_a_response_that_ends_inside_its_first_batch_though_more_was_asked_for_is_damage() -> None:
    data = batch(rows_of(5, 50))[:200]
    assert mixed.cut_short(data, scan(data, 5), 5, 1000) is not None
    assert mixed.cut_short(data, scan(data, 5), 5, 100) is None


# ---- every format in one log ----------------------------------------------------------------------------------------

OLD = v01.encode([(n, b"k", b"v%d" % n, n) for n in range(5)], 0, 0)
STAMPED = v01.encode([(n, None, b"v%d" % n, 1000 + n) for n in range(5, 10)], 1, 1)
NEW = batch(rows_of(10, 5)) + batch(rows_of(15, 5), 2)


@pytest.mark.parametrize("start", [0, 3, 5, 7, 9, 10, 13, 17, 19, 20])
@pytest.mark.parametrize("form", ["python", "numba"])
def test_entries_of_every_format_stand_side_by_side(start: int, form: str) -> None:
    kernels = load(cache_folder()) if form == "numba" else None
    again = v01.encode([(n, None, b"w%d" % n, n) for n in range(20, 25)], 0, 1)
    data = OLD + STAMPED + NEW + again + batch(rows_of(25, 2))
    whole, found = message_set("t", 0, start, memoryview(data), 99)
    assert (found.end, found.resume_at, found.damage) == (len(data), 27, None)
    messages = list(whole.messages())
    assert [message.offset for message in messages] == list(range(start, 27))
    columns = whole.index()
    assert list(columns.offsets) == list(range(start, 27))
    assert columns.values() == [message.value for message in messages]
    assert columns.keys() == [message.key for message in messages]
    stamps = [-1 if message.timestamp_ms is None else message.timestamp_ms for message in messages]
    assert columns.timestamps_ms == stamps
    assert (columns.resume_at, columns.damage) == (27, None)
    parts = list(mixed.pieces_by(kernels, whole, True, 50))
    assert [offset for part in parts for offset in part.offsets] == list(range(start, 27))
    assert [value for part in parts for value in part.values()] == columns.values()
    assert parts[-1].resume_at == 27
    assert whole.format == 2


def test_sets_of_one_format_have_that_formats_reader() -> None:
    assert message_set("t", 0, 0, memoryview(OLD + STAMPED), 9)[0].reader is v01.READER
    assert message_set("t", 0, 10, memoryview(NEW), 9)[0].reader is mixed.batches.READER
    assert message_set("t", 0, 0, memoryview(OLD + NEW), 9)[0].reader is mixed.READER
    assert message_set("t", 0, 0, memoryview(OLD + STAMPED), 9)[1] == v01.scan(OLD + STAMPED, 0)
    empty = message_set("t", 0, 0, memoryview(b""), 9)[0]
    assert (list(empty.messages()), len(empty.index())) == ([], 0)
    assert len(list(mixed.pieces_by(None, empty))) == 1


def test_damage_in_an_older_stretch_ends_the_set_where_it_is() -> None:
    bad = bytearray(STAMPED)
    bad[-3] ^= 1
    whole, _ = message_set("t", 0, 0, memoryview(OLD + bytes(bad) + NEW), 99)
    read = whole.messages()
    assert [next(read).offset for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(CorruptMessage) as caught:
        next(read)
    assert caught.value.position == len(OLD)
    for columns in (whole.index(), *list(whole.pieces())[-1:]):
        assert columns.damage is not None
        assert (columns.damage.position, columns.resume_at) == (len(OLD), 5)
    cut = scan(NEW + OLD[:20], 10)
    assert (len(cut.runs), cut.damage, cut.resume_at) == (2, None, 20)
    behind = scan(NEW + struct.pack(">qi", 20, 3) + bytes(40), 10)
    assert behind.damage is not None
    assert (behind.damage.position, behind.resume_at) == (len(NEW), 20)


PIECES = [OLD, STAMPED, NEW, marker(20, 1, ABORT), batch([], base=30, last=31)]


@settings(max_examples=400, deadline=None)
@given(
    pieces=st.lists(
        st.sampled_from([OLD, STAMPED, NEW, marker(20, 1, ABORT), batch([], base=30, last=31)]), max_size=5
    ),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 60),
    start=st.sampled_from([0, 7, 12, 20, v01.LOWEST]),
)
def test_a_scan_of_any_bytes_ends_and_says_where(
    pieces: list[bytes], flips: list[tuple[int, int]], cut: int, start: int
) -> None:
    data = bytearray(b"".join(pieces))
    for at, byte in flips:
        if data:
            data[at % len(data)] = byte
    del data[max(0, len(data) - cut) :]
    whole, found = message_set("t", 0, start, memoryview(bytes(data)), 99, ((1, 0),))
    assert 0 <= found.end <= len(data)
    assert found.resume_at >= start
    ends = [0, *(place for run in found.runs for place in (run.begin, run.end)), found.end]
    assert ends == sorted(ends)
    try:
        read = [message.offset for message in whole.messages()]
    except CorruptMessage:
        read = []
    assert all(offset >= start for offset in read)


# ---- read at once, or field by field -------------------------------------------------------------------------------

KINDS = st.sampled_from([0, 1, LOG_APPEND_TIME, TRANSACTIONAL, -1])  # -1: the end of a transaction


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(KINDS, st.integers(1, 3), st.integers(0, 2)), max_size=5),
    st.integers(0, 16),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=2),
    st.integers(0, 80),
)
def test_heads_read_at_once_say_what_whole_heads_do(
    kinds: list[tuple[int, int, int]], start: int, flips: list[tuple[int, int]], cut: int
) -> None:
    data, at = bytearray(), 0
    for kind, count, hole in kinds:
        attributes = max(kind, 0)
        data += marker(at, 7, ABORT) if kind < 0 else batch(rows_of(at, count), attributes, last=at + count - 1 + hole)
        at += 1 if kind < 0 else count + hole
    for place, value in flips:
        if place < len(data):
            data[place] = value
    data = data[: len(data) - cut]

    def found() -> tuple[object, ...] | type[Exception]:
        try:
            seen = batchscan.scan(bytes(data), start, batchscan.AbortedTransactions([(7, 2)]))
        except UnknownMagic as other:
            return type(other)
        damage = seen.damage and (seen.damage.why, seen.damage.position, seen.damage.offset)
        return seen.end, seen.resume_at, seen.runs, seen.needed, damage, seen.left_out, seen.kept_back

    quick = found()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batchscan, "head_of", lambda buffer, begin: None)
        assert quick == found()
