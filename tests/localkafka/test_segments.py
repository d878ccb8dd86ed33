"""A byte flipped in a segment file: the right one, and only that."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from localkafka import segments
from localkafka.errors import LocalKafkaError


def entry(offset: int, key: bytes | None, value: bytes | None) -> bytes:
    fields = b"\x00\x00"
    for field in (key, value):
        fields += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    return struct.pack(">qiI", offset, len(fields) + 4, zlib.crc32(fields)) + fields


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(entry(0, None, b"zero") + entry(1, b"key", b"one") + entry(5, None, b"wrapper of 2 to 5"))
    return path


@pytest.mark.parametrize(
    ("offset", "at", "found", "value"), [(None, 0, 0, b"zero"), (1, 2, 1, b"one"), (3, 0, 5, b"wrapper of 2 to 5")]
)
def test_exactly_the_wanted_byte_is_flipped(log: Path, offset: int | None, at: int, found: int, value: bytes) -> None:
    before = log.read_bytes()
    flipped = segments.flip_byte([log], "t/0", offset, at)
    after = log.read_bytes()
    assert [at for at, (a, b) in enumerate(zip(before, after, strict=True)) if a != b] == [flipped.position]
    assert flipped.position == before.index(value) + at
    assert flipped.offset == found


def test_a_byte_beyond_the_value_or_the_log_is_refused_and_nothing_changed(log: Path) -> None:
    before = log.read_bytes()
    with pytest.raises(LocalKafkaError, match="t/0: the value at offset 0 has no byte 4"):
        segments.flip_byte([log], "t/0", 0, 4)
    with pytest.raises(LocalKafkaError, match="t/0: none of 1 closed segments holds offset 6"):
        segments.flip_byte([log], "t/0", 6, 0)
    assert log.read_bytes() == before


def test_a_null_value_has_no_byte_to_flip(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(entry(0, b"key", None))
    with pytest.raises(LocalKafkaError, match="t/0: the value of the entry at byte 0 is empty"):
        segments.flip_byte([log], "t/0", 0, 0)


def test_segments_are_listed_by_offset_and_indexes_left_out(tmp_path: Path) -> None:
    for name in ("00000000000000000100.log", "00000000000000000000.log", "00000000000000000000.index"):
        (tmp_path / name).touch()
    assert [path.name for path in segments.files(tmp_path)] == ["00000000000000000000.log", "00000000000000000100.log"]
