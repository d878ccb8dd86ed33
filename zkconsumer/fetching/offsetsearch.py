"""The first offset behind damage that can be read, where offsets count messages (0.8 and later).

Searched by fetches at offset + 1, + 2, + 4 ... and back by halves.  A broker finds offsets by its sparse index, so the
search ends at the next offset in that index, and what is lost until there is counted.  Where nothing can be found up to
the high watermark there is nothing to go on with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkawire.errors import CorruptMessage
from kafkawire.model import Entry, MessageSet, TopicPartition
from zkconsumer.fetching.cursor import Cursor
from zkconsumer.fetching.searching import Came, Found, Searches, damage_in, first_entry


@dataclass(slots=True)
class _Search:
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


class OffsetSearch(Searches[_Search]):
    """A zkconsumer.fetching.searching.Search."""

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
        search = _Search(came.position, error, cursor.high_watermark or 0, bad=came.position)
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

    def _go_on(self, tp: TopicPartition, search: _Search) -> Found | None:
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
