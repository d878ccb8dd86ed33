"""Encoders of values to bytes.  None stays null."""

from __future__ import annotations


def as_bytes(value: object) -> bytes | None:
    """Return bytes unchanged and text as UTF-8.  Raises TypeError for anything else."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{type(value).__name__} cannot be sent: give bytes or text, or set an encoder")


def as_text(value: object) -> bytes | None:
    """Return text as UTF-8 (StringEncoder).  Raises TypeError for anything else."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} is not text")
    return value.encode()


def as_null(value: object) -> bytes | None:
    """Return None for any value (NullEncoder)."""
    return None
