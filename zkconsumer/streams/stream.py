"""Streams: read by a user as single messages, as batches, or as sets as they were fetched.

    for message in stream: ...                   message n is done when n + 1 is requested, or at message.ack()
    for batch in stream.batches(): ...           done when the next one is requested, or at batch.ack(); see batch.py
    for fetched, delivered in stream.sets(): ... delivered.ticket(resume_at, parts) reports what is done, as in a mirror

With delivery on-ack only ack() counts, in any order and from any thread, and everything before the first unacknowledged
message may be committed.  With at-most-once a whole set is committed before any of it is delivered; if that fails it is
not delivered.

A stream carries all partitions of one thread id.  It has one reader, in one thread or greenlet at a time: another one
is refused (SecondReader) until the first has ended, or called done().  The lease and the ownership are checked before
each delivery; sets of partitions that were revoked since are dropped, not delivered.  consumer.timeout.ms raises
ConsumerTimeout, after which the iterator may be used again.  The iteration ends when the connector is shut down, and
raises the error that killed the connector, if any.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from groundwork.forks import Forked, belongs_to_parent, not_in_a_fork
from groundwork.hub import Hub
from groundwork.queues import BoundedQueue, Closed, Empty
from groundwork.tasks import now
from kafkawire.model import Message, MessageSet, TopicPartition
from kafkawire.znodes.group import STATIC, Registration
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.fetching.budget import Budget, StreamBudget
from zkconsumer.fetching.partition import Taken
from zkconsumer.fetching.partitioncursor import DeliveredSet
from zkconsumer.listeners import KEPT, ListenerFailed
from zkconsumer.options.config import ConsumerConfig
from zkconsumer.streams.batch import Batch, BatchReader
from zkconsumer.streams.messagereader import Decoder, MessageReader
from zkconsumer.streams.observer import Observer, SafeObserver
from zkconsumer.streams.onereader import OneReader

AT_LEAST_ONCE, ON_ACK, AT_MOST_ONCE = "at-least-once", "on-ack", "at-most-once"

Decoders = tuple[Decoder | None, Decoder | None]  # of keys, of values
T = TypeVar("T")
Commit = Callable[[TopicPartition, int], Exception | None]  # returns None if the offset is in the offset store


class Reader(Protocol):
    """One style of reading a stream."""

    def leave(self) -> None:
        """Leave this style of reading: delivered messages are done, and the rest of the set is fetched again."""

    def done(self) -> None:
        """Mark delivered messages as done, though nothing more is requested."""

    def give_up(self) -> None:
        """Give up, because the user will not come back: the last delivered message is not done."""


class SetReader:
    """Reader of sets: their tickets are the user's, so there is nothing to end."""

    def leave(self) -> None: ...
    def done(self) -> None: ...
    def give_up(self) -> None: ...


class Stream:
    """Partitions of one thread id, for one reader at a time.  name: what its thread ids end in.

    channel      the queue that its sets come from
    timeout_ms   consumer.timeout.ms
    delivery     when a message counts as done, see above
    decoders     for keys and values, or None; the iterator raises their errors as DecodeFailed, and continues with the
                 next message.  Batches and sets have bytes as they were stored
    observer     called with everything that is delivered, in the reader's thread; its errors are logged
    commit       for at-most-once: writes an offset to the offset store; called in the reader's thread
    """

    def __init__(
        self,
        name: str,
        channel: BoundedQueue[DeliveredSet],
        *,
        timeout_ms: int = -1,
        check_crcs: bool = True,
        delivery: str = AT_LEAST_ONCE,
        decoders: Decoders = (None, None),
        observer: Observer | None = None,
        commit: Commit | None = None,
    ) -> None:
        if delivery == AT_MOST_ONCE and commit is None:
            raise ValueError(f"stream {name}: {AT_MOST_ONCE} needs a commit function")
        self.name = name
        self.channel = channel
        self._timeout_ms = timeout_ms
        self._commit = commit if delivery == AT_MOST_ONCE else None
        self._observer = SafeObserver(observer, f"the observer of stream {name}") if observer is not None else None
        self._errors: deque[BaseException] = deque(maxlen=KEPT)  # beyond that, the oldest are only logged
        on_ack = delivery == ON_ACK
        self._reader = OneReader(name, lambda: channel.may_get_here)
        self._messages = MessageReader(
            reader=self._reader,
            before_next=lambda: self._turn_to(self._messages),
            next_set=self._next,
            errors=self._errors,
            check_crcs=check_crcs,
            on_ack=on_ack,
            decoders=decoders,
            observer=self._observer,
        )
        self._batches = BatchReader(self._next, check_crcs, on_ack, self._observer)
        self._sets = SetReader()
        self._reading: Reader = self._sets  # last style used; no other style holds a set
        self._forked = False
        not_in_a_fork(self)

    def _after_fork(self) -> None:
        """Deliver nothing more in a forked child, not even the rest of a set: the parent delivers it."""
        self._forked = True
        # It ends the iteration of the current set.
        self._errors.append(Forked(belongs_to_parent(f"stream {self.name}")))

    # message by message ---------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        """Return the same iterator at each call."""
        return self._messages.messages()

    def __next__(self) -> Message:
        return next(iter(self))

    # several at once ------------------------------------------------------------------------------------------------

    def sets(self) -> Iterator[tuple[MessageSet, DeliveredSet]]:
        """Return fetched sets, in order per partition.  Raises ConsumerTimeout as the message iterator does."""
        return _Asked(self._next_pair)

    def batches(self) -> Iterator[Batch]:
        """Return batches: messages of one partition as columns; in order per partition, and never an empty one.

        A fetched set makes one or more of them.  Raises ConsumerTimeout as the message iterator does.
        """
        return _Asked(self.next_batch)

    def _next_pair(self) -> tuple[MessageSet, DeliveredSet]:
        delivered = self.next_set()
        return delivered.message_set, delivered

    def next_set(self) -> DeliveredSet:
        """Return the next set for sets(); messages iterated before are done."""
        self._turn_to(self._sets)
        delivered = self._next()
        if self._observer is not None:
            try:
                self._observer.message_set(delivered.message_set)
            except BaseException:
                delivered.give_back()
                raise
        return delivered

    def next_batch(self) -> Batch:
        """Return the next batch for batches(); the previous one is done."""
        self._turn_to(self._batches)
        return self._batches.next()

    def _turn_to(self, style: Reader) -> None:
        """Change to this style of reading; raises the first waiting error."""
        self._reader.take()
        if self._forked:
            raise Forked(belongs_to_parent(f"stream {self.name}"))
        if self._errors:
            raise self._errors.popleft()
        if self._reading is not style:
            self._reading.leave()
            self._reading = style

    # shared by all styles ---------------------------------------------------------------------------------------------

    def _next(self) -> DeliveredSet:
        """Return the next set that may be delivered.  Raises StopIteration after shutdown, and ConsumerTimeout.

        At a partition that failed (corrupt.message.policy=fail) it raises DamagedMessage, once; the other partitions
        continue at the next call.
        """
        until = now() + self._timeout_ms / 1000 if self._timeout_ms >= 0 else None
        while True:
            try:
                delivered = self.channel.get(None if until is None else max(0.0, until - now()))
            except Empty:
                raise ConsumerTimeout(f"stream {self.name}: no message within {self._timeout_ms} ms") from None
            except Closed as end:
                if end.__cause__ is not None:
                    raise end.__cause__ from end.__cause__.__cause__  # a death keeps its reason
                raise StopIteration from None
            try:
                taken = self._taken(delivered)
            except BaseException:  # also for ctrl-C: otherwise the ticket of the next set would cover this one
                delivered.give_back()
                raise
            if taken is Taken.RAISE and delivered.failure is not None:
                raise delivered.failure
            if taken is Taken.DELIVER:
                return delivered

    def _taken(self, delivered: DeliveredSet) -> Taken | None:
        """Take a set that came off the queue.  Return DELIVER; RAISE for its failure; None if it must not be
        delivered."""
        cursor = delivered.cursor
        taken = cursor.under_lease(cursor.partition.taken, delivered, self._commit is not None)
        if taken is Taken.COMMIT and self._commit is not None:
            message_set = delivered.message_set
            committed = self._commit(message_set.tp, message_set.resume_at) is None
            taken = cursor.under_lease(cursor.partition.commit_ended, delivered, committed)
        return taken

    def done(self) -> None:
        """Mark everything delivered as done, for a loop that ends without asking for the next message.

        Then another thread or greenlet may read.  Raises SecondReader while another one reads.
        """
        self._reader.take()
        self._reading.done()
        self._reader.leave()

    def raise_next(self, error: BaseException) -> None:
        """Raise error at the reader's next request; callable from any thread."""
        self._errors.append(error)

    def give_up(self, thread_id: int) -> None:
        """Give up reading in the reader's own thread, which will not come back: its unfinished messages are not
        done."""
        if self._reader.thread_id != thread_id:
            return
        self._reading.give_up()

    def __repr__(self) -> str:
        return f"<Stream {self.name}>"


class _Asked(Generic[T]):
    """Iterator that calls a function for each item."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        return self._ask()


class Streams:
    """Streams of one connector: one per topic and thread; with a filter, thread n of every topic is stream n.

    observer: called with everything that is delivered; commit(tp, position): for at-most-once
    """

    def __init__(
        self,
        *,
        config: ConsumerConfig,
        hub: Hub,
        budget: Budget,
        registration: Registration,
        decoders: Decoders,
        observer: Observer | None,
        commit: Commit,
    ) -> None:
        static = registration.pattern == STATIC
        wanted = [(t if static else None, n) for t, count in registration.subscription.items() for n in range(count)]
        self._streams: dict[tuple[str | None, int], tuple[Stream, StreamBudget]] = {}
        for topic, n in wanted:
            # The budget bounds the queued bytes; the queue's own limit must never make a fetcher wait.
            channel: BoundedQueue[DeliveredSet] = hub.bounded_queue(budget.limit)
            stream = Stream(
                f"{topic}-{n}" if topic is not None else str(n),
                channel,
                timeout_ms=config.consumer_timeout_ms,
                check_crcs=config.check_crcs,
                delivery=config.delivery,
                decoders=decoders,
                observer=observer,
                commit=commit,
            )
            self._streams[topic, n] = (stream, budget.for_stream(len(wanted)))

    def of(self, topic: str | None) -> list[Stream]:
        """Return the streams of a topic; with None, those of the filter."""
        return [stream for (name, _), (stream, _) in self._streams.items() if name == topic]

    def reader_of(self, tp: TopicPartition, thread: str) -> tuple[Stream, StreamBudget]:
        """Return the stream of a thread id, and its part of the budget."""
        n = int(thread.rpartition("-")[2])
        return self._streams.get((tp.topic, n)) or self._streams[None, n]

    def close(self, reason: BaseException | None) -> None:
        """End the iteration of all readers, with the reason if given; delivered messages are done."""
        for stream, _ in self._streams.values():
            stream.channel.close(reason)

    def give_up(self, thread_id: int) -> None:
        """Give up reading in this thread, which will not come back to its streams: its unfinished messages are not
        done."""
        for stream, _ in self._streams.values():
            stream.give_up(thread_id)

    def raise_next(self, error: ListenerFailed) -> None:
        for stream, _ in self._streams.values():
            stream.raise_next(error)
