"""Steps of one source partition on their way through transactions.  Pure.

Step         what a route made of a range of the source: its parts, and their tickets, which learn nothing before
             the transaction is committed
StepQueue    steps in order: which of them a transaction takes, and what happens to them when it ends

committed    the tickets of its steps are done, so the source may commit behind them
aborted      its steps are at the head of the queue again, to go unchanged into the next transaction
failed       one of its steps can never be stored.  A transaction is all or nothing: it is aborted, the steps before
             that one are sent without it, and then that one alone; so all before it is in the target when it fails
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkawire.model import Part, Ticket, TopicPartition
from producer.outcomes import OffsetListener


class Failure(NamedTuple):
    """Reason why a part can never be stored, its ticket, and the source offset where it ends as far as known."""

    ticket: Ticket
    reason: Exception
    at: int | None


class Step:
    """Parts that end at one source position, with the tickets that they would have without a transaction."""

    __slots__ = ("_placed", "alone", "attempt", "failure", "items", "left", "reached", "resume_at", "size")

    def __init__(self, resume_at: int, items: Sequence[tuple[Part, Ticket]]) -> None:
        self.resume_at = resume_at
        self.items = items
        self.size = sum(len(part.entries) for part, _ in items)
        self.alone = False  # alone in its transaction, because it failed in one with others
        self.attempt = 0
        self.left = len(items)  # parts not stored yet in this attempt
        self.reached: int | None = None  # source offset up to which its only part is stored
        self.failure: Failure | None = None
        self._placed: list[tuple[OffsetListener, int, int | None, bool]] = []

    @property
    def targets(self) -> set[TopicPartition]:
        """Return the partitions that the step is sent to."""
        return {part.tp for part, _ in self.items}

    @property
    def wanted(self) -> bool:
        """True if each of its parts may still be sent."""
        return all(ticket.may_send() for _, ticket in self.items)

    def parts(self, stored: Callable[[], object], failed: Callable[[], object]) -> list[tuple[Part, StepTicket]]:
        """Return its parts for one attempt.  stored() is called when the last part is stored; failed() when a part
        failed."""
        return [(part, StepTicket(self, ticket, stored, failed)) for part, ticket in self.items]

    def placed(self, listener: OffsetListener, count: int, offset: int | None, exact: bool) -> None:
        """Record where a part is stored; it counts once the transaction is committed."""
        self._placed.append((listener, count, offset, exact))

    def again(self) -> None:
        """Prepare for another attempt: the transaction was aborted, so the target has no part of the step."""
        self.attempt += 1
        self.left, self.reached, self.failure = len(self.items), None, None
        self._placed.clear()

    def done(self) -> None:
        """Complete its tickets: the transaction was committed."""
        self._tell_placed()
        for _, ticket in self.items:
            ticket.done()

    def fail(self, reason: Exception, at: int | None, committed: int | None = None) -> None:
        """Fail its tickets: it can never be stored.  `committed`: the offset up to which its only part is in the target
        all the same."""
        ticket = self.failure.ticket if self.failure is not None else self.items[0][1]
        if committed is not None:
            self._tell_placed()
            ticket.reached(committed)
        ticket.failed(reason, at)

    def _tell_placed(self) -> None:
        for listener, count, offset, exact in self._placed:
            listener.placed(count, offset, exact)
        self._placed.clear()


class StepTicket:
    """Ticket of one part in one attempt (kafkawire.model.Ticket, producer.outcomes.OffsetListener)."""

    __slots__ = ("_attempt", "_failed", "_step", "_stored", "_ticket")

    def __init__(self, step: Step, ticket: Ticket, stored: Callable[[], object], failed: Callable[[], object]) -> None:
        self._step = step
        self._ticket = ticket
        self._attempt = step.attempt
        self._stored = stored
        self._failed = failed

    @property
    def _counts(self) -> bool:
        return self._step.attempt == self._attempt

    def may_send(self) -> bool:
        return self._counts and self._ticket.may_send()

    def placed(self, count: int, offset: int | None, exact: bool) -> None:
        if self._counts and isinstance(self._ticket, OffsetListener):
            self._step.placed(self._ticket, count, offset, exact)

    def reached(self, resume_at: int) -> None:
        if self._counts:
            self._step.reached = resume_at

    def done(self) -> None:
        if self._counts:
            self._step.left -= 1
            if not self._step.left:
                self._stored()

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        if self._counts and self._step.failure is None:
            self._step.failure = Failure(self._ticket, reason, resume_at)
            self._failed()


class StepQueue:
    """Waiting steps (`waiting`) and those of the open transaction (`open`), in the order of the source."""

    def __init__(self) -> None:
        self.waiting: deque[Step] = deque()
        self.open: list[Step] = []
        self.size = 0  # bytes of the open transaction
        self._first = 0  # index of the first open step that is not stored

    def take(self, max_bytes: int) -> list[Step]:
        """Return the steps that join the open transaction now; at least one if it is empty.

        A step that is no longer wanted stays in the queue: it would end the transaction with everything before it.
        """
        taken: list[Step] = []
        while self.waiting and not self.full(max_bytes) and self.waiting[0].wanted:
            step = self.waiting.popleft()
            self.size += step.size
            taken.append(step)
            self.open.append(step)
        return taken

    def dismiss(self, holds: Callable[[], bool]) -> None:
        """Drop steps at the head that are no longer wanted: a message before them parked the partition, which is
        fetched again from that message.

        holds(): True if the lease holds.  Without the lease no step is wanted, but all of them are again once it is
        renewed.
        """
        while self.waiting and not self.waiting[0].wanted and holds():  # keep this order: the lease may end in between
            self.waiting.popleft()

    def full(self, max_bytes: int) -> bool:
        """True if no waiting step fits into the open transaction."""
        if not (self.open and self.waiting):
            return False
        head = self.waiting[0]
        return head.alone or self.open[0].alone or self.size + head.size > max_bytes

    def enough(self, max_bytes: int) -> bool:
        """True if the open transaction gains nothing by staying open: it is full; or it is half full and stored, and
        nothing waits.  Then the source may deliver nothing before the commit, which frees the bytes that it holds."""
        return self.full(max_bytes) or (not self.waiting and 2 * self.size >= max_bytes and self.stored)

    @property
    def stored(self) -> bool:
        """True if all of the open transaction is acknowledged."""
        self._pass_stored()
        return self._first == len(self.open)

    @property
    def failed(self) -> Step | None:
        """Return the first step of the open transaction that can never be stored."""
        return next((step for step in self._unstored() if step.failure is not None), None)

    @property
    def end(self) -> int:
        """Return the position behind the open transaction."""
        return self.open[-1].resume_at

    @property
    def unwanted(self) -> bool:
        """True if a part of the open transaction may not be sent any more."""
        return not all(step.wanted for step in self._unstored())

    def _unstored(self) -> Sequence[Step]:
        """Return the open steps, beginning with the first that is not stored."""
        self._pass_stored()
        return self.open[self._first :]

    def _pass_stored(self) -> None:
        while self._first < len(self.open) and not self.open[self._first].left:
            self._first += 1

    def committed(self) -> None:
        """Complete the steps of the open transaction: it was committed."""
        done = self._ended()
        for step in done:
            step.done()

    def aborted(self, culprit: Step | None = None) -> None:
        """Return the steps of the aborted transaction to the queue.  `culprit`: the step that caused it, which goes
        alone next time."""
        if culprit is not None:
            culprit.alone = True
        for step in reversed(self._ended()):
            step.again()
            self.waiting.appendleft(step)

    def _ended(self) -> list[Step]:
        ended, self.open, self.size, self._first = self.open, [], 0, 0
        return ended
