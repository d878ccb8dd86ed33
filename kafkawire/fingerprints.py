"""Fingerprints of messages: 64 bits of a key and a value, for comparing logs without their offsets.

    CRC-32 and length of key and of value, mixed      hashed(): computed on columns; used to compare two clusters
    the bytes of key and value, hashed with blake2b   whole_hashed(): one call per message, where a CRC is not trusted

Null and empty differ.  Offset, timestamp, codec and message format are not included: a mirror may change each of them.

Computed by numpy if it is installed, else by pure Python with the same results: an executor of Spark may have no more
than pyspark and pyarrow, a mirror no more than its own dependencies.
"""

from __future__ import annotations

import importlib.util
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from hashlib import blake2b
from itertools import repeat
from typing import Any

from kafkawire.columns import Columns, Field, Part, as_list, checksums

MASK = (1 << 64) - 1
SIZES = 0xD6E8FEB86659FD93
MIX_1, MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of splitmix64, which spreads each bit over all
HAS_NUMPY = importlib.util.find_spec("numpy") is not None


def message_hash(key_crc: int, key_size: int, value_crc: int, value_size: int) -> int:
    """Return 64 bits from checksums and sizes.  A null has size −1 and checksum 0."""
    x = (key_crc << 32 | value_crc) + ((key_size + 1) << 32 | (value_size + 1)) * SIZES & MASK
    x = (x ^ x >> 30) * MIX_1 & MASK
    x = (x ^ x >> 27) * MIX_2 & MASK
    return x ^ x >> 31


def whole_hash(key: bytes | None, value: bytes | None, timestamp_ms: int = -1) -> int:
    """Return 64 bits of all bytes of a message; timestamp −1: the message has none, or it is ignored."""
    size = -1 if key is None else len(key)
    digest = blake2b(size.to_bytes(5, "little", signed=True), digest_size=8)
    digest.update(timestamp_ms.to_bytes(8, "little", signed=True))
    digest.update(key or b"")
    digest.update(b"\0" if value is None else b"\1" + value)
    return int.from_bytes(digest.digest(), "little")


@dataclass(frozen=True, slots=True, eq=False)
class Hashed:
    """Fingerprints of the messages of one set in a range of offsets, as columns of equal length."""

    offsets: Any  # a Column, or an array of int64
    value_crcs: Any
    hashes: Any  # of uint64
    timestamps_ms: Any  # None if no message has one


def hashed(columns: Columns, start: int, until: int, vector: bool = HAS_NUMPY) -> Hashed:
    """Return the fingerprints of messages with start <= offset < until. vector False: without numpy."""
    rows = bisect_left(columns.offsets, start), bisect_left(columns.offsets, until)  # offsets never descend
    return _vector_hashed(columns, *rows) if vector else _plain_hashed(columns, *rows)


def whole_hashed(
    columns: Columns, start: int, until: int, timestamps: bool = False, vector: bool = HAS_NUMPY
) -> Hashed:
    """Return whole_hash() of each message with start <= offset < until. timestamps: include them."""
    found = hashed(columns, start, until, vector)
    since = bisect_left(columns.offsets, start)
    rows = slice(since, since + len(found.offsets))
    stamps = found.timestamps_ms if timestamps else None
    times = repeat(-1) if stamps is None else (int(stamp) for stamp in stamps)
    hashes: Any = array("Q", map(whole_hash, columns.keys()[rows], columns.values()[rows], times))
    if vector:
        import numpy as np

        hashes = np.asarray(hashes, np.uint64)
    return Hashed(found.offsets, found.value_crcs, hashes, found.timestamps_ms)


def key_hashes(columns: Columns, since: int, until: int, vector: bool = HAS_NUMPY) -> Any:
    """Return 64 bits of the key of each row since..until."""
    crcs = memoryview(checksums([Part(columns, since, until)], Field.KEY).numbers).cast("B").cast("q")
    if not vector:
        sizes = as_list(columns.key_size[since:until])
        return [message_hash(crc, size, 0, -1) for crc, size in zip(crcs, sizes, strict=True)]
    import numpy as np

    none = np.zeros(until - since, np.uint64)
    size = np.asarray(columns.key_size[since:until], np.int64)
    return mixed(np.asarray(crcs).view(np.uint64), size, none, np.full(until - since, -1, np.int64))


def _checksums(columns: Columns, since: int, until: int) -> tuple[memoryview, memoryview]:
    """Return the checksums of keys, and of values."""
    part = [Part(columns, since, until)]
    key, value = (memoryview(checksums(part, field).numbers).cast("B").cast("q") for field in (Field.KEY, Field.VALUE))
    return key, value


def _plain_hashed(columns: Columns, since: int, until: int) -> Hashed:
    key_crcs, value_crcs = (array("q", numbers) for numbers in _checksums(columns, since, until))
    sizes = (as_list(size[since:until]) for size in (columns.key_size, columns.value_size))
    hashes = [
        message_hash(key_crc, key_size, value_crc, value_size)
        for key_crc, key_size, value_crc, value_size in zip(key_crcs, next(sizes), value_crcs, next(sizes), strict=True)
    ]
    stamps = columns.timestamps_ms
    times = None if stamps is None else as_list(stamps[since:until])
    return Hashed(as_list(columns.offsets[since:until]), value_crcs, hashes, times)


def _vector_hashed(columns: Columns, since: int, until: int) -> Hashed:
    import numpy as np

    cut = slice(since, until)
    key_crcs, value_crcs = (np.asarray(numbers).view(np.uint64) for numbers in _checksums(columns, since, until))
    key_size, value_size = (np.asarray(sizes[cut], np.int64) for sizes in (columns.key_size, columns.value_size))
    hashes = mixed(key_crcs, key_size, value_crcs, value_size)
    stamps = columns.timestamps_ms
    times = None if stamps is None else np.asarray(stamps[cut], np.int64)
    return Hashed(np.asarray(columns.offsets[cut], np.int64), value_crcs, hashes, times)


def mixed(key_crcs: Any, key_sizes: Any, value_crcs: Any, value_sizes: Any) -> Any:
    """Return message_hash() of each row."""
    import numpy as np

    u64 = np.uint64
    sizes = (key_sizes + 1).astype(u64) << u64(32) | (value_sizes + 1).astype(u64)
    x = (key_crcs << u64(32) | value_crcs) + sizes * u64(SIZES)
    x = (x ^ x >> u64(30)) * u64(MIX_1)
    x = (x ^ x >> u64(27)) * u64(MIX_2)
    return x ^ x >> u64(31)
