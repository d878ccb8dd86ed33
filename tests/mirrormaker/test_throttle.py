"""Throttles against a simulated source: how much gets through, and that each partition has its turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from kafkawire.model import TopicPartition
from mirrormaker.throttle import TICK_S, FlowThrottle

FETCH = 1 << 20


class Source:
    """Partitions with as much as anyone wants; a fetch takes 20 ms and asks all that may be fetched."""

    def __init__(self, *topics: str, partitions: int = 4, message: int = 1000, fetch_s: float = 0.02) -> None:
        self.tps = [TopicPartition(topic, p) for topic in topics for p in range(partitions)]
        self.limits: Mapping[TopicPartition, int] = {}
        self.came: Counter[TopicPartition] = Counter()
        self.message = message
        self.fetch_s = fetch_s
        self.throttle = FlowThrottle(self._apply)
        self.throttle.own(self.tps)
        self.at = 0.0

    def _apply(self, limits: Mapping[TopicPartition, int]) -> None:
        self.limits = limits

    def run(self, seconds: float, dry: frozenset[TopicPartition] = frozenset()) -> Counter[TopicPartition]:
        """What came of each partition in that time; dry: partitions without new messages."""
        began, tick_at, before = self.at, self.at, Counter(self.came)
        while self.at < began + seconds:
            while tick_at <= self.at:
                self.throttle.tick(tick_at)
                tick_at += TICK_S
            asked = [(tp, self.limits.get(tp, FETCH)) for tp in self.tps if self.limits.get(tp) != 0 and tp not in dry]
            self.at += self.fetch_s if asked else 0.001
            for tp, size in asked:
                count = max(1, size // self.message)
                nbytes = count * self.message
                self.came[tp] += nbytes
                self.throttle.count(
                    SimpleNamespace(  # type: ignore[arg-type]
                        tp=tp,
                        topic=tp.topic,
                        partition=0,
                        start=0,
                        resume_at=count,
                        runs=[SimpleNamespace(begin=0, end=nbytes)],
                    ),
                    self.at,
                )
        return self.came - before


@pytest.mark.parametrize("partitions", [1, 4, 50])
@pytest.mark.parametrize("rate", [300_000, 1_000_000, 8_000_000])
def test_as_much_comes_as_is_allowed(rate: float, partitions: int) -> None:
    source = Source("t", partitions=partitions)
    source.throttle.keep({"t": (rate, None)}, 0.0)
    source.run(2)
    assert sum(source.run(10).values()) / 10 == pytest.approx(rate, rel=0.1)


def test_every_partition_has_its_turn() -> None:
    source = Source("t", partitions=8)
    source.throttle.keep({"t": (1e6, None)}, 0.0)
    came = source.run(30)
    assert min(came.values()) > 0.7 * max(came.values())
    assert len(came) == 8


def test_messages_are_limited_too_and_the_lower_limit_holds() -> None:
    source = Source("t")
    source.throttle.keep({"t": (8e6, 500.0)}, 0.0)
    source.run(5)
    assert sum(source.run(20).values()) / 1000 / 20 == pytest.approx(500, rel=0.1)


def test_one_message_that_is_larger_than_a_seconds_worth_is_paid_for_later() -> None:
    source = Source("t", partitions=1, message=5_000_000)
    source.throttle.keep({"t": (1e6, None)}, 0.0)
    assert sum(source.run(50).values()) / 50 == pytest.approx(1e6, rel=0.11)


def test_a_topic_that_is_throttled_slows_no_other_and_a_flow_that_is_slows_all() -> None:
    source = Source("t", "u")
    source.throttle.keep({"t": (1e6, None)}, 0.0)
    came = source.run(5)
    assert sum(size for tp, size in came.items() if tp.topic == "u") > 200e6
    source.throttle.keep({"": (4e6, None), "t": (1e6, None)}, source.at)
    source.run(2)
    came = source.run(20)
    assert sum(came.values()) / 20 == pytest.approx(4e6, rel=0.1)
    assert sum(size for tp, size in came.items() if tp.topic == "t") / 20 <= 1.1e6


def test_partitions_with_nothing_new_take_no_turn_from_the_others() -> None:
    source = Source("t", partitions=20)
    source.throttle.keep({"t": (1e6, None)}, 0.0)
    dry = frozenset(source.tps[1:])
    source.run(3, dry)
    assert sum(source.run(10, dry).values()) / 10 == pytest.approx(1e6, rel=0.1)


def test_what_was_saved_up_while_nothing_came_is_a_second_at_most() -> None:
    source = Source("t")
    source.throttle.keep({"t": (1e6, None)}, 0.0)
    source.run(60, frozenset(source.tps))
    assert sum(source.run(1).values()) < 2.7e6


def test_the_end_of_a_throttle_frees_everything_at_once() -> None:
    source = Source("t")
    source.throttle.keep({"t": (1e5, None)}, 0.0)
    source.run(3)
    assert source.throttle.limiting("t", source.at) == "t"
    source.throttle.keep({}, source.at)
    assert source.limits == {}
    assert not source.throttle
    assert source.throttle.limiting("t", source.at) is None


def test_a_limit_that_stays_keeps_its_debt() -> None:
    source = Source("t", "u")
    source.throttle.keep({"t": (1e4, None)}, 0.0)
    source.run(1)
    source.throttle.keep({"t": (1e4, None), "u": (1e6, None)}, source.at)
    assert sum(size for tp, size in source.run(1).items() if tp.topic == "t") == 0
