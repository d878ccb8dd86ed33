"""Output format of `zkconsumer consume`: a message as a line of raw bytes, or as a JSON object.  Pure.

text   [TOPIC/PARTITION OFFSET tab] [headers tab] [key tab] value      null is an empty text
       headers: NAME:VALUE,NAME:VALUE, and NO_HEADERS if there are none, as the JVM's console prints them
json   {"topic", "partition", "offset", "timestamp_ms", "headers", "key", "value"}; a key or value is a text, null, or,
       if its bytes are not UTF-8, {"base64": "..."}; headers are pairs [name, value] in their order
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

from groundwork.sentences import printable
from kafkawire.model import Message

TEXT, JSON = "text", "json"


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """Parts of a message that are printed; json always has all parts."""

    key: bool = False
    offset: bool = False
    form: str = TEXT
    headers: bool = False

    def line(self, message: Message) -> bytes:
        """Return the message with its end of line."""
        if self.form == JSON:
            return _object(message)
        at = f"{message.topic}/{message.partition} {message.offset}\t".encode() if self.offset else b""
        headers = _headers(message) + b"\t" if self.headers else b""
        key = (message.key or b"") + b"\t" if self.key else b""
        return at + headers + key + (message.value or b"") + b"\n"


def _headers(message: Message) -> bytes:
    pairs = [name.encode() + b":" + (b"null" if value is None else value) for name, value in message.headers or ()]
    return b",".join(pairs) or b"NO_HEADERS"


def _object(message: Message) -> bytes:
    partition = message.partition if isinstance(message.partition, int) else str(message.partition)
    row = {
        "topic": message.topic,
        "partition": partition,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
        "headers": [[name, _text(value)] for name, value in message.headers or ()],
        "key": _text(message.key),
        "value": _text(message.value),
    }
    return printable(json.dumps(row, ensure_ascii=False)).encode() + b"\n"


def _text(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
