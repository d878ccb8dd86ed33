"""JSON values back to frames and message sets of 0.8 to 0.10: the way back of document.py.

What follows from the rest is computed and not read: sizes, positions, how much was of use.  A checksum may be left out,
and where it is given it has to be right.  Wrappers are compressed anew; one that held wrappers comes back as one
without.
"""

from __future__ import annotations

import zlib
from typing import Any

from kafkawire.compression import compress
from kafkawire.documents import Fields, as_items, in_frame, set_of
from kafkawire.errors import LocalError
from kafkawire.primitives import INT16, INT32, Writer
from kafkawire.v08 import apis
from kafkawire.v08.apis import Api
from kafkawire.v08.scanning import CODEC, LOG_APPEND_TIME
from kafkawire.v08.schema import Array, Blob, Boolean, Integer, Row, String, Struct, Type, nullable_string
from kafkawire.v08.writing import Row as Written
from kafkawire.v08.writing import entries

_CRC_AT, _CRC_FROM = 12, 16
_TYPES = {0: "CreateTime", LOG_APPEND_TIME: "LogAppendTime"}


def request_bytes(document: Any, framed: bool) -> bytes:
    """The request a document tells of.  LocalError, one sentence, where it tells none."""
    fields, writer = Fields(document, ""), Writer()
    api = apis.api(fields.integer("api_key"))
    version = api.known(fields.integer("api_version"))
    writer.integer(INT16, api.key)
    writer.integer(INT16, version)
    writer.integer(INT32, fields.integer("correlation_id"))
    nullable_string.write(writer, _scalar(nullable_string, fields.take("client_id"), "client_id"), version)
    api.request.write(writer, _values(api.request, fields, version), version)
    return in_frame(writer.done(), framed)


def response_bytes(document: Any, framed: bool, api: Api, version: int) -> bytes:
    """The response of an api; see request_bytes."""
    fields, writer = Fields(document, ""), Writer()
    writer.integer(INT32, fields.integer("correlation_id"))
    api.reply.write(writer, _values(api.reply, fields, version), version)
    return in_frame(writer.done(), framed)


def _values(table: Struct, fields: Fields, version: int) -> dict[str, Any]:
    """The fields of a table's version, as schema.py writes them."""
    out: dict[str, Any] = {}
    for name, kind in table.fields(version):
        if name == "message_set":
            out[name] = _set(fields)
        elif isinstance(kind, Blob):
            out[name] = fields.octets(name)
        else:
            out[name] = _value(kind, fields.take(name), fields.path(name), version)
    fields.end()
    return out


def _value(kind: Type, value: Any, where: str, version: int) -> Any:
    if isinstance(kind, Struct):
        return _values(kind, Fields(value, where), version)
    if isinstance(kind, Array) and value is not None:
        items = as_items(value, where)
        return [_value(kind.of, item, f"{where}[{n}]", version) for n, item in enumerate(items)]
    if isinstance(kind, Row):
        items = as_items(value, where)
        if len(items) != len(kind.of):
            raise LocalError(f"{where}: {len(kind.of)} values are expected, not {len(items)}")
        return [_value(kind.of[n], item, f"{where}[{n}]", version) for n, item in enumerate(items)]
    return _scalar(kind, value, where)


def _scalar(kind: Type, value: Any, where: str) -> Any:
    """A value that its type can write.  Null is the type's to refuse."""
    wanted = {Integer: int, Boolean: bool, String: str}.get(type(kind))
    if value is not None and wanted is not None and type(value) is not wanted:
        name = {int: "a number", bool: "true or false", str: "text"}[wanted]
        raise LocalError(f"{where}: {name} is expected, not {value!r:.60}")
    if value is None and wanted in (int, bool):
        raise LocalError(f"{where}: null where a value must be")
    return value


# ---- message sets ----------------------------------------------------------------------------------------------


def set_bytes(document: Any) -> bytes:
    """The set a document tells of.  LocalError, one sentence, where it tells none."""
    fields = Fields(document, "")
    data = _set(fields)
    fields.end()
    return data


def _set(fields: Fields) -> bytes:
    return set_of(fields, _plain, _wrapper)


def _plain(fields: Fields) -> bytes:
    magic = _magic(fields)
    attributes = fields.integer("attributes", 0)
    if attributes & CODEC:
        raise LocalError(f"{fields.where}: a message with a codec is a wrapper, and stands under wrapper or wrappers")
    row = _row(fields, magic, attributes)
    given = fields.text("crc32") if fields.has("crc32") else None
    fields.end()
    data = _entry(row, magic, attributes, fields)
    computed = f"{zlib.crc32(data[_CRC_FROM:]):08x}"
    if given not in (None, computed):
        raise LocalError(f"{fields.path('crc32')}: {given}, and the message's is {computed}; left out it is computed")
    return data


def _magic(fields: Fields) -> int:
    magic = fields.integer("magic", 1 if fields.has("timestamp") else 0)
    if magic not in (0, 1):
        raise LocalError(f"{fields.path('magic')}: format v{magic} is not written here")
    return magic


def _row(fields: Fields, magic: int, attributes: int) -> Written:
    """Offset, key, value and time; the type of the time is what attributes say."""
    offset, key, value = fields.integer("offset"), fields.octets("key"), fields.octets("value")
    return offset, key, value, _timestamp(fields, magic, attributes)


def _timestamp(fields: Fields, magic: int, attributes: int) -> int | None:
    stamp = fields.integer("timestamp") if fields.has("timestamp") else None
    if stamp is not None and not magic:
        raise LocalError(f"{fields.path('timestamp')}: format v0 has no timestamps")
    if fields.has("timestamp_type"):
        given, said = fields.text("timestamp_type"), _TYPES[attributes & LOG_APPEND_TIME]
        if given != said:
            raise LocalError(f"{fields.path('timestamp_type')}: {given}, and attributes {attributes} say {said}")
    return stamp


def _inner(fields: Fields) -> Written:
    """A message in a wrapper, which has its format and the type of its time."""
    fields.drop("timestamp_type")
    row = _row(fields, 1, 0)
    fields.end()
    return row


def _wrapper(fields: Fields, inside: list[Fields]) -> bytes:
    """Compressed anew: its checksum is what it becomes."""
    rows = [_inner(each) for each in inside]
    fields.drop("crc32", "framing", "hc_byte")
    magic, codec = _magic(fields), fields.codec("codec")
    attributes = fields.integer("attributes", codec)
    if not codec or attributes & CODEC != codec:
        raise LocalError(f"{fields.path('attributes')}: {attributes} does not say codec {codec}, or there is none")
    offset, stamp = fields.integer("offset"), _timestamp(fields, magic, attributes)
    fields.end()
    if magic == 1 and rows:
        if rows[-1][0] != offset:
            raise LocalError(f"{fields.path('offset')}: {offset}, and its last message's is {rows[-1][0]}: v1 has one")
        first = rows[0][0]
        rows = [(number - first, key, value, at_ms) for number, key, value, at_ms in rows]
    if magic == 0 and any(at_ms is not None for *_, at_ms in rows):
        raise LocalError(f"{fields.path('magic')}: format v0 has no timestamps, and its messages have")
    inner = b"".join(_entry(row, magic, 0, fields) for row in rows)
    return _entry((offset, None, compress(codec, inner, magic), stamp), magic, attributes, fields)


def _entry(row: Written, magic: int, attributes: int, fields: Fields) -> bytes:
    if not 0 <= attributes <= 0xFF:
        raise LocalError(f"{fields.path('attributes')}: {attributes} is no byte")
    try:
        return entries([row], magic, attributes)
    except LocalError as exc:
        raise LocalError(f"{fields.where}: {exc}") from None
