"""Which lines of the log are kept as events."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kafkawire.model import TopicPartition
from mirrormaker.happenings import MAX_TEXT, Happenings
from zkconsumer.events import ConsumerEvent, logger_of

log = logging.getLogger("mirrormaker.test_happenings")


@pytest.fixture
def happenings() -> Iterator[Happenings]:
    made = Happenings(most=20)
    log.setLevel(logging.INFO)
    made.attach()
    yield made
    made.detach()


def named(happenings: Happenings) -> list[tuple[str, str, str]]:
    return [(each.level, each.name, each.text) for each in happenings.newest()]


def test_warnings_and_lines_with_a_name_are_events(happenings: Happenings) -> None:
    log.info("41 msg/s")
    log.warning("target: broker %d hangs", 3)
    log.info("mirroring", extra={"event": "started"})
    assert named(happenings) == [
        ("warning", "warning", "target: broker 3 hangs"),
        ("info", "started", "mirroring"),
    ]


def test_events_of_a_consumer_have_their_kind(happenings: Happenings) -> None:
    logging.getLogger("zkconsumer").setLevel(logging.INFO)
    say = logger_of("source dc1")
    tp = TopicPartition("orders", 3)
    say(ConsumerEvent("parked", "orders/3: too large", tp))
    say(ConsumerEvent("rebalance", "12 partitions"))
    say(ConsumerEvent("start", "orders/3 at 7", tp))  # one for each partition
    assert named(happenings) == [
        ("warning", "parked", "source dc1: parked: orders/3: too large"),
        ("info", "rebalance", "source dc1: rebalance: 12 partitions"),
    ]


def test_one_that_repeats_itself_pushes_nothing_out(happenings: Happenings) -> None:
    log.error("the one that matters")
    for n in range(1000):
        log.warning("orders/3 fails for the %d. time", n)
    texts = [each.text for each in happenings.newest()]
    assert texts[0] == "the one that matters"
    assert len(texts) == 6


def test_a_text_is_one_line_of_bounded_length(happenings: Happenings) -> None:
    log.warning("a\nb %s", "x" * 5000)
    (text,) = [each.text for each in happenings.newest()]
    assert text.startswith("a b x")
    assert len(text) == MAX_TEXT
