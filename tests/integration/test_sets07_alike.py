"""Random message sets of 0.7, read by us and by the original's own classes: the same messages, the same positions."""

from __future__ import annotations

import random
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from kafkawire.compression import compress
from kafkawire.errors import CorruptMessage
from kafkawire.formats.v07.messages import message_set
from kafkawire.formats.v07.write import entry
from localkafka.seven import original

SETS = 3000
LIMIT_S = 120
SOURCE = Path(__file__).with_name("Sets07.java")


def plain(draw: random.Random) -> bytes:
    value = draw.randbytes(draw.choice([0, 1, 10, 60]))
    return entry(value, 0, -2) if draw.random() < 0.3 else entry(value, draw.choice([0, 0, 0, 4, 0xF8]))


def damaged(draw: random.Random) -> bytes:
    """An entry whose checksum is wrong."""
    data = bytearray(entry(draw.randbytes(10)))
    data[-1] ^= 1
    return bytes(data)


def item(draw: random.Random, depth: int = 0) -> bytes:
    if depth == 3 or draw.random() > 0.35:
        return damaged(draw) if draw.random() < 0.02 else plain(draw)
    codec, inner = draw.choice([1, 2]), b"".join(item(draw, depth + 1) for _ in range(draw.choice([0, 1, 2, 5])))
    if draw.random() < 0.3:
        inner = wrong_end(draw, inner)
    return entry(compress(codec, inner), codec)


def wrong_end(draw: random.Random, inner: bytes) -> bytes:
    """The inside of a wrapper cut anywhere, or with something behind it that begins as an entry does."""
    if draw.random() < 0.6:
        return inner[: draw.randrange(len(inner) + 1)]
    return (
        inner
        + struct.pack(">i", draw.choice([-1, *range(8), 50]))
        + bytes([draw.choice([0, 1, 2])]) * draw.randrange(9)
    )


def cases(draw: random.Random) -> list[tuple[int, bytes]]:
    """Sets at positions: whole ones, cut ones, and ones with a flipped bit."""
    made = []
    for number in range(SETS):
        data = bytearray(b"".join(item(draw) for _ in range(draw.randrange(5))))
        if number % 3 == 1 and data:
            del data[draw.randrange(len(data) + 1) :]
        if number % 3 == 2 and data:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        made.append((draw.choice([0, 1000, 1 << 40]), bytes(data)))
    return made


def ours(start: int, data: bytes) -> tuple[list[str], bool]:
    """What we read of a set, and whether we say that not all of it can be read."""
    found, scan = message_set("t", 0, start, memoryview(data), None)
    rows = []
    try:
        for message in found.messages():
            value = message.value or b""
            rows.append(f"{message.resume_at}:{len(value)}:{zlib.crc32(value)}")
    except CorruptMessage:
        return rows, True
    return rows, scan.damage is not None or scan.needed > 0


def theirs(folder: Path, made: list[tuple[int, bytes]]) -> list[tuple[list[str], bool]]:
    (folder / "sets").write_bytes(b"".join(struct.pack(">qi", start, len(data)) + data for start, data in made))
    command = original.command("Sets07", [str(folder / "sets")], folder, level="OFF", source=SOURCE)
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout
    lines = [line.split() for line in printed.split("\n")[:-1]]
    return [([each for each in line if each[0] != "!"], bool(line) and line[-1][0] == "!") for line in lines]


@pytest.mark.real
@pytest.mark.kafka07
def test_any_set_is_read_as_the_original_reads_it(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    made = cases(random.Random(seed))
    told = theirs(tmp_path, made)
    assert len(told) == len(made)
    wrong = whole = 0
    for (start, data), (rows, failed) in zip(made, told, strict=True):
        read, refused = ours(start, data)
        if failed or refused:
            # Both say that something is wrong; but where fewer than four bytes came, the original says nothing.
            assert refused
            assert failed or len(data) < 4
            # Ours comes to the damage later: the original looks one message ahead.
            assert read[: len(rows)] == rows
            wrong += 1
        else:
            assert read == rows
            whole += 1
    assert min(wrong, whole) > SETS // 10
