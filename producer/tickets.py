"""What a ticket may be besides kafkawire.model.Ticket: whoever gives one to a sender hears more, or decides something.

Each is a Protocol that is looked for on the ticket itself.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Skipping(Protocol):
    """A ticket that goes on without a message that is too large: it hears of each, and of the rest as usual."""

    def skipped(self, reason: Exception) -> None: ...


@runtime_checkable
class Counting(Protocol):
    """A ticket that hears of its messages as they are stored, in order; done() or failed() comes after."""

    def stored(self, count: int, offset: int | None, sure: bool) -> None:
        """The next `count` messages; offset: of the first of them, None where the broker did not say.

        Not sure: they were sent, and nobody acknowledges them.
        """
        ...


@runtime_checkable
class Placing(Protocol):
    """A ticket that hears where its messages were stored; done() or failed() comes after."""

    def placed(self, count: int, offset: int | None, exact: bool) -> None:
        """The next messages.  offset: of the first of them, or less; None where the broker did not say.

        exact: it is just that; not where a wrapper stands before it in the same request, which may hold more messages
        than are counted.
        """
        ...


@runtime_checkable
class Once(Protocol):
    """A ticket whose part, where once is true, fails by Doubtful rather than to be sent again and perhaps stored
    twice."""

    @property
    def once(self) -> bool: ...
