"""Two clusters filled so that a test knows what `mirrormaker verify` has to say; the command as it is installed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from kafkawire.cluster.client import KafkaClient
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.znodes import v08 as znodes
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until
from zkconsumer.simple import SimpleConsumer

LOT = 10_000  # messages in a request
Row = tuple[bytes | None, bytes | None]
T = TypeVar("T")


def write(
    cluster: ClusterClient,
    tp: TopicPartition,
    rows: Sequence[Row],
    codec: int = 0,
    lot: int = LOT,
    times_ms: Sequence[int] = (),
) -> None:
    """Append messages to one partition, in sets of `lot`; from 0.10 on with these times."""
    speaks, links = dialect(cluster.version), Links("writer")
    bootstrap = [(host, int(port)) for host, port in (each.split(":") for each in cluster.brokers.split(","))]
    client = KafkaClient.of_brokers(bootstrap, links, speaks)
    try:
        for begin in range(0, len(rows), lot):
            some = enumerate(rows[begin : begin + lot])
            entries = [(n, *row, times_ms[begin + n] if times_ms else None) for n, row in some]
            leader = client.leader(tp)
            assert isinstance(leader, Broker), leader
            request = speaks.requests.produce(
                speaks, -1, 10_000, {tp: [speaks.messages.encode(entries, codec, speaks.magic)]}
            )
            assert links.link(leader, "write").call(request)[tp].error == 0
    finally:
        links.close()


def numbered(count: int, first: int = 0) -> list[Row]:
    """Messages of which no two are equal."""
    return [(b"key-%d" % (n % 997), b"message %d" % n) for n in range(first, first + count)]


def commit(cluster: ClusterClient, group: str, topic: str, offsets: Mapping[int, int] | None = None) -> None:
    """What a mirror's group commits; None: everything that is there."""
    zk = cluster.registry().zk
    ends = log_end_offsets(cluster, [topic])
    for tp, end in ends.items():
        at = end if offsets is None else offsets.get(int(str(tp.partition)))
        path = znodes.offset(group, tp)
        if at is not None:
            zk.ensure_path(path)
            zk.set(path, str(at).encode())


def commit_to_kafka(cluster: ClusterClient, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """What a mirror's group commits whose offsets are in Kafka."""
    host, port = cluster.brokers.split(",")[0].split(":")
    with SimpleConsumer(host, int(port), cluster.version) as committing:
        assert committing.commit_offsets(group, offsets, "kafka") == sorted(offsets)


def settings(
    folder: Path, source: ClusterClient, target: ClusterClient, group: str, whitelist: str, **options: object
) -> Path:
    """The mirror's file.  options: of its source."""
    file = folder / f"{group}.yaml"
    content: dict[str, Any] = {
        "sources": [{"name": "dc1", "zookeeper.connect": source.zookeeper, "group.id": group, **options}],
        "target": {"metadata.broker.list": target.brokers, "target.zookeeper.connect": target.zookeeper},
        "mirror": {"whitelist": whitelist},
    }
    file.write_text(yaml.safe_dump(content))
    return file


@dataclass(frozen=True)
class Verified:
    """What the command printed, and how it ended."""

    code: int
    document: dict[str, Any]
    said: str

    def total(self, *names: str) -> list[int]:
        return [self.document[name] for name in names]

    @property
    def differences(self) -> list[tuple[Any, ...]]:
        names = ("difference", "topic", "partition", "first_offset", "last_offset", "messages")
        return [tuple(each[name] for name in names) for each in self.document["differences"]]


def verify(file: Path, *flags: str, env: Mapping[str, str] | None = None) -> Verified:
    done = subprocess.run(
        [str(COMMAND), "verify", str(file), "-o", "json", *flags],
        capture_output=True, text=True, timeout=300, env=env,
    )  # fmt: skip
    document = json.loads(done.stdout) if done.stdout else {}
    return Verified(done.returncode, document, done.stderr)


def grown(cluster: ClusterClient, topic: str, count: int) -> None:
    """Wait until a topic holds so many messages."""
    wait_until(lambda: sum(log_end_offsets(cluster, [topic]).values()) >= count, 60, f"{count} of {topic}")


def without(rows: Sequence[T], *numbers: int) -> list[T]:
    return [row for n, row in enumerate(rows) if n not in numbers]
