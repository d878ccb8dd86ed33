"""A mirror out of a 0.7 cluster as a test wants it: started as the installed command, watched from outside.

Values name their source partition and count there (`3-1:000042`), so that what is lost, repeated or out of order shows.
What the source holds is read by localkafka.seven's own client; what arrived, too, or by the JVM's DumpLogSegments.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from kafkawire.model import BrokerPartition
from localkafka.mirror import COMMAND
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from tests.integration.mirrorprocess import MirrorProcess
from tests.integration.sevens import positions

CODECS = ("none", "gzip", "snappy")


def fill(cluster: Cluster07, topic: str, count: int, first: int = 0, batch: int = 50, lot: int = 500) -> int:
    """`count` more messages on every broker-partition, in wrappers of every codec and plain ones; how many in all."""
    counts = {broker.id: int(broker.settings.get("num.partitions", "1")) for broker in cluster.nodes}
    partitions = [BrokerPartition(b, i) for b, n in counts.items() for i in range(n)]
    for number, partition in enumerate(partitions):
        for turn, begin in enumerate(range(0, count, lot)):
            values = [value(partition, first + n) for n in range(begin, min(count, begin + lot))]
            codec = CODECS[(number + turn) % len(CODECS)]
            cluster.produce(topic, partition.broker, partition.index, values, codec, batch=batch)
    return count * len(partitions)


def damaged(cluster: Cluster07, topic: str, partition: BrokerPartition, position: int) -> None:
    """One bit of a log is another from now on."""
    [segment] = (cluster.node(partition.broker).data / f"{topic}-{partition.index}").glob("*.kafka")
    with segment.open("r+b") as log:
        log.seek(position)
        byte = log.read(1)[0]
        log.seek(position)
        log.write(bytes([byte ^ 1]))


def value(partition: BrokerPartition, number: int) -> bytes:
    return b"%s:%06d %s" % (str(partition).encode(), number, b"x" * (number % 60))


@dataclass(frozen=True)
class Found:
    """What became of a topic's messages."""

    source: int
    lost: int
    duplicates: int
    phantoms: int
    out_of_order: int  # messages whose first arrival came after that of a later one of their source partition
    split: int  # source partitions that are in more than one target partition
    repeated: Mapping[str, int]  # duplicates by source partition


def judged(source: Mapping[BrokerPartition, Iterable[bytes]], target: Mapping[object, Sequence[bytes]]) -> Found:
    """What the source holds, and the target's partitions in order."""
    wanted = Counter(message for values in source.values() for message in values)
    found = Counter(message for values in target.values() for message in values)
    places: dict[bytes, set[object]] = {}
    out_of_order = 0
    for place, values in target.items():
        last: dict[bytes, int] = {}
        seen: set[bytes] = set()
        for message in values:
            name, _, rest = message.partition(b":")
            places.setdefault(name, set()).add(place)
            if message not in seen:
                seen.add(message)
                number = int(rest[:6])
                out_of_order += number < last.get(name, -1)
                last[name] = max(number, last.get(name, -1))
    extra = found - wanted
    duplicates = Counter({message: n for message, n in extra.items() if message in wanted})
    repeated: Counter[str] = Counter()
    for message, n in duplicates.items():
        repeated[message.partition(b":")[0].decode()] += n
    return Found(
        wanted.total(),
        (wanted - found).total(),
        duplicates.total(),
        (extra - duplicates).total(),
        out_of_order,
        sum(len(there) > 1 for there in places.values()),
        dict(repeated),
    )


class Mirror07(MirrorProcess):
    """`mirrormaker run` out of a 0.7 cluster.  target: its section of the file; more: options of the source."""

    def __init__(
        self,
        folder: Path,
        source: Cluster07,
        target: Mapping[str, object],
        group: str,
        whitelist: str,
        mirror: Mapping[str, object] | None = None,
        more: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.source, self.group, self.topic = source, group, whitelist
        super().__init__(folder, group, env)
        timing = {"offset.commit.interval.ms": 500, "status.interval.ms": 500, "start.timeout.ms": 10000}
        own = {"name": "old", "version": "0.7.2", "zookeeper.connect": source.zookeeper, "group.id": group}
        quick = {"zookeeper.session.timeout.ms": 3000, "fetcher.backoff.ms": 200}
        settings = {
            "sources": [{**own, **quick, **(more or {})}],
            "target": dict(target),
            "mirror": {"whitelist": whitelist, **timing, **(mirror or {})},
        }
        self.file.write_text(yaml.safe_dump(settings))

    def checked(self) -> tuple[int, str]:
        """What `mirrormaker check --online` prints, and its exit code."""
        done = subprocess.run([str(COMMAND), "check", str(self.file), "--online"], capture_output=True, timeout=60)
        return done.returncode, done.stdout.decode() + done.stderr.decode()

    def committed(self, topic: str | None = None) -> dict[BrokerPartition, int]:
        """What the group has committed in ZooKeeper; a partition without a position is left out."""
        return positions(self.source, self.group, topic or self.topic)

    def wait_all_committed(self, topic: str | None = None, timeout_s: float = 40) -> None:
        ends = self.source.ends(topic or self.topic)
        wait_until(
            lambda: self.committed(topic) == ends,
            timeout_s,
            lambda: f"all to be committed: {self.committed(topic)} of {ends}; log\n{self.said()}",
        )
