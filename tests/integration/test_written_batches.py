"""Record batches on real brokers: what our producer writes, and a mirror into a target that has none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from localkafka.child import Child
from localkafka.client import ClusterClient
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt
from producer.config import ProducerConfig
from producer.producer import Producer
from tests.conftest import Unique
from tests.integration.badlogs import values_of
from tests.matrix.foreign import console_timestamps, read_by_librdkafka
from tests.matrix.sites import Kind, Site, Sites

pytestmark = pytest.mark.real

HEADERS = (("trace", b"\x00\xff"), ("trace", None), ("größe", b""))
COUNT = 400
WAIT_S = 60


@pytest.fixture(scope="module")
def sites(zk_server: ZooKeeperAt, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with Sites(tmp_path_factory.mktemp("batches"), zk_server) as sites:
        yield sites


def producer_of(site: Site, **options: Any) -> Producer:
    host, _, port = site.brokers.partition(":")
    return Producer(ProducerConfig(brokers=((host, int(port)),), **options))


def value_of(number: int) -> bytes | None:
    return None if number % 50 == 7 else b"%d " % number + b"x" * (number * 37 % 3000)


@pytest.mark.parametrize("release", ["0.11.0.3", "4.3.1"])
def test_what_the_producer_writes_is_read_by_clients_that_are_not_ours(
    sites: Sites, unique: Unique, release: str
) -> None:
    kind = Kind(release)
    site = sites.site(kind)
    topics = {codec: unique.topic(codec) for codec in kind.codecs}
    for codec, topic in topics.items():
        site.create(topic, 1)
        with producer_of(site, codec=codec) as producer:
            for number in range(COUNT):
                headers = HEADERS if number % 3 == 0 else None
                producer.send(topic, value_of(number), key=b"k%d" % number, headers=headers)
    found = read_by_librdkafka(site.brokers, list(topics.values()))
    for topic in topics.values():
        rows = [row for row in found if row[0] == topic]
        assert [row[2] for row in rows] == list(range(COUNT))
        assert [row[4:] for row in rows] == [
            (b"k%d" % n, value_of(n), HEADERS if n % 3 == 0 else ()) for n in range(COUNT)
        ]
    last = topics[kind.codecs[-1]]
    times = sorted(row[3] for row in found if row[0] == last)
    assert min(times) > 0  # type: ignore[type-var]
    assert console_timestamps(release, site.brokers, last, COUNT) == times


def test_headers_for_a_target_without_them_park_the_partition_until_they_may_be_dropped(
    sites: Sites, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    source = sites.site(Kind("4.3.1"))
    topic = unique.topic("headed")
    source.create(topic, 1)
    target.create_topic(topic, 1)
    with producer_of(source, codec="lz4") as producer:
        for number in range(COUNT):
            producer.send(topic, b"%d" % number, headers=HEADERS if number % 4 == 3 else None)
    document: dict[str, Any] = {
        "sources": [{"name": "source", "group.id": unique.group(), **source.as_source}],
        "target": {"metadata.broker.list": target.brokers},
        "mirror": {"whitelist": topic, "offset.commit.interval.ms": 500, "status.interval.ms": 500,
                   "drop.fields": "timestamps"},
    }  # fmt: skip
    file, log = tmp_path / "mirror.yaml", tmp_path / "mirror.log"

    def run() -> Child:
        file.write_text(yaml.safe_dump(document))
        return Child("the mirror", [str(COMMAND), "run", str(file)], log)

    def last() -> str:
        return log.read_text(errors="replace")[-2000:]

    def said(text: str) -> bool:
        return text in log.read_text(errors="replace")

    sentence = f"{topic}/0 at 3: the message has headers, and those of the target"
    with run() as mirror:
        wait_until(lambda: said(f"parked 1: {topic}/0"), WAIT_S, last)
        assert said(sentence)
        assert said("set mirror.drop.fields: headers to copy such messages without their headers")
        wait_until(lambda: values_of(target, topic) == [b"0", b"1", b"2"], WAIT_S, last)
        assert mirror.stop(20) == 0
    document["mirror"]["drop.fields"] = ["headers", "timestamps"]
    with run() as mirror:
        wait_until(
            lambda: len(values_of(target, topic)) >= COUNT, WAIT_S, lambda: log.read_text(errors="replace")[-2000:]
        )
        wait_until(lambda: said(f"{COUNT // 4} without headers (mirror.drop.fields)"), WAIT_S, last)
        assert mirror.stop(20) == 0
    assert values_of(target, topic) == [b"%d" % number for number in range(COUNT)]
