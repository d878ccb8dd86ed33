"""One partition on paper: the machine, and what surrounds it.  No clock, no thread, no broker.

The world fetches, takes, reads, sends and acknowledges as fetchers, streams and senders do, one step at a time and in
any order the caller likes.  It keeps its own count of what is done, and says at the step where a promise is broken:

    what may be committed has passed a message that is not done     it fell though nobody read on from elsewhere
    bytes were given back that were not taken, or the other way     a message was left out
    something was delivered of an old epoch, after the lease, of a paused, revoked or closed partition
    asking changed something, or the second answer was another one
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kafkawire.model import TopicPartition
from zkconsumer.fetching.committable import DeliveryTicket, Progress
from zkconsumer.fetching.partition import Do, FetchedSet, Partition, State, Taken
from zkconsumer.session.lease import Lease

T = TypeVar("T")
TP = TopicPartition("orders", 0)
MESSAGE_BYTES = 10


class Violation(AssertionError):
    """A promise of the consumer was broken."""


class World:
    """said: what the newest events did, for a story.  make: the machine, or one that is broken on purpose."""

    def __init__(self, make: Callable[[TopicPartition, Lease], Partition] = Partition) -> None:
        self.now = 0.0
        self.lease = Lease()
        self.lease.valid_until = math.inf
        self.partition = make(TP, self.lease)
        self.queue: deque[FetchedSet] = deque()  # of the stream
        self.held_bytes = 0  # of the memory budget
        self.tickets: dict[int, DeliveryTicket] = {}  # by where they end
        self.taken: FetchedSet | None = None  # the set whose tickets are given out
        self.read: FetchedSet | None = None  # the set that is iterated
        self.waits: FetchedSet | None = None  # it is committed before it is delivered
        self.said: list[str] = []
        self._done: set[int] = set()  # messages, by offset; also those that a seek led past
        self._delivered: set[int] = set()
        self._skipped: set[int] = set()
        self._before: set[int] = set()  # what was done before a set that is committed first
        self._parts: dict[int, int] = {}  # of a ticket, by id, those that are not done
        self._on_ack = False
        self._paused = self._revoked = self._closed = False
        self._kept: list[FetchedSet | DeliveryTicket] = []  # so that no id is used twice
        self._period: Progress | None = None
        self._began = self._committable = 0
        self._moved = True  # the caller reads on from elsewhere: what may be committed may be anything
        self.committed: int | None = None

    # events ---------------------------------------------------------------------------------------------------------

    def start(self, position: int | None) -> None:
        self.committed = position
        self.partition.lead(True)
        self._seek(lambda: self.said.append("locate") if position is None else self.partition.reset_to(position))

    def seek(self, position: int) -> None:
        self._seek(lambda: self.partition.reset_to(position))
        self.discard()

    def out_of_range(self) -> None:
        """A broker refuses the position."""
        self._happens(self.partition.refuse_position)

    def relocate(self, to: int) -> None:
        """The leader's log says where to read on: at the refused position, behind a gap, or at an earlier offset."""
        position = self.partition.position
        if position.refused is None:
            return
        if to > position.refused:
            counted = position.count_gap(position.refused, to, self.partition.done)
            self.said.append(f"{counted} counted as missing")
        self._skipped.update(range(position.refused, to))
        self._happens(lambda: self.partition.relocate(to))

    def go_back(self) -> None:
        """The fetcher asks whether everything that was fetched is done."""
        done, began, refused = self._done | self._skipped, self._began, self.partition.position.refused

        def event() -> int | None:
            lost = self.partition.go_back()
            self._moved = lost is not None
            return lost

        lost = self._happens(event)
        if lost is None:
            self.said.append("not yet")
            return
        assert refused is not None
        missing = len(set(range(began, refused)) - done)
        if missing > lost:
            raise Violation(f"it went back, and said that {lost} are lost, where {missing} are not done")
        if lost:
            self.said.append(f"{lost} given back are in no log")
        self._done.clear()  # of another log
        self._delivered.clear()
        self._skipped.clear()

    def lead(self, known: bool) -> None:
        self._happens(lambda: self.partition.lead(known))

    def fetched(self, start: int, resume_at: int, failure: Exception | None = None) -> None:
        """A response to the newest request; a fetcher throws away one that was asked for in an older epoch."""
        fetched = FetchedSet(start, resume_at, (resume_at - start) * MESSAGE_BYTES, failure)
        self.partition.log_ends(max(resume_at, self.partition.high_watermark or 0))
        self._happens(lambda: self.partition.fetched(fetched))

    def take(self, commit_first: bool = False) -> Taken | None:
        """The stream takes the next set off its queue."""
        if not self.queue:
            return None
        fetched = self.queue.popleft()

        def event() -> Taken | None:
            taken = self.partition.taken(fetched, self.now, commit_first)
            if taken is Taken.COMMIT:
                self._before = set(self._done)
                self._done.update(range(fetched.start, fetched.resume_at))  # as far as a commit is concerned
            return taken

        return self._delivers(fetched, self._happens(event))

    def commit_ended(self, committed: bool) -> Taken | None:
        """Of the set that is committed before it is delivered."""
        fetched, self.waits = self.waits, None
        if fetched is None:
            return None
        if not committed:
            self._done -= set(range(fetched.start, fetched.resume_at)) - self._before
            self._committable = min(self._committable, fetched.start)
        taken = self._happens(lambda: self.partition.commit_ended(fetched, self.now, committed))
        return self._delivers(fetched, taken)

    def _delivers(self, fetched: FetchedSet, taken: Taken | None) -> Taken | None:
        if taken is None:
            return None
        self.said.append(f"{taken.value} {fetched.resume_at if taken is Taken.COMMIT else named(fetched)}")
        if taken is Taken.COMMIT:
            self.waits = fetched
        else:
            self._check_delivery(fetched)
            self.taken = fetched
        return taken

    def _check_delivery(self, fetched: FetchedSet) -> None:
        partition = self.partition
        if fetched.epoch != partition.epoch:
            raise Violation(f"{fetched} of epoch {fetched.epoch} is delivered in {partition.epoch}")
        if self.now >= self.lease.valid_until:
            raise Violation(f"{fetched} is delivered though the lease is over")
        if self._paused or self._closed or (self._revoked and not fetched.committed_first):
            raise Violation(f"{fetched} is delivered by a partition that is paused, revoked or closed")
        left_out = set(range(self._began, fetched.start)) - self._delivered - self._skipped
        if left_out:
            raise Violation(f"{sorted(left_out)} were left out before {fetched}")
        if fetched.failure is None:
            self._delivered.update(range(fetched.start, fetched.resume_at))

    # a sender -------------------------------------------------------------------------------------------------------

    def send(self, resume_at: int, parts: int = 1) -> None:
        """A sender gets what lies before resume_at of the set that was taken."""
        fetched = self.taken
        if fetched is None:
            return

        ticket = self._happens(lambda: self.partition.ticket(fetched, resume_at, parts))
        self.tickets[resume_at] = ticket
        self._kept.append(ticket)
        self._parts[id(ticket)] = parts
        if resume_at >= fetched.resume_at:
            held = self.held_bytes
            self._happens(lambda: self.partition.ended(fetched, None))
            assert self.held_bytes == held  # its bytes are with the ticket
            self.taken = None

    def ask(self, name: int) -> bool:
        return bool(self._of_ticket(name, lambda t: self.partition.may_send(t, self.now), False))

    def ack(self, name: int) -> None:
        def event(ticket: DeliveryTicket) -> None:
            self._parts[id(ticket)] -= 1
            if self._parts[id(ticket)] == 0:
                self._done.update(range(ticket.begin, ticket.resume_at))
            self.partition.ticket_done(ticket)

        self._of_ticket(name, event)

    def reached(self, name: int, at: int) -> None:
        def event(ticket: DeliveryTicket) -> None:
            if ticket.parts == 1:
                self._done.update(range(ticket.begin, min(at, ticket.resume_at)))
            self.partition.ticket_reached(ticket, at)

        self._of_ticket(name, event)

    def fail(self, name: int) -> None:
        self._of_ticket(name, lambda t: self.partition.ticket_failed(t, ValueError(f"{t.begin} is too large")))

    def drop(self, name: int) -> None:
        self._of_ticket(name, self.partition.ticket_dropped)

    def _of_ticket(self, name: int, event: Callable[[DeliveryTicket], object], otherwise: object = None) -> object:
        ticket = self.tickets.get(name)
        return otherwise if ticket is None else self._happens(lambda: event(ticket))

    # a loop over messages -------------------------------------------------------------------------------------------

    def next(self, on_ack: bool = False) -> int | None:
        """The next message of a `for message in stream`; None: there is none now.  As MessageReader does it."""
        while True:
            if self.read is None and not self._next_set(on_ack):
                return None
            fetched = self.read
            assert fetched is not None
            if fetched.delivered_to > fetched.done_to and fetched.set_ticket is not None:
                self._done.update(range(fetched.done_to, fetched.delivered_to))
                fetched.done_to = fetched.delivered_to  # the user came back
            at = fetched.delivered_to
            if at == fetched.resume_at:
                self._end_reading(finished=True)
                continue
            fetched.delivered_to = at + 1
            if not self.partition.may_deliver(fetched, self.now):
                self._end_reading(finished=False)
                continue
            if self._on_ack:
                ticket = self.tickets[at + 1] = self.partition.message_ticket(fetched, at + 1)
                self._kept.append(ticket)
                self._parts[id(ticket)] = 1
                fetched.done_to = at + 1
            self._delivered.add(at)
            self._check()
            return at

    def _next_set(self, on_ack: bool) -> bool:
        while self.queue:
            if self.take() is Taken.DELIVER:
                fetched, self.taken = self.taken, None
                assert fetched is not None
                self._delivered -= set(range(fetched.start, fetched.resume_at))  # one by one
                self.read, self._on_ack = fetched, on_ack
                self._kept.append(fetched)
                self._happens(partial(self.partition.iterated, fetched, on_ack))
                return True
        return False

    def _end_reading(self, finished: bool) -> None:
        fetched, self.read = self.read, None
        assert fetched is not None
        self._happens(lambda: self.partition.iteration_ended(fetched, finished))

    def leave(self) -> None:
        """The user asks the stream for something else: the message in hand is done."""
        if self.read is not None:
            if self.read.set_ticket is not None:
                self._done.update(range(self.read.done_to, self.read.delivered_to))
                self.read.done_to = self.read.delivered_to
            self._end_reading(finished=False)

    def ack_message(self) -> None:
        """message.ack() on the one in hand."""
        fetched = self.read
        if fetched is not None and fetched.set_ticket is not None:
            self._done.update(range(fetched.start, fetched.delivered_to))
            self._happens(lambda: fetched.acked(fetched.delivered_to))

    # the log --------------------------------------------------------------------------------------------------------

    def damaged(self) -> int:
        """The entry at the position is damaged once more."""
        position = self.partition.position
        return 0 if position.offset is None else position.count_damage(position.offset, self.partition.done)

    def skip_to(self, to: int) -> None:
        if self.partition.position.offset is not None:
            self._skipped.update(range(self.partition.position.offset, to))
            self._happens(lambda: self.partition.skip_to(to))

    def pass_skips(self) -> None:
        self._happens(self.partition.pass_skips)

    def park(self, why: str, at_once: bool = False) -> None:
        self._happens(lambda: self.partition.park(ValueError(why), at_once))

    def unpark(self, go_on_at: int | None = None) -> bool:
        parked, done = self.partition.parked_at, self.partition.committable()
        self._moved = go_on_at is not None
        begun = self._happens(lambda: self.partition.unpark(go_on_at))
        self._moved = False
        if begun and go_on_at is not None and parked is not None and done is not None:
            lost = set(range(done, parked.position)) - self._delivered - self._skipped
            if lost:
                raise Violation(f"it goes on at {go_on_at}, and {min(lost)} before {parked} was never delivered")
            self._skipped.update(range(done, go_on_at))
        return begun

    # stops and starts -----------------------------------------------------------------------------------------------

    def pause(self) -> None:
        self._paused = True
        self._happens(self.partition.pause)

    def resume(self) -> None:
        self._paused = False
        self._happens(self.partition.resume)

    def throttle(self, limit: int | None) -> None:
        self._happens(lambda: self.partition.throttle(limit))

    def lease_ends(self) -> None:
        self.lease.valid_until = self.now
        self.now += 1

    def lease_renewed(self) -> None:
        self.lease.valid_until = math.inf

    def tend(self) -> None:
        """The engine's timer: what was withheld is fetched again, once the lease is valid."""
        if self.partition.state is State.WITHHELD and self.now < self.lease.valid_until:
            self._happens(self.partition.refetch_withheld)

    def revoke(self) -> None:
        self._revoked = True
        self._happens(self.partition.revoke)
        self.discard()

    def close(self) -> None:
        self._closed = True
        self._happens(self.partition.close)
        self.discard()

    def discard(self) -> None:
        """What is in the queue of the stream comes back; what is delivered meanwhile is a violation."""
        while self.queue:
            self._happens(partial(self.partition.given_back, self.queue.popleft(), self.now))

    def commit(self) -> int | None:
        """The timer: what may be committed, if that is news."""
        done = self.partition.committable()
        if done is None or done == self.committed:
            return None
        self.committed = done
        return done

    # what follows ---------------------------------------------------------------------------------------------------

    def _seek(self, event: Callable[[], object]) -> None:
        self._moved = True
        self._happens(event)

    def _happens(self, event: Callable[[], T]) -> T:
        epoch, before = self.partition.epoch, self.partition.position.offset
        result = event()
        actions = self.partition.take_actions()
        after = self.partition.position.offset
        queues = any(action.do is Do.QUEUE for action in actions)
        for action in actions:
            if action.do is Do.GIVE_BACK:
                self.held_bytes -= action.nbytes
                self.said.append(f"give back {action.nbytes} bytes")
            elif action.do is Do.QUEUE:
                queued = action.fetched
                assert queued is not None
                self.held_bytes += queued.nbytes
                self.queue.append(queued)
                self._kept.append(queued)
                self.said.append(f"queue {named(queued)}")
            else:
                self.said.append("discard what is queued")
                self.discard()
        moved = before != after if after is None else (before, epoch) != (after, self.partition.epoch)
        if moved and not queues:
            self.said.append("locate" if after is None else f"fetch from {after}")
        self._check()
        return result

    # promises -------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        partition = self.partition
        before = _all_of(partition)
        answers = [self._asked() for _ in range(2)]
        if answers[0] != answers[1] or _all_of(partition) != before:
            raise Violation(f"asking changed something: {answers}, {before}")
        self._check_commit(partition.committable())
        self._check_bytes()

    def _asked(self) -> tuple[object, ...]:
        p = self.partition
        may = [p.may_deliver(fetched, self.now) for fetched in (self.read, self.taken) if fetched is not None]
        return (
            p.committable(),
            p.drained,
            p.buffered_bytes,
            p.at_rest,
            p.undeliverable,
            p.parked_at,
            p.state,
            may,
        )

    def _check_commit(self, committable: int | None) -> None:
        progress = self.partition.progress
        if progress is not self._period:
            before, self._period = self._committable, progress
            if progress is not None:
                if not self._moved and self._passed(before, progress.committable):
                    raise Violation(f"it reads on at {progress.committable}, though {before} is done only")
                self._began = self._committable = progress.committable
                self._moved = False
        if committable is None or progress is None:
            return
        if committable < self._committable:
            raise Violation(f"committable fell from {self._committable} to {committable}")
        missing = self._passed(self._began, committable)
        if missing:
            raise Violation(f"{committable} may be committed, and {missing} are not done")
        self._committable = committable

    def _passed(self, before: int, after: int) -> list[int]:
        return sorted(set(range(before, after)) - self._done - self._skipped)

    def _check_bytes(self) -> None:
        partition, buffered = self.partition, self.partition.buffered_bytes
        committed_first = any(isinstance(one, FetchedSet) and one.committed_first for one in self._kept)
        if self.held_bytes < buffered or (not committed_first and self.held_bytes != buffered):
            raise Violation(f"{self.held_bytes} bytes are taken, and {buffered} held by {partition}")


def named(fetched: FetchedSet) -> str:
    return f"{fetched.start}..{fetched.resume_at}"


def _all_of(partition: Partition) -> str:
    ledger = partition.progress
    said = {name: value for name, value in vars(partition).items() if name not in ("lease", "position")}
    said |= {name: getattr(partition.position, name) for name in partition.position.__slots__}
    return f"{said} {None if ledger is None else vars(ledger)}"
