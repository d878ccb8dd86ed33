"""The brokers of the matrix: which releases, what their formats carry, and a running one with its clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from localkafka import releases
from localkafka.cluster import Cluster
from localkafka.kraft import KraftBroker
from localkafka.zookeeper import ZooKeeperAt, ZooKeeperServer
from tests.matrix.foreign import create_by_librdkafka
from tests.matrix.peer import Peer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "auto.create.topics.enable": "false",  # else a client that looks for a topic would make it
    "log.retention.hours": "1000000",  # messages with timestamps of years ago stay
}
QUICK_GROUPS = {"group.min.session.timeout.ms": "1000"}  # a killed member is put out soon


@dataclass(frozen=True, slots=True)
class Kind:
    """A broker of the matrix: release and mode.  name: "3.9.1", or "3.9.1-kraft" where the release knows both."""

    name: str

    @property
    def version(self) -> str:
        return self.name.removesuffix("-kraft")

    @property
    def number(self) -> releases.Number:
        return releases.release(self.version).number

    @property
    def kraft(self) -> bool:
        return self.name.endswith("-kraft") or releases.release(self.version).kraft

    @property
    def codecs(self) -> tuple[str, ...]:
        """What its producer and its log know."""
        return CODECS[: 3 if self.number < (0, 8, 2) else 4 if self.number < (2, 1) else 5]

    @property
    def timestamps(self) -> bool:
        return self.number >= (0, 10)

    @property
    def headers(self) -> bool:
        return self.number >= (0, 11)

    @property
    def transactions(self) -> bool:
        return self.number >= (0, 11)

    @property
    def pin(self) -> str:
        """The release as the option `version` names it."""
        number = self.number[:3] if self.number < (1,) and self.number[1] != 9 else self.number[:2]
        return ".".join(map(str, number))


def dropped(source: Kind, target: Kind) -> tuple[str, ...]:
    """What messages of the source have and the target's format has no room for: mirror.drop.fields lets it go."""
    headers = source.headers and not target.headers
    timestamps = source.timestamps and not target.timestamps
    return ("headers",) * headers + ("timestamps",) * timestamps


def page_table() -> str:
    """The table of docs/modern.md: what the messages of each source keep in each target."""
    lines = [f"| from \\ to | {' | '.join(target.name for target in TARGETS)} |", "|---" * (len(TARGETS) + 1) + "|"]
    for source in SOURCES:
        cells = [" and ".join(f"no {name}" for name in dropped(source, target)) or "all" for target in TARGETS]
        lines.append(f"| **{source.name}** | {' | '.join(cells)} |")
    return "\n".join(lines)


SOURCES = tuple(
    map(Kind, ["0.8.1.1", "0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "2.8.2", "3.9.1", "3.9.1-kraft", "4.3.1"])
)
TARGETS = tuple(map(Kind, ["0.8.2.2", "0.10.2.2", "0.11.0.3", "2.8.2", "3.9.1", "3.9.1-kraft", "4.3.1"]))


class Site:
    """One running broker of a kind, with its clients."""

    def __init__(self, kind: Kind, folder: Path, zookeeper: ZooKeeperServer | ZooKeeperAt | None = None) -> None:
        self.kind = kind
        self.folder = folder
        settings = {**SETTINGS, **(QUICK_GROUPS if kind.number >= (0, 9) else {})}
        self._broker: Cluster | KraftBroker
        if kind.kraft:
            self._broker = KraftBroker(folder / "broker", kind.version, settings=settings)
        else:
            self._broker = Cluster(version=kind.version, zookeeper=zookeeper, settings=settings)
        self._peer: Peer | None = None

    @property
    def brokers(self) -> str:
        return self._broker.brokers

    @property
    def zookeeper(self) -> str | None:
        """The connect string; None for KRaft."""
        return self._broker.zookeeper if isinstance(self._broker, Cluster) else None

    @property
    def as_source(self) -> dict[str, object]:
        """Options of a mirror's source: where the cluster and its groups are, with short sessions."""
        if self.zookeeper is not None:
            return {"zookeeper.connect": self.zookeeper, "zookeeper.session.timeout.ms": 3000}
        return {"coordination": "kafka", "bootstrap.servers": self.brokers, "session.timeout.ms": 3000}

    @property
    def peer(self) -> Peer:
        """Its clients, started when first asked for."""
        if self._peer is None:
            self._peer = Peer(self.kind.version, self.brokers, self.folder / "clients")
        return self._peer

    def create(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Create a topic with one replica."""
        if isinstance(self._broker, Cluster):
            self._broker.create_topic(topic, partitions, 1, config)
        else:
            create_by_librdkafka(self.brokers, topic, partitions, config or {})

    def start(self) -> None:
        """Start the broker, and wait until it serves.  Raises LocalKafkaError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._broker.start()

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()
        self._broker.close()


class Sites:
    """Sites by kind, each started when it is first asked for, all below one folder; ended by `with`."""

    def __init__(self, folder: Path, zookeeper: ZooKeeperServer | ZooKeeperAt | None = None) -> None:
        self._folder, self._zookeeper = folder, zookeeper
        self._started: dict[Kind, Site] = {}

    def site(self, kind: Kind) -> Site:
        """The running site of a kind.  Raises LocalKafkaError when it cannot be started."""
        if kind not in self._started:
            made = Site(kind, self._folder / f"site-{kind.name}", self._zookeeper)
            self._started[kind] = made
            made.start()
        return self._started[kind]

    def end(self, kind: Kind) -> None:
        """End the site of a kind, if it was started."""
        if kind in self._started:
            self._started.pop(kind).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for kind in list(self._started):
            self.end(kind)
