"""Tables: what is written is read, version by version; what a stranger writes is never believed unchecked."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.errors import LeftOver, LocalError, RemoteError, Truncated
from kafkawire.primitives import INT16, INT32, Reader, Writer
from kafkawire.protocol import schema
from kafkawire.protocol.apis import APIS, Api, api
from kafkawire.protocol.schema import Array, Struct, Type, int16, int32, int64, nullable_string, since, string, until

EVERY = [(each, version) for each in APIS.values() for version in range(each.newest + 1)]


def values(kind: Type, version: int) -> st.SearchStrategy[Any]:
    """Whatever a table may carry in a version."""
    if isinstance(kind, schema.Integer):
        bits = kind.kind.size * 8
        return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    if isinstance(kind, schema.Boolean):
        return st.booleans()
    if isinstance(kind, schema.String):
        text = st.text(min_size=kind.least_bytes, max_size=8)
        return text | st.none() if kind.nullable else text
    if isinstance(kind, schema.Blob):
        return st.binary(max_size=20) | st.none() if kind.nullable else st.binary(max_size=20)
    if isinstance(kind, schema.Uuid):
        return st.binary(min_size=16, max_size=16)
    if isinstance(kind, schema.Switched):
        return values(kind.of(version), version)
    if isinstance(kind, Array):
        rows = st.lists(values(kind.of, version), max_size=3)
        return rows | st.none() if version >= kind.nullable_since else rows
    if isinstance(kind, schema.Row):
        return st.tuples(*(values(each, version) for each in kind.of))
    assert isinstance(kind, Struct)
    return st.fixed_dictionaries({name: values(each, version) for name, each in kind.fields(version)})


def plain(value: Any) -> Any:
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("of", "version"), EVERY, ids=lambda x: x.name if isinstance(x, Api) else f"v{x}")
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_what_a_table_writes_it_reads(of: Api, version: int, data: st.DataObject) -> None:
    request = data.draw(values(of.request, version))
    reply = data.draw(values(of.reply, version))
    assert plain(of.decode_request(version, of.encode_request(version, request))) == request
    assert plain(of.decode_reply(version, of.encode_reply(version, reply))) == reply


@pytest.mark.thorough
@pytest.mark.parametrize(("of", "version"), EVERY, ids=lambda x: x.name if isinstance(x, Api) else f"v{x}")
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_damaged_and_random_bodies_raise_our_errors_only(of: Api, version: int, data: st.DataObject) -> None:
    whole = bytearray(of.encode_reply(version, data.draw(values(of.reply, version))))
    for _ in range(data.draw(st.integers(1, 4))):
        if whole:
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    for stranger in (bytes(whole), data.draw(st.binary(max_size=60))):
        for decode in (of.decode_request, of.decode_reply):
            try:
                decode(version, stranger)
            except RemoteError:
                pass  # whatever else comes out fails the test: LocalError too, as it is never our fault


@given(st.lists(st.sampled_from([schema.int8, int16, int32, int64]), max_size=6), st.booleans(), st.data())
def test_integers_in_front_read_at_once_are_those_read_one_by_one(
    kinds: list[schema.Integer], more: bool, data: st.DataObject
) -> None:
    """Whole, and cut anywhere: then the error names the integer that is cut, and its place."""
    fields: dict[str, Type] = {f"f{n}": kind for n, kind in enumerate(kinds)}
    table = Struct(**fields, **({"name": string, "last": int16} if more else {}))
    writer = Writer()
    table.write(writer, data.draw(values(table, 0)), 0)
    body = writer.done()
    taken = body[: data.draw(st.integers(0, len(body)))]

    def one_by_one(reader: Reader) -> dict[str, Any]:
        return {name: kind.read(reader, 0) for name, kind in table.fields(0)}

    def outcome(read: Any) -> object:
        reader = Reader(taken, "a table")
        try:
            return read(reader), reader.at
        except Truncated as cut:
            return str(cut)

    assert outcome(lambda reader: table.read(reader, 0)) == outcome(one_by_one)


def test_a_count_is_held_against_the_bytes_left() -> None:
    rows = Array(Struct(a=int32, b=int64))
    with pytest.raises(Truncated, match="2147483647 elements cannot fit the 24 bytes left"):
        rows.read(Reader(struct.pack(">i", 0x7FFFFFFF) + bytes(24)), 0)
    with pytest.raises(Truncated, match="3 elements cannot fit the 24 bytes left"):
        rows.read(Reader(struct.pack(">i", 3) + bytes(24)), 0)
    assert len(rows.read(Reader(struct.pack(">i", 2) + bytes(24)), 0) or []) == 2


def test_a_count_of_elements_without_bytes_is_bounded_too() -> None:
    with pytest.raises(Truncated):
        Array(Struct()).read(Reader(struct.pack(">i", 0x7FFFFFFF)), 0)


@pytest.mark.parametrize("length", [-2, -32768])
def test_a_negative_length_is_nonsense_of_the_sender(length: int) -> None:
    with pytest.raises(RemoteError, match=f"a length of {length}"):
        nullable_string.read(Reader(struct.pack(">h", length)), 0)


def test_null_where_null_cannot_be_names_the_place() -> None:
    with pytest.raises(RemoteError, match="reply at byte 2: null instead of a string"):
        string.read(Reader(b"\0\0\xff\xff", "reply", 2), 0)
    with pytest.raises(RemoteError, match="null instead of an array"):
        Array(int32).read(Reader(b"\xff\xff\xff\xff"), 0)


def test_text_that_is_no_text_names_the_place() -> None:
    with pytest.raises(RemoteError, match="reply at byte 2: a string of 2 bytes is not UTF-8"):
        string.read(Reader(b"\0\2\xff\xfe", "reply"), 0)


def test_versions_stand_beside_the_fields() -> None:
    table = Struct(old=until(1, int16), both=int32, new=since(1, int16))
    for version, fields, data in (
        (0, {"old": 1, "both": 2}, b"\0\1\0\0\0\2"),
        (1, {"both": 2, "new": 3}, b"\0\0\0\2\0\3"),
    ):
        writer = Writer()
        table.write(writer, fields, version)
        assert writer.done() == data
        assert table.read(Reader(data), version) == fields


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"group": "g", "generation": 1}, "Heartbeat request: v0 needs a field member_id"),
        ({"group": "g", "generation": 1, "member_id": "m", "retention": 1}, "v0 has no field retention"),
        ({"group": "g", "generation": 1 << 31, "member_id": "m"}, "generation: 2147483648 does not fit 32 bits"),
        ({"group": None, "generation": 1, "member_id": "m"}, "group: null instead of a string"),
        (
            {"group": "g" * 40000, "generation": 1, "member_id": "m"},
            "group: a string of 40000 bytes is longer than 32767",
        ),
    ],
)
def test_what_we_cannot_write_is_our_fault_and_says_which_field(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(LocalError, match=said):
        api(12).encode_request(0, fields)


def test_text_that_cannot_be_utf8_is_our_fault() -> None:
    with pytest.raises(LocalError, match="group: 'a\\\\udc80' cannot be encoded as UTF-8"):
        api(10).encode_request(0, {"group": "a\udc80"})


def test_an_api_or_version_without_a_table_is_our_fault() -> None:
    with pytest.raises(LocalError, match="api key 4 is not supported"):
        api(4)
    with pytest.raises(LocalError, match="Fetch is known in versions 0 to 11, not 12"):
        api(1).decode_reply(12, b"")


def test_a_reader_says_how_much_was_wanted_where() -> None:
    reader = Reader(b"\0\1\2", "Metadata v0 reply")
    assert reader.integer(INT16) == 1
    with pytest.raises(Truncated, match="Metadata v0 reply ends too early: 4 bytes wanted at byte 2, 1 left"):
        reader.integer(INT32)
    with pytest.raises(LeftOver, match="Metadata v0 reply at byte 2: 1 bytes left over") as caught:
        reader.finish()
    assert caught.value.count == 1
