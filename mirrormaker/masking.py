"""What an exception of a user's code says, without the messages that it quotes.  Pure.

Keys and values are in no log, page or report.  But an exception of a handler may quote them without meaning to:
`ValueError: invalid literal for int() with base 10: 'the value'`.  What its text has in common with a message is
masked: LEAST bytes in a row or more, as they are or in hexadecimal; of a shorter key or value all of it, from SHORTEST
bytes on.  What a handler composes from a message (in base64, say) is not found.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable

from groundwork.optionvalues import MASK

LEAST = 8
SHORTEST = 4
TEXT_BYTES = 400  # of an exception; the rest is cut off
MOST_BYTES = 1 << 20  # of keys and values that are looked through: a tenth of a second or so


def raised(exc: BaseException, payloads: Iterable[bytes | None]) -> str:
    """`raised TYPE: TEXT`, as a sentence about the code that did.  payloads: keys and values it was given."""
    return f"raised {type(exc).__name__}: {masked(exc, payloads)}"


def masked(exc: BaseException, payloads: Iterable[bytes | None]) -> str:
    """The text of an exception."""
    data = str(exc).encode("utf-8", "backslashreplace")
    if len(data) > TEXT_BYTES:
        data = data[:TEXT_BYTES].decode("utf-8", "ignore").encode() + "…".encode()
    held = {payload for payload in payloads if payload is not None and len(payload) >= SHORTEST}
    if sum(map(len, held)) > MOST_BYTES:
        return f"(its text is not shown: it may quote any of {MOST_BYTES >> 20} MiB of messages)"
    common = bytearray(len(data))
    for payload in held:
        for form in (payload, payload.hex().encode()):
            size = min(LEAST, len(form))
            for at in range(len(data) - size + 1):
                if data[at : at + size] in form:
                    common[at : at + size] = b"\1" * size
    return _without(data, common)


def _without(data: bytes, common: bytearray) -> str:
    parts: list[str] = []
    at = 0
    while at < len(data):
        end = common.find(b"\0" if common[at] else b"\1", at)
        end = len(data) if end < 0 else end
        parts.append(MASK if common[at] else data[at:end].decode("utf-8", "replace"))
        at = end
    return "".join(parts)


def frames(exc: BaseException) -> list[str]:
    """Where it was raised, as a traceback has it, and which exceptions led to it; of neither their texts."""
    lines: list[str] = []
    before: BaseException | None = exc
    while before is not None and len(lines) < 200:
        found = ["Traceback (most recent call last):", *"".join(traceback.format_tb(before.__traceback__)).splitlines()]
        lines = [*found, type(before).__name__, *lines]
        before = before.__cause__ or (None if before.__suppress_context__ else before.__context__)
    return lines
