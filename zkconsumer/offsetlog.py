"""Offset log: the topic __consumer_offsets read as a log, the only way to find the groups of 0.8.2 (no ListGroups).

    log = read_offset_log([("broker1", 9092)])
    log.groups()                    every group that has offsets in Kafka
    log.offsets["billing"]          {TopicPartition: StoredOffset(offset, metadata, commit_ms, ...)}

The records of all partitions are read, up to the end that they had at the start, and the last one of each key counts; a
tombstone removes it.  Nothing is written, no coordinator is asked, and a missing topic is not created.  Offsets that a
broker would expire at its next check (each ten minutes) are still there.

What could not be read is in .missing, a sentence each: a result with one is partial.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.listoffsets import EARLIEST, LATEST, problems
from kafkawire.cluster.logreader import Gap, LogRange, LogReader
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.retry import Backoff, RetryPolicy
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.errors import CorruptMessage, LinkLost, RemoteError, WireError
from kafkawire.fetched import Came
from kafkawire.model import Broker, MessageSet, TopicPartition
from kafkawire.net.links import Links
from kafkawire.net.security import OPEN, Security
from kafkawire.protocol.offsetrecords import (
    OFFSETS_TOPIC,
    OffsetRecord,
    StateRecord,
    StoredGroup,
    StoredOffset,
    UnknownRecord,
    group_partition,
    read_record,
)
from zkconsumer.offsets.coordinator import CommittedRow
from zkconsumer.offsets.store import NONE
from zkconsumer.refusals import refusal

FETCH_BYTES = 1024 * 1024
TAIL_RECORDS = 20_000  # first, from the end; then four times as many, and so on
MAX_BYTES = 64 * 1024 * 1024  # for one record: a group's members are one
TIMEOUT_MS = 30_000
WAIT_MS = 100
PATIENCE_S = 10.0  # for the leader of a partition, within the time that all of it may take
CLIENT = "zkconsumer-offsetlog"


@dataclass(slots=True)
class OffsetLog:
    """The offsets of all groups, filled while the log is read."""

    offsets: dict[str, dict[TopicPartition, StoredOffset]] = field(default_factory=dict)
    coordinated: dict[str, StoredGroup] = field(
        default_factory=dict
    )  # groups of the new consumer protocol, from 0.9 on
    records: int = 0
    unknown: int = 0  # records that are not understood, such as those of later releases
    first_unknown: str = ""
    missing: list[str] = field(default_factory=list)

    def groups(self) -> list[str]:
        """Groups that have offsets, sorted."""
        return sorted(self.offsets)

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """One record, after those before it in its partition."""
        self.records += 1
        record = read_record(key, value)
        if isinstance(record, UnknownRecord):
            self.unknown += 1
            self.first_unknown = self.first_unknown or record.why
        elif isinstance(record, OffsetRecord):
            self._offset(record)
        elif isinstance(record, StateRecord):
            pass  # members and assignments, no offsets
        elif record.value is not None:
            self.coordinated[record.group] = record.value
        else:
            self.coordinated.pop(record.group, None)

    def _offset(self, record: OffsetRecord) -> None:
        tp = TopicPartition(record.topic, record.partition)
        if record.value is not None:
            self.offsets.setdefault(record.group, {})[tp] = record.value
            return
        held = self.offsets.get(record.group, {})
        held.pop(tp, None)
        if not held:
            self.offsets.pop(record.group, None)


def read_offset_log(
    addresses: Sequence[tuple[str, int]],
    release: str = "0.8.2",
    group: str | None = None,
    timeout_s: float = 60.0,
    progress: Callable[[int], object] = lambda records: None,
    now: Callable[[], float] = time.monotonic,
    security: Security = OPEN,
    sleep: Callable[[float], object] = time.sleep,
) -> OffsetLog:
    """Read all of it, or only the offsets of one group, which are in one partition.

    A partition whose leader moves is read on at the next one, for which PATIENCE_S is waited.
    addresses: brokers; one must answer.  progress(records so far) is called after each fetch.  Reading ends
    after timeout_s, with what was not read in .missing.  Raises LinkLost when no broker answers.
    """
    until = now() + timeout_s
    log = OffsetLog()
    patience_s = min(PATIENCE_S, timeout_s)
    with _opened(addresses, release, security, TIMEOUT_MS, patience_s, sleep=sleep, now=now) as (reader, view):
        numbers = [number for number in view.partitions(OFFSETS_TOPIC) if isinstance(number, int)]
        if OFFSETS_TOPIC in view.errors:
            log.missing.append(f"{OFFSETS_TOPIC}: the brokers answer error {view.errors[OFFSETS_TOPIC]} for the topic")
        if group is not None and numbers:
            numbers = [group_partition(group, len(numbers))]
        for tp, (first, end) in _bounds(reader, view, numbers, log.missing).items():
            reading = reader.range(tp, first, end)
            if first < end and now() < until:
                reader.patience_s = min(reader.patience_s, until - now())
                _read(reading, log, progress, lambda: now() >= until)
            if reading.offset < end and now() >= until:
                log.missing.append(f"{tp} from {reading.offset} on: there was no time left")
    if group is not None:
        log.offsets = {name: held for name, held in log.offsets.items() if name == group}
        log.coordinated = {name: held for name, held in log.coordinated.items() if name == group}
    return log


def last_commits(
    addresses: Sequence[tuple[str, int]],
    release: str,
    group: str,
    wanted: Collection[TopicPartition],
    timeout_s: float = 3.0,
    now: Callable[[], float] = time.monotonic,
    security: Security = OPEN,
) -> dict[TopicPartition, StoredOffset | None]:
    """The group's newest commits of these partitions.  None: there is none, or it was removed (expired, or deleted).

    The group's partition of __consumer_offsets is read from its end backwards, more records each time, until all are
    found or the time is over: what is left out was committed before, or never.  A running group commits all its
    partitions again and again, so the end of the log is mostly enough.  Raises LinkLost, LocalError, and RemoteError
    where the log cannot be read.
    """
    until = now() + timeout_s
    with _opened(addresses, release, security, int(timeout_s * 1000) + 1, patience_s=0, now=now) as (reader, view):
        numbers = [number for number in view.partitions(OFFSETS_TOPIC) if isinstance(number, int)]
        if OFFSETS_TOPIC in view.errors:
            raise RemoteError(f"{OFFSETS_TOPIC}: the brokers answer error {view.errors[OFFSETS_TOPIC]} for the topic")
        if not numbers:
            return dict.fromkeys(wanted)
        tp = TopicPartition(OFFSETS_TOPIC, group_partition(group, len(numbers)))
        if view.leader(tp) is None:
            raise RemoteError(f"{tp}: it has no leader")
        found: dict[TopicPartition, StoredOffset | None] = {}
        first, end, count = reader.begin(tp), reader.shown_end(tp), TAIL_RECORDS
        while first < end and wanted - found.keys():
            start = max(first, end - count)
            commits = _commits(reader.range(tp, start), end, group, lambda: now() >= until)
            if commits is None:
                return found
            found |= {each: row for each, row in commits.items() if each in wanted and each not in found}
            end, count = start, count * 4
    return dict.fromkeys(wanted) | found


def last_commit_times(
    addresses: Sequence[tuple[str, int]],
    release: str,
    group: str,
    wanted: Collection[TopicPartition],
    timeout_s: float = 3.0,
    security: Security = OPEN,
) -> dict[TopicPartition, int]:
    """When the group's offsets of these partitions were last committed, in ms since 1970, as far as last_commits finds
    them.  Raises as last_commits."""
    found = last_commits(addresses, release, group, wanted, timeout_s, security=security)
    return {tp: stored.commit_ms for tp, stored in found.items() if stored is not None}


def committed_rows(
    addresses: Sequence[tuple[str, int]],
    release: str,
    group: str,
    tps: Collection[TopicPartition],
    timeout_s: float,
    security: Security = OPEN,
) -> dict[TopicPartition, CommittedRow]:
    """Return what last_commits finds as rows of a store."""
    found = last_commits(addresses, release, group, tps, timeout_s, security=security)
    return {
        tp: CommittedRow(NONE) if row is None else CommittedRow(row.offset, row.metadata) for tp, row in found.items()
    }


def _commits(
    reading: LogRange, end: int, group: str, late: Callable[[], bool]
) -> dict[TopicPartition, StoredOffset | None] | None:
    """Return the last commit of each partition in the records up to end; None for a tombstone.

    Returns None as a whole if there was no time to read all records, since a later one may say something else.
    """
    found: dict[TopicPartition, StoredOffset | None] = {}
    if late():
        return None
    for got in reading:
        if isinstance(got, Gap):
            raise got.error
        for message in got.messages.messages():
            record = read_record(message.key, message.value) if message.offset < end else None
            if isinstance(record, OffsetRecord) and record.group == group:
                found[TopicPartition(record.topic, record.partition)] = record.value
        if reading.offset >= end:
            break
        if late():
            return None
        if not got.moves and got.came is not Came.UNANSWERED:
            break  # compacted away to the end
    return found


@contextmanager
def _opened(
    addresses: Sequence[tuple[str, int]],
    release: str,
    security: Security,
    timeout_ms: int,
    patience_s: float,
    *,
    sleep: Callable[[float], object] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[LogReader, ClusterView]]:
    """Open a reader, and read a view of all topics, so that none is created.  Raises LinkLost if no broker answers."""
    versions = ClusterVersions(release)
    links = Links(CLIENT, versions.connect(security.connect()), timeout_ms)
    try:
        links.meet([Broker(-1 - n, host, port) for n, (host, port) in enumerate(addresses)])
        client = KafkaClient.of_brokers(addresses, links, versions.dialect, sleep=sleep, now=now)
        reader = LogReader(
            client, purpose="offset log", fetch_bytes=FETCH_BYTES, max_fetch_bytes=MAX_BYTES, wait_ms=WAIT_MS,
            patience_s=patience_s, refusal=refusal, sleep=sleep, now=now,
        )  # fmt: skip
        try:
            view = client.view()
        except Unreachable as away:
            raise LinkLost(str(away)) from away
        yield reader, view
    finally:
        links.close()


def _bounds(
    reader: LogReader, view: ClusterView, numbers: Iterable[int], missing: list[str]
) -> dict[TopicPartition, tuple[int, int]]:
    """Return first offset and end of each log; put a sentence for each unknown one into `missing`."""
    tps = [TopicPartition(OFFSETS_TOPIC, number) for number in numbers]
    missing += [f"{tp}: it has no leader" for tp in tps if view.leader(tp) is None]
    led = [tp for tp in tps if view.leader(tp) is not None]
    election = RetryPolicy(retries=None, backoff=Backoff(0.1, 1.0), timeout_s=reader.patience_s)
    first, end = (reader.client.list_offsets(dict.fromkeys(led, time), retry=election) for time in (EARLIEST, LATEST))
    missing += problems({tp: said for found in (first, end) for tp, said in found.items() if said.error is not None})
    return {tp: (first[tp].known(), end[tp].known()) for tp in led if not (first[tp].error or end[tp].error)}


def _read(reading: LogRange, log: OffsetLog, progress: Callable[[int], object], late: Callable[[], bool]) -> None:
    """Read one partition until its end or until late(); put a sentence for what cannot be read into log.missing."""
    try:
        for got in reading:
            if isinstance(got, Gap):
                log.missing.append(f"{reading.tp} from {got.first} to {got.until - 1}: {got.why}")
            else:
                _take(reading.tp, got.messages, log)
            progress(log.records)
            if late():
                break
    except WireError as why:
        log.missing.append(f"{reading.tp} from {reading.offset} on: {why}")


def _take(tp: TopicPartition, got: MessageSet, log: OffsetLog) -> None:
    """Add the records of a set up to a damaged one, for which log.missing gets a sentence."""
    try:
        for message in got.messages():
            log.add(message.key, message.value)
    except CorruptMessage as damage:
        log.missing.append(f"{tp}, in the set from {got.start} to {got.resume_at}: {damage}")
