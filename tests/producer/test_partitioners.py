"""Partitioners against values of the JVM (coordination.md 6.2) and of the Java producer's own tests."""

from __future__ import annotations

import random

import pytest

from kafkawire.dialects import dialect
from producer.encoders import as_bytes, as_null, as_text
from producer.partitioners import (
    Long,
    Sticky,
    byte_array_partitioner,
    default_of,
    default_partitioner,
    default_partitioner_07,
    masking_partitioner,
    murmur2,
    murmur2_partitioner,
)


@pytest.mark.parametrize(
    ("key", "partitions", "expected"),
    [
        ("orders", 10, 1),
        ("orders", 4, 3),
        (b"orders", 10, 0),
        ("polygenelubricants", 10, 0),  # its hash is the smallest int32, whose |hash| is 0
        (-7, 10, 7),
        (1 << 40, 10, 256 % 10),
        (-1 << 40, 10, 256 % 10),  # Long.hashCode: the two halves together, 0xffffff00 ^ 0
    ],
)
def test_the_default_partitioner_is_the_one_of_0_8_2(key: object, partitions: int, expected: int):
    assert default_partitioner(key, partitions) == expected


@pytest.mark.parametrize(
    ("key", "partitions", "v07", "v080"),
    [("orders", 10, 1, 7), ("orders", 4, 3, 1), (b"orders", 10, 0, 8), ("polygenelubricants", 10, -1, 0)],
)
def test_older_releases_hash_negative_keys_differently(key: object, partitions: int, v07: int, v080: int):
    assert default_partitioner_07(key, partitions) == v07
    assert masking_partitioner(key, partitions) == v080
    assert default_of(dialect("0.8.1")) is masking_partitioner
    assert default_of(dialect("0.8.2")) is default_of(dialect("0.10.2")) is default_partitioner


def test_a_negative_long_hashes_otherwise_than_an_integer():
    assert default_partitioner(-5, 100) == 5
    assert default_partitioner(Long(-5), 100) == 4


def test_bytes_are_hashed_as_the_byte_array_partitioner_does():
    assert byte_array_partitioner(b"key", 1000) == 870  # Arrays.hashCode: 135870
    assert default_partitioner(bytearray(b"key"), 1000) == byte_array_partitioner(memoryview(b"key"), 1000)


@pytest.mark.parametrize("key", [1.5, True, object(), 1 << 70])
def test_a_key_without_a_stable_hash_is_refused(key: object):
    with pytest.raises(TypeError, match="no stable hash"):
        default_partitioner(key, 4)


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_the_java_clients(key: bytes, signed: int):
    assert murmur2(key) == signed & 0xFFFFFFFF
    assert murmur2_partitioner(key, 7) == (signed & 0x7FFFFFFF) % 7
    assert murmur2_partitioner(key.decode(), 7) == murmur2_partitioner(key, 7)


def test_sticky_stays_until_it_forgets_or_the_leader_is_gone():
    sticky = Sticky(random.Random(1))
    first = sticky.choose("t", [0, 1, 2, 3])
    assert all(sticky.choose("t", [0, 1, 2, 3]) == first for _ in range(20))
    others = [p for p in range(4) if p != first]
    assert sticky.choose("t", others) in others
    chosen = set()
    for _ in range(50):
        sticky.forget()
        chosen.add(sticky.choose("t", [0, 1, 2, 3]))
    assert chosen == {0, 1, 2, 3}
    assert Sticky().choose("t", []) is None


def test_encoders():
    assert [as_bytes(v) for v in (None, b"b", "é", bytearray(b"x"))] == [None, b"b", "é".encode(), b"x"]
    assert (as_text("é"), as_text(None), as_null("x")) == ("é".encode(), None, None)
    for encoder, wrong in ((as_bytes, 5), (as_text, b"bytes")):
        with pytest.raises(TypeError):
            encoder(wrong)
