"""Where logs begin and end, as the broker of one fetcher tells it, and what follows for its cursors.

    locate         a cursor without a position (nothing committed, or out of range) gets one, see resets.py
    look_at_ends   for the lag, where no fetch tells the high watermark (0.7); also of what is paused or full
    look_at_old_ends   the same for what was not fetched for a while, on a link of its own
    land           behind damage that only the next segment of the log ends, see bytesearch.py

A broker of 0.7 does not refuse what it has not: it closes the connection.  Then each is asked for alone, so that the
others do not suffer for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from groundwork.tasks import deadline, now
from kafkawire.dialects import Dialect
from kafkawire.errors import ERRORS, LinkLost, error_info
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from zkconsumer.errors import FetchRefused
from zkconsumer.events import OnEvent
from zkconsumer.fetching.cursor import Cursor, Seek
from zkconsumer.fetching.damage import Damage
from zkconsumer.fetching.listoffsets import EARLIEST, LATEST, every_offset, offset_rows
from zkconsumer.fetching.resets import apply_reset, out_of_range
from zkconsumer.listeners import ListenerCalls
from zkconsumer.refusals import refusal

ENDS_S = 5.0  # between two looks at the ends of logs: what a lag may be wrong by
ANSWER_S = 4.0  # a broker that is silent for so long is out of reach; less than END_OLD_S - ENDS_S
MOST_ENDS = 1000  # of one request
BESIDE = "ends"  # the purpose of the link beside the fetches
MOST_SEGMENTS = 100_000  # of a log: more than any broker has files open


class Positions:
    """Of one fetcher, in its greenlet.

    cursors   the fetcher's own, by partition
    give_up   hands cursors back to the leader finder: (cursors, why)
    located   is told of cursors that began where their log said
    listener     asked where to go on for a position outside the log, in a greenlet of its own by `spawn`
    wake      the fetcher has something to do again
    """

    def __init__(
        self,
        *,
        broker: Broker,
        links: Links,
        dialect: Dialect,
        cursors: Mapping[TopicPartition, Cursor],
        damage: Damage,
        give_up: Callable[[list[Cursor], str], None],
        located: Callable[[list[Cursor]], None],
        on_event: OnEvent,
        listener: ListenerCalls,
        spawn: Callable[..., object],
        wake: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._links = links
        self._dialect = dialect
        self._cursors = cursors
        self._damage = damage
        self._give_up = give_up
        self._located = located
        self._on_event = on_event
        self._listener = listener
        self._spawn = spawn
        self._wake = wake
        self._asking: set[Cursor] = set()  # the listener was asked where they go on
        self._ends_due = 0.0

    # where to begin -----------------------------------------------------------------------------------------------

    def locate(self) -> None:
        """Find where the cursors without a position begin.  Raises LinkLost."""
        lost = [c for c in self._cursors.values() if _is_lost(c) and c not in self._asking]
        if not lost:
            return
        earliest = self._offsets(EARLIEST, lost)
        latest = self._offsets(LATEST, [c for c in lost if c.tp in earliest])
        begun = []
        for cursor in lost:
            if cursor.tp not in latest or not _is_lost(cursor):
                continue
            ends = earliest[cursor.tp], latest[cursor.tp]
            if out_of_range(cursor, *ends):
                self._asking.add(cursor)
                self._spawn(f"out-of-range-{cursor.tp}", self._ask_listener, cursor, *ends)
            elif self._settle(cursor, *ends, None):
                begun.append(cursor)
        if begun:
            self._located(begun)

    def _ask_listener(self, cursor: Cursor, earliest: int, latest: int) -> None:
        tp, wanted, epoch = cursor.tp, cursor.seek.out_of_range, cursor.epoch
        assert wanted is not None
        try:
            chosen = self._listener.out_of_range(tp, wanted, earliest, latest)
        finally:
            self._asking.discard(cursor)
        if self._cursors.get(tp) is cursor and cursor.epoch == epoch and _is_lost(cursor):
            if self._settle(cursor, earliest, latest, chosen):
                self._located([cursor])
            self._wake()

    def _settle(self, cursor: Cursor, earliest: int, latest: int, chosen: int | None) -> bool:
        unit = self._dialect.offsets.unit
        return apply_reset(cursor, earliest, latest, chosen, self._broker, self._on_event, unit)

    # where logs end -----------------------------------------------------------------------------------------------

    def look_at_ends(self) -> None:
        """Now and then: for the lag, and for a log that is gone or was made anew, of which a fetch of 0.7 says nothing
        but that nothing is there.  Raises LinkLost."""
        if now() < self._ends_due:
            return
        self._ends_due = now() + ENDS_S
        reading = [c for c in self._cursors.values() if c.position is not None and not self._damage.searching(c.tp)]
        ends = self._offsets(LATEST, reading)
        for cursor in reading:
            end = ends.get(cursor.tp)
            if end is None or cursor.position is None or self._cursors.get(cursor.tp) is not cursor:
                continue
            cursor.set_log_end(end, now())
            if end < cursor.position and cursor.fetchable:
                cursor.lose_position(Seek(cursor.seek.reset, cursor.position))

    def look_at_old_ends(self) -> str | None:
        """Ask, in bulk and beside the fetches, where the logs end whose end was not told for ENDS_S; None, or why the
        broker cannot be asked.  The connection is closed again, so that it is never one that the broker gave up.

        A broker that refuses by closing is asked for one partition only, and later than by look_at_ends: what it closes
        for is no outage, and the other ends come from there.
        """
        bulk = not self._dialect.refuses_by_closing
        after_s = ENDS_S if bulk else 1.5 * ENDS_S
        old = [c for c in self._cursors.values() if c.position is not None and now() - c.end_known_at >= after_s]
        if not bulk:
            old = old[:1]
        try:
            for begin in range(0, len(old), MOST_ENDS):
                with deadline(ANSWER_S, "where logs end"):
                    self._ask_beside({cursor.tp: cursor for cursor in old[begin : begin + MOST_ENDS]})
        except TimeoutError:
            return f"{self._broker}: no answer within {ANSWER_S:g} s"
        except LinkLost as lost:
            return str(lost)
        finally:
            if old:
                self._links.drop(self._broker, BESIDE)
        return None

    def _ask_beside(self, cursors: Mapping[TopicPartition, Cursor]) -> None:
        link = self._links.link(self._broker, BESIDE)
        link.open()
        try:
            request = self._dialect.requests.list_offsets(self._dialect, dict.fromkeys(cursors, LATEST), 1)
            found = offset_rows(link.call(request))
        except LinkLost:
            if self._dialect.refuses_by_closing:
                return
            raise
        for tp, (error, end) in found.items():
            if tp in cursors and not error and end is not None:
                cursors[tp].set_log_end(end, now())

    def land(self) -> None:
        """Go on at the next segment where nothing before it can be read.  Raises LinkLost."""
        for tp in self._damage.without_segments():
            starts = every_offset(self._ask({tp: LATEST}, MOST_SEGMENTS)).get(tp, [])
            if tp in self._cursors:
                self._damage.segments(self._cursors[tp], starts)

    # asking -------------------------------------------------------------------------------------------------------

    def _offsets(self, time: int, cursors: list[Cursor]) -> dict[TopicPartition, int]:
        """One end of each log; a partition whose broker refuses is handed back to the leader finder."""
        if not cursors:
            return {}
        try:
            return self._answered(time, cursors)
        except LinkLost:
            if not self._dialect.refuses_by_closing:
                raise
        found: dict[TopicPartition, int] = {}
        for cursor in cursors:
            self._links.link(self._broker, "fetch").open()  # raises LinkLost where the broker is gone altogether
            try:
                found |= self._answered(time, [cursor])
            except LinkLost as e:
                self._give_up([cursor], f"{cursor.tp}: asked where its log begins and ends, {e}")
        return found

    def _answered(self, time: int, cursors: list[Cursor]) -> dict[TopicPartition, int]:
        by_tp = {cursor.tp: cursor for cursor in cursors}
        found: dict[TopicPartition, int] = {}
        for tp, (error, offset) in offset_rows(self._ask(dict.fromkeys(by_tp, time))).items():
            if tp in by_tp and error == 0 and offset is not None:
                found[tp] = offset
            elif tp in by_tp and error_info(error).lasting:
                by_tp[tp].park(FetchRefused(tp, None, refusal(error, self._broker, tp)))
            elif tp in by_tp:
                name = ERRORS[error].name if error in ERRORS else str(error)
                self._give_up([by_tp[tp]], f"{tp}: {self._broker} does not say where its log begins: {name} ({error})")
        return found

    def _ask(self, times: dict[TopicPartition, int], most: int = 1) -> Any:
        request = self._dialect.requests.list_offsets(self._dialect, times, most)
        return self._links.link(self._broker, "fetch").call(request)


def _is_lost(cursor: Cursor) -> bool:
    return cursor.position is None and not cursor.closing and cursor.parked is None
