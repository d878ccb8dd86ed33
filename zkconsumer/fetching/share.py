"""One fetched set on its way from a cursor through a stream, and how its reader says what of it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from groundwork.tasks import now
from kafkawire.model import MessageSet
from zkconsumer.fetching.progress import Progress, ShareTicket

if TYPE_CHECKING:
    from zkconsumer.fetching.cursor import Cursor


class Share:
    """One fetched set on its way through a stream, and how its reader says what of it is done."""

    __slots__ = (
        "_progress",
        "ahead",
        "cursor",
        "epoch",
        "failure",
        "in_hand",
        "message_set",
        "nbytes",
        "reached_at",
        "spanning",
    )

    def __init__(self, cursor: Cursor, message_set: MessageSet, nbytes: int, failure: Exception | None = None) -> None:
        assert cursor.progress is not None
        self.cursor = cursor
        self.message_set = message_set
        self.nbytes = nbytes
        self.failure = failure  # raised in its place
        self.epoch = cursor.epoch
        self.ahead = False  # it was committed before it is handed out
        # Of a set that is iterated: where the message ends that is in the user's hands or on its way there, and up to
        # where nothing of it waits for the reader: the messages there are done, or have tickets of their own.
        self.in_hand = self.reached_at = message_set.start
        self.spanning: ShareTicket | None = None  # one ticket for a set that is iterated
        self._progress = cursor.progress

    def ticket(self, resume_at: int, parts: int = 1) -> ShareTicket:
        """A ticket for what lies before resume_at; `parts` of it have to be done.  Ask in the order of the positions.

        The one that ends the set carries the set's bytes: they are given back when it settles.
        """
        last = resume_at >= self.message_set.resume_at
        return self._progress.ticket(resume_at, parts, self.cursor.told(self) if last else 0)

    def may_hand_out(self) -> bool:
        return self.cursor.may_hand_out(self)

    @property
    def stint(self) -> object:
        """The same object for all sets of a partition from one beginning to the next: another one says that reading
        began anew, most likely at another position."""
        return self._progress

    @property
    def topic(self) -> int | None:
        """The czxid of the topic whose log it is of: another one says that the topic was created again."""
        return None if self.cursor.topic is None else self.cursor.topic.czxid

    @property
    def begins_new_log(self) -> bool:
        """Its partition was begun by the reset policy, as the committed offset was of an earlier topic."""
        return bool(self.cursor.seek.former)

    def holding(self) -> Callable[[], bool]:
        """A question that may be kept when the set is gone: whether nobody else can own the partition yet, since the
        lease holds and it was not let go.  Asking it changes nothing."""
        progress, lease = self._progress, self.cursor.lease
        return lambda: not progress.closed and now() < lease.valid_until

    # committed first ----------------------------------------------------------------------------------------------

    def count_ahead(self) -> None:
        """All of it counts as done from here on, before anybody has seen it; how far its reader is no longer counts."""
        self._progress.ticket(self.message_set.resume_at, 0)
        cursor = self.cursor
        self._progress = Progress(self.message_set.start, cursor._may_send, cursor.lane.give_back)
        self.ahead = True

    # iterated -----------------------------------------------------------------------------------------------------

    def start_reading(self, on_ack: bool = False) -> None:
        """It is iterated message by message: one ticket for all of it, reached step by step; on_ack: one for each."""
        self.cursor.reading(self)  # first: what has its last ticket and is not read is no more in the user's hands
        if not on_ack:
            self.spanning = self.ticket(self.message_set.resume_at)

    @property
    def rests(self) -> bool:
        """Nothing of it waits for the reader to come back, unless more is handed out."""
        return not self.ahead and self.reached_at >= self.in_hand

    def acked(self, resume_at: int) -> None:
        """A message of it was acknowledged (kafkawire.model.Handed), and with it those before: they were handed out
        before it and another one was asked for."""
        if resume_at > self.reached_at:
            self.reached_at = resume_at

    def message_ticket(self, resume_at: int) -> ShareTicket:
        """A ticket for the next message alone; the bytes of the set stay with the set."""
        return self._progress.ticket(resume_at)

    def tell(self) -> None:
        if self.spanning is not None:
            self.spanning.reached(self.reached_at)

    def stop_reading(self, finished: bool) -> bool:
        """The iteration is through, or it ends early, at reached_at: the rest is fetched again, here or by others.

        False: that is of no interest any more (Cursor.stopped).
        """
        if self.spanning is None and finished:
            self.ticket(self.message_set.resume_at, 0)
        elif self.spanning is not None and finished:
            self.spanning.done()
        elif self.spanning is not None:
            self.spanning.cut(self.reached_at)
        return self.cursor.stopped(self, None if finished else self.reached_at)

    def __repr__(self) -> str:
        return f"<Share of {self.message_set!r}>"
