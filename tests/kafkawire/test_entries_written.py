"""Plain entries and wrappers of formats v0 and v1 that are written by compiled loops: byte for byte what the pure form
writes, of lists and of columns, in either format and every codec."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.columns import Columns
from kafkawire.columns import Part as Stretch
from kafkawire.compression import GZIP, LZ4, SNAPPY
from kafkawire.errors import LocalError
from kafkawire.formats.compiled import Kernels, load
from kafkawire.formats.v01 import write
from kafkawire.headers import packed
from kafkawire.kernels import _CHOICE, cache_folder

BLOB = st.none() | st.binary(max_size=80) | st.integers(0, 20_000).map(bytes)
STAMP = st.none() | st.integers(-3, 1 << 45)
ROWS = st.lists(st.tuples(BLOB, BLOB, STAMP), min_size=1, max_size=30)
FORMS = [(magic, codec) for magic in (0, 1) for codec in (0, GZIP, SNAPPY, LZ4)]


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    return load(cache_folder())


def slowly(rows: list[Any], codec: int, magic: int) -> bytes:
    """The obvious twin: every entry on its own, and a wrapper around them."""
    found = b"".join(write.entries([(n, key, value, stamp)], magic) for n, (key, value, stamp) in enumerate(rows))
    if not codec:
        return found
    value = write.compression.compress(codec, found, magic)
    newest = max(-1 if stamp is None else stamp for *_, stamp in rows)
    return write.entries([(len(rows) - 1, None, value, newest)], magic, codec)


def laid(rows: list[Any], timed: bool) -> Columns:
    """Columns of rows, in a buffer with other bytes between what they point to."""
    data = bytearray(b"~~~")
    places: list[list[int]] = [[], [], [], []]
    for key, value, _ in rows:
        for field, (at, size) in zip((key, value), ((0, 1), (2, 3)), strict=True):
            places[at].append(len(data))
            places[size].append(-1 if field is None else len(field))
            data += (field or b"") + b"~"
    stamps = [-1 if stamp is None else stamp for *_, stamp in rows] if timed else None
    types = None if stamps is None else [0] * len(rows)
    return Columns(list(range(len(rows))), *places, stamps, types, bytes(data), len(rows), None)


@settings(deadline=None)
@given(rows=ROWS, form=st.sampled_from(FORMS))
def test_lists_are_written_as_by_the_twin(compiled: Kernels, rows: list[Any], form: tuple[int, int]) -> None:
    magic, codec = form
    keys, values, stamps = map(list, zip(*rows, strict=True))
    wanted = slowly(rows, codec, magic)
    for kernels in (None, compiled):
        assert bytes(write.encode_lists_by(kernels, keys, values, stamps, None, codec, magic)) == wanted
    untimed = slowly([(key, value, None) for key, value, _ in rows], codec, magic)
    for kernels in (None, compiled):
        assert bytes(write.encode_lists_by(kernels, keys, values, None, None, codec, magic)) == untimed


@settings(deadline=None)
@given(rows=ROWS, more=ROWS, form=st.sampled_from(FORMS), timed=st.booleans(), data=st.data())
def test_columns_are_written_as_by_the_twin(
    compiled: Kernels, rows: list[Any], more: list[Any], form: tuple[int, int], timed: bool, data: Any
) -> None:
    magic, codec = form
    since = data.draw(st.integers(0, len(rows) - 1))
    until = data.draw(st.integers(since + 1, len(rows)))
    parts = [Stretch(laid(rows, timed), since, until), Stretch(laid(more, timed), 0, len(more))]
    chosen = rows[since:until] + more
    wanted = slowly([(key, value, stamp if timed else None) for key, value, stamp in chosen], codec, magic)
    for kernels in (None, compiled):
        assert bytes(write.encode_columns_by(kernels, parts, codec, magic)) == wanted


def test_few_messages_are_written_in_pure_python_and_many_by_the_loops(
    compiled: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    before = compiled.entries

    def counted(parts: Any, magic: int, numbered: bool) -> Any:
        calls.append(sum(until - since for _, since, until in parts))
        return before(parts, magic, numbered)

    monkeypatch.setattr(compiled, "entries", counted)
    monkeypatch.setattr(_CHOICE, "kernels", compiled)
    for count in (1, write.MANY - 1, write.MANY, write.MANY + 1):
        made = write.encode_lists([None] * count, [b"v"] * count, None, None)
        assert bytes(made) == slowly([(None, b"v", None)] * count, 0, 0)
    assert calls == [write.MANY, write.MANY + 1]


def test_headers_and_formats_that_there_are_not_are_refused_in_either_form(compiled: Kernels) -> None:
    for kernels in (None, compiled):
        with pytest.raises(LocalError, match="no headers"):
            write.encode_lists_by(kernels, [None], [b"v"], None, [packed([("h", b"")])], 0, 1)
        with pytest.raises(LocalError, match="v5"):
            write.encode_lists_by(kernels, [None], [b"v"], None, None, 0, 5)
