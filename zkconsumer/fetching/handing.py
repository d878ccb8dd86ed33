"""What of one owned partition may be handed out, and what is in its user's hands: one side of a cursor.

A cursor is let go in two steps.  `close` ends handing out, while what is in the user's hands may still be finished and
counted; `drop` ends everything: from then on nobody may send for it, and nothing of it is committed.  `epoch` counts
the times what was fetched became worthless (a reset, a refetch): a set of an older epoch is never handed out.

    paused     nothing is fetched or handed out; what comes too late is fetched again at `resume`
    stranded   something due was kept back (the lease was over, a message was damaged): `read_again` fetches it once
               more

The hub moves the position (cursor.py); the user's side, perhaps a plain thread, hands out and settles.  What both touch
is guarded by plain locks, which are never held while anybody waits.
"""

from __future__ import annotations

import threading

from groundwork.tasks import now
from zkconsumer.fetching.budget import Lane
from zkconsumer.fetching.progress import Progress
from zkconsumer.fetching.share import Share
from zkconsumer.session.lease import Lease


class Handing:
    """The state that both sides of a cursor touch, and the user's side of it."""

    def __init__(self, lease: Lease, lane: Lane) -> None:
        self.lease = lease
        self.lane = lane
        self.epoch = 0
        self.closing = False
        self.dropped = False
        self.paused = False
        self.stranded = False  # a set was not handed out though it was due
        self._kept_back = False  # the same while paused
        self._let_go = False  # a sender dropped something because the lease was over: only what is done counts
        self.progress: Progress | None = None
        self.next_out = -1  # where the next set to hand out begins: none is ever left out
        self._jumps: dict[int, int] = {}  # from where to where nothing can be read
        self._parked: Exception | None = None  # before there was a position
        self._fetched_bytes = 0
        self._fetched_sets = 0
        self._untold: set[Share] = set()  # sets in the user's hands whose last ticket was not yet asked for
        self._reading: Share | None = None  # the one that is iterated message by message
        self._unsaid: Share | None = None  # what was to be raised and was kept back
        self._lock = threading.Lock()

    @property
    def parked(self) -> str | None:
        """Why nothing more is delivered, if so."""
        why = self.undeliverable
        return None if why is None else str(why)

    @property
    def undeliverable(self) -> Exception | None:
        """The same as an error: MessageTooLarge, DamagedMessage, OutOfRange, or what a sender failed by."""
        if self.progress is not None and self.progress.parked is not None:
            return self.progress.parked.reason
        return self._parked

    @property
    def drained(self) -> bool:
        """Nothing of it is in the user's hands that may still be done."""
        with self._lock:
            reading = self._reading
            untold = any(share is not reading for share in self._untold)
        if reading is not None and not (self.closing and reading.rests):
            return False
        ticket = None if reading is None else reading.spanning
        return not untold and (self.progress is None or self.progress.idle_but(ticket))

    @property
    def buffered_bytes(self) -> int:
        """In memory: fetched and not done."""
        with self._lock:
            untold = sum(share.nbytes for share in self._untold)
            return self._fetched_bytes + untold + (self.progress.undone_bytes if self.progress else 0)

    # the user's side ----------------------------------------------------------------------------------------------

    def _may_send(self) -> bool:
        """Whoever hears no lets go of what it has; so it has to be read again, even if the lease is renewed right
        after.
        """
        if now() < self.lease.valid_until:
            return True
        self._let_go = self.stranded = True
        return False

    def may_hand_out(self, share: Share) -> bool:
        """Neither closing, paused, nor reset since it was fetched; nothing before it was kept back; the lease holds; it
        lies before what is parked."""
        if self.paused or self.stranded or share.epoch != self.epoch or now() >= self.lease.valid_until:
            return False
        if self.dropped or (self.closing and not share.ahead):
            return False
        parked = self.progress.parked if self.progress is not None else None
        return parked is None or share.message_set.resume_at <= parked.position

    def taken(self, share: Share) -> bool:
        """A stream took a set off its queue: True, it is in the user's hands now; False, it came too late."""
        with self._lock:
            self._fetched_bytes -= share.nbytes
            self._fetched_sets -= 1
            in_turn = share.message_set.start == self._behind(self.next_out)
            fresh = in_turn and not self._kept_back and self.may_hand_out(share)
            if fresh:
                self._forget_jumps(share.message_set.start)
                self.next_out = share.message_set.resume_at
                if share.failure is None:
                    self._untold.add(share)
            elif share.epoch == self.epoch:
                self._keep_back()
                if share.failure is not None:
                    self._unsaid = share
        if not fresh:
            self.lane.give_back(share.nbytes)
        return fresh

    def _keep_back(self) -> None:
        """With the lock held: something that is due is not handed out now."""
        if self.paused or self._kept_back:
            self._kept_back = True
        elif not self.closing and self.parked is None:
            self.stranded = True

    def told(self, share: Share) -> int:
        """The last ticket of a set is being asked for: the bytes it answers for from now on."""
        with self._lock:
            if share not in self._untold:
                return 0
            self._untold.remove(share)
            return share.nbytes

    def reading(self, share: Share) -> None:
        """The set that is iterated message by message: how far that is counts whenever somebody asks what is done."""
        self._reading = share

    def stopped(self, share: Share, at: int | None) -> bool:
        """A set is through, or (at) its user is not given what is in it from there on.

        False: it is from before a reset, and nobody wants to know.
        """
        with self._lock:
            if self._reading is share:
                self._reading = None
            current = share.epoch == self.epoch
            if current and at is not None:
                self.next_out = at
                self._keep_back()
        self.lane.give_back(self.told(share))
        return current

    def _forget_jumps(self, before: int) -> None:
        """With the lock held: nobody comes back to positions before this one but by a new beginning."""
        if self._jumps:
            self._jumps = {at: to for at, to in self._jumps.items() if at >= before}

    def _behind(self, position: int) -> int:
        """Where to go on for one who is at position and has to jump."""
        while position in self._jumps:
            position = self._jumps[position]
        return position
