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
from itertools import chain
from threading import get_ident
from typing import Any

from groundwork.crew import now
from groundwork.handover import Closed, Empty, Handover
from kafkawire.errors import CorruptMessage
from kafkawire.model import Message, MessageSet, TopicPartition
from zkconsumer.batch import Batch, BatchReader
from zkconsumer.errors import ConsumerTimeout, DecodeFailed
from zkconsumer.fetching.cursor import Share

GONE = -1  # an epoch that no cursor has
AT_LEAST_ONCE, ON_ACK, AT_MOST_ONCE = "at-least-once", "on-ack", "at-most-once"

Decoder = Callable[[str, bytes], object]  # (topic, key or value) -> what takes its place; None is not asked about
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
        channel: Handover[Share],
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
        self._check_crcs = check_crcs
        self._on_ack = delivery == ON_ACK
        self._commit = commit if delivery == AT_MOST_ONCE else None
        self._decoders = decoders if decoders != (None, None) else None
        self._observe = observe
        self._share: Share | None = None  # the set that is iterated
        self._rest: Iterator[Message] | None = None  # of it, where something was to be raised between two of them
        self._through = False  # all of it was handed out
        self._over = True  # the chain has come to its end, or was never begun
        self._handed: Iterator[Message] = iter(())
        self._batches = BatchReader(self.next_share, check_crcs, self._on_ack)
        self._reader = 0  # the thread that reads
        self._errors: deque[BaseException] = deque()

    # message by message -------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        """The same messages whoever asks; a chain, so that no line of Python stands between a set and its reader."""
        self._reader = get_ident()
        if self._over:
            self._handed = self._chained()
        return self._handed

    def __next__(self) -> Message:
        return next(iter(self))

    def _chained(self) -> Iterator[Message]:
        self._over = False
        handed: Iterator[Message] = chain.from_iterable(self._turns())
        return handed if self._decoders is None else map(self._decoded, handed)

    def _turns(self) -> Iterator[Iterator[Message]]:
        """What the messages come from, one after the other, until the connector is shut down."""
        try:
            while (turn := self._turn()) is not None:
                yield turn
        finally:
            self._over = True

    def _turn(self) -> Iterator[Message] | None:
        """The next of them.  A chain ends when this raises: what is to be raised is a turn of its own."""
        try:
            self._begin_asking()
            rest, self._rest = self._rest, None
            if self._share is None or rest is None:
                self._shut(self._through)
                self._batches.leave()
                self._share, self._through = self.next_share(), False
                self._share.start_reading(self._on_ack)
                rest = self._share.message_set.messages(self._check_crcs)
            return self._acknowledged(self._share, rest) if self._on_ack else self._spanned(self._share, rest)
        except StopIteration:
            return None
        except BaseException as e:  # ctrl-C, too
            return _raising(e)

    def _spanned(self, share: Share, messages: Iterator[Message]) -> Iterator[Message]:
        """The messages of a set that has one ticket.  Each look at it is the whole price of a message beside its bytes,
        so the usual answer of may_hand_out is spelled out here."""
        cursor, errors = share.cursor, self._errors
        lease, progress = cursor.lease, cursor.progress
        try:
            for message in messages:
                share.in_hand = message.resume_at  # before the look: who closes looks at it after
                if (
                    cursor.closing
                    or cursor.paused
                    or cursor.stranded
                    or share.epoch != cursor.epoch
                    or now() >= lease.valid_until
                    or progress is None
                    or progress.parked is not None
                ) and not share.may_hand_out():
                    return
                message.handed = share
                yield message
                share.reached_at = message.resume_at  # the user came back for the next one
                if errors:
                    self._keep(share, messages)
                    return
            self._through = share is self._share
        except CorruptMessage as e:
            self._broken(share, e)

    def _acknowledged(self, share: Share, messages: Iterator[Message]) -> Iterator[Message]:
        """The same with a ticket for each."""
        try:
            for message in messages:
                share.in_hand = message.resume_at
                if not share.may_hand_out():
                    return
                message.handed = share.message_ticket(message.resume_at)
                share.reached_at = message.resume_at
                yield message
                if self._errors:
                    self._keep(share, messages)
                    return
            self._through = share is self._share
        except CorruptMessage as e:
            self._broken(share, e)

    def _keep(self, share: Share, messages: Iterator[Message]) -> None:
        """Something is to be raised before the next message: go on with that one afterwards."""
        if share is self._share:
            self._rest = messages

    def _decoded(self, message: Message) -> Message:
        """The message with key and value as the decoders make them.  Raises DecodeFailed."""
        assert self._decoders is not None
        key_decoder, value_decoder = self._decoders
        key: Any = message.key
        value: Any = message.value
        try:
            if key_decoder is not None and key is not None:
                key = key_decoder(message.topic, key)
            if value_decoder is not None and value is not None:
                value = value_decoder(message.topic, value)
        except Exception as e:
            tp = TopicPartition(message.topic, message.partition)
            raise DecodeFailed(tp, message.offset, message, e) from e
        message.key, message.value = key, value
        return message

    def _broken(self, share: Share, error: CorruptMessage) -> None:
        """A damaged message: what came before it was handed out, and it is fetched again."""
        if share is self._share and self._shut(finished=False):
            share.cursor.on_corrupt(share.cursor, share.reached_at, error)

    def _shut(self, finished: bool) -> bool:
        """End the iteration of a set, if there is one.  False: nobody wants to know how far it went."""
        share, self._share, self._rest = self._share, None, None
        wanted = share is not None and share.stop_reading(finished)
        if share is not None:
            share.epoch = GONE  # nothing more of it is handed out by whoever is still at it
        return wanted

    def _put_away(self) -> None:
        """End the iteration from outside of it."""
        if self._share is not None:
            self._handed = self._chained()  # the other one holds the set
            self._shut(finished=False)

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
        self._leave_messages()
        return self._batches.next()

    def _come_back(self) -> None:
        """The reader asks for more than a message: what it had is done, what it left of a set comes again."""
        self._begin_asking()
        self._leave_messages()
        self._batches.leave()

    def _begin_asking(self) -> None:
        self._reader = get_ident()
        if self._errors:
            raise self._errors.popleft()

    def _leave_messages(self) -> None:
        if self._share is not None:
            self._share.reached_at = self._share.in_hand
            self._put_away()

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
        if self._share is not None:
            self._share.reached_at = self._share.in_hand
        self._batches.done()

    def raise_next(self, error: BaseException) -> None:
        """Have error raised when the reader asks next; from any thread."""
        self._errors.append(error)

    def give_up(self, thread_id: int) -> None:
        """For the reader's own thread, which will not come back: what is in its hands is not done."""
        if self._reader != thread_id:
            return
        self._put_away()
        self._batches.give_up()

    def __repr__(self) -> str:
        return f"<Stream {self.name}>"


def _raising(error: BaseException) -> Iterator[Message]:
    try:
        raise error
    finally:
        del error  # its traceback leads here
    yield


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
