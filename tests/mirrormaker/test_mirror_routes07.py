"""Sets of 0.7 on their way: to newer formats decoded, to 0.7 as they are; never from inside a wrapper."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import CorruptMessage
from kafkawire.model import BrokerPartition, MessageSet, TopicPartition
from producer.conversion import (
    Lists,
    MessageHandlerFailed,
    Placed,
    Rows,
    by_columns,
    narrowed,
    pass_through,
    transcode,
)
from producer.steps import Step

OLD, V070, V08, V010 = dialect("0.7"), dialect("0.7.0"), dialect("0.8.2"), dialect("0.10.1")
SOURCE = TopicPartition("orders", BrokerPartition(3, 1))
TARGET = TopicPartition("orders", 5)
LIMIT = 1000012
Stretch = tuple[int, list[bytes]]  # codec, values


def fetched(stretches: Iterable[Stretch], start: int = 1000) -> MessageSet:
    stored = b"".join(
        OLD.messages.encode([(0, None, value, None) for value in values], codec=codec, magic=-1)
        for codec, values in stretches
    )
    message_set, scan = OLD.messages.message_set(SOURCE.topic, SOURCE.partition, start, memoryview(stored), None)
    assert scan.damage is None
    assert isinstance(message_set, MessageSet)
    return message_set


def read(steps: Iterable[Step], speaks: Dialect) -> list[bytes | None]:
    values = []
    for step in steps:
        for part in step.parts:
            message_set, scan = speaks.messages.message_set("t", 0, 0, memoryview(bytes(part.entries)), None)
            assert (scan.damage, scan.end) == (None, len(part.entries))
            assert part.magic == speaks.magic
            values += [message.value for message in message_set.messages()]
    return values


def kept(found: Iterable[Step], steps: list[Step]) -> None:
    """Into steps as they come: a failure loses none that came before."""
    for step in found:
        steps.append(step)


stretches = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, 2]), st.lists(st.binary(max_size=30), min_size=1, max_size=7)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(stretches, st.sampled_from([V08, V010]), st.booleans())
def test_all_arrives_in_a_newer_format_and_steps_end_at_borders(found: list[Stretch], to: Dialect, tight: bool) -> None:
    message_set = fetched(found)
    borders = {message.resume_at for message in message_set.messages() if message.resume_at > message.offset}
    steps = list(transcode(message_set, TARGET, to, 1500 if tight else LIMIT))
    assert read(steps, to) == [value for _, values in found for value in values]
    ends = [step.resume_at for step in steps]
    assert ends == sorted(set(ends))
    assert ends[-1] == message_set.resume_at
    assert set(ends) <= borders


def test_a_wrapper_larger_than_a_step_is_one_step_of_several_parts() -> None:
    values = [bytes([n]) * 5000 for n in range(250)]
    message_set = fetched([(0, [b"before"]), (1, values), (0, [b"after"])])
    steps = list(transcode(message_set, TARGET, V08, 100_000, codec=0))
    assert read(steps, V08) == [b"before", *values, b"after"]
    wrapper = message_set.runs[1].resume_at
    assert [step.resume_at for step in steps] == [wrapper, message_set.resume_at]


@pytest.mark.parametrize("bad", range(5))
def test_what_fails_inside_a_wrapper_leaves_the_whole_wrapper_for_later(bad: int) -> None:
    message_set = fetched([(0, [b"p"]), (1, [b"%d" % n for n in range(5)]), (0, [b"q"])])
    steps: list[Step] = []

    def picky(rows: Rows) -> Placed:
        if b"%d" % bad in rows.values:
            raise MessageHandlerFailed("no")
        return Placed({TARGET: Lists(rows.keys, rows.values, rows.timestamps_ms)}, rows.resume_at)

    with pytest.raises(MessageHandlerFailed):
        kept(by_columns(message_set, narrowed(picky), V08, LIMIT), steps)
    assert read(steps, V08) == [b"p"]
    assert steps[-1].resume_at == message_set.runs[0].resume_at


def test_a_damaged_message_stops_just_before_itself() -> None:
    message_set = fetched([(0, [b"good", b"bad"])])
    damaged = bytearray(message_set.buffer)
    damaged[-1] ^= 1
    message_set, _ = OLD.messages.message_set("orders", SOURCE.partition, 1000, memoryview(bytes(damaged)), None)
    steps: list[Step] = []
    with pytest.raises(CorruptMessage):
        kept(transcode(message_set, TARGET, V08, LIMIT), steps)
    assert (read(steps, V08), steps[-1].resume_at) == ([b"good"], 1000 + 10 + 4)


# ---- to 0.7 ---------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(stretches)
def test_to_0_7_entries_travel_as_they_are_and_wrappers_by_themselves(found: list[Stretch]) -> None:
    message_set = fetched(found)
    steps = list(pass_through(message_set, TARGET, OLD, LIMIT))
    parts = [part for step in steps for part in step.parts]
    assert b"".join(bytes(part.entries) for part in parts) == bytes(message_set.buffer)
    assert steps[-1].resume_at == message_set.resume_at
    at = 1000
    for step, part in zip(steps, parts, strict=True):
        at += len(part.entries)
        assert (step.resume_at, part.resume_at) == (at, at)


def test_a_wrapper_is_never_opened_on_its_way_to_0_7(monkeypatch: pytest.MonkeyPatch) -> None:
    message_set = fetched([(1, [b"a", b"b"]), (2, [b"c"])])

    def opened(*_: object) -> None:
        raise AssertionError("a wrapper was opened")

    monkeypatch.setattr("kafkawire.compression.decompress", opened)
    (first, second) = pass_through(message_set, TARGET, OLD, LIMIT, aligned=False)
    assert [step.parts[0].codec for step in (first, second)] == [1, 2]


def test_a_codec_that_the_target_lacks_is_opened_and_encoded_again() -> None:
    message_set = fetched([(2, [b"a", b"b"]), (0, [b"c"])])
    steps = list(pass_through(message_set, TARGET, V070, LIMIT))
    assert read(steps, V070) == [b"a", b"b", b"c"]
    assert {part.codec for step in steps for part in step.parts} == {0, 1}
