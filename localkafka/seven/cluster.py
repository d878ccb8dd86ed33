"""0.7 cluster of child processes: ZooKeeper (its own or a shared one) and brokers on 127.0.0.1.

with Cluster07(brokers=2, partitions=4) as cluster:
    cluster.produce("orders", 0, 1, [b"one", b"two"], codec="gzip")
    cluster.read("orders", 0, 1)         # [Row(position=0, resume_at=0, value=b"one"), ...]
    cluster.node(0).kill()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kazoo.exceptions import NoNodeError

from kafkawire.compression import CODECS
from kafkawire.model import BrokerPartition
from localkafka.errors import LocalKafkaError
from localkafka.owncluster import OwnCluster
from localkafka.seven import entries
from localkafka.seven.entries import Row
from localkafka.seven.node import Node07, node_of
from localkafka.seven.settings import DEFAULT_RELEASE, RELEASES
from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt, ZooKeeperServer

BATCH = 200  # messages of a produced set, or of a wrapper


class Cluster07(OwnCluster[Node07]):
    """ZooKeeper and 0.7 brokers, started by `with` or start(), ended by the end of `with` or by close().

    brokers     number of brokers; their ids count from 0
    partitions  partitions of every topic on each broker: a number for all, or {broker id: number} with all brokers
    kind        "python", or "original" (KAFKA_07_HOME)
    settings    settings for every server.properties, by the original's names
    version     0.7.0, 0.7.1 or 0.7.2, for brokers in Python; no effect on the original
    zookeeper, chroot, keep    as for every OwnCluster
    """

    def __init__(
        self,
        brokers: int = 1,
        partitions: int | Mapping[int, int] = 1,
        *,
        settings: Mapping[str, object] | None = None,
        kind: str = "python",
        version: str = DEFAULT_RELEASE,
        zookeeper: ZooKeeperServer | ZooKeeperAt | None = None,
        chroot: str | None = None,
        tick_ms: int = 500,
        keep: bool = False,
    ) -> None:
        if version not in RELEASES:
            raise LocalKafkaError(f"unknown 0.7 release {version!r}; known are {', '.join(RELEASES)}")
        counts = partitions if isinstance(partitions, Mapping) else dict.fromkeys(range(brokers), partitions)
        if not counts:
            raise LocalKafkaError("a 0.7 cluster of no brokers: at least one is needed")
        make = node_of(kind)
        self.kind = kind
        super().__init__(version, chroot, zookeeper, tick_ms=tick_ms, keep=keep)
        self._registered: set[tuple[str, int]] = set()  # topics that a broker is known to have registered
        self.nodes = [
            make(
                self.folder / f"broker-{broker}",
                broker,
                self.zookeeper,
                {"num.partitions": count, "test.release": version, **(settings or {})},
            )
            for broker, count in sorted(counts.items())
        ]

    def __repr__(self) -> str:
        return f"<Cluster07 {self.kind} {self.version} at {self.brokers}, {self.zookeeper}>"

    @property
    def broker_list(self) -> str:
        """Return the brokers in the form of 0.7's broker.list: "0:127.0.0.1:9092,1:127.0.0.1:9093"."""
        return ",".join(f"{node.id}:{node.address}" for node in self.nodes)

    # ---- producing and reading, with localkafka.seven.entries and not with the codecs under test

    def produce(
        self,
        topic: str,
        broker: int,
        partition: int,
        values: Sequence[bytes],
        codec: str = "none",
        magic: int = 1,
        batch: int = BATCH,
        timeout_s: float = 30,
    ) -> int:
        """Produce values to (broker, partition), a set or a wrapper for each `batch` of them, and wait until all can be
        read; return the flushed end after them.  No other producer may write there at the same time. Raises
        localkafka.seven.client.Closed when the broker refuses them, LocalKafkaError when they do not appear."""
        number = CODECS[codec]
        with self.node(broker).client() as link:
            end = link.offsets(topic, partition)[0]
            for lot in entries.batches(values, batch):
                data = entries.wrapper(lot, number) if number else entries.plain(lot, magic)
                link.produce(topic, partition, data)
                end += len(data)
            wait_until(
                lambda: link.offsets(topic, partition)[0] >= end,
                timeout_s,
                lambda: f"{topic}/{broker}-{partition} to end at {end}, not {link.offsets(topic, partition)[0]}",
            )
        self._wait_registered(topic, broker, timeout_s)
        return end

    def _wait_registered(self, topic: str, broker: int, timeout_s: float) -> None:
        """Wait, once for each topic and broker, until the topic is registered, some time after its first set."""
        if (topic, broker) not in self._registered:
            wait_until(
                lambda: broker in {p.broker for p in self.partitions(topic)},
                timeout_s,
                lambda: f"broker {broker} to register {topic}, have {self.partitions(topic)}",
            )
            self._registered.add((topic, broker))

    def read(self, topic: str, broker: int, partition: int, position: int | None = None) -> list[Row]:
        """Return every message of (broker, partition) from a byte offset (None: the oldest) to the flushed end."""
        with self.node(broker).client() as link:
            return link.rows(topic, partition, position)

    def values(self, topic: str) -> dict[BrokerPartition, list[bytes]]:
        """Return the values of every partition of a topic; see stored_partitions."""
        return {p: [row.value for row in self.read(topic, p.broker, p.index)] for p in self.stored_partitions(topic)}

    def ends(self, topic: str) -> dict[BrokerPartition, int]:
        """Return the flushed end of every partition of a topic; see stored_partitions."""
        return {p: self.end(topic, p.broker, p.index) for p in self.stored_partitions(topic)}

    def stored_partitions(self, topic: str) -> list[BrokerPartition]:
        """Return the partitions of a topic on every broker that has a log of it on its disk.  Unlike partitions() this
        includes a broker that is not registered at this moment: its session has expired, or it has just started.
        Raises LocalKafkaError when one of these brokers does not run: without it a count would be too low."""
        found = []
        for node in self.nodes:
            count = node.stored_partitions(topic)
            if count and not node.running:
                raise LocalKafkaError(f"{node.name} does not run: its messages of {topic} cannot be counted")
            found += [BrokerPartition(node.id, index) for index in range(count)]
        return found

    def end(self, topic: str, broker: int, partition: int) -> int:
        """Return the flushed end of one partition."""
        with self.node(broker).client() as link:
            return link.offsets(topic, partition)[0]

    def partitions(self, topic: str) -> list[BrokerPartition]:
        """Return the partitions of a topic in ZooKeeper: partitions of brokers that have registered it at this
        moment."""
        client = self._reader()
        try:
            brokers = sorted(map(int, client.get_children(f"/brokers/topics/{topic}")))
            counts = {broker: int(client.get(f"/brokers/topics/{topic}/{broker}")[0]) for broker in brokers}
        except NoNodeError:
            return []  # the topic does not exist yet, or a broker is just leaving
        return [BrokerPartition(broker, index) for broker, count in counts.items() for index in range(count)]

    def create_topic(self, topic: str, timeout_s: float = 30) -> list[BrokerPartition]:
        """Make every broker register an empty topic, by producing an empty set, and return its partitions."""
        for node in self.nodes:
            with node.client() as link:
                link.produce(topic, 0, b"")
                link.offsets(topic, 0)  # its response comes after the produce request was handled
        everybody = {node.id for node in self.nodes}
        wait_until(
            lambda: {p.broker for p in self.partitions(topic)} == everybody,
            timeout_s,
            lambda: f"brokers {sorted(everybody)} to register {topic}, have {self.partitions(topic)}",
        )
        return self.partitions(topic)

    def _check(self) -> None:
        for node in self.nodes:
            node.check()
