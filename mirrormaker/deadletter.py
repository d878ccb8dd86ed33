r"""Dead letters: records of messages that could not be copied, in a separate topic of the target.  Pure.

    head \n bytes

The head is one line of JSON (UTF-8); the bytes are the message's own.  So kafka-console-consumer shows the head, and
any program gets the bytes with `head, data = record.split(b"\n", 1)`.

    {"dead_letter": 1, "source": "dc1", "topic": "orders", "partition": "3", "offset": 17, "offsets": 1,
     "kind": "oversize", "reason": "...", "content": "value", "size": 200000, "crc32": "89abcdef", "carried": 200000,
     "key": "b3JkZXI=", "timestamp_ms": null, "at_ms": 1700000000000}

    dead_letter  version of the envelope: 1
    offset       of the message in the source; in bytes of the log if the source is 0.7
    offsets      number of messages it may hold: more than 1 for a wrapper that cannot be opened; null: unknown (0.7)
    kind         oversize, corrupt, undecodable, handler or refused
    content      value: the bytes are the message's value (a null value has no bytes, and "null": true in the head);
                 entry: the bytes are its entry in the source's log, because no value could be read from it
    size, crc32  of all the bytes, even if the record carries only some; if an entry could not be fetched whole, size
                 is the size in its head, and crc32 covers the bytes that were fetched
    carried      number of bytes after the head.  It is less than size if the record would exceed the target's limit;
                 then "rest" says where to find all of them
    key          base64 of the message's key, which is also the record's key; null: it has none or is unknown.  A key
                 of more than KEY_MAX bytes is left out, and the head has "key_size"

The record's key is the message's, else SOURCE/TOPIC/PARTITION/OFFSET.  Its headers are the message's if the target's
format supports headers (Kafka 0.11 and later) and they are at most HEADERS_MAX bytes; else the head has
"headers_left_out" with their size in bytes.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from typing import Any

from groundwork.decimals import MAX_INT64
from groundwork.jsontext import json_value

VERSION = 1
KEY_MAX = 16384
HEADERS_MAX = 16384
HEAD_BYTES = 4096  # bytes of the message that are carried if it is too large
REASON_MAX = 2000  # characters


class NoDeadLetter(ValueError):
    """Raised when the bytes are not a dead letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One message that could not be copied.  data: its value or entry (see content), or None for a null value.

    offsets: number of messages it may hold; None if unknown.  size and crc32 cover all of data, which may be only the
    beginning here (see complete).  headers_left_out: bytes of the message's headers that the record does not carry.
    """

    source: str
    topic: str
    partition: str
    offset: int
    offsets: int | None
    kind: str
    reason: str
    content: str  # value or entry
    data: bytes | None
    size: int
    crc32: int
    key: bytes | None
    timestamp_ms: int | None
    at_ms: int
    headers_left_out: int = 0

    @property
    def complete(self) -> bool:
        """True if all of its bytes are present."""
        return len(self.data or b"") == self.size

    @property
    def record_key(self) -> bytes:
        """Return the key of its record."""
        if self.key is not None and len(self.key) <= KEY_MAX:
            return self.key
        return f"{self.source}/{self.topic}/{self.partition}/{self.offset}".encode()


def crc32(data: bytes | None) -> int:
    return zlib.crc32(data or b"")


def write(letter: DeadLetter, room: int) -> bytes:
    """Return the record's value of at most `room` bytes, which carries only the beginning of data if all of it does not
    fit."""
    data = letter.data or b""
    whole = _head(letter, len(data)) + data
    if len(whole) <= room:
        return whole
    data = data[: max(0, min(HEAD_BYTES, room - len(_head(letter, HEAD_BYTES))))]
    return _head(letter, len(data)) + data


def _head(letter: DeadLetter, carried: int) -> bytes:
    found: dict[str, Any] = {
        "dead_letter": VERSION,
        "source": letter.source,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "offsets": letter.offsets,
        "kind": letter.kind,
        "reason": letter.reason[:REASON_MAX],
        "content": letter.content,
        "size": letter.size,
        "crc32": f"{letter.crc32:08x}",
        "carried": carried,
        "key": None,
        "timestamp_ms": letter.timestamp_ms,
        "at_ms": letter.at_ms,
    }
    if letter.data is None:
        found["null"] = True
    if letter.key is not None and len(letter.key) <= KEY_MAX:
        found["key"] = base64.b64encode(letter.key).decode()
    elif letter.key is not None:
        found["key_size"] = len(letter.key)
    if letter.headers_left_out:
        found["headers_left_out"] = letter.headers_left_out
    if carried < letter.size:
        where = f"{letter.topic}/{letter.partition} at {letter.offset} of source {letter.source}"
        found["rest"] = f"all {letter.size} bytes: {where}, as long as its retention lasts"
    return json.dumps(found).encode() + b"\n"


def read(record: bytes) -> DeadLetter:
    """Return the dead letter in a record's value.  Raises NoDeadLetter."""
    line, found, data = record.partition(b"\n")
    try:
        head = json_value(line)
        if not found or not isinstance(head, dict) or head["dead_letter"] != VERSION:
            raise NoDeadLetter(f"{len(record)} bytes that are not a dead letter of version {VERSION}")
        carried = head["carried"]
        if carried != len(data):
            said = carried if isinstance(carried, int) else "no number"  # do not quote data that is not a dead letter
            raise NoDeadLetter(f"{len(data)} bytes follow the head, which says {said}")
        texts = {name: _text(head[name]) for name in ("source", "topic", "partition", "kind", "reason", "content")}
        return DeadLetter(
            **texts,
            offset=_number(head["offset"]),
            offsets=None if head["offsets"] is None else _number(head["offsets"]),
            data=None if head.get("null") else data,
            size=_number(head["size"]),
            crc32=int(_text(head["crc32"]), 16),
            key=None if head["key"] is None else base64.b64decode(head["key"], validate=True),
            timestamp_ms=None if head["timestamp_ms"] is None else _number(head["timestamp_ms"], least=-MAX_INT64),
            at_ms=_number(head["at_ms"]),
            headers_left_out=_number(head.get("headers_left_out", 0)),
        )
    except NoDeadLetter:
        raise
    except (KeyError, TypeError, ValueError) as exc:
        raise NoDeadLetter(f"not a dead letter: its head cannot be read ({type(exc).__name__})") from exc


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: object, least: int = 0) -> int:
    """Return a number of a head, if it fits in 64 bits; any program may have written the head."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_INT64:
        raise ValueError
    return value
