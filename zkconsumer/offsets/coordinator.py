"""Committed offsets asked of brokers, in either store.  Plain blocking calls; knows no greenlet, no ZooKeeper client.

    zookeeper   OffsetCommit and OffsetFetch v0: any broker writes and reads the node /consumers/GROUP/offsets/TOPIC/N
    kafka       v1 and later: the group's coordinator, which GroupCoordinator names; any broker that answers is asked

Waiting is bounded, and what is told at its end says why (zkconsumer.offsets.asking).  A commit that is repeated after a
lost link writes the same position twice, which changes nothing.

How long Kafka keeps an offset:  the broker's offsets.retention from the commit on, unless retention_ms says more.  v2
(0.9) has a field for it; v1 (0.8.2) has only the time of the commit, so it is moved: now + retention_ms - the broker's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkawire.dialects import Dialect, Store
from kafkawire.errors import LinkLost, LocalError, RemoteError, WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol import apis
from kafkawire.protocol.request import Request
from zkconsumer.offsets.asking import Answer, Asking
from zkconsumer.offsets.store import NONE, Committed, Unknown
from zkconsumer.refusals import MetadataTooLong, Refused, refusal

NOTHING_IN_ZOOKEEPER = 3  # OffsetFetch v0 says "nothing committed" with the code of an unknown partition
METADATA_LIMIT = 4096  # offset.metadata.max.bytes of 0.8.2 and later, which counts Java's characters
BROKER_RETENTION_MS = 24 * 3600 * 1000  # offsets.retention.minutes of 0.8.2 to 1.1

Positions = Mapping[TopicPartition, tuple[int, str]]


@dataclass(frozen=True, slots=True)
class CommittedRow:
    """What a store holds for one partition; metadata is "" where there is none."""

    at: Committed
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group as its coordinator has it, from 0.9 on: members are those that coordinate through brokers.

    state: Stable, PreparingRebalance, AwaitingSync, Empty (0.10.1), Dead (also: never heard of)
    members: member id, client id, host
    """

    state: str
    protocol_type: str
    members: tuple[tuple[str, str, str], ...]


class Coordinator:
    """Commits and reads offsets of any group.  One caller at a time, unless `lock` is a lock.

    brokers      one, or a call that tells whom to ask now (the registry's, or bootstrap addresses)
    sleep, now   the waiting: groundwork.tasks's in the hub
    lock         held for the time of one question, never while waiting to ask again
    tell         a sentence when it begins to wait, and why
    check        called before each question: raises when nothing may be asked any more
    """

    def __init__(
        self,
        brokers: Broker | Callable[[], Sequence[Broker]],
        links: Links,
        dialect: Dialect,
        retries: int = 10,
        backoff_ms: int = 1000,
        timeout_ms: int = 30000,
        *,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
        lock: AbstractContextManager[Any] | None = None,
        tell: Callable[[str], object] = lambda sentence: None,
        check: Callable[[], object] = lambda: None,
        broker_retention_ms: int = BROKER_RETENTION_MS,
        metadata_limit: int = METADATA_LIMIT,
        clock_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        """broker_retention_ms: what the brokers' offsets.retention is, which 0.8.2 cannot be asked for; one that is
        really shorter makes an explicit retention shorter, too.  clock_ms: ms since the epoch."""
        whom = (lambda: [brokers]) if isinstance(brokers, Broker) else brokers
        self._asking = Asking(whom, links, dialect, retries, backoff_ms, timeout_ms, sleep, now, lock, tell, check)
        self._dialect = dialect
        self._broker_retention_ms = broker_retention_ms
        self._metadata_limit = metadata_limit
        self._clock_ms = clock_ms

    def find(self, group: str) -> Broker:
        """Who coordinates a group, asked anew.  Raises CoordinatorAway, LinkLost, LocalError (older than 0.8.2).

        The first such request a cluster ever gets creates the topic __consumer_offsets.
        """
        return self._asking.find(group)

    def describe(self, group: str) -> GroupState:
        """Its members of the new consumer protocol.  Raises as find, and LocalError before 0.9."""
        request = self._dialect.requests.describe_groups(self._dialect, [group])
        broker, reply = self._asking.ask_coordinator(group, request)
        (row,) = reply["groups"]
        if row["error"]:
            raise refusal(row["error"], broker, group=group)
        members = tuple((m["member_id"], m["client_id"], m["client_host"]) for m in row["members"])
        return GroupState(row["state"], row["protocol_type"], members)

    def commit(
        self,
        group: str,
        positions: Positions,
        store: Store,
        retention_ms: int | None = None,
        before_send: Callable[[], object] = lambda: None,
    ) -> dict[TopicPartition, WireError | None]:
        """Write (position, metadata) each.  Per partition None, or why it is not known to be written.

        retention_ms: how long Kafka is to keep the offset from now on; None leaves that to the broker.
        before_send is called just before each request goes out; what it raises ends the commit and goes to the caller.
        Raises LocalError when the release has no such store, for a position below 0, for a retention in ZooKeeper.
        """
        self._check(group, positions, store, retention_ms)
        return self._commit(group, positions, store, self._retention(retention_ms), before_send)

    def _commit(
        self, group: str, positions: Positions, store: Store, kept: _Retention, before_send: Callable[[], object]
    ) -> dict[TopicPartition, WireError | None]:
        too_long = self._too_long(group, positions) if store == "kafka" else {}  # brokers drop what is for ZooKeeper

        def request(left: Sequence[TopicPartition]) -> Request[Any]:
            before_send()
            rows = {tp: positions[tp] for tp in left}
            return self._dialect.requests.offset_commit(
                self._dialect, group, rows, store, retention_ms=kept.retention_ms, timestamp_ms=kept.timestamp_ms
            )

        answers = self._asking.ask(group, store, [tp for tp in positions if tp not in too_long], request)
        return {tp: too_long.get(tp) or _failure(group, tp, positions[tp][0], answers[tp]) for tp in positions}

    def forget(self, group: str, tps: Sequence[TopicPartition]) -> dict[TopicPartition, WireError | None]:
        """Let Kafka drop what is committed: it is committed once more, as old as can be.

        There is no request for it before 2.4.  The broker drops it at its next check, and until then the old position
        is read.  (It checks each offsets.retention.check.interval.ms; 0.8.2 each ten minutes, whatever that says.)
        Per partition None (also where nothing was committed), or why it may stay.  Raises as fetch.
        """
        held = self.fetch_rows(group, tps, "kafka")
        rows = {tp: (row.at, row.metadata) for tp, row in held.items() if isinstance(row.at, int)}
        has_retention = self._dialect.speaks(apis.OFFSET_COMMIT.key) >= 2
        oldest = _Retention(retention_ms=1) if has_retention else _Retention(timestamp_ms=1)
        results = self._commit(group, rows, "kafka", oldest, lambda: None)
        unread = {tp: RemoteError(row.at.reason) for tp, row in held.items() if isinstance(row.at, Unknown)}
        return {tp: unread.get(tp) or results.get(tp) for tp in tps}

    def fetch(self, group: str, tps: Sequence[TopicPartition], store: Store) -> dict[TopicPartition, Committed]:
        """Read what is committed.  Raises LinkLost or Refused when nobody could be asked, LocalError."""
        return {tp: row.at for tp, row in self.fetch_rows(group, tps, store).items()}

    def fetch_rows(self, group: str, tps: Sequence[TopicPartition], store: Store) -> dict[TopicPartition, CommittedRow]:
        """The same with the metadata."""
        self._dialect.speaks(apis.OFFSET_FETCH.key, store)
        requests = self._dialect.requests

        def request(left: Sequence[TopicPartition]) -> Request[Any]:
            return requests.offset_fetch(self._dialect, group, left, store)

        answers = self._asking.ask(group, store, tps, request)
        for answer in answers.values():
            error = answer.told()
            if isinstance(error, (LinkLost, Refused)):
                raise error
        return {tp: _committed(group, tp, store, answers[tp]) for tp in tps}

    def _check(self, group: str, positions: Positions, store: Store, retention_ms: int | None) -> None:
        self._dialect.speaks(apis.OFFSET_COMMIT.key, store)
        if retention_ms is not None and (store == "zookeeper" or retention_ms <= 0):
            raise LocalError(
                f"group {group}: a retention of {retention_ms} ms in {store} makes no sense: "
                "it is more than 0, and offsets in ZooKeeper never expire"
            )
        for tp, (at, _) in positions.items():
            if at < 0:
                raise LocalError(f"group {group}: {at} is no position to commit for {tp}")

    def _too_long(self, group: str, positions: Positions) -> dict[TopicPartition, WireError]:
        """Not sent at all, because 0.8.2.2 refuses such a commit and serves its position all the same."""
        most = self._metadata_limit
        sizes = {tp: len(text.encode("utf-16-le", "surrogatepass")) // 2 for tp, (_, text) in positions.items()}
        return {tp: MetadataTooLong(group, tp, positions[tp][0], n, most) for tp, n in sizes.items() if n > most}

    def _retention(self, wanted_ms: int | None) -> _Retention:
        if wanted_ms is None:
            return _Retention()
        if self._dialect.speaks(apis.OFFSET_COMMIT.key) >= 2:
            return _Retention(retention_ms=wanted_ms)
        return _Retention(timestamp_ms=self._clock_ms() + wanted_ms - self._broker_retention_ms)


class _Retention(NamedTuple):
    """How long Kafka keeps an offset, as OffsetCommit says it: v2 and later by a retention, v1 by a commit time.

    -1: the broker's own.
    """

    retention_ms: int = -1
    timestamp_ms: int = -1


def _failure(group: str, tp: TopicPartition, position: int, answer: Answer) -> WireError | None:
    if answer.row is None:
        return answer.told()
    code = answer.row["error"]
    return refusal(code, answer.broker, tp, position, group, answer.tried) if code else None


def _committed(group: str, tp: TopicPartition, store: Store, answer: Answer) -> CommittedRow:
    """NONE only where the broker says so; every other code, and every number that is none, is Unknown."""
    if answer.row is None:
        return CommittedRow(Unknown(str(answer.error)))
    code, offset, metadata = answer.row["error"], answer.row["offset"], answer.row["metadata"] or ""
    if code == 0 and offset >= 0:
        return CommittedRow(int(offset), metadata)
    if offset == -1 and code == (NOTHING_IN_ZOOKEEPER if store == "zookeeper" else 0):
        return CommittedRow(NONE)
    if code:
        return CommittedRow(Unknown(str(refusal(code, answer.broker, tp, group=group, tried=answer.tried))))
    return CommittedRow(
        Unknown(f"group {group}, {tp} on {answer.broker}: the committed offset is {offset}, no position")
    )
