"""Independent reader of a cluster's logs: librdkafka.  No decoder of this project judges what arrived."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from tests.faults.harness.payload import MessageId, of_message
from tests.matrix.foreign import read_by_librdkafka

OLD = {
    "api.version.request": "false",
    "broker.version.fallback": "0.8.2.2",
    "log_level": "3",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A message of a log.  id: None where it is no message of the harness; intact: its own checksum is right."""

    offset: int
    id: MessageId | None
    intact: bool = True
    run: str = ""


Log = Mapping[TopicPartition, Sequence[Entry]]  # each partition in the order of its offsets


def read_log(cluster: ClusterClient, topics: Sequence[str]) -> dict[TopicPartition, list[Entry]]:
    """Every message of these topics, from their begins to their ends.  Raises LocalKafkaError when librdkafka does not
    come to the ends, or finds a message whose CRC in the log is wrong."""
    log: dict[TopicPartition, list[Entry]] = {}
    for topic, partition, offset, _time, key, value, _headers in read_by_librdkafka(cluster.brokers, topics, OLD):
        payload = of_message(key, value)  # type: ignore[arg-type]
        entry = (
            Entry(int(str(offset)), None, intact=False)
            if payload is None
            else Entry(int(str(offset)), payload.id, payload.intact, payload.run)
        )
        log.setdefault(TopicPartition(str(topic), int(str(partition))), []).append(entry)
    return log


def write_log(file: Path, log: Log) -> None:
    """A line of JSON for each message, for whoever looks into a failed run."""
    with file.open("w", encoding="utf-8") as lines:
        for tp, entries in log.items():
            for entry in entries:
                of = None if entry.id is None else [entry.id.topic, entry.id.partition, entry.id.sequence]
                row = {"topic": tp.topic, "partition": tp.partition, "offset": entry.offset, "id": of}
                lines.write(json.dumps(row if entry.intact else row | {"intact": False}) + "\n")
