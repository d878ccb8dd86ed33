"""Encode messages as entries of formats v0 and v1, plain or in one wrapper. messages.py describes the layout."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import count, repeat
from typing import TYPE_CHECKING

from kafkawire import compression
from kafkawire.columns import Part as Stretch
from kafkawire.columns import as_list, headers_of, laid, numbered
from kafkawire.errors import LocalError
from kafkawire.formats.v01.scan import ENTRY_OVERHEAD
from kafkawire.headers import refuse
from kafkawire.kernels import ready
from kafkawire.primitives import Bytes, Encoded

if TYPE_CHECKING:
    from kafkawire.formats.compiled import Kernels

Blobs = Sequence[Bytes | None]
Row = tuple[int, Bytes | None, Bytes | None, int | None]  # offset, key, value, timestamp in ms

MANY = 64  # messages in lists; for fewer, the compiled loop costs more than it saves

_ENTRY = struct.Struct(">qiI")
_HEAD_V0 = struct.Struct(">BBi")  # the checksummed bytes up to the key length: magic, attributes, key length
_HEAD_V1 = struct.Struct(">BBqi")
_INT32 = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_ATTRIBUTES = 17  # position in an entry
_KEYLESS = struct.Struct(">qiI10s")  # a v0 entry without a key, up to its value


def encode(
    messages: Iterable[Row], codec: int = 0, magic: int = 0, headers: Sequence[Bytes | None] | None = None
) -> bytes:
    """Encode messages as plain entries, or as one wrapper around them; b"" for no messages.

    Inner offsets are as given in v0 and count from 0 by one in v1 (a broker recompresses anything else), so gaps are
    lost there.  The wrapper's offset is the last one given, its timestamp the largest.  Timestamps None and below 0 are
    -1 in v1; v0 has none.  Raises LocalError for an unknown format or codec, for headers, and for an entry over 2 GiB.
    """
    refuse(headers, magic)
    if not codec:
        return entries(messages, magic)
    rows = list(messages)
    return wrap(rows, codec, magic, range(len(rows)))


def encode_lists(
    keys: Blobs,
    values: Blobs,
    timestamps_ms: Sequence[int | None] | None,
    headers: Blobs | None,
    codec: int = 0,
    magic: int = 0,
) -> Encoded:
    """Encode messages given as lists of equal length, with offsets starting at 0.

    timestamps_ms, headers: None: no message has any.
    """
    return encode_lists_by(ready() if len(keys) >= MANY else None, keys, values, timestamps_ms, headers, codec, magic)


def encode_lists_by(
    kernels: Kernels | None,
    keys: Blobs,
    values: Blobs,
    timestamps_ms: Sequence[int | None] | None,
    headers: Blobs | None,
    codec: int = 0,
    magic: int = 0,
) -> Encoded:
    """Encode messages given as lists with these kernels; None: in pure Python."""
    refuse(headers, magic)
    stamps = _stamps(timestamps_ms, magic)
    if kernels is None:
        return encode(zip(count(), keys, values, stamps or repeat(None), strict=False), codec, magic)
    return encode_columns_by(kernels, [Stretch(laid(kernels, keys, values, stamps, None), 0, len(keys))], codec, magic)


def encode_columns(parts: Sequence[Stretch], codec: int = 0, magic: int = 0) -> Encoded:
    """Encode rows of columns.  Entries already in this format are copied; plain ones keep their offsets, since a broker
    assigns its own."""
    rows = sum(until - since for _, since, until in parts)
    return encode_columns_by(ready() if rows >= MANY else None, parts, codec, magic)


def encode_columns_by(kernels: Kernels | None, parts: Sequence[Stretch], codec: int = 0, magic: int = 0) -> Encoded:
    """Encode rows of columns with these kernels; None: in pure Python."""
    refuse(headers_of(parts), magic)
    rows = sum(until - since for _, since, until in parts)
    if magic not in (0, 1) or not rows:
        return encode(numbered(parts), codec, magic)
    plain: Encoded
    plain, newest = _plain(parts, magic, codec > 0) if kernels is None else kernels.entries(parts, magic, codec > 0)
    return _wrapped(plain, codec, magic, rows, newest) if codec else plain


def _plain(parts: Sequence[Stretch], magic: int, numbered: bool) -> tuple[bytes, int]:
    """Return rows as plain entries, and the largest timestamp; entries are copied if possible.

    numbered: copied entries, too, get offsets starting at 0.
    """
    stamps = [stamp for part in parts for stamp in part.timestamps_ms()] if magic else []
    newest = max((-1 if stamp is None else stamp for stamp in stamps), default=-1)
    out: list[Bytes] = []
    for part in parts:
        copied = _copied(part, magic) if part.columns.entry_magic == magic else [None] * (part.until - part.since)
        if None in copied:
            rows = zip(count(len(out)), part.keys(), part.values(), part.timestamps_ms(), strict=False)
            out += [entries([row], magic) if kept is None else kept for row, kept in zip(rows, copied, strict=True)]
        else:
            out += copied  # type: ignore[arg-type]  # as none is None
    if numbered:
        pairs: list[Bytes] = [b""] * (2 * len(out))
        pairs[::2], pairs[1::2] = _numbers(len(out)), [entry[_OFFSET.size :] for entry in out]
        out = pairs
    return b"".join(out), newest


def _copied(part: Stretch, magic: int) -> Sequence[Bytes | None]:
    """Return the entries that contain the rows; None for an entry that has to be encoded again, since its timestamp is
    the broker's or missing, or an attribute is set."""
    columns, since, until = part
    if columns.entries is not None and not magic:
        return columns.entries.all[since:until]
    head, data = ENTRY_OVERHEAD[magic] - 4, columns.data
    key_at, value_at = as_list(columns.key_at[since:until]), as_list(columns.value_at[since:until])
    to_attributes = head - _ATTRIBUTES
    kept = [not data[at - to_attributes] for at in key_at]
    if magic:
        stamps, types = columns.timestamps_ms, columns.timestamp_types
        if stamps is None or types is None:
            return [None] * len(kept)
        times = zip(kept, as_list(stamps[since:until]), as_list(types[since:until]), strict=True)
        kept = [one and type_ <= 0 and stamp >= -1 for one, stamp, type_ in times]
    places = zip(kept, key_at, value_at, as_list(columns.value_size[since:until]), strict=True)
    return [
        data[at - head : value_at + size if size > 0 else value_at] if one else None
        for one, at, value_at, size in places
    ]


@lru_cache(maxsize=1)
def _first_numbers() -> list[bytes]:
    return [_OFFSET.pack(number) for number in range(1 << 14)]


def _numbers(count: int) -> list[bytes]:
    """Return `count` encoded offsets starting at 0."""
    known = _first_numbers()
    return known[:count] + [_OFFSET.pack(number) for number in range(len(known), count)]


def _stamps(timestamps_ms: Sequence[int | None] | None, magic: int) -> Sequence[int] | None:
    """Return timestamps for format v1; None if no message has one, or the format has none."""
    if magic == 0 or timestamps_ms is None or timestamps_ms.count(None) == len(timestamps_ms):
        return None
    return [-1 if stamp is None or stamp < 0 else stamp for stamp in timestamps_ms]


def may_pass(entries: Bytes, begin: int, start: int) -> bool:
    """False: formats v0 and v1 have no record batches."""
    return False


def wrap(rows: list[Row], codec: int, magic: int, relative: Iterable[int]) -> bytes:
    """Return one wrapper; relative: its inner offsets, if the format has relative ones (v1)."""
    if not rows:
        return b""
    inner = rows
    if magic == 1:
        inner = [(number, key, value, stamp) for number, (_, key, value, stamp) in zip(relative, rows, strict=True)]
    newest = max(-1 if stamp is None else stamp for _, _, _, stamp in rows)
    return _wrapped(entries(inner, magic), codec, magic, rows[-1][0] + 1, newest)


def _wrapped(plain: Bytes, codec: int, magic: int, behind: int, newest: int) -> bytes:
    """Return plain entries in a wrapper; `behind` is the offset after the last one."""
    value = compression.compress(codec, plain, magic)
    return entries([(behind - 1, None, value, newest)], magic, codec)


def entries(rows: Iterable[Row], magic: int, attributes: int = 0) -> bytes:
    """Return one entry per row, all with these attributes.  Raises LocalError as encode() does."""
    if magic not in (0, 1):
        raise LocalError(f"message format v{magic} is not written here")
    if magic == 0 and not attributes:
        return _plain_v0(rows)
    out: list[Bytes] = []
    crc32 = zlib.crc32
    try:
        for offset, key, value, stamp in rows:
            head = _head(magic, attributes, key, value, stamp)
            value = b"" if value is None else value
            crc = crc32(value, crc32(head))
            out += (_ENTRY.pack(offset, 4 + len(head) + len(value), crc), head, value)
    except struct.error as exc:
        raise _unfit(magic, exc) from exc
    return b"".join(out)


def _head(magic: int, attributes: int, key: Bytes | None, value: Bytes | None, stamp: int | None) -> bytes:
    """Return an entry's bytes from its magic to its value's length."""
    key_size, key = (-1, b"") if key is None else (len(key), key)
    value_size = -1 if value is None else len(value)
    if magic == 0:
        return b"".join((_HEAD_V0.pack(0, attributes, key_size), key, _INT32.pack(value_size)))
    at_ms = -1 if stamp is None or stamp < 0 else stamp
    return b"".join((_HEAD_V1.pack(1, attributes, at_ms, key_size), key, _INT32.pack(value_size)))


def _plain_v0(rows: Iterable[Row]) -> bytes:
    """Return entries as a 0.8 producer sends them: mostly without a key, so that all values of one length have the same
    header."""
    out: list[Bytes] = []
    heads: dict[int, tuple[int, int, bytes]] = {}  # by length of the value: size, checksum of the head, head
    crc32, pack, add = zlib.crc32, _KEYLESS.pack, out.append
    try:
        for offset, key, value, _ in rows:
            if key is None and value is not None:
                found = heads.get(len(value))
                if found is None:
                    head = _head(0, 0, None, value, None)
                    found = heads[len(value)] = 4 + len(head) + len(value), crc32(head), head
                size, crc, head = found
                add(pack(offset, size, crc32(value, crc), head))
                add(value)
            else:
                head = _head(0, 0, key, value, None)
                value = b"" if value is None else value
                out += (_ENTRY.pack(offset, 4 + len(head) + len(value), crc32(value, crc32(head))), head, value)
    except struct.error as exc:
        raise _unfit(0, exc) from exc
    return b"".join(out)


def _unfit(magic: int, exc: struct.error) -> LocalError:
    return LocalError(f"a message does not fit format v{magic}: {exc}")
