"""Resting partitions: those that are read to the end of their log, done and quiet, asked for together at no cost each.

Most of many partitions have nothing new most of the time.  A fetcher asks for those that had messages lately (the busy
ones) by its fetch plan; the others rest.

    begins to rest   read to the end, everything done, nothing wrong with it, and no message for REST_AFTER_S
    while it rests   its position is in rows that are encoded once, by topic; a response that says of them what
                     it said before is passed over as bytes; nothing visits its cursor, whose state cannot change
    stirs            whatever changes its cursor (a message, a pause, a seek, a revocation) makes it busy again

They go along with a fetch of busy ones, but not with each: every ASK_S a partition, up to MOST_ASK_S.  So many cost a
broker time, too.  Where nothing is busy the broker waits for data of the resting ones.

One group for each stream, since each stream has a part of the budget.  What they may bring at once is reserved while
they are asked for, a little for each: the first message makes a partition busy, and the next fetch takes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from kafkawire.model import TopicPartition
from kafkawire.protocol.fetchrows import FetchRows, joined
from zkconsumer.fetching.budget import StreamBudget
from zkconsumer.fetching.cursor import Cursor

REST_AFTER_S = 0.1  # a busy one costs some microseconds a fetch, one that rests a hundredth of that
ASK_S = 25e-6  # a partition that rests
MOST_ASK_S = 0.05  # how late a message of one may be noticed while others are busy
LEAST_BYTES = 4096  # asked of each
SHARE = 2  # of its budget a group takes half at most
PATIENCE_S = 1.0  # so long may a group find no room in the budget; then nothing else is asked for, as long

Encode = Callable[[Sequence[tuple[TopicPartition, int, int]]], FetchRows]


class Group:
    """The resting partitions of one stream.  stirred(cursor): it is busy again."""

    def __init__(self, budget: StreamBudget, usual_bytes: int, stirred: Callable[[Cursor], None]) -> None:
        self.cursors: dict[TopicPartition, Cursor] = {}
        self.asked_at = float("-inf")
        self.answered_at = float("-inf")
        self._budget = budget
        self._usual_bytes = usual_bytes
        self._room = min(budget.limit, budget.of_all) // SHARE
        self._stirred = stirred
        self._by_topic: dict[str, dict[TopicPartition, Cursor]] = {}
        self._rows: dict[str, FetchRows] = {}  # of topics where no partition came or went since
        self._size = self._encoded_size = 0
        self.encoded = 0  # partitions so far, for tests

    def add(self, cursor: Cursor) -> bool:
        """Let it rest.  False: there is no room for one more."""
        if (len(self.cursors) + 1) * LEAST_BYTES > self._room:
            return False
        self.cursors[cursor.tp] = cursor
        self._by_topic.setdefault(cursor.tp.topic, {})[cursor.tp] = cursor
        self._rows.pop(cursor.tp.topic, None)
        cursor.rest = self
        return True

    def leave(self, cursor: Cursor) -> None:
        """It changes (Cursor._stir)."""
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
        """Bytes that the newest request asked of each."""
        return self._size

    @property
    def due_at(self) -> float:
        """When it is asked for although others are busy."""
        return self.asked_at + min(MOST_ASK_S, ASK_S * len(self.cursors))

    def overdue(self, now: float) -> bool:
        """It was left out for so long that nothing else may take what is free.  Not for ever: partitions that wait may
        hold the budget, and the others must go on."""
        if now >= self.due_at + 2 * PATIENCE_S:
            self.asked_at = now
        return now >= self.due_at + PATIENCE_S

    @property
    def size(self) -> int:
        """Bytes asked of each: a power of two, so that rows stay as they are when a few come or go."""
        even = min(self._usual_bytes, self._room // max(1, len(self.cursors)))
        return max(LEAST_BYTES, 1 << (max(1, even).bit_length() - 1))

    @property
    def bytes(self) -> int:
        """What they may bring at once."""
        return self._size * len(self.cursors)

    def fits(self, free_bytes: int) -> bool:
        """Whether the budget, of which so much is free, has room for what they may bring; for less of each, if need
        be."""
        self._size = self.size
        room = min(free_bytes, self._budget.free_for_resting(len(self.cursors)))
        while self.bytes > room and self._size // 2 >= min(LEAST_BYTES, self._budget.slot):
            self._size //= 2
        return self.bytes <= room

    def rows(self, encode: Encode) -> FetchRows:
        """Them in a request, encoded again only of topics where one came or went."""
        if self._encoded_size != self._size:
            self._rows.clear()
            self._encoded_size = self._size
        for topic, cursors in self._by_topic.items():
            if topic not in self._rows:
                self.encoded += len(cursors)
                self._rows[topic] = encode([(tp, cursor.resting_at, self._size) for tp, cursor in cursors.items()])
        return joined(self._rows.values())

    def reserve(self) -> int:
        """What they may bring; release() takes that back."""
        nbytes = self.bytes
        self._budget.reserve(nbytes)
        return nbytes

    def release(self, nbytes: int) -> None:
        self._budget.release(nbytes)


class Resting:
    """The groups of one fetcher.  stirred(cursor): it is busy again; usual_bytes: asked of a busy one, at least."""

    def __init__(self, usual_bytes: int, stirred: Callable[[Cursor], None]) -> None:
        self.groups: dict[StreamBudget, Group] = {}
        self._usual_bytes = usual_bytes
        self._stirred = stirred
        self._quiet: dict[TopicPartition, tuple[Cursor, float]] = {}  # busy ones that bring nothing, since when

    def __len__(self) -> int:
        return sum(len(group.cursors) for group in self.groups.values())

    def brought_nothing(self, cursor: Cursor, at: float) -> None:
        """A fetch had no message of a busy partition; it rests once that is so for a while."""
        known, since = self._quiet.setdefault(cursor.tp, (cursor, at))
        if known is not cursor:
            self._quiet[cursor.tp] = cursor, at
        elif at - since >= REST_AFTER_S and cursor.at_rest and self._group(cursor.budget).add(cursor):
            del self._quiet[cursor.tp]

    def busy(self, tp: TopicPartition) -> None:
        """It had something to say."""
        self._quiet.pop(tp, None)

    def due(self, now: float, alone: bool, free_bytes: int) -> tuple[list[Group], bool]:
        """The groups to ask for now, and whether nothing else may be asked for.  alone: nothing is busy."""
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
        """It is fetched elsewhere from now on, or not at all."""
        self._quiet.pop(tp, None)
        for group in self.groups.values():
            if (cursor := group.cursors.get(tp)) is not None:
                group.leave(cursor)

    def _group(self, budget: StreamBudget) -> Group:
        group = self.groups.get(budget)
        if group is None:
            group = self.groups[budget] = Group(budget, self._usual_bytes, self._stirred)
        return group
