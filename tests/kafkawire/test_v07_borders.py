"""Where the next entry of a 0.7 log begins, found in bytes that begin anywhere."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.formats.v07.borders import next_border
from kafkawire.formats.v07.messages import encode

VALUES = [b"one", b"", b"three" * 40, b"\x00" * 60, b"\x00\x00\x01\x01\x00\x02" * 9, b"last"]


def log_of(values: list[bytes], magic: int = -1) -> tuple[bytes, list[int]]:
    """A log, and where its entries begin."""
    entries = [bytes(encode([(0, None, value, None)], 0, magic)) for value in values]
    return b"".join(entries), [sum(map(len, entries[:n])) for n in range(len(entries) + 1)]


@pytest.mark.parametrize("magic", [-2, -1])
def test_from_any_byte_the_next_entry_is_found(magic: int) -> None:
    log, borders = log_of(VALUES, magic)
    for at in range(borders[-2] + 1):
        assert next_border(log, at) == next(border for border in borders if border >= at), at
    assert next_border(log, borders[-2] + 1) is None  # inside the last one


@settings(deadline=None, max_examples=60)
@given(st.lists(st.binary(max_size=80), min_size=3, max_size=12), st.randoms(use_true_random=False))
def test_an_entry_is_found_in_a_window_of_the_log(values: list[bytes], rng: random.Random) -> None:
    log, borders = log_of([*values, b"end"])
    at = rng.randrange(borders[-2])
    found = next_border(log[at:])
    assert found is not None
    assert at + found in borders


def test_bytes_that_hold_no_entry_have_none() -> None:
    for data in (b"", b"\x00", bytes(100_000), b"text without any entry " * 1000, random.Random(7).randbytes(100_000)):
        assert next_border(data) is None


def test_a_head_without_its_payload_is_no_proof() -> None:
    entry = bytes(encode([(0, None, b"v" * 100, None)], 0, -1))
    assert next_border(b"xxxx" + entry[:-1]) is None
    assert next_border(b"xxxx" + entry) == 4
    assert next_border(b"xxxx" + entry + entry[:20]) == 4  # and what follows begins as one
    assert next_border(b"xxxx" + entry + b"\xff" * 20) is None  # what follows is none


def test_a_message_that_holds_a_log_looks_like_one() -> None:
    """The one thing nobody can tell: bytes inside it that are entries in every respect."""
    inner, _ = log_of([b"one", b"two"])
    log, borders = log_of([b"first", b"..." + inner, b"last"])
    assert next_border(log, borders[1] + 1) == borders[1] + 10 + 3
    assert next_border(log, borders[1]) == borders[1]


def test_an_empty_message_alone_is_no_proof() -> None:
    empty = bytes(encode([(0, None, b"", None)], 0, -1))
    assert next_border(b"xx" + empty * 30) is None
