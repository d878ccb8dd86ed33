"""How a partition's next readable position is found behind damage: what the two ways of it share.

offsetsearch   offsets count messages: a broker finds the next one it can by its index
bytesearch     positions are bytes (0.7): the bytes themselves are looked through
"""

from __future__ import annotations

from collections.abc import Sequence
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
