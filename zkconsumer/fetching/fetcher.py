"""One greenlet per source broker: asks it for what its cursors want and passes the sets on.

    positions first   a cursor without one (nothing committed, or out of range) is looked up, see positions.py
    then fetches      built by a FetchPlan within the free budget; each set is received into a buffer of its own
    a pause           after a fetch that brought nothing, where the broker itself does not wait (0.7)
    ends              of the logs, now and then, where a fetch does not tell the high watermark (0.7); and, beside the
                      fetches, of those that were not fetched for a while (their queues are full)

What a broker may answer, and what follows:

    3 5 6 9, link lost  it does not lead the partition (any more): back to the leader finder, after a pause
    1                   out of range: see resets.py, with the gap counted to the message
    -1 and others       a pause and the same again: right after a change of leader 0.8 answers -1 for a good position
    a damaged entry     what came before it is delivered; it is fetched again, then see damage.py
    no whole message    a larger fetch, up to a cap; then the partition is parked
    what does not pass  76, 35, 29 .. (kafkawire.errors, lasting): the partition is parked
    nothing, and the    what stands there was left out by a broker that converts its log down: one step on where its
    log goes on         padding says so, else as its own format tells (formatprobe.py)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from groundwork.queues import Closed
from groundwork.tasks import Event, now, sleep
from kafkawire.cluster.recordbatches import Held
from kafkawire.dialects import Dialect
from kafkawire.errors import CorruptMessage, LinkLost, error_info
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol.request import FetchedPartition
from zkconsumer.errors import FetchRefused, MessageTooLarge
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.budget import Budget
from zkconsumer.fetching.cursor import Cursor, Seek
from zkconsumer.fetching.damage import INSIDE, PARK, Damage
from zkconsumer.fetching.fetchplan import Asked, FetchPlan
from zkconsumer.fetching.formatprobe import Blank, FormatProbe, FormatWarnings
from zkconsumer.fetching.positions import Positions
from zkconsumer.fetching.search import Came
from zkconsumer.listeners import NO_HOOKS, Hooks
from zkconsumer.refusals import refusal

LONGEST_WAIT_MS = 500  # a broker that waits for data serves nothing else on this link: a new partition would wait too
IDLE_S = 1.0
BLANK_S = 1.0  # before a position is asked for again where nothing came twice, unless it is known sooner why
ENDS_LOOK_S = 1.0  # between two looks for logs whose end was not told for a while
OUT_OF_RANGE = 1


class Finder(Protocol):
    """Who finds the leader of a cursor."""

    def homeless(self, cursors: Iterable[Cursor], why: str) -> None: ...

    def lost(self, broker: Broker, tps: Iterable[TopicPartition], why: str) -> None:
        """The broker does not answer for these."""

    def answered(self, tps: Iterable[TopicPartition]) -> None:
        """A broker answered for these, which are new to it or were lost."""


def _at_once(name: str, fn: Callable[..., object], *args: object) -> None:
    fn(*args)


class Fetcher:
    """Fetches from one broker.

    located   is told of cursors that began where their log said
    corrupt   corrupt.message.policy
    empty_pause_s   after a fetch that brought nothing, where the broker answers at once
    hooks     asked where to go on for a position outside the log, in a greenlet of its own by `spawn`, so that a slow
              listener does not hold up the other partitions
    warnings  of what topics hold that is not read from them; None: nobody asks
    """

    def __init__(
        self,
        broker: Broker,
        links: Links,
        dialect: Dialect,
        plan: FetchPlan,
        budget: Budget,
        max_wait_ms: int,
        min_bytes: int,
        pause_s: float,
        finder: Finder,
        located: Callable[[list[Cursor]], None],
        on_event: OnEvent,
        corrupt: str = PARK,
        hooks: Hooks = NO_HOOKS,
        spawn: Callable[..., object] = _at_once,
        empty_pause_s: float = IDLE_S,
        warnings: FormatWarnings | None = None,
    ) -> None:
        self.broker = broker
        self.cursors: dict[TopicPartition, Cursor] = {}
        self._links = links
        self._dialect = dialect
        self._in_bytes = not dialect.offsets.count_messages
        self._plan = plan
        self._budget = budget
        self._max_wait_ms = min(max_wait_ms, LONGEST_WAIT_MS)
        self._min_bytes = min_bytes
        self._pause_s = pause_s
        self._finder = finder
        self._on_event = on_event
        self._damage = Damage(corrupt, broker, dialect, on_event)
        self._positions = Positions(
            broker,
            links,
            dialect,
            self.cursors,
            self._damage,
            self._give_up,
            located,
            on_event,
            hooks,
            spawn,
            self.wake,
        )
        self._empty_pause_s = empty_pause_s
        self._probe = FormatProbe(broker, links, warnings, spawn, self._explained) if warnings is not None else None
        self._blanks: dict[TopicPartition, int] = {}  # where nothing came at the last fetch, though the log goes on
        self._blind = False  # fetches do not tell where logs end, so that is asked
        self._unheard: set[TopicPartition] = set()  # nothing was answered for them yet, since they came or were lost
        self._wake = Event()
        self._refused: set[tuple[TopicPartition, int]] = set()  # told already, so that a refusal is one line

    def add(self, cursor: Cursor) -> None:
        self.cursors[cursor.tp] = cursor
        self._unheard.add(cursor.tp)
        self.wake()

    def remove(self, tp: TopicPartition) -> None:
        self.cursors.pop(tp, None)
        self._blanks.pop(tp, None)
        self._unheard.discard(tp)
        self._damage.forget(tp)

    def wake(self) -> None:
        self._wake.set()

    def run(self) -> None:
        """Until it is ended from outside, or its streams are closed; never by what a broker does."""
        while True:
            self._wake.clear()
            try:
                self._positions.locate()
                self._positions.land()
                fetched = self._fetch_once()
                if self._blind:
                    self._positions.look_at_ends()
                if not fetched:
                    due = self._plan.wake_at(now())
                    self._wake.wait(timeout=IDLE_S if due is None else min(IDLE_S, max(0.0, due - now())))
            except LinkLost as e:
                self._finder.lost(self.broker, list(self.cursors), str(e))
                self._give_up(list(self.cursors.values()), str(e))
                self._wake.wait(timeout=IDLE_S)
            except Closed:
                return  # the connector is shut down, and an answer came all the same

    def run_beside(self) -> None:
        """Ask where logs end whose end no fetch has told for a while, until it is ended from outside."""
        while True:
            sleep(ENDS_LOOK_S)
            lost = self._positions.look_at_old_ends()
            if lost is not None:
                self._unheard |= self.cursors.keys()
                self._finder.lost(self.broker, list(self.cursors), lost)
            elif self._unheard:
                self._heard(tp for tp, cursor in self.cursors.items() if now() - cursor.end_told_at < ENDS_LOOK_S)

    def _heard(self, tps: Iterable[TopicPartition]) -> None:
        heard = self._unheard.intersection(tps)
        self._unheard -= heard
        if heard:
            self._finder.answered(heard)

    def _give_up(self, cursors: list[Cursor], why: str) -> None:
        for cursor in cursors:
            self.remove(cursor.tp)
        if cursors:
            self._finder.homeless(cursors, why)

    # fetching -----------------------------------------------------------------------------------------------------

    def _fetch_once(self) -> bool:
        """One fetch.  False: nothing can be asked for now."""
        self._plan.follow(self.cursors.values())
        asked, reserved = self._afford(self._plan.next(self._budget.free, now()))
        if not asked:
            return False
        epochs = {tp: (self.cursors[tp], self.cursors[tp].epoch) for tp, _, _ in asked}
        request = self._dialect.requests.fetch(self._dialect, self._max_wait_ms, self._min_bytes, asked)
        try:
            reply = self._links.link(self.broker, "fetch").call(request)
        finally:
            for cursor, nbytes in reserved:
                cursor.lane.give_back(nbytes)
        if self._unheard:
            self._heard(fetched.tp for fetched in reply if not fetched.error)
        sizes = {tp: (position, size) for tp, position, size in asked}
        at = now()
        for fetched in reply:
            if fetched.tp not in epochs:
                continue  # nobody asked for it
            cursor, epoch = epochs[fetched.tp]
            if self.cursors.get(fetched.tp) is not cursor or cursor.epoch != epoch or cursor.closing:
                continue  # let go, or reset, while the broker waited
            position, size = sizes[fetched.tp]
            if fetched.error:
                self._refusal(cursor, position, fetched.error)
            else:
                self._take(cursor, position, size, fetched, at)
        if not self._dialect.waits_for_data and not any(len(fetched.buffer) for fetched in reply):
            self._pause([tp for tp, _, _ in asked])
        self._blind = any(fetched.high_watermark is None for fetched in reply)
        return True

    def _pause(self, tps: Iterable[TopicPartition]) -> None:
        """Ask for these no sooner.  By the plan, not by sleeping: a fetch gives the bytes back that it reserved, which
        wakes us, and partitions that come meanwhile need not wait."""
        for tp in tps:
            self._plan.back_off(tp, now() + self._empty_pause_s)

    def _afford(self, wanted: list[Asked]) -> tuple[list[Asked], list[tuple[Cursor, int]]]:
        """What fits the lanes of their streams; the bytes are reserved until the reply is there."""
        asked: list[Asked] = []
        reserved: list[tuple[Cursor, int]] = []
        for tp, position, size in wanted:
            cursor = self.cursors[tp]
            if cursor.lane.fits(size):
                cursor.lane.take(size)
                asked.append((tp, self._damage.ask_at(tp, position), size))
                reserved.append((cursor, size))
        return asked, reserved

    def _take(self, cursor: Cursor, position: int, size: int, fetched: FetchedPartition, at: float) -> None:
        """Pass on the complete entries of one partition's answer."""
        tp = cursor.tp
        if fetched.high_watermark is not None:
            cursor.end_is(fetched.high_watermark, at)
        self._refused = {key for key in self._refused if key[0] != tp}
        if not len(fetched.buffer):
            cursor.land()
            self._damage.looked(cursor, position, None)
            self._nothing(cursor, position, size)
            return
        message_set, scan = self._dialect.messages.message_set(
            tp.topic, tp.partition, position, fetched.buffer, fetched.high_watermark
        )
        came = Came(position, fetched.buffer, message_set, len(fetched.buffer) < size)
        damage = self._dialect.messages.cut_short(fetched.buffer, scan, position, size)
        scan = scan if damage is None else replace(scan, damage=damage)
        if self._damage.searching(tp):
            if scan.left_out:
                self._damage.looked(cursor, position, None)
            elif self._in_bytes or scan.runs or scan.damage or not self._plan.too_small(tp, size, scan.needed):
                self._damage.looked(cursor, position, came)
        elif self._damage.stepped_over(cursor, came, scan):
            self._plan.whole(tp)
        elif scan.runs:
            self._plan.whole(tp)
            cursor.deliver(message_set, len(fetched.buffer))
            if self._probe is not None:
                self._probe.fetched(tp, position)
        elif scan.damage is not None:
            self.damaged(cursor, position, scan.damage)
        elif scan.left_out:
            self._plan.whole(tp)
            cursor.jump(message_set.resume_at)
            if self._probe is not None:
                self._probe.transactions(tp.topic)
        elif not scan.needed and not self._in_bytes:
            self._nothing(cursor, position, size)
        elif not self._plan.too_small(tp, size, scan.needed):
            helps = self._dialect.offsets.hint(INSIDE)
            cursor.park(MessageTooLarge(tp, position, scan.needed, self._plan.most_bytes, size, helps))

    def _nothing(self, cursor: Cursor, position: int, size: int) -> None:
        """A fetch brought nothing.  Where the log goes on all the same, twice, it is found out why.

        Not at once: 0.8 tells the log's end as it is after it has read.
        """
        tp, end = cursor.tp, cursor.high_watermark
        before = self._blanks.pop(tp, None)
        if end is None or end <= position or cursor.position != position or self._damage.searching(tp):
            return
        self._blanks[tp] = position
        if before == position:
            self._plan.back_off(tp, now() + BLANK_S)
            if self._probe is not None:
                self._probe.blank(Blank(cursor, cursor.epoch, position, size))

    def _explained(self, blank: Blank, held: Held) -> None:
        """What stands where nothing came: nothing of use, or a batch that is larger than what was asked for."""
        cursor, tp, position = blank.cursor, blank.cursor.tp, blank.position
        if self.cursors.get(tp) is not cursor or cursor.epoch != blank.epoch or cursor.position != position:
            return
        to, batch = held.behind_empty(position), held.batch_at(position)
        if to > position:
            cursor.jump(to)
        elif (
            batch is not None
            and batch.nbytes > blank.asked_bytes
            and not self._plan.too_small(tp, blank.asked_bytes, batch.nbytes)
        ):
            cursor.park(MessageTooLarge(tp, position, batch.nbytes, self._plan.most_bytes, blank.asked_bytes))
        self._plan.back_off(tp, now())
        self.wake()

    def damaged(self, cursor: Cursor, position: int, damage: CorruptMessage) -> None:
        """The entry at position makes no sense, as a fetch or somebody who read it found."""
        times = self._damage.found(cursor, position, damage)
        if times:
            self._plan.back_off(cursor.tp, now() + self._pause_s * 2**times)

    def _refusal(self, cursor: Cursor, position: int, code: int) -> None:
        info = error_info(code)
        if code == OUT_OF_RANGE and not self._damage.searching(cursor.tp):
            cursor.lose(Seek(cursor.seek.reset, position))
            return
        said = f"{cursor.tp} at {position} on {self.broker}: {info.name} ({code})"
        if info.refresh:
            self._give_up([cursor], said)
            return
        if self._damage.searching(cursor.tp):
            self._damage.looked(cursor, position, None)
            return
        if info.lasting:
            cursor.park(FetchRefused(cursor.tp, position, refusal(code, self.broker, cursor.tp, position)))
            return
        if (cursor.tp, code) not in self._refused:  # one line per refusal, however often it is repeated
            self._refused.add((cursor.tp, code))
            self._on_event(ConsumerEvent("leader", f"{said}; asking again", cursor.tp))
        self._plan.back_off(cursor.tp, now() + self._pause_s)
