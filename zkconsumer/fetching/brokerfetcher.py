"""Fetcher of one source broker: a greenlet that sends fetch requests and passes the message sets to streams.

    positions first   finds positions of cursors without one (nothing committed, or out of range), see logbounds.py
    then fetches      built by a FetchPlan within the free budget; each set is received into its own buffer.
                      Partitions without news cost nothing here (resting.py); if many bring little each,
                      fetches are spaced, so that each brings more
    two in flight     if responses take FAR_S and more, for different partitions that have messages: the response to
                      one arrives while the request for the other travels.  A broker answers them in turn, and
                      would wait for partitions without messages, so these are never alone in one of them
    a backoff         after an empty fetch, if the broker itself does not wait (0.7).  Others also answer
                      at once while they are throttled (KIP-219), and 0.8.2 between the roll of a segment and the
                      next message: such fetches are a few milliseconds apart
    log ends          at intervals, if a fetch does not have the high watermark (0.7); and, in a separate greenlet,
                      for partitions that were not fetched for a while (their queues are full)

Responses of a broker, and the reaction (errors by the table in kafkawire.errors):

    moved, link lost    it does not lead the partition (any more): back to the leader finder, after a backoff
    gone                out of range: see resets.py, with the gap counted exactly
    wait, and others    a backoff and a retry: right after a change of leader 0.8 answers -1 for a good position
    a damaged entry     messages before it are delivered; it is fetched again, then see damage.py
    no whole message    a larger fetch, up to a cap; then the partition is parked.  Since 0.10.1 a large message comes
                        whole for the first partition of a fetch: so this one is the first next time
    lasting             the partition is parked
    left out            requested again with the next fetch: we are over the broker's quota
    nothing, and the    the entry there is not a message (the end of a transaction, an aborted one): skipped.  A broker
    log continues       that is read as an older release leaves it out when it converts its log down: skipped if its
                        padding says so, else as its own format shows (formatprobe.py)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from groundwork.queues import Closed
from groundwork.tasks import Event, now, sleep
from kafkawire.cluster.recordbatches import LogBatches
from kafkawire.dialects import Dialect
from kafkawire.errors import NOT_ANSWERED, CorruptMessage, Follows, LinkLost, error_info
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol.fetchrows import FetchRows, QuietRows
from kafkawire.protocol.request import FetchedPartition
from zkconsumer.errors import EntryTooLarge, FetchRefused
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.budget import Budget
from zkconsumer.fetching.damage import INSIDE, PARK, Damage
from zkconsumer.fetching.fetchplan import Asked, FetchPlan
from zkconsumer.fetching.formatprobe import FormatProbe, FormatWarnings
from zkconsumer.fetching.inflight import FetchPart, Flight, Offers, parts_of
from zkconsumer.fetching.logbounds import FETCH, LogBounds
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.fetching.resting import Group, Resting, offset_of
from zkconsumer.fetching.search import FetchedBytes
from zkconsumer.listeners import NO_LISTENER, ListenerCalls
from zkconsumer.refusals import refusal

LONGEST_WAIT_MS = 500  # a broker that waits for data serves nothing else on this link: a new partition would wait, too
IDLE_S = 1.0
HEAD_BYTES = 65536  # first bytes of an entry larger than a fetch, kept with the error
BLANKS = 3  # empty fetches in a row; from the second the partition comes first in the request
BLANK_S = 1.0  # backoff of a position with two empty fetches, unless the probe finds the reason sooner
FAR_S = 0.03  # a response that takes longer means a long link, or a full one
IN_FLIGHT = 2  # fetches on a long link
ENDS_CHECK_S = 1.0  # interval between checks for logs whose end was not sent for a while
DISTANCE_S = 25e-6  # between two fetches, per requested partition, if none is behind
MOST_DISTANCE_S = 0.04
LEAST_DISTANCE_S = 0.001  # less is not worth a timer
EMPTY_DISTANCE_S = 0.005  # between an empty fetch and the next: a broker may ignore the requested wait
FULL_SHARE = 0.5  # a set that fills this share of its request is behind: the next fetch brings as much
NOTHING = memoryview(b"")


class Finder(Protocol):
    """Interface of the leader finder, as a fetcher calls it."""

    def find_leaders(self, cursors: Iterable[Cursor], why: str) -> None: ...

    def lost(self, broker: Broker, tps: Iterable[TopicPartition], why: str, since: float) -> None:
        """Record that the broker does not answer for these partitions.  since: when the request was sent."""

    def answered(self, tps: Iterable[TopicPartition]) -> None:
        """Record that a broker answered for these partitions, which are new to it or were lost."""


def _at_once(name: str, fn: Callable[..., object], *args: object) -> None:
    fn(*args)


class Fetcher:
    """Fetcher of one broker.

    finder           the leader finder
    located          called with cursors that started at an end of their log
    corrupt          corrupt.message.policy
    backoff_s        after an error of a partition
    empty_backoff_s  after an empty fetch, if the broker answers at once
    listener         asked where to resume for a position outside the log, in a separate greenlet by `spawn`, so
                     that a slow listener does not delay the other partitions
    warnings         about data in topics that is not read; None: not probed
    committed        messages of transactions are read once they are committed (isolation.level read_committed)
    """

    def __init__(
        self,
        broker: Broker,
        *,
        links: Links,
        dialect: Dialect,
        plan: FetchPlan,
        budget: Budget,
        max_wait_ms: int,
        min_bytes: int,
        backoff_s: float,
        finder: Finder,
        located: Callable[[list[Cursor]], None],
        on_event: OnEvent,
        corrupt: str = PARK,
        listener: ListenerCalls = NO_LISTENER,
        spawn: Callable[..., object] = _at_once,
        empty_backoff_s: float = IDLE_S,
        warnings: FormatWarnings | None = None,
        committed: bool = True,
    ) -> None:
        self.broker = broker
        self.cursors: dict[TopicPartition, Cursor] = {}
        self._links = links
        self._dialect = dialect
        self._in_bytes = not dialect.offsets.count_messages
        self._plan = plan
        self._busy: dict[TopicPartition, Cursor] = {}  # cursors that do not rest
        self._busy_changed = False
        self._resting = Resting(plan.min_bytes, self._stirred)
        self._quiet = QuietRows()
        self._not_before = 0.0
        self._budget = budget
        self._max_wait_ms = min(max_wait_ms, LONGEST_WAIT_MS)
        self._min_bytes = min_bytes
        self._backoff_s = backoff_s
        self._finder = finder
        self._on_event = on_event
        self._committed = committed
        self._damage = Damage(corrupt, broker, dialect, on_event)
        self._positions = LogBounds(
            broker=broker,
            links=links,
            dialect=dialect,
            cursors=self.cursors,
            busy=self._busy,
            damage=self._damage,
            give_up=self._give_up,
            located=located,
            on_event=on_event,
            listener=listener,
            spawn=spawn,
            wake=self.wake,
            committed=committed,
        )
        self._empty_backoff_s = empty_backoff_s
        self._probe = (
            FormatProbe(broker=broker, links=links, warnings=warnings, spawn=spawn, explained=self._explained)
            if warnings is not None
            else None
        )
        # After empty fetches although the log continues: the position, and the number of empty fetches.
        self._blanks: dict[TopicPartition, tuple[int, int]] = {}
        self._asks_ends = False  # fetches do not have the ends of logs, so they are requested separately
        self._flights: deque[Flight] = deque()  # oldest first
        self._far = False
        self._unanswered: set[TopicPartition] = set()  # no response yet, since they were added or the broker was lost
        self._wake = Event()
        self._reported: set[tuple[TopicPartition, int]] = set()  # errors that were reported: one line each

    def add(self, cursor: Cursor) -> None:
        self.cursors[cursor.tp] = self._busy[cursor.tp] = cursor
        self._busy_changed = True
        self._unanswered.add(cursor.tp)
        cursor.apply(cursor.partition.lead, True)
        self.wake()

    def remove(self, tp: TopicPartition) -> None:
        self._resting.forget(tp)
        cursor = self.cursors.pop(tp, None)
        if cursor is not None:
            cursor.apply(cursor.partition.lead, False)
        self._busy.pop(tp, None)
        self._busy_changed = True
        self._blanks.pop(tp, None)
        self._unanswered.discard(tp)
        self._damage.forget(tp)

    def wake(self) -> None:
        self._wake.set()

    def _stirred(self, cursor: Cursor) -> None:
        """Add a cursor that no longer rests to the busy ones."""
        if self.cursors.get(cursor.tp) is cursor:
            self._busy[cursor.tp] = cursor
            self._busy_changed = True
            self.wake()

    def run(self) -> None:
        """Fetch until stopped from outside, or until its streams are closed; no response of a broker ends it."""
        try:
            self._run()
        finally:
            self._abandon()

    def _run(self) -> None:
        while True:
            self._wake.clear()
            began = now()
            try:
                if not self._flights:  # positions are requested on the same connection
                    self._positions.locate()
                    self._positions.find_segments()
                    if (distance_s := self._not_before - now()) >= LEAST_DISTANCE_S:
                        sleep(distance_s)
                fetched = self._fetch_once()
                if self._asks_ends:
                    self._positions.update_ends()
                if not fetched:
                    due = self._plan.wake_at(now())
                    self._wake.wait(timeout=IDLE_S if due is None else min(IDLE_S, max(0.0, due - now())))
            except LinkLost as e:
                since = self._flights[0].sent_at if self._flights else began
                self._abandon()
                self._quiet.clear()
                self._finder.lost(self.broker, list(self.cursors), str(e), since)
                self._give_up(list(self.cursors.values()), str(e))
                self._wake.wait(timeout=IDLE_S)
            except Closed:
                return  # the connector was shut down before the response came

    def run_ends(self) -> None:
        """Request the log ends that no fetch has sent for a while, until stopped from outside."""
        while True:
            sleep(ENDS_CHECK_S)
            began = now()
            lost = self._positions.update_old_ends()
            if lost is not None:
                self._unanswered |= self.cursors.keys()
                self._finder.lost(self.broker, list(self.cursors), lost, began)
            elif self._unanswered:
                self._answered(tp for tp, cursor in self.cursors.items() if now() - cursor.end_known_at < ENDS_CHECK_S)

    def _answered(self, tps: Iterable[TopicPartition]) -> None:
        answered = self._unanswered.intersection(tps)
        self._unanswered -= answered
        if answered:
            self._finder.answered(answered)

    def _give_up(self, cursors: list[Cursor], why: str) -> None:
        for cursor in cursors:
            self.remove(cursor.tp)
        if cursors:
            self._finder.find_leaders(cursors, why)

    # fetching -----------------------------------------------------------------------------------------------------

    def _fetch_once(self) -> bool:
        """Send the requests that may be sent, and receive one response.  Return False if nothing can be fetched now."""
        self._send_some()
        if not self._flights:
            return False
        flight = self._flights[0]
        reply = flight.link.receive().body
        self._flights.popleft().release()
        at = now()
        if flight.behind:
            self._far = self._dialect.waits_for_data and at - flight.sent_at >= FAR_S
        self._received(flight, reply, at)
        return True

    def _send_some(self) -> None:
        """Send what the plan says, in two requests over a long link."""
        flying = {tp for flight in self._flights for tp in flight.parts}
        if self._flights and not self._sends_another(flying):
            return
        began = now()
        if self._busy_changed:
            self._busy_changed = False
            self._plan.follow(self._busy.values())
        groups: list[Group] = []
        starved = False
        if not any(flight.groups for flight in self._flights):
            groups, starved = self._resting.due(began, not self._busy, self._budget.free)
        held = [(group, group.reserve()) for group in groups]
        asked = [] if starved else self._planned(began, flying)
        if not (asked or groups or starved or self._flights):
            groups, _ = self._resting.due(began, True, self._budget.free)
            held = [(group, group.reserve()) for group in groups]
        if not (asked or groups):
            return
        half = len(asked) // 2 if self._far and not self._flights else 0
        if half and self._behind(tp for tp, _, _ in asked[:half]) and self._behind(tp for tp, _, _ in asked[half:]):
            self._send(began, asked[:half], groups, held, alone=False)
            self._send(began, asked[half:], alone=False)
        else:
            self._send(began, asked, groups, held, alone=not self._flights)

    def _planned(self, began: float, flying: set[TopicPartition]) -> list[Asked]:
        """Return what to fetch next for busy partitions."""
        fetch_at = self._damage.fetch_at
        wanted = self._plan.next(self._budget.free, began, flying, Offers())
        return [(tp, fetch_at(tp, offset), size) for tp, offset, size in wanted]

    def _sends_another(self, flying: set[TopicPartition]) -> bool:
        """True if a second request should be sent behind the one in flight: the broker answers both at once, and
        nothing else needs this connection."""
        return (
            self._far
            and len(self._flights) < IN_FLIGHT
            and self._behind(flying)
            and self._behind(tp for tp in self._busy if tp not in flying)
            and not self._positions.wanted
        )

    def _behind(self, tps: Iterable[TopicPartition]) -> bool:
        """True if the log of any of these is known to have messages that were not fetched."""
        for tp in tps:
            if (cursor := self.cursors.get(tp)) is None:
                continue
            offset, end = cursor.partition.fetch_offset, cursor.partition.high_watermark
            if offset is not None and end is not None and end > offset:
                return True
        return False

    def _send(
        self,
        began: float,
        asked: list[Asked],
        groups: Sequence[Group] = (),
        held: list[tuple[Group, int]] | None = None,
        *,
        alone: bool,
    ) -> None:
        """Send one request.  alone: no other request is in flight, so its response may be skipped where it equals the
        previous one."""
        parts = parts_of(asked, self.cursors)
        flight = Flight(began, parts, groups, held or [], self._behind(parts))
        try:
            flight.link = self._links.link(self.broker, FETCH)  # other greenlets may use it meanwhile
        except BaseException:
            flight.release()
            raise
        self._flights.append(flight)
        if not alone:
            self._quiet.clear()
        request = self._dialect.requests.fetch(
            self._dialect,
            self._wait_ms(began, bool(asked), groups),
            self._min_bytes,
            asked,
            committed=self._committed,
            rows=[group.rows(self._rows) for group in groups],
            quiet=self._quiet if alone else None,
        )
        flight.link.send(request)

    def _abandon(self) -> None:
        """Give up the requests in flight: no response comes any more."""
        while self._flights:
            self._flights.pop().release()

    def _received(self, flight: Flight, reply: list[FetchedPartition], at: float) -> None:
        parts, groups = flight.parts, flight.groups
        reply = [fetched for fetched in reply if fetched.error != NOT_ANSWERED]  # the others are requested next time
        self._heard(reply, groups, at)
        behind = brought = False
        for fetched in reply:
            brought = brought or len(fetched.buffer) > 0
            part = parts.get(fetched.tp)
            if part is None:
                self._take_rested(fetched, groups, at)
            elif self._awaits(part):
                behind = behind or len(fetched.buffer) >= FULL_SHARE * part.asked_bytes
                self._take(part, fetched, at)
        if self._quiet.passed:
            answered = {fetched.tp for fetched in reply}
            for tp, part in parts.items():
                if tp.topic in self._quiet.passed and tp not in answered and self._awaits(part):
                    end = part.cursor.partition.high_watermark  # unchanged since the previous response
                    self._take(part, FetchedPartition(tp, 0, end, NOTHING), at)
        if not self._dialect.waits_for_data and not brought:
            self._back_off(parts)
        self._asks_ends = any(fetched.high_watermark is None for fetched in reply)
        if not behind:
            self._not_before = flight.sent_at + min(MOST_DISTANCE_S, DISTANCE_S * len(parts))
        if not brought:
            self._not_before = max(self._not_before, flight.sent_at + EMPTY_DISTANCE_S)

    def _awaits(self, part: FetchPart) -> bool:
        """True if the response can still be used: the partition is ours, as it was when the request was sent."""
        return self.cursors.get(part.tp) is part.cursor and part.awaited

    def _rows(self, wanted: Sequence[Asked]) -> FetchRows:
        return self._dialect.requests.fetch_rows(self._dialect, wanted)

    def _wait_ms(self, at: float, busy: bool, groups: Sequence[Group]) -> int:
        """Return how long the broker may wait for data: no longer than until other requests are due."""
        if busy and self._plan.left_out:
            return 0
        due = self._resting.next_due() if busy and not groups else None
        return self._max_wait_ms if due is None else max(0, min(self._max_wait_ms, int((due - at) * 1000)))

    def _heard(self, reply: list[FetchedPartition], groups: Sequence[Group], at: float) -> None:
        """Record that a response came, including partitions whose unchanged part was skipped.

        A group whose topics it leaves out was not answered, such as while we are over the broker's quota: then the ends
        of its logs are requested (LogBounds.update_old_ends), as for any partition that is not fetched.
        """
        if groups:
            topics = {fetched.tp.topic for fetched in reply} | self._quiet.passed
            groups = [group for group in groups if group.topics <= topics]
        for group in groups:
            group.answered_at = at
        if self._unanswered:
            self._answered(fetched.tp for fetched in reply if not fetched.error)
            for group in groups:
                self._answered(group.cursors)

    def _take_rested(self, fetched: FetchedPartition, groups: Sequence[Group], at: float) -> None:
        """Handle the part of a response for a resting partition: usually it has nothing, or belongs to others of the
        topic."""
        cursor = self.cursors.get(fetched.tp)
        if cursor is None or cursor.rest not in groups:
            return  # it was not requested, or changed while the broker waited
        end = fetched.readable_end(self._committed)
        if not fetched.error and not len(fetched.buffer) and end == cursor.partition.high_watermark:
            return
        group = cursor.rest
        assert isinstance(group, Group)
        group.leave(cursor)
        self._resting.busy(fetched.tp)
        self._take(
            FetchPart(cursor.tp, cursor, cursor.partition.epoch, offset_of(cursor), group.asked_bytes), fetched, at
        )

    def _nothing_new(self, part: FetchPart, end: int | None, at: float) -> bool:
        """Return True for a partition without messages if the log ends at its position, and nothing else has to be
        done."""
        cursor, position = part.cursor, part.cursor.partition.position
        if end is None or not end == part.offset == position.offset or cursor.tp in self._blanks:
            return False
        if position.skips or self._damage.searching(cursor.tp):
            return False
        cursor.set_log_end(end, at)
        self._resting.brought_nothing(cursor, at)
        if cursor.rest is not None:
            del self._busy[cursor.tp]
            self._busy_changed = True
        return True

    def _back_off(self, tps: Iterable[TopicPartition]) -> None:
        """Leave these partitions out for a while.  The plan does this instead of a sleep: a fetch releases the bytes
        that it reserved, which wakes this greenlet, and partitions that are added meanwhile need not wait."""
        for tp in tps:
            self._plan.back_off(tp, now() + self._empty_backoff_s)

    def _take(self, part: FetchPart, fetched: FetchedPartition, at: float) -> None:
        """Handle the response for one partition: pass on its complete entries."""
        cursor, log_end = part.cursor, fetched.readable_end(self._committed)
        if fetched.error:
            self._error(part, fetched.error)
            return
        empty = not len(fetched.buffer)
        if empty and self._nothing_new(part, log_end, at):
            return
        if not empty:
            self._resting.busy(part.tp)
        if log_end is not None:
            cursor.set_log_end(log_end, at)
        if self._reported:
            self._reported = {key for key in self._reported if key[0] != part.tp}
        if empty:
            if cursor.partition.position.skips:
                cursor.apply(cursor.partition.pass_skips)
            self._damage.probed(cursor, part.offset, None)
            self._empty(part)
        else:
            self._scan(part, fetched, log_end)

    def _scan(self, part: FetchPart, fetched: FetchedPartition, log_end: int | None) -> None:
        """Handle the bytes that a fetch brought."""
        cursor, tp, offset, size = part.cursor, part.tp, part.offset, part.asked_bytes
        if len(fetched.buffer) > size:
            cursor.budget.larger(len(fetched.buffer) - size)
        message_set, scan = self._dialect.messages.message_set(
            tp.topic, tp.partition, offset, fetched.buffer, log_end, fetched.aborted
        )
        whole = FetchedBytes(offset, fetched.buffer, message_set, len(fetched.buffer) < size)
        damage = self._dialect.messages.cut_short(fetched.buffer, scan, offset, size)
        scan = scan if damage is None else replace(scan, damage=damage)
        if self._damage.searching(tp):
            if scan.left_out:
                self._damage.probed(cursor, offset, None)
            elif self._in_bytes or scan.runs or scan.damage or not self._plan.too_small(tp, size, scan.needed):
                self._damage.probed(cursor, offset, whole)
        elif self._damage.skipped(cursor, whole, scan):
            self._plan.whole(tp)
        elif scan.runs:
            self._plan.whole(tp)
            cursor.enqueue(message_set, len(fetched.buffer))
            if (probe := self._probe_of_converted()) is not None:
                probe.fetched(tp, offset)
        elif scan.damage is not None:
            self.damaged(cursor, offset, scan.damage)
        elif scan.left_out:
            self._plan.whole(tp)
            cursor.apply(cursor.partition.skip_to, message_set.resume_at)
            if (probe := self._probe_of_converted()) is not None:
                probe.transactions(tp.topic)
        elif not scan.needed and not self._in_bytes:
            self._empty(part)
        elif not self._plan.too_small(tp, size, scan.needed):
            helps = self._dialect.offsets.hint(INSIDE)
            resume_at = self._dialect.messages.behind(fetched.buffer, scan.end, offset)
            raw = bytes(fetched.buffer[scan.end : scan.end + HEAD_BYTES])
            most = self._plan.max_bytes
            cursor.apply(
                cursor.partition.park,
                EntryTooLarge(tp, offset, scan.needed, most, size, helps, resume_at=resume_at, raw=raw),
            )

    def _probe_of_converted(self) -> FormatProbe | None:
        """Return the probe, if the broker may convert its log down for us."""
        return None if self._dialect.record_batches else self._probe

    def _empty(self, part: FetchPart) -> None:
        """Handle an empty fetch.  If the log continues all the same, the partition comes first in the next request; if
        that did not help, or cannot help, the probe looks for the reason.

        Not after the first empty fetch: 0.8 sends the log's end as it is after the read.
        """
        tp, partition = part.tp, part.cursor.partition
        at, times = self._blanks.pop(tp, (part.offset, 0))
        continues = partition.high_watermark is not None and partition.high_watermark > part.offset
        if not continues or partition.position.offset != part.offset or self._damage.searching(tp):
            return
        times = times + 1 if at == part.offset else 1
        self._blanks[tp] = part.offset, times
        if times < BLANKS and self._dialect.gives_whole_entries:
            self._plan.hurry(tp)
        elif times > 1:
            self._plan.back_off(tp, now() + BLANK_S)
            if (probe := self._probe_of_converted()) is not None:
                probe.blank(part._replace(epoch=partition.epoch))

    def _explained(self, blank: FetchPart, held: LogBatches) -> None:
        """Handle what the probe found where a fetch was empty: no messages, or a batch larger than the request."""
        cursor, tp, offset = blank.cursor, blank.tp, blank.offset
        if not self._awaits(blank) or cursor.partition.position.offset != offset:
            return
        to, batch = held.behind_empty(offset), held.batch_at(offset)
        if to > offset:
            cursor.apply(cursor.partition.skip_to, to)
        elif (
            batch is not None
            and batch.nbytes > blank.asked_bytes
            and not self._plan.too_small(tp, blank.asked_bytes, batch.nbytes)
        ):
            cursor.apply(
                cursor.partition.park, EntryTooLarge(tp, offset, batch.nbytes, self._plan.max_bytes, blank.asked_bytes)
            )
        self._plan.back_off(tp, now())
        self.wake()

    def damaged(self, cursor: Cursor, offset: int, damage: CorruptMessage) -> None:
        """Apply corrupt.message.policy to the entry at this offset, which a fetch or a reader found damaged."""
        times = self._damage.found(cursor, offset, damage)
        if times:
            self._plan.back_off(cursor.tp, now() + self._backoff_s * 2**times)

    def _error(self, part: FetchPart, code: int) -> None:
        cursor, tp, offset, info = part.cursor, part.tp, part.offset, error_info(code)
        if info.follows is Follows.GONE and not self._damage.searching(tp):
            if cursor.partition.position.offset == offset:
                cursor.apply(cursor.partition.refuse_position)
                self._plan.back_off(tp, now() + self._backoff_s)
            return
        said = f"{tp} at {offset} on {self.broker}: {info.name} ({code})"
        if info.follows is Follows.MOVED:
            self._give_up([cursor], said)
            return
        if self._damage.searching(tp):
            self._damage.probed(cursor, offset, None)
            return
        if info.follows is Follows.LASTING:
            cursor.apply(cursor.partition.park, FetchRefused(tp, offset, refusal(code, self.broker, tp, offset)))
            return
        if (tp, code) not in self._reported:  # one line per error, however often it is repeated
            self._reported.add((tp, code))
            self._on_event(ConsumerEvent("leader", f"{said}; asking again", tp))
        self._plan.back_off(tp, now() + self._backoff_s)
