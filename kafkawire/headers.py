"""Headers of a message, and their encoding as a block in a record of format v2.

    block    count  headers
    header   length  name in UTF-8  value: length (-1: null)  bytes

All numbers are varints.  Inside the system headers stay an encoded block; None is a message without headers.  A name
may occur twice, and the order matters (KIP-82).
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.errors import LocalError, RemoteError
from kafkawire.primitives import Bytes, utf8
from kafkawire.varints import varint, written

Headers = tuple[tuple[str, bytes | None], ...]
NO_HEADERS = b"\x00"  # the block of a message without headers


def packed(headers: Iterable[tuple[str, bytes | None]] | None) -> bytes | None:
    """Encode headers as a block, or None if there are none.  Raises LocalError if a name is not text or a value is not
    bytes."""
    found = list(headers or ())
    if not found:
        return None
    pieces = [written(len(found))]
    for header in found:
        try:
            name, value = header
        except (TypeError, ValueError):
            raise LocalError(f"a header is a name and a value, not {header!r:.100}") from None
        if not isinstance(name, str):
            raise LocalError(f"the name of a header is text, not {type(name).__name__}")
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise LocalError(f"header {name!r}: its value is bytes or None, not {type(value).__name__}")
        encoded = utf8(name)
        pieces += (written(len(encoded)), encoded)
        pieces += (written(-1),) if value is None else (written(len(value)), bytes(value))
    return b"".join(pieces)


def refuse(headers: Iterable[Bytes | None] | None, magic: int) -> None:
    """Raise LocalError if any of these blocks has headers, for a format that cannot store them."""
    if headers is not None and any(headers):
        raise LocalError(f"message format v{magic} has no headers: they came with record batches (Kafka 0.11)")


def unpacked(block: Bytes | None) -> Headers:
    """Return the headers of a block.  Raises RemoteError if it is damaged."""
    if block is None or len(block) == 0:
        return ()
    data = bytes(block)
    try:
        count, at = varint(data, 0)
        found: list[tuple[str, bytes | None]] = []
        for _ in range(count):
            name, at = _blob(data, at)
            if name is None:
                raise ValueError("a header without a name")
            value, at = _blob(data, at)
            found.append((text(name), value))
    except (IndexError, ValueError) as why:
        raise RemoteError(f"damaged headers: {why}") from why
    if at != len(data):
        raise RemoteError(f"{len(data) - at} bytes after the last header")
    return tuple(found)


def text(name: bytes) -> str:
    """Decode the name of a header.  Invalid UTF-8 becomes U+FFFD, as in the Java consumer: no broker rejects it."""
    return name.decode(errors="replace")


def _blob(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = varint(data, at)
    if size < 0:
        return None, at
    if size > len(data) - at:
        raise ValueError(f"a field of {size} bytes, with {len(data) - at} left")
    return data[at : at + size], at + size
