"""Text of an exception that user code raised, without the messages that it quotes.  Pure.

Keys and values never appear in a log, page or report.  But an exception of a handler may quote them unintentionally:
`ValueError: invalid literal for int() with base 10: 'the value'`.  Text that also occurs in a message is masked: runs
of LEAST or more bytes, plain or in hexadecimal, and a shorter key or value of at least SHORTEST bytes as a whole.  Text
that a handler derives from a message (in base64, say) is not found.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable

from groundwork.optionvalues import MASK

LEAST = 8
SHORTEST = 4
TEXT_BYTES = 400  # longest text of an exception; the rest is cut off
MOST_BYTES = 1 << 20  # bytes of keys and values that are searched: about a tenth of a second


def raised(exc: BaseException, payloads: Iterable[bytes | None]) -> str:
    """Return `raised TYPE: TEXT` as a clause about user code.  payloads: keys and values that the code was given."""
    return f"raised {type(exc).__name__}: {masked(exc, payloads)}"


def masked(exc: BaseException, payloads: Iterable[bytes | None]) -> str:
    """Return the masked text of an exception."""
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
    """Return the stack of an exception as in a traceback, and those of its causes, without any exception text."""
    lines: list[str] = []
    before: BaseException | None = exc
    while before is not None and len(lines) < 200:
        found = ["Traceback (most recent call last):", *"".join(traceback.format_tb(before.__traceback__)).splitlines()]
        lines = [*found, type(before).__name__, *lines]
        before = before.__cause__ or (None if before.__suppress_context__ else before.__context__)
    return lines
