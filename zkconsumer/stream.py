"""What a user reads: messages one by one, or sets of them as they were fetched.

    for message in stream: ...                 message n counts as done when n + 1 is asked for
    for fetched, share in stream.sets(): ...   share.ticket(resume_at, parts) says what is done: a mirror's way

A stream carries all partitions of one thread id.  The lease and the ownership are looked at whenever something is
handed out; what was fetched for a partition that has been let go since is dropped, not handed out.  consumer.timeout.ms
raises ConsumerTimeout, after which the iterator may be asked again.  The iteration ends when the connector is shut
down, and raises what killed the connector if something did.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from groundwork.crew import now
from groundwork.handover import Closed, Empty, Handover
from kafkawire.errors import CorruptMessage
from kafkawire.model import Message, MessageSet
from zkconsumer.cursor import Share
from zkconsumer.errors import ConsumerTimeout


class Stream:
    """One thread's share of the group's partitions; for one reader at a time.  name is what its thread ids end in."""

    def __init__(self, name: str, channel: Handover[Share], timeout_ms: int = -1, check_crcs: bool = True) -> None:
        self.name = name
        self.channel = channel
        self._timeout_ms = timeout_ms
        self._check_crcs = check_crcs
        self._share: Share | None = None  # the set that is iterated
        self._messages: Iterator[Message] | None = None
        self._last: Message | None = None  # in the user's hands
        self._reader = 0  # the thread that reads

    def sets(self) -> Iterator[tuple[MessageSet, Share]]:
        """Fetched sets, in order per partition.  Raises ConsumerTimeout as the message iterator does."""
        return _Sets(self)

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        self._reader = threading.get_ident()
        share = self._share
        if share is not None and self._last is not None:
            share.reached_at = self._last.resume_at  # the user came back for the next one
            self._last = None
        while True:
            if share is None or self._messages is None:
                share = self._open(self.next_share())
            if not share.may_hand_out():
                self._shut(finished=False)
                share = None
                continue
            try:
                message = next(self._messages, None) if self._messages is not None else None
            except CorruptMessage as e:
                at = share.message_set.start if share.reached_at is None else share.reached_at
                self._shut(finished=False)
                share.cursor.on_corrupt(share.cursor, at, e)
                share = None
                continue
            if message is not None:
                self._last = message
                return message
            self._shut(finished=True)
            share = None

    def next_share(self) -> Share:
        """The next set that may be handed out.  Raises StopIteration after shutdown, ConsumerTimeout."""
        until = now() + self._timeout_ms / 1000 if self._timeout_ms >= 0 else None
        while True:
            try:
                share = self.channel.get(None if until is None else max(0.0, until - now()))
            except Empty:
                raise ConsumerTimeout(f"stream {self.name}: no message within {self._timeout_ms} ms") from None
            except Closed as end:
                if end.__cause__ is not None:
                    raise end.__cause__ from None
                raise StopIteration from None
            if share.cursor.taken(share):
                return share

    def done(self) -> None:
        """The message in the user's hands counts as done, though no other was asked for: for a loop that ends here."""
        if self._share is not None and self._last is not None:
            self._share.reached_at = self._last.resume_at
            self._last = None

    def give_up(self, thread_id: int) -> None:
        """For the reader's own thread, which will not come back: the message in its hands is not done."""
        if self._reader == thread_id and self._share is not None:
            self._last = None
            self._shut(finished=False)

    def _open(self, share: Share) -> Share:
        share.start_reading()
        self._share = share
        self._messages = share.message_set.messages(self._check_crcs)
        return share

    def _shut(self, finished: bool) -> None:
        share, self._share, self._messages = self._share, None, None
        if share is not None:
            share.stop_reading(finished)

    def __repr__(self) -> str:
        return f"<Stream {self.name}>"


class _Sets:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[tuple[MessageSet, Share]]:
        return self

    def __next__(self) -> tuple[MessageSet, Share]:
        share = self._stream.next_share()
        return share.message_set, share
