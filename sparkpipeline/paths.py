"""Names of all files of a job: files of its ledger, and staged and live data files.

    BASE/data/…                              live files: what readers of the folder see
    BASE/_load/plans/00000017.json           exactly what batch 17 does, before anything is read
               staging/00000017-2/           staged files: what attempt 2 at it writes
               staging/00000017-2.claim      whose attempt that is: made first, so that no two drivers share a folder
               staging/00000017-2.seal       it goes to its commit now, or was given up: never both (ledger/attempts.py)
               commits/00000017.json         manifest: the commit.  Names each committed file, staged and final
               done/00000017.json            published: all of them have their final names
               trash/00000017/data/…         what batch 17 superseded, until the retention time
               snapshots/00000100.json       the sum of batches 1 to 100, and .files.gz with the live files
               quarantine/T+P+…+….g17.bin    bytes of damaged entries that batch 17 left out (corrupt.policy)

The underscore keeps Spark, Hive and pyarrow out of it.  Data files, of a load and of a stage:

    staged   topic=T/p=P/date=YYYY-MM-DD/hour=HH/part-<task>-….c000.snappy.parquet
    final    data/topic=T/date=YYYY-MM-DD/hour=HH/T+P+<start:020>+<until:020>.g<batch>.c000.snappy.parquet
             of a load in another format: ….c000.snappy.orc, ….c000.json.gz
    staged   <column>=<value>/…/part-<task>-….c000.snappy.parquet
    final    data/<column>=<value>/…/<stage>-<task>.g<batch>.c000.snappy.parquet

A staged path is below the folder of its attempt, a final one below the base.  `+` is legal on every file system and in
no topic's name, so the final name of a load parses back.  until is exclusive.  Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from kafkawire.model import PartitionId, TopicPartition
from sparkpipeline.errors import Mismatch
from sparkpipeline.ranges import partition_of

DATA = "data"  # the folder, below the base, of all final files
LOG = "_load"
CLOSED = "_CLOSED"  # marker in the folder of an hour that is complete
HOUR_MS = 3600_000
_BATCH = re.compile(r"(\d{8,})\.json")
_ATTEMPT = re.compile(r"(\d{8,})-(\d+)(\.claim|\.seal)?")


_PATTERN = frozenset("*?[{\\")  # a path with one of these is a pattern to Hadoop; Spark escapes them in folders' names


def is_below(path: str) -> bool:
    """True if a path names one file below a folder: no step leads out of it, and Hadoop takes it for no pattern."""
    steps = path.split("/")
    return not any(step in ("", ".", "..") for step in steps) and _PATTERN.isdisjoint(path) and "\0" not in path


# ---- the ledger's own files ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """Full paths of the files of one ledger.  base: a URI or path without a slash at its end."""

    base: str

    def final(self, path: str) -> str:
        """Return the full path of a final file."""
        return f"{self.base}/{path}"

    def folder(self, name: str) -> str:
        """Return a folder: plans, staging, commits, done, trash, snapshots or quarantine."""
        return f"{self.base}/{LOG}/{name}"

    def plan(self, batch: int) -> str:
        return f"{self.folder('plans')}/{batch:08}.json"

    def commit(self, batch: int) -> str:
        return f"{self.folder('commits')}/{batch:08}.json"

    def done(self, batch: int) -> str:
        return f"{self.folder('done')}/{batch:08}.json"

    def staging(self, batch: int, attempt: int) -> str:
        return f"{self.folder('staging')}/{batch:08}-{attempt}"

    def claim(self, batch: int, attempt: int) -> str:
        return f"{self.staging(batch, attempt)}.claim"

    def seal(self, batch: int, attempt: int) -> str:
        return f"{self.staging(batch, attempt)}.seal"

    def trash(self, batch: int) -> str:
        return f"{self.folder('trash')}/{batch:08}"

    def trashed(self, batch: int, final: str) -> str:
        """Return the path of a final file after a batch has superseded it."""
        return f"{self.trash(batch)}/{final}"

    def quarantined(self, batch: int, topic: str, partition: PartitionId, start: int, until: int) -> str:
        """Return the path of a file with the bytes of damaged offsets, as the log has them."""
        name = f"{topic}+{partition}+{start:020}+{until:020}{generation(batch)}.bin"
        return f"{self.folder('quarantine')}/{name}"

    def snapshot(self, through: int) -> str:
        return f"{self.folder('snapshots')}/{through:08}.json"

    def snapshot_files(self, through: int) -> str:
        return f"{self.folder('snapshots')}/{through:08}.files.gz"


def batch_of(name: str) -> int | None:
    """Return the batch of a file name in plans, commits, done or snapshots; None for a foreign name."""
    found = _BATCH.fullmatch(name)
    return None if found is None else int(found[1])


def attempt_of(name: str) -> tuple[int, int] | None:
    """Return batch and attempt of a name in staging; None for a foreign name."""
    found = _ATTEMPT.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]))


# ---- data files ------------------------------------------------------------------------------------------------------


def generation(batch: int) -> str:
    """Return the part of the names of a batch's final files that makes them unique forever: ".g17".  So a driver that
    wakes up late can never restore a superseded file."""
    return f".g{batch}"


GENERATION = r"\.g([0-9]+)[^0-9]"  # the same in a file name, as a regular expression of Python and of Spark


def folders(path: str) -> dict[str, str]:
    """Return column -> value, as spelled, of the folders `column=value` above a file."""
    pairs = (part.partition("=") for part in path.split("/")[:-1])
    return {column: value for column, equals, value in pairs if equals}


# ---- of a load -------------------------------------------------------------------------------------------------------

ENDINGS = (".parquet", ".orc", ".json", ".json.gz")  # of files with rows; how they are written: ledger/formats.py
_SUFFIX = r"(?:(?:\.[a-z0-9]+)?\.(?:parquet|orc)|\.json(?:\.gz)?)"  # codec and ending
STAGED_BY = ("topic", "p", "date", "hour")  # folders of a staged file; p: the partition, of 0.7 broker-index
_STAGED = re.compile(
    r"topic=(?P<topic>[^/]+)/p=(?P<partition>[^/]+)/date=(?P<date>[^/]+)/hour=(?P<hour>\d\d)/"
    rf"part-(?P<task>\d+)-[^/]*?(?P<piece>\.c\d+)(?P<suffix>{_SUFFIX})"
)
_FINAL = re.compile(
    rf"{DATA}/topic=(?P<topic>[^/]+)/date=(?P<date>[^/]+)/hour=(?P<hour>\d\d)/"
    r"(?P=topic)\+(?P<partition>[0-9-]+)\+(?P<start>\d{20})\+(?P<until>\d{20})\.g(?P<batch>\d+)"
    r"\.(?:[^/]*\.)?(?:parquet|orc|json|json\.gz)"
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
        """Return its folder below the base."""
        return f"{DATA}/topic={self.topic}/date={self.date}/hour={self.hour}"

    @property
    def marker(self) -> str:
        """Return the path, below the base, of the file that marks the hour complete."""
        return f"{self.folder}/{CLOSED}"

    @property
    def begin_ms(self) -> int:
        """Return its begin in milliseconds since 1970."""
        return int(datetime.fromisoformat(f"{self.date}T{self.hour}:00:00+00:00").timestamp()) * 1000

    @property
    def end_ms(self) -> int:
        return self.begin_ms + HOUR_MS


def hour_at(topic: str, ms: int) -> Hour:
    """Return the hour of a topic that a time, in milliseconds since 1970, belongs to."""
    at = datetime.fromtimestamp(ms // 1000, UTC)
    return Hour(topic, f"{at:%Y-%m-%d}", f"{at:%H}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedName:
    """Parsed path of a staged file.  piece: .c000, counted where Spark cuts a file; suffix: codec and end."""

    hour: Hour
    partition: PartitionId
    task: int
    piece: str
    suffix: str

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.hour.topic, self.partition)

    @classmethod
    def of(cls, staged: str) -> Self | None:
        """Parse a path; None: not a data file of Spark, such as _SUCCESS."""
        found = _STAGED.fullmatch(staged)
        if found is None:
            return None
        hour = Hour(found["topic"], found["date"], found["hour"])
        return cls(
            hour=hour,
            partition=partition_of(found["partition"]),
            task=int(found["task"]),
            piece=found["piece"],
            suffix=found["suffix"],
        )

    def final(self, start: int, until: int, batch: int) -> str:
        """Return the final path of the part of a range [start, until) that is in this file."""
        name = f"{self.hour.topic}+{self.partition}+{start:020}+{until:020}{generation(batch)}"
        return f"{self.hour.folder}/{name}{self.piece}{self.suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalName:
    """Parsed path of a final file."""

    hour: Hour
    partition: PartitionId
    start: int
    until: int
    batch: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.hour.topic, self.partition)

    @classmethod
    def of(cls, final: str) -> Self | None:
        """Parse a path; None: not a file of a load."""
        found = _FINAL.fullmatch(final)
        if found is None or not _DATE.fullmatch(found["date"]):
            return None
        hour = Hour(found["topic"], found["date"], found["hour"])
        start, until, batch = int(found["start"]), int(found["until"]), int(found["batch"])
        return cls(hour=hour, partition=partition_of(found["partition"]), start=start, until=until, batch=batch)


def tail(path: str) -> str:
    """Return the end of a full path that tells the data files of a load apart: all of a staged path, a final one
    whole."""
    return "/".join(path.split("/")[-len(STAGED_BY) - 1 :])


# ---- of a stage ------------------------------------------------------------------------------------------------------

# part-00003-<uuid>-c000.snappy.parquet, or .c000 where rows go to folders
_STAGE_STAGED = re.compile(r"part-(?P<task>\d+)-[0-9a-f-]{36}[-.](?P<rest>c\d+[^/]*\.parquet)")


def stage_final(stage: str, batch: int, staged: str) -> str:
    """Return the final path of a file that a stage staged.  Raises Mismatch."""
    where, slash, name = staged.rpartition("/")
    found = _STAGE_STAGED.fullmatch(name)
    if found is None:
        raise Mismatch("is not a file of Spark's Parquet writer", stage=stage, file=staged)
    return f"{DATA}/{where}{slash}{stage}-{found['task']}{generation(batch)}.{found['rest']}"
