"""Shares of a memory budget: limits each partition, so that waiting partitions never stop the others.  Pure.

A partition whose bytes are fetched and not done may wait for anything: a target topic that is being created, a target
broker that is down, a reader.  The fetcher learns that only after it has fetched the bytes, and keeps them.  So the
budget is divided beforehand:

    slots      a quarter of the budget, divided evenly among all partitions.  The free rest of a partition's slot
               stays reserved for it, so every partition can be fetched, whatever the others hold
    waiting    waiting partitions hold at most three quarters together; requests for resting ones count with them
    moving     partitions that are neither new nor stalled take whatever the slots leave

    new        none of its bytes was ever done
    stalled    it holds bytes, and none of its bytes was done for STALL_S
    waits      new or stalled

When every partition holds its slot, those that move can take all of the budget.  An entry that never fits next to the
slots, or next to the repeated requests for resting partitions, is requested once there is room: until then, for at most
SAVE_S, no other partition of any broker is requested.  If it is larger than the budget of its stream, the partitions of
other streams wait as well.

A broker may return an entry that is larger than the request; entry_bytes is the largest such excess so far, and is kept
free as well.

    shares.open() .. close()               a partition begins and ends
    ask, answered, take, give_back         its bytes: requested, response received, fetched, done (or dropped)
    offer(now)                             what one fetch may request: see Offer

Every method takes the same time, however many partitions there are, except save_for, which is rare.
"""

from __future__ import annotations

STALL_S = 1.0
SAVE_S = 2.0  # enough for a long poll and its response
WAITING_SHARE = 3, 4  # of the budget
SLOTS_SHARE = 1, 4
LARGEST_SLOT = 65536  # a fetch plan requests at least this much if there is room
LEAST_SLOT = 512  # below this, not every partition has a slot
LARGEST_MARGIN_SHARE = 1, 8


class Holding:
    """Bytes that one partition holds of a budget.

    asked: in requests without a response; held: fetched and not done.  moved_at: when some of it was last done, or when
    it began to hold anything.
    """

    __slots__ = ("asked", "closed", "held", "moved_at", "new", "stalled")

    def __init__(self) -> None:
        self.asked = self.held = 0
        self.moved_at = float("-inf")
        self.new = True
        self.stalled = self.closed = False

    @property
    def waits(self) -> bool:
        return self.new or self.stalled

    @property
    def bytes(self) -> int:
        return self.asked + self.held

    def waiting_bytes(self, now: float) -> int:
        """Return what it holds if none of that was done for STALL_S, else 0."""
        return self.held if now - self.moved_at >= STALL_S else 0

    def __repr__(self) -> str:
        how = "new" if self.new else "stalled" if self.stalled else "moving"
        return f"<Holding {how}, {self.held} held, {self.asked} asked>"


class Saving:
    """Partition that others wait for, so that its next entry finds room: one at a time, for SAVE_S.

    shares: the shares whose partitions wait.
    """

    def __init__(self) -> None:
        self.shares: list[Shares] = []
        self._whose: tuple[Holding, float] | None = None  # the partition, and until when

    def begin(self, holding: Holding, now: float) -> None:
        """Let the others wait, unless they wait already, or some hold bytes that may never be done: bytes that are only
        requested come back by themselves."""
        if self.whose(now) is None and not any(each.stuck for each in self.shares):
            self._whose = holding, now + SAVE_S

    def end(self, holding: Holding) -> None:
        """Record that a fetch for its entry was sent."""
        if self._whose is not None and self._whose[0] is holding:
            self._whose = None

    def whose(self, now: float) -> Holding | None:
        if self._whose is None or now >= self._whose[1] or self._whose[0].closed:
            return None
        return self._whose[0]


class Shares:
    """Shares of a budget of `limit` bytes.  of_all: for entries larger than that; other shares have the same object.

    used: all bytes taken; waiting: bytes of waiting partitions; kept: bytes kept free for the slots; aside: bytes
    requested for resting partitions.
    """

    def __init__(self, limit: int, of_all: Saving | None = None) -> None:
        self.limit = limit
        self.used = self.waiting = self.kept = self.aside = 0
        self.slot = LARGEST_SLOT
        self.entry_bytes = 0  # largest excess of a response over its request
        self._most_waiting = limit * WAITING_SHARE[0] // WAITING_SHARE[1]
        self._for_slots = limit * SLOTS_SHARE[0] // SLOTS_SHARE[1]
        self._of_all = of_all if of_all is not None else Saving()
        self._saving = Saving()
        for saving in (self._saving, self._of_all):
            saving.shares.append(self)
        self._holdings: dict[Holding, None] = {}
        self._moving: dict[Holding, None] = {}  # partitions that hold bytes, by moved_at

    # partitions -------------------------------------------------------------------------------------------------------

    def open(self) -> Holding:
        """Add a partition, and return its holding."""
        holding = Holding()
        self._holdings[holding] = None
        self.kept += self.slot
        self._fit_slot()
        return holding

    def close(self, holding: Holding) -> None:
        """Remove a partition.  Its remaining bytes count until they are released."""
        if not holding.closed:
            holding.closed = True
            del self._holdings[holding]
            self.kept -= self._own(holding)
            self._fit_slot()

    def _fit_slot(self) -> None:
        """Divide the slots' quarter again.  A slot is a power of two, so that it seldom changes."""
        even = self._for_slots // max(1, len(self._holdings))
        slot = min(LARGEST_SLOT, max(LEAST_SLOT, 1 << (max(1, even).bit_length() - 1)))
        if slot != self.slot:
            self.slot = slot
            self.kept = sum(self._own(holding) for holding in self._holdings)

    def _own(self, holding: Holding) -> int:
        """Return what is left of the slot of a partition."""
        return max(0, self.slot - holding.asked - holding.held)

    # bytes ------------------------------------------------------------------------------------------------------------

    def ask(self, holding: Holding, nbytes: int) -> None:
        """Count the bytes of a request."""
        self._count(holding, asked=nbytes)

    def answered(self, holding: Holding, nbytes: int) -> None:
        """Undo ask(): the response came, or never will."""
        self._count(holding, asked=-nbytes)

    def take(self, holding: Holding, nbytes: int, now: float) -> None:
        """Count the bytes of a fetched set."""
        if not holding.held:
            holding.moved_at = now
        self._count(holding, held=nbytes)
        if holding.held and not holding.waits and holding not in self._moving:
            self._moving[holding] = None

    def give_back(self, holding: Holding, nbytes: int, now: float) -> None:
        """Release bytes that are done or dropped, which counts as moving."""
        if holding.waits:
            self.waiting -= holding.bytes
            holding.new = holding.stalled = False
        self._count(holding, held=-nbytes)
        holding.moved_at = now
        self._moving.pop(holding, None)
        if holding.held:
            self._moving[holding] = None  # behind all that moved before

    def set_aside(self, nbytes: int) -> None:
        """Count bytes requested for resting partitions, out of their slots; a negative number undoes that."""
        self.used += nbytes
        self.aside += nbytes

    def _count(self, holding: Holding, asked: int = 0, held: int = 0) -> None:
        before, change = holding.asked + holding.held, asked + held
        holding.asked += asked
        holding.held += held
        self.used += change
        if holding.new or holding.stalled:
            self.waiting += change
        if not holding.closed:
            self.kept += max(0, self.slot - before - change) - max(0, self.slot - before)

    def larger(self, nbytes: int) -> None:
        """Record by how many bytes a response was larger than requested."""
        most = self.limit * LARGEST_MARGIN_SHARE[0] // LARGEST_MARGIN_SHARE[1]
        self.entry_bytes = min(most, max(self.entry_bytes, nbytes))

    # questions --------------------------------------------------------------------------------------------------------

    def offer(self, now: float) -> Offer:
        """Return what a fetch may request now."""
        while self._moving:
            oldest = next(iter(self._moving))
            if now - oldest.moved_at < STALL_S:
                break
            del self._moving[oldest]
            oldest.stalled = True
            self.waiting += oldest.bytes
        return Offer(self, now)

    @property
    def stuck(self) -> bool:
        """True if a waiting partition holds bytes."""
        return any(each.held and each.waits for each in self._holdings)

    def save_for(self, holding: Holding, size: int, now: float) -> None:
        """Let all others wait for a partition whose next entry, of `size` bytes, never fits together with them."""
        self._saving.begin(holding, now)
        if size > self.limit:
            self._of_all.begin(holding, now)

    def saved(self, holding: Holding) -> None:
        """Record that a fetch for the large entry of a partition was sent: the others need not wait any longer."""
        self._saving.end(holding)
        self._of_all.end(holding)

    def saved_for(self, now: float) -> Holding | None:
        """Return the partition that all others wait for."""
        return self._of_all.whose(now) or self._saving.whose(now)

    @property
    def kept_free(self) -> int:
        """Return the bytes kept free for the slots, with room for one entry that is larger than its slot."""
        kept = min(self.kept, self._for_slots) - self.aside
        return kept + self.entry_bytes if kept > 0 else 0

    def free_for(self, partitions: int, now: float) -> int:
        """Return how many bytes this number of partitions, which hold nothing, may request together."""
        if self.saved_for(now) is not None:
            return 0
        free = self.limit - self.used - max(0, self.kept_free - partitions * self.slot)
        return min(free, self._most_waiting - self.aside)  # the rest are slots of partitions that do not rest

    @property
    def for_waiting(self) -> int:
        """Return the bytes that waiting partitions may still take, in addition to their slots."""
        return self._most_waiting - self.waiting


class Offer:
    """Bytes that one fetch may request.  Each grant leaves less for the next one; the shares count nothing yet."""

    __slots__ = (
        "_alone", "_for_waiting", "_free", "_kept", "_limit", "_nothing_waits", "_now", "_saved", "_shares", "_slot",
    )  # fmt: skip

    def __init__(self, shares: Shares, now: float) -> None:
        self._shares, self._now = shares, now
        self._saved = shares.saved_for(now)
        self._limit, self._slot = shares.limit, shares.slot
        self._free = shares.limit - shares.used
        self._kept = shares.kept_free
        self._for_waiting = shares.for_waiting
        self._alone = shares.used == 0
        self._nothing_waits = shares.waiting == 0

    def room(self, holding: Holding) -> int:
        """Return how many bytes a partition may request without touching the slots of the others; a waiting one also
        stays within the share of all waiting partitions.  That share does not limit grant_slot()."""
        if self._waits_for_another(holding):
            return 0
        own = self._slot - holding.asked - holding.held
        room = self._free - self._kept
        if own > 0:
            room += min(own, self._kept)
        if (holding.new or holding.stalled) and self._for_waiting < room:
            room = self._for_waiting
        return self._limit if self._alone else room

    def grant(self, holding: Holding, size: int) -> None:
        """Grant a partition `size` bytes, at most its room."""
        self._count(holding, size, max(0, self._slot - holding.asked - holding.held))

    def grant_slot(self, holding: Holding, wanted: int, known: int = 0) -> int:
        """Grant a partition what is left of its slot, however much the others hold; return the bytes, or 0.

        known: the size of its next entry, if it is known and larger than its slot.
        """
        own = self._slot - holding.asked - holding.held
        if own < LEAST_SLOT or self._waits_for_another(holding):
            return 0
        size = known if known > own else min(wanted, own)  # less than the whole entry brings nothing
        intact = size <= own and self._free >= self._kept
        fits = intact or not holding.waits or size <= self._for_waiting
        if size > min(wanted, self._free) or not fits:
            if size > own:
                self._save(holding, size, self._free)
            return 0
        self._count(holding, size, own)
        self._shares.saved(holding)
        return size

    def grant_whole(self, holding: Holding, size: int) -> bool:
        """Grant a partition `size` bytes, for one large entry.  Return False if there is no room, or others go
        first."""
        if self._waits_for_another(holding):
            return False
        own = max(0, self._slot - holding.asked - holding.held)
        room = self._free - max(0, self._kept - own)
        if size > self._limit - self._kept:
            room = self._free  # the entry never fits together with the slots of the others
        fits = size <= room and (not holding.waits or self._nothing_waits or size <= self._for_waiting)
        if not (fits or self._alone):
            self._save(holding, size, room)
            return False
        self._count(holding, size, own)
        self._shares.saved(holding)
        return True

    def save(self, holding: Holding, size: int) -> None:
        """Let the others wait for a partition, whose entry of `size` bytes is more than all streams have free."""
        if not self._waits_for_another(holding):
            self._save(holding, size, self._free)

    def _save(self, holding: Holding, size: int, room: int) -> None:
        # Requests for resting partitions are repeated, so their bytes never come free unless the entry waits for them.
        if size > self._limit - self._kept or size <= room + self._shares.aside:
            self._shares.save_for(holding, size, self._now)

    def spent(self, least: int) -> bool:
        """True if no partition has room for `least` bytes."""
        if self._saved is not None:
            return False  # room may come yet
        return not self._alone and self._free - max(0, self._kept - self._slot) < least

    def _waits_for_another(self, holding: Holding) -> bool:
        return self._saved is not None and self._saved is not holding

    def _count(self, holding: Holding, size: int, own: int) -> None:
        self._alone = False
        self._free -= size
        self._kept = max(0, self._kept - min(own, size))
        if holding.waits:
            self._for_waiting -= size
            self._nothing_waits = False
