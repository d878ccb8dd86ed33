"""One message after the other: a chain of what the sets of a stream hold, as its reader gets it.

No line of Python stands between a set and its reader but the look whether a message may still be handed out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from groundwork.tasks import now
from kafkawire.errors import CorruptMessage
from kafkawire.model import Message, TopicPartition
from zkconsumer.errors import DecodeFailed
from zkconsumer.fetching.cursor import Share

GONE = -1  # an epoch that no cursor has

Decoder = Callable[[str, bytes], object]  # (topic, key or value) -> what takes its place; None is not asked about


class MessageReader:
    """Of one stream; for its reader's thread.

    begin_asking  is called before each set, in the reader's thread; raises the first of errors
    next_share    the next set, once the reader has left what else it had; raises what the stream's next_share does
    errors        what is to be raised before the next message
    """

    def __init__(
        self,
        begin_asking: Callable[[], None],
        next_share: Callable[[], Share],
        errors: deque[BaseException],
        check_crcs: bool,
        on_ack: bool,
        decoders: tuple[Decoder | None, Decoder | None],
    ) -> None:
        self._begin_asking = begin_asking
        self._next_share = next_share
        self._errors = errors
        self._check_crcs = check_crcs
        self._on_ack = on_ack
        self._decoders = decoders if decoders != (None, None) else None
        self._share: Share | None = None  # the set that is iterated
        self._rest: Iterator[Message] | None = None  # of it, where something was to be raised between two of them
        self._through = False  # all of it was handed out
        self._over = True  # the chain has come to its end, or was never begun
        self._handed: Iterator[Message] = iter(())

    def handed(self) -> Iterator[Message]:
        """The same messages whoever asks, until the connector is shut down."""
        if self._over:
            self._handed = self._chained()
        return self._handed

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
                self._share, self._through = self._next_share(), False
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

    # from outside of the iteration --------------------------------------------------------------------------------

    def done(self) -> None:
        """The message in the reader's hands counts as done, though no other was asked for."""
        if self._share is not None:
            self._share.reached_at = self._share.in_hand

    def leave(self) -> None:
        """What the reader has is done, and what it left of a set comes again."""
        self.done()
        self.give_up()

    def give_up(self) -> None:
        """The same, but what is in its hands is not done."""
        if self._share is not None:
            self._handed = self._chained()  # the other one holds the set
            self._shut(finished=False)


def _raising(error: BaseException) -> Iterator[Message]:
    try:
        raise error
    finally:
        del error  # its traceback leads here
    yield
