"""Three brokers, three replicas, min.insync.replicas 2: ten leaders are killed under full rate, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from localkafka.cluster import Cluster
from tests.integration.producing import SAFE, check_log, sent_while_leaders_die

pytestmark = [pytest.mark.real, pytest.mark.faults]


def test_ten_killed_leaders_lose_nothing_and_keep_the_order(own_cluster: Callable[..., Cluster], unique: Any):
    cluster = own_cluster(brokers=3, settings=SAFE)
    topic = unique.topic("killed")
    counts = sent_while_leaders_die(cluster, topic, kills=10)
    print(f"{sum(counts)} messages, {check_log(cluster, topic, counts)} of them twice")
