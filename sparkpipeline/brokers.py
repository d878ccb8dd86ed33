"""A cluster asked by plain blocking links: where partitions are, where their logs begin and end, what was at a time.

Used by the driver and by tasks; open it where it is used, it does not pickle.  One caller at a time (a task's
read-ahead thread has one of its own).  Metadata is asked for all topics, never by name: that would create them.

What may pass (no leader now, another one leads, a link broke) is asked again after fresh Metadata: at once, and then up
to access.retries times in all, after retry_interval_ms, twice that, and so on up to MOST_WAIT_S.  Then it is an error
of sparkpipeline.errors with topic, partition and broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.metadata import Unreachable as NobodyAnswers
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import BrokerError, LinkLost, RemoteError, WireError, error_info
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Link
from kafkawire.net.links import Links
from kafkawire.v08 import apis
from sparkpipeline.access import ClusterAccess
from sparkpipeline.errors import NoLeader, PipelineError, Refused, UnknownPartition, Unreachable
from sparkpipeline.protocol import resolve_release as resolve_release
from sparkpipeline.times import refined as refined
from zkconsumer.fetching.listoffsets import EARLIEST, LATEST, offset_rows

OFFSETS = "offsets"  # the purpose of our own links
PER_REQUEST = 2000  # partitions
MOST_WAIT_S = 10.0
UNSUPPORTED_FORMAT = 43  # a log in format v0 has no times to look up: ListOffsets v1 says so
BY_SEGMENT = dialect("0.10.0")  # speaks ListOffsets v0, which every broker up to 3.9 answers
_NOT_HERE = {3, 5, 6}

Times = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came of one partition's question: an offset (None: the log has none), or what was wrong with it."""

    broker: Broker | None
    offset: int | None = None
    error: WireError | None = None
    again: bool = False


class Brokers:
    """known: leaders that the planner found; believed until `afresh` is asked for."""

    def __init__(
        self,
        access: ClusterAccess,
        known: Mapping[TopicPartition, Broker] | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.access = access
        self.dialect: Dialect = dialect(access.release)
        self.links = Links(access.client_id, timeout_ms=access.socket_timeout_ms)
        self._metadata = MetadataSource(access.bootstrap, self.dialect, self.links)
        self._known = dict(known or {})
        self._view: ClusterView | None = None
        self._sleep = sleep

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
        for _ in self.attempts():
            view = self.view(refresh=True)
            for tp in wanted:
                self._known.pop(tp, None)
            missing = [tp for tp in wanted if view.leader(tp) is None]
            if not missing:
                return {tp: broker for tp in wanted if (broker := view.leader(tp)) is not None}
        raise self._leaderless(view, missing)

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
        at = self._ask(left, BY_SEGMENT)
        ends = self.latest(left)  # asked after the times: what was the end then may have moved since
        starts = self.earliest([tp for tp in left if at[tp] is None])
        for tp in left:
            start = at[tp]
            offset = starts[tp] if start is None else start
            found[tp] = offset if offset < ends[tp] else None
        return found

    def _exact(self, times: Times) -> tuple[dict[TopicPartition, int | None], dict[TopicPartition, int]]:
        """Answers by message, and the times of partitions whose logs have none in their messages."""
        answers = self._asked(times, self.dialect)
        old = {
            tp for tp, a in answers.items() if isinstance(a.error, BrokerError) and a.error.code == UNSUPPORTED_FORMAT
        }
        found = {tp: self._offset(tp, answer) for tp, answer in answers.items() if tp not in old}
        return found, {tp: at for tp, at in times.items() if tp in old}

    def _ends(self, tps: Iterable[TopicPartition], end: int) -> dict[TopicPartition, int]:
        found = {}
        for tp, offset in self._ask(dict.fromkeys(tps, end), self.dialect).items():
            if offset is None:
                raise PipelineError("the broker tells no offset for an end of the log", **_where(tp))
            found[tp] = offset
        return found

    def _ask(self, times: Times, spoken: Dialect) -> dict[TopicPartition, int | None]:
        return {tp: self._offset(tp, answer) for tp, answer in self._asked(times, spoken).items()}

    def _asked(self, times: Times, spoken: Dialect) -> dict[TopicPartition, _Answer]:
        """An answer for each partition, asked again where that may help."""
        answers: dict[TopicPartition, _Answer] = {}
        left = dict(times)
        for number in self.attempts() if left else ():
            answers |= self._once(left, self.leaders(left, afresh=number > 0), spoken)
            left = {tp: at for tp, at in left.items() if answers[tp].again}
            if not left:
                break
        return answers

    def _once(
        self, times: Times, leaders: Mapping[TopicPartition, Broker], spoken: Dialect
    ) -> dict[TopicPartition, _Answer]:
        """Every leader is sent its questions before the first answer is waited for."""
        led: dict[Broker, list[TopicPartition]] = {}
        for tp in times:
            led.setdefault(leaders[tp], []).append(tp)
        found: dict[TopicPartition, _Answer] = {}
        for first in range(0, max(map(len, led.values())), PER_REQUEST):
            parts = {broker: tps[first : first + PER_REQUEST] for broker, tps in led.items() if tps[first:]}
            found |= self._round(parts, times, spoken)
        return found

    def _round(
        self, parts: Mapping[Broker, list[TopicPartition]], times: Times, spoken: Dialect
    ) -> dict[TopicPartition, _Answer]:
        links = {broker: self.link(broker, OFFSETS) for broker in parts}
        try:
            for broker, tps in parts.items():
                with suppress(LinkLost):  # the link says so again when it is asked for the answer
                    links[broker].send(spoken.requests.list_offsets(spoken, {tp: times[tp] for tp in tps}))
            found: dict[TopicPartition, _Answer] = {}
            for broker, tps in parts.items():
                found |= _answers(broker, links[broker], tps)
            return found
        finally:
            for link in links.values():
                if link.outstanding:  # we were ended while we waited: the answer would be the next question's
                    link.close()

    def _offset(self, tp: TopicPartition, answer: _Answer) -> int | None:
        if answer.error is None:
            return answer.offset
        where = _where(tp) | {"broker": _address(answer.broker)}
        tried = f", also when asked {self.access.retries + 1} times" if answer.again else ""
        code = answer.error.code if isinstance(answer.error, BrokerError) else None
        if code == 3:
            raise UnknownPartition(f"the broker has no such partition{tried}", **where)
        if isinstance(answer.error, LinkLost) or code in _NOT_HERE:
            raise NoLeader(f"the leader does not answer for it{tried}: {answer.error}", **where)
        raise Refused(f"the broker does not tell offsets of it{tried}: {answer.error}", **where)

    # ---- asking again ----------------------------------------------------------------------------------------------

    def _look(self) -> ClusterView:
        for _ in self.attempts():
            try:
                return self._metadata.read(None)
            except NobodyAnswers as nobody:
                why = nobody
        raise Unreachable(f"{why}; is the list of brokers right, and protocol={self.access.release}?") from why

    def attempts(self) -> Iterator[int]:
        """How often something is tried: 0 at once, 1 at once after it, the others after longer and longer waits."""
        yield 0
        for number in range(1, self.access.retries + 1):
            if number > 1:
                self._sleep(min(self.access.retry_interval_ms / 1000 * 2 ** (number - 2), MOST_WAIT_S))
            yield number

    def _believed(self, tp: TopicPartition) -> Broker | None:
        known = self._known.get(tp)
        return known if known is not None or self._view is None else self._view.leader(tp)

    def _leaderless(self, view: ClusterView, missing: list[TopicPartition]) -> PipelineError:
        """Why the first of them has no leader."""
        tp = missing[0]
        more = f" (and {len(missing) - 1} more partitions)" if len(missing) > 1 else ""
        partition = view.topics.get(tp.topic, {}).get(tp.partition)
        if partition is None and view.errors.get(tp.topic) in (None, 3):
            known = view.partitions(tp.topic)
            has = f"the topic has partitions {known[0]} to {known[-1]}" if known else "the cluster has no such topic"
            return UnknownPartition(f"{has}{more}; nothing is created by asking", **_where(tp))
        if partition is not None and partition.leader is not None:
            return NoLeader(f"its leader, broker {partition.leader}, is not among the live brokers{more}", **_where(tp))
        replicas = f" (replicas on brokers {', '.join(map(str, partition.replicas))})" if partition is not None else ""
        tried = f"asked {self.access.retries + 1} times"
        return NoLeader(f"nobody leads it{replicas}{more}, {tried}; is a broker down?", **_where(tp))

    # ---- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close every link.  Brokers can be used on: links are opened anew."""
        self.links.close()

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _answers(broker: Broker, link: Link, tps: list[TopicPartition]) -> dict[TopicPartition, _Answer]:
    try:
        rows = offset_rows(link.receive().body)
    except LinkLost as lost:
        return dict.fromkeys(tps, _Answer(broker, error=lost, again=True))
    return {tp: _answer(broker, tp, rows.get(tp)) for tp in tps}


def _answer(broker: Broker, tp: TopicPartition, row: tuple[int, int | None] | None) -> _Answer:
    if row is None:
        return _Answer(broker, error=RemoteError(f"{tp} on {broker}: the answer leaves this partition out"))
    code, offset = row
    if code:
        return _Answer(broker, error=BrokerError(code, f"{tp} on {broker}"), again=error_info(code).retriable)
    return _Answer(broker, offset if offset is not None and offset >= 0 else None)


def _where(tp: TopicPartition) -> dict[str, object]:
    return {"topic": tp.topic, "partition": tp.partition}


def _address(broker: Broker | None) -> str | None:
    return None if broker is None else f"{broker.host}:{broker.port}"
