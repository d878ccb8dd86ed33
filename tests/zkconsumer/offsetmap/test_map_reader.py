"""An offset map read from its topic to the end of the log, whatever elections do meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.metadata import Unreachable
from kafkawire.dialects import dialect
from kafkawire.model import TopicPartition
from kafkawire.net.links import Links
from tests.fakes.broker import Fail, FakeCluster, entry
from zkconsumer.errors import ConsumerError
from zkconsumer.offsetmap.file import MapFile
from zkconsumer.offsetmap.records import Begun, Entry, Record
from zkconsumer.offsetmap.text import Header, header_line
from zkconsumer.offsetmap.topic import MAP_KEY, Slots, message_of, read_topic

S, T = TopicPartition("s", 0), TopicPartition("t", 0)
RECORDS: list[Record] = [Begun(S, 0, 1, True), *(Entry(S, T, n, n + 10, n + 10) for n in range(5))]
D = dialect("0.8.2")


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"m": 1}, brokers=2) as found:
        slots = Slots()
        pairs = [(MAP_KEY, header_line(Header("dc1", "g")).strip().encode())]
        for key, value in [*pairs, *(message_of(record, slots) for record in RECORDS)]:
            found.append("m", 0, entry(value, key=key))
        yield found


class Clock:
    """Time passes only in waits; at each of them something may happen."""

    def __init__(self) -> None:
        self.now = 0.0
        self.then: list[object] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.then:
            self.then.pop(0)()  # type: ignore[operator]


def read(cluster: FakeCluster, clock: Clock) -> MapFile:
    links = Links("test", socket.create_connection, 5000)
    try:
        client = KafkaClient.of_brokers(cluster.bootstrap, links, D)
        return read_topic(client, "m", Slots(), sleep=clock.sleep, now=clock)
    finally:
        links.end()


def entries(found: MapFile) -> int:
    return sum(len(rows) for period in found.map.periods[S] for rows in period.entries.values())


def test_a_map_is_read_to_the_end_of_its_leaders_log_and_not_of_what_is_replicated(cluster: FakeCluster) -> None:
    log, clock = cluster.logs["m", 0], Clock()
    log.high_watermark = log.end - 3
    clock.then = [
        lambda: None,
        lambda: setattr(log, "high_watermark", log.end - 1),
        lambda: setattr(log, "high_watermark", None),
    ]
    assert entries(read(cluster, clock)) == 5


def test_a_map_whose_end_is_not_replicated_is_refused_after_some_time_and_not_cut(cluster: FakeCluster) -> None:
    cluster.logs["m", 0].high_watermark = cluster.logs["m", 0].end - 1
    with pytest.raises(Unreachable, match=r"m/0.* at 6 of 7.*is not replicated"):
        read(cluster, Clock())


def test_what_an_election_cut_from_a_map_is_not_waited_for(cluster: FakeCluster) -> None:
    log, clock = cluster.logs["m", 0], Clock()
    log.high_watermark = log.end - 2

    def elected() -> None:
        del log.entries[-2:]
        log.end, log.high_watermark, log.leader = log.end - 2, None, 2

    clock.then = [elected]
    assert entries(read(cluster, clock)) == 3


def test_a_map_is_read_on_after_what_passes(cluster: FakeCluster) -> None:
    cluster.script("list_offsets", Fail(6), None, Fail(-1))
    cluster.script("fetch", Fail(6))
    assert entries(read(cluster, Clock())) == 5


def test_a_map_whose_log_is_damaged_is_refused(cluster: FakeCluster) -> None:
    log = cluster.logs["m", 0].entries
    log[2] = 2, log[2][1][:8] + b"\xff" * 4 + log[2][1][12:]
    with pytest.raises(ConsumerError, match="offset map in topic m: its log is damaged at 2: "):
        read(cluster, Clock())
