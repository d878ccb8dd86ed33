"""Sender of one task's rows and encoded entries to their target partitions, over plain blocking links.

    send        rows of one partition, encoded here
    send_part   entries as they are (a backfill's)
    flush       until everything is acknowledged

At least once: a batch of unknown outcome is sent again.  In order: per partition, across retries.  producer.outcomes
decides about each response, as in the mirror.  Requests go out when enough has gathered, one to a broker at a time, and
their answers are taken in before the next ones go: so the caller's own work and the brokers' overlap, and at most
queue.buffering.max.bytes and one part more are in memory.

Metadata is requested for all topics, never by name, which could create a topic.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from groundwork.failpoints import failpoint
from kafkawire.cluster.retry import Backoff, RefreshPace
from kafkawire.cluster.view import ClusterView
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, Part, PartitionId, TopicPartition
from kafkawire.net.link import Link
from kafkawire.protocol.request import ProducedPartition
from producer.batches import Batch, Batches
from producer.config import ProducerConfig
from producer.errors import RecordRefused, TooLarge
from producer.outcomes import Outcomes
from producer.rows import Row, limit_of, parts
from producer.verdicts import UNANSWERED, unknown_outcome
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import NotDelivered, OptionRefused, PipelineError, UnknownPartition, Unreachable

log = logging.getLogger(__name__)

ROUND_BYTES = 1 << 20  # enough for a round of requests
LEAST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 1.0  # while nothing can be done
FOR_EVER = 1 << 30
MAX_REFRESH_WAIT_S = 1.0  # between two refreshes of leaders: an election takes a few of them
QUIET_S = 3.0  # after this time without a refresh, the next one is made at once


class Watch(Protocol):
    """Observer that sees each response before it is handled, and may stop everything by raising, so that nothing is
    repeated."""

    def answered(self, batch: Batch, answer: ProducedPartition) -> None: ...

    def lost(self, batch: Batch, reason: LinkLost) -> None: ...


@dataclass(eq=False, slots=True)
class _Flight:
    link: Link
    batches: list[Batch]


class TaskSender:
    """access: the target.  config: acks -1 or 1; negative retries mean until delivery.timeout.ms, as it bounds all.

    tell gets one sentence each time the state of a partition or connection changes; called: what errors call the
    numbers of rows.  One thread uses it; it is not pickled: make it where the task runs.  After an exception of `watch`
    only close() is left.  Raises OptionRefused for acks 0, which brokers do not answer.
    """

    def __init__(
        self,
        access: ClusterAccess,
        config: ProducerConfig,
        *,
        tell: Callable[[str], object] = log.warning,
        watch: Watch | None = None,
        called: str = "row",
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if config.acks == 0:
            raise OptionRefused(
                "0 requests no response, which at least once needs: give -1 (all in-sync replicas) or 1 (the leader)",
                option="kafka.acks",
            )
        self.stored: Counter[TopicPartition] = Counter()  # rows (of parts: their count) that were acknowledged
        self.may_repeat = 0  # rows that were sent again after an unknown outcome
        self.called = called
        self.failure: NotDelivered | None = None  # the first; nothing is sent after it
        self._dialect = access.spoken
        self._config = config
        self._tell, self._watch, self._now, self._sleep = tell, watch, now, sleep
        self._links = access.links(timeout_ms=config.response_timeout_ms)
        config = replace(config, linger_ms=0, retries=config.retries if config.retries >= 0 else FOR_EVER)
        self._batches = Batches(config.limits(self._dialect))
        self._outcomes = Outcomes(
            self._batches, config.patience, self._dialect.messages, lambda level, sentence: self._event(sentence)
        )
        self._leaders = Leaders(access, config, self._outcomes, tell=self._event, now=now, sleep=sleep)
        self._flights: dict[int, _Flight] = {}  # by broker id
        self._connect_at: dict[int, float] = {}
        self._last_event = ""
        self._rng = random.Random()

    def partitions(self, topic: str) -> list[PartitionId]:
        """Return all partitions of a topic, in order.  Raises UnknownPartition when it does not come within
        topic.wait.ms."""
        return self._leaders.known(topic).partitions(topic)

    def led(self, topic: str) -> list[PartitionId]:
        """Return the partitions that have a leader now."""
        view = self._leaders.known(topic)
        return [p for p in view.partitions(topic) if view.leader(TopicPartition(topic, p)) is not None]

    def send(
        self,
        tp: TopicPartition,
        rows: Sequence[Row],
        numbers: Sequence[int],
        headers: Sequence[bytes | None] | None = None,
    ) -> None:
        """Queue rows after all others of their partition; numbers: of the rows, for errors.

        headers: their blocks (kafkawire.headers), where any has some.  Waits while too much is in flight.  Raises
        NotDelivered.
        """
        codec = self._config.codec_of(tp.topic)
        limit = limit_of(self._dialect, codec, self._config.batch_bytes, self._config.message_max_bytes)
        at = 0
        for part in parts(tp, rows, self._dialect, codec, limit, headers=headers):
            # Entries are numbered from 0 in each part: what a part has reached tells which of its rows are stored.
            self._add(replace(part, resume_at=part.count), numbers[at : at + part.count])
            at += part.count

    def send_part(self, part: Part) -> None:
        """Queue encoded entries, whose resume_at is a source offset.  Waits and raises like send()."""
        self._add(part, None)

    def flush(self) -> None:
        """Wait until everything is acknowledged.  Raises NotDelivered."""
        while self._batches:
            self._turn(wait=True)
        self._check()

    def close(self) -> None:
        """Close all connections; messages not acknowledged may or may not be stored."""
        self._links.close()
        self._leaders.close()

    @property
    def bytes_pending(self) -> int:
        """Return the bytes of entries not yet acknowledged."""
        return self._batches.bytes_pending

    def _add(self, part: Part, numbers: Sequence[int] | None) -> None:
        self._check()
        self._batches.add(part, SentPart(self, part, numbers), self._now())
        if self._batches.bytes_pending - self._batches.bytes_in_flight >= ROUND_BYTES:
            self._turn(wait=False)
        while self._batches.bytes_pending >= self._config.queue_bytes:
            self._turn(wait=True)

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure

    # one turn: answers in, requests out

    def _turn(self, wait: bool) -> None:
        """Receive the responses to the last requests, then send due batches; wait: for something to become due."""
        for broker_id in list(self._flights):
            self._receive(broker_id)
        self._check()
        self._too_old()
        self._check()
        self._leaders.refresh_if_due()
        self._check()
        sent = self._send_due()
        if wait and not sent and not self._flights and self._batches:
            self._sleep(self._pause())

    def _receive(self, broker_id: int) -> None:
        flight = self._flights.pop(broker_id)
        try:
            body: Mapping[TopicPartition, ProducedPartition] = flight.link.receive().body
        except LinkLost as lost:
            self._lost(flight, lost)
            return
        for batch in flight.batches:
            answer = body.get(batch.tp, UNANSWERED)
            if self._watch is not None:
                self._watch.answered(batch, answer)
            if unknown_outcome(answer):
                self.may_repeat += batch.count
            if self._outcomes.answered(batch, answer, flight.link.broker, self._now()):
                self._leaders.request_refresh()

    def _send_due(self) -> bool:
        """Send one request to each broker with due batches and no request in flight."""
        view = self._leaders.view
        if view is None:
            return False
        sent = False
        for broker_id, broker in view.brokers.items():
            leads = partial(_leads, view, broker)
            if broker_id in self._flights or not self._batches.is_due(self._now(), leads):
                continue
            link = self._open(broker)
            due = self._batches.due(self._now(), leads) if link is not None else []
            if link is not None and due:
                self._send(link, due)
                sent = True
        return sent

    def _send(self, link: Link, due: list[Batch]) -> None:
        sets = {batch.tp: batch.buffers() for batch in due}
        magic = max(batch.magic for batch in due)  # a request has sets of one family of formats
        request = self._dialect.requests.produce(
            self._dialect, self._config.acks, self._config.request_timeout_ms, sets, magic
        )
        flight = _Flight(link, due)
        failpoint("sink before send")
        try:
            link.send(request)
        except LinkLost as lost:
            self._lost(flight, lost)
            return
        failpoint("sink after send before ack")
        self._flights[link.broker.id] = flight

    def _lost(self, flight: _Flight, lost: LinkLost) -> None:
        """Handle a lost connection: its request is sent again, stored or not."""
        self._event(f"{lost}; messages in flight are sent again and may be stored twice")
        for batch in flight.batches:
            if self._watch is not None:
                self._watch.lost(batch, lost)
            self.may_repeat += batch.count
            self._outcomes.lost(batch, lost, self._now())
        self._leaders.request_refresh()

    def _open(self, broker: Broker) -> Link | None:
        """Return the connection to a broker; None: not now."""
        if self._now() < self._connect_at.get(broker.id, 0.0):
            return None
        link = self._links.link(broker, "produce")
        try:
            link.open()
        except LinkLost as lost:
            self._connect_at[broker.id] = self._now() + self._config.reconnect_ms / 1000 * self._rng.uniform(1.0, 1.3)
            self._event(f"{lost}; retrying until it answers or others lead its partitions")
            self._leaders.request_refresh()
            return None
        return link

    # ends

    def _pause(self) -> float:
        """Return how long nothing can be done."""
        now = self._now()
        times = [self._batches.next_due(lambda tp: True), *self._connect_at.values()]
        times.append(self._leaders.refresh_at)
        soonest = min((at for at in times if at is not None and at > now), default=now)
        return min(LONGEST_PAUSE_S, max(LEAST_PAUSE_S, soonest - now))

    def _too_old(self) -> None:
        """Fail rows not delivered within delivery.timeout.ms, for any reason.

        The time counts from a part's first turn: before it nothing was tried, however long our caller took.
        """
        now, limit_s = self._now(), self._config.delivery_timeout_ms / 1000
        for part in self._batches.submitted():
            ticket = part.ticket
            if isinstance(ticket, SentPart) and not ticket.begun:
                ticket.begun, part.added = True, now
            if now - part.added < limit_s:
                continue
            heard = f"; the last that was heard: {self._last_event}" if self._last_event else ""
            late = TimeoutError(f"not acknowledged within {limit_s * 1000:.0f} ms (delivery.timeout.ms){heard}")
            ticket.failed(late, part.reached)
            return

    def _event(self, sentence: str) -> None:
        if sentence != self._last_event:
            self._last_event = sentence
            self._tell(sentence)

    # what its tickets tell

    def acknowledged(self, tp: TopicPartition, count: int) -> None:
        """Count `count` more stored rows."""
        self.stored[tp] += count

    def failed(self, failure: NotDelivered) -> None:
        """Record a failure; the first one counts."""
        self.failure = self.failure or failure


def _leads(view: ClusterView, broker: Broker, tp: TopicPartition) -> bool:
    return view.leader(tp) == broker


# ---- tickets ---------------------------------------------------------------------------------------------------------


class SentPart:
    """Ticket of a part.  numbers: of its rows; None: its entries carry source offsets."""

    __slots__ = ("_numbers", "_part", "_sender", "begun")

    def __init__(self, sender: TaskSender, part: Part, numbers: Sequence[int] | None) -> None:
        self._sender, self._part, self._numbers = sender, part, numbers
        self.begun = False  # it was there when a turn began

    def may_send(self) -> bool:
        return self._sender.failure is None

    def reached(self, resume_at: int) -> None:
        """Do nothing: only the end of a part counts."""

    def done(self) -> None:
        self._sender.acknowledged(self._part.tp, self._part.count)

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        tp = self._part.tp
        self._sender.failed(
            NotDelivered(_sentence(reason), topic=tp.topic, partition=tp.partition, **self._which(reason, resume_at))
        )

    def _which(self, reason: Exception, resume_at: int | None) -> dict[str, Any]:
        """Return the rows, or the source offset, of undelivered messages."""
        if self._numbers is None:
            return {"source_offset": resume_at}
        left = self._numbers[resume_at or 0 :]
        if isinstance(reason, TooLarge | RecordRefused) or len(left) < 2:
            return {self._sender.called: left[0] if left else None}
        return {self._sender.called: left[0], f"last_{self._sender.called}": left[-1]}


def _sentence(reason: Exception) -> str:
    if isinstance(reason, TooLarge):
        return (
            f"a message of {reason.size} bytes is larger than {reason.broker} accepts: raise message.max.bytes there, "
            "or max.message.bytes of the topic"
        )
    if isinstance(reason, RecordRefused):
        return reason.plain
    return reason.sentence if isinstance(reason, PipelineError) else str(reason)


# ---- leaders ---------------------------------------------------------------------------------------------------------


class Leaders:
    """Leaders at the target, refreshed by a writing task.

    view  as of the newest refresh; None: no broker has responded yet tell  gets why none does
    """

    def __init__(
        self,
        access: ClusterAccess,
        config: ProducerConfig,
        outcomes: Outcomes,
        *,
        tell: Callable[[str], object],
        now: Callable[[], float],
        sleep: Callable[[float], object],
    ) -> None:
        self.view: ClusterView | None = None
        self.refresh_at: float | None = None  # when the next refresh is due; None: it was not requested
        self._brokers = Brokers(replace(access, retries=0, election_ms=0))  # when to try again is decided here
        self._pace = RefreshPace(Backoff(config.retry_backoff_ms / 1000, MAX_REFRESH_WAIT_S), QUIET_S)
        self._config, self._outcomes = config, outcomes
        self._tell, self._now, self._sleep = tell, now, sleep
        self._failure = ""  # of the newest refresh that failed

    def request_refresh(self) -> None:
        """Refresh as soon as the last refresh is long enough ago."""
        if self.refresh_at is None:
            self.refresh_at = self._now() + self._pace.wait_s(self._now())

    def refresh_if_due(self) -> None:
        """Refresh if there is no view yet, or a refresh is due; messages that waited too long fail then."""
        if self.view is None or (self.refresh_at is not None and self._now() >= self.refresh_at):
            self._refresh()

    def known(self, topic: str) -> ClusterView:
        """Return the view once it has the topic.  Raises UnknownPartition, Unreachable after topic.wait.ms."""
        deadline = self._now() + self._config.topic_wait_ms / 1000
        refreshed = False
        while self.view is None or not self.view.partitions(topic):
            if refreshed and self._now() >= deadline:
                raise self._unknown(topic)
            self.request_refresh()
            self._sleep(max(0.0, (self.refresh_at or 0.0) - self._now()))
            self._refresh()
            refreshed = True
        return self.view

    def close(self) -> None:
        self._brokers.close()

    def _refresh(self) -> None:
        self.refresh_at, responded = None, True
        try:
            self.view = self._brokers.view(refresh=True)
        except Unreachable as away:
            responded, self._failure = False, str(away)
            self._tell(self._failure)
        self._pace.made(self._now())
        if self._outcomes.expire(self.view or ClusterView(), self._now(), responded) or not responded:
            self.request_refresh()

    def _unknown(self, topic: str) -> PipelineError:
        if self.view is None:
            return Unreachable(f"{self._failure}; {topic} is written there")
        return UnknownPartition(
            f"the target has no such topic after {self._config.topic_wait_ms} ms (topic.wait.ms); nothing here creates "
            "topics: create it with as many partitions as it is to have",
            topic=topic,
        )
