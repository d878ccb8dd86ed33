"""Encode messages as 0.7 entries, plain or in one wrapper. messages.py describes the layout."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence

from kafkawire import compression
from kafkawire.columns import Part as Stretch
from kafkawire.columns import headers_of, numbered
from kafkawire.compression import CODEC_NAMES, GZIP, SNAPPY
from kafkawire.errors import LocalError
from kafkawire.formats.v07.layout import LEAST, MAGIC_0, MAGIC_1
from kafkawire.headers import refuse
from kafkawire.primitives import Bytes

Blobs = Sequence[Bytes | None]
Row = tuple[int, Bytes | None, Bytes | None, int | None]  # as in 0.8: number, key, value, timestamp in ms

_HEAD_0 = struct.Struct(">iBI")  # length, magic, crc
_HEAD_1 = struct.Struct(">iBBI")  # length, magic, attributes, crc


def encode(
    messages: Iterable[Row], codec: int = 0, magic: int = MAGIC_1, headers: Sequence[Bytes | None] | None = None
) -> bytes:
    """Encode messages as plain entries, or as one wrapper around them; b"" for no messages.

    Numbers, keys and timestamps are not written: 0.7 messages have none.  Raises LocalError for an unknown format or
    codec, for headers, for a message without a value (0.7 has no null), and for an entry over 2 GiB.
    """
    refuse(headers, magic)
    return wrap(messages, codec, magic) if codec else _entries(messages, magic)


def encode_lists(
    keys: Blobs,
    values: Blobs,
    timestamps_ms: Sequence[int | None] | None,
    headers: Blobs | None,
    codec: int = 0,
    magic: int = MAGIC_1,
) -> bytes:
    """Encode messages given as lists of equal length."""
    rows = ((number, None, value, None) for number, value in enumerate(values))
    return encode(rows, codec, magic, headers)


def encode_columns(parts: Sequence[Stretch], codec: int = 0, magic: int = MAGIC_1) -> bytes:
    """Encode rows of columns, numbered from 0."""
    return encode(numbered(parts), codec, magic, headers_of(parts))


def may_pass(entries: Bytes, begin: int, start: int) -> bool:
    """Return False: Kafka 0.7 has no record batches."""
    return False


def wrap(messages: Iterable[Row], codec: int, magic: int = MAGIC_1) -> bytes:
    """Return one wrapper around messages; b"" for none."""
    if magic != MAGIC_1:
        raise LocalError(
            "magic 0 of Kafka 0.7 has no attributes byte for a codec" if magic == MAGIC_0 else _no_format(magic)
        )
    if codec not in (GZIP, SNAPPY):
        raise LocalError(f"Kafka 0.7 has no codec {CODEC_NAMES.get(codec, codec)}")
    inner = _entries(messages, magic)
    return entry(compression.compress(codec, inner), codec) if inner else b""


def entry(value: Bytes, attributes: int = 0, magic: int = MAGIC_1) -> bytes:
    """Return one entry with this payload."""
    return b"".join((_head(magic, attributes, value), value))


def _entries(rows: Iterable[Row], magic: int) -> bytes:
    if magic not in (MAGIC_0, MAGIC_1):
        raise LocalError(_no_format(magic))
    out: list[Bytes] = []
    for number, _, value, _ in rows:
        if value is None:
            raise LocalError(f"message {number} has no value: a message of Kafka 0.7 cannot be null")
        out += (_head(magic, 0, value), value)
    return b"".join(out)


def _head(magic: int, attributes: int, value: Bytes) -> bytes:
    """Return an entry's bytes up to its payload."""
    length = LEAST[magic] + len(value)
    try:
        if magic == MAGIC_0:
            return _HEAD_0.pack(length, 0, zlib.crc32(value))
        return _HEAD_1.pack(length, 1, attributes, zlib.crc32(value))
    except struct.error as exc:
        raise LocalError(f"a message of {len(value)} bytes does not fit an entry of Kafka 0.7: {exc}") from exc


def _no_format(magic: int) -> str:
    return f"message format v{magic} is not one of Kafka 0.7"
