"""Transactions at the source of a mirror: committed ones arrive soon, aborted ones never, open ones hold up no other
partition, and the lag comes to 0."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition

from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt
from tests.conftest import Unique
from tests.integration.mirrorprocess import MirrorProcess
from tests.matrix.peer import Row
from tests.matrix.sites import Kind, Site, Sites

pytestmark = pytest.mark.real

ROUNDS = 9
IN_ONE = 20
LATENCY_S = 1.0


@pytest.fixture(scope="module")
def sites(zk_server: ZooKeeperAt, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with Sites(tmp_path_factory.mktemp("transactions"), zk_server) as sites:
        yield sites


def mirror_of(folder: Path, source: Site, target: Site, unique: Unique) -> MirrorProcess:
    made = MirrorProcess(folder, unique.group(), None)
    document = {
        "sources": [{"name": "dc1", "group.id": unique.group(), **source.as_source}],
        "target": {"metadata.broker.list": target.brokers},
        "mirror": {
            "whitelist": f".*{unique.tag}",
            "offset.commit.interval.ms": 500,
            "status.interval.ms": 500,
        },
    }
    made.file.write_text(yaml.safe_dump(document))
    return made


def sent(topic: str, partition: int, first: int, count: int) -> list[Row]:
    return [
        Row(topic, partition, None, f"{partition} #{n}".encode(), 1_600_000_000_000 + n)
        for n in range(first, first + count)
    ]


@pytest.fixture
def stored_in() -> Iterator[Callable[[Site, str, int], Callable[[], int]]]:
    """stored_in(site, topic, partition): a function that returns how many messages the partition has."""
    consumers: list[Consumer] = []

    def counter(site: Site, topic: str, partition: int) -> Callable[[], int]:
        consumers.append(Consumer({"bootstrap.servers": site.brokers, "group.id": "watch"}))
        place = TopicPartition(topic, partition)
        return lambda consumer=consumers[-1]: consumer.get_watermark_offsets(place, timeout=20)[1]

    yield counter
    for each in consumers:
        each.close()


def test_committed_ones_arrive_within_a_second_aborted_ones_never_and_the_lag_comes_to_0(
    sites: Sites,
    unique: Unique,
    tmp_path: Path,
    stored_in: Callable[[Site, str, int], Callable[[], int]],
) -> None:
    here, there = sites.site(Kind("4.3.1")), sites.site(Kind("2.8.2"))
    topic = unique.topic("live")
    here.create(topic, 2)
    peer, name, other = here.peer, f"tx-{unique.tag}", f"open-{unique.tag}"
    peer.transaction(sent(topic, 0, 0, IN_ONE), transactional_id=name)
    peer.transaction(sent(topic, 1, 0, 1), transactional_id=other)
    with mirror_of(tmp_path, here, there, unique) as mirror:
        wait_until(lambda: len(there.peer.ends([topic])) == 2, 40, lambda: f"the target topic; {mirror.said()}")
        stored = stored_in(there, topic, 0)
        held = stored_in(there, topic, 1)
        mirror.wait_for(lambda: mirror_lag(mirror) == 0 and stored() == IN_ONE, "the first transaction")
        peer.begin(sent(topic, 1, 1, 5), transactional_id=other)  # and it stays open
        took, wanted = [], IN_ONE
        for number in range(ROUNDS):
            commit = number % 3 != 1
            peer.transaction(sent(topic, 0, (number + 1) * IN_ONE, IN_ONE), commit, transactional_id=name)
            began = time.monotonic()
            if commit:
                wanted += IN_ONE
                wait_for(stored, wanted, mirror)
                took.append(time.monotonic() - began)
        assert statistics.median(took) < LATENCY_S, took
        assert held() == 1  # what is not committed is not delivered
        peer.commit(transactional_id=other)
        began = time.monotonic()
        wait_for(held, 6, mirror)
        assert time.monotonic() - began < 5 * LATENCY_S
        mirror.wait_for(lambda: mirror_lag(mirror) == 0, "lag 0")
        assert mirror.stop()[0] == 0
    arrived = [row.value for row in there.peer.read([topic]) if row.partition == 0]
    expected = [n for n in range((ROUNDS + 1) * IN_ONE) if n < IN_ONE or (n // IN_ONE - 1) % 3 != 1]
    assert arrived == [f"0 #{n}".encode() for n in expected]
    assert "parked" not in mirror.said()


def wait_for(stored: Callable[[], int], count: int, mirror: MirrorProcess) -> None:
    """Until so many messages are stored."""
    wait_until(lambda: stored() >= count, 20, lambda: f"{count} messages, {stored()}; {mirror.said()}", 0.01)


def mirror_lag(mirror: MirrorProcess) -> int | None:
    """The lag of the newest status line."""
    lines = [line for line in mirror.said().splitlines() if "at=mirrormaker.status" in line and ", lag " in line]
    said = lines[-1].partition(", lag ")[2].partition(", in flight")[0].replace(",", "") if lines else ""
    return int(said) if said.isdigit() else None
