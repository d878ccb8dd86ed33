"""Iteration of a stream message by message: a chain of the sets of the stream.

The only Python code between a set and its reader is the check whether a message may still be delivered.  The calling
thread is checked before the chain is touched: two threads in one chain would crash the interpreter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, repeat, starmap
from typing import Any

from groundwork import clocks
from groundwork.tasks import current
from kafkawire.errors import CorruptMessage
from kafkawire.model import Message, TopicPartition
from zkconsumer.errors import DecodeFailed
from zkconsumer.fetching.committable import DeliveryTicket
from zkconsumer.fetching.partitioncursor import DeliveredSet
from zkconsumer.streams.observer import SafeObserver
from zkconsumer.streams.onereader import OneReader

NO_EPOCH = -1  # an epoch that no cursor has
NOTHING: dict[None, Message] = {}

Decoder = Callable[[str, bytes], object]  # (topic, key or value) -> its replacement; not called for None


class MessageReader:
    """Message iterator of one stream; used in its reader's thread.

    reader        the stream's reader
    before_next   called before each set, in the reader's thread: the user asks for messages; raises the first of errors
    next_set      returns the next set that may be delivered; the iterator raises its errors
    errors        errors to raise before the next message
    observer      called with each message before its decoders
    """

    def __init__(
        self,
        *,
        reader: OneReader,
        before_next: Callable[[], None],
        next_set: Callable[[], DeliveredSet],
        errors: deque[BaseException],
        check_crcs: bool,
        on_ack: bool,
        decoders: tuple[Decoder | None, Decoder | None],
        observer: SafeObserver | None = None,
    ) -> None:
        self._reader = reader
        self._before_next = before_next
        self._next_set = next_set
        self._errors = errors
        self._check_crcs = check_crcs
        self._on_ack = on_ack
        self._decoders = decoders if decoders != (None, None) else None
        self._observer = observer
        self._set: DeliveredSet | None = None  # set that is iterated
        self._rest: Iterator[Message] | None = None  # rest of that set, if an error was raised in between
        self._through = False  # True if all of it was delivered
        self._over = True  # True if the chain has ended, or was never begun
        self._messages: Iterator[Message] = iter(())

    def messages(self) -> Iterator[Message]:
        """Return the same iterator at each call, until the connector is shut down."""
        if self._over:
            self._messages = self._chained()
        return self._messages

    def _chained(self) -> Iterator[Message]:
        self._over = False
        messages: Iterator[Message] = chain.from_iterable(iter(self._part, None))
        if self._decoders is not None:
            messages = map(self._decoded, messages)
        refused = map(self._reader.__getitem__, starmap(current, repeat(())))  # None, or raises SecondReader
        return map(NOTHING.get, refused, messages)  # the message; all of it without Python code

    def _part(self) -> Iterator[Message] | None:
        """Return the next iterator of the chain; None if the connector was shut down.

        The chain would end if this raised, so an error is a separate part.
        """
        try:
            self._before_next()
            rest, self._rest = self._rest, None
            if self._set is None or rest is None:
                self._end_set(self._through)
                self._set, self._through = self._next_set(), False
                cursor = self._set.cursor
                cursor.report(cursor.partition.iterated, self._set, self._on_ack)
                rest = self._set.message_set.messages(self._check_crcs)
                if self._observer is not None:
                    rest = map(self._observer.message, rest)
            return self._acknowledged(self._set, rest) if self._on_ack else self._spanned(self._set, rest)
        except StopIteration:
            self._over = True
            return None
        except BaseException as e:  # also for ctrl-C
            return _raising(e)

    def _spanned(self, delivered: DeliveredSet, messages: Iterator[Message]) -> Iterator[Message]:
        """Yield the messages of a set that has one ticket.  This check is the whole cost of a message apart from its
        bytes, so the usual answer of may_deliver is inlined here."""
        partition, errors = delivered.cursor.partition, self._errors
        lease = partition.lease
        try:
            for message in messages:
                delivered.delivered_to = message.resume_at  # before the check: a thread that closes reads it afterwards
                if (
                    not partition.delivers or delivered.epoch != partition.epoch or clocks.boot() >= lease.valid_until
                ) and not delivered.may_deliver():
                    return
                message.handed = delivered
                yield message
                delivered.done_to = message.resume_at  # the user came back for the next one
                if errors:
                    self._keep(delivered, messages)
                    return
            self._through = delivered is self._set
        except CorruptMessage as e:
            self._damaged(delivered, e)

    def _acknowledged(self, delivered: DeliveredSet, messages: Iterator[Message]) -> Iterator[Message]:
        """Yield the messages of a set with a ticket for each message."""
        lock, partition = delivered.cursor.lock, delivered.cursor.partition
        lease = partition.lease
        try:
            for message in messages:
                delivered.delivered_to = message.resume_at
                if (
                    not partition.delivers or delivered.epoch != partition.epoch or clocks.boot() >= lease.valid_until
                ) and not delivered.may_deliver():
                    return
                with lock:
                    message.handed = partition.message_ticket(delivered, message.resume_at)
                delivered.done_to = message.resume_at
                yield message
                if self._errors:
                    self._keep(delivered, messages)
                    return
            self._through = delivered is self._set
        except CorruptMessage as e:
            self._damaged(delivered, e)

    def _keep(self, delivered: DeliveredSet, messages: Iterator[Message]) -> None:
        """Keep the remaining messages when an error must be raised first: iteration continues with them afterwards."""
        if delivered is self._set:
            self._rest = messages

    def _decoded(self, message: Message) -> Message:
        """Return the message with decoded key and value.  Raises DecodeFailed."""
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
        except BaseException:  # ctrl-C: not delivered, but a request for the next one would mark it as done
            self._take_back(message)
            raise
        message.key, message.value = key, value
        return message

    def _take_back(self, message: Message) -> None:
        """Take back the last message, which was not delivered: it is fetched again, with the rest of its set."""
        if isinstance(message.handed, DeliveryTicket) and self._set is not None:
            message.handed.cut(message.handed.begin)
            self._set.done_to = message.handed.begin
        if self._set is not None:
            self._set.delivered_to = self._set.done_to
        self._end_set(finished=False)

    def _damaged(self, delivered: DeliveredSet, error: CorruptMessage) -> None:
        """Handle a damaged message: messages before it were delivered, and it is fetched again."""
        if delivered is self._set and self._end_set(finished=False):
            delivered.cursor.on_corrupt(delivered.cursor, delivered.reached, error)

    def _end_set(self, finished: bool) -> bool:
        """End the iteration of a set, if there is one.  Return False if its progress does not count any more."""
        delivered, counts = self._set, False
        if delivered is not None:
            cursor = delivered.cursor
            counts = cursor.report(cursor.partition.iteration_ended, delivered, finished)
            delivered.epoch = NO_EPOCH  # an iterator that is still in it delivers nothing more
        self._set = self._rest = None  # at the end: after an interrupt before it, another try follows
        return counts

    # calls from outside the iteration ---------------------------------------------------------------------------------

    def done(self) -> None:
        """Mark the last delivered message as done, though no other was requested."""
        if self._set is not None:
            self._set.done_to = self._set.delivered_to

    def leave(self) -> None:
        """Mark delivered messages as done; the rest of the set is fetched again."""
        self.done()
        self.give_up()

    def give_up(self) -> None:
        """End the iteration; the last delivered message is not done, and the rest of the set is fetched again."""
        if self._set is not None:
            self._messages = self._chained()  # the old iterator holds the set
            self._end_set(finished=False)


def _raising(error: BaseException) -> Iterator[Message]:
    try:
        raise error
    finally:
        del error  # its traceback refers to this object
    yield
