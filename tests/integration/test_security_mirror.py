"""A mirror from a cluster with logins and TLS to one that asks for client certificates, and the programs beside it."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.listoffsets import LATEST
from kafkawire.dialects import dialect
from kafkawire.model import TopicPartition
from kafkawire.net.links import Links
from localkafka.certificates import Authority
from localkafka.mirror import COMMAND
from localkafka.zookeeper import ZooKeeperAt
from producer.producer import Producer
from tests.conftest import Unique
from tests.integration.mirrorprocess import MirrorProcess
from tests.integration.securedbrokers import LOGIN_MS, SecuredBroker, kraft, on_zookeeper
from tests.integration.test_security import read

pytestmark = pytest.mark.real
PARTITIONS = 4
LOGINS = 2  # times that a login ends while the mirror runs


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, zk_server: ZooKeeperAt) -> Iterator[SecuredBroker]:
    protocols = {"SHORT": "SASL_SSL", "SASL_SSL": "SASL_SSL"}
    with on_zookeeper(tmp_path_factory.mktemp("source"), "3.9.1", protocols, zk_server) as secured:
        yield secured


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with kraft(tmp_path_factory.mktemp("target"), "3.9.1", {"MUTUAL": "SSL", "SASL_SSL": "SASL_SSL"}) as secured:
        yield secured


def values(secured: SecuredBroker, topic: str) -> list[list[bytes]]:
    """All of a topic, by partition, over the plain listener."""
    return [read(secured.broker.brokers, TopicPartition(topic, p), {}, "") for p in range(PARTITIONS)]


def ends(address: str, topic: str) -> int:
    links = Links("test")
    host, port = address.split(":")
    try:
        client = KafkaClient.of_brokers([(host, int(port))], links, dialect("0.10.2"))
        found = client.list_offsets({TopicPartition(topic, p): LATEST for p in range(PARTITIONS)})
        return sum(each.offset or 0 for each in found.values())
    finally:
        links.close()


class Steady:
    """Sends to each partition in turn until it is ended, a few hundred messages a second."""

    def __init__(self, options: dict[str, object], topic: str) -> None:
        self.sent = 0
        self._options, self._topic = options, topic
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.failed: list[BaseException] = []

    def _run(self) -> None:
        try:
            with Producer(self._options) as producer:
                deliveries = []
                while not self._enough.wait(0.004):
                    value = b"%09d" % self.sent + b"x" * (self.sent % 1000)
                    deliveries.append(producer.send(self._topic, value, partition=self.sent % PARTITIONS))
                    self.sent += 1
                for delivery in deliveries:
                    delivery.result(30)
        except BaseException as error:
            self.failed.append(error)

    def __enter__(self) -> Steady:
        self._thread.start()
        return self

    def end(self) -> None:
        self._enough.set()
        self._thread.join(60)

    def __exit__(self, *_: object) -> None:
        self.end()
        assert not self._thread.is_alive()
        assert self.failed == []


def file(folder: Path, source: dict[str, object], target: dict[str, object], topic: str, **mirror: object) -> Path:
    folder.mkdir(exist_ok=True)
    timing = {"offset.commit.interval.ms": 300, "status.interval.ms": 500, "start.timeout.ms": 30_000}
    settings = {
        "sources": [{"name": "dc1", "offsets.storage": "kafka", "dual.commit.enabled": False, **source}],
        "target": target,
        "mirror": {"whitelist": topic, **timing, **mirror},
    }
    path = folder / "mirror.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


class Mirror(MirrorProcess):
    def __init__(self, settings: Path) -> None:
        super().__init__(settings.parent, "mirror", None)
        assert self.file == settings


def test_a_mirror_loses_nothing_while_logins_end(
    source: SecuredBroker, target: SecuredBroker, unique: Unique, tmp_path: Path
) -> None:
    """Logins at the source, by SCRAM of the mirror and by OAUTHBEARER of a producer, end every four seconds under load:
    no connection is lost, and what arrives at the target is what was sent, in order, once."""
    topic, group = unique.topic(), unique.group()
    here: dict[str, object] = {
        "zookeeper.connect": source.broker.zookeeper, "group.id": group, **source.options("SHORT", "SCRAM-SHA-512"),
    }  # fmt: skip
    there: dict[str, object] = {"metadata.broker.list": target.address("MUTUAL"), **target.options("MUTUAL")}
    sending: dict[str, object] = {
        "metadata.broker.list": source.address("SHORT"), **source.options("SHORT", "OAUTHBEARER"),
    }  # fmt: skip
    source.broker.create_topic(topic, PARTITIONS)
    with Mirror(file(tmp_path, here, there, topic)) as mirror, Steady(sending, topic) as steady:
        mirror.wait_for(lambda: ends(target.broker.brokers, topic) > 100, "first messages to arrive")
        time.sleep(LOGIN_MS / 1000 * LOGINS)
        steady.end()
        mirror.wait_for(lambda: ends(target.broker.brokers, topic) >= steady.sent, f"all {steady.sent} to arrive")
        code, _ = mirror.stop()
        assert code == 0
    said = mirror.said()
    assert values(target, topic) == values(source, topic)
    assert sum(map(len, values(target, topic))) == steady.sent > 1000
    assert not re.findall(r"without an answer|level=(?:warning|error|critical).*(?:login|TLS|certificate)", said), said


def test_exactly_once_with_logins_at_both_ends_and_groups_of_kafka(
    source: SecuredBroker, target: SecuredBroker, unique: Unique, tmp_path: Path
) -> None:
    """TLS and SCRAM at the source, whose brokers coordinate the group, and at the target; killed once under load."""
    topic = unique.topic()
    here: dict[str, object] = {
        "coordination": "kafka", "bootstrap.servers": source.address("SASL_SSL"), "group.id": unique.group(),
        "session.timeout.ms": 6000, **source.options("SASL_SSL", "SCRAM-SHA-256"),
    }  # fmt: skip
    there: dict[str, object] = {
        "metadata.broker.list": target.address("SASL_SSL"), **target.options("SASL_SSL", "SCRAM-SHA-512"),
    }  # fmt: skip
    sending: dict[str, object] = {"metadata.broker.list": source.broker.brokers}
    source.broker.create_topic(topic, PARTITIONS)
    once = {"delivery.guarantee": "exactly-once", "transaction.interval.ms": 200}
    with Mirror(file(tmp_path, here, there, topic, **once)) as mirror, Steady(sending, topic) as steady:
        mirror.wait_for(lambda: ends(target.broker.brokers, topic) > 100, "first messages to arrive")
        mirror.kill()
        mirror.start()
        there_at_first = ends(target.broker.brokers, topic)
        mirror.wait_for(lambda: ends(target.broker.brokers, topic) > there_at_first + 100, "more to arrive")
        steady.end()
        mirror.wait_for(lambda: values(target, topic) == values(source, topic), f"all {steady.sent} to arrive, once")
        assert mirror.stop()[0] == 0
    assert values(target, topic) == values(source, topic)
    assert sum(map(len, values(target, topic))) == steady.sent


def refused(path: Path, sentence: str, who: str) -> None:
    """`run` ends with 78 long before its time is over, `check --online` says the same."""
    with Mirror(path) as mirror:
        assert mirror.exit_code(40) == 78, mirror.said()
    [line] = [line for line in mirror.said().splitlines() if "level=critical" in line]
    assert f'msg="{who}: ' in line
    assert sentence in line
    checked = subprocess.run([COMMAND, "check", "--online", path], capture_output=True, text=True, timeout=60)
    assert (checked.returncode, checked.stdout) == (78, ""), checked.stderr
    assert sentence in checked.stderr.splitlines()[-1]


def test_what_can_never_work_ends_the_start_of_a_mirror(
    source: SecuredBroker, target: SecuredBroker, unique: Unique, tmp_path: Path
) -> None:
    at = {"zookeeper.connect": source.broker.zookeeper, "group.id": unique.group()}
    here = {**at, **source.options("SASL_SSL", "PLAIN")}
    there = {"metadata.broker.list": target.address("MUTUAL"), **target.options("MUTUAL")}
    foreign = str(Authority(tmp_path / "other", "other").certificate)
    wrong = {**here, "sasl.password": "no"}
    refused(file(tmp_path / "a", wrong, there, "a"), "refuses the login of 'ann' by PLAIN", "source dc1")
    mistaken = {**there, "ssl.ca.location": foreign}
    refused(file(tmp_path / "b", here, mistaken, "a"), "not signed by any of ssl.ca.location", "target")


def test_the_commands_and_the_console_producer_take_the_options(
    source: SecuredBroker, unique: Unique, tmp_path: Path
) -> None:
    topic, address = unique.topic(), source.address("SASL_SSL")
    secret = tmp_path / "password"
    options = source.options("SASL_SSL", "SCRAM-SHA-256")
    secret.write_text(options["sasl.password"] + "\n")
    options["sasl.password"] = f"file:{secret}"
    given = [part for key, value in options.items() for part in ("--property", f"{key}={value}")]

    def ran(name: str, *arguments: str, stdin: str = "", code: int = 0) -> str:
        argv = [COMMAND.with_name(name), *arguments]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done
        return done.stdout if code == 0 else done.stderr

    source.broker.create_topic(topic, 1)
    ran("zkproducer", "--broker-list", address, "--topic", topic, *given, stdin="one\ntwo\nthree\n")
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in options.items()))
    how = ["--command-config", str(config)]
    zookeeper = source.broker.zookeeper
    first = source.address("SHORT")  # of the listeners with this protocol
    assert first.rpartition(":")[2] in ran("zkconsumer", "brokers", "-z", zookeeper, *how)
    assert topic in ran("zkconsumer", "topics", "-b", address, *how)
    one = ["--topic", topic, "--partition", "0", "--from-beginning", "--timeout-ms", "500"]
    found = ran("zkconsumer", "consume", "-b", address, *one, *how).split()
    assert found == ["one", "two", "three"]
    group = unique.group()
    reading = ["--topic", topic, "--group", group, "--from-beginning", "--timeout-ms", "3000"]
    stored = ["--consumer-property", "offsets.storage=kafka", "--consumer-property", "dual.commit.enabled=false"]
    assert ran("zkconsumer", "consume", "-z", zookeeper, *reading, *stored, *how).split() == found
    rows = json.loads(ran("zkconsumer", "lag", "-z", zookeeper, "--group", group, "-o", "json", *how))
    behind = {str(row["lag"]) for row in rows if row.get("store") == "kafka"} or {str(rows)}
    assert behind == {"0"}, rows
    options["sasl.password"] = "no"
    config.write_text("".join(f"{key}={value}\n" for key, value in options.items()))
    said = ran("zkconsumer", "topics", "-b", address, *how, code=1)
    assert "refuses the login of 'ann' by SCRAM-SHA-256" in said
