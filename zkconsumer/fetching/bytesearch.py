"""The next entry behind damage where positions are bytes (0.7), whose logs have no index: by the bytes themselves.

    here        the next place in what came whose bytes are an entry by their checksum (d.messages.next_border)
    further on  the same in what follows, half a fetch on each time, so that an entry up to half a fetch is seen whole
    segments    at the end of the segment, or after MOST_WINDOWS: the next segment of the log begins with an entry, and
                where there is none the log's end will be one

What is left out is told in bytes; how many messages it was nobody can say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafkawire.errors import CorruptMessage
from kafkawire.model import Entry, TopicPartition
from zkconsumer.fetching.cursor import Cursor
from zkconsumer.fetching.searching import Came, Found, Searches

MOST_WINDOWS = 64  # half fetches: 32 MB by the default fetch.message.max.bytes


@dataclass(slots=True)
class _Search:
    """From `start` on.  probe: where it looks; adrift: not even there can be looked."""

    start: int
    error: CorruptMessage
    probe: int
    windows: int = 0
    adrift: bool = False


class ByteSearch(Searches[_Search]):
    """A zkconsumer.fetching.searching.Search.  next_border(bytes, start): where the next entry begins in them."""

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
        search = self._searches[cursor.tp] = _Search(came.position, error, came.position)
        return self._look_through(cursor.tp, search, came, 1)

    def looked(self, tp: TopicPartition, position: int, came: Came | None) -> Found | None:
        search = self._searches.get(tp)
        if search is None or search.probe != position:
            return None
        if came is None:
            search.adrift = True
            return None
        return self._look_through(tp, search, came, 0)

    def _look_through(self, tp: TopicPartition, search: _Search, came: Came, since: int) -> Found | None:
        border = self._next_border(came.raw, since)
        if border is not None:
            return self._found(tp, search, came.position + border)
        search.windows += 1
        if came.short or search.windows >= MOST_WINDOWS:
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

    def _found(self, tp: TopicPartition, search: _Search, to: int) -> Found:
        del self._searches[tp]
        count = to - search.start
        return Found(search.start, search.error, to, count, f"{count} bytes that make no message are missing")
