"""A mirror from a cluster without ZooKeeper: two daemons in a group on Kafka's coordinator, one of them killed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from kafkawire.model import TopicPartition
from localkafka.child import Child
from localkafka.kraft import KraftBroker
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until
from producer.producer import Producer
from tests.conftest import Unique
from tests.integration.coordinated import SESSION_MS, Committed, Writer, java
from tests.integration.mirrorprocess import MirrorProcess
from zkconsumer.simple import SimpleConsumer

pytestmark = pytest.mark.real

PARTITIONS = 4
VERSION = "3.9.1"


@pytest.fixture(scope="module")
def kraft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftBroker]:
    """Source and target in one: the copy has another name."""
    settings = {"group.min.session.timeout.ms": "1000"}
    with KraftBroker(tmp_path_factory.mktemp("kraft"), VERSION, settings=settings) as broker:
        yield broker


@pytest.fixture
def daemon(kraft: KraftBroker, tmp_path: Path, unique: Unique) -> Callable[[str, str], MirrorProcess]:
    """daemon("one", "topics") makes a mirror of that name, of the same group as all others; it is not started yet."""

    def made(name: str, whitelist: str) -> MirrorProcess:
        mirror = MirrorProcess(tmp_path, name, {"RUNTIME_DIRECTORY": str(tmp_path)})
        source = {
            "name": "new",
            "coordination": "kafka",
            "bootstrap.servers": kraft.brokers,
            "group.id": unique.group(),
            "session.timeout.ms": SESSION_MS,
            "metadata.max.age.ms": 1000,
            "topic.prefix": "copy-",
        }
        timing = {"offset.commit.interval.ms": 300, "status.interval.ms": 500}
        settings = {
            "sources": [source],
            "target": {"metadata.broker.list": kraft.brokers},
            "mirror": {"whitelist": whitelist, **timing},
        }
        mirror.file.write_text(yaml.safe_dump(settings))
        return mirror

    return made


def command(name: str, mirror: MirrorProcess, *words: str) -> subprocess.CompletedProcess[str]:
    """A command for one of the mirrors."""
    argv = [str(COMMAND), name, str(mirror.file), *words]
    env = {**os.environ, "RUNTIME_DIRECTORY": str(mirror.file.parent)}
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=env)


def test_files_of_the_newer_clients_are_mirrored_from_as_they_are(
    kraft: KraftBroker, unique: Unique, tmp_path: Path
) -> None:
    """As the JVM's MirrorMaker of 1.0 to 2.x is started."""
    topic = unique.topic()
    for name in (topic, f"copy-{topic}"):
        kraft.topics("--create", "--topic", name, "--partitions", "2")
    producer = Producer({"metadata.broker.list": kraft.brokers})
    for number in range(300):
        producer.send(topic, b"v%d" % number, key=b"k%d" % number)
    producer.close()
    consumer, target = tmp_path / "consumer.properties", tmp_path / "producer.properties"
    consumer.write_text(
        f"bootstrap.servers={kraft.brokers}\ngroup.id={unique.group()}\nauto.offset.reset=earliest\n"
        "enable.auto.commit=false\nsession.timeout.ms=6000\nmax.poll.records=500\ntopic.prefix=copy-\n"
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.RoundRobinAssignor\n"
    )
    target.write_text(
        f"bootstrap.servers={kraft.brokers}\nacks=all\nretries=2147483647\nmax.in.flight.requests.per.connection=1\n"
        "batch.size=16384\nlinger.ms=5\ncompression.type=gzip\n"
    )
    words = ["run", "-consumer.config", str(consumer), "--producer.config", str(target), "--new.consumer"]
    with Child("the mirror", [str(COMMAND), *words, "--whitelist", topic], tmp_path / "log") as child:
        host, _, port = kraft.brokers.rpartition(":")
        with SimpleConsumer(host, int(port)) as reader:
            partitions = [TopicPartition(f"copy-{topic}", number) for number in range(2)]
            wait_until(
                lambda: sum(reader.latest(tp) for tp in partitions) == 300,
                60,
                lambda: f"all to be copied; {(tmp_path / 'log').read_text()[-3000:]}",
            )
        assert child.stop(15) == 0


def test_two_daemons_share_a_source_without_zookeeper_and_the_death_of_one_loses_nothing(
    kraft: KraftBroker, daemon: Callable[[str, str], MirrorProcess], unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique.topic(), unique.group()
    for name in (topic, f"copy-{topic}"):
        kraft.topics("--create", "--topic", name, "--partitions", str(PARTITIONS))
    one, two = daemon("one", topic), daemon("two", topic)
    checked = command("check", one, "--online")
    assert checked.returncode == 0, checked.stderr
    assert f"copy-{topic}" in checked.stdout

    with (
        Writer(VERSION, kraft.brokers, topic, PARTITIONS, tmp_path) as writer,
        Committed(VERSION, kraft.brokers, group, topic, PARTITIONS) as committed,
        one,
        two,
    ):
        for mirror in (one, two):
            mirror.wait_said("reading 2 partitions of 1 topic")
        wait_until(lambda: min(committed.now()) > 20, 40, lambda: f"commits; {one.said()}{two.said()}")

        rows = json.loads(command("topics", one, "-o", "json").stdout)
        (row,) = [row for row in rows if row["topic"] == topic]
        assert (row["mirrored"], row["partitions"], row["owned_here"]) == (True, PARTITIONS, 2)
        assert len(row["owners"]) == 2
        report = json.loads(command("status", one, "-o", "json").stdout)
        assert report["sources"][0]["state"] == "running"

        one.kill()
        two.wait_said("reading 4 partitions of 1 topic")
        paused = command("pause", two, topic)
        assert paused.returncode == 0, paused.stderr
        resumed = command("resume", two, topic)
        assert resumed.returncode == 0, resumed.stderr
        sent = writer.end()
        wait_until(lambda: committed.now() == sent, 40, lambda: f"{committed.now()} to be {sent}; {two.said()}")
        code, _ = two.stop()
        assert code == 0, two.said()
        committed.end()
        assert committed.fell == []

    assert_copied(kraft, unique, tmp_path, topic, sent)


def assert_copied(kraft: KraftBroker, unique: Unique, tmp_path: Path, topic: str, sent: Sequence[int]) -> None:
    """Every message that was sent to a partition is in the copy, and no other."""
    reader = java(tmp_path, VERSION, kraft.brokers, unique.group("reader"), f"copy-{topic}")
    try:
        wanted = {f"{topic}/{p} #{n}" for p, count in enumerate(sent) for n in range(count)}

        def stored() -> set[str]:
            rows = (line.split(" ", 3) for line in reader.lines())
            return {row[3] for row in rows if len(row) == 4 and row[1].isdigit()}

        wait_until(lambda: wanted <= stored(), 40, lambda: f"{len(wanted - stored())} of {len(wanted)} messages")
        assert stored() == wanted
    finally:
        reader.child.close()


def test_a_coordinator_that_is_none_is_said_at_the_check(
    daemon: Callable[[str, str], MirrorProcess], kraft: KraftBroker
) -> None:
    nowhere = daemon("nowhere", "x")
    nowhere.file.write_text(
        nowhere.file.read_text().replace(f"bootstrap.servers: {kraft.brokers}", "bootstrap.servers: 127.0.0.1:1")
    )
    checked = command("check", nowhere, "--online")
    assert checked.returncode == 69
    assert "source new: no broker of the cluster answers: 127.0.0.1:1" in checked.stderr
    assert "is bootstrap.servers right?" in checked.stderr
