"""Mirrors with delivery.guarantee: exactly-once from 0.8.2.2 into a modern target, judged by librdkafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import yaml

from localkafka import tools
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.load import Load
from localkafka.waiting import wait_until
from tests.integration.mirroring import LOADS, MIXED
from tests.integration.mirrorprocess import MirrorProcess
from tests.matrix.foreign import read_by_librdkafka

SESSION_MS = 4000  # a mirror that was killed is followed by the next one so soon


class Modern(Protocol):
    """A target: a Cluster or a KraftBroker."""

    @property
    def brokers(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Copies:
    """What a foreign read_committed reader finds of a source topic in the target; each number counts messages."""

    source: int
    target: int
    lost: int
    duplicates: int
    disordered: int  # behind a later one of their partition


class OnceMirror(MirrorProcess):
    """`mirrormaker run` with delivery.guarantee: exactly-once; several share a group."""

    def __init__(
        self,
        folder: Path,
        source: ClusterClient,
        target: Modern,
        group: str,
        topic: str,
        *,
        name: str = "",
        mirror: Mapping[str, object] | None = None,
        towards: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, name or group, env)
        self.source, self.target, self.group, self.topic = source, target, group, topic
        each = {
            "group.id": group,
            "zookeeper.session.timeout.ms": SESSION_MS,
            "rebalance.backoff.ms": 1200,
            "fetch.message.max.bytes": 65536,  # small, so that a kill comes in the middle of much
        }
        sources = [{"name": "dc1", "zookeeper.connect": source.zookeeper, **each}]
        settings = {
            "sources": sources,
            "target": {"metadata.broker.list": target.brokers, **(towards or {})},
            "mirror": {
                "whitelist": topic,
                "delivery.guarantee": "exactly-once",
                "transaction.interval.ms": 100,
                "offset.commit.interval.ms": 500,
                "status.interval.ms": 500,
                "control.socket": "none",
                **(mirror or {}),
            },
        }
        self.file.write_text(yaml.safe_dump(settings))

    def committed(self) -> int:
        """Messages before what the group has committed at the source."""
        return sum(self._positions().values())

    def _positions(self) -> dict[int, int]:
        zk = self.source.registry().zk
        found = {}
        for tp in log_end_offsets(self.source, [self.topic]):
            path = f"/consumers/{self.group}/offsets/{tp.topic}/{tp.partition}"
            if zk.exists(path) is not None:
                found[int(str(tp.partition))] = int(zk.get(path)[0])
        return found

    def wait_committed(self, count: int, timeout_s: float = 60) -> None:
        self.wait_for(lambda: self.committed() >= count, f"{count} to be committed, not {self.committed()}", timeout_s)

    def wait_all(self, timeout_s: float = 90) -> None:
        """Wait until everything in the source is copied and committed."""
        ends = {int(str(tp.partition)): end for tp, end in log_end_offsets(self.source, [self.topic]).items()}
        wait_until(
            lambda: self._positions() == ends,
            timeout_s,
            lambda: f"all to be committed: {self._positions()} of {ends}; its log ends\n{self.said_last()}",
        )


def load_of(source: ClusterClient, topic: str, partitions: int, count: int) -> Load:
    """A new topic with so many messages."""
    load = Load(source.brokers, source.version, 1)
    LOADS.append(load)
    source.create_topic(topic, partitions)
    load.produce(topic, partitions, count, MIXED)
    return load


def copies(source: ClusterClient, target: Modern, topic: str, partitions: int) -> Copies:
    """Compare source and target partition by partition: the JVM reads the source, librdkafka the target."""
    there: dict[int, list[tuple[bytes | None, bytes | None]]] = {p: [] for p in range(partitions)}
    for row in read_by_librdkafka(target.brokers, [topic]):
        there[row[1]].append((row[4], row[5]))  # type: ignore[index, arg-type]
    here = tools.dump_topic(source, topic, range(partitions))
    rows = {p: [(_octets(row.key), _octets(row.payload)) for row in here[p]] for p in range(partitions)}
    counts = [_compared(rows[p], there[p]) for p in range(partitions)]
    return Copies(*(sum(column) for column in zip(*counts, strict=True)))


def _octets(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _compared(
    source: list[tuple[bytes | None, bytes | None]], target: list[tuple[bytes | None, bytes | None]]
) -> tuple[int, int, int, int, int]:
    wanted, found = Counter(source), Counter(target)
    lost, more = sum((wanted - found).values()), sum((found - wanted).values())
    disordered = 0 if target == source else 1 if not (lost or more) else 0
    return len(source), len(target), lost, more, disordered
