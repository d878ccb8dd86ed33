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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafkawire.cluster.metadata import MetadataSource, Unreachable
from kafkawire.cluster.retry import Backoff, RetryPolicy
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.errors import BrokerError, CorruptMessage, LinkLost, RemoteError, WireError
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
from zkconsumer.refusals import MessageTooLarge
from zkconsumer.simple import SimpleConsumer

FETCH_BYTES = 1024 * 1024
TAIL_RECORDS = 20_000  # first, from the end; then four times as many, and so on
MAX_BYTES = 64 * 1024 * 1024  # for one record: a group's members are one
LEADERS_AGAIN = RetryPolicy(retries=None, backoff=Backoff(0.1, 1.0), timeout_s=10.0)
CLIENT = "zkconsumer-offsetlog"


@dataclass(slots=True)
class _Span:
    """Part of a log that is still to be read."""

    at: int
    end: int


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

    A partition whose leader moves is read on at the next one (LEADERS_AGAIN).
    addresses: brokers; one must answer.  progress(records so far) is called after each fetch.  Reading ends
    after timeout_s, with what was not read in .missing.  Raises LinkLost when no broker answers.
    """
    until = now() + timeout_s
    log = OffsetLog()
    view = _cluster(addresses, release, security)
    numbers = [number for number in view.partitions(OFFSETS_TOPIC) if isinstance(number, int)]
    if OFFSETS_TOPIC in view.errors:
        log.missing.append(f"{OFFSETS_TOPIC}: the brokers answer error {view.errors[OFFSETS_TOPIC]} for the topic")
    if group is not None and numbers:
        numbers = [group_partition(group, len(numbers))]
    spans: dict[TopicPartition, _Span] = {}
    left: dict[TopicPartition, BrokerError | None] = {TopicPartition(OFFSETS_TOPIC, n): None for n in numbers}
    for attempt in LEADERS_AGAIN.attempts(sleep, now):
        if attempt.number > 1:
            view = _cluster(addresses, release, security)
        again: dict[TopicPartition, BrokerError] = {}
        for leader, tps in _led(view, left, log.missing).items():
            with SimpleConsumer(leader.host, leader.port, release, security=security) as consumer:
                try:
                    again |= _read(consumer, tps, spans, log, until, progress, now)
                except LinkLost as lost:
                    log.missing.append(f"{len(tps)} partitions of {OFFSETS_TOPIC} led by {leader}: {lost}")
        left = dict(again)
        if not left or attempt.last or now() >= until:
            break
    log.missing += [f"{tp}{f' from {spans[tp].at} on' if tp in spans else ''}: {why}" for tp, why in left.items()]
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
    view = _cluster(addresses, release, security)
    numbers = [number for number in view.partitions(OFFSETS_TOPIC) if isinstance(number, int)]
    if OFFSETS_TOPIC in view.errors:
        raise RemoteError(f"{OFFSETS_TOPIC}: the brokers answer error {view.errors[OFFSETS_TOPIC]} for the topic")
    if not numbers:
        return dict.fromkeys(wanted)
    tp = TopicPartition(OFFSETS_TOPIC, group_partition(group, len(numbers)))
    leader = view.leader(tp)
    if leader is None:
        raise RemoteError(f"{tp}: it has no leader")
    found: dict[TopicPartition, StoredOffset | None] = {}
    timeout_ms = int(timeout_s * 1000) + 1
    with SimpleConsumer(leader.host, leader.port, release, timeout_ms=timeout_ms, security=security) as consumer:
        first, end, count = consumer.earliest(tp), consumer.latest(tp), TAIL_RECORDS
        while first < end and wanted - found.keys():
            start = max(first, end - count)
            commits = _commits(consumer, tp, start, end, group, until, now)
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
    consumer: SimpleConsumer,
    tp: TopicPartition,
    start: int,
    end: int,
    group: str,
    until: float,
    now: Callable[[], float],
) -> dict[TopicPartition, StoredOffset | None] | None:
    """The last commit of each partition in the records start <= offset < end, None for a tombstone; None as a whole
    where there was no time to read all records, since a later one may say something else."""
    found: dict[TopicPartition, StoredOffset | None] = {}
    at, size = start, FETCH_BYTES
    while at < end:
        if now() >= until:
            return None
        got = consumer.fetch_many({tp: at}, size, max_wait_ms=0)[tp]
        if isinstance(got, MessageTooLarge) and size <= MAX_BYTES:
            size = max(size * 4, got.needed)
            continue
        if isinstance(got, WireError):
            raise got
        if _blank(got) and size < MAX_BYTES:
            size = min(MAX_BYTES, size * 4)
            continue
        before, size = at, FETCH_BYTES
        for message in got.messages():
            record = read_record(message.key, message.value) if message.offset < end else None
            if isinstance(record, OffsetRecord) and record.group == group:
                found[TopicPartition(record.topic, record.partition)] = record.value
        at = got.resume_at
        if at <= before:
            break  # compacted away to the end
    return found


def _cluster(addresses: Sequence[tuple[str, int]], release: str, security: Security) -> ClusterView:
    """The cluster: all topics are asked for, so that none is created.  Raises LinkLost when no broker answers."""
    versions = ClusterVersions(release)
    links = Links(CLIENT, versions.connect(security.connect()))
    try:
        links.meet([Broker(-1 - n, host, port) for n, (host, port) in enumerate(addresses)])
        return MetadataSource(addresses, versions.dialect, links).read(None)
    except Unreachable as away:
        raise LinkLost(str(away)) from away
    finally:
        links.close()


def _led(view: ClusterView, tps: Iterable[TopicPartition], missing: list[str]) -> dict[Broker, list[TopicPartition]]:
    led: dict[Broker, list[TopicPartition]] = {}
    for tp in tps:
        leader = view.leader(tp)
        if leader is None:
            missing.append(f"{tp}: it has no leader")
        else:
            led.setdefault(leader, []).append(tp)
    return led


def _read(
    consumer: SimpleConsumer,
    tps: Sequence[TopicPartition],
    spans: dict[TopicPartition, _Span],
    log: OffsetLog,
    until: float,
    progress: Callable[[int], object],
    now: Callable[[], float],
) -> dict[TopicPartition, BrokerError]:
    """Read the partitions that one broker leads, in common fetches; spans: how far, also of earlier calls.

    Returns those to be read on after another look for their leaders, with the reason.  Raises LinkLost.
    """
    again = _begin(consumer, [tp for tp in tps if tp not in spans], spans, log.missing)
    at = {tp: span for tp in tps if (span := spans.get(tp)) is not None and span.at < span.end}
    size = FETCH_BYTES
    while at and now() < until:
        found = consumer.fetch_many({tp: span.at for tp, span in at.items()}, size)
        size = _next_size(size, found)
        for tp, got in found.items():
            if isinstance(got, MessageSet):
                at[tp].at = _take(tp, got, log)
            elif isinstance(got, BrokerError) and got.passes:
                again[tp] = got
            elif not isinstance(got, MessageTooLarge) or size > MAX_BYTES:
                log.missing.append(f"{tp} from {at[tp].at} on: {got}")
                at[tp].at = at[tp].end
        at = {tp: span for tp, span in at.items() if span.at < span.end and tp not in again}
        progress(log.records)
    log.missing += [f"{tp} from {span.at} on: there was no time left" for tp, span in at.items()]
    return again


def _begin(
    consumer: SimpleConsumer, tps: Iterable[TopicPartition], spans: dict[TopicPartition, _Span], missing: list[str]
) -> dict[TopicPartition, BrokerError]:
    """Find first offset and end of each log.  Returns what has to be asked again, with the reason."""
    again: dict[TopicPartition, BrokerError] = {}
    for tp in tps:
        try:
            spans[tp] = _Span(consumer.earliest(tp), consumer.latest(tp))
        except LinkLost:
            raise
        except WireError as why:
            if isinstance(why, BrokerError) and why.passes:
                again[tp] = why
            else:
                missing.append(f"{tp}: {why}")
    return again


def _next_size(size: int, found: Mapping[TopicPartition, MessageSet | WireError]) -> int:
    """Bytes a partition of the next fetch: more where a record did not fit, and then the usual size again."""
    needed = [got.needed for got in found.values() if isinstance(got, MessageTooLarge)]
    if not needed and all(map(_blank, found.values())):
        return min(MAX_BYTES, size * 4)
    return max(size * 4, *needed) if needed else FETCH_BYTES


def _blank(got: MessageSet | WireError) -> bool:
    """Whether nothing came though the log goes on: asked as before 0.10.1, Kafka 3.x sends nothing of a batch that is
    larger than the fetch."""
    end = got.high_watermark if isinstance(got, MessageSet) else None
    return isinstance(got, MessageSet) and got.resume_at == got.start and end is not None and end > got.start


def _take(tp: TopicPartition, got: MessageSet, log: OffsetLog) -> int:
    """Add the records of a set; returns where to read on: after a damaged one, which is reported."""
    try:
        for message in got.messages():
            log.add(message.key, message.value)
    except CorruptMessage as damage:
        log.missing.append(f"{tp}, in the set from {got.start} to {got.resume_at}: {damage}")
    return got.resume_at
