"""Blocks of headers: what is packed comes out again, and what makes no sense is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.dialects import dialect
from kafkawire.errors import LocalError, RemoteError
from kafkawire.headers import NO_HEADERS, packed, unpacked
from kafkawire.varints import varint, written

VALUES = st.none() | st.binary(max_size=200)


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=70), VALUES), max_size=80))
def test_headers_come_out_as_they_were_packed(headers: list[tuple[str, bytes | None]]) -> None:
    block = packed(headers)
    assert (block is None) == (not headers)
    assert unpacked(block) == tuple(headers)


def test_the_bytes_are_those_of_the_format() -> None:
    assert packed([("h1", b"\1\2"), ("h2", None)]) == bytes.fromhex("04 04 6831 04 0102 04 6832 01")
    assert unpacked(NO_HEADERS) == () == unpacked(b"") == unpacked(None)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_a_number_is_read_as_it_was_written(number: int) -> None:
    data = written(number)
    assert varint(data, 0) == (number, len(data))


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1])
def test_a_number_of_more_than_64_bits_is_our_fault(number: int) -> None:
    with pytest.raises(LocalError, match="does not fit into 64 bits"):
        written(number)


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ([(b"name", b"")], "the name of a header is text, not bytes"),
        ([("name", "text")], "header 'name': its value is bytes or None, not str"),
        (["ab", "abc"], "header|name and a value"),
    ],
)
def test_what_is_no_header_is_our_fault(headers: list[tuple[str, bytes]], why: str) -> None:
    with pytest.raises(LocalError, match=why):
        packed(headers)


@pytest.mark.parametrize("block", [b"\2", b"\2\2", b"\2\1\1", b"\2\2a\2", b"\0\0", b"\x80" * 11, b"\2\2a\1 "])
def test_what_is_no_block_is_said(block: bytes) -> None:
    with pytest.raises(RemoteError, match=r"headers|after the last header"):
        unpacked(block)


@pytest.mark.parametrize("release", ["0.7.2", "0.8.2", "0.10.2"])
def test_formats_without_headers_refuse_them(release: str) -> None:
    messages = dialect(release).messages
    row = (0, None, b"value", None)
    assert messages.encode([row], magic=dialect(release).magic, headers=[None])
    with pytest.raises(LocalError, match="has no headers"):
        messages.encode([row], magic=dialect(release).magic, headers=[packed([("a", b"b")])])
