"""Handlers called in parallel, at least once: only what the handler finished is committed.

    def handle(message): ...                        # ordinary blocking code; None or Outcome.DONE: done
    process(connector, handle, {"orders": 1}, workers=8)

Each message has its own ticket (delivery on-ack), so the committed offset is always the newest one with everything
before it done, in whatever order the workers finish.  Partitions take turns, and at most max_unfinished messages of a
partition are queued, counted from its oldest unfinished one: a message that does not finish pauses only its own
partition, and a restart repeats at most that many messages (workqueue).  When partitions are revoked, messages that no
worker has are dropped at once, for their next owner; the others may finish within listener.timeout.ms and then
rebalance.drain.ms.  Workers are threads or greenlets (workerpool).

Outcomes of a handler: DONE (or None); Retry(after_ms); PARK: deliver nothing more of this partition, beginning with
this message; STOP: end process(), and this message is not done.  A handler that raises is retried, with a backoff of up
to MAX_RETRY_S: its message is never lost or skipped.  The log has the first traceback of each kind, and then counts
(groundwork.failures).
"""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from groundwork.failures import EVERY_S as FAILURES_EVERY_S
from groundwork.failures import Failures
from groundwork.hub import OwnThread
from groundwork.tasks import GreenletExit
from kafkawire.model import Message, TopicPartition
from zkconsumer.concurrent.workerpool import WorkerKind, WorkerPool
from zkconsumer.concurrent.workqueue import Job, WorkQueue
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import Closed, ConsumerError, ConsumerTimeout, DecodeFailed
from zkconsumer.fetching.committable import DeliveryTicket
from zkconsumer.filters import TopicFilter
from zkconsumer.listeners import ConsumerListener, Listeners
from zkconsumer.streams.stream import ON_ACK, Stream

log = logging.getLogger(__name__)

FIRST_RETRY_S = 0.1
MAX_RETRY_S = 30.0
SHUTDOWN_S = 12.0  # the connector's own shutdown takes at most 10 s
POLL_S = 0.5  # ctrl-C and a stop are noticed within this time


class Outcome(enum.Enum):
    """Result of a handler for its message: it is done, its partition parks at it, or processing stops."""

    DONE = "done"
    PARK = "park"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Retry:
    """Result of a handler: call it again with this message after the given number of ms."""

    after_ms: int


Handler = Callable[[Message], Outcome | Retry | None]


class HandlerParked(ConsumerError):
    """Reason for a parked partition: its handler returned PARK."""


def process(
    connector: ConsumerConnector,
    handler: Handler,
    topics: Mapping[str, int] | TopicFilter,
    workers: int = 8,
    *,
    streams: int = 1,
    max_unfinished: int = 1000,
    order_by_key: bool = False,
    stop_s: float = 5.0,
    worker_kind: WorkerKind = "threads",
) -> None:
    """Call handler with every message of topics until it returns STOP or the connector is shut down; then shut it down.

    connector        one with delivery on-ack and without streams; process() creates them: streams is the number for a
                     filter.  Its hub may be its own or the caller's
    max_unfinished   maximum of queued messages per partition, counted from its oldest unfinished one
    order_by_key     handle messages of one partition with the same key one after another
    stop_s           how long handlers may take to end at a stop; then a greenlet is killed, a thread abandoned
    worker_kind      threads: handlers may block and compute.  greenlets, in the caller's hub: many, waiting by gevent;
                     one that blocks delays the others, and the session unless the connector's hub is its own

    Raises the error that ended the streams, and ConsumerError if the connector has another delivery, or streams
    already.
    """
    _Run(
        connector=connector,
        handler=handler,
        workers=workers,
        max_unfinished=max_unfinished,
        order_by_key=order_by_key,
        stop_s=stop_s,
        worker_kind=worker_kind,
    ).run(topics, streams)


class _Run(ConsumerListener):
    """One call of process()."""

    def __init__(
        self,
        *,
        connector: ConsumerConnector,
        handler: Handler,
        workers: int,
        max_unfinished: int,
        order_by_key: bool,
        stop_s: float,
        worker_kind: str,
    ) -> None:
        if connector.config.delivery != ON_ACK:
            raise ConsumerError(
                f"option 'delivery' is {connector.config.delivery!r}: workers that finish in any order need 'on-ack'"
            )
        if workers < 1:
            raise ConsumerError(f"{workers} workers: at least 1")
        self._connector = connector
        self._handler = handler
        self._workers = workers
        self._failures = Failures(log, "the handler", FAILURES_EVERY_S)
        self._stop_s = stop_s
        self._queue: WorkQueue[TopicPartition, Message] = WorkQueue(max_unfinished, order_by_key)
        self._pool = WorkerPool(worker_kind, isinstance(connector._hub, OwnThread))
        self._lock = threading.Lock()  # guards the queue and the fields below; never held during a wait
        self._jobs = self._pool.signal(self._lock)  # notified when there may be a job to take
        self._ends = self._pool.signal(self._lock)  # notified when a job was finished, or a reader has ended
        self._stopping = False
        self._error: BaseException | None = None
        self._full: set[TopicPartition] = set()

    def run(self, topics: Mapping[str, int] | TopicFilter, streams: int) -> None:
        try:
            made = self._streams(topics, streams)
        except BaseException:
            self._pool.close(0)
            raise
        try:
            for stream in made:
                self._pool.read(stream.name, self._read, stream)
            for n in range(self._workers):
                self._pool.work(str(n), self._work)
            while not self._stopping and self._pool.reading:
                with self._lock:
                    self._ends.wait(POLL_S)
                self._failures.tell()
        finally:
            self._end()
            self._failures.tell(final=True)
        if self._error is not None:
            raise self._error

    def _streams(self, topics: Mapping[str, int] | TopicFilter, streams: int) -> list[Stream]:
        before = self._connector.listen(self)
        self._connector.listen(Listeners(self, before))
        if not isinstance(topics, Mapping):
            return self._connector.create_message_streams_by_filter(topics, streams)
        return [stream for each in self._connector.create_message_streams(topics).values() for stream in each]

    def _end(self) -> None:
        """Let handlers end, drop the other messages, and leave the group, which commits what is done."""
        self._stop(None)
        self._pool.join_workers(self._stop_s)
        self._drop(self._queue.partitions())
        self._connector.shutdown()
        until = time.monotonic() + SHUTDOWN_S
        with self._lock:
            while not self._connector.closed and time.monotonic() < until:
                self._ends.wait(POLL_S / 10)  # another greenlet or thread began to shut it down, perhaps in our own hub
        self._pool.close(POLL_S)

    def _stop(self, error: BaseException | None) -> None:
        with self._lock:
            if isinstance(error, GreenletExit):
                error = None if self._stopping else ConsumerError("a greenlet of process() was killed from outside")
            self._stopping = True
            self._error = self._error or error
            self._jobs.notify_all()
            self._ends.notify_all()

    # readers ------------------------------------------------------------------------------------------------------

    def _read(self, stream: Stream) -> None:
        try:
            while not self._stopping:
                try:
                    for message in stream:
                        self._add(message)
                        self._pool.yield_turn()
                    break  # the connector was shut down
                except ConsumerTimeout:
                    continue
                except DecodeFailed as e:
                    log.error("%s; its partition is parked", e)
                    _ticket(e.message).failed(e, None)
        except BaseException as e:
            self._stop(e)
        with self._lock:
            self._ends.notify_all()

    def _add(self, message: Message) -> None:
        tp = TopicPartition(message.topic, message.partition)
        with self._lock:
            full = self._queue.add(tp, message, message.key)
            if full:
                self._full.add(tp)
            self._jobs.notify()
        if full:
            self._pool.serialized(self._pause_or_resume, tp)

    def _pause_or_resume(self, tp: TopicPartition) -> None:
        """Pause or resume a partition by its current state: two workers may have seen it change."""
        if self._stopping:
            return
        try:
            if tp in self._full:
                self._connector.pause(tp)
            else:
                self._connector.resume(tp)
        except Closed:
            pass  # shut down from outside meanwhile: the streams end, and so does process()

    # workers ------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while (job := self._take()) is not None:
                self._finish(job, self._outcome(job))
                self._pool.yield_turn()
        except BaseException as e:
            self._stop(e)

    def _take(self) -> Job[TopicPartition, Message] | None:
        with self._lock:
            while not self._stopping:
                now = time.monotonic()
                job = self._queue.take(now)
                if job is not None:
                    return job
                due = self._queue.wake_at(now)
                self._jobs.wait(POLL_S if due is None else min(POLL_S, due - now))
        return None

    def _outcome(self, job: Job[TopicPartition, Message]) -> Outcome | Retry | None:
        """Return the outcome of the handler, or None if the message was revoked: then the handler is not called."""
        if not _ticket(job.item).may_send():
            self._failures.dropped(job)
            return None
        try:
            outcome = self._handler(job.item)
            self._failures.worked(job)
        except Exception as e:
            after_s = min(MAX_RETRY_S, FIRST_RETRY_S * 2 ** min(job.tries - 1, 16))
            self._failures.raised(e, f"{job.partition} at {job.item.offset}", job, f"; again in {after_s:g} s")
            return Retry(int(after_s * 1000))
        if outcome is not None and not isinstance(outcome, Outcome | Retry):
            raise ConsumerError(f"the handler returned {outcome!r}: it must return an Outcome, a Retry or None")
        return Outcome.DONE if outcome is None else outcome

    def _finish(self, job: Job[TopicPartition, Message], outcome: Outcome | Retry | None) -> None:
        ticket = _ticket(job.item)
        if isinstance(outcome, Retry):
            with self._lock:
                self._queue.retry(job, time.monotonic() + outcome.after_ms / 1000)
                self._jobs.notify()
            return
        if outcome is Outcome.DONE:
            job.item.ack()
        elif outcome is Outcome.PARK:
            said = f"{job.partition} at {job.item.offset}: parked by its handler"
            ticket.failed(HandlerParked(said), job.item.offset)
        elif outcome is Outcome.STOP:
            ticket.drop()
            self._stop(None)
        with self._lock:
            resumes = self._queue.done(job)
            if resumes:
                self._full.discard(job.partition)
            if not self._queue.unfinished(job.partition):
                self._ends.notify_all()
        if resumes:
            self._pool.serialized(self._pause_or_resume, job.partition)

    # revoked partitions --------------------------------------------------------------------------------------------

    def before_release(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop messages that no worker has, for the next owner; wait for the others as long as a listener may."""
        self._drop(partitions)
        with self._lock:
            while not self._stopping and any(self._queue.unfinished(tp) for tp in partitions):
                self._ends.wait(POLL_S)
        for tp in partitions:
            self._pool.serialized(self._pause_or_resume, tp)  # it may be assigned again

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        with self._lock:
            dropped = self._queue.drop(partitions)
            self._full.difference_update(partitions)
        for job in dropped:
            self._failures.dropped(job)
            _ticket(job.item).drop()


def _ticket(message: Message) -> DeliveryTicket:
    assert isinstance(message.handed, DeliveryTicket)  # delivery on-ack
    return message.handed
