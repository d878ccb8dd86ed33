"""Content of an offsets file, independent of its form.  Knows no form, no store, no clock.

SavedRow      a group's offset in one partition, with further data of the file
OffsetsFile   the rows of a file, its kind, and warnings
FileUnclear   a file that cannot be parsed or contradicts itself; none of it is used
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from kafkawire.model import PartitionId, TopicPartition
from zkconsumer.errors import ConsumerError

Kind = Literal[
    "json",  # this project's, zkconsumer.offsets/1
    "csv",  # kafka-consumer-groups --export
    "zk-export",  # ExportZkOffsets
    "yelp",  # offset_save of kafka-utils
]
WrittenKind = Literal["json", "csv", "zk-export"]
Source = Literal["zookeeper", "kafka", "dual"]


@dataclass(frozen=True, slots=True)
class ZnodeState:
    """A partition in ZooKeeper.  offset None: it was read and holds none.  mtime_ms: since 1970.

    text: the node's data, if it is not an offset, as UTF-8; other bytes are surrogate escapes.
    """

    offset: int | None
    mzxid: int | None = None
    version: int | None = None
    mtime_ms: int | None = None
    text: str | None = None

    @classmethod
    def holding(cls, data: bytes) -> ZnodeState:
        """Return the state of a node whose data is not an offset."""
        return cls(None, text=data.decode("utf-8", "surrogateescape"))

    @property
    def data(self) -> bytes | None:
        """Return the data of a node that holds no offset; None if it holds one, or does not exist."""
        return None if self.text is None else self.text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class KafkaState:
    """A partition in Kafka's store.  offset None: it was read and holds none."""

    offset: int | None
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class SavedRow:
    """One partition of one group.

    group      None when the form does not name it
    position   the next offset to read; None: the file says that there is none.  Never -1; 0 is the log's start
    metadata   the text committed with the offset
    zookeeper, kafka        the state of each store; None: not in the file (the store was not read)
    log_start, log_end      the log's bounds when the file was made, if it has them
    """

    group: str | None
    topic: str
    partition: PartitionId
    position: int | None
    _: KW_ONLY
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
    """An offsets file that was read, or will be written.

    rows       in the file's order, no partition of a group twice
    warnings   sentences about what was skipped, and what is ambiguous
    cluster, exported_at_ms (since 1970), source: only in the form "json"
    """

    kind: Kind
    rows: Sequence[SavedRow]
    _: KW_ONLY
    warnings: Sequence[str] = ()
    cluster: str | None = None
    exported_at_ms: int | None = None
    source: Source | None = None


class FileUnclear(ConsumerError):
    """An offsets file cannot be parsed or contradicts itself.  .line: from 1; None: the error is not in a single
    line."""

    def __init__(self, line: int | None, problem: str, helps: str) -> None:
        super().__init__(f"{f'line {line}: ' if line else ''}{problem}; {helps}")
        self.line = line
        self.problem = problem
        self.helps = helps
