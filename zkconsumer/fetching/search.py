"""Search for the next readable offset behind damage whose size or offset is invalid.

OffsetSearch   offsets count messages (0.8 and later): fetches at offset + 1, + 2, + 4 .. and back by halves.  A broker
               finds offsets by its sparse index, so the search ends at the next offset in that index, and the messages
               lost until there are counted.  If nothing can be found up to the high watermark, the search fails
ByteSearch     offsets are bytes (0.7), and logs have no index, so the bytes themselves are searched:
               here        the next place in the fetched bytes that is an entry by its checksum (d.messages.next_border)
               further on  likewise in the following bytes, half a fetch further each time, so that an entry of up to
                           half a fetch is seen whole
               segments    at the end of the segment, or after MAX_WINDOWS: the next segment of the log begins with an
                           entry; if there is none, the end of the log will be the start of one

What ByteSearch skips is counted in bytes; the number of messages is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from kafkawire.errors import CorruptMessage
from kafkawire.model import Entry, MessageSet, TopicPartition
from zkconsumer.fetching.partitioncursor import Cursor

MAX_WINDOWS = 64  # half fetches: 32 MB by the default fetch.message.max.bytes


@dataclass(frozen=True, slots=True)
class FetchedBytes:
    """Result of a fetch at `position`: all its bytes, and the set that they begin with.

    short: there were fewer bytes than requested: the segment of the log ends here.
    """

    position: int
    raw: memoryview
    message_set: MessageSet
    short: bool


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of a search from `start`.

    to: the offset to resume at, or None.  what: a description of what is skipped, or why nothing more can be read.
    count: the size of what is skipped, in the unit of offsets.
    """

    start: int
    error: CorruptMessage
    to: int | None
    count: int
    what: str


class Search(Protocol):
    """Searches for the partitions of one fetcher.  The partition of an active search is fetched at another offset than
    its cursor's."""

    def forget(self, tp: TopicPartition) -> None: ...

    def active(self, tp: TopicPartition) -> bool: ...

    def fetch_at(self, tp: TopicPartition, position: int) -> int:
        """Return where to fetch for a cursor at position: there, or where its search probes."""
        ...

    def leads_on(self, cursor: Cursor, fetched: FetchedBytes, entry: Entry) -> bool:
        """True if the cursor, whose first entry is damaged, may resume behind that entry."""
        ...

    def stepped(self, cursor: Cursor, entry: Entry, error: CorruptMessage) -> SearchResult:
        """Return the result of resuming behind the damaged entry."""
        ...

    def begin(self, cursor: Cursor, fetched: FetchedBytes, error: CorruptMessage) -> SearchResult | None:
        """Begin a search, because the bytes at the cursor's position lead nowhere; return None while the search
        continues."""

    def probed(self, tp: TopicPartition, position: int, fetched: FetchedBytes | None) -> SearchResult | None:
        """Handle what a search fetched at its probe (None: nothing can be read there); return None while it
        continues."""

    def without_segments(self) -> Sequence[TopicPartition]:
        """Return partitions whose search needs the start offsets of the segments of their logs."""
        ...

    def segments(self, tp: TopicPartition, starts: Sequence[int]) -> SearchResult | None:
        """Continue with the start offsets of the segments, and the end of the log.  Return None if the search has ended
        already."""


class Probing(Protocol):
    """Search of one partition: it began at start, and now probes at probe."""

    start: int
    probe: int


P = TypeVar("P", bound=Probing)


class ActiveSearches(Generic[P]):
    """Active searches by partition: base of both kinds of search."""

    def __init__(self) -> None:
        self._searches: dict[TopicPartition, P] = {}

    def forget(self, tp: TopicPartition) -> None:
        self._searches.pop(tp, None)

    def active(self, tp: TopicPartition) -> bool:
        return tp in self._searches

    def fetch_at(self, tp: TopicPartition, position: int) -> int:
        search = self._searches.get(tp)
        if search is not None and search.start != position:
            del self._searches[tp]  # the cursor was moved meanwhile
            search = None
        return position if search is None else search.probe


def first_entry(fetched: MessageSet) -> MessageSet:
    """Return the first entry of a set as a set."""
    return replace(fetched, runs=(next(fetched.cut(fetched.runs[0], 0)),))


def damage_in(fetched: MessageSet) -> CorruptMessage | None:
    """Return what is wrong with the first entry, read whole."""
    try:
        for _ in first_entry(fetched).messages():
            pass
    except CorruptMessage as e:
        return e
    return None


# offsets counted in messages ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _OffsetProbe:
    """Search for the first readable offset behind `start`; nothing up to `bad` can be read."""

    start: int
    error: CorruptMessage
    end: int  # probe below this: the high watermark
    bad: int
    good: int | None = None  # lowest offset known to be readable
    first: int = 0  # the offset of the message found at good
    probe: int = 0

    def next(self) -> int | None:
        """Return where to probe next; None if the search is over."""
        if self.good is None:
            self.probe = min(self.start + max(1, 2 * (self.bad - self.start)), self.end - 1)
        else:
            self.probe = (self.bad + self.good) // 2
        return self.probe if self.probe > self.bad else None


class OffsetSearch(ActiveSearches[_OffsetProbe]):
    """Search by offsets that count messages."""

    def leads_on(self, cursor: Cursor, fetched: FetchedBytes, entry: Entry) -> bool:
        return (cursor.partition.position.offset or 0) <= entry.offset < (cursor.partition.high_watermark or 0)

    def stepped(self, cursor: Cursor, entry: Entry, error: CorruptMessage) -> SearchResult:
        start = cursor.partition.position.offset or 0
        count = entry.resume_at - start if entry.wrapper else 1
        what = f"the one at offset {entry.offset}, 1"
        if entry.wrapper:
            what = f"a wrapper of unknown size at offset {entry.offset}, at most {count}"
        return SearchResult(start, error, entry.resume_at, count, _missing(what, count))

    def begin(self, cursor: Cursor, fetched: FetchedBytes, error: CorruptMessage) -> SearchResult | None:
        search = _OffsetProbe(fetched.position, error, cursor.partition.high_watermark or 0, bad=fetched.position)
        self._searches[cursor.tp] = search
        return self._next(cursor.tp, search)

    def probed(self, tp: TopicPartition, position: int, fetched: FetchedBytes | None) -> SearchResult | None:
        search = self._searches.get(tp)
        if search is None or search.probe != position:
            return None
        message_set = fetched.message_set if fetched is not None else None
        readable = message_set is not None and message_set.runs and not damage_in(message_set)
        found = _first_offset(message_set) if message_set is not None and readable else None
        if found is None:
            search.bad = position
        else:
            search.good, search.first = position, found
        return self._next(tp, search)

    def _next(self, tp: TopicPartition, search: _OffsetProbe) -> SearchResult | None:
        if search.next() is not None:
            return None
        del self._searches[tp]
        if search.good is None:
            nothing = f"and nothing behind it can be found up to {search.end}"
            return SearchResult(search.start, search.error, None, 0, nothing)
        count = search.first - search.start
        what = _missing(f"what the broker cannot find, at most {count}", count)
        return SearchResult(search.start, search.error, search.first, count, what)

    def without_segments(self) -> Sequence[TopicPartition]:
        return ()

    def segments(self, tp: TopicPartition, starts: Sequence[int]) -> SearchResult | None:
        """Return None: this search never needs segments."""
        return None


def _missing(what: str, count: int) -> str:
    return f"{what} {'message is' if count == 1 else 'messages are'} missing"


def _first_offset(fetched: MessageSet) -> int | None:
    """Return the offset of the first wanted message in an intact first entry."""
    first = next(first_entry(fetched).messages(), None)
    return None if first is None else first.offset


# offsets counted in bytes ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _ByteProbe:
    """Search from `start`.  needs_segments: no offset is left to probe before the next segment."""

    start: int
    error: CorruptMessage
    probe: int
    windows: int = 0
    needs_segments: bool = False


class ByteSearch(ActiveSearches[_ByteProbe]):
    """Search by byte offsets.  next_border(bytes, start): where the next entry begins in them."""

    def __init__(self, next_border: Callable[[memoryview, int], int | None]) -> None:
        super().__init__()
        self._next_border = next_border

    def leads_on(self, cursor: Cursor, fetched: FetchedBytes, entry: Entry) -> bool:
        """True only if the entry ends at the end of the fetched bytes, or before an entry with a correct checksum:
        inside a message any bytes may look like the head of an entry."""
        end = entry.resume_at - fetched.position
        return (fetched.short and end == len(fetched.raw)) or self._next_border(fetched.raw[end:], 0) == 0

    def stepped(self, cursor: Cursor, entry: Entry, error: CorruptMessage) -> SearchResult:
        size = entry.resume_at - entry.offset
        what = (
            f"a wrapper of {size} bytes, with an unknown number of messages,"
            if entry.wrapper
            else f"one of {size} bytes"
        )
        return SearchResult(entry.offset, error, entry.resume_at, size, f"{what} is missing")

    def begin(self, cursor: Cursor, fetched: FetchedBytes, error: CorruptMessage) -> SearchResult | None:
        search = self._searches[cursor.tp] = _ByteProbe(fetched.position, error, fetched.position)
        return self._search_in(cursor.tp, search, fetched, 1)

    def probed(self, tp: TopicPartition, position: int, fetched: FetchedBytes | None) -> SearchResult | None:
        search = self._searches.get(tp)
        if search is None or search.probe != position:
            return None
        if fetched is None:
            search.needs_segments = True
            return None
        return self._search_in(tp, search, fetched, 0)

    def _search_in(
        self, tp: TopicPartition, search: _ByteProbe, fetched: FetchedBytes, since: int
    ) -> SearchResult | None:
        border = self._next_border(fetched.raw, since)
        if border is not None:
            return self._found(tp, search, fetched.position + border)
        search.windows += 1
        if fetched.short or search.windows >= MAX_WINDOWS:
            search.needs_segments = True
        else:
            search.probe = fetched.position + max(1, len(fetched.raw) // 2)
        return None

    def without_segments(self) -> Sequence[TopicPartition]:
        return [tp for tp, search in self._searches.items() if search.needs_segments]

    def segments(self, tp: TopicPartition, starts: Sequence[int]) -> SearchResult | None:
        search = self._searches.get(tp)
        if search is None:
            return None
        behind = [start for start in starts if start > search.start]
        if behind:
            return self._found(tp, search, min(behind))
        del self._searches[tp]
        return SearchResult(search.start, search.error, None, 0, "and nothing behind it is in the log")

    def _found(self, tp: TopicPartition, search: _ByteProbe, to: int) -> SearchResult:
        del self._searches[tp]
        count = to - search.start
        return SearchResult(search.start, search.error, to, count, f"{count} bytes that make no message are missing")
