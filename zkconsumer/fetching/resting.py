"""Resting partitions: partitions read to the end of their log, done and quiet, fetched together at almost no cost each.

Most of many partitions have nothing new most of the time.  A fetcher fetches those that had messages recently (the busy
ones) by its fetch plan; the others rest.

    begins to rest   read to the end, everything done, nothing wrong with it, and no message for REST_AFTER_S
    while it rests   its position is in rows that are encoded once, by topic; a response that repeats what
                     it said before is skipped as bytes; nothing visits its cursor, whose state cannot change
    wakes            any change of its cursor (a message, a pause, a seek, a revocation) makes it busy again

They join a fetch of busy partitions, but not each one: every ASK_S per partition, up to MOST_ASK_S, because many of
them cost the broker time, too.  If nothing is busy, the broker waits for data of the resting ones.

Each stream has one group, since each stream has a part of the budget.  The bytes that they may bring at once are
reserved while they are requested, a little for each: the first message makes a partition busy, and the next fetch takes
the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from kafkawire.model import TopicPartition
from kafkawire.protocol.fetchrows import FetchRows, joined
from zkconsumer.fetching.budget import StreamBudget
from zkconsumer.fetching.partitioncursor import Cursor

REST_AFTER_S = 0.1  # a busy one costs some microseconds per fetch, a resting one a hundredth of that
ASK_S = 25e-6  # per resting partition
MOST_ASK_S = 0.05  # longest delay of a message of a resting partition while others are busy
LEAST_BYTES = 4096  # requested for each
SHARE = 2  # a group takes at most half of its budget
PATIENCE_S = 1.0  # longest time a group may find no free budget; then nothing else is requested, for the same time

Encode = Callable[[Sequence[tuple[TopicPartition, int, int]]], FetchRows]


def offset_of(resting: Cursor) -> int:
    """Return the offset of a resting cursor, which has one."""
    offset = resting.partition.position.offset
    assert offset is not None
    return offset


class Group:
    """Resting partitions of one stream.  stirred(cursor): called when it is busy again."""

    def __init__(self, budget: StreamBudget, usual_bytes: int, stirred: Callable[[Cursor], None]) -> None:
        self.cursors: dict[TopicPartition, Cursor] = {}
        self.asked_at = float("-inf")
        self.answered_at = float("-inf")
        self._budget = budget
        self._usual_bytes = usual_bytes
        self._room = min(budget.limit, budget.of_all) // SHARE
        self._stirred = stirred
        self._by_topic: dict[str, dict[TopicPartition, Cursor]] = {}
        self._rows: dict[str, FetchRows] = {}  # rows of topics without changes since
        self._size = self._encoded_size = 0
        self.encoded = 0  # number of partitions encoded so far, for tests

    def add(self, cursor: Cursor) -> bool:
        """Let a cursor rest.  Return False if there is no room for one more."""
        if (len(self.cursors) + 1) * LEAST_BYTES > self._room:
            return False
        self.cursors[cursor.tp] = cursor
        self._by_topic.setdefault(cursor.tp.topic, {})[cursor.tp] = cursor
        self._rows.pop(cursor.tp.topic, None)
        cursor.rest = self
        return True

    def leave(self, cursor: Cursor) -> None:
        """Remove a cursor that is about to change (Cursor.__enter__)."""
        if self.cursors.get(cursor.tp) is cursor:
            del self.cursors[cursor.tp]
            of_topic = self._by_topic[cursor.tp.topic]
            del of_topic[cursor.tp]
            if not of_topic:
                del self._by_topic[cursor.tp.topic]
            self._rows.pop(cursor.tp.topic, None)
            cursor.end_rest(self.answered_at)
            self._stirred(cursor)

    @property
    def topics(self) -> AbstractSet[str]:
        return self._by_topic.keys()

    @property
    def asked_bytes(self) -> int:
        """Return the bytes that the latest request asked for each."""
        return self._size

    @property
    def due_at(self) -> float:
        """Return when it must be requested although others are busy."""
        return self.asked_at + min(MOST_ASK_S, ASK_S * len(self.cursors))

    def overdue(self, now: float) -> bool:
        """True if it was left out for so long that nothing else may take the free budget.  Not forever: waiting
        partitions may hold the budget, and the others must continue."""
        if now >= self.due_at + 2 * PATIENCE_S:
            self.asked_at = now
        return now >= self.due_at + PATIENCE_S

    @property
    def size(self) -> int:
        """Return the bytes to request for each: a power of two, so that rows stay unchanged when a few come or go."""
        even = min(self._usual_bytes, self._room // max(1, len(self.cursors)))
        return max(LEAST_BYTES, 1 << (max(1, even).bit_length() - 1))

    @property
    def bytes(self) -> int:
        """Return the bytes that they may bring at once."""
        return self._size * len(self.cursors)

    def fits(self, free_bytes: int) -> bool:
        """True if the free budget has room for the bytes that they may bring; if necessary, fewer for each."""
        self._size = self.size
        room = min(free_bytes, self._budget.free_for_resting(len(self.cursors)))
        while self.bytes > room and self._size // 2 >= min(LEAST_BYTES, self._budget.slot):
            self._size //= 2
        return self.bytes <= room

    def rows(self, encode: Encode) -> FetchRows:
        """Return their rows in a request; only topics with changes are encoded again."""
        if self._encoded_size != self._size:
            self._rows.clear()
            self._encoded_size = self._size
        for topic, cursors in self._by_topic.items():
            if topic not in self._rows:
                self.encoded += len(cursors)
                self._rows[topic] = encode([(tp, offset_of(cursor), self._size) for tp, cursor in cursors.items()])
        return joined(self._rows.values())

    def reserve(self) -> int:
        """Reserve and return the bytes that they may bring; release() undoes it."""
        nbytes = self.bytes
        self._budget.reserve(nbytes)
        return nbytes

    def release(self, nbytes: int) -> None:
        self._budget.release(nbytes)


class Resting:
    """Groups of one fetcher.  stirred(cursor): called when it is busy again; usual_bytes: requested for a busy one, at
    least."""

    def __init__(self, usual_bytes: int, stirred: Callable[[Cursor], None]) -> None:
        self.groups: dict[StreamBudget, Group] = {}
        self._usual_bytes = usual_bytes
        self._stirred = stirred
        self._quiet: dict[TopicPartition, tuple[Cursor, float]] = {}  # busy ones that bring nothing, since when

    def __len__(self) -> int:
        return sum(len(group.cursors) for group in self.groups.values())

    def brought_nothing(self, cursor: Cursor, at: float) -> None:
        """Record that a fetch had no message of a busy partition; it rests once that lasts for a while."""
        known, since = self._quiet.setdefault(cursor.tp, (cursor, at))
        if known is not cursor:
            self._quiet[cursor.tp] = cursor, at
        elif at - since >= REST_AFTER_S:
            with cursor.lock:
                may_rest = cursor.partition.at_rest
            if may_rest and self._group(cursor.budget).add(cursor):
                del self._quiet[cursor.tp]

    def busy(self, tp: TopicPartition) -> None:
        """Record that a partition is busy."""
        self._quiet.pop(tp, None)

    def due(self, now: float, alone: bool, free_bytes: int) -> tuple[list[Group], bool]:
        """Return the groups to request now, and whether nothing else may be requested.  alone: nothing is busy."""
        wanted = [g for g in self.groups.values() if g.cursors and (alone or now >= g.due_at)]
        due: list[Group] = []
        for group in wanted:
            if group.fits(free_bytes):
                due.append(group)
                group.asked_at = now
                free_bytes -= group.bytes
        starved = any(group.overdue(now) for group in wanted if group not in due)
        return due, starved

    def next_due(self) -> float | None:
        return min((group.due_at for group in self.groups.values() if group.cursors), default=None)

    def forget(self, tp: TopicPartition) -> None:
        """Forget a partition that is fetched elsewhere from now on, or not at all."""
        self._quiet.pop(tp, None)
        for group in self.groups.values():
            if (cursor := group.cursors.get(tp)) is not None:
                group.leave(cursor)

    def _group(self, budget: StreamBudget) -> Group:
        group = self.groups.get(budget)
        if group is None:
            group = self.groups[budget] = Group(budget, self._usual_bytes, self._stirred)
        return group
