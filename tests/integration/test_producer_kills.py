"""Three brokers, three replicas, min.insync.replicas 2: leaders are killed under full rate, and nothing is lost.

tests/faults/test_producer_kills_long.py kills ten times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from localkafka.cluster import Cluster
from tests.integration.producing import SAFE, check_log, repeated, sent_while_leaders_die


@pytest.mark.real
def test_two_killed_leaders_lose_nothing_and_keep_the_order(own_cluster: Callable[..., Cluster], unique: Any):
    cluster = own_cluster(brokers=3, settings=SAFE)
    topic = unique.topic("killed")
    counts = sent_while_leaders_die(cluster, topic, kills=2)
    again = check_log(cluster, topic, counts)
    assert again < sum(counts)
    print(f"{sum(counts)} messages, {again} of them twice")


@pytest.mark.parametrize(
    ("numbers", "fault"),
    [
        ([0, 1, 3], "missing between"),
        ([0, 1, 2, 3, 1, 2, 0], "and 3 was there before"),
        ([0, 1, 2, 3, 1, 2], "ends within what came again"),
        ([0, 1, 2], "the log ends with 2"),
    ],
)
def test_the_check_sees_what_is_lost_or_out_of_order(numbers: list[int], fault: str):
    with pytest.raises(AssertionError, match=fault):
        repeated(numbers, 4)


def test_the_check_lets_whole_requests_come_again():
    assert repeated([0, 1, 2, 1, 2, 3, 1, 2, 3], 4) == 5
