"""Logs as verify reads them, from brokers that speak real bytes: ends, columns, damage inside entries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkawire.cluster.logreader import Gap
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.model import Broker, TopicPartition
from mirrormaker.verify import logs as logs_module
from mirrormaker.verify.logs import Logs
from tests.fakes.broker import FakeCluster, LeaveOut, entry, gzipped

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """t/0 is led by broker 1, t/1 by broker 2."""
    with FakeCluster({"t": 2}, brokers=2) as running:
        yield running


@pytest.fixture
def logs(cluster: FakeCluster) -> Iterator[Logs]:
    brokers = [Broker(n, host, port) for n, (host, port) in enumerate(cluster.bootstrap, 1)]
    opened = Logs.of("the target", ClusterVersions("0.8.2"), brokers, [T0, T1])
    yield opened
    opened.close()


def numbers(*which: int) -> bytes:
    return b"".join(entry(b"%d" % n) for n in which)


def read(logs: Logs, tp: TopicPartition, start: int, until: int) -> tuple[list[int], list[Gap]]:
    """Values as numbers, and gaps."""
    values: list[int] = []
    gaps: list[Gap] = []
    for found in logs.read(tp, start, until):
        if isinstance(found, Gap):
            gaps.append(found)
        else:
            values += [int(value or b"-1") for value in found.columns.values()]
    return values, gaps


def test_everything_is_read_also_in_wrappers_and_from_within_one(cluster: FakeCluster, logs: Logs) -> None:
    cluster.append("t", 0, numbers(*range(5)))
    cluster.append("t", 0, gzipped(numbers(*range(5, 9))))
    assert (logs.earliest([T0, T1]), logs.ends([T0, T1])) == ({T0: 0, T1: 0}, {T0: 9, T1: 0})
    assert read(logs, T0, 0, 9) == (list(range(9)), [])
    assert read(logs, T0, 7, 9) == ([7, 8], [])
    assert read(logs, T1, 0, 0) == ([], [])


def test_behind_a_damaged_message_reading_goes_on(cluster: FakeCluster, logs: Logs) -> None:
    for n in range(6):
        cluster.append("t", 0, numbers(n))
    with cluster.lock:
        at, data = cluster.logs["t", 0].entries[3]
        cluster.logs["t", 0].entries[3] = at, data[:-1] + b"x"
    for start in (0, 3):
        values, [gap] = read(logs, T0, start, 6)
        assert values == [n for n in range(start, 6) if n != 3]
        assert (gap.first, gap.until) == (3, 4)


def test_partitions_whose_ends_nobody_tells_are_named_and_asked_no_more(
    cluster: FakeCluster, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs._client, "_retry", logs_module.RetryPolicy(retries=1))
    cluster.append("t", 0, numbers(1))
    cluster.leave_leaders(2)
    cluster.stop(2)
    assert logs.ends([T0, T1]) == {T0: 1}
    assert logs.earliest([T0, T1]) == {T0: 0}
    assert list(logs.unknown) == [T1]
    assert logs.unknown[T1].startswith("the target: the ends of t/1 are not known: ")


def test_a_leader_that_stays_away_is_told_with_the_cluster(
    cluster: FakeCluster, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs._reader, "patience_s", 0.3)
    cluster.append("t", 1, numbers(1))
    cluster.leave_leaders(2)
    cluster.stop(2)
    with pytest.raises(Unreachable, match=r"the target: nothing was read of t/1 for 0\.3 s: "):
        read(logs, T1, 0, 1)


def test_a_message_is_found_again_by_its_offset(cluster: FakeCluster, logs: Logs) -> None:
    cluster.append("t", 0, numbers(*range(5)))
    columns = logs.message(T0, 3)
    assert columns is not None
    assert columns.values()[0] == b"3"


def test_what_a_broker_does_not_answer_for_is_asked_for_again(cluster: FakeCluster, logs: Logs) -> None:
    cluster.append("t", 0, numbers(*range(4)))
    cluster.script("list_offsets", LeaveOut(("t", 0)))
    assert logs.ends([T0]) == {T0: 4}
    assert logs.unknown == {}
