"""A set written again by columns holds the messages of the set: rows, ends of steps, and where damage stops it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import CorruptMessage
from kafkawire.model import BrokerPartition, Message, MessageSet, PartitionId, TopicPartition
from producer.conversion import coded_sets, transcode
from producer.steps import Step

V07, V08, V010, V28 = dialect("0.7"), dialect("0.8.2"), dialect("0.10.1"), dialect("2.8")
TARGET = TopicPartition("orders", 5)
LIMIT = 1000012
Row = tuple[bytes | None, bytes | None]
Stretch = tuple[int, list[Row]]  # codec, rows

rows07 = st.lists(st.tuples(st.none(), st.binary(max_size=40)), min_size=1, max_size=7)
rows08 = st.lists(
    st.tuples(st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=40)), min_size=1, max_size=7
)


def stretches(rows: st.SearchStrategy[list[Row]]) -> st.SearchStrategy[list[Stretch]]:
    return st.lists(st.tuples(st.sampled_from([0, 0, 1, 2]), rows), min_size=1, max_size=6)


def fetched(of: Dialect, found: list[Stretch], skipped: int = 0, flipped: int | None = None) -> MessageSet:
    """A set as it was fetched at message `skipped` (0.8); flipped: a bit of that byte is another."""
    stored, offset = bytearray(), 100
    for codec, rows in found:
        entries = [(offset + n, key, value, 5000 + n) for n, (key, value) in enumerate(rows)]
        stored += of.messages.encode(entries, codec=codec, magic=of.magic)
        offset += len(rows)
    if flipped is not None:
        stored[flipped % len(stored)] ^= 1
    partition: PartitionId = BrokerPartition(1, 2) if of.partitions_by_broker else 3
    start = 100 + (0 if of.partitions_by_broker else min(skipped, offset - 101))
    message_set: MessageSet = of.messages.message_set("orders", partition, start, memoryview(bytes(stored)), None)[0]
    return message_set


def done(steps: Callable[[], Iterator[Step]]) -> tuple[list[Step], int | None]:
    """The steps, and the offset of the damage that ended them."""
    found: list[Step] = []
    try:
        for step in steps():
            found.append(step)
    except CorruptMessage as damage:
        return found, damage.offset
    return found, None


def read(steps: list[Step], to: Dialect) -> list[tuple[bytes | None, bytes | None, int | None]]:
    rows = []
    for step in steps:
        for part in step.parts:
            assert (part.tp, part.magic, part.resume_at) == (TARGET, to.magic, None)
            message_set, scan = to.messages.message_set("t", 0, 0, memoryview(stored(bytes(part.entries), to)), None)
            assert (scan.damage, scan.end) == (None, len(part.entries))
            messages = list(message_set.messages())
            assert (len(messages), {run.codec for run in message_set.runs}) == (part.count, {part.codec})
            rows += [(message.key, message.value, message.timestamp_ms) for message in messages]
    return rows


def stored(entries: bytes, to: Dialect) -> bytes:
    """With offsets that ascend, as brokers of 0.8 and later give them: an entry that is like the one before it, offset
    and all, counts as the same one."""
    if to is not V08 and to is not V010:
        return entries
    numbered, at = bytearray(entries), 0
    while at < len(numbered):
        struct.pack_into(">q", numbered, at, 1000 + at)
        at += 12 + int.from_bytes(numbered[at + 8 : at + 12])
    return bytes(numbered)


def holds(message_set: MessageSet, to: Dialect, codec: int | None, limit: int) -> None:
    """What transcode() yields is the messages of the set as an object each, up to the first damage."""
    steps, failed = done(lambda: transcode(message_set, TARGET, to, limit, codec))
    messages, borders, damage = whole(message_set, to, codec)
    assert failed == damage
    assert read(steps, to) == [(message.key, message.value, stamp_of(message, to)) for message in messages]
    ends = [step.resume_at for step in steps]
    assert ends[-1:] == borders[-1:]
    if borders != sorted(borders):
        return  # an offset of 0.8 was flipped, which no checksum covers
    assert ends == sorted(set(ends))
    assert set(ends) <= set(borders)


def stamp_of(message: Message, to: Dialect) -> int | None:
    """The timestamp that the copy of a message has: -1 where only the target's format has room for one."""
    if not to.has_timestamps:
        return None
    return -1 if message.timestamp_ms is None else message.timestamp_ms


def whole(message_set: MessageSet, to: Dialect, codec: int | None) -> tuple[list[Message], list[int], int | None]:
    """Messages, those of one offset all or none; offsets that a step may end at; the offset of the damage."""
    found, inside, borders = list[Message](), list[Message](), list[int]()
    try:
        for alone, _ in coded_sets(message_set, to, codec):
            for message in alone.messages():
                inside.append(message)
                if message.resume_at > message.offset:
                    found += inside
                    inside = []
                    borders.append(message.resume_at)
            if alone.resume_at not in borders:
                borders.append(alone.resume_at)
    except CorruptMessage as damage:
        return found, borders, damage.offset
    return found, borders, None


codecs, tight = st.sampled_from([None, 0, 1, 2]), st.sampled_from([LIMIT, 1500])


@settings(max_examples=50, deadline=None)
@given(stretches(rows07), st.sampled_from([V07, V08, V010, V28]), codecs, tight)
def test_out_of_0_7(found: list[Stretch], to: Dialect, codec: int | None, limit: int) -> None:
    holds(fetched(V07, found), to, codec, limit)


@settings(max_examples=50, deadline=None)
@example([(0, [(None, None)] * 4), (1, [(None, None)]), (1, [(None, None)])], 4, V010, V010, 0, LIMIT)
@given(
    stretches(rows08), st.integers(0, 9), st.sampled_from([V08, V010]), st.sampled_from([V08, V010, V28]), codecs, tight
)
def test_within_later_releases(
    found: list[Stretch], skipped: int, of: Dialect, to: Dialect, codec: int | None, limit: int
) -> None:
    holds(fetched(of, found, skipped), to, codec, limit)


@settings(max_examples=80, deadline=None)
@given(stretches(rows07), st.integers(0, 10_000))
def test_damage_of_0_7_stops_right_behind_what_is_whole(found: list[Stretch], flipped: int) -> None:
    holds(fetched(V07, found, flipped=flipped), V08, None, LIMIT)


@settings(max_examples=80, deadline=None)
@given(stretches(rows08), st.integers(0, 10_000), st.sampled_from([V08, V010]))
def test_damage_of_later_releases_stops_right_behind_what_is_whole(
    found: list[Stretch], flipped: int, of: Dialect
) -> None:
    holds(fetched(of, found, flipped=flipped), V08, None, LIMIT)


def test_large_sets_are_cut_into_steps_and_parts() -> None:
    rows: list[Row] = [(None, b"%06d" % n + b"x" * 1000) for n in range(3000)]
    message_set = fetched(V07, [(0, rows)])
    steps, failed = done(lambda: transcode(message_set, TARGET, V08, LIMIT))
    assert failed is None
    assert len(steps) >= 3
    assert [value for _, value, _ in read(steps, V08)] == [value for _, value in rows]
    wrapped, _ = done(lambda: transcode(message_set, TARGET, V08, 50_000, codec=2))
    assert all(len(step.parts) >= 1 for step in wrapped)
    assert [value for _, value, _ in read(wrapped, V08)] == [value for _, value in rows]


@pytest.mark.parametrize("codec", [0, 1])
def test_a_message_larger_than_the_limit_goes_alone(codec: int) -> None:
    message_set = fetched(V07, [(0, [(None, b"a"), (None, b"b" * 5000), (None, b"c")])])
    (step,), _ = done(lambda: transcode(message_set, TARGET, V08, 2000, codec=codec))
    assert codec == 0 or [part.count for part in step.parts] == [1, 1, 1]
    assert [value for _, value, _ in read([step], V08)] == [b"a", b"b" * 5000, b"c"]
