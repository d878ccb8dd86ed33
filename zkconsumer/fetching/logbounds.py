"""Log bounds of the partitions of one fetcher, requested from its broker: start positions and log ends.

    locate             gives a position to a cursor without one (nothing committed, or out of range), see resets.py.  If
                       a log ends before a position, its end is requested once more: right after an election a broker
                       may report an end that is too low
    update_ends        for the lag, if no fetch has the high watermark (0.7); also for paused or full partitions
    update_old_ends    for partitions that were not fetched for a while, on a separate link
    find_segments      for a search behind damage that needs the next segment of the log, see search.py

A broker of 0.7 does not refuse a partition that it does not have: it closes the connection
(kafkawire.cluster.listoffsets).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from groundwork.tasks import deadline, now
from kafkawire.cluster.listoffsets import EARLIEST, LATEST, LogOffset, ask_offsets
from kafkawire.dialects import Dialect
from kafkawire.errors import ERRORS, LinkLost, error_info
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from zkconsumer.errors import FetchRefused
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.damage import Damage
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.fetching.resets import apply_reset, not_delivered, out_of_range
from zkconsumer.listeners import ListenerCalls
from zkconsumer.refusals import refusal

ENDS_S = 5.0  # interval between requests for the ends of logs: the age of a lag
RESPONSE_S = 4.0  # a broker that is silent for longer counts as unreachable; less than END_OLD_S - ENDS_S
MAX_ENDS = 1000  # per request
FETCH, ENDS = "fetch", "ends"  # purposes of links: for fetches, and for ends
ONCE_MORE_S = 30.0  # a position that is refused again within this time is outside the log
MAX_SEGMENTS = 100_000  # segments of a log: more than any broker has files open


class LogBounds:
    """LogBounds of one fetcher's cursors, in its greenlet.

    cursors    the fetcher's own, by partition; busy: those that do not rest, and may lack a position
    give_up    returns cursors to the leader finder: (cursors, why)
    located    called with cursors that start at an end of their log
    listener   asked where to resume for a position outside the log, in a separate greenlet by `spawn`
    wake       wakes the fetcher
    committed  logs end at open transactions (isolation.level)
    """

    def __init__(
        self,
        *,
        broker: Broker,
        links: Links,
        dialect: Dialect,
        cursors: Mapping[TopicPartition, Cursor],
        busy: Mapping[TopicPartition, Cursor],
        damage: Damage,
        give_up: Callable[[list[Cursor], str], None],
        located: Callable[[list[Cursor]], None],
        on_event: OnEvent,
        listener: ListenerCalls,
        spawn: Callable[..., object],
        wake: Callable[[], None],
        committed: bool = True,
    ) -> None:
        self._broker = broker
        self._links = links
        self._dialect = dialect
        self._cursors = cursors
        self._busy = busy
        self._damage = damage
        self._give_up = give_up
        self._located = located
        self._on_event = on_event
        self._listener = listener
        self._spawn = spawn
        self._wake = wake
        self._committed = committed
        self._asking: set[Cursor] = set()  # cursors for which the listener is being asked where to resume
        self._ends_due = 0.0
        # LogBounds that were requested once more: the position, and when the broker had refused it.
        self._once_more: dict[TopicPartition, tuple[int, float]] = {}

    @property
    def wanted(self) -> bool:
        """True if the broker must be asked before these can be fetched."""
        without = [c for c in self._busy.values() if c.partition.position.offset is None]
        return any(
            (_has_no_position(c) and c not in self._asking) or (c.partition.position.back_to is not None and c.drained)
            for c in without
        ) or bool(self._damage.without_segments())

    # start positions ----------------------------------------------------------------------------------------------

    def locate(self) -> None:
        """Find the start positions of the cursors that have none.  Raises LinkLost."""
        without = [c for c in self._busy.values() if c.partition.position.offset is None]
        for cursor in [c for c in without if c.partition.position.back_to is not None]:
            self._go_back(cursor)
        without = [c for c in without if _has_no_position(c) and c not in self._asking]
        if not without:
            return
        earliest = self._offsets(EARLIEST, without)
        latest = self._offsets(LATEST, [c for c in without if c.tp in earliest])
        begun = []
        for cursor in without:
            if cursor.tp not in latest or not _has_no_position(cursor):
                continue
            ends = earliest[cursor.tp], latest[cursor.tp]
            position = cursor.partition.position
            if position.refused is not None and self._fetched_once_more(cursor, position.refused, *ends):
                cursor.apply(cursor.partition.relocate, position.refused)
            elif out_of_range(position, *ends):
                self._asking.add(cursor)
                self._spawn(f"out-of-range-{cursor.tp}", self._ask_listener, cursor, *ends)
            elif self._reset(cursor, *ends, None):
                begun.append(cursor)
        if begun:
            self._located(begun)

    def _fetched_once_more(self, cursor: Cursor, refused: int, earliest: int, latest: int) -> bool:
        """True if a refused position is fetched once more before it counts as outside the log.

        It is inside the log again, or behind the end that the broker reports, which may be too low.
        """
        if refused < earliest:
            return False
        last, at = self._once_more.get(cursor.tp, (-1, 0.0))
        again = last == refused and now() - at < ONCE_MORE_S
        if refused > latest:
            if again:
                return False
        elif not again:
            where = f"{cursor.tp} at {refused} on {self._broker}"
            text = f"{where}: out of range, though its log holds {earliest} to {latest}; asking again"
            self._on_event(ConsumerEvent("leader", text, cursor.tp))
        self._once_more[cursor.tp] = refused, now()
        return True

    def _go_back(self, cursor: Cursor) -> None:
        """Begin at the earlier offset, if everything that was fetched of the log before it was cut is done."""
        lost = cursor.apply(cursor.partition.go_back)
        if lost is None:
            return
        if lost:
            self._on_event(not_delivered(cursor.tp, lost))
        self._located([cursor])

    def _ask_listener(self, cursor: Cursor, earliest: int, latest: int) -> None:
        tp, partition = cursor.tp, cursor.partition
        refused, epoch = partition.position.refused, partition.epoch
        wanted = partition.position.seek.out_of_range if refused is None else refused
        assert wanted is not None
        try:
            chosen = self._listener.out_of_range(tp, wanted, earliest, latest)
        finally:
            self._asking.discard(cursor)
        same = partition.epoch == epoch and partition.position.refused == refused and _has_no_position(cursor)
        if same and self._cursors.get(tp) is cursor:
            if self._reset(cursor, earliest, latest, chosen):
                self._located([cursor])
            self._wake()

    def _reset(self, cursor: Cursor, earliest: int, latest: int, chosen: int | None) -> bool:
        unit = self._dialect.offsets.unit
        return apply_reset(cursor, earliest, latest, chosen, self._broker, self._on_event, unit)

    # log ends -----------------------------------------------------------------------------------------------------

    def update_ends(self) -> None:
        """Request the ends of logs every ENDS_S: for the lag, and for a deleted or recreated log, which a fetch of 0.7
        shows as empty.  Raises LinkLost."""
        if now() < self._ends_due:
            return
        self._ends_due = now() + ENDS_S
        located = [c for c in self._cursors.values() if c.partition.position.offset is not None]
        reading = [c for c in located if not self._damage.searching(c.tp)]
        ends = self._offsets(LATEST, reading)
        for cursor in reading:
            end = ends.get(cursor.tp)
            offset = cursor.partition.position.offset
            if end is None or offset is None or self._cursors.get(cursor.tp) is not cursor:
                continue
            cursor.set_log_end(end, now())
            if end < offset and cursor.partition.fetch_offset is not None:
                cursor.apply(cursor.partition.refuse_position)

    def update_old_ends(self) -> str | None:
        """Request, in bulk and separate from fetches, the ends of logs that were not sent for ENDS_S.  Return None, or
        why the broker cannot be asked.  Ends that are due soon are requested together with those that are due, so that
        all of them become due at the same time.  The connection is closed afterwards, so that it is never one that the
        broker gave up.

        A broker that refuses by closing gets requests for one partition only, and later than by update_ends: a refusal
        is not an outage, and the other ends come from there.
        """
        bulk = not self._dialect.refuses_by_closing
        after_s = ENDS_S if bulk else 1.5 * ENDS_S
        at = now()
        fresh = at - after_s / 2  # resting partitions have an answer of the same moment
        asked = [c for c in self._cursors.values() if c.rest is None or c.rest.answered_at < fresh]
        aged = [(at - c.end_known_at, c) for c in asked if c.partition.position.offset is not None]
        old = [c for age_s, c in aged if age_s >= after_s]
        if not bulk:
            old = old[:1]
        elif old:
            old = [c for age_s, c in aged if age_s >= after_s / 2]
        try:
            for begin in range(0, len(old), MAX_ENDS):
                with deadline(RESPONSE_S, "where logs end"):
                    self._ask_ends({cursor.tp: cursor for cursor in old[begin : begin + MAX_ENDS]})
        except TimeoutError:
            return f"{self._broker}: no answer within {RESPONSE_S:g} s"
        except LinkLost as lost:
            return str(lost)
        finally:
            if old:
                self._links.drop(self._broker, ENDS)
        return None

    def _ask_ends(self, cursors: Mapping[TopicPartition, Cursor]) -> None:
        with self._links.lent(self._broker, ENDS) as link:
            link.open()
        for tp, end in self._ask(dict.fromkeys(cursors, LATEST), purpose=ENDS).items():
            if isinstance(end.error, LinkLost) and not self._dialect.refuses_by_closing:
                raise end.error
            if end.offset is not None:
                cursors[tp].set_log_end(end.offset, now())

    def find_segments(self) -> None:
        """Resume at the next segment of logs in which nothing before it can be read.  Raises LinkLost."""
        for tp in self._damage.without_segments():
            starts = self._ask({tp: LATEST}, max_offsets=MAX_SEGMENTS)[tp]
            if isinstance(starts.error, LinkLost):
                raise starts.error
            if tp in self._cursors:
                self._damage.segments(self._cursors[tp], starts.offsets)

    # requests -----------------------------------------------------------------------------------------------------

    def _offsets(self, time: int, cursors: list[Cursor]) -> dict[TopicPartition, int]:
        """Return one end of each log; a partition whose broker refuses goes back to the leader finder.

        Raises LinkLost, unless the broker closed the connection only to refuse some partitions, as 0.7 does, and
        accepts a new one: these partitions go back, too.
        """
        by_tp = {cursor.tp: cursor for cursor in cursors}
        found = self._ask(dict.fromkeys(by_tp, time))
        if lost := next((one.error for one in found.values() if isinstance(one.error, LinkLost)), None):
            if not self._dialect.refuses_by_closing:
                raise lost
            with self._links.lent(self._broker, FETCH) as link:
                link.open()
        for tp, one in found.items():
            if one.code is not None and error_info(one.code).lasting:
                by_tp[tp].apply(by_tp[tp].partition.park, FetchRefused(tp, None, refusal(one.code, self._broker, tp)))
            elif one.offset is None:
                self._give_up([by_tp[tp]], self._why_unknown(tp, one))
        return {tp: one.offset for tp, one in found.items() if one.offset is not None}

    def _why_unknown(self, tp: TopicPartition, one: LogOffset) -> str:
        if isinstance(one.error, LinkLost):
            return f"{tp}: asked where its log begins and ends, {one.error}"
        name = ERRORS[one.code].name if one.code in ERRORS else str(one.code)
        why = f"{name} ({one.code})" if one.code is not None else str(one.error or "no offset")
        return f"{tp}: {self._broker} does not say where its log begins: {why}"

    def _ask(
        self, times: Mapping[TopicPartition, int], *, purpose: str = FETCH, max_offsets: int = 1
    ) -> dict[TopicPartition, LogOffset]:
        led = {self._broker: list(times)}
        return ask_offsets(
            self._links, self._dialect, led, times,
            purpose=purpose, max_offsets=max_offsets, committed=self._committed,
        )  # fmt: skip


def _has_no_position(cursor: Cursor) -> bool:
    """True if it must be looked up where the partition starts or resumes."""
    partition = cursor.partition
    if partition.position.offset is not None or partition.position.back_to is not None:
        return False
    return not cursor.closing and partition.undeliverable is None
