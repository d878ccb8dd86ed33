"""Checksums of message formats.  crc32 is the one of 0.7 and of formats v0 and v1."""

from __future__ import annotations

import zlib

from kafkawire.primitives import Bytes


def crc32(view: Bytes) -> int:
    """CRC-32 as zlib and java.util.zip have it, unsigned."""
    return zlib.crc32(view)
