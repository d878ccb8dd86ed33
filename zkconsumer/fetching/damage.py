"""Damaged entries: corrupt.message.policy, for the partitions of one fetcher.

    retry    the entry is fetched DAMAGE_TRIES times more: the network may be at fault
    park     then nothing of the partition is delivered from the entry onwards
    fail     like park, and its stream raises DamagedMessage when it gets there; the other partitions continue
    skip     messages before it are delivered, then those behind it; a "gap" event says what is missing
    (measure)   requested by Partition.unpark: like skip, but then the partition is parked, with the result

A skip reads the entry once more, whole, including checksums and wrapped messages.  If the size or the offset of the
entry is invalid, the start of the next one is unknown and is searched for (search.py).  If nothing can be found, the
partition is parked.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafkawire.dialects import Dialect
from kafkawire.errors import CorruptMessage
from kafkawire.model import Broker, Scan, TopicPartition
from zkconsumer.errors import DamagedMessage
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.fetching.search import ByteSearch, FetchedBytes, OffsetSearch, Search, SearchResult, damage_in

log = logging.getLogger(__name__)

PARK, SKIP, FAIL = "park", "skip", "fail"
DAMAGE_TRIES = 3
INSIDE = "a position inside a message looks like this too: set another one by `zkconsumer offsets reset`"


class Damage:
    """Handler of damaged entries: counts and skips them, and searches behind them.  Runs in the event loop, like its
    fetcher."""

    def __init__(self, policy: str, broker: Broker, dialect: Dialect, on_event: OnEvent) -> None:
        self._policy = policy
        self._broker = broker
        self._dialect = dialect
        self._on_event = on_event
        self._to_skip: dict[TopicPartition, int] = {}  # the entry there is skipped, unless it is intact now
        self._whole: dict[TopicPartition, int] = {}  # read whole at the last fetch: if damaged again, it is parked
        self._raw: dict[TopicPartition, bytes] = {}  # bytes of an entry that is measured
        self._search: Search = (
            OffsetSearch() if dialect.offsets.count_messages else ByteSearch(dialect.messages.next_border)
        )

    def forget(self, tp: TopicPartition) -> None:
        """Forget a partition that is fetched elsewhere from now on; another replica may be intact."""
        self._to_skip.pop(tp, None)
        self._whole.pop(tp, None)
        self._raw.pop(tp, None)
        self._search.forget(tp)

    def fetch_at(self, tp: TopicPartition, position: int) -> int:
        """Return where to fetch for a cursor at position: there, or at the offset that a search probes."""
        return self._search.fetch_at(tp, position)

    def searching(self, tp: TopicPartition) -> bool:
        return self._search.active(tp)

    def found(self, cursor: Cursor, position: int, error: CorruptMessage) -> int:
        """Record that the entry at position is damaged.  Return how many times so far, if it has to be fetched again
        after a backoff, or 0 if the policy was carried out."""
        tp, partition = cursor.tp, cursor.partition
        times = partition.position.count_damage(position, partition.done)
        if times <= DAMAGE_TRIES:
            log.warning("%s at %s: %s; fetching it again", tp, position, error)
            return times
        damaged = self._error(tp, position, f"fetched {times} times", error)
        if (self._policy == SKIP or partition.measures) and self._whole.get(tp) != position:
            self._to_skip[tp] = position
        else:
            cursor.apply(cursor.partition.park, damaged)
            if self._policy == FAIL:
                empty, _ = self._dialect.messages.message_set(tp.topic, tp.partition, position, memoryview(b""), 0)
                cursor.enqueue(empty, 0, damaged)
        return 0

    def _error(self, tp: TopicPartition, position: int, what: str, error: CorruptMessage) -> DamagedMessage:
        helps = self._dialect.offsets.hint(INSIDE)
        return DamagedMessage(tp, position, f"damaged in the log of {self._broker}, {what}", error, helps)

    # skipping -----------------------------------------------------------------------------------------------------

    def skipped(self, cursor: Cursor, fetched: FetchedBytes, scan: Scan) -> bool:
        """Return True if the first entry of a fetch is damaged for good and the policy skips it, so nothing of the
        fetch may be delivered: the cursor resumes behind that entry, or a search behind it begins."""
        tp, message_set = cursor.tp, fetched.message_set
        if self._to_skip.get(tp) != fetched.position or not (message_set.runs or scan.damage):
            return False  # the entry is larger than the fetch: the next fetch shows it
        del self._to_skip[tp]
        error = damage_in(message_set) if message_set.runs else scan.damage
        if error is None:
            self._whole[tp] = fetched.position
            return False
        begin = message_set.runs[0].begin if message_set.runs else error.position
        entry = self._dialect.messages.entry_at(fetched.raw, begin, fetched.position)
        if cursor.partition.measures:
            end = len(fetched.raw) if entry is None else begin + entry.nbytes
            self._raw[tp] = bytes(fetched.raw[begin:end])
        if entry is not None and self._search.leads_on(cursor, fetched, entry):
            self._end(cursor, self._search.stepped(cursor, entry, error))
        else:
            self._end(cursor, self._search.begin(cursor, fetched, error))
        return True

    # searching ----------------------------------------------------------------------------------------------------

    def probed(self, cursor: Cursor, position: int, fetched: FetchedBytes | None) -> None:
        """Pass a search what it fetched at position; None if the broker cannot read there."""
        self._end(cursor, self._search.probed(cursor.tp, position, fetched))

    def without_segments(self) -> Sequence[TopicPartition]:
        """Return partitions whose search needs the start offsets of the segments of their logs."""
        return self._search.without_segments()

    def segments(self, cursor: Cursor, starts: Sequence[int]) -> None:
        """Pass a search the start offsets of a log's segments, and the end of the log."""
        self._end(cursor, self._search.segments(cursor.tp, starts))

    def _end(self, cursor: Cursor, found: SearchResult | None) -> None:
        if found is None:
            return
        if found.to is None:
            cursor.apply(cursor.partition.park, self._error(cursor.tp, found.start, found.what, found.error))
            return
        if cursor.partition.measures:
            measured = self._error(cursor.tp, found.start, f"{found.what}, up to {found.to}", found.error)
            measured.resume_at, measured.raw = found.to, self._raw.pop(cursor.tp, b"")
            cursor.apply(cursor.partition.park, measured)
            return
        where = f"{cursor.tp} at {found.start}: damaged in the log of {self._broker}: {found.error.why}"
        text = f"{where}; skipped {found.what}, going on at {found.to}"
        self._on_event(ConsumerEvent("gap", text, cursor.tp, found.count, found.start))
        cursor.apply(cursor.partition.skip_to, found.to)
