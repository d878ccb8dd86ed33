"""What follows when an entry is damaged: corrupt.message.policy, for the partitions of one fetcher.

    again    the entry is fetched DAMAGE_TRIES times more: the way here may be at fault
    park     then nothing of the partition is delivered from the entry on
    fail     the same, and its stream raises DamagedMessage when it gets there; the other partitions go on
    skip     what came before it is handed out, then what follows it; a "gap" event says what is missing

A skip looks once more before it steps over: the entry is read whole, checksums and wrapped messages too.  Where the
size or the offset of the entry makes no sense nobody knows where the next one stands: then that is searched
(searching.py).  Where nothing can be found the partition is parked.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from kafkawire.dialects import Dialect
from kafkawire.errors import CorruptMessage
from kafkawire.model import Broker, Scan, TopicPartition
from zkconsumer.errors import DamagedMessage
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.cursor import Cursor
from zkconsumer.fetching.search import ByteSearch, Came, Found, OffsetSearch, Search, damage_in

log = logging.getLogger(__name__)

PARK, SKIP, FAIL = "park", "skip", "fail"
DAMAGE_TRIES = 3
INSIDE = "a position inside a message looks like this too: set another one by `zkconsumer offsets reset`"


class Damage:
    """Counts, steps over and searches.  In the hub, as the fetcher that has it."""

    def __init__(self, policy: str, broker: Broker, dialect: Dialect, on_event: OnEvent) -> None:
        self._policy = policy
        self._broker = broker
        self._dialect = dialect
        self._on_event = on_event
        self._doomed: dict[TopicPartition, int] = {}  # what stands there is stepped over, unless it is whole now
        self._whole: dict[TopicPartition, int] = {}  # read whole at the last look: found damaged again it is parked
        self._search: Search = (
            OffsetSearch() if dialect.offsets.count_messages else ByteSearch(dialect.messages.next_border)
        )

    def forget(self, tp: TopicPartition) -> None:
        """Fetched elsewhere from now on; another replica may be whole."""
        self._doomed.pop(tp, None)
        self._whole.pop(tp, None)
        self._search.forget(tp)

    def ask_at(self, tp: TopicPartition, position: int) -> int:
        """Where to fetch for one who is at position: there, or where a search looks."""
        return self._search.ask_at(tp, position)

    def searching(self, tp: TopicPartition) -> bool:
        return self._search.active(tp)

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
            cursor.deliver(replace(empty, high_watermark=cursor.high_watermark), 0, damaged)
        else:
            cursor.park(damaged)
        return 0

    def _error(self, tp: TopicPartition, position: int, what: str, error: CorruptMessage) -> DamagedMessage:
        helps = self._dialect.offsets.hint(INSIDE)
        return DamagedMessage(tp, position, f"damaged in the log of {self._broker}, {what}", error, helps)

    # stepping over ------------------------------------------------------------------------------------------------

    def stepped_over(self, cursor: Cursor, came: Came, scan: Scan) -> bool:
        """A fetch came.  True: its first entry is damaged for good and the policy skips it, so nothing of the fetch may
        be delivered: the cursor goes on behind that entry, or a search for what is behind it begins.
        """
        tp, fetched = cursor.tp, came.message_set
        if self._doomed.get(tp) != came.position or not (fetched.runs or scan.damage):
            return False  # the entry is larger than what was asked for: the next fetch shows it
        del self._doomed[tp]
        error = damage_in(fetched) if fetched.runs else scan.damage
        if error is None:
            self._whole[tp] = came.position
            return False
        begin = fetched.runs[0].begin if fetched.runs else error.position
        entry = self._dialect.messages.entry_at(came.raw, begin, came.position)
        if entry is not None and self._search.leads_on(cursor, came, entry):
            self._end(cursor, self._search.stepped(cursor, entry, error))
        else:
            self._end(cursor, self._search.begin(cursor, came, error))
        return True

    # searching ----------------------------------------------------------------------------------------------------

    def looked(self, cursor: Cursor, position: int, came: Came | None) -> None:
        """What a search got at position; None: the broker cannot read there."""
        self._end(cursor, self._search.looked(cursor.tp, position, came))

    def adrift(self) -> Sequence[TopicPartition]:
        """Those that have to be told where the segments of their logs begin (landed)."""
        return self._search.adrift()

    def landed(self, cursor: Cursor, starts: Sequence[int]) -> None:
        self._end(cursor, self._search.landed(cursor.tp, starts))

    def _end(self, cursor: Cursor, found: Found | None) -> None:
        if found is None:
            return
        if found.to is None:
            cursor.park(self._error(cursor.tp, found.start, found.what, found.error))
            return
        where = f"{cursor.tp} at {found.start}: damaged in the log of {self._broker}: {found.error.why}"
        text = f"{where}; skipped {found.what}, going on at {found.to}"
        self._on_event(ConsumerEvent("gap", text, cursor.tp, found.count))
        cursor.jump(found.to)
