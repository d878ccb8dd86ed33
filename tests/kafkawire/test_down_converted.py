"""What brokers from 0.11 on make of a fetch in old formats: a batch sent twice, padding, sets that are null."""

from __future__ import annotations

import struct

import pytest

from kafkawire.errors import Truncated
from kafkawire.formats.compiled import Kernels, load
from kafkawire.formats.v01 import scan as scanning
from kafkawire.formats.v01.columns import index_by
from kafkawire.formats.v01.messages import Row, encode, message_set
from kafkawire.kernels import cache_folder
from kafkawire.protocol.requests08 import FetchReplyParser
from tests.kafkawire.forms import running

PADDING = struct.pack(">qi", -1, 61)  # all there is where nothing behind a control batch can be converted


def rows_of(first: int, count: int) -> list[Row]:
    return [(n, b"k", b"value %d" % n, n) for n in range(first, first + count)]


def doubled(codec: int, magic: int, size: int = 13) -> bytes:
    """As a broker answers a fetch at a control batch, offset 26: the batch behind it twice, then the next one."""
    batch = encode(rows_of(27, size), codec, magic)
    return batch + batch + encode(rows_of(28 + size, 40), codec, magic)


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    return load(cache_folder())


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("size", [1, 13, 300, 2000])
@pytest.mark.parametrize("form", ["python", "numba"])
def test_the_batch_that_a_broker_repeats_is_read_once_by_every_reader(
    magic: int, codec: int, size: int, form: str, request: pytest.FixtureRequest
) -> None:
    data = doubled(codec, magic, size)
    kernels = None if form == "python" else request.getfixturevalue("compiled")
    with running(kernels, scanning):
        fetched, found = message_set("t", 0, 26, memoryview(data), 1 << 40)
    expected = [*range(27, 27 + size), *range(28 + size, 68 + size)]
    assert [message.offset for message in fetched.messages()] == expected
    assert list(index_by(kernels, fetched).offsets) == expected
    assert [n for piece in fetched.pieces() for n in piece.offsets] == expected
    assert fetched.resume_at == found.resume_at == 68 + size
    behind = len(encode(rows_of(27, size), codec, magic))
    assert all(
        run.end <= behind or run.begin >= 2 * behind for run in fetched.runs
    )  # what is passed through ends there


def test_what_is_fetched_from_inside_a_repeated_batch_is_read_once_too() -> None:
    fetched, _ = message_set("t", 0, 30, memoryview(doubled(0, 1)), 80)
    assert [message.offset for message in fetched.messages()][:11] == [*range(30, 40), 41]


def test_a_damaged_offset_makes_no_repetition() -> None:
    """No checksum covers it: what goes back and was not there before is a message like any other."""
    for at, wrong in ((3, 1 << 40), (5, 1)):
        data = bytearray(b"".join(encode([row]) for row in rows_of(0, 10)))
        size = len(data) // 10
        struct.pack_into(">q", data, at * size, wrong)
        fetched, found = message_set("t", 0, 0, memoryview(data), 10)
        assert [message.value for message in fetched.messages()] == [row[2] for row in rows_of(0, 10)]
        assert found.resume_at == 10


def test_padding_alone_says_that_a_whole_batch_was_left_out() -> None:
    fetched, found = message_set("t", 0, 26, memoryview(PADDING), 27)
    assert found.left_out
    assert (found.needed, found.damage, fetched.runs, fetched.resume_at) == (0, None, (), 27)
    larger = struct.pack(">qi", -1, 500 + 1) + bytes(488)
    assert message_set("t", 0, 26, memoryview(larger), 27)[1].left_out


@pytest.mark.parametrize("rest", [1, 7, 8, 11, 12, 25, 26, 300])
def test_padding_behind_messages_is_left_for_the_next_fetch(rest: int) -> None:
    data = encode(rows_of(27, 3), 0, 1)
    filled = (struct.pack(">qi", -1, max(rest + 1, 61)) + bytes(rest))[:rest]
    fetched, found = message_set("t", 0, 26, memoryview(data + filled), 31)
    assert [message.offset for message in fetched.messages()] == [27, 28, 29]
    assert (found.resume_at, found.damage, found.left_out) == (30, None, False)
    # of a compacted batch whose last messages are gone a broker sends what came before the position asked for
    behind, found = message_set("t", 0, 30, memoryview(data + filled), 31)
    assert (behind.runs, found.left_out, found.resume_at) == ((), True, 31)


def test_a_cut_entry_is_no_padding() -> None:
    data = encode(rows_of(27, 1), 0, 1)
    for cut in (1, 7, 8, 12, 20, len(data) - 1):
        found = message_set("t", 0, 27, memoryview(data[:cut]), 31)[1]
        assert not found.left_out
        assert found.needed
        assert found.resume_at == 27


def test_a_set_that_is_null_is_an_empty_one() -> None:
    """Kafka 3.x beside error 76; a set of any other negative size is nonsense."""
    row = struct.pack(">ihqi", 3, 76, -1, -1)
    entries = encode(rows_of(0, 2))
    other = struct.pack(">ihqi", 4, 0, 2, len(entries)) + entries
    body = struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", 2) + row + other
    parser = FetchReplyParser(0, len(body))
    parser.feed(memoryview(body))
    assert parser.complete
    found = [(fetched.tp.partition, fetched.error, bytes(fetched.buffer)) for fetched in parser.result()]
    assert found == [(3, 76, b""), (4, 0, entries)]
    broken = body.replace(row, struct.pack(">ihqi", 3, 76, -1, -2))
    with pytest.raises(Truncated, match=r"t/3 has a set of -2 bytes"):
        FetchReplyParser(0, len(broken)).feed(memoryview(broken))
