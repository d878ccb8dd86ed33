"""Fetch plan: decides what to fetch from a broker next, so that all requests fit the free budget.  Pure.

A fetch of 0.8 only has a limit per partition, so the sum of the limits is the bound.  The rules:

    turns     the least recently requested partition comes first; before it one that got nothing though it
              has messages: since 0.10.1 only the first of a request gets an entry that is larger than its size
    left out  a partition that is paused, parked or backing off, or holds its cap of undone bytes (a set may exceed it)
    size      fetch_bytes each, less if a cursor is throttled; if that does not fit, an equal part of what is free,
              but at least min_bytes; if not even that fits for all, fewer partitions are requested and the others come
              first next time
    growth    up to 0.10.0 a message larger than the request is requested by its own size, or by twice the size
              if that is unknown, up to max_bytes, and this size is never cut; once it came the partition returns
              to the normal size
    saving    if a grown size does not fit, no partition after it is requested, so that released bytes go to it.
              This lasts for SAVE_S, while the shares let the others wait; then it backs off for REST_S: a slow
              neighbour that holds the budget must not stop the rest
    shares    what each may take when others need memory, see shares.py.  If that is less than min_bytes, a partition
              whose turn it is requests what is left of its slot, after a moment
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Protocol

from kafkawire.model import TopicPartition
from zkconsumer.fetching.shares import SAVE_S

MIN_BYTES = 65536  # smaller sets cost more in requests than they save in memory
SHORT_S = 0.02  # all are short of memory for this long: each may take its slot
DENIED_S = 0.1  # one alone is denied for this long, because it waits, or others are quicker
REST_S = 5.0

Asked = tuple[TopicPartition, int, int]  # partition, offset, size


class FetchablePartition(Protocol):
    """Interface of a partition, as far as a plan needs it."""

    @property
    def fetch_offset(self) -> int | None:
        """Return the offset to fetch; None if nothing may be fetched: unknown, paused, parked or about to be
        revoked."""

    @property
    def buffered_bytes(self) -> int:
        """Return the bytes fetched and not done."""

    @property
    def fetch_limit(self) -> int | None:
        """Return the maximum of bytes per fetch if it is throttled; a larger message is still fetched whole."""


class Fetchable(Protocol):
    """Interface of a cursor, as far as a plan needs it."""

    @property
    def tp(self) -> TopicPartition: ...

    @property
    def partition(self) -> FetchablePartition: ...


class Offers(Protocol):
    """Budgets for the cursors of a plan: an Offer (shares.py) from the budget that each belongs to."""

    def room(self, cursor: Any) -> int: ...
    def grant(self, cursor: Any, size: int) -> None: ...
    def grant_slot(self, cursor: Any, wanted: int, known: int) -> int: ...
    def grant_whole(self, cursor: Any, size: int) -> bool: ...
    def save(self, cursor: Any, size: int) -> None: ...
    def spent(self, least: int) -> bool: ...


class Unshared:
    """Budget without shares: each cursor may take what is free."""

    def __init__(self, free_bytes: int) -> None:
        self._free = free_bytes

    def room(self, cursor: Fetchable) -> int:
        return self._free

    def grant(self, cursor: Fetchable, size: int) -> None:
        self._free -= size

    def grant_slot(self, cursor: Fetchable, wanted: int, known: int) -> int:
        return 0

    def grant_whole(self, cursor: Fetchable, size: int) -> bool:
        self._free -= size
        return True

    def save(self, cursor: Fetchable, size: int) -> None:
        """Do nothing: there are no other cursors."""

    def spent(self, least: int) -> bool:
        return self._free < least


class FetchPlan:
    """Plan for the partitions fetched by one greenlet: those of one broker, or of all.

    fetch_bytes: the normal request size (fetch.message.max.bytes); max_bytes: how far it may grow for one message;
    cap_bytes: undone bytes at which a partition is left out, None for two fetches.
    """

    def __init__(
        self,
        fetch_bytes: int,
        max_bytes: int,
        cap_bytes: int | None = None,
        min_bytes: int = MIN_BYTES,
    ) -> None:
        self.fetch_bytes = fetch_bytes
        self.max_bytes = max(max_bytes, fetch_bytes)
        self.cap_bytes = 2 * fetch_bytes if cap_bytes is None else cap_bytes
        self.min_bytes = min(min_bytes, fetch_bytes)
        self._cursors: dict[TopicPartition, Fetchable] = {}  # least recently asked first
        self._until: dict[TopicPartition, float] = {}  # backing off
        self._grown: dict[TopicPartition, int] = {}
        self._small: dict[TopicPartition, int] = {}  # least number of bytes to request, if less than min_bytes
        self._denied: dict[TopicPartition, float] = {}  # since when it is its turn without free memory
        self._short_since: float | None = None  # since when there is no free memory for any
        self._saving: tuple[TopicPartition, float] | None = None  # for which partition, until when
        self.left_out = 0  # in the latest fetch: partitions that only wait for their turn

    def follow(self, cursors: Iterable[Fetchable]) -> None:
        """Plan for these partitions from now on; the order of turns stays."""
        now_there = {cursor.tp: cursor for cursor in cursors}
        kept = {tp: now_there[tp] for tp in self._cursors if tp in now_there}
        self._cursors = {**kept, **now_there}
        self._until = {tp: at for tp, at in self._until.items() if tp in now_there}
        self._grown = {tp: size for tp, size in self._grown.items() if tp in now_there}
        self._small = {tp: size for tp, size in self._small.items() if tp in now_there}
        self._denied = {tp: at for tp, at in self._denied.items() if tp in now_there}

    def next(
        self, free_bytes: int, now: float, but: Collection[TopicPartition] = (), offers: Offers | None = None
    ) -> list[Asked]:
        """Return (partition, offset, size) for the next fetch; the sizes together are at most free_bytes.

        but: partitions in a fetch that is in flight.  offers: their shares; None: each may take what is free.
        """
        offers = Unshared(free_bytes) if offers is None else offers
        least = self.min_bytes
        ready = [
            (tp, cursor, offset)
            for tp, cursor in self._cursors.items()
            if tp not in but and (offset := self._fetch_offset(tp, cursor.partition, now)) is not None
        ]
        rooms = [offers.room(cursor) for _, cursor, _ in ready]
        with_room = sum(room >= least for room in rooms)
        even = max(least, min(self.fetch_bytes, min(free_bytes, max(rooms, default=0)) // (with_room or 1)))
        asked: list[Asked] = []
        full = 0  # number that requested as much as they may
        for (tp, cursor, offset), room in zip(ready, rooms, strict=True):
            if free_bytes <= 0:
                break
            grown = self._grown.get(tp)
            if grown is not None:
                if grown > free_bytes:
                    offers.save(cursor, grown)
                    if self._saves_for(tp, now):
                        break
                    continue
                size = grown if offers.grant_whole(cursor, grown) else 0
                full += size > 0
            else:
                limit = cursor.partition.fetch_limit
                size = even if limit is None else min(even, max(limit, least))
                if room >= least and (room := min(offers.room(cursor), free_bytes)) >= least:
                    size = min(size, room)
                    offers.grant(cursor, size)
                    full += 1
                elif full:
                    if offers.spent(least):
                        break
                    continue
                elif not self._may_take_slot(tp, now):
                    continue
                else:
                    size = offers.grant_slot(cursor, min(size, free_bytes), self._small.get(tp, 0))
            if size:
                asked.append((tp, offset, size))
                free_bytes -= size
        if full or not ready:
            self._short_since = None
        elif self._short_since is None:
            self._short_since = now
        self.left_out = max(0, with_room - full)
        for tp, _, _ in asked:
            self._cursors[tp] = self._cursors.pop(tp)  # to the end of the turns
            self._denied.pop(tp, None)
            if self._saving is not None and self._saving[0] == tp:
                self._saving = None
        return asked

    def _may_take_slot(self, tp: TopicPartition, now: float) -> bool:
        """True if it may request its slot alone.  Small sets cost more, so if memory is only short for a moment it
        waits for its turn."""
        if self._short_since is not None and now >= self._short_since + SHORT_S:
            return True
        return now >= self._denied.setdefault(tp, now) + DENIED_S

    def _fetch_offset(self, tp: TopicPartition, partition: FetchablePartition, now: float) -> int | None:
        """Return the offset to fetch next; None if the partition is left out."""
        if self._until.get(tp, now) > now or partition.buffered_bytes >= self.cap_bytes:
            return None
        return partition.fetch_offset

    def _saves_for(self, tp: TopicPartition, now: float) -> bool:
        """True if the others wait for tp; one at a time."""
        if self._saving is None or self._saving[0] not in self._cursors:
            self._saving = (tp, now + SAVE_S)
        whose, until = self._saving
        if whose != tp:
            return False
        if now < until:
            return True
        self._saving = None
        self._until[tp] = now + REST_S
        return False

    def back_off(self, tp: TopicPartition, until: float) -> None:
        """Leave it out until then (monotonic seconds): its broker refused, or it has nothing new."""
        if tp in self._cursors:
            self._until[tp] = until

    def hurry(self, tp: TopicPartition) -> None:
        """Request it first next time."""
        if tp in self._cursors:
            self._cursors = {tp: self._cursors[tp], **self._cursors}

    def too_small(self, tp: TopicPartition, asked: int, needed: int) -> bool:
        """Handle a fetch of `asked` bytes without a complete message; `needed` is the size of the first one, 0 if
        unknown.

        Return True if more is requested next time, or False if it is larger than max_bytes, so that the partition must
        be parked.
        """
        if max(needed, asked + 1) > self.max_bytes:
            return False
        if max(needed, asked + 1) <= self.min_bytes:
            self._small[tp] = needed or 2 * asked  # it rested, or had its slot alone, so the request was small
            return True
        # If the request was large enough and it did not come, needed cannot be trusted.
        self._grown[tp] = min(self.max_bytes, needed if needed > asked else 2 * asked)
        return True

    def whole(self, tp: TopicPartition) -> None:
        """Return to the normal size, because a complete message came."""
        self._grown.pop(tp, None)
        self._small.pop(tp, None)

    def wake_at(self, now: float) -> float | None:
        """Return when the next partition that backs off, or waits for memory, is due; None if none does."""
        due = [at for at in self._until.values() if at > now]
        if self._short_since is not None:
            due.append(self._short_since + SHORT_S)
        return min((at for at in due if at > now), default=None)

    def __repr__(self) -> str:
        return f"<FetchPlan of {len(self._cursors)} partitions, {len(self._grown)} grown>"
