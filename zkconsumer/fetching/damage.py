"""What follows when an entry is damaged: corrupt.message.policy, for the partitions of one fetcher.

    again    the entry is fetched DAMAGE_TRIES times more: the way here may be at fault
    park     then nothing of the partition is delivered from the entry on
    fail     the same, and its stream raises DamagedMessage when it gets there; the other partitions go on
    skip     what came before it is handed out, then what follows it; a "gap" event says what is missing

A skip looks once more before it steps over: the entry is read whole, checksums and wrapped messages too.  Where the
size or the offset of the entry makes no sense nobody knows where the next one stands: then the first offset behind it
that the broker can still find is searched, by fetches at offset + 1, + 2, + 4 ... and back by halves.  A broker finds
offsets by its sparse index, so the search ends at the next offset in that index, and what is lost until there is
counted.  Where nothing can be found up to the high watermark the partition is parked.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from kafkawire.dialects import Dialect
from kafkawire.errors import CorruptMessage
from kafkawire.model import Broker, Entry, MessageSet, Scan, TopicPartition
from zkconsumer.errors import DamagedMessage
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.cursor import Cursor

log = logging.getLogger(__name__)

PARK, SKIP, FAIL = "park", "skip", "fail"
DAMAGE_TRIES = 3


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


class Damage:
    """Counts, steps over and searches.  In the hub, as the fetcher that has it."""

    def __init__(self, policy: str, broker: Broker, dialect: Dialect, on_event: OnEvent) -> None:
        self._policy = policy
        self._broker = broker
        self._dialect = dialect
        self._on_event = on_event
        self._doomed: dict[TopicPartition, int] = {}  # what stands there is stepped over, unless it is whole now
        self._whole: dict[TopicPartition, int] = {}  # read whole at the last look: found damaged again it is parked
        self._searches: dict[TopicPartition, _Search] = {}

    def forget(self, tp: TopicPartition) -> None:
        """Fetched elsewhere from now on; another replica may be whole."""
        self._doomed.pop(tp, None)
        self._whole.pop(tp, None)
        self._searches.pop(tp, None)

    def ask_at(self, tp: TopicPartition, position: int) -> int:
        """Where to fetch for one who is at position: there, or where a search looks."""
        search = self._searches.get(tp)
        if search is not None and search.start != position:
            del self._searches[tp]  # it was set elsewhere meanwhile
            search = None
        return position if search is None else search.probe

    def searching(self, tp: TopicPartition) -> bool:
        return tp in self._searches

    def found(self, cursor: Cursor, position: int, error: CorruptMessage) -> int:
        """The entry at position is damaged.  How many times so far, where it has to be fetched again after a pause; 0:
        the policy was carried out."""
        tp, times = cursor.tp, cursor.count_damage(position)
        if times <= DAMAGE_TRIES:
            log.warning("%s at %s: %s; fetching it again", tp, position, error)
            return times
        damaged = self._error(tp, position, f"fetched {times} times", error)
        if self._policy == SKIP and self._whole.get(tp) != position:
            self._doomed[tp] = position
        elif self._policy == FAIL:
            cursor.park(damaged)
            empty = self._dialect.messages.message_set(tp.topic, tp.partition, position, memoryview(b""), 0)[0]
            cursor.deliver(replace(empty, high_watermark=cursor.high_watermark or 0), 0, damaged)
        else:
            cursor.park(damaged)
        return 0

    def _error(self, tp: TopicPartition, position: int, what: str, error: CorruptMessage) -> DamagedMessage:
        return DamagedMessage(tp, position, f"damaged in the log of {self._broker}, {what}", error)

    # stepping over ------------------------------------------------------------------------------------------------

    def stepped_over(self, cursor: Cursor, position: int, raw: memoryview, fetched: MessageSet, scan: Scan) -> bool:
        """A fetch at position came.  True: its first entry is damaged for good and the policy skips it, so nothing of
        the fetch may be delivered: the cursor goes on behind that entry, or a search for what is behind it begins.
        """
        tp = cursor.tp
        doomed = self._doomed.get(tp)
        if doomed != position or not (fetched.runs or scan.damage):
            return False  # the entry is larger than what was asked for: the next fetch shows it
        del self._doomed[tp]
        error = _damage_in(fetched) if fetched.runs else scan.damage
        if error is None:
            self._whole[tp] = position
            return False
        entry = self._dialect.messages.entry_at(
            raw, fetched.runs[0].begin if fetched.runs else error.position, position
        )
        if entry is None or not position <= entry.offset < (cursor.high_watermark or 0):
            self._search(cursor, position, error)
        else:
            self._step(cursor, position, entry, error)
        return True

    def _step(self, cursor: Cursor, position: int, entry: Entry, error: CorruptMessage) -> None:
        to = entry.resume_at
        if entry.wrapper:
            count = to - position
            self._gap(cursor, to, count, f"a wrapper of unknown size at offset {entry.offset}, at most {count}", error)
        else:
            self._gap(cursor, to, 1, f"the one at offset {entry.offset}, 1", error)

    def _gap(self, cursor: Cursor, to: int, count: int, what: str, error: CorruptMessage) -> None:
        tp, position = cursor.tp, cursor.position
        found = f"{tp} at {position}: damaged in the log of {self._broker}: {error.why}"
        missing = f"{'message is' if count == 1 else 'messages are'} missing"
        self._on_event(ConsumerEvent("gap", f"{found}; skipped {what} {missing}, going on at {to}", tp, count))
        cursor.jump(to)

    # searching ----------------------------------------------------------------------------------------------------

    def _search(self, cursor: Cursor, position: int, error: CorruptMessage) -> None:
        search = _Search(position, error, cursor.high_watermark or 0, bad=position)
        self._searches[cursor.tp] = search
        self._go_on(cursor, search)

    def looked(self, cursor: Cursor, position: int, fetched: MessageSet | None) -> None:
        """What a search got at position; None: the broker cannot read there."""
        search = self._searches.get(cursor.tp)
        if search is None or search.probe != position:
            return
        found = None if fetched is None or not fetched.runs or _damage_in(fetched) else _first_offset(fetched)
        if found is None:
            search.bad = position
        else:
            search.good, search.first = position, found
        self._go_on(cursor, search)

    def _go_on(self, cursor: Cursor, search: _Search) -> None:
        if search.next() is not None:
            return
        del self._searches[cursor.tp]
        if search.good is None:
            what = f"and nothing behind it can be found up to {search.end}"
            cursor.park(self._error(cursor.tp, search.start, what, search.error))
            return
        count = search.first - search.start
        self._gap(cursor, search.first, count, f"what the broker cannot find, at most {count}", search.error)


def _first_entry(fetched: MessageSet) -> MessageSet:
    """The first entry of a set as a set."""
    return replace(fetched, runs=(next(fetched.cut(fetched.runs[0], 0)),))


def _damage_in(fetched: MessageSet) -> CorruptMessage | None:
    """What is wrong with the first entry, read whole."""
    try:
        for _ in _first_entry(fetched).messages():
            pass
    except CorruptMessage as e:
        return e
    return None


def _first_offset(fetched: MessageSet) -> int | None:
    """Of the first message that is wanted, in a first entry that is whole."""
    first = next(_first_entry(fetched).messages(), None)
    return None if first is None else first.offset
