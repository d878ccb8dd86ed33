"""Old messages against the retention of the target, and against how long its brokers remember a producer."""

from __future__ import annotations

import pytest

from kafkawire.model import TopicPartition
from mirrormaker.retention import (
    DAY_MS,
    FOR_EVER,
    HOUR_MS,
    Kept,
    Old,
    deleted_soon,
    kept_by,
    old_messages,
    remembered_ms,
    span,
    stored_twice,
    topic_defaults,
)

NOW_MS = 1_764_000_000_000
WEEK = {"retention.ms": str(7 * DAY_MS), "cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}


def old(*logs: list[int | None], lost: int | None = None) -> Old | None:
    """Of the partitions of one topic, whose messages have these timestamps; None: it has none.  lost: not answered."""

    def offsets(time_ms: int) -> dict[TopicPartition, int | None]:
        found = {n: [at for at, ms in enumerate(log) if ms is not None and ms >= time_ms] for n, log in enumerate(logs)}
        return {TopicPartition("t", n): ats[0] if ats else None for n, ats in found.items() if n != lost}

    ends: dict[TopicPartition, int | None] = {TopicPartition("t", n): len(log) for n, log in enumerate(logs)}
    return old_messages(offsets(0), offsets(NOW_MS - 7 * DAY_MS), ends).get("t")


def aged(*days: int | None) -> list[int | None]:
    return [None if each is None else NOW_MS - each * DAY_MS for each in days]


def test_messages_older_than_the_target_keeps_any_are_counted_by_topic() -> None:
    assert old(aged(30, 20, 8, 6, 1), aged(10), aged(1), []) == Old(4, 7)
    assert old(aged(30, 6), aged(30), lost=1) == Old(1, 2)
    assert old(aged(None, None, 30, 6)) == Old(1, 2)


def test_messages_without_a_timestamp_are_not_old() -> None:
    """A broker counts the retention of a file that has none from when it was written."""
    assert old(aged(None, None)) is None


@pytest.mark.parametrize(
    ("own", "defaults", "ms", "age_ms"),
    [
        ({}, WEEK, 7 * DAY_MS, 7 * DAY_MS),
        ({"retention.ms": str(DAY_MS)}, WEEK, DAY_MS, DAY_MS),
        ({"retention.ms": "-1"}, WEEK, FOR_EVER, None),
        ({"cleanup.policy": "compact"}, WEEK, FOR_EVER, None),
        ({"cleanup.policy": "compact,delete"}, WEEK, 7 * DAY_MS, 7 * DAY_MS),
        ({"message.timestamp.type": "LogAppendTime"}, WEEK, 7 * DAY_MS, None),
        ({}, {}, None, None),
        ({"retention.ms": str(DAY_MS)}, {}, DAY_MS, DAY_MS),
    ],
)
def test_how_long_a_topic_keeps_messages(
    own: dict[str, str], defaults: dict[str, str], ms: int | None, age_ms: int | None
) -> None:
    found = kept_by(own, defaults)
    assert (found.ms, found.age_ms) == (ms, age_ms)


def test_a_topic_says_whose_retention_it_has() -> None:
    assert str(kept_by({}, WEEK)) == "it keeps messages for 7 d (retention.ms 604800000, its brokers' default)"
    own = {"retention.ms": str(36 * HOUR_MS)}
    assert str(kept_by(own, WEEK)) == "it keeps messages for 36 h (retention.ms 129600000, set for the topic)"
    assert str(kept_by({"retention.ms": "-1"}, {})) == "it keeps messages for ever (retention.ms -1, set for the topic)"
    assert str(kept_by({}, {})) == "how long it keeps messages is not known"


def test_the_finest_retention_of_a_broker_counts() -> None:
    hours = {"log.retention.hours": "168", "log.cleanup.policy": "delete", "log.message.timestamp.type": "CreateTime"}
    assert topic_defaults(hours) == WEEK
    assert topic_defaults({**hours, "log.retention.minutes": "2"})["retention.ms"] == "120000"
    assert topic_defaults({**hours, "log.retention.minutes": "2", "log.retention.ms": "-1"})["retention.ms"] == "-1"
    assert topic_defaults({}) == {}


@pytest.mark.parametrize(
    ("release", "settings", "ms"),
    [
        ((0, 10, 2), {}, None),
        ((0, 11, 0), {}, 7 * DAY_MS),
        ((3, 3), {"transactional.id.expiration.ms": "5", "producer.id.expiration.ms": "9"}, 5),
        ((3, 4), {}, DAY_MS),
        ((4, 0), {"producer.id.expiration.ms": "9"}, 9),
    ],
)
def test_how_long_brokers_remember_a_producer(
    release: tuple[int, ...], settings: dict[str, str], ms: int | None
) -> None:
    assert remembered_ms(settings, release) == ms


def test_what_the_target_will_delete_is_named_with_its_numbers() -> None:
    kept = kept_by({}, WEEK)
    said = deleted_soon("orders", "orders.copy", kept, Old(1500, 2000))
    assert said.startswith(
        "topic orders: 1500 of 2000 messages are older than target topic orders.copy keeps any "
        "(retention.ms 604800000, its brokers' default: 7 d): the target acknowledges them, and deletes "
    )
    assert deleted_soon("orders", "orders", Kept(DAY_MS), Old(0, 2000)) == ""


def test_what_may_be_stored_twice_names_topics_and_exactly_once() -> None:
    [said] = stored_twice({"a": Old(3, 5), "b": Old(0, 5), "c": Old(4, 4)}, DAY_MS)
    assert said.startswith("7 messages of a, c are older than the target's brokers remember a producer (1 d)")
    assert "delivery.guarantee: exactly-once" in said
    assert list(stored_twice({"b": Old(0, 5)}, DAY_MS)) == []


def test_times_are_shown_in_their_largest_whole_unit() -> None:
    assert [span(ms) for ms in (1500, 90_000, 36 * HOUR_MS, 7 * DAY_MS)] == ["1500 ms", "90 s", "36 h", "7 d"]
