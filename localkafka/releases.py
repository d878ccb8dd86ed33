"""Tables of Kafka versions: versions that can be fetched, that can be started, and the settings of each.

The settings were measured on real brokers: a small cleaner buffer (in 0.9 and later it saves 125 MB per broker), one
replica and four partitions for the topics of offsets and transactions, no controlled shutdown (a stop leaves no znodes,
so a restart is immediate).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from localkafka.errors import LocalKafkaError

DEFAULT = "0.8.2.2"
ZOOKEEPER_FROM = "0.8.2.2"  # its jars contain ZooKeeper 3.4.6, which works with every version that needs one

Number = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """A version of Kafka: its name, its numbers for comparison, and the oldest Java that runs it."""

    version: str
    number: Number
    java: int

    @property
    def kraft(self) -> bool:
        """True when the release has no ZooKeeper mode any more."""
        return self.number >= (4,)

    @property
    def log4j2(self) -> bool:
        return self.number >= (4,)


KNOWN = {
    release.version: release
    for release in (
        Release("0.8.1.1", (0, 8, 1, 1), 8),
        Release("0.8.2.2", (0, 8, 2, 2), 8),
        Release("0.9.0.1", (0, 9, 0, 1), 8),
        Release("0.10.2.2", (0, 10, 2, 2), 8),
        Release("0.11.0.3", (0, 11, 0, 3), 8),
        Release("2.8.2", (2, 8, 2), 8),
        Release("3.9.1", (3, 9, 1), 8),
        Release("4.3.1", (4, 3, 1), 17),
    )
}

STARTABLE = tuple(version for version, row in KNOWN.items() if not row.kraft)  # a Cluster uses ZooKeeper

# (first release, setting, value): used in that release and later
SETTINGS: tuple[tuple[Number, str, str], ...] = (
    ((0,), "num.partitions", "4"),
    ((0,), "num.network.threads", "2"),
    ((0,), "num.io.threads", "4"),
    ((0, 8, 2), "offsets.topic.replication.factor", "1"),
    ((0, 8, 2), "offsets.topic.num.partitions", "4"),
    ((0, 8, 2), "unclean.leader.election.enable", "false"),
    ((0, 9), "log.cleaner.dedupe.buffer.size", "2097152"),
    ((0, 10, 1), "log.retention.ms", "-1"),  # retention by timestamps since then (KIP-33); tests send old ones
    ((0, 11), "transaction.state.log.replication.factor", "1"),
    ((0, 11), "transaction.state.log.min.isr", "1"),
    ((0, 11), "transaction.state.log.num.partitions", "1"),
    ((0, 11), "group.initial.rebalance.delay.ms", "0"),
)

ZOOKEEPER_SETTINGS: tuple[tuple[Number, str, str], ...] = (
    ((0,), "zookeeper.session.timeout.ms", "3000"),  # a killed broker is noticed in 3 s; 1 s is lost on a busy machine
    ((0,), "zookeeper.connection.timeout.ms", "15000"),
    ((0,), "controlled.shutdown.enable", "false"),
)


def release(version: str) -> Release:
    """Return the row of a version.  Raises LocalKafkaError, which names the known ones."""
    known = KNOWN.get(version)
    if known is None:
        raise LocalKafkaError(f"unknown Kafka version {version!r}; known are {', '.join(KNOWN)}")
    return known


def startable(version: str) -> Release:
    """Return the row of a version whose brokers use ZooKeeper.  Raises LocalKafkaError, which names versions that
    do."""
    known = release(version)
    if known.kraft:
        raise LocalKafkaError(
            f"Kafka {version} has no ZooKeeper mode, which a local cluster needs; use one of {', '.join(STARTABLE)}"
        )
    return known


def pom(name: str) -> str:
    """Return the text of a pom.xml of a version, or of other software that runs from jars."""
    return resources.files("localkafka").joinpath("poms", f"{name}.xml").read_text(encoding="utf-8")


def applying(rows: tuple[tuple[Number, str, str], ...], to: Release) -> dict[str, str]:
    """Return the settings of a table for this release."""
    return {key: value for since, key, value in rows if to.number >= since}


def listener(of: Release, host: str, port: int, advertised: tuple[str, int]) -> dict[str, str]:
    """Settings of a broker in ZooKeeper mode for its listener and its advertised address."""
    if of.number < (0, 9):
        return {
            "host.name": host,
            "port": str(port),
            "advertised.host.name": advertised[0],
            "advertised.port": str(advertised[1]),
        }
    return {
        "listeners": f"PLAINTEXT://{host}:{port}",
        "advertised.listeners": f"PLAINTEXT://{advertised[0]}:{advertised[1]}",
    }


def properties(settings: Mapping[str, str]) -> str:
    """Return the text of a .properties file; these values need no escapes."""
    return "".join(f"{key}={value}\n" for key, value in settings.items())
