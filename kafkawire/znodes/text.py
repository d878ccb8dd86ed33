"""The text in ZooKeeper nodes, and JSON as Kafka's brokers and consumers wrote it.

What makes no sense is a NodeError.  Data is taken as text or as the bytes that a ZooKeeper client returns.
"""

from __future__ import annotations

import re
from typing import Any, TypeGuard

from groundwork.jsontext import json_value
from kafkawire.errors import NodeError

_COUNTED = re.compile(r"[^\s:{]+:[^\s:]+:[0-9]+\s*")
_BACKSLASH = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')


def document(text: str | bytes, where: str) -> Any:
    """JSON, with the JVM lexer's leniency: a backslash that starts no known escape stands for itself, and control
    characters may stand in strings."""
    found = text_of(text, where)
    if not found.strip():
        raise NodeError(f"{where}: its node is empty")
    mended = _BACKSLASH.sub(lambda m: m[0] if len(m[0]) > 1 else "\\\\", found)
    try:
        return json_value(mended, strict=False)
    except ValueError:
        raise NodeError(f"{where}: {found[:60]!r} is not JSON") from None


def json_object(text: str | bytes, where: str) -> dict[str, Any]:
    found = document(text, where)
    if not isinstance(found, dict):
        raise NodeError(f"{where}: its node is no JSON object")
    return found


def of_counting_broker(text: str) -> bool:
    """Whether a broker's node is as 0.7 writes it: creatorId:host:port.  Later ones are JSON."""
    return _COUNTED.fullmatch(text) is not None


def text_of(data: str | bytes, where: str) -> str:
    try:
        return data if isinstance(data, str) else bytes(data).decode()
    except UnicodeDecodeError:
        raise NodeError(f"{where}: its node is not UTF-8") from None


def is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
