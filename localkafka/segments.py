"""Log segments on a broker's disk: their files, and flipping a byte of a value.

    entry   = offset:int64  size:int32  message
    message = crc:uint32  magic:int8  attributes:int8  [timestamp:int64 if magic is 1]  key  value    (int32 lengths)

A batch of format v2 (magic 2, at the same position) is one entry; its records count as the value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from localkafka.errors import LocalKafkaError

HEADER = struct.Struct(">qi")
LENGTH = struct.Struct(">i")
MAGIC_AT = HEADER.size + 4
KEY_AT = {0: HEADER.size + 6, 1: HEADER.size + 14}
RECORDS_AT = 61  # in a v2 batch
LAST_OFFSET_DELTA_AT = 23


@dataclass(frozen=True, slots=True)
class Flipped:
    """A flipped byte: the segment, the position in the file, and the (last) offset of the entry."""

    segment: Path
    position: int
    offset: int


def files(folder: Path) -> list[Path]:
    """Return the segments in a partition's folder, oldest first: their names are their first offsets, zero-padded."""
    return sorted(folder.glob("*.log"))


def flip_byte(closed: Sequence[Path], where: str, offset: int | None, at: int) -> Flipped:
    """Flip all bits of byte `at` of the value of the entry with this offset (None: the first entry), in one of these
    files.  Raises LocalKafkaError when none of them holds the entry, or its value is shorter."""
    for segment in closed:
        data = segment.read_bytes()
        for start, end, last in _entries(data):
            if offset is None or last >= offset:
                position = _value(data, start, end, where) + at
                if position >= end:
                    raise LocalKafkaError(f"{where}: the value at offset {last} has no byte {at}")
                with segment.open("r+b") as log:
                    log.seek(position)
                    log.write(bytes([data[position] ^ 0xFF]))
                return Flipped(segment, position, last)
    wanted = "any message" if offset is None else f"offset {offset}"
    raise LocalKafkaError(
        f"{where}: none of {len(closed)} closed segments holds {wanted}; set log.segment.bytes smaller or produce more"
    )


def _entries(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, last offset) of each complete entry."""
    start = 0
    while start + HEADER.size <= len(data):
        offset, size = HEADER.unpack_from(data, start)
        end = start + HEADER.size + size
        if size <= 0 or end > len(data):
            return
        if data[start + MAGIC_AT] == 2:
            offset += LENGTH.unpack_from(data, start + LAST_OFFSET_DELTA_AT)[0]
        yield start, end, offset
        start = end


def _value(data: bytes, start: int, end: int, where: str) -> int:
    """Return the position of the entry's value."""
    magic = data[start + MAGIC_AT]
    if magic == 2:
        return start + RECORDS_AT
    key_at = start + KEY_AT[magic]
    key: int = LENGTH.unpack_from(data, key_at)[0]
    value_at = key_at + LENGTH.size + max(0, key)
    if LENGTH.unpack_from(data, value_at)[0] < 1:
        raise LocalKafkaError(f"{where}: the value of the entry at byte {start} is empty")
    return value_at + LENGTH.size
