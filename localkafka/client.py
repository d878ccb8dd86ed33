"""Client of a running cluster, for any process: addresses, topics, log end offsets, and waiting for a state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from kazoo.client import KazooClient

from kafkawire.cluster import topics
from kafkawire.cluster.listoffsets import LATEST, ask_offsets
from kafkawire.cluster.metadata import read_reply
from kafkawire.cluster.view import PartitionView
from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from localkafka import segments
from localkafka.errors import LocalKafkaError
from localkafka.registry import Registry
from localkafka.waiting import wait_until

SESSION_S = 10  # these clients own no nodes; the server caps it at 20 ticks


class Described:
    """A running cluster of any release: its addresses, and ZooKeeper clients inside its chroot.

    version     Kafka's version               zookeeper   connect string with chroot: "127.0.0.1:2181/kafka"
    brokers     the bootstrap list: "127.0.0.1:9092,127.0.0.1:9093"
    folder      its work folder: broker-N/data, broker-N/log, tools/
    """

    def __init__(self, version: str, zookeeper: str, brokers: str, folder: Path) -> None:
        self.version = version
        self.zookeeper = zookeeper
        self.folder = folder
        self._brokers = brokers
        self._clients: list[KazooClient] = []
        self._own: KazooClient | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.version} at {self.brokers}, {self.zookeeper}>"

    @property
    def brokers(self) -> str:
        return self._brokers

    def description(self) -> dict[str, str]:
        """Return what another process needs to use the cluster, as `python -m localkafka --json` prints it."""
        return {
            "version": self.version,
            "zookeeper": self.zookeeper,
            "brokers": self.brokers,
            "folder": str(self.folder),
        }

    def zk(self) -> KazooClient:
        """Return a new, started KazooClient with threads inside the chroot; closed with the cluster, or earlier by the
        caller."""
        client = started_client(self.zookeeper)
        self._clients.append(client)
        return client

    def close(self) -> None:
        """Close the clients that zk() returned."""
        for client in self._clients:
            client.stop()
            client.close()
        self._clients, self._own = [], None

    def _reader(self) -> KazooClient:
        """Return the client for the cluster's own requests, the same one each time."""
        if self._own is None:
            self._own = self.zk()
        return self._own


class ClusterClient(Described):
    """A running cluster of another owner.  Closing it closes its clients, never the cluster."""

    def registry(self) -> Registry:
        """Return the brokers' znodes."""
        return Registry(self._reader())

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication: int = 1,
        config: Mapping[str, object] | None = None,
        timeout_s: float = 30,
    ) -> None:
        """Create a topic on all brokers as the admin tool does, and wait until its replicas are in sync and every
        broker knows it.  This includes brokers that are about to register again after their session expired.  Raises
        LocalKafkaError if the topic exists, kafkawire's LocalError for an invalid name."""
        registry, expected = self.registry(), self._expected_brokers()

        def all_registered() -> list[int]:
            found = registry.brokers()
            return found if len(found) >= expected else []

        def all_know() -> bool:
            found = registry.view(name).brokers
            return len(found) >= expected and self._agree(name, found.values())

        brokers = wait_until(all_registered, timeout_s, lambda: f"{expected} brokers, have {registry.brokers()}")
        assignment = topics.assign(sorted(brokers), partitions, replication)
        settings = {key: text_of(value) for key, value in (config or {}).items()}
        if not topics.create(registry.zk, name, assignment, settings):
            raise LocalKafkaError(f"topic {name} already exists in {self.zookeeper}")
        self.wait_in_sync(name, timeout_s)
        wait_until(all_know, timeout_s, lambda: f"every broker to know {name}")

    def _expected_brokers(self) -> int:
        """Return the number of brokers that are registered once each has a session."""
        return len(self.brokers.split(","))

    def wait_leader(self, topic: str, partition: int, timeout_s: float = 30, other_than: int | None = None) -> int:
        """Wait until a registered broker, not `other_than`, leads the partition, and return the leader's id."""
        registry = self.registry()

        def led() -> PartitionView | None:
            view = registry.view(topic)
            seen = view.topics.get(topic, {}).get(partition)
            return seen if seen and seen.leader in view.brokers and seen.leader != other_than else None

        seen = wait_until(led, timeout_s, lambda: f"a leader of {topic}/{partition}; {self._now(topic)}")
        assert seen.leader is not None
        return seen.leader

    def wait_in_sync(self, topic: str, timeout_s: float = 30) -> None:
        """Wait until every partition has a leader and all its replicas registered and in sync, by ZooKeeper and by the
        brokers that hold it: ZooKeeper's data may be older than their restart, or than the end of their session."""
        registry = self.registry()

        def in_sync() -> bool:
            view = registry.view(topic)
            seen = view.topics.get(topic, {}).values()
            holders = {replica for p in seen for replica in p.replicas}
            if not seen or any(p.leader is None or {*p.isr} != {*p.replicas} for p in seen):
                return False
            return holders <= view.brokers.keys() and self._agree(topic, [view.brokers[holder] for holder in holders])

        wait_until(in_sync, timeout_s, lambda: f"{topic} to be in sync; {self._now(topic)}")

    def _agree(self, topic: str, brokers: Iterable[Broker]) -> bool:
        """True if each of these brokers reports the same leaders of the topic as ZooKeeper."""
        leaders = {p: seen.leader for p, seen in self.registry().partitions(topic).items()}
        speaks = dialect(self.version)
        links = Links("localkafka", timeout_ms=2000)
        try:
            for broker in brokers:
                told = read_reply(links.call(broker, "metadata", speaks.requests.metadata(speaks, None)))
                if {p: seen.leader for p, seen in told.topics.get(topic, {}).items()} != leaders:
                    return False
        except LinkLost:
            return False
        finally:
            links.close()
        return True

    def segments(self, tp: TopicPartition) -> list[Path]:
        """Return the log files of a partition on its leader's disk, oldest first; the last one is active."""
        leader = self.wait_leader(tp.topic, int(str(tp.partition)))
        return segments.files(self.folder / f"broker-{leader}" / "data" / f"{tp.topic}-{tp.partition}")

    def wait_cleaned(self, tp: TopicPartition, at_most: int, timeout_s: float = 30.0) -> None:
        """Wait until the closed segments of a compacted partition hold at most this many bytes. A size for one message
        per key, but less than two, is the state that another run of the cleaner does not change."""

        def sizes() -> list[int] | None:
            try:
                return [segment.stat().st_size for segment in self.segments(tp)]
            except FileNotFoundError:  # the cleaner has just replaced the file
                return None

        def cleaned() -> bool:
            seen = sizes()
            return seen is not None and sum(seen[:-1]) <= at_most

        wait_until(cleaned, timeout_s, lambda: f"the cleaner; the segments of {tp} have {sizes()} bytes")

    def _now(self, topic: str) -> str:
        view = self.registry().view(topic)
        seen = sorted(view.topics.get(topic, {}).items(), key=str)
        states = ", ".join(f"{p}: leader {s.leader} isr {sorted(s.isr)} of {sorted(s.replicas)}" for p, s in seen)
        return f"partitions now {states or 'none'}; registered are brokers {sorted(view.brokers)}"

    def describe(self, file: Path) -> None:
        """Write the description to a file for other processes, complete or not at all."""
        draft = file.with_name(f".{file.name}.draft")
        draft.write_text(json.dumps(self.description()) + "\n", encoding="utf-8")
        draft.replace(file)

    @staticmethod
    def attach(file: Path) -> ClusterClient:
        """Return the cluster that another process runs and described in this file.  Raises LocalKafkaError when there
        is none."""
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            raise LocalKafkaError(f"no description of a cluster at {file}: {error.strerror}") from error
        try:
            return ClusterClient.described(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise LocalKafkaError(
                f"{file} does not describe a cluster by version, zookeeper, brokers and folder: {text!r}"
            ) from error

    @staticmethod
    def described(document: Mapping[str, str]) -> ClusterClient:
        """Return the cluster with this description()."""
        return ClusterClient(document["version"], document["zookeeper"], document["brokers"], Path(document["folder"]))


def log_end_offsets(cluster: ClusterClient, topics: Iterable[str], timeout_s: float = 15) -> dict[TopicPartition, int]:
    """Return the next offset of every partition of these topics, requested from its leader without starting a JVM, so
    that it can be polled.  A topic that does not exist has no partitions.  Raises LocalKafkaError when a leader does
    not answer in timeout_s."""
    speaks = dialect(cluster.version)
    links = Links("localkafka", timeout_ms=int(timeout_s * 1000))
    try:
        return {
            tp: _log_end(cluster, tp, speaks, links, timeout_s)
            for topic in topics
            for tp in (TopicPartition(topic, p) for p in cluster.registry().view(topic).partitions(topic))
        }
    finally:
        links.close()


def _log_end(cluster: ClusterClient, tp: TopicPartition, speaks: Dialect, links: Links, timeout_s: float) -> int:
    said = "it has no leader"

    def answered() -> tuple[int] | None:
        nonlocal said
        leader = cluster.registry().view(tp.topic).leader(tp)
        if leader is None:
            return None
        found = ask_offsets(links, speaks, {leader: [tp]}, {tp: LATEST}, purpose="log end")[tp]
        said = str(found.error)  # a leader just elected may not know it yet
        return None if found.offset is None else (found.offset,)

    return wait_until(answered, timeout_s, lambda: f"the log end of {tp}; {said}")[0]


def started_client(hosts: str) -> KazooClient:
    """Return a KazooClient with threads that is connected.  Raises LocalKafkaError when it cannot connect."""
    client = KazooClient(hosts, timeout=SESSION_S, connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": 0.5})
    try:
        client.start(timeout=20)
    except client.handler.timeout_exception as error:
        client.close()
        raise LocalKafkaError(f"ZooKeeper at {hosts} cannot be reached within 20 s") from error
    return client


def text_of(value: object) -> str:
    """Return a setting as text of a .properties file: Python's True is Java's true."""
    return str(value).lower() if isinstance(value, bool) else str(value)
