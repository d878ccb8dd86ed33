"""What a command asks of a source whose brokers hang: it is refused in time, and the member's heartbeats go on."""

from __future__ import annotations

import pytest

from groundwork.tasks import TaskGroup, deadline, now, sleep
from mirrormaker import source as of_source
from mirrormaker.options import SourceOptions
from mirrormaker.source import Source
from tests.fakes.coordinating import GroupCluster
from zkconsumer.errors import ConsumerError
from zkconsumer.filters import Whitelist

SESSION_S = 1.0


def test_a_command_gets_an_answer_in_time_from_a_source_whose_brokers_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_source, "ANSWER_S", 0.6)
    with GroupCluster({"t": 2}, brokers=3) as cluster:
        options = SourceOptions(
            name="dc1",
            group_id="g",
            coordination="kafka",
            brokers=tuple(cluster.addresses.values()),
            version="0.10.1",
            group_session_timeout_ms=int(SESSION_S * 1000),
            auto_offset_reset="smallest",
        )
        tasks = TaskGroup()
        source = Source(options, tasks, on_fence=lambda: None)
        try:
            source.join(Whitelist("t"), 1, lambda offsets: None)
            with deadline(10):
                while not source.assigned:
                    sleep(0.01)
            for api in ("Metadata", "DescribeGroups"):
                cluster.hang(1, 2, 3, api=api)
            beats = cluster.count(1, "Heartbeat")
            for question in (source.all_topics, lambda: source.partitions_of(["t"]), lambda: source.owners(["t"])):
                began = now()
                with pytest.raises(ConsumerError, match=r"no answer|does not say"):
                    question()
                assert now() - began < 0.6 + 0.4
            assert cluster.count(1, "Heartbeat") > beats + 5
            assert tasks.death is None
        finally:
            cluster.wake(1, 2, 3)
            source.shutdown()
            tasks.stop(1.0)
