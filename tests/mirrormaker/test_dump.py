"""What SIGUSR1 says of a sender's connections."""

from __future__ import annotations

import pytest

from kafkawire.model import TopicPartition
from mirrormaker.dump import dump
from tests.fakes.broker import FakeCluster
from tests.producer.running import part, running, until


@pytest.mark.parametrize(("connections", "said"), [(1, "1 connected"), (2, "1 connected 2 times")])
def test_open_connections_to_each_broker_are_counted(connections: int, said: str) -> None:
    with FakeCluster({"t": 2}) as cluster, running(cluster, connections=connections) as run:
        assert list(dump([], {"dc1": run.sender}))[1] == "  brokers: none was needed yet"
        run.sent(*(part(b"v", tp=TopicPartition("t", n)) for n in range(2)))
        assert list(dump([], {"dc1": run.sender}))[1] == f"  brokers: {said}"
        cluster.stop(1)
        run.submit(part(b"w"), part(b"w", tp=TopicPartition("t", 1)))
        until(lambda: list(dump([], {"dc1": run.sender}))[1] == "  brokers: 1 away")
