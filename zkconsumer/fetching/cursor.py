"""One owned partition: where it is read, what of it is in memory, what may be committed.

    position     the next one to fetch              >=
    handed out   sets that a stream gave its user   >=
    committable  everything before it is done       >=  committed, what the offset store has

A cursor is let go in two steps.  `close` ends handing out, while what is in the user's hands may still be finished and
counted; `drop` ends everything: from then on nobody may send for it, and nothing of it is committed.  `epoch` counts
the times what was fetched became worthless (a reset, a refetch): a set of an older epoch is never handed out.

    paused     nothing is fetched or handed out; what comes too late is fetched again at `resume`
    stranded   something due was kept back (the lease was over, a message was damaged): `read_again` fetches it once
               more

Three ways to read on from a position: `begin` counts afresh, and what is in the user's hands does not count any more (a
seek, a reset); `go_on` goes on counting, for what was fetched and not handed out; `read_again` chooses between them.

The hub moves the position; the user's side, perhaps a plain thread, hands out and settles.  What both touch is guarded
by plain locks, which are never held while anybody waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from groundwork.crew import now
from groundwork.handover import Handover
from kafkawire.errors import CorruptMessage
from kafkawire.model import MessageSet, TopicPartition
from zkconsumer.errors import Undeliverable
from zkconsumer.fetching.budget import Lane
from zkconsumer.fetching.progress import Progress
from zkconsumer.fetching.share import Share as Share
from zkconsumer.session.lease import Lease


@dataclass(frozen=True, slots=True)
class Seek:
    """Why and how a position has to be looked up: out_of_range is the one that was refused."""

    reset: str
    out_of_range: int | None = None


class Cursor:
    """A partition this connector owns, from the claim on; thread is the thread id that owns it.

    reset says where to begin when no position was ever committed.

    on_corrupt(cursor, resume_at, error) is called, on the user's side, when a message met while iterating is damaged;
    the hub then calls go_on(resume_at), if next_out is still that.
    """

    def __init__(
        self,
        tp: TopicPartition,
        thread: str,
        lease: Lease,
        lane: Lane,
        channel: Handover[Share],
        reset: str = "smallest",
        on_corrupt: Callable[[Cursor, int, CorruptMessage], None] = lambda cursor, at, error: None,
    ) -> None:
        self.tp = tp
        self.thread = thread
        self.position: int | None = None  # None: to be looked up at the leader
        self.seek = Seek(reset)
        self.committed: int | None = None
        self.high_watermark: int | None = None
        self.epoch = 0
        self.closing = False
        self.dropped = False
        self._damage: dict[int, int] = {}  # by position, how often it was met there
        self.on_corrupt = on_corrupt
        self.progress: Progress | None = None
        self.paused = False
        self.stranded = False  # a set was not handed out though it was due
        self._let_go = False  # a sender dropped something because the lease was over: only what is done counts
        self._kept_back = False  # the same while paused
        self.next_out = -1  # where the next set to hand out begins: none is ever left out
        self._jumps: dict[int, int] = {}  # from where to where nothing can be read
        self._parked: Exception | None = None  # before there was a position
        self.lease = lease
        self.lane = lane
        self._channel = channel
        self._fetched_bytes = 0
        self._fetched_sets = 0
        self._untold: set[Share] = set()  # sets in the user's hands whose last ticket was not yet asked for
        self._reading: Share | None = None  # the one that is iterated message by message
        self._unsaid: Share | None = None  # what was to be raised and was kept back
        self._lock = threading.Lock()

    # the hub's side -----------------------------------------------------------------------------------------------

    def begin(self, position: int) -> None:
        """Read from here on; what was fetched before, from elsewhere, is worthless."""
        self._end_progress()
        with self._lock:
            self.epoch += 1
            self.position = self.next_out = position
            self._jumps.clear()
            self.stranded = self._let_go = self._kept_back = False
            self.progress = Progress(position, self._may_send, self.lane.give_back)

    def go_on(self, position: int) -> None:
        """Fetch again from position on, which is where handing out stands; what is in the user's hands still counts.

        Where that cannot be (something from there on was given out, or let go) it begins at what is done.  From what is
        parked on nothing is fetched: unpark() is for that.
        """
        with self._lock:
            keeps = self._keep(position)
        if not keeps:
            self._begin_again(position)

    def read_again(self) -> None:
        """Fetch once more what was kept back; for one that is stranded."""
        with self._lock:  # a reader may just be saying where it stopped
            position = self.next_out
            keeps = self._keep(position)
        if not keeps and self.progress is not None:
            self._begin_again(position)

    def _keep(self, position: int) -> bool:
        """With the lock held: go on at position, unless that cannot be."""
        if self._let_go or self.progress is None or not self.progress.goes_on_at(position):
            return False
        self.epoch += 1
        self.position = self.next_out = self._behind(position)
        self.stranded = self._kept_back = False
        for share in (*self._untold, self._reading):
            if share is not None:
                share.epoch = self.epoch  # what is in the user's hands is none of those that came too late
        return True

    def _begin_again(self, position: int) -> None:
        parked = self.progress.parked if self.progress is not None else None
        if self.dropped:
            return
        if parked is not None and position >= parked.position:
            self._say_once_more()
            return
        done = self.committable()
        self.begin(position if done is None else min(position, done))

    def _say_once_more(self) -> None:
        """The stream was to raise why it is parked, and came too late."""
        with self._lock:
            unsaid, self._unsaid = self._unsaid, None
            if unsaid is not None:
                self._kept_back = self.stranded = False
        if unsaid is not None and unsaid.epoch == self.epoch:
            self.deliver(unsaid.message_set, unsaid.nbytes, unsaid.failure)

    def pause(self) -> None:
        """Fetch and hand out nothing until resume(); what is in the user's hands may still be done and committed."""
        self.paused = True
        self.discard_fetched()

    def resume(self) -> None:
        """End a pause: a set in the middle of its iteration goes on, what came too late is fetched again."""
        with self._lock:
            self.paused = False
            kept_back = self._kept_back
        if kept_back and not self.closing:
            self.read_again()

    def lose(self, seek: Seek) -> None:
        """The position is no good (any more): it has to be looked up."""
        self._end_progress()
        with self._lock:
            self.epoch += 1
            self.position = None
            self._jumps.clear()
            self.progress = None
            self.seek = seek

    def jump(self, to: int) -> None:
        """Read on at `to`: what lies between cannot be read.  What was fetched before it is still handed out."""
        if self.position is not None:
            with self._lock:
                self._jumps[self.position] = to
                self.position = self._behind(to)  # what follows may be known to be damaged already
            self.land()

    def land(self) -> None:
        """Everything before a jump is done, and nothing was fetched behind it yet: what is done moves behind it too."""
        done = self.committable() if self._jumps else None
        to = self.position
        if done is not None and to is not None and done != to == self._behind(done):
            ahead = {begin: end for begin, end in self._jumps.items() if begin >= to}
            self.begin(to)
            self._jumps = ahead  # damage that the fetch met already, behind what a reader met

    def _behind(self, position: int) -> int:
        """Where to go on for one who is at position and has to jump."""
        while position in self._jumps:
            position = self._jumps[position]
        return position

    def deliver(self, message_set: MessageSet, nbytes: int, failure: Exception | None = None) -> None:
        """Pass a fetched set to the stream; its nbytes count until it is done or dropped.

        failure: the stream raises this in place of the set, which is empty.
        """
        with self._lock:
            share = Share(self, message_set, nbytes, failure)
            self.position = self._behind(message_set.resume_at)
            if message_set.high_watermark is not None:
                self.high_watermark = message_set.high_watermark
            self._fetched_bytes += nbytes
            self._fetched_sets += 1
        self.lane.take(nbytes)
        self._channel.put(share, 0)  # bounded by the budget, so that no stream ever blocks a fetcher

    def committable(self) -> int | None:
        """Everything before it is done.  None: nothing may be committed (no position yet, or dropped)."""
        progress = self.progress
        if self.dropped or progress is None:
            return None
        reading = self._reading
        if reading is not None:
            reading.tell()
        return progress.committable

    def close(self) -> None:
        """Hand out nothing more."""
        self.closing = True

    def drop(self) -> None:
        """Let go at once: nothing more is handed out, sent or committed."""
        self.closing = self.dropped = True
        self._end_progress()

    def park(self, reason: str | Exception, at_once: bool = False) -> None:
        """Deliver nothing from the fetch position on; at_once: nothing that is not in the user's hands already.

        The partition stays owned.
        """
        why = Undeliverable(reason) if isinstance(reason, str) else reason
        if self.progress is None:
            self._parked = why
        else:
            self.progress.park(why, None if at_once else self.position)

    def unpark(self) -> bool:
        """Read once more from what is done.  False: not parked, or what came before it is still under way."""
        if self.closing or self.parked is None or not self.drained:
            return False
        self._parked = None
        # Known already: found damaged once more it is parked at once, in the same words.
        self._damage = {at: times - 1 for at, times in self._damage.items()}
        at = self.committable()
        if at is not None:
            self.begin(at)
        return True

    def discard_fetched(self) -> None:
        """Take what nobody has taken yet off the stream's queue; for one that is closing."""
        for share in self._channel.drop(lambda share: share.cursor is self):
            self.taken(share)  # too late: gives its bytes back

    def count_damage(self, position: int) -> int:
        """How many times the entry at this position was found damaged, this one included."""
        times = self._damage.get(position, 0) + 1
        done = self.committable() or 0
        self._damage = {at: count for at, count in self._damage.items() if at >= done} | {position: times}
        return times

    def _end_progress(self) -> None:
        with self._lock:
            untold, self._untold = self._untold, set()
            self._reading = None
        if self.progress is not None:
            self.progress.close()
        self.lane.give_back(sum(share.nbytes for share in untold))

    @property
    def fetchable(self) -> bool:
        """Neither parked nor paused nor about to be let go (a FetchPlan asks)."""
        return not self.closing and not self.paused and not self.stranded and self.parked is None

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

    @property
    def lag(self) -> int | None:
        """What lies between what is done and the end of the log as it was last told, in the unit of positions:
        messages (an upper bound on a compacted topic), or bytes of 0.7."""
        done = self.committable()
        return None if done is None or self.high_watermark is None else max(0, self.high_watermark - done)

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

    def __repr__(self) -> str:
        state = f"parked: {self.parked}" if self.parked else f"{self._fetched_sets} buffered"
        return f"<Cursor {self.tp} at {self.position}, {state}>"
