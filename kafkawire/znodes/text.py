"""Text in ZooKeeper nodes, and JSON as Kafka's brokers and consumers wrote it.

Content that cannot be parsed is a NodeError.  Data may be text or the bytes that a ZooKeeper client returns.
"""

from __future__ import annotations

import re
from typing import Any, TypeGuard

from groundwork.decimals import decimal_int
from groundwork.jsontext import json_value
from kafkawire.errors import NodeError

MAX_BROKER_BYTES = 64 << 10  # of a broker's node; brokers write some hundred bytes
PAUSE_PARTITIONS = 2_000  # partitions read between pauses: some milliseconds
MAX_HOST = 255  # maximum characters of a DNS name
_MENDED = 256 << 10  # characters: only registrations have backslashes, and none is longer
_BACKSLASH = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')


def document(text: str | bytes, where: str) -> Any:
    """Parse JSON with the leniency of the JVM's lexer: a backslash before an unknown escape is literal, and strings may
    contain control characters."""
    found = text_of(text, where)
    if not found.strip():
        raise NodeError(f"{where}: its node is empty")
    mended = found
    if "\\" in found:
        if len(found) > _MENDED:
            raise NodeError(f"{where}: {len(found)} characters of JSON with backslashes in its node")
        mended = _BACKSLASH.sub(lambda m: m[0] if len(m[0]) > 1 else "\\\\", found)
    try:
        return json_value(mended, strict=False)
    except ValueError:
        raise NodeError(f"{where}: {found[:60]!r} is not JSON") from None


def json_object(text: str | bytes, where: str) -> dict[str, Any]:
    found = document(text, where)
    if not isinstance(found, dict):
        raise NodeError(f"{where}: its node is not a JSON object")
    return found


def of_counting_broker(text: str) -> bool:
    """True if a broker's node is as 0.7 writes it: creatorId:host:port.  Later releases write JSON."""
    creator, host, port = [*text[:MAX_BROKER_BYTES].split(":", 3), "", "", ""][:3]
    named = all(part and not any(c.isspace() for c in part) for part in (creator, host))
    return named and "{" not in creator and text.count(":") == 2 and decimal_int(port.rstrip()) is not None


def broker_text(data: str | bytes, where: str) -> str:
    """Return the text of a broker's node.  Raises NodeError, also for more than MAX_BROKER_BYTES."""
    if len(data) > MAX_BROKER_BYTES:
        raise NodeError(f"{where}: {len(data)} bytes in its node, more than {MAX_BROKER_BYTES}")
    return text_of(data, where)


def host_and_port(host: str, port: str | int) -> tuple[str, int] | None:
    """Return an address if the host has 1 to MAX_HOST characters and the port is valid, else None."""
    number = decimal_int(str(port), 1, 65535) if not isinstance(port, str) or len(port) <= 5 else None
    return (host, number) if number is not None and 0 < len(host) <= MAX_HOST else None


def text_of(data: str | bytes, where: str) -> str:
    try:
        return data if isinstance(data, str) else bytes(data).decode()
    except UnicodeDecodeError:
        raise NodeError(f"{where}: its node is not UTF-8") from None


def is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
