"""Outcomes of batches: each response, or its absence, leads to stored, retried, split or failed.  No clock, no socket.

Tickets are called only here: reached() after each stored piece of a part that was split, done() with its last piece,
failed() when some of it can never be stored.  The order within a partition is always kept.

A ticket may implement these protocols in addition to kafkawire.model.Ticket:

        SkippedListener   continues without messages that are too    StoredListener   is called as messages are stored
                          large or refused
        OffsetListener    is called with the stored offsets          AtMostOnce       no retry after an unknown outcome
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import accumulate, pairwise
from typing import Protocol, cast, runtime_checkable

from groundwork.sentences import counted, iso
from kafkawire.cluster.view import ClusterView
from kafkawire.errors import BrokerError, CorruptMessage, LibraryMissing, LinkLost, RemoteError, error_info
from kafkawire.interfaces import MessageFormats
from kafkawire.model import Broker, Part, TopicPartition
from kafkawire.protocol.request import ProducedPartition
from producer.batches import Batch, Batches, Piece, before, position, split_into
from producer.errors import RecordRefused, TooLarge, Undeliverable, UnknownOutcome
from producer.outages import Events, Reports, Stalls, away, waiting
from producer.sequences import DUPLICATE, FORGOTTEN, OUT_OF_ORDER, Sequences
from producer.verdicts import (
    BOUNDED_TRIES,
    NOTHING_STORED,
    TIMESTAMP,
    UNCLEAR,
    Verdict,
    backoff_s,
    judge,
    refreshes,
    unknown_outcome,
)

TOO_LARGE = 10  # MessageSizeTooLarge
TOO_LARGE_CODES = frozenset({TOO_LARGE, 18})  # and RecordListTooLarge
RECORD_CODES = frozenset({2, 32, 87})  # of a single message with intact bytes: its content is refused
TIME_SETTINGS = "message.timestamp.after.max.ms and .before.max.ms, before 3.6 message.timestamp.difference.max.ms"
NEVER = frozenset({17, 29})  # metadata errors of a topic that a retry does not fix


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds of retries. retries < 0: forever (topic_wait_s still bounds the wait for unknown topics)."""

    retries: int = -1
    backoff_s: float = 0.1
    topic_wait_s: float = 60.0
    delivery_s: float = 30.0  # with bounded retries: how long a part that cannot be sent may wait


@dataclass(slots=True)
class Counters:
    """Counters of a sender since it began.  errors: by protocol code; unknown: attempts with an unknown outcome, whose
    response was lost or leaves open whether the leader appended the batch."""

    messages: int = 0
    bytes: int = 0
    requests: int = 0
    retries: int = 0
    unknown: int = 0
    failed: int = 0
    maybe_lost: int = 0  # sent, but their connection broke before a barrier after them was answered
    errors: Counter[int] = field(default_factory=Counter)


class Outcomes:
    """Applies verdicts to `batches`.  events is called with a message each time the state of a partition changes.

    created(topic): called when the cluster does not have a topic.  True: the caller creates it, and reports on that, so
    its messages do not fail meanwhile.  sequences: numbers of the batches, of an idempotent producer.
    """

    def __init__(
        self,
        batches: Batches,
        patience: Patience,
        messages: MessageFormats,
        events: Events,
        *,
        created: Callable[[str], bool] = lambda topic: False,
        reports: Reports | None = None,
        sequences: Sequences | None = None,
    ) -> None:
        self.counters = Counters()
        self._sequences = sequences
        self._batches = batches
        self._patience = patience
        self._messages = messages
        self._events = events
        self._created = created
        self._stalls = Stalls(events, reports)
        self._missing: dict[TopicPartition, float] = {}  # partitions that the cluster does not have, and since when
        self._rng = random.Random()

    def answered(self, batch: Batch, answer: ProducedPartition, broker: Broker, now: float) -> bool:
        """Handle the response to a batch.  Return True if leaders should be refreshed."""
        code = answer.error
        verdict = judge(code, answer.base_offset)
        if verdict is Verdict.STORED or (code == DUPLICATE and batch.sealed):
            self.stored(batch, now, answer.base_offset)
            return False
        where = f"{batch.tp} on {broker}"
        self.counters.errors[code] += 1
        reason = Undeliverable(f"{where}: {NOTHING_STORED}") if code == 0 else BrokerError(code, where, answer.sentence)
        unknown = unknown_outcome(answer)
        self.counters.unknown += unknown
        if self._sequences is not None and not unknown:
            self._sequences.refused(batch)
        maybe = batch.may_be_stored  # read before its numbers are removed
        if _once(batch) and _changes(batch, code, verdict) and (maybe or unknown):
            self._fail_unknown(batch, reason, now)
        elif self._sequences is not None and self._sequences.forgotten(batch, code, str(reason)):
            self._forgotten(batch, code, reason, now, twice=maybe and not self._sequences.broken)
        elif code in TOO_LARGE_CODES:
            self._split_large(batch, code, broker, now)
        elif verdict is Verdict.SPLIT and isinstance(reason, BrokerError):
            self._split_refused(batch, reason, now, [place for place, _ in answer.refused])
        elif verdict is Verdict.CHECK:
            self._check(batch, reason, where, now)
        else:
            self._again(batch, reason, now, verdict)
        return refreshes(code)

    def lost(self, batch: Batch, reason: LinkLost, now: float) -> None:
        """Handle a lost response: the outcome is unknown, so the batch is sent again and may be stored twice."""
        self.counters.unknown += 1
        if _once(batch) and not batch.stored_once:
            self._fail_unknown(batch, reason, now)
        else:
            self._again(batch, reason, now, Verdict.AGAIN)

    def _forgotten(self, batch: Batch, code: int, reason: Exception, now: float, twice: bool) -> None:
        """Retry a batch with new numbers, because the broker does not know the batches before it. twice: an earlier
        attempt may have stored it, and no transaction undoes that."""
        if twice:
            said = f"{batch.tp}: {counted(batch.count, 'message')} that an earlier attempt may have stored"
            self._events(logging.WARNING, f"{said} may be in its log twice: the broker forgot the producer ({reason})")
        if code == OUT_OF_ORDER:
            lost = "its log lacks messages that it acknowledged before"
            self._events(logging.WARNING, f"{reason}: {lost} (an unclean election?); later messages are sent")
        self._again(batch, reason, now, Verdict.AGAIN)

    def maybe_refused(self, batch: Batch, reason: LinkLost, now: float) -> None:
        """Handle the close of a connection while this batch was the oldest in flight: 0.7 refuses a request in this
        way.

        The broker may also have died just then, so the batch fails only when that happens several times in a row.
        """
        self.counters.unknown += 1
        said = f"{batch.tp}: its broker closed the link when this was sent, as it does with what it refuses ({reason})"
        self._check(batch, Undeliverable(said), str(batch.tp), now)

    def oversize(self, batch: Batch, broker: Broker, now: float) -> None:
        """Handle a batch that was not sent, because the broker would silently drop it for its size."""
        self._split_large(batch, TOO_LARGE, broker, now)

    def unsendable(self, batch: Batch, reason: Exception, now: float) -> None:
        """Fail a batch that cannot be sent to any broker of the cluster: nothing of it was stored."""
        self._fail(batch, reason, now)

    def maybe_lost(self, count: int, reason: LinkLost) -> None:
        """Count messages whose connection broke before a barrier after them was answered."""
        self.counters.maybe_lost += count
        self._events(logging.WARNING, f"{reason}; {count} messages that were sent over it before may be lost")

    def stored(self, batch: Batch, now: float, base_offset: int = -1, sure: bool = True) -> None:
        """Complete a stored batch.  base_offset: of its first message; -1: unknown.  Not sure: sent, not
        acknowledged."""
        if self._sequences is not None:
            self._sequences.stored(batch)
        self._batches.complete(batch)
        self.counters.messages += batch.count
        self.counters.bytes += batch.size
        self._stalls.recovered(batch.tp, now)
        exact = True
        for piece in batch.pieces:
            ticket, offset = piece.ticket, base_offset if base_offset >= 0 else None
            if _hears(type(ticket), StoredListener) and not piece.whole.over:
                cast(StoredListener, ticket).stored(piece.part.count, offset, sure)
            elif _hears(type(ticket), OffsetListener) and not piece.whole.over:
                cast(OffsetListener, ticket).placed(piece.part.count, offset, exact)
            base_offset += piece.part.count if base_offset >= 0 else 0
            exact = exact and piece.part.counted
            self._piece_stored(piece)

    def expire(self, view: ClusterView, now: float, answered: bool) -> bool:
        """Fail parts that have waited too long for a topic, a leader or a connection.

        answered: the view was just read; otherwise the cluster could not be reached, and no topic counts as missing.
        Returns True while parts wait for a topic or a leader, so that metadata should be refreshed.
        """
        if not answered:
            self._missing.clear()
        waits = False
        for tp in list(self._batches.waiting()):
            waits |= self._waits(tp, view, now, answered)
        for tp in [tp for tp in self._missing if self._batches.head(tp) is None]:
            del self._missing[tp]
        return waits

    # ---- one method per verdict

    def _again(self, batch: Batch, reason: Exception, now: float, verdict: Verdict) -> None:
        """Retry after a backoff, or fail after too many attempts."""
        single = len(batch.pieces) == 1
        for piece in batch.pieces:
            piece.tries += 1
            # Only consecutive ones count: after an outage the first odd response does not fail the batch.
            piece.refusals = piece.refusals + 1 if verdict is Verdict.BOUNDED else 0
            since = now if piece.missing_since is None else piece.missing_since
            piece.missing_since = since if verdict is Verdict.WAIT else None
            piece.alone |= verdict is Verdict.BOUNDED  # so that in the end only the faulty piece fails
        if self._tried_enough(batch, verdict, now) and (single or verdict is not Verdict.BOUNDED):
            if isinstance(reason, BrokerError) and reason.code in UNCLEAR and not batch.may_be_stored:
                self._split_refused(batch, reason, now)
                return
            fail = self._fail_unknown if _once(batch) and batch.may_be_stored else self._fail
            fail(batch, reason, now)
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
        said = f"{batch.tp}: {reason}; it is not known whether it is stored, so it is not sent again"
        self._fail(batch, UnknownOutcome(said), now)

    def _split_large(self, batch: Batch, code: int, broker: Broker, now: float) -> None:
        """Send a batch that is too large in smaller pieces, down to the message that is too large."""

        def why(piece: Piece) -> TooLarge:
            return TooLarge(_too_large(piece, code, broker), piece.size, broker)

        self._split(batch, now, why, f"{batch.tp} on {broker}: {batch.size} bytes are too large together")

    def _split_refused(self, batch: Batch, reason: BrokerError, now: float, named: Sequence[int] = ()) -> None:
        """Send a batch that is refused for one of its messages in smaller pieces, down to that message.

        named: indexes of the records that the broker refuses.  Without them the batch is halved: responses of brokers
        before 2.4 name none.
        """
        said = f"{reason.where}: one of {counted(batch.count, 'message')} is refused ({reason.info.name})"
        self._split(batch, now, partial(self._refused, reason), said, min(named, default=None))

    def _refused(self, reason: BrokerError, piece: Piece) -> BrokerError:
        """Return the error of one message that can never be stored."""
        part = piece.part
        sent, _ = self._messages.message_set(part.tp.topic, part.tp.partition, 0, memoryview(part.entries), None)
        message = next(iter(sent.messages(check_crcs=False)), None)
        if reason.code not in RECORD_CODES or message is None:
            return reason
        said = f"{reason.said}; " if reason.said else ""
        if reason.code == TIMESTAMP:
            time = "missing" if message.timestamp_ms is None else iso(message.timestamp_ms)
            # Not the broker's own text: its limits change with each try.
            said = f"the timestamp of the message is {time}, which the topic does not accept ({TIME_SETTINGS}); it"
        elif message.key is None:
            said += "the message has no key, which a compacted topic (cleanup.policy) requires; it"
        else:
            said += "the message"
        return RecordRefused(reason.code, reason.where, f"{said} is whole", _source_offset(part))

    def _split(
        self, batch: Batch, now: float, why: Callable[[Piece], Exception], said: str, first: int | None = None
    ) -> None:
        """Send a batch in smaller pieces: first its parts alone, then halves; a single message fails, for why(piece).

        first: the index of the faulty message, if known: the messages before it are sent alone, and then that message.
        """
        if len(batch.pieces) > 1:
            for piece in batch.pieces:
                piece.alone = True
            self._batches.put_back(batch, batch.pieces, now)
            return
        piece = batch.pieces[0]
        try:
            parts = self._apart(piece.part, first)
            if len(parts) < 2:
                self._message_fails(batch, why(piece), now)
                return
        except (RemoteError, LibraryMissing) as why_not:
            self._fail(batch, Undeliverable(f"{said}: {why_not}, found when splitting it"), now)
            return
        if piece.split_from is None:
            self._events(logging.INFO, f"{said}; sending smaller pieces")
        self._batches.put_back(batch, split_into(piece, parts), now)

    def _apart(self, part: Part, first: int | None) -> list[Part]:
        """Return halves of a part; with `first` the messages before that one, that message, and those after it."""
        if first is None:
            return _with_origins(part, self._messages.split(part))
        *before, rest = self._messages.split(part, first) if first > 0 else [part]
        return _with_origins(part, [*before, *self._messages.split(rest, 1)])

    def _message_fails(self, batch: Batch, reason: Exception, now: float) -> None:
        """Fail the part of a message that can never be stored; only this message if the ticket is a SkippedListener."""
        piece = batch.pieces[0]
        if not isinstance(piece.ticket, SkippedListener):
            self._fail(batch, reason, now)
            return
        self.counters.failed += 1
        self._batches.complete(batch)
        piece.ticket.skipped(reason)
        self._piece_stored(piece)

    def _check(self, batch: Batch, reason: Exception, where: str, now: float) -> None:
        """Check the bytes after the broker found damage: the first damaged entry fails its part, once the entries
        before it are stored."""
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
        if piece.part.resume_at is not None:
            whole.reached = piece.part.resume_at
        if piece.fails_with is not None:
            if whole.reached is not None:
                ticket.reached(whole.reached)  # failed() only names the offset; the entries before it are stored now
            self._end(piece, piece.fails_with, whole.reached)
        elif piece.last:
            whole.over = True
            ticket.done()
        elif whole.reached is not None:
            ticket.reached(whole.reached)

    def _fail(self, batch: Batch, reason: Exception, now: float) -> None:
        """Fail all parts of the batch."""
        for piece in batch.pieces:
            self._end(piece, reason, piece.whole.reached)
        self._batches.put_back(batch, batch.pieces, now)  # none of its pieces is kept

    def _end(self, piece: Piece, reason: Exception, resume_at: int | None) -> None:
        """Fail the part of a piece."""
        if piece.whole.over:
            return
        self._batches.end(piece.whole)
        self.counters.failed += 1
        piece.ticket.failed(reason, resume_at)

    # ---- parts that wait for a topic or a leader

    def _waits(self, tp: TopicPartition, view: ClusterView, now: float, answered: bool) -> bool:
        """True if tp waits for a topic or a leader; fails its head when it has waited too long."""
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
    """True if the batch must not be stored twice."""
    return any(isinstance(piece.ticket, AtMostOnce) and piece.ticket.once for piece in batch.pieces)


def _changes(batch: Batch, code: int, verdict: Verdict) -> bool:
    """True if a retry sends other bytes, bytes without numbers, or old messages: then the broker may not recognize a
    duplicate."""
    return not batch.stored_once or code in FORGOTTEN or verdict in (Verdict.SPLIT, Verdict.CHECK)


def _source_offset(part: Part) -> str:
    """Return the source offset of its only message, as text; "" if it is not known."""
    offset = next((int(offset) for offsets in part.origins for offset in offsets), None)
    if offset is None and part.resume_at is not None:
        offset = part.resume_at - 1
    return "" if offset is None else f" (source offset {offset})"


def _with_origins(part: Part, parts: list[Part]) -> list[Part]:
    """Return the parts of a split, with the source offsets that they reach if entries have other offsets.

    There are no offsets if messages share one: a message does not show the offset after it.
    """
    offsets = [int(offset) for some in part.origins for offset in some]
    if not offsets:
        return parts
    if len(offsets) != sum(one.count for one in parts) or any(a >= b for a, b in pairwise(offsets)):
        return [replace(one, origins=()) for one in parts]
    ends = list(accumulate(one.count for one in parts))
    return [
        replace(
            one,
            resume_at=offsets[end] if end < len(offsets) else part.resume_at,
            origins=(offsets[end - one.count : end],),
        )
        for one, end in zip(parts, ends, strict=True)
    ]


def _too_large(piece: Piece, code: int, broker: Broker) -> str:
    part = piece.part
    return (
        f"{part.tp} on {broker}: a message of {piece.size} bytes{_source_offset(part)} is larger than the target takes "
        f"({error_info(code).name}); raise message.max.bytes there, or max.message.bytes of the topic"
    )


@cache
def _hears(kind: type, listener: type) -> bool:
    """True if tickets of a class implement a listener protocol; cached per class, since Python compares attribute by
    attribute."""
    return issubclass(kind, listener)


@runtime_checkable
class SkippedListener(Protocol):
    """Ticket that continues without messages that are too large or refused: skipped() is called for each of them."""

    def skipped(self, reason: Exception) -> None: ...


@runtime_checkable
class StoredListener(Protocol):
    """Ticket that is called as its messages are stored, in order, before done() or failed()."""

    def stored(self, count: int, offset: int | None, sure: bool) -> None:
        """Report that the next `count` messages are stored. offset: of the first one; None when the broker did not
        report it.

        sure False: they were sent, and no broker acknowledges them.
        """
        ...


@runtime_checkable
class OffsetListener(Protocol):
    """Ticket that is called with the offsets of its stored messages, before done() or failed()."""

    def placed(self, count: int, offset: int | None, exact: bool) -> None:
        """Report that the next `count` messages are stored. offset: of the first one, or less; None when the broker did
        not report it.

        exact False: a wrapper before them in the same request may have more messages than are counted.
        """
        ...


@runtime_checkable
class AtMostOnce(Protocol):
    """Ticket whose part, when `once` is true, is not retried after an unknown outcome but fails with UnknownOutcome.

    A numbered batch is retried with the same bytes, unless its messages are so old that the broker may have forgotten
    the producer; it fails with UnknownOutcome if it is given up or would need other numbers.
    """

    @property
    def once(self) -> bool: ...
