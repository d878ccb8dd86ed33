"""Entries of message format v0, plain and in gzip wrappers: bytes in, bytes out.  No kafkawire."""

from __future__ import annotations

import struct
import zlib


def entry(value: bytes | None, key: bytes | None = None, offset: int = 0, codec: int = 0) -> bytes:
    """One format v0 entry."""
    body = struct.pack(">bb", 0, codec) + _bytes(key) + _bytes(value)
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def gzipped(*entries: bytes) -> bytes:
    """One gzip wrapper around the entries."""
    packer = zlib.compressobj(wbits=31)
    return entry(packer.compress(b"".join(entries)) + packer.flush(), codec=1, offset=len(entries) - 1)


def opened(data: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of every message in a set, wrappers opened; a cut tail is left out."""
    found: list[tuple[int, bytes | None, bytes | None]] = []
    for offset, _, piece in walk(data):
        key, at = _read_bytes(piece, 18)
        value, _ = _read_bytes(piece, at)
        if piece[17] & 7 == 1:
            found += opened(zlib.decompress(value or b"", wbits=31))
        else:
            found.append((offset, key, value))
    return found


def walk(data: bytes) -> list[tuple[int, int, bytes]]:
    """(offset, messages in it, entry) of every complete entry."""
    found, at = [], 0
    while at + 12 <= len(data):
        offset, size = struct.unpack_from(">qi", data, at)
        if at + 12 + size > len(data):
            break
        piece = data[at : at + 12 + size]
        inner = zlib.decompress(_value(piece), wbits=31) if piece[17] & 7 == 1 else None
        found.append((offset, 1 if inner is None else len(walk(inner)), piece))
        at += 12 + size
    return found


def renumbered(piece: bytes, first: int) -> bytes:
    """A gzip wrapper with absolute inner offsets from `first` on, as a 0.8 log has them; anything else as it is."""
    if piece[17] & 7 != 1:
        return piece
    inner = walk(zlib.decompress(_value(piece), wbits=31))
    return gzipped(*(struct.pack(">q", first + n) + each[8:] for n, (_, _, each) in enumerate(inner)))


def _value(piece: bytes) -> bytes:
    _, at = _read_bytes(piece, 18)
    return _read_bytes(piece, at)[0] or b""


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size = struct.unpack_from(">i", data, at)[0]
    return (None, at + 4) if size < 0 else (data[at + 4 : at + 4 + size], at + 4 + size)


def _bytes(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
