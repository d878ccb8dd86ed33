"""A cluster asked by plain blocking links: where partitions are, where their logs begin and end, what was at a time.

Used by the driver and by tasks; open it where it is used, it does not pickle.  One caller at a time (a task's
read-ahead thread has one of its own).  Metadata is asked for all topics, never by name: that would create them.

What may pass is asked again after fresh Metadata: at once, and then up to access.retries times in all, after
retry_interval_ms, twice that, and so on up to MOST_WAIT_S.  A partition that has no leader, or one that does not answer
for it, is asked for until access.election_ms are over: so long a dead broker may go on being named.  Then it is an
error of sparkpipeline.errors with topic, partition and broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType

from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import Dialect, dialect
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from kafkawire.net.link import Link
from kafkawire.net.links import Links
from kafkawire.protocol import apis
from kafkawire.protocol.buffers import Buffers
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.listing import Times, asked, offset_of
from sparkpipeline.cluster.release import resolve_release as resolve_release
from sparkpipeline.cluster.times import refined as refined
from sparkpipeline.cluster.views import FromBrokers, FromDriver, ViewSource
from sparkpipeline.errors import NoLeader, PipelineError, UnknownPartition, Unreachable
from zkconsumer.fetching.listoffsets import EARLIEST, LATEST

MOST_WAIT_S = 10.0
LEAST_WAIT_S = 0.1  # beyond the retries, whatever their interval
UNSUPPORTED_FORMAT = 43  # a log in format v0 has no times to look up: ListOffsets v1 says so
BY_SEGMENT = dialect("0.10.0")  # speaks ListOffsets v0, which every broker up to 3.9 answers
_UNKNOWN = 3  # a topic's error in Metadata


class Brokers:
    """known: leaders that the planner found; believed until `afresh` is asked for.  buffers: as Links takes them.

    source: of views, where the brokers do not describe themselves and more than access says can be known.
    """

    def __init__(
        self,
        access: ClusterAccess,
        known: Mapping[TopicPartition, Broker] | None = None,
        sleep: Callable[[float], object] = time.sleep,
        buffers: Buffers | None = None,
        source: ViewSource | None = None,
    ) -> None:
        self.access = access
        self.dialect: Dialect = dialect(access.release)
        self.links = Links(access.client_id, timeout_ms=access.socket_timeout_ms, buffers=buffers)
        self._known = dict(known or {})
        self._source = source or self._source_of(access)
        self._view: ClusterView | None = None
        self._sleep = sleep

    def _source_of(self, access: ClusterAccess) -> ViewSource:
        if self.dialect.describes_itself:
            return FromBrokers(access, self.dialect, self.links)
        return FromDriver((*access.brokers, *self._known.values()))

    # ---- where ---------------------------------------------------------------------------------------------------

    def view(self, refresh: bool = False) -> ClusterView:
        """All topics with their partitions and leaders; cached.  Raises Unreachable, naming every broker tried."""
        if self._view is None or refresh:
            self._view = self._look()
        return self._view

    def leader(self, tp: TopicPartition, afresh: bool = False) -> Broker:
        """Who leads a partition; afresh: whoever was thought to lead it does not.

        Raises UnknownPartition, NoLeader or Unreachable after access.retries.
        """
        return self.leaders([tp], afresh)[tp]

    def leaders(self, tps: Iterable[TopicPartition], afresh: bool = False) -> dict[TopicPartition, Broker]:
        """The same for many, with one look at the cluster for all of them."""
        wanted = list(tps)
        if not afresh:
            found = {tp: broker for tp in wanted if (broker := self._believed(tp)) is not None}
            if len(found) == len(wanted):
                return found
        for number in self.attempts(self.access.election_ms / 1000):
            view = self.view(refresh=True)
            for tp in wanted:
                self._known.pop(tp, None)
            missing = [tp for tp in wanted if view.leader(tp) is None]
            if not missing:
                return {tp: broker for tp in wanted if (broker := view.leader(tp)) is not None}
            if number >= self.access.retries and any(_unknown(view, tp) for tp in missing):
                break
        raise _leaderless(view, missing, number + 1)

    def link(self, broker: Broker, purpose: str) -> Link:
        """The connection to a broker for a purpose ("fetch" ..); a new one once it broke."""
        return self.links.link(broker, purpose)

    # ---- offsets ---------------------------------------------------------------------------------------------------

    def earliest(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that each log still holds: one question a leader.  Raises as leader, and Refused."""
        return self._ends(tps, EARLIEST)

    def latest(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the next message to come in each log, as far as it is replicated."""
        return self._ends(tps, LATEST)

    def at_time(self, times: Times) -> dict[TopicPartition, int | None]:
        """Where to begin for messages of a time (ms since 1970) or later; None: the log has none so late.

        From 0.10.1 on the first message with that timestamp or a later one.  Before, and in logs of format v0, the
        beginning of the newest segment file last written at or before that time: it and what follows it also hold
        messages that are older (refined() skips those that say so).  Where no file is so old, the log's beginning.
        """
        by_message = self.dialect.speaks(apis.LIST_OFFSETS.key) >= 1
        found, left = self._exact(times) if by_message else ({}, dict(times))
        if not left:
            return found
        at = self._ask(left, BY_SEGMENT if by_message else self.dialect)
        ends = self.latest(left)  # asked after the times: what was the end then may have moved since
        starts = self.earliest([tp for tp in left if at[tp] is None])
        for tp in left:
            start = at[tp]
            offset = starts[tp] if start is None else start
            found[tp] = offset if offset < ends[tp] else None
        return found

    def _exact(self, times: Times) -> tuple[dict[TopicPartition, int | None], dict[TopicPartition, int]]:
        """Answers by message, and the times of partitions whose logs have none in their messages."""
        answers = asked(self, times, self.dialect)
        old = {tp for tp, answer in answers.items() if answer.code == UNSUPPORTED_FORMAT}
        found = {tp: offset_of(tp, answer) for tp, answer in answers.items() if tp not in old}
        return found, {tp: at for tp, at in times.items() if tp in old}

    def _ends(self, tps: Iterable[TopicPartition], end: int) -> dict[TopicPartition, int]:
        found = {}
        for tp, offset in self._ask(dict.fromkeys(tps, end), self.dialect).items():
            if offset is None:
                raise PipelineError(
                    "the broker tells no offset for an end of the log", topic=tp.topic, partition=tp.partition
                )
            found[tp] = offset
        return found

    def _ask(self, times: Times, spoken: Dialect) -> dict[TopicPartition, int | None]:
        return {tp: offset_of(tp, answer) for tp, answer in asked(self, times, spoken).items()}

    # ---- asking again ----------------------------------------------------------------------------------------------

    def _look(self) -> ClusterView:
        """A cluster that was there before is waited for like a leader; one that never was may be a wrong address."""
        for _ in self.attempts(self.access.election_ms / 1000 if self._view is not None else 0):
            try:
                return self._source.read()
            except Unreachable as nobody:
                why = nobody
        raise why

    def attempts(self, seconds: float = 0) -> Iterator[int]:
        """The numbers of the tries: 0 at once, 1 at once after it, the others after longer and longer waits.

        So many as access.retries says, and more while the seconds are not over.
        """
        yield 0
        began, waited, number = time.monotonic(), 0.0, 1
        while number <= self.access.retries or max(waited, time.monotonic() - began) < seconds:
            if number > 1:
                pause = min(self.access.retry_interval_ms / 1000 * 2 ** (number - 2), MOST_WAIT_S)
                pause = pause if number <= self.access.retries else max(pause, LEAST_WAIT_S)
                self._sleep(pause)
                waited += pause
            yield number
            number += 1

    def _believed(self, tp: TopicPartition) -> Broker | None:
        known = self._known.get(tp)
        return known if known is not None or self._view is None else self._view.leader(tp)

    # ---- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close every link.  Brokers can be used on: links are opened anew."""
        self.links.close()

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _unknown(view: ClusterView, tp: TopicPartition) -> bool:
    """Whether there is none, as opposed to one without a leader.  Of a broker that is away nobody knows its own."""
    if isinstance(tp.partition, BrokerPartition) and tp.partition.broker not in view.brokers:
        return False
    return tp.partition not in view.topics.get(tp.topic, {}) and view.errors.get(tp.topic) in (None, _UNKNOWN)


def _leaderless(view: ClusterView, missing: list[TopicPartition], tries: int) -> PipelineError:
    """Why the first of them has no leader; one that does not exist is told before one that waits."""
    tp = next((tp for tp in missing if _unknown(view, tp)), missing[0])
    where = {"topic": tp.topic, "partition": tp.partition}
    more = f" (and {len(missing) - 1} more partitions)" if len(missing) > 1 else ""
    if _unknown(view, tp):
        known = view.partitions(tp.topic)
        has = f"the topic has partitions {known[0]} to {known[-1]}" if known else "the cluster has no such topic"
        return UnknownPartition(f"{has}{more}; nothing is created by asking", **where)
    if isinstance(tp.partition, BrokerPartition):
        return NoLeader(f"nobody knows of its broker, {tp.partition.broker}, now{more}: is it down?", **where)
    partition = view.topics.get(tp.topic, {}).get(tp.partition)
    if partition is not None and partition.leader is not None:
        return NoLeader(f"its leader, broker {partition.leader}, is not among the live brokers{more}", **where)
    known_replicas = partition.replicas if partition is not None else ()  # 0.8 leaves out those that are down
    replicas = f" (replicas on brokers {', '.join(map(str, known_replicas))})" if known_replicas else ""
    return NoLeader(f"nobody leads it{replicas}{more}, asked {tries} times; is a broker down?", **where)
