"""Output format of `zkconsumer consume`: a message as a line of bytes as they are, or as a JSON object.  Pure.

text   [TOPIC/PARTITION OFFSET tab] [key tab] value      null is an empty text
json   {"topic", "partition", "offset", "timestamp_ms", "key", "value"}; a key or value is a text, null, or, where
       its bytes are not UTF-8, {"base64": "..."}
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
    """The parts of a message that are printed: key and offset concern text only, json has everything."""

    key: bool = False
    offset: bool = False
    form: str = TEXT

    def line(self, message: Message) -> bytes:
        """The message with its end of line."""
        if self.form == JSON:
            return _object(message)
        at = f"{message.topic}/{message.partition} {message.offset}\t".encode() if self.offset else b""
        key = (message.key or b"") + b"\t" if self.key else b""
        return at + key + (message.value or b"") + b"\n"


def _object(message: Message) -> bytes:
    partition = message.partition if isinstance(message.partition, int) else str(message.partition)
    row = {
        "topic": message.topic,
        "partition": partition,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
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
