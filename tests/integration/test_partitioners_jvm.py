"""Keys land on the partition that the JVM's own class of each release chooses: asked of those classes themselves."""

from __future__ import annotations

import base64
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundwork.java import bytes_hash, string_hash
from localkafka.jars import class_path
from localkafka.seven import original as seven
from producer.partitioners import (
    INT_MIN,
    Long,
    byte_array_partitioner,
    default_partitioner,
    default_partitioner_07,
    masking_partitioner,
    murmur2_partitioner,
)

pytestmark = pytest.mark.real
ORACLE = Path(__file__).with_name("PartitionOracle.java")
COUNT = 1000
SMALLEST = "polygenelubricants"  # its hash is the smallest int32


def texts(rng: random.Random) -> list[object]:
    """Also outside the basic plane, where one character is two of Java's."""
    alphabet = "abcXYZ019 -_éßЖ中\U0001f600\U00010348"
    drawn = ["".join(rng.choices(alphabet, k=rng.randrange(1, 24))) for _ in range(COUNT - 2)]
    return ["", SMALLEST, *drawn]


def octets(rng: random.Random) -> list[object]:
    """Also one whose hash is the smallest int32."""
    found = smallest_bytes()
    return [b"", found, *(rng.randbytes(rng.randrange(1, 40)) for _ in range(COUNT - 2))]


def smallest_bytes() -> bytes:
    """Bytes whose Arrays.hashCode is the smallest int32: a prefix, and the signed digits of what is left."""
    for first in range(256):
        for second in range(256):
            head = bytes([first, second])
            missing = (INT_MIN - bytes_hash(head + bytes(5))) & 0xFFFFFFFF
            tail = _digits(missing)
            if tail is not None and bytes_hash(head + tail) == INT_MIN:
                return head + tail
    raise AssertionError("no such bytes")


def _digits(number: int) -> bytes | None:
    digits = []
    for power in (31**4, 31**3, 31**2, 31, 1):
        digit = min(number // power, 127)
        number -= digit * power
        digits.append(digit)
    return bytes(digits) if number == 0 else None


def integers(rng: random.Random) -> list[object]:
    return [0, -1, INT_MIN, (1 << 31) - 1, *(rng.randrange(INT_MIN, 1 << 31) for _ in range(COUNT - 4))]


def longs(rng: random.Random) -> list[object]:
    edges = [0, -1, INT_MIN, -(1 << 63), (1 << 63) - 1]
    return [Long(n) for n in [*edges, *(rng.randrange(-(1 << 63), 1 << 63) for _ in range(COUNT - len(edges)))]]


def ask(classes: str, asked: list[tuple[str, str, object, int]]) -> list[int]:
    """asked: class, type of the key, key, partitions."""
    lines = []
    for name, kind, key, count in asked:
        raw = key if isinstance(key, bytes) else str(key).encode()
        lines.append(f"{name} {kind} {base64.b64encode(raw).decode()} {count}\n")
    command = ["java", "-XX:+UseSerialGC", "-Xmx64m", "-cp", classes, str(ORACLE)]
    done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


MAKERS = {"string": texts, "bytes": octets, "int": integers, "long": longs}
CLASSES: dict[str, list[tuple[str, Callable[[Any, int], int], tuple[str, ...]]]] = {
    "0.8.1.1": [
        ("DefaultPartitioner", masking_partitioner, ("string", "int", "long")),
        ("ByteArrayPartitioner", masking_partitioner, ("bytes",)),
    ],
    "0.8.2.2": [
        ("DefaultPartitioner", default_partitioner, ("string", "int", "long")),
        ("ByteArrayPartitioner", byte_array_partitioner, ("bytes",)),
        ("murmur2", murmur2_partitioner, ("bytes",)),
        ("client", murmur2_partitioner, ("bytes",)),
    ],
}


@pytest.mark.kafka07
def test_a_thousand_keys_of_each_type_land_where_the_original_0_7_puts_them():
    """The smallest int32 stays negative there: no partition, and the original refuses such a message too."""
    compare(seven.class_path(), [("DefaultPartitioner", default_partitioner_07, ("string", "int", "long"))])


@pytest.mark.parametrize("version", CLASSES)
def test_a_thousand_keys_of_each_type_land_where_the_original_puts_them(version: str):
    compare(class_path(version), CLASSES[version])


def compare(classes: str, partitioners: list[tuple[str, Callable[[Any, int], int], tuple[str, ...]]]) -> None:
    rng = random.Random(1469)
    asked, ours = [], []
    for name, partitioner, kinds in partitioners:
        for kind in kinds:
            keys = MAKERS[kind](rng)
            assert len(keys) == COUNT
            for key in keys:
                count = rng.randrange(1, 50)
                asked.append((name, kind, key, count))
                ours.append(partitioner(key, count))
    theirs = ask(classes, asked)
    if partitioners[0][1] is default_partitioner_07:
        theirs = [max(-1, number) for number in theirs]
    assert [(row, mine, its) for row, mine, its in zip(asked, ours, theirs, strict=True) if mine != its] == []


def test_the_key_with_the_smallest_hash_has_it():
    assert string_hash(SMALLEST) == INT_MIN
    assert bytes_hash(smallest_bytes()) == INT_MIN
