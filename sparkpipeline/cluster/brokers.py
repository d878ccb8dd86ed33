"""Client of a cluster over plain blocking links: leaders of partitions, begins and ends of logs, offsets by time.

Used by the driver and by tasks; open it where it is used, it does not pickle.  One caller at a time.  Metadata is
requested for all topics, never by name, which could create them.

It is a kafkawire.cluster.client.KafkaClient with the retries of a ClusterAccess, whose failures are errors of
sparkpipeline.errors with topic, partition and broker: one unavailable partition ends a query.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from kafkawire.cluster import recordbatches
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.leaders import LeaderSource, ListedLeaders, MetadataLeaders, NoLeader
from kafkawire.cluster.listoffsets import DEBUGGING, EARLIEST, LATEST, LogOffset, Times
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.metadata import Unreachable as NobodyResponds
from kafkawire.cluster.release import asked_ranges
from kafkawire.cluster.retry import Attempt
from kafkawire.cluster.view import ClusterView, view_of
from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import Follows, LinkLost, RemoteError
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from kafkawire.net.link import Link
from kafkawire.protocol import adminapis, apis
from kafkawire.protocol.adminrequests import TopicOutcome, describe_topics
from kafkawire.protocol.buffers import Buffers
from kafkawire.protocol.request import CONSUMER, FetchedPartition, Request
from sparkpipeline import errors
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import CorruptData, OffsetOutOfRange, PipelineError, Refused
from zkconsumer.refusals import OffsetOutOfRange as Gone
from zkconsumer.refusals import refusal

UNSUPPORTED_FORMAT = 43  # a log in format v0 has no timestamps to look up; ListOffsets v1 answers with this code
BY_SEGMENT = dialect("0.10.0")  # uses ListOffsets v0, which every broker up to 3.9 supports
SETTINGS = "settings"  # purpose of links that request settings of topics, and the content of logs
RELEASE = "release"  # purpose of links that ask for a broker's versions
BATCH_BYTES = 16384  # the first batch is returned whole anyway
CLEANUP_POLICY = "cleanup.policy"
SEARCH = "bytes"  # purpose of links that fetch bytes
_UNKNOWN = 3  # a broker's code: unknown topic or partition


class Brokers:
    """known     leaders that the planner found; used until a refresh is requested
    leaders   source of leaders, if the brokers do not describe themselves and access does not have all
    buffers   as Links takes them
    """

    def __init__(
        self,
        access: ClusterAccess,
        known: Mapping[TopicPartition, Broker] | None = None,
        *,
        leaders: LeaderSource | None = None,
        buffers: Buffers | None = None,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.access = access
        self.dialect: Dialect = access.spoken
        self.links = access.links(buffers)
        self._sleep, self._now = sleep, now
        self._has_batches: dict[Broker, bool] = {}  # whether a broker supports recordbatches.VERSION
        self._metadata = MetadataSource(access.bootstrap, self.dialect, self.links)
        known = known or {}
        self._client = KafkaClient(
            leaders or self._leader_source(known.values()),
            self.links,
            self.dialect,
            retry=access.retry,
            view=view_of({one.id: one for one in known.values()}, {tp: one.id for tp, one in known.items()})
            if known
            else None,
            sleep=sleep,
            now=now,
        )

    def _leader_source(self, known: Iterable[Broker]) -> LeaderSource:
        if self.dialect.describes_itself:
            return MetadataLeaders(self._metadata)
        return ListedLeaders((*self.access.brokers, *known))

    # ---- leaders -----------------------------------------------------------------------------------------------------

    def view(self, refresh: bool = False) -> ClusterView:
        """Return all topics with their partitions and leaders; cached.  Raises Unreachable, naming every broker
        tried."""
        with self._translated():
            return self._client.view(refresh=refresh)

    def leader(self, tp: TopicPartition, refresh: bool = False) -> Broker:
        """Return the leader of a partition. refresh: the presumed leader was wrong.

        Raises UnknownPartition, NoLeader or Unreachable after the retries.
        """
        return self.leaders([tp], refresh)[tp]

    def leaders(self, tps: Iterable[TopicPartition], refresh: bool = False) -> dict[TopicPartition, Broker]:
        """Return the leaders of partitions, with one refresh for all of them."""
        if refresh:
            self._metadata.turn()  # the last broker's answer did not help
        with self._translated():
            found = self._client.leaders(tps, refresh=refresh)
        missing = {tp: leader for tp, leader in found.items() if isinstance(leader, NoLeader)}
        if missing:
            raise self._leaderless(missing)
        return {tp: leader for tp, leader in found.items() if not isinstance(leader, NoLeader)}

    def link(self, broker: Broker, purpose: str) -> Link:
        """Return the kept connection to a broker for a purpose ("fetch" ..); a new one once it broke."""
        return self.links.link(broker, purpose)

    def attempts(self) -> Iterator[Attempt]:
        """Yield the tries of a request, with the waits of access.retry between them."""
        return self.access.retry.attempts(self._sleep, self._now)

    def cleanup_policy(self, topic: str, broker: Broker) -> str | None:
        """Return the cleanup.policy of a topic, its own or the brokers' default, from this broker.

        "": the broker does not allow this user to read it; None: a release before 0.11, which does not return settings.
        Raises LinkLost.
        """
        if adminapis.DESCRIBE_CONFIGS.key not in self.dialect.versions:
            return None
        told = self.links.call(broker, SETTINGS, describe_topics(self.dialect, [topic])).get(topic)
        if told is None or isinstance(told, TopicOutcome) or CLEANUP_POLICY not in told:
            return ""
        return str(told[CLEANUP_POLICY].value)

    def log_at(self, tp: TopicPartition, at: int, broker: Broker) -> recordbatches.LogBatches | None:
        """Return the record batches of a broker's log at an offset, in the log's own format; None for a release before
        0.11, which has none.  Raises LinkLost, CorruptData."""
        if not self.dialect.describes_itself:
            return None
        if broker not in self._has_batches:
            lowest, highest = asked_ranges(lambda request: self._asked_once(broker, request)).get(
                recordbatches.FETCH.key, (0, -1)
            )
            self._has_batches[broker] = lowest <= recordbatches.VERSION <= highest
        if not self._has_batches[broker]:
            return None
        request = recordbatches.ask([(tp, at, BATCH_BYTES)], self.access.committed)
        rows = self.links.call(broker, SETTINGS, request)
        try:
            return recordbatches.held(rows).get(tp)
        except RemoteError as damage:
            raise CorruptData(str(damage), **_where(tp, at)) from damage

    def _asked_once(self, broker: Broker, request: Request[Any]) -> Any:
        """Send a request on a separate connection, because an old broker may close it."""
        try:
            return self.links.call(broker, RELEASE, request)
        finally:
            self.links.drop(broker, RELEASE)

    # ---- offsets -----------------------------------------------------------------------------------------------------

    def earliest(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each log, with one request per leader.  Raises the exceptions of leader, and
        Refused."""
        return self._ends(tps, EARLIEST)

    def latest(
        self, tps: Iterable[TopicPartition], reached: Mapping[TopicPartition, int] | None = None
    ) -> dict[TopicPartition, int]:
        """Return the high watermark of each log; with access.committed, if brokers have transactions, the last stable
        offset: the first one of an open transaction.

        reached: offsets up to which logs were read; a smaller end is requested again (KafkaClient.list_ends).
        """
        at_least = {tp: (reached or {}).get(tp, 0) for tp in tps}
        with self._translated():
            found = self._client.list_ends(at_least, committed=self.access.committed)
        return self._known(found)

    def log_ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log end of each log, including messages that are not replicated yet."""
        return self._ends(tps, LATEST, DEBUGGING)

    def at_time(self, times: Times) -> dict[TopicPartition, int | None]:
        """Return where to begin for messages of a time (ms since 1970) or later; None: the log has no such message.

        In 0.10.1 and later this is the first message with that timestamp or a later one.  Before, and in logs of format
        v0, it is the beginning of the newest segment file last written at or before that time, which also has older
        messages; if no file is that old, the log's beginning.
        """
        by_message = self.dialect.speaks(apis.LIST_OFFSETS.key) >= 1
        found, left = self._by_message(times) if by_message else ({}, dict(times))
        if not left:
            return found
        at = self._offsets(self._asked(left, BY_SEGMENT if by_message else None))
        ends = self.latest(left)  # requested after the times, since the end may have moved since
        starts = self.earliest([tp for tp in left if at[tp] is None])
        for tp in left:
            start = at[tp]
            offset = starts[tp] if start is None else start
            found[tp] = offset if offset < ends[tp] else None
        return found

    def _by_message(self, times: Times) -> tuple[dict[TopicPartition, int | None], dict[TopicPartition, int]]:
        """Return the answers by message, and the times of partitions whose messages have no timestamps."""
        found = self._asked(times)
        old = {tp for tp, said in found.items() if said.code == UNSUPPORTED_FORMAT}
        told = self._offsets({tp: said for tp, said in found.items() if tp not in old})
        return told, {tp: at for tp, at in times.items() if tp in old}

    def _ends(self, tps: Iterable[TopicPartition], end: int, replica_id: int = CONSUMER) -> dict[TopicPartition, int]:
        return self._known(self._asked(dict.fromkeys(tps, end), replica_id=replica_id))

    def _known(self, said: Mapping[TopicPartition, LogOffset]) -> dict[TopicPartition, int]:
        found = {}
        for tp, offset in self._offsets(said).items():
            if offset is None:
                raise PipelineError(
                    "the broker does not say where the log ends", topic=tp.topic, partition=tp.partition
                )
            found[tp] = offset
        return found

    def _asked(
        self, times: Times, spoken: Dialect | None = None, replica_id: int = CONSUMER
    ) -> dict[TopicPartition, LogOffset]:
        with self._translated():
            return self._client.list_offsets(
                times, dialect=spoken, replica_id=replica_id, committed=self.access.committed
            )

    def _offsets(self, found: Mapping[TopicPartition, LogOffset]) -> dict[TopicPartition, int | None]:
        """Return the offsets.  Raises UnknownPartition, NoLeader, Unreachable, Refused."""
        missing = {tp: said.error for tp, said in found.items() if isinstance(said.error, NoLeader)}
        if missing:
            raise self._leaderless(missing)
        return {tp: self._offset(tp, said) for tp, said in found.items()}

    def _offset(self, tp: TopicPartition, said: LogOffset) -> int | None:
        if said.error is None:
            return said.offset
        if isinstance(said.error, NobodyResponds):
            raise self._unreachable(said.error)
        where = _where(tp) | {"broker": None if said.broker is None else f"{said.broker.host}:{said.broker.port}"}
        tried = f", after {said.tries} tries" if said.retriable else ""
        if said.code == _UNKNOWN:
            raise errors.UnknownPartition(f"the broker does not have the partition{tried}", **where)
        if said.moved:
            raise errors.NoLeader(f"the leader does not answer for it{tried}: {said.error}", **where)
        raise Refused(f"the broker refuses its offsets{tried}: {said.error}", **where)

    # ---- bytes -------------------------------------------------------------------------------------------------------

    def fetch(self, tp: TopicPartition, at: int, size: int) -> FetchedPartition:
        """Fetch at most `size` bytes once, and retry with another leader if that may help.

        For bytes that need not begin an entry; messages are read with sparkpipeline.reading.  Raises OffsetOutOfRange,
        Refused, NoLeader, and the exceptions of leader."""
        d = self.dialect
        refresh, why = False, ""
        for _ in self.attempts():
            broker = self.leader(tp, refresh)
            try:
                row: FetchedPartition
                request = d.requests.fetch(d, 0, 0, [(tp, at, size)], committed=self.access.committed)
                (row,) = self.links.call(broker, SEARCH, request)
            except LinkLost as lost:
                refresh, why = True, str(lost)
                continue
            if row.error == 0:
                return row
            refused = refusal(row.error, broker, tp, at)
            if isinstance(refused, Gone):
                raise OffsetOutOfRange(str(refused), **_where(tp, at), broker=f"{broker.host}:{broker.port}")
            if not refused.passes:
                raise Refused(str(refused), **_where(tp, at))
            refresh, why = refused.info.follows is not Follows.WAIT, str(refused)
        raise errors.NoLeader(f"its leader does not answer: {why}", **_where(tp, at))

    # ---- what goes wrong ---------------------------------------------------------------------------------------------

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except NobodyResponds as failed:
            raise self._unreachable(failed) from failed

    def _unreachable(self, failed: NobodyResponds) -> PipelineError:
        if isinstance(failed.__cause__, PipelineError):  # ZooKeeper's error, which is complete
            return failed.__cause__
        return errors.Unreachable(f"{failed}; is the list of brokers right, and protocol={self.access.release}?")

    def _leaderless(self, missing: Mapping[TopicPartition, NoLeader]) -> PipelineError:
        return leaderless(self.view(), list(missing), max(leader.tries for leader in missing.values()))

    def close(self) -> None:
        """Close every link.  The object can still be used: links are opened again."""
        self.links.close()

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def is_unknown(view: ClusterView, tp: TopicPartition) -> bool:
    """True if the partition does not exist, as opposed to one without a leader.  Partitions of a broker that is down
    are unknown."""
    if isinstance(tp.partition, BrokerPartition) and tp.partition.broker not in view.brokers:
        return False
    return tp.partition not in view.topics.get(tp.topic, {}) and view.errors.get(tp.topic) in (None, _UNKNOWN)


def leaderless(view: ClusterView, missing: list[TopicPartition], tries: int) -> PipelineError:
    """Return the error for the first partition without a leader; one that does not exist comes before one that may get
    a leader."""
    tp = next((tp for tp in missing if is_unknown(view, tp)), missing[0])
    where = _where(tp)
    more = f" (and {len(missing) - 1} more partitions)" if len(missing) > 1 else ""
    if is_unknown(view, tp):
        known = view.partitions(tp.topic)
        has = f"the topic has partitions {known[0]} to {known[-1]}" if known else "the cluster has no such topic"
        return errors.UnknownPartition(f"{has}{more}; reading does not create it", **where)
    if isinstance(tp.partition, BrokerPartition):
        return errors.NoLeader(f"its broker, {tp.partition.broker}, is not registered{more}: is it down?", **where)
    partition = view.topics.get(tp.topic, {}).get(tp.partition)
    if partition is not None and partition.leader is not None:
        return errors.NoLeader(f"its leader, broker {partition.leader}, is not among the live brokers{more}", **where)
    known_replicas = partition.replicas if partition is not None else ()  # 0.8 leaves out replicas that are down
    replicas = f" (replicas on brokers {', '.join(map(str, known_replicas))})" if known_replicas else ""
    return errors.NoLeader(f"it has no leader{replicas}{more}, asked {tries} times; is a broker down?", **where)


def _where(tp: TopicPartition, at: int | None = None) -> dict[str, object]:
    return {"topic": tp.topic, "partition": tp.partition, "offset": at}
