"""Names of files: from the folder and task that Spark wrote, to the range that a final name says, and back.  Pure.

    staged   topic=T/p=P/date=YYYY-MM-DD/hour=HH/part-<task>-….parquet
    final    data/topic=T/date=YYYY-MM-DD/hour=HH/T+P+<start:020>+<until:020>.g<batch>.c000.snappy.parquet

`+` is legal on every file system and in no Kafka topic's name, so a final name parses back.  until is exclusive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkawire.model import PartitionId, TopicPartition
from sparkpipeline.ledger.model import DATA, generation
from sparkpipeline.ranges import partition_of

_STAGED = re.compile(
    r"topic=(?P<topic>[^/]+)/p=(?P<partition>[^/]+)/date=(?P<date>[^/]+)/hour=(?P<hour>\d\d)/"
    r"part-(?P<task>\d+)-[^/]*?(?P<piece>\.c\d+)(?P<suffix>(?:\.[a-z0-9]+)?\.parquet)"
)
_FINAL = re.compile(
    rf"{DATA}/topic=(?P<topic>[^/]+)/date=(?P<date>[^/]+)/hour=(?P<hour>\d\d)/"
    r"(?P=topic)\+(?P<partition>[0-9-]+)\+(?P<start>\d{20})\+(?P<until>\d{20})\.g(?P<batch>\d+)\.[^/]*parquet"
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True, order=True)
class Hour:
    """One hour of a topic: date is YYYY-MM-DD, hour HH, in UTC."""

    topic: str
    date: str
    hour: str

    @property
    def folder(self) -> str:
        """Below the base."""
        return f"{DATA}/topic={self.topic}/date={self.date}/hour={self.hour}"


@dataclass(frozen=True, slots=True)
class StagedName:
    """What the path of a staged file says.  piece: .c000, counted where Spark cuts a file; suffix: codec and end."""

    hour: Hour
    partition: PartitionId
    task: int
    piece: str
    suffix: str

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.hour.topic, self.partition)

    def final(self, start: int, until: int, batch: int) -> str:
        """The final path, below the base, of the part of a range [start, until) that is in this file."""
        name = f"{self.hour.topic}+{self.partition}+{start:020}+{until:020}{generation(batch)}"
        return f"{self.hour.folder}/{name}{self.piece}{self.suffix}"


@dataclass(frozen=True, slots=True)
class FinalName:
    """What the path of a final file says."""

    hour: Hour
    partition: PartitionId
    start: int
    until: int
    batch: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.hour.topic, self.partition)


def staged_name(path: str) -> StagedName | None:
    """path: below the staging folder.  None: no data file of Spark's, such as _SUCCESS."""
    found = _STAGED.fullmatch(path)
    if found is None:
        return None
    hour = Hour(found["topic"], found["date"], found["hour"])
    return StagedName(hour, partition_of(found["partition"]), int(found["task"]), found["piece"], found["suffix"])


def final_name(path: str) -> FinalName | None:
    """path: below the base.  None: no file of a load's."""
    found = _FINAL.fullmatch(path)
    if found is None or not _DATE.fullmatch(found["date"]):
        return None
    hour = Hour(found["topic"], found["date"], found["hour"])
    start, until, batch = int(found["start"]), int(found["until"]), int(found["batch"])
    return FinalName(hour, partition_of(found["partition"]), start, until, batch)
