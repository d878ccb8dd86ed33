"""Search for the next readable position behind damage whose size or offset makes no sense.

OffsetSearch   offsets count messages (0.8 and later): fetches at offset + 1, + 2, + 4 .. and back by halves.  A broker
               finds offsets by its sparse index, so the search ends at the next offset in that index, and what is lost
               until there is counted.  Where nothing can be found up to the high watermark there is nothing to go to
ByteSearch     positions are bytes (0.7), and logs have no index, so the bytes themselves are searched:
               here        the next place in the fetched bytes that is an entry by its checksum (d.messages.next_border)
               further on  the same in what follows, half a fetch on each time, so that an entry of up to half a fetch
                           is seen whole
               segments    at the end of the segment, or after MAX_WINDOWS: the next segment of the log begins with an
                           entry; where there is none, the end of the log will be the start of one

What ByteSearch leaves out is counted in bytes; nobody can know how many messages it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from kafkawire.errors import CorruptMessage
from kafkawire.model import Entry, MessageSet, TopicPartition
from zkconsumer.fetching.cursor import Cursor


@dataclass(frozen=True, slots=True)
class Came:
    """What a fetch at `position` brought: all its bytes, and the set that they begin with.

    short: there were no more, although more was asked for: the segment of the log ends here.
    """

    position: int
    raw: memoryview
    message_set: MessageSet
    short: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What became of a search from `start` on: to is where to go on, or None, and what says what is left out, or why
    nothing can be read any more.  count: what is left out, in the unit of positions."""

    start: int
    error: CorruptMessage
    to: int | None
    count: int
    what: str


class Search(Protocol):
    """Of one fetcher's partitions.  A search that is active has its partition fetched elsewhere than its cursor is."""

    def forget(self, tp: TopicPartition) -> None: ...

    def active(self, tp: TopicPartition) -> bool: ...

    def ask_at(self, tp: TopicPartition, position: int) -> int:
        """Where to fetch for one who is at position: there, or where its search looks."""
        ...

    def leads_on(self, cursor: Cursor, came: Came, entry: Entry) -> bool:
        """May the cursor, whose first entry is damaged, go on behind that?"""
        ...

    def stepped(self, cursor: Cursor, entry: Entry, error: CorruptMessage) -> Found:
        """It does."""
        ...

    def begin(self, cursor: Cursor, came: Came, error: CorruptMessage) -> Found | None:
        """What came at the cursor's position leads nowhere; None: the search goes on."""

    def looked(self, tp: TopicPartition, position: int, came: Came | None) -> Found | None:
        """What a search got where it looked (came None: nothing can be read there); None: it goes on."""

    def adrift(self) -> Sequence[TopicPartition]:
        """Those that have to be told where the segments of their logs begin."""
        ...

    def landed(self, tp: TopicPartition, starts: Sequence[int]) -> Found | None:
        """Where they begin, and the end of the log.  None: nobody waits for it any more."""


class Probing(Protocol):
    """A search of one partition: it began at start, and looks at probe now."""

    start: int
    probe: int


P = TypeVar("P", bound=Probing)


class Searches(Generic[P]):
    """What each way keeps of those that are active."""

    def __init__(self) -> None:
        self._searches: dict[TopicPartition, P] = {}

    def forget(self, tp: TopicPartition) -> None:
        self._searches.pop(tp, None)

    def active(self, tp: TopicPartition) -> bool:
        return tp in self._searches

    def ask_at(self, tp: TopicPartition, position: int) -> int:
        search = self._searches.get(tp)
        if search is not None and search.start != position:
            del self._searches[tp]  # it was set elsewhere meanwhile
            search = None
        return position if search is None else search.probe


def first_entry(fetched: MessageSet) -> MessageSet:
    """The first entry of a set as a set."""
    return replace(fetched, runs=(next(fetched.cut(fetched.runs[0], 0)),))


def damage_in(fetched: MessageSet) -> CorruptMessage | None:
    """What is wrong with the first entry, read whole."""
    try:
        for _ in first_entry(fetched).messages():
            pass
    except CorruptMessage as e:
        return e
    return None


@dataclass(slots=True)
class _OffsetProbe:
    """For the first offset that can be read behind `start`; everything up to `bad` cannot."""

    start: int
    error: CorruptMessage
    end: int  # of what may be looked at: the high watermark
    bad: int
    good: int | None = None  # can be read, and this is the offset of what stands there
    first: int = 0
    probe: int = 0

    def next(self) -> int | None:
        """Where to look next; None: that is all."""
        if self.good is None:
            self.probe = min(self.start + max(1, 2 * (self.bad - self.start)), self.end - 1)
        else:
            self.probe = (self.bad + self.good) // 2
        return self.probe if self.probe > self.bad else None


class OffsetSearch(Searches[_OffsetProbe]):
    """A zkconsumer.fetching.search.Search."""

    def leads_on(self, cursor: Cursor, came: Came, entry: Entry) -> bool:
        return (cursor.position or 0) <= entry.offset < (cursor.high_watermark or 0)

    def stepped(self, cursor: Cursor, entry: Entry, error: CorruptMessage) -> Found:
        start = cursor.position or 0
        count = entry.resume_at - start if entry.wrapper else 1
        what = f"the one at offset {entry.offset}, 1"
        if entry.wrapper:
            what = f"a wrapper of unknown size at offset {entry.offset}, at most {count}"
        return Found(start, error, entry.resume_at, count, _missing(what, count))

    def begin(self, cursor: Cursor, came: Came, error: CorruptMessage) -> Found | None:
        search = _OffsetProbe(came.position, error, cursor.high_watermark or 0, bad=came.position)
        self._searches[cursor.tp] = search
        return self._go_on(cursor.tp, search)

    def looked(self, tp: TopicPartition, position: int, came: Came | None) -> Found | None:
        search = self._searches.get(tp)
        if search is None or search.probe != position:
            return None
        fetched = came.message_set if came is not None else None
        found = None if fetched is None or not fetched.runs or damage_in(fetched) else _first_offset(fetched)
        if found is None:
            search.bad = position
        else:
            search.good, search.first = position, found
        return self._go_on(tp, search)

    def _go_on(self, tp: TopicPartition, search: _OffsetProbe) -> Found | None:
        if search.next() is not None:
            return None
        del self._searches[tp]
        if search.good is None:
            nothing = f"and nothing behind it can be found up to {search.end}"
            return Found(search.start, search.error, None, 0, nothing)
        count = search.first - search.start
        what = _missing(f"what the broker cannot find, at most {count}", count)
        return Found(search.start, search.error, search.first, count, what)

    def adrift(self) -> Sequence[TopicPartition]:
        return ()

    def landed(self, tp: TopicPartition, starts: Sequence[int]) -> Found | None:
        """Nobody here ever waits for segments."""
        return None


def _missing(what: str, count: int) -> str:
    return f"{what} {'message is' if count == 1 else 'messages are'} missing"


def _first_offset(fetched: MessageSet) -> int | None:
    """Of the first message that is wanted, in a first entry that is whole."""
    first = next(first_entry(fetched).messages(), None)
    return None if first is None else first.offset


MAX_WINDOWS = 64  # half fetches: 32 MB by the default fetch.message.max.bytes


@dataclass(slots=True)
class _ByteProbe:
    """From `start` on.  probe: where it looks; adrift: not even there can be looked."""

    start: int
    error: CorruptMessage
    probe: int
    windows: int = 0
    adrift: bool = False


class ByteSearch(Searches[_ByteProbe]):
    """A zkconsumer.fetching.search.Search.  next_border(bytes, start): where the next entry begins in them."""

    def __init__(self, next_border: Callable[[memoryview, int], int | None]) -> None:
        super().__init__()
        self._next_border = next_border

    def leads_on(self, cursor: Cursor, came: Came, entry: Entry) -> bool:
        """Only to the end of what there is, or to an entry with a right checksum: from inside a message any bytes may
        look like the head of one."""
        end = entry.resume_at - came.position
        return (came.short and end == len(came.raw)) or self._next_border(came.raw[end:], 0) == 0

    def stepped(self, cursor: Cursor, entry: Entry, error: CorruptMessage) -> Found:
        size = entry.resume_at - entry.offset
        what = (
            f"a wrapper of {size} bytes, and who knows how many messages," if entry.wrapper else f"one of {size} bytes"
        )
        return Found(entry.offset, error, entry.resume_at, size, f"{what} is missing")

    def begin(self, cursor: Cursor, came: Came, error: CorruptMessage) -> Found | None:
        search = self._searches[cursor.tp] = _ByteProbe(came.position, error, came.position)
        return self._look_through(cursor.tp, search, came, 1)

    def looked(self, tp: TopicPartition, position: int, came: Came | None) -> Found | None:
        search = self._searches.get(tp)
        if search is None or search.probe != position:
            return None
        if came is None:
            search.adrift = True
            return None
        return self._look_through(tp, search, came, 0)

    def _look_through(self, tp: TopicPartition, search: _ByteProbe, came: Came, since: int) -> Found | None:
        border = self._next_border(came.raw, since)
        if border is not None:
            return self._found(tp, search, came.position + border)
        search.windows += 1
        if came.short or search.windows >= MAX_WINDOWS:
            search.adrift = True
        else:
            search.probe = came.position + max(1, len(came.raw) // 2)
        return None

    def adrift(self) -> Sequence[TopicPartition]:
        return [tp for tp, search in self._searches.items() if search.adrift]

    def landed(self, tp: TopicPartition, starts: Sequence[int]) -> Found | None:
        search = self._searches.get(tp)
        if search is None:
            return None
        behind = [start for start in starts if start > search.start]
        if behind:
            return self._found(tp, search, min(behind))
        del self._searches[tp]
        return Found(search.start, search.error, None, 0, "and nothing behind it is in the log")

    def _found(self, tp: TopicPartition, search: _ByteProbe, to: int) -> Found:
        del self._searches[tp]
        count = to - search.start
        return Found(search.start, search.error, to, count, f"{count} bytes that make no message are missing")
