"""Hashes of keys, and rows by group: compiled and pure forms against one key and one row at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundwork.java import bytes_hash
from kafkawire.columns import Columns
from kafkawire.grouping import Grouped, grouped_by
from kafkawire.kernels import compiled, prepare
from kafkawire.keyhashes import (
    ABSOLUTE,
    ABSOLUTE_07,
    FAILS,
    KEYLESS,
    LARGEST,
    MASKED,
    MURMUR2,
    REMEMBERED,
    KeyIndexes,
    index,
    indexes,
    indexes_at,
)
from producer.partitioners import (
    byte_array_partitioner,
    default_partitioner,
    default_partitioner_07,
    is_pure,
    masking_partitioner,
    murmur2_partitioner,
    rule_of,
)

RULES = (MURMUR2, ABSOLUTE, MASKED, ABSOLUTE_07)
SMALLEST = b"\x00\x0e\x04\x05\x17\x01\x1a"  # its Arrays.hashCode is the smallest int32
KEYS = st.lists(st.none() | st.binary(max_size=40) | st.sampled_from([b"a", b"b", SMALLEST]), max_size=60)


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    prepare()


def laid(keys: list[bytes | None], values: list[bytes | None], headed: bool = False) -> Columns:
    """Columns of messages, in a buffer with other bytes between what they point to."""
    data, places = bytearray(b"~"), [list[int]() for _ in range(4)]
    for key, value in zip(keys, values, strict=True):
        for field, (at, size) in ((key, (0, 1)), (value, (2, 3))):
            places[at].append(len(data))
            places[size].append(-1 if field is None else len(field))
            data += (field or b"") + b"~"
    count = len(keys)
    headers = [0 if n % 3 else 5 for n in range(count)]
    none = (None, None)
    return Columns(
        list(range(70, 70 + count)),
        *places,
        timestamps_ms=list(range(count)),
        timestamp_types=[0] * count,
        data=bytes(data),
        resume_at=70 + count,
        damage=None,
        **dict(zip(("header_at", "header_size"), (list(range(count)), headers) if headed else none, strict=True)),
    )


def test_a_key_of_the_smallest_hash() -> None:
    assert bytes_hash(SMALLEST) == -(1 << 31)


@settings(max_examples=80, deadline=None)
@given(KEYS, st.sampled_from(RULES), st.sampled_from([1, 2, 3, 4, 7, 50, 1000]), st.sampled_from([KEYLESS, 0]))
def test_all_keys_at_once_as_one_by_one(keys: list[bytes | None], rule: int, count: int, keyless: int) -> None:
    wanted = [keyless if key is None else index(rule, key, count) for key in keys]
    kernels = compiled()
    assert kernels is not None
    found, least = kernels.indexes(laid(keys, keys), len(keys), rule, count, keyless)
    assert found.tolist() == wanted
    assert least == min([0, *wanted])


@pytest.mark.parametrize(
    ("partitioner", "rule"),
    [
        (murmur2_partitioner, MURMUR2),
        (byte_array_partitioner, ABSOLUTE),
        (default_partitioner, ABSOLUTE),
        (masking_partitioner, MASKED),
        (default_partitioner_07, ABSOLUTE_07),
    ],
)
def test_each_built_in_partitioner_has_its_rule(partitioner: Callable[..., int], rule: int) -> None:
    assert rule_of(partitioner) == rule
    assert is_pure(partitioner)
    for key in (b"", b"a", b"kafka", b"\xff\x80\x7f\x00", bytes(range(256)), SMALLEST):
        for count in (1, 3, 4, 12):
            one = partitioner(key, count)
            assert index(rule, key, count) == (FAILS if one == -1 else one)


def test_a_programs_own_partitioner_says_that_it_is_pure() -> None:
    def own(key: bytes, partitions: int) -> int:
        return 0

    class Own:
        pure = True

        def partition(self, key: bytes, partitions: int) -> int:
            return 0

    assert not is_pure(own)
    own.pure = True  # type: ignore[attr-defined]
    assert is_pure(own)
    assert is_pure(Own().partition)
    assert rule_of(own) is None


def test_known_keys_are_asked_for_once_and_no_more_are_kept_than_said() -> None:
    asked: list[bytes] = []

    def of_key(key: bytes, partitions: int) -> int:
        asked.append(key)
        return len(key) % partitions

    known, found = KeyIndexes(of_key, 7), list[int]()
    known.add([b"a", None, b"bb", b"a", b"bb"], found)
    assert (found, asked) == ([1, KEYLESS, 2, 1, 2], [b"a", b"bb"])
    long = b"x" * (LARGEST + 1)
    assert [known[long], known[long]] == [len(long) % 7] * 2
    assert asked[2:] == [long, long]
    for number in range(2 * REMEMBERED):
        known[b"%d" % number]
        assert len(known) <= REMEMBERED


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(RULES),
    st.integers(1, LARGEST).flatmap(lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=1)),
    st.integers(1, 40) | st.sampled_from([255, 256, 257, 4096, 1 << 20]),
)
def test_many_keys_of_one_size_are_hashed_at_once_as_each_is(rule: int, keys: list[bytes], partitions: int) -> None:
    found = indexes(rule, keys, partitions)
    assert found is not None
    assert list(found) == [index(rule, key, partitions) for key in keys]


@pytest.mark.parametrize("rule", RULES)
def test_more_keys_than_one_number_holds_with_bytes_in_common_are_hashed_as_each_is(rule: int) -> None:
    keys = [b"\xff-key-%08d-\x80" % (n * 7919) for n in range(9000)]
    data = b"".join(b"~~" + key + b"~" for key in keys)
    wanted = [index(rule, key, 5) for key in keys]
    found = indexes_at(rule, data, 2, len(keys[0]), len(keys[0]) + 3, len(keys), 5)
    assert found is not None
    assert list(found) == wanted


def test_keys_that_are_not_alike_are_hashed_one_by_one() -> None:
    assert indexes(ABSOLUTE, [b"a", b"bb"], 3) is None
    assert indexes(ABSOLUTE, [b""], 3) is None
    assert indexes(ABSOLUTE, [b"x" * (LARGEST + 1)], 3) is None
    assert bytes_hash(SMALLEST) == -(1 << 31)
    assert indexes(ABSOLUTE_07, [SMALLEST], 3) is None
    for rule in (ABSOLUTE, MASKED):
        assert list(indexes(rule, [SMALLEST], 3) or ()) == [index(rule, SMALLEST, 3)] == [0]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([ABSOLUTE, MASKED, ABSOLUTE_07, MURMUR2]),
    st.lists(st.lists(st.none() | st.integers(0, 3000).map(lambda n: b"k%d" % n), max_size=120), max_size=4),
)
def test_keys_of_several_sets_have_their_indexes_whether_known_or_not(
    rule: int, sets: list[list[bytes | None]]
) -> None:
    known = KeyIndexes(lambda key, n: index(rule, key, n), 7, rule)
    for keys in sets:
        found: list[int] = []
        known.add(keys, found)
        assert found == [KEYLESS if key is None else index(rule, key, 7) for key in keys]


def test_more_keys_than_are_remembered_are_hashed_all_the_same() -> None:
    asked: list[bytes] = []

    def of_key(key: bytes, partitions: int) -> int:
        asked.append(key)
        return index(ABSOLUTE, key, partitions)

    known = KeyIndexes(of_key, 3, ABSOLUTE)
    for begin in range(0, 3 * REMEMBERED, REMEMBERED // 2):
        keys: list[bytes | None] = [b"%08d" % number for number in range(begin, begin + REMEMBERED // 2)]
        found: list[int] = []
        known.add(keys, found)
        assert found[:50] == [index(ABSOLUTE, key, 3) for key in keys[:50] if key is not None]
        assert len(known) <= REMEMBERED
    assert not asked


def test_where_one_fails_those_before_it_are_there() -> None:
    def of_key(key: bytes, partitions: int) -> int:
        if key == b"bad":
            raise ValueError(key)
        return 0

    found: list[int] = []
    with pytest.raises(ValueError, match="bad"):
        KeyIndexes(of_key, 3).add([b"a", b"b", b"bad", b"c"], found)
    assert found == [0, 0]


BLOBS = st.none() | st.binary(max_size=9)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(BLOBS, BLOBS, st.integers(0, 4)), max_size=50), st.booleans())
def test_rows_stand_by_group_in_the_order_they_came(
    rows: list[tuple[bytes | None, bytes | None, int]], headed: bool
) -> None:
    columns = laid([key for key, _, _ in rows], [value for _, value, _ in rows], headed)
    groups = [group for _, _, group in rows]
    for kernels in (None, compiled()):
        found = grouped_by(kernels, columns, groups, 5)
        for group in range(5):
            wanted = [n for n, (_, _, one) in enumerate(rows) if one == group]
            assert rows_of(found, group) == [(*rows[n][:2], n) for n in wanted]
            sizes = [
                len(rows[n][0] or b"") + len(rows[n][1] or b"") + (5 if headed and n % 3 == 0 else 0) for n in wanted
            ]
            assert found.sizes[group] == sum(sizes)


def rows_of(found: Grouped, group: int) -> list[tuple[bytes | None, bytes | None, int | None]]:
    stretch = found.stretch(group)
    stamps = stretch.timestamps_ms()
    offsets = list(found.columns.offsets[stretch.since : stretch.until])
    assert offsets == [70 + stamp for stamp in stamps if stamp is not None]
    return list(zip(stretch.keys(), stretch.values(), stamps, strict=True))
