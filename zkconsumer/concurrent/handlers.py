"""At least once with many workers: a handler called in parallel, and only what it finished is committed.

    def handle(message): ...                        # ordinary blocking code; None or Outcome.DONE: done
    process(connector, handle, {"orders": 1}, workers=8)

Each message has a ticket of its own (delivery on-ack), so the offset that is committed is always the newest one with
everything before it done, in whichever order the workers finish.  Partitions take turns, and at most
max_unfinished messages of one are given out from its oldest unfinished one on: a message that is stuck pauses its
partition, no other, and a restart repeats no more than that (workplan).  When partitions leave, what nobody has begun
of them is forgotten at once, for their next owner, and what is under way is waited for, listener.timeout.ms and then
rebalance.drain.ms at most.  Workers are threads or greenlets (workforce).

What a handler answers: DONE (or None); Retry(after_ms); PARK, deliver nothing more of this partition, from this message
on; STOP, end all of it, this message not done.  A handler that raises is tried again, each time later, up to
LONGEST_RETRY_S: a message is neither lost nor passed over because of it.  The log has the first traceback of a kind,
and then counts (groundwork.failures).
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
from zkconsumer.concurrent.workerpool import WorkerKind, Workforce
from zkconsumer.concurrent.workqueue import Job, Workplan
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import Closed, ConsumerError, ConsumerTimeout, DecodeFailed
from zkconsumer.fetching.progress import DeliveryTicket
from zkconsumer.filters import TopicFilter
from zkconsumer.listeners import ConsumerListener, Listeners
from zkconsumer.streams.stream import ON_ACK, Stream

log = logging.getLogger(__name__)

FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 30.0
SHUTDOWN_S = 12.0  # a connector's takes 10 at most
LOOK_S = 0.5  # ctrl-C and a stop are answered within that


class Outcome(enum.Enum):
    DONE = "done"
    PARK = "park"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Retry:
    """Call the handler with this message once more, after so many ms."""

    after_ms: int


Handler = Callable[[Message], Outcome | Retry | None]


class HandlerParked(ConsumerError):
    """Why a partition is parked: its handler said so."""


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
    """Call handler with every message of topics until it says STOP or the connector is shut down; then shut it down.

    connector        one with delivery on-ack, without streams so far; process makes them: streams counts those of a
                     filter.  Its hub may be its own or the caller's
    max_unfinished   messages of one partition from its oldest unfinished one on, at most
    order_by_key     messages of one partition with the same key one after another
    stop_s           how long handlers may take to end at a stop; a greenlet's ends then where it waits, a thread's is
                     left behind
    worker_kind      threads: handlers may block and compute.  greenlets, of the caller's hub: many, that wait as gevent
                     does; one that blocks holds up the others, and the session unless the connector's hub is its own

    Raises what ended the streams, and ConsumerError when the connector does not fit.
    """
    Processing(connector, handler, workers, max_unfinished, order_by_key, stop_s, worker_kind).run(topics, streams)


class Processing(ConsumerListener):
    """One run of process."""

    def __init__(
        self,
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
        self._plan: Workplan[TopicPartition, Message] = Workplan(max_unfinished, order_by_key)
        self._force = Workforce(worker_kind, isinstance(connector.hub, OwnThread))
        self._lock = threading.Lock()  # guards the plan and what follows; never held over a wait
        self._jobs = self._force.bell(self._lock)  # there may be something to take
        self._ends = self._force.bell(self._lock)  # something was finished, or has ended
        self._stopping = False
        self._error: BaseException | None = None
        self._full: set[TopicPartition] = set()

    def run(self, topics: Mapping[str, int] | TopicFilter, streams: int) -> None:
        try:
            made = self._streams(topics, streams)
        except BaseException:
            self._force.disband(0)
            raise
        try:
            for stream in made:
                self._force.read(stream.name, self._read, stream)
            for n in range(self._workers):
                self._force.work(str(n), self._work)
            while not self._stopping and self._force.reading:
                with self._lock:
                    self._ends.wait(LOOK_S)
                self._failures.tell()
        finally:
            self._end()
            self._failures.tell(all_of_it=True)
        if self._error is not None:
            raise self._error

    def _streams(self, topics: Mapping[str, int] | TopicFilter, streams: int) -> list[Stream]:
        before = self._connector.listen(self)
        self._connector.listen(Listeners(self, before))
        if not isinstance(topics, Mapping):
            return self._connector.create_message_streams_by_filter(topics, streams)
        return [stream for each in self._connector.create_message_streams(topics).values() for stream in each]

    def _end(self) -> None:
        """Let handlers end, forget what nobody began, and leave the group: what is done is committed there."""
        self._stop(None)
        self._force.join_workers(self._stop_s)
        self._forget(self._plan.partitions())
        self._connector.shutdown()
        until = time.monotonic() + SHUTDOWN_S
        with self._lock:
            while not self._connector.closed and time.monotonic() < until:
                self._ends.wait(LOOK_S / 10)  # somebody else began to shut it down, perhaps in our own hub
        self._force.disband(LOOK_S)

    def _stop(self, error: BaseException | None) -> None:
        with self._lock:
            if isinstance(error, GreenletExit):
                error = None if self._stopping else ConsumerError("somebody else killed a greenlet of process()")
            self._stopping = True
            self._error = self._error or error
            self._jobs.ring_all()
            self._ends.ring_all()

    # readers ------------------------------------------------------------------------------------------------------

    def _read(self, stream: Stream) -> None:
        try:
            while not self._stopping:
                try:
                    for message in stream:
                        self._admit(message)
                        self._force.breathe()
                    break  # the connector was shut down
                except ConsumerTimeout:
                    continue
                except DecodeFailed as e:
                    log.error("%s; its partition is parked", e)
                    _ticket(e.message).failed(e, None)
        except BaseException as e:
            self._stop(e)
        with self._lock:
            self._ends.ring_all()

    def _admit(self, message: Message) -> None:
        tp = TopicPartition(message.topic, message.partition)
        with self._lock:
            full = self._plan.add(tp, message, message.key)
            if full:
                self._full.add(tp)
            self._jobs.ring()
        if full:
            self._force.one_by_one(self._let_in, tp)

    def _let_in(self, tp: TopicPartition) -> None:
        """Pause or resume a partition by what is true now: two workers may have seen it change."""
        if self._stopping:
            return
        try:
            if tp in self._full:
                self._connector.pause(tp)
            else:
                self._connector.resume(tp)
        except Closed:
            pass  # shut down by somebody else meanwhile: the streams end, and so do we

    # workers ------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while (job := self._take()) is not None:
                self._settle(job, self._outcome(job))
                self._force.breathe()
        except BaseException as e:
            self._stop(e)

    def _take(self) -> Job[TopicPartition, Message] | None:
        with self._lock:
            while not self._stopping:
                now = time.monotonic()
                job = self._plan.take(now)
                if job is not None:
                    return job
                due = self._plan.wake_at(now)
                self._jobs.wait(LOOK_S if due is None else min(LOOK_S, due - now))
        return None

    def _outcome(self, job: Job[TopicPartition, Message]) -> Outcome | Retry | None:
        """What the handler says; None for a message that is not ours any more: nobody asks the handler then."""
        if not _ticket(job.item).may_send():
            self._failures.dropped(job)
            return None
        try:
            said = self._handler(job.item)
            self._failures.worked(job)
        except Exception as e:
            after_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2 ** min(job.tries - 1, 16))
            self._failures.raised(e, f"{job.partition} at {job.item.offset}", job, f"; again in {after_s:g} s")
            return Retry(int(after_s * 1000))
        if said is not None and not isinstance(said, Outcome | Retry):
            raise ConsumerError(f"the handler returned {said!r}: an Outcome, a Retry or None is wanted")
        return Outcome.DONE if said is None else said

    def _settle(self, job: Job[TopicPartition, Message], outcome: Outcome | Retry | None) -> None:
        ticket = _ticket(job.item)
        if isinstance(outcome, Retry):
            with self._lock:
                self._plan.again(job, time.monotonic() + outcome.after_ms / 1000)
                self._jobs.ring()
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
            open_again = self._plan.done(job)
            if open_again:
                self._full.discard(job.partition)
            if not self._plan.unfinished(job.partition):
                self._ends.ring_all()
        if open_again:
            self._force.one_by_one(self._let_in, job.partition)

    # partitions that leave ----------------------------------------------------------------------------------------

    def before_release(self, partitions: Sequence[TopicPartition]) -> None:
        """What nobody began is the next owner's; what is under way is waited for as long as a listener may."""
        self._forget(partitions)
        with self._lock:
            while not self._stopping and any(self._plan.unfinished(tp) for tp in partitions):
                self._ends.wait(LOOK_S)
        for tp in partitions:
            self._force.one_by_one(self._let_in, tp)  # should it come back

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        with self._lock:
            dropped = self._plan.drop(partitions)
            self._full.difference_update(partitions)
        for job in dropped:
            self._failures.dropped(job)
            _ticket(job.item).drop()


def _ticket(message: Message) -> DeliveryTicket:
    assert isinstance(message.handed, DeliveryTicket)  # delivery on-ack
    return message.handed
