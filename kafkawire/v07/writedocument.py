"""JSON values back to frames and message sets of 0.7: the way back of document.py.

What follows from the rest is computed and not read: counts, sizes, positions.  A checksum may be left out, and where
it is given it has to be right.  Wrappers are compressed anew; one that held wrappers comes back as one without.
"""

from __future__ import annotations

import zlib
from typing import Any

from kafkawire.compression import GZIP, SNAPPY, compress
from kafkawire.documents import Fields, in_frame, set_of
from kafkawire.errors import LocalError
from kafkawire.primitives import INT16, INT32, INT64, Writer, utf8
from kafkawire.v07.document import FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS, PRODUCE, REQUESTS
from kafkawire.v07.layout import CODEC, MAGIC_0, MAGIC_1
from kafkawire.v07.writing import Row, encode, entry


def request_bytes(document: Any, framed: bool) -> bytes:
    """The request a document tells of.  LocalError, one sentence, where it tells none."""
    fields, writer = Fields(document, ""), Writer()
    number = fields.integer("request_id")
    if not 0 <= number < len(REQUESTS):
        raise LocalError(f"request_id {number} is none of Kafka 0.7; known: 0 to {len(REQUESTS) - 1}")
    writer.integer(INT16, number)
    if number in (MULTIFETCH, MULTIPRODUCE):
        parts = fields.objects("fetches" if number == MULTIFETCH else "produces")
        fields.drop("count")
        writer.integer(INT16, len(parts))
        for part in parts:
            _write_part(writer, part, number)
            part.end()
    else:
        _write_part(writer, fields, number)
    fields.end()
    return in_frame(writer.done(), framed)


def _write_part(writer: Writer, fields: Fields, number: int) -> None:
    topic = utf8(fields.text("topic"))
    writer.integer(INT16, len(topic))
    writer.raw(topic)
    writer.integer(INT32, fields.integer("partition"))
    if number in (PRODUCE, MULTIPRODUCE):
        data = _set(fields)
        writer.integer(INT32, len(data))
        writer.raw(data)
    elif number == OFFSETS:
        writer.integer(INT64, fields.integer("time"))
        writer.integer(INT32, fields.integer("max_offsets"))
    elif number in (FETCH, MULTIFETCH):
        writer.integer(INT64, fields.integer("offset"))
        writer.integer(INT32, fields.integer("max_bytes"))


def response_bytes(document: Any, framed: bool, api: str) -> bytes:
    """The response to a request of api (document.RESPONSES).  Raises as request_bytes."""
    fields, writer = Fields(document, ""), Writer()
    _write_error(writer, fields)
    if api == "fetch":
        writer.raw(_set(fields))
    elif api == "multifetch":
        for each in fields.objects("sets"):
            inside = Writer()
            _write_error(inside, each)
            inside.raw(_set(each))
            each.end()
            writer.raw(in_frame(inside.done(), True))
    else:
        offsets = fields.items("offsets")
        writer.integer(INT32, len(offsets))
        for n, offset in enumerate(offsets):
            writer.integer(INT64, Fields({"offset": offset}, f"offsets[{n}]").integer("offset"))
    fields.end()
    return in_frame(writer.done(), framed)


def _write_error(writer: Writer, fields: Fields) -> None:
    writer.integer(INT16, fields.integer("error"))
    fields.drop("error_name", "size")


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
    fields.drop("start", "next_offset", "safe_commit")
    magic = fields.integer("magic", 1)
    if magic not in (0, 1):
        raise LocalError(f"{fields.path('magic')}: {magic} is none of Kafka 0.7")
    attributes = fields.integer("attributes", 0)
    codec = fields.codec("codec") if fields.has("codec") else 0
    if codec or attributes & CODEC:
        raise LocalError(f"{fields.where}: a message with a codec is a wrapper, and stands under wrapper or wrappers")
    if not 0 <= attributes <= (0xFF if magic else 0):
        raise LocalError(f"{fields.path('attributes')}: {attributes} has no place in magic {magic}")
    payload = _payload(fields)
    _same_crc(fields, payload)
    fields.end()
    return entry(payload, attributes, MAGIC_1 if magic else MAGIC_0)


def _inner(fields: Fields) -> Row:
    fields.drop("start", "safe_commit")
    row: Row = (0, None, _payload(fields), None)
    fields.end()
    return row


def _payload(fields: Fields) -> bytes:
    payload = fields.octets("payload")
    if payload is None:
        raise LocalError(f"{fields.path('payload')}: a message of Kafka 0.7 cannot be null")
    return payload


def _same_crc(fields: Fields, payload: bytes) -> None:
    if fields.has("crc32"):
        given, computed = fields.text("crc32"), f"{zlib.crc32(payload):08x}"
        if given != computed:
            raise LocalError(
                f"{fields.path('crc32')}: {given}, and the payload's is {computed}; left out it is computed"
            )


def _wrapper(fields: Fields, inside: list[Fields]) -> bytes:
    """Compressed anew: its checksum and its size are what they become."""
    rows = [_inner(each) for each in inside]
    fields.drop("crc32", "entry_bytes", "framing", "ignored_tail_bytes")
    magic, codec = fields.integer("magic", 1), fields.codec("codec")
    attributes = fields.integer("attributes", codec)
    if magic != 1:
        raise LocalError(f"{fields.path('magic')}: {magic}, and only magic 1 of Kafka 0.7 has a codec")
    if codec not in (GZIP, SNAPPY):
        raise LocalError(f"{fields.path('codec')}: Kafka 0.7 has gzip and snappy")
    if not 0 <= attributes <= 0xFF or attributes & CODEC != codec:
        raise LocalError(f"{fields.path('attributes')}: {attributes} does not say codec {codec}")
    fields.end()
    return entry(compress(codec, encode(rows)), attributes)
