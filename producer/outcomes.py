"""Outcomes of batches: each response, or its absence, becomes stored, retried, split, or failed.  No clock, no socket.

Tickets are called here and nowhere else: reached() after each stored piece of a part that was split, done() with its
last piece, failed() when something of it can never be stored.  The order within a partition is kept throughout.

A ticket that implements one of these protocols is called more often, or decides more, than kafkawire.model.Ticket:

    SkippedListener   goes on without messages that are too large    StoredListener   is called as messages are stored
    OffsetListener    is called with where they were stored          AtMostOnce       no retry after an unknown outcome
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from kafkawire.cluster.view import ClusterView
from kafkawire.errors import BrokerError, CorruptMessage, LinkLost, RemoteError, error_info
from kafkawire.interfaces import MessageFormats
from kafkawire.model import Broker, TopicPartition
from producer.batches import Batch, Batches, Piece, before, position, split_into
from producer.errors import TooLarge, Undeliverable, UnknownOutcome
from producer.outages import Events, Stalls, away, waiting
from producer.verdicts import BOUNDED_TRIES, NOTHING_STORED, Verdict, backoff_s, judge, refreshes

TOO_LARGE = 10  # MessageSizeTooLarge
UNKNOWN_OUTCOME = frozenset({-1, 7, 20})  # unknown, time-out, too few replicas after the append: it may be stored
NEVER = frozenset({17, 29})  # metadata errors of a topic that waiting does not cure


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds of retries.  retries < 0: for ever (topic_wait_s bounds unknown topics all the same)."""

    retries: int = -1
    backoff_s: float = 0.1
    topic_wait_s: float = 60.0
    delivery_s: float = 30.0  # with bounded retries: how long a part may wait that cannot even be sent


@dataclass(slots=True)
class Counters:
    """Counters of a sender since it began.  errors: by protocol code; unknown: batches with an unknown outcome."""

    messages: int = 0
    bytes: int = 0
    requests: int = 0
    retries: int = 0
    unknown: int = 0
    failed: int = 0
    maybe_lost: int = 0  # sent; then their connection broke before a barrier behind them was answered
    errors: Counter[int] = field(default_factory=Counter)


class Outcomes:
    """Applies verdicts to `batches`.  events gets one sentence each time the state of a partition changes.

    created(topic): the cluster does not have this topic; True: somebody sees to it that it is created (again), and says
    how that goes, so what waits for it is not given up meanwhile.
    """

    def __init__(
        self,
        batches: Batches,
        patience: Patience,
        messages: MessageFormats,
        events: Events,
        *,
        created: Callable[[str], bool] = lambda topic: False,
    ) -> None:
        self.counters = Counters()
        self._batches = batches
        self._patience = patience
        self._messages = messages
        self._events = events
        self._created = created
        self._stalls = Stalls(events)
        self._missing: dict[TopicPartition, float] = {}  # since when the cluster does not know them
        self._rng = random.Random()

    def answered(self, batch: Batch, code: int, base_offset: int, broker: Broker, now: float) -> bool:
        """A broker answered a batch.  True: leaders should be refreshed."""
        where = f"{batch.tp} on {broker}"
        verdict = judge(code, base_offset)
        if verdict is Verdict.STORED:
            self.stored(batch, now, base_offset)
            return False
        self.counters.errors[code] += 1
        reason = Undeliverable(f"{where}: {NOTHING_STORED}") if code == 0 else BrokerError(code, where)
        if code in UNKNOWN_OUTCOME and _once(batch):
            self._fail_unknown(batch, reason, now)
        elif verdict is Verdict.SPLIT:
            self._split(batch, code, broker, now)
        elif verdict is Verdict.CHECK:
            self._check(batch, reason, where, now)
        else:
            self._again(batch, reason, now, verdict)
        return refreshes(code)

    def lost(self, batch: Batch, reason: LinkLost, now: float) -> None:
        """No response will come: the outcome is unknown, so the batch is sent again and may be stored twice."""
        self.counters.unknown += 1
        if _once(batch):
            self._fail_unknown(batch, reason, now)
        else:
            self._again(batch, reason, now, Verdict.AGAIN)

    def maybe_refused(self, batch: Batch, reason: LinkLost, now: float) -> None:
        """The connection was closed while this was the oldest in flight: so refuses a broker that never answers (0.7).

        Or it died just then: the batch fails only when that happens several times in a row.
        """
        self.counters.unknown += 1
        said = f"{batch.tp}: its broker closed the link when this was sent, as it does with what it refuses ({reason})"
        self._check(batch, Undeliverable(said), str(batch.tp), now)

    def oversize(self, batch: Batch, broker: Broker, now: float) -> None:
        """It was not sent, because the broker would drop it silently."""
        self._split(batch, TOO_LARGE, broker, now)

    def maybe_lost(self, count: int, reason: LinkLost) -> None:
        """Messages were sent, and their connection broke before a barrier behind them was answered."""
        self.counters.maybe_lost += count
        self._events(logging.WARNING, f"{reason}; {count} messages that were sent over it before may be lost")

    def stored(self, batch: Batch, now: float, base_offset: int = -1, sure: bool = True) -> None:
        """The batch is stored.  base_offset: of its first message; -1: unknown.  Not sure: sent, not acknowledged."""
        self._batches.complete(batch)
        self.counters.messages += batch.count
        self.counters.bytes += batch.size
        self._stalls.recovered(batch.tp, now)
        exact = True
        for piece in batch.pieces:
            ticket, offset = piece.ticket, base_offset if base_offset >= 0 else None
            if isinstance(ticket, StoredListener) and not piece.whole.over:
                ticket.stored(piece.part.count, offset, sure)
            elif isinstance(ticket, OffsetListener) and not piece.whole.over:
                ticket.placed(piece.part.count, offset, exact)
            base_offset += piece.part.count if base_offset >= 0 else 0
            exact = exact and piece.part.counted
            self._piece_stored(piece)

    def expire(self, view: ClusterView, now: float, answered: bool) -> bool:
        """Fail what has waited long enough for a topic, a leader or a connection.

        answered: the view was just read; else the cluster could not be asked, and no topic counts as missing.
        True: something still waits for a topic or a leader, so metadata should be refreshed.
        """
        if not answered:
            self._missing.clear()
        waits = False
        for tp in list(self._batches.waiting()):
            waits |= self._waits(tp, view, now, answered)
        for tp in [tp for tp in self._missing if self._batches.head(tp) is None]:
            del self._missing[tp]
        return waits

    # one verdict each

    def _again(self, batch: Batch, reason: Exception, now: float, verdict: Verdict) -> None:
        """Retry after a backoff; or fail, after enough tries."""
        single = len(batch.pieces) == 1
        for piece in batch.pieces:
            piece.tries += 1
            # In a row: what survived an outage does not fail by the first odd response after it.
            piece.refusals = piece.refusals + 1 if verdict is Verdict.BOUNDED else 0
            since = now if piece.missing_since is None else piece.missing_since
            piece.missing_since = since if verdict is Verdict.WAIT else None
            piece.alone |= verdict is Verdict.BOUNDED  # so that in the end only the one at fault fails
        if self._tried_enough(batch, verdict, now) and (single or verdict is not Verdict.BOUNDED):
            self._fail(batch, reason, now)
            return
        self.counters.retries += 1
        self._stalls.failed_again(batch.tp, reason, now)
        pause = backoff_s(batch.tries, self._patience.backoff_s, self._rng)
        self._batches.put_back(batch, batch.pieces, now + pause)

    def _tried_enough(self, batch: Batch, verdict: Verdict, now: float) -> bool:
        patience = self._patience
        if verdict is Verdict.BOUNDED:
            return any(piece.refusals >= BOUNDED_TRIES for piece in batch.pieces)
        if verdict is Verdict.WAIT:
            longest = patience.topic_wait_s if patience.retries < 0 else min(patience.topic_wait_s, patience.delivery_s)
            return any(now - (piece.missing_since or now) >= longest for piece in batch.pieces)
        return patience.retries >= 0 and batch.tries > patience.retries

    def _fail_unknown(self, batch: Batch, reason: Exception, now: float) -> None:
        said = f"{batch.tp}: {reason}; whether it is stored is not known, so it is not sent again"
        self._fail(batch, UnknownOutcome(said), now)

    def _split(self, batch: Batch, code: int, broker: Broker, now: float) -> None:
        """Too large: each piece alone, then in halves; a message that is too large by itself fails its part."""
        if len(batch.pieces) > 1:
            for piece in batch.pieces:
                piece.alone = True
            self._batches.put_back(batch, batch.pieces, now)
            return
        piece = batch.pieces[0]
        try:
            halves = self._messages.split(piece.part)
        except RemoteError as damage:
            self._fail(batch, Undeliverable(f"{batch.tp} on {broker}: {damage}, found when splitting it"), now)
            return
        if len(halves) < 2:
            self._too_large(batch, TooLarge(_too_large(piece, code, broker), piece.size, broker), now)
            return
        if piece.split_from is None:
            said = f"{piece.size} bytes are too large together; sending smaller pieces"
            self._events(logging.INFO, f"{batch.tp} on {broker}: {said}")
        self._batches.put_back(batch, split_into(piece, halves), now)

    def _too_large(self, batch: Batch, reason: Undeliverable, now: float) -> None:
        """Fail its part; only this message, where the ticket goes on without one."""
        piece = batch.pieces[0]
        if not isinstance(piece.ticket, SkippedListener):
            self._fail(batch, reason, now)
            return
        self.counters.failed += 1
        self._batches.complete(batch)
        piece.ticket.skipped(reason)
        self._piece_stored(piece)

    def _check(self, batch: Batch, reason: Exception, where: str, now: float) -> None:
        """The broker found damage: the first damaged entry of ours fails its part, after what precedes it is stored."""
        pieces: list[Piece] = []
        found: CorruptMessage | None = None
        for piece in batch.pieces:
            damage = self._messages.check(memoryview(piece.part.entries))
            if damage is None:
                piece.alone = True
                pieces.append(piece)
                continue
            found = CorruptMessage(f"{damage.why} (sent to {where})", damage.position, damage.offset)
            good = before(piece, damage, found, self._messages)
            if good is None:
                self._end(piece, found, position(piece, damage))
            else:
                pieces.append(good)
        if found is None:
            # Undamaged here: damaged in transit, or refused for another reason (null key, compaction).
            self._again(batch, reason, now, Verdict.BOUNDED)
        else:
            self._batches.put_back(batch, pieces, now)

    def _piece_stored(self, piece: Piece) -> None:
        whole, ticket = piece.whole, piece.ticket
        if whole.over:
            return
        if whole.part.resume_at is not None:
            whole.reached = piece.part.resume_at
        if piece.fails_with is not None:
            if whole.reached is not None:
                ticket.reached(whole.reached)  # failed() only names the position; what precedes it is stored now
            self._end(piece, piece.fails_with, whole.reached)
        elif piece.last:
            whole.over = True
            ticket.done()
        elif whole.reached is not None:
            ticket.reached(whole.reached)

    def _fail(self, batch: Batch, reason: Exception, now: float) -> None:
        """Fail every part of the batch."""
        for piece in batch.pieces:
            self._end(piece, reason, piece.whole.reached)
        self._batches.put_back(batch, batch.pieces, now)  # none of its pieces is kept

    def _end(self, piece: Piece, reason: Exception, resume_at: int | None) -> None:
        """Fail its part."""
        if piece.whole.over:
            return
        self._batches.end(piece.whole)
        self.counters.failed += 1
        piece.ticket.failed(reason, resume_at)

    # what waits for a topic or a leader

    def _waits(self, tp: TopicPartition, view: ClusterView, now: float, answered: bool) -> bool:
        """Whether tp waits for a topic or a leader; its head fails where it has waited too long."""
        head = self._batches.head(tp)
        if head is None:
            return False
        code = view.errors.get(tp.topic, 0)
        known = tp.partition in view.topics.get(tp.topic, {}) or away(tp, view)
        if code in NEVER:
            self._end(head, BrokerError(code, str(tp)), head.whole.reached)
            return False
        if known:
            self._missing.pop(tp, None)
        missing = answered and not known
        if missing and tp.topic not in view.topics and self._created(tp.topic):
            self._missing.pop(tp, None)
            head.missing_since = None
            return True
        waited = now - self._missing.setdefault(tp, now) if missing else 0.0
        late = self._patience.retries >= 0 and now - head.whole.added >= self._patience.delivery_s
        if (missing and waited >= self._patience.topic_wait_s) or late:
            self._end(head, waiting(tp, view), head.whole.reached)
        leaderless = view.leader(tp) is None
        if answered and leaderless and self._batches.head(tp) is not None:
            self._stalls.failed_again(tp, waiting(tp, view), now)
        return leaderless


def _once(batch: Batch) -> bool:
    return any(isinstance(piece.ticket, AtMostOnce) and piece.ticket.once for piece in batch.pieces)


def _too_large(piece: Piece, code: int, broker: Broker) -> str:
    part = piece.part
    source = "" if part.resume_at is None else f" (source offset {part.resume_at - 1})"
    return (
        f"{part.tp} on {broker}: a message of {piece.size} bytes{source} is larger than the target takes "
        f"({error_info(code).name}); raise message.max.bytes there, or max.message.bytes of the topic"
    )


@runtime_checkable
class SkippedListener(Protocol):
    """A ticket that goes on without a message that is too large: called with each, and for the rest as usual."""

    def skipped(self, reason: Exception) -> None: ...


@runtime_checkable
class StoredListener(Protocol):
    """A ticket that is called as its messages are stored, in order; done() or failed() comes after."""

    def stored(self, count: int, offset: int | None, sure: bool) -> None:
        """The next `count` messages; offset: of the first of them, None where the broker did not say.

        Not sure: they were sent, and no broker acknowledges them.
        """
        ...


@runtime_checkable
class OffsetListener(Protocol):
    """A ticket that is called with where its messages were stored; done() or failed() comes after."""

    def placed(self, count: int, offset: int | None, exact: bool) -> None:
        """The next messages.  offset: of the first of them, or less; None where the broker did not say.

        exact: not where a wrapper precedes them in the same request, which may hold more messages than are counted.
        """
        ...


@runtime_checkable
class AtMostOnce(Protocol):
    """A ticket whose part, where once is true, is not retried after an unknown outcome: it fails by UnknownOutcome."""

    @property
    def once(self) -> bool: ...
