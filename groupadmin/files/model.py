"""What an offsets file says, whatever its form.  Knows no form, no store, no clock.

SavedRow      a group's position in one partition, and what the file knows beside it
OffsetsFile   the rows of a file, what kind it is, and what its reader should be told
FileUnclear   a file that cannot be understood, or says two things; nothing of it is used
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kafkawire.model import PartitionId, TopicPartition
from zkconsumer.errors import ConsumerError

Kind = Literal[
    "json",  # ours, zkconsumer.offsets/1
    "csv",  # kafka-consumer-groups --export
    "zk-export",  # ExportZkOffsets
    "describe",  # the table of kafka-consumer-groups --describe
    "checker",  # the table of ConsumerOffsetChecker
    "yelp",  # offset_save of kafka-utils
    "one-node",  # the data of a topic's only node
]
WrittenKind = Literal["json", "csv", "zk-export"]
Source = Literal["zookeeper", "kafka", "dual"]


@dataclass(frozen=True, slots=True)
class ZnodeState:
    """A partition in ZooKeeper; offset None: it was looked at and holds none.  mtime_ms: since 1970."""

    offset: int | None
    mzxid: int | None = None
    version: int | None = None
    mtime_ms: int | None = None


@dataclass(frozen=True, slots=True)
class KafkaState:
    """A partition in Kafka's own store; offset None: it was looked at and holds none."""

    offset: int | None
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class SavedRow:
    """One partition of one group.

    group      None where the form does not name it
    position   the next one to read; None: the file says that there is none.  Never -1, and 0 is the log's beginning
    metadata   the text committed with it
    zookeeper, kafka        what each store held; None: the file does not say (the store was not looked at)
    log_start, log_end      the log's bounds when the file was made, where it says them
    """

    group: str | None
    topic: str
    partition: PartitionId
    position: int | None
    metadata: str | None = None
    zookeeper: ZnodeState | None = None
    kafka: KafkaState | None = None
    log_start: int | None = None
    log_end: int | None = None

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class OffsetsFile:
    """A file read, or one to be written.

    rows       in the file's order, no partition of a group twice
    warnings   sentences for whoever reads the file: what was left out, and what may mean something else
    cluster, exported_at_ms (since 1970), source: what only our own JSON says
    """

    kind: Kind
    rows: Sequence[SavedRow]
    warnings: Sequence[str] = ()
    cluster: str | None = None
    exported_at_ms: int | None = None
    source: Source | None = None


class FileUnclear(ConsumerError):
    """A file of positions that cannot be understood; .line counts from 1, None where no single line is to blame."""

    def __init__(self, line: int | None, problem: str, helps: str) -> None:
        super().__init__(f"{f'line {line}: ' if line else ''}{problem}; {helps}")
        self.line = line
        self.problem = problem
        self.helps = helps
