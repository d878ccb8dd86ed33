"""One greenlet per source broker: asks it for what its cursors want and passes the sets on.

    positions first   a cursor without one (nothing committed, or out of range) is looked up with ListOffsets
    then fetches      built by a FetchPlan within the free budget; each set is received into a buffer of its own

What a broker may answer, and what follows:

    3 5 6 9, link lost  it does not lead the partition (any more): back to the leader finder, after a pause
    1                   out of range: the reset policy, with the gap counted to the message
    -1 and others       a pause and the same again: right after a change of leader 0.8 answers -1 for a good position
    a damaged entry     what came before it is delivered; after DAMAGE_TRIES more fetches the partition is parked
    no whole message    a larger fetch, up to a cap; then the partition is parked
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from groundwork.crew import Event, now
from kafkawire.dialects import Dialect
from kafkawire.errors import ERRORS, LinkLost, error_info
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.v08.requests import FetchedPartition
from zkconsumer.budget import Budget
from zkconsumer.cursor import Cursor, Seek
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetchplan import Asked, FetchPlan
from zkconsumer.logends import EARLIEST, LATEST, offset_rows

log = logging.getLogger(__name__)

LONGEST_WAIT_MS = 500  # a broker that waits for data serves nothing else on this link: a new partition would wait too
IDLE_S = 1.0
DAMAGE_TRIES = 3
OUT_OF_RANGE = 1


class Finder(Protocol):
    """Who finds the leader of a cursor."""

    def homeless(self, cursors: Iterable[Cursor], why: str) -> None: ...


class Fetcher:
    """Fetches from one broker.  located(cursors) is told of cursors that began where their log said."""

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
    ) -> None:
        self.broker = broker
        self.cursors: dict[TopicPartition, Cursor] = {}
        self.answered = False  # the broker answered since it was last given up
        self._links = links
        self._dialect = dialect
        self._plan = plan
        self._budget = budget
        self._max_wait_ms = min(max_wait_ms, LONGEST_WAIT_MS)
        self._min_bytes = min_bytes
        self._pause_s = pause_s
        self._finder = finder
        self._located = located
        self._on_event = on_event
        self._wake = Event()
        self._refused: set[tuple[TopicPartition, int]] = set()  # told already, so that a refusal is one line

    def add(self, cursor: Cursor) -> None:
        self.cursors[cursor.tp] = cursor
        self.wake()

    def remove(self, tp: TopicPartition) -> None:
        self.cursors.pop(tp, None)

    def wake(self) -> None:
        self._wake.set()

    def run(self) -> None:
        """Until it is ended from outside; never by what a broker does."""
        while True:
            self._wake.clear()
            try:
                self._locate()
                if not self._fetch_once():
                    due = self._plan.wake_at(now())
                    self._wake.wait(timeout=IDLE_S if due is None else min(IDLE_S, max(0.0, due - now())))
            except LinkLost as e:
                self._give_up(list(self.cursors.values()), str(e))
                self._wake.wait(timeout=IDLE_S)

    def _give_up(self, cursors: list[Cursor], why: str) -> None:
        for cursor in cursors:
            self.cursors.pop(cursor.tp, None)
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
        self.answered = True
        sizes = {tp: (position, size) for tp, position, size in asked}
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
                self._take(cursor, position, size, fetched)
        return True

    def _afford(self, wanted: list[Asked]) -> tuple[list[Asked], list[tuple[Cursor, int]]]:
        """What fits the lanes of their streams; the bytes are reserved until the reply is there."""
        asked: list[Asked] = []
        reserved: list[tuple[Cursor, int]] = []
        for tp, position, size in wanted:
            cursor = self.cursors[tp]
            if cursor.lane.fits(size):
                cursor.lane.take(size)
                asked.append((tp, position, size))
                reserved.append((cursor, size))
        return asked, reserved

    def _take(self, cursor: Cursor, position: int, size: int, fetched: FetchedPartition) -> None:
        """Pass on the complete entries of one partition's answer."""
        tp = cursor.tp
        cursor.high_watermark = fetched.high_watermark
        self._refused = {key for key in self._refused if key[0] != tp}
        if not len(fetched.buffer):
            return
        message_set, scan = self._dialect.messages.message_set(
            tp.topic, tp.partition, position, fetched.buffer, fetched.high_watermark
        )
        if scan.end:
            self._plan.whole(tp)
            cursor.deliver(message_set, len(fetched.buffer))
        elif scan.damage is not None:
            self.damaged(cursor, position, scan.damage)
        elif not self._plan.too_small(tp, size, scan.needed):
            entry = f"an entry of {scan.needed} bytes" if scan.needed else f"an entry of more than {size} bytes"
            cursor.park(
                f"{tp} at {position}: {entry} is larger than the largest fetch, {self._plan.most_bytes} bytes; "
                "raise fetch.message.max.bytes",
            )

    def damaged(self, cursor: Cursor, position: int, damage: Exception) -> None:
        """The entry at position makes no sense: ask again a few times, the way here may be at fault."""
        times = cursor.count_damage(position)
        if times > DAMAGE_TRIES:
            reason = f"damaged in the log of {self.broker}, fetched {times} times"
            cursor.park(f"{cursor.tp} at {position}: {reason}: {damage}")
            return
        log.warning("%s at %s: %s; fetching it again", cursor.tp, position, damage)
        self._plan.back_off(cursor.tp, now() + self._pause_s * 2**times)

    def _refusal(self, cursor: Cursor, position: int, code: int) -> None:
        info = error_info(code)
        if code == OUT_OF_RANGE:
            cursor.lose(Seek(cursor.seek.reset, position))
            return
        said = f"{cursor.tp} at {position} on {self.broker}: {info.name} ({code})"
        if info.refresh:
            self._give_up([cursor], said)
            return
        if (cursor.tp, code) not in self._refused:  # one line per refusal, however often it is repeated
            self._refused.add((cursor.tp, code))
            self._on_event(ConsumerEvent("leader", f"{said}; asking again", cursor.tp))
        self._plan.back_off(cursor.tp, now() + self._pause_s)

    # positions ----------------------------------------------------------------------------------------------------

    def _locate(self) -> None:
        """Find where the cursors without a position begin."""
        lost = [c for c in self.cursors.values() if c.position is None and not c.closing and c.parked is None]
        if not lost:
            return
        earliest = self._offsets(EARLIEST, lost)
        latest = self._offsets(LATEST, [c for c in lost if c.tp in earliest])
        begun = []
        for cursor in lost:
            if (
                cursor.tp in latest
                and not cursor.closing
                and self._begin(cursor, earliest[cursor.tp], latest[cursor.tp])
            ):
                begun.append(cursor)
        if begun:
            self._located(begun)

    def _offsets(self, time: int, cursors: list[Cursor]) -> dict[TopicPartition, int]:
        """One end of each log; a partition whose broker refuses is handed back to the leader finder."""
        if not cursors:
            return {}
        by_tp = {cursor.tp: cursor for cursor in cursors}
        request = self._dialect.requests.list_offsets(self._dialect, dict.fromkeys(by_tp, time))
        found: dict[TopicPartition, int] = {}
        for tp, (error, offset) in offset_rows(self._links.link(self.broker, "fetch").call(request)).items():
            if tp in by_tp and error == 0 and offset is not None:
                found[tp] = offset
            elif tp in by_tp:
                name = ERRORS[error].name if error in ERRORS else str(error)
                self._give_up([by_tp[tp]], f"{tp}: {self.broker} does not say where its log begins: {name} ({error})")
        self.answered = True
        return found

    def _begin(self, cursor: Cursor, earliest: int, latest: int) -> bool:
        """The reset policy.  False: it says to park."""
        tp, seek = cursor.tp, cursor.seek
        wanted = seek.out_of_range
        if wanted is not None and earliest <= wanted <= latest:
            cursor.begin(wanted)  # back inside: a follower that led for a moment had a shorter log
            return True
        if wanted is not None and seek.reset == "fail":
            cursor.park(
                f"{tp} at {wanted}: out of range, the log of {self.broker} holds {earliest} to {latest} "
                "(auto.offset.reset=fail); set the committed offset by hand",
            )
            return False
        to = latest if seek.reset == "largest" else earliest
        self._on_event(_jump(tp, wanted, to, earliest, latest, seek.reset))
        cursor.begin(to)
        return True


def _jump(tp: TopicPartition, wanted: int | None, to: int, earliest: int, latest: int, reset: str) -> ConsumerEvent:
    span = f"its log holds {earliest} to {latest}"
    if wanted is None:
        return ConsumerEvent("start", f"{tp}: no committed offset, starting at {to} ({reset}; {span})", tp)
    if to >= wanted:
        text = f"{tp} at {wanted}: out of range, {span}; going on at {to}, {to - wanted} messages are missing"
        return ConsumerEvent("gap", text, tp, to - wanted)
    text = f"{tp} at {wanted}: out of range, {span}; going back to {to}: the log was cut or made anew"
    return ConsumerEvent("reset", text, tp)
