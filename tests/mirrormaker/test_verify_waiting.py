"""`mirrormaker verify` while it waits for commits: what it says of the group, in each store and generation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError

from kafkawire.dialects import expected
from kafkawire.model import BrokerPartition, PartitionId, TopicPartition
from mirrormaker.options import SourceOptions
from mirrormaker.verify import bounds
from mirrormaker.verify.bounds import SourceCluster, wait_committed
from tests.fakes.znodes import FakeZookeeper

MEMBER = "/consumers/orders/ids/orders_host-1-00000001"
ENDED = "; no member of group orders runs"


def source(version: str = "0.8.2", **options: Any) -> SourceCluster:
    named = SourceOptions(name="dc1", zookeeper_connect="zk:2181", group_id="orders", version=version, **options)
    return SourceCluster(named, {}, {}, frozenset())


@pytest.fixture
def zookeeper(monkeypatch: pytest.MonkeyPatch) -> FakeZookeeper:
    fake = FakeZookeeper()

    @contextmanager
    def session(options: SourceOptions) -> Iterator[FakeZookeeper]:
        yield fake

    monkeypatch.setattr(bounds, "_session", session)
    monkeypatch.setattr(bounds, "POLL_S", 0.001)
    return fake


def waited(asked: SourceCluster, partitions: list[PartitionId], stop: FakeZookeeper) -> str:
    """The first line that is shown; then everything is committed."""
    tps = [TopicPartition("t", each) for each in partitions]
    lines: list[str] = []

    def tell(line: str) -> None:
        lines.append(line)
        for tp in tps:
            stop.set(expected(asked.options.version).znodes.offset("orders", tp), b"9")

    found = wait_committed(asked, dict.fromkeys(tps, 9), dict.fromkeys(tps, 0), wait_s=30, tell=tell)
    assert found == dict.fromkeys(tps, 9)
    return lines[0]


@pytest.mark.parametrize("version", ["0.7.2", "0.8.2", "3.9"])
@pytest.mark.parametrize(
    ("nodes", "ending"),
    [
        ({}, ENDED),
        ({"/consumers/orders/offsets": None}, ENDED),
        ({"/consumers/orders/ids": None}, ENDED),
        ({MEMBER: b"{}"}, ""),
        ({"/consumers/others/ids/others_host-1-00000001": b"{}"}, ENDED),
    ],
)
def test_the_line_says_that_no_member_runs(
    version: str, nodes: dict[str, bytes | None], ending: str, zookeeper: FakeZookeeper
) -> None:
    for path, data in nodes.items():
        zookeeper.set(path, data)
    partitions: list[PartitionId] = [BrokerPartition(0, 0), BrokerPartition(0, 1)] if version == "0.7.2" else [0, 1]
    line = waited(source(version), partitions, zookeeper)
    assert line == f"source dc1: waiting 30 s at most for 2 of 2 partitions to be committed{ending}"


def test_one_partition_is_one(zookeeper: FakeZookeeper) -> None:
    assert "1 of 1 partition to be committed" in waited(source(), [0], zookeeper)


def test_ids_that_may_not_be_read_say_nothing(zookeeper: FakeZookeeper, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: str) -> list[str]:
        raise NoAuthError

    monkeypatch.setattr(zookeeper, "get_children", closed)
    assert waited(source(), [0], zookeeper).endswith("to be committed")


def test_a_group_with_its_offsets_in_kafka_has_its_members_in_zookeeper(
    zookeeper: FakeZookeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = source(offsets_storage="kafka", dual_commit=False)
    tp, lines = TopicPartition("t", 0), list[str]()
    monkeypatch.setattr(bounds, "_in_kafka", lambda source, tps, zk: {tp: 9} if len(lines) > 1 else {})

    def tell(line: str) -> None:
        lines.append(line)
        zookeeper.set(MEMBER, b"{}")  # it begins meanwhile

    assert wait_committed(asked, {tp: 9}, {tp: 0}, wait_s=30, tell=tell) == {tp: 9}
    assert [line.endswith(ENDED) for line in lines] == [True, False]


def test_of_a_group_that_kafka_coordinates_zookeeper_is_not_asked(
    zookeeper: FakeZookeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = SourceCluster(
        SourceOptions(name="dc1", coordination="kafka", brokers=(("h", 9092),), group_id="orders", version="3.9"),
        {}, {}, frozenset(),
    )  # fmt: skip
    assert asked.options.coordinated
    tp, lines = TopicPartition("t", 0), list[str]()
    monkeypatch.setattr(bounds, "committed", lambda source, tps, zk: {tp: 9} if lines else {})
    assert wait_committed(asked, {tp: 9}, {tp: 0}, wait_s=30, tell=lines.append) == {tp: 9}
    assert lines == ["source dc1: waiting 30 s at most for 1 of 1 partition to be committed"]
    assert zookeeper.calls == []
