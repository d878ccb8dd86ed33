"""A broker without ZooKeeper for tests of tools and Spark, and consumers and producers of its own release."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import dialect
from kafkawire.net.links import Links
from localkafka import java, releases, tools
from localkafka.child import Child
from localkafka.kraft import KraftBroker
from localkafka.programs import ConsoleConsumer, work_files, write_properties
from tests.integration.modern import ModernProducer


@dataclass(frozen=True)
class KraftCluster:
    """What ModernProducer and console programs need to know; create() makes topics."""

    broker: KraftBroker
    folder: Path
    producer: ModernProducer

    @property
    def brokers(self) -> str:
        return self.broker.brokers

    @property
    def version(self) -> str:
        return self.broker.release.version

    @property
    def release(self) -> str:
        """As --kafka-version and protocol name it: 3.9."""
        return self.version.rpartition(".")[0]

    def create(self, topic: str, partitions: int, **config: str) -> str:
        settings = [word for key, value in config.items() for word in ("--config", f"{key.replace('_', '.')}={value}")]
        self.broker.topics("--create", "--topic", topic, "--partitions", str(partitions), *settings)
        return topic


@contextmanager
def kraft_cluster(
    folder: Path, version: str = "3.9.1", settings: Mapping[str, str] | None = None
) -> Iterator[KraftCluster]:
    """A broker of its own for the tests of a module."""
    with KraftBroker(folder / "broker", version, settings=settings) as broker:
        at = _At(broker.brokers, version, folder)
        with ModernProducer(at, folder) as producer:  # type: ignore[arg-type]
            yield KraftCluster(broker, folder, producer)


@dataclass(frozen=True)
class _At:
    brokers: str
    version: str
    folder: Path

    def registry(self) -> _At:
        return self

    def view(self, topic: str) -> ClusterView:
        host, _, port = self.brokers.partition(":")
        links = Links("tests", timeout_ms=10_000)
        try:
            return KafkaClient.of_brokers([(host, int(port))], links, dialect(self.version)).view()
        finally:
            links.close()


@contextmanager
def group_consumer(
    cluster: KraftCluster | _At, topic: str, group: str, config: Mapping[str, object] | None = None
) -> Iterator[ConsoleConsumer]:
    """A console consumer whose group Kafka coordinates, from where the group stands, else from the beginning."""
    folder = cluster.folder
    work = work_files(folder, "group-consumer")
    properties = {"group.id": group, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 200, **(config or {})}
    write_properties(work.with_suffix(".properties"), properties)
    argv: Sequence[str] = [
        "--bootstrap-server", cluster.brokers, "--topic", topic, "--consumer.config",
        str(work.with_suffix(".properties")),
    ]  # fmt: skip
    number = releases.release(cluster.version).number
    main = [name for since, name in tools.CONSOLE_CONSUMER if number >= since][-1]
    command = tools.java_command(cluster.version, main, argv, java.SMALL)
    child = Child(f"group consumer {cluster.version}", command, work.with_suffix(".log"), stdout=subprocess.PIPE)
    with ConsoleConsumer(child) as consumer:
        yield consumer
