"""Encoders of values to bytes.  None stays null."""

from __future__ import annotations


def as_bytes(value: object) -> bytes | None:
    """Bytes unchanged; text as UTF-8.  TypeError for anything else."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{type(value).__name__} cannot be sent as it is: give bytes or text, or an encoder")


def as_text(value: object) -> bytes | None:
    """Text as UTF-8 (StringEncoder).  TypeError for anything else."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} is no text")
    return value.encode()


def as_null(value: object) -> bytes | None:
    """Null, whatever the value is (NullEncoder)."""
    return None
