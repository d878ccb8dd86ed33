"""One owned partition: where it is read, what of it is in memory, what may be committed.

    position     the next one to fetch              >=
    handed out   sets that a stream gave its user   >=
    committable  everything before it is done       >=  committed, what the offset store has

Three ways to read on from a position: `begin` counts afresh, and what is in the user's hands does not count any more (a
seek, a reset); `go_on` goes on counting, for what was fetched and not handed out; `read_again` chooses between them.

Here is the hub's side, which moves the position; the user's, which hands out and settles, is in handing.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from groundwork.queues import BoundedQueue
from kafkawire.errors import CorruptMessage
from kafkawire.model import MessageSet, TopicPartition
from zkconsumer.errors import Undeliverable
from zkconsumer.fetching.budget import Lane
from zkconsumer.fetching.handing import Handing
from zkconsumer.fetching.progress import Progress
from zkconsumer.fetching.share import Share as Share
from zkconsumer.offsets.former import TopicCreation
from zkconsumer.session.lease import Lease


@dataclass(frozen=True, slots=True)
class Seek:
    """Why and how a position has to be looked up: out_of_range is the one that was refused.

    former: it is of an earlier topic (FormerOffset.reason), so it does not count though it lie inside the log.
    """

    reset: str
    out_of_range: int | None = None
    former: str = ""


class Cursor(Handing):
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
        channel: BoundedQueue[Share],
        reset: str = "smallest",
        on_corrupt: Callable[[Cursor, int, CorruptMessage], None] = lambda cursor, at, error: None,
    ) -> None:
        super().__init__(lease, lane)
        self.tp = tp
        self.thread = thread
        self.position: int | None = None  # None: to be looked up at the leader
        self.seek = Seek(reset)
        self.committed: int | None = None
        self.topic: TopicCreation | None = None  # the one whose log is read; None: not known
        self.log_gone = False  # that topic was deleted: its positions are not to be committed any more
        self.high_watermark: int | None = None
        self.end_told_at = float("-inf")  # when the high watermark was told last, in seconds of a monotonic clock
        self.on_corrupt = on_corrupt
        self._damage: dict[int, int] = {}  # by position, how often it was met there
        self._channel = channel

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
        """Read on at `to`: between there is nothing that can be read.  What was fetched before is still handed out."""
        if self.position is not None:
            with self._lock:
                self._jumps[self.position] = to
                self.position = self._behind(to)  # what follows may be known to be damaged already
            self.land()

    def land(self) -> None:
        """Where nothing was fetched behind a jump yet, what is done moves behind it, too, once all before it is."""
        if not self._jumps or self._passed():
            return
        done = self.committable()
        to = self.position
        if done is not None and to is not None and done != to == self._behind(done):
            ahead = {begin: end for begin, end in self._jumps.items() if begin >= to}
            self.begin(to)
            self._jumps = ahead  # damage that the fetch met already, behind what a reader met

    def _passed(self) -> bool:
        """A jump that all before it was given out for, counted like a message that is done already."""
        progress, to = self.progress, self.position
        with self._lock:
            at = self.next_out
            if progress is None or to is None or at == to or self._behind(at) != to:
                return False
            if progress.given != at or not progress.goes_on_at(at):
                return False
            progress.ticket(to, 0)
            self.next_out = to
            self._forget_jumps(to)
        return True

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
        """Everything before it is done.  None: nothing may be committed (no position yet, dropped, its log is gone)."""
        progress = self.progress
        if self.dropped or self.log_gone or progress is None:
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

    def end_is(self, high_watermark: int, at: float) -> None:
        """A broker told where the log ends."""
        self.high_watermark = high_watermark
        self.end_told_at = at

    @property
    def lag(self) -> int | None:
        """What lies between what is done and the end of the log as it was last told, however long ago that is, in the
        unit of positions: messages (an upper bound on a compacted topic), or bytes of 0.7."""
        done = self.committable()
        return None if done is None or self.high_watermark is None else max(0, self.high_watermark - done)

    def __repr__(self) -> str:
        state = f"parked: {self.parked}" if self.parked else f"{self._fetched_sets} buffered"
        return f"<Cursor {self.tp} at {self.position}, {state}>"
