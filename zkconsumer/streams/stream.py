"""What a user reads: messages one by one, batches of them, or sets as they were fetched.

    for message in stream: ...                 message n counts as done when n + 1 is asked for, or at message.ack()
    for batch in stream.batches(): ...         done when its successor is asked for, or at batch.ack(); see batch.py
    for fetched, share in stream.sets(): ...   share.ticket(resume_at, parts) says what is done: a mirror's way

With the delivery on-ack only ack() counts, in any order and from any thread, and what may be committed is everything
before the first message that is not acknowledged.  With at-most-once a whole set is committed before the first of it is
handed out; where that fails it is not handed out.

A stream carries all partitions of one thread id.  The lease and the ownership are looked at whenever something is
handed out; what was fetched for a partition that has been let go since is dropped, not handed out.  consumer.timeout.ms
raises ConsumerTimeout, after which the iterator may be asked again.  The iteration ends when the connector is shut
down, and raises what killed the connector if something did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from threading import get_ident

from groundwork.hub import Hub
from groundwork.queues import BoundedQueue, Closed, Empty
from groundwork.tasks import now
from kafkawire.model import Message, MessageSet, TopicPartition
from kafkawire.znodes.group import STATIC, Registration
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.fetching.budget import Budget, Lane
from zkconsumer.fetching.cursor import Share
from zkconsumer.listeners import ListenerFailed
from zkconsumer.options.config import ConsumerConfig
from zkconsumer.streams.batch import Batch, BatchReader
from zkconsumer.streams.messagereader import Decoder, MessageReader

AT_LEAST_ONCE, ON_ACK, AT_MOST_ONCE = "at-least-once", "on-ack", "at-most-once"

Commit = Callable[[TopicPartition, int], Exception | None]  # None: the position is in the offset store


class Stream:
    """One thread's share of the group's partitions; for one reader at a time.  name is what its thread ids end in.

    delivery   what counts as done, see above
    decoders   of keys and of values, or None; what they raise comes out of the iterator as DecodeFailed, and the next
               message after it.  Batches and sets are bytes as they were stored
    observe    is called with each set that is handed out, in the reader's thread
    commit     for at-most-once: writes a position to the offset store; called in the reader's thread
    """

    def __init__(
        self,
        name: str,
        channel: BoundedQueue[Share],
        timeout_ms: int = -1,
        check_crcs: bool = True,
        delivery: str = AT_LEAST_ONCE,
        decoders: tuple[Decoder | None, Decoder | None] = (None, None),
        observe: Callable[[MessageSet], object] | None = None,
        commit: Commit | None = None,
    ) -> None:
        if delivery == AT_MOST_ONCE and commit is None:
            raise ValueError(f"stream {name}: {AT_MOST_ONCE} needs somebody who commits")
        self.name = name
        self.channel = channel
        self._timeout_ms = timeout_ms
        self._commit = commit if delivery == AT_MOST_ONCE else None
        self._observe = observe
        self._errors: deque[BaseException] = deque()
        on_ack = delivery == ON_ACK
        self._messages = MessageReader(
            self._begin_asking, self._after_batches, self._errors, check_crcs, on_ack, decoders
        )
        self._batches = BatchReader(self.next_share, check_crcs, on_ack)
        self._reader = 0  # the thread that reads

    # message by message -------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        """The same messages whoever asks."""
        self._reader = get_ident()
        return self._messages.handed()

    def __next__(self) -> Message:
        return next(iter(self))

    def _after_batches(self) -> Share:
        self._batches.leave()
        return self.next_share()

    # several at once ----------------------------------------------------------------------------------------------

    def sets(self) -> Iterator[tuple[MessageSet, Share]]:
        """Fetched sets, in order per partition.  Raises ConsumerTimeout as the message iterator does."""
        return _Sets(self)

    def batches(self) -> Iterator[Batch]:
        """Messages of one partition at a time, as columns; in order per partition, and never an empty one.

        A fetched set makes one or more of them.  Raises ConsumerTimeout as the message iterator does.
        """
        return _Batches(self)

    def next_set(self) -> Share:
        """For sets(): the next one, after what was iterated was closed."""
        self._come_back()
        return self.next_share()

    def next_batch(self) -> Batch:
        """For batches(): the next one; the one before is done."""
        self._begin_asking()
        self._messages.leave()
        return self._batches.next()

    def _come_back(self) -> None:
        """The reader asks for more than a message: what it had is done, what it left of a set comes again."""
        self._begin_asking()
        self._messages.leave()
        self._batches.leave()

    def _begin_asking(self) -> None:
        self._reader = get_ident()
        if self._errors:
            raise self._errors.popleft()

    # both ---------------------------------------------------------------------------------------------------------

    def next_share(self) -> Share:
        """The next set that may be handed out.  Raises StopIteration after shutdown, and ConsumerTimeout.

        Where it gets to a partition that failed (corrupt.message.policy=fail) it raises DamagedMessage, once; the other
        partitions go on when it is asked again.
        """
        until = now() + self._timeout_ms / 1000 if self._timeout_ms >= 0 else None
        while True:
            try:
                share = self.channel.get(None if until is None else max(0.0, until - now()))
            except Empty:
                raise ConsumerTimeout(f"stream {self.name}: no message within {self._timeout_ms} ms") from None
            except Closed as end:
                if end.__cause__ is not None:
                    raise end.__cause__ from end.__cause__.__cause__  # a death keeps its reason
                raise StopIteration from None
            taken = share.cursor.taken(share)
            if taken and share.failure is not None:
                raise share.failure
            if taken and (self._commit is None or self._committed(share, self._commit)):
                if self._observe is not None:
                    self._observe(share.message_set)
                return share

    def _committed(self, share: Share, commit: Commit) -> bool:
        """At most once: write down that all of it is done.  False: it is not, so none of it may be handed out."""
        share.count_ahead()  # first: a commit on the timer must not write the older position after ours
        if commit(share.message_set.tp, share.message_set.resume_at) is None and share.may_hand_out():
            return True
        share.cursor.stopped(share, share.message_set.start)
        return False

    def done(self) -> None:
        """What is in the user's hands counts as done, though no other was asked for: for a loop that ends here."""
        self._messages.done()
        self._batches.done()

    def raise_next(self, error: BaseException) -> None:
        """Have error raised when the reader asks next; from any thread."""
        self._errors.append(error)

    def give_up(self, thread_id: int) -> None:
        """For the reader's own thread, which will not come back: what is in its hands is not done."""
        if self._reader != thread_id:
            return
        self._messages.give_up()
        self._batches.give_up()

    def __repr__(self) -> str:
        return f"<Stream {self.name}>"


class _Sets:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[tuple[MessageSet, Share]]:
        return self

    def __next__(self) -> tuple[MessageSet, Share]:
        share = self._stream.next_set()
        return share.message_set, share


class _Batches:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        return self._stream.next_batch()


Decoders = tuple[Decoder | None, Decoder | None]  # of keys, of values


class Streams:
    """A stream per topic and thread; with a filter, thread n of every topic is stream n.

    observe(message_set): each that is handed out; commit(tp, position): for at-most-once
    """

    def __init__(
        self,
        config: ConsumerConfig,
        hub: Hub,
        budget: Budget,
        registration: Registration,
        decoders: Decoders,
        observe: Callable[[MessageSet], object] | None,
        commit: Callable[[TopicPartition, int], Exception | None],
    ) -> None:
        static = registration.pattern == STATIC
        wanted = [(t if static else None, n) for t, count in registration.subscription.items() for n in range(count)]
        self._made: dict[tuple[str | None, int], tuple[Stream, Lane]] = {}
        for topic, n in wanted:
            # The budget bounds what is on the way; the queue's own limit must never make a fetcher wait.
            channel: BoundedQueue[Share] = hub.bounded_queue(budget.limit)
            stream = Stream(
                f"{topic}-{n}" if topic is not None else str(n),
                channel,
                config.consumer_timeout_ms,
                config.check_crcs,
                config.delivery,
                decoders,
                observe,
                commit,
            )
            self._made[topic, n] = (stream, budget.lane(len(wanted)))

    def of(self, topic: str | None) -> list[Stream]:
        """Those of a topic; None: those of the filter."""
        return [stream for (name, _), (stream, _) in self._made.items() if name == topic]

    def reader_of(self, tp: TopicPartition, thread: str) -> tuple[Stream, Lane]:
        """The stream that a thread id stands for, and its part of the budget."""
        n = int(thread.rpartition("-")[2])
        return self._made.get((tp.topic, n)) or self._made[None, n]

    def close(self, reason: BaseException | None) -> None:
        """Readers end, by the reason if there is one; what they had in their hands is done."""
        for stream, _ in self._made.values():
            stream.channel.close(reason)

    def give_up(self, thread_id: int) -> None:
        """This thread will not come back to its streams: what it has in its hands is not done."""
        for stream, _ in self._made.values():
            stream.give_up(thread_id)

    def raise_next(self, error: ListenerFailed) -> None:
        for stream, _ in self._made.values():
            stream.raise_next(error)
