"""A mirror between two real clusters as a test wants it: started as the installed command, watched from outside.

What arrived is read with the JVM's DumpLogSegments: our decoder does not judge itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from kafkawire.model import TopicPartition
from kafkawire.znodes import v08 as znodes
from localkafka import tools
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.demo import Comparison, compare
from localkafka.load import GZIP, PLAIN, SNAPPY, Load, Mixture
from localkafka.mirror import Positions
from localkafka.waiting import wait_until
from tests.integration.mirrorprocess import MirrorProcess

MIXED = Mixture(keyed=0.5, codecs=(PLAIN, GZIP, SNAPPY))
KEYED = Mixture(keyed=1.0, codecs=(PLAIN, GZIP, SNAPPY))
PLAIN_ONLY = Mixture(keyed=0.5, codecs=(PLAIN,))


LOADS: list[Load] = []  # open ones of the running test


def close_loads() -> None:
    while LOADS:
        LOADS.pop().close()


class Mirror(MirrorProcess):
    """`mirrormaker run`, from one cluster to another.  A target option given as None is left out of the file."""

    def __init__(
        self,
        folder: Path,
        source: ClusterClient,
        target: ClusterClient,
        group: str,
        whitelist: str,
        mirror: Mapping[str, object] | None = None,
        target_options: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.source, self.target, self.group = source, target, group
        super().__init__(folder, group, env)
        target_section = {"metadata.broker.list": target.brokers, "target.zookeeper.connect": target.zookeeper}
        target_section |= dict(target_options or {})  # type: ignore[arg-type]
        timing = {"offset.commit.interval.ms": 500, "status.interval.ms": 500, "start.timeout.ms": 10000}
        settings = {
            "sources": [{"name": "dc1", "zookeeper.connect": source.zookeeper, "group.id": group}],
            "target": {key: value for key, value in target_section.items() if value is not None},
            "mirror": {"whitelist": whitelist, **timing, **(mirror or {})},
        }
        self.file.write_text(yaml.safe_dump(settings))

    def arrived(self, topic: str) -> int:
        return sum(log_end_offsets(self.target, [topic]).values())

    def wait_arrived(self, topic: str, count: int, timeout_s: float = 40) -> None:
        wait_until(
            lambda: self.arrived(topic) >= count,
            timeout_s,
            lambda: f"{count} of {topic}; its log ends\n{self.said_last()}",
        )

    def committed(self, topics: list[str]) -> Positions:
        """What the group has committed in ZooKeeper; a partition without a position is left out."""
        zk = self.source.registry().zk
        positions = {}
        for tp in log_end_offsets(self.source, topics):
            path = znodes.offset(self.group, tp)
            if zk.exists(path) is not None:
                positions[tp] = int(zk.get(path)[0])
        return positions

    def wait_all_committed(self, topics: list[str], timeout_s: float = 40) -> None:
        ends = log_end_offsets(self.source, topics)
        wait_until(
            lambda: self.committed(topics) == ends,
            timeout_s,
            lambda: f"all to be committed: {self.committed(topics)} of {ends}; its log ends\n{self.said_last()}",
        )


def filled(
    cluster: ClusterClient, topics: Mapping[str, int], count: int, mixture: Mixture = MIXED, seed: int = 1
) -> Load:
    """New topics with so many partitions, and `count` messages in each."""
    load = Load(cluster.brokers, cluster.version, seed)
    LOADS.append(load)
    for topic, partitions in topics.items():
        cluster.create_topic(topic, partitions)
        load.produce(topic, partitions, count, mixture)
    return load


def compared(mirror: Mirror, topic: str, partitions: int, killed_at: Positions | None = None) -> list[Comparison]:
    """Source and target of a topic, partition by partition, as the JVM reads both."""
    logs = [tools.dump_topic(cluster, topic, range(partitions)) for cluster in (mirror.source, mirror.target)]
    rows = []
    for p in range(partitions):
        source, target = ([(row.offset, row.key, row.payload) for row in log[p]] for log in logs)
        rows.append(compare(topic, p, source, target, committed=(killed_at or {}).get(TopicPartition(topic, p), 0)))
    return rows


def totals(rows: list[Comparison]) -> dict[str, int]:
    names = ("source", "target", "lost", "duplicates", "outside", "phantoms")
    return {name: sum(getattr(row, name) for row in rows) for name in names}


def values(cluster: ClusterClient, topic: str, partition: int) -> list[str | None]:
    return [row.payload for row in tools.dump_partition(cluster, topic, partition)]
