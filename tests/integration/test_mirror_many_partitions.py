"""A mirror of many partitions, ended while it copies: a clean stop sends nothing twice, kill -9 loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.cluster.listoffsets import LATEST, ask_offsets
from kafkawire.dialects import dialect
from kafkawire.formats.v01 import messages as codec
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol import requests08 as requests
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring import Mirror

pytestmark = pytest.mark.real

PARTITIONS, EACH = 300, 200
D = dialect("0.8.2.2")


class Site:
    """One topic of a cluster, spoken to in requests of all its partitions."""

    def __init__(self, cluster: ClusterClient, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._links = Links("many", timeout_ms=30_000)

    def close(self) -> None:
        self._links.end()

    def _led(self) -> dict[Broker, list[TopicPartition]]:
        view = self._cluster.registry().view(self._topic)
        led: dict[Broker, list[TopicPartition]] = {}
        for p in view.topics.get(self._topic, {}):
            leader = view.leader(tp := TopicPartition(self._topic, p))
            if leader is not None:
                led.setdefault(leader, []).append(tp)
        return led

    def total(self) -> int:
        """Messages in all logs."""
        led = self._led()
        times = {tp: LATEST for tps in led.values() for tp in tps}
        found = ask_offsets(self._links, D, led, times, purpose="ends") if led else {}
        return sum(end.offset or 0 for end in found.values())

    def produce(self, begin: int) -> None:
        """EACH messages to every partition; each names its number."""
        entries = codec.encode((n, None, b"%09d" % (begin + n) + b"." * 90, None) for n in range(EACH))
        for broker, tps in self._led().items():
            answers = self._links.link(broker, "produce").call(
                requests.produce(D, 1, 30_000, {tp: [entries] for tp in tps})
            )
            assert not [answer for answer in answers.values() if answer.error]

    def numbers(self) -> dict[int, list[int]]:
        """What the messages of each partition name, in the order of the log."""
        found: dict[int, list[int]] = {p: [] for p in range(PARTITIONS)}
        for broker, tps in self._led().items():
            at = dict.fromkeys(tps, 0)
            while at:
                asked = [(tp, start, 1 << 17) for tp, start in at.items()]
                reply = self._links.link(broker, "fetch").call(requests.fetch(D, 0, 0, asked))
                for each in reply:
                    start, number = at.pop(each.tp), each.tp.partition
                    assert isinstance(number, int)
                    fetched, _ = codec.message_set(self._topic, number, start, each.buffer, None)
                    read = [m for m in codec.messages(fetched) if m.offset >= start]
                    found[number] += [int(bytes(m.value or b"")[:9]) for m in read]
                    if read:
                        at[each.tp] = read[-1].offset + 1
        return found


@pytest.fixture
def sites() -> Iterator[tuple[Cluster, Cluster]]:
    """Of their own: the index of a log takes 10 MB by default, of 600 at once."""
    settings = {"log.index.size.max.bytes": 65536}
    with Cluster(brokers=1, settings=settings) as source, Cluster(brokers=1, settings=settings) as target:
        yield source, target


def test_a_stop_under_load_sends_nothing_twice_and_a_kill_loses_nothing(
    sites: tuple[Cluster, Cluster], unique: Unique, tmp_path: Path
) -> None:
    topic, (source, target) = unique.topic(), sites
    source.create_topic(topic, PARTITIONS, timeout_s=90)
    here, there = Site(source, topic), Site(target, topic)
    here.produce(0)
    patient = {"offset.commit.interval.ms": 600_000}  # what is committed, the stop commits
    with Mirror(tmp_path, source, target, unique.group(), topic, patient) as mirror:
        wait_until(lambda: there.total() > 0, 90, lambda: f"the first messages; {mirror.said()}")
        code, took_s = mirror.stop()
        assert (code, took_s < 10) == (0, True), mirror.said()
        mirror.start()
        here.produce(EACH)
        everything = {p: list(range(2 * EACH)) for p in range(PARTITIONS)}
        wait_until(lambda: there.total() >= 2 * EACH * PARTITIONS, 90, lambda: f"all of them; {mirror.said()}")
        assert mirror.stop()[0] == 0, mirror.said()
        assert there.numbers() == everything  # in order, each once
        mirror.start()
        here.produce(2 * EACH)
        had = there.total()
        wait_until(lambda: there.total() > had, 60, lambda: f"some of the third part; {mirror.said()}")
        mirror.kill()
        mirror.start()
        every = {p: set(range(3 * EACH)) for p in range(PARTITIONS)}
        wait_until(lambda: there.total() >= 3 * EACH * PARTITIONS, 60, lambda: f"all of them; {mirror.said()}")
        wait_until(
            lambda: {p: set(numbers) for p, numbers in there.numbers().items()} == every,
            60, lambda: f"all of them; {mirror.said()}", every_s=2,
        )  # fmt: skip
    here.close()
    there.close()
