"""Queues of parts by target partition, with the batches that are due and in flight.  Pure: no clock, no socket.

A partition has one queue of pieces, and at most one batch in flight (a later one could be stored before an earlier one
is retried).  A failed batch returns to the head of the queue.  Before each send the tickets' may_send() is checked: a
part that may not be sent any more is dropped, and its ticket is not called.

Plain parts of one format share a batch up to batch_bytes.  A record batch is sent alone: a set has exactly one, and a
request has either record batches or sets of older formats (Produce v3 and later, or before).  A wrapper is sent alone
if the target accepts only one per set.  When the target merges them, several wrappers of one codec share a batch while
their sum stays below 80 % of max_message_bytes, because merging compresses again.  Plain parts and wrappers, and
wrappers of several codecs, of format v0 share a set only when the target is far: it makes one wrapper of all of them,
which costs the broker more than another request, but less than another round trip.  With several codecs the sum stays
below 40 %: the last codec's result may be twice as large.

To a far target a request takes half of the waiting bytes, so that its response comes while the next one is sent.

Part     entries that were submitted, with a ticket (kafkawire.model)
Piece    a part in the queue or in flight, or one of several after a split
Batch    pieces of one partition in one request
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from kafkawire.batchseal import unsealed
from kafkawire.dialects import ENTRY_OVERHEAD, Dialect
from kafkawire.errors import CorruptMessage
from kafkawire.interfaces import MessageFormats
from kafkawire.model import Part, ProducerId, Run, Ticket, TopicPartition
from producer.steps import BATCH_OVERHEAD
from producer.turns import Turns

WRAPPERS_SHARE = 0.8
CODECS_SHARE = 0.4
FIRST_OFFSET = bytes(8)  # first bytes of an entry with offset 0
SHARED_BYTES = 1 << 20  # below that, waiting bytes are not shared among requests
MESSAGE_MAX = 1000012  # message.max.bytes of brokers, by default
PAYLOAD_MAX = 1000000  # max.message.size of 0.7, by default
WHOLE_SET_SHARE = 0.95  # format v2 adds a header to the set it measures


def largest_entry(message_max_bytes: int, dialect: Dialect) -> int:
    """Return the largest entry in bytes. 0.7 limits the payload alone, so the header is added; the default is also
    0.7's.  For a record batch, its header is included, even around a single record."""
    if dialect.record_batches:
        return message_max_bytes - BATCH_OVERHEAD
    if not dialect.measures_payload:
        return message_max_bytes
    payload = PAYLOAD_MAX if message_max_bytes == MESSAGE_MAX else message_max_bytes
    return payload + ENTRY_OVERHEAD[dialect.magic]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of batches and requests.  Sizes in bytes of entries, linger in seconds."""

    batch_bytes: int = 1 << 20  # of one partition in one request
    batch_count: int = 200  # messages after which a batch does not linger
    linger_s: float = 0.0
    request_bytes: int = 16 << 20  # of one request
    max_message_bytes: int = MESSAGE_MAX  # the target's message.max.bytes
    one_wrapper_per_set: bool = False
    measures_whole_set: bool = False

    @property
    def plain_bytes(self) -> int:
        if self.measures_whole_set:
            return min(self.batch_bytes, int(self.max_message_bytes * WHOLE_SET_SHARE))
        return self.batch_bytes

    @property
    def wrapped_bytes(self) -> int:
        return min(self.batch_bytes, int(self.max_message_bytes * WRAPPERS_SHARE))

    def set_bytes(self, codecs: set[int]) -> int:
        """Return the maximum bytes of a set with parts of these codecs, 0 for plain ones."""
        compressed = len(codecs - {0})
        if compressed > 1:
            return min(self.batch_bytes, int(self.max_message_bytes * CODECS_SHARE))
        return self.wrapped_bytes if compressed else self.plain_bytes


@dataclass(eq=False, slots=True)
class Seal:
    """Numbers of a sealed batch, and its bytes as they are sent."""

    producer: ProducerId
    sequence: int
    count: int  # number of sequence numbers
    buffers: list[bytes | memoryview]
    remembered: bool = True  # the broker still knows it when it is sent again: its messages are young
    sent: int = 0
    refused: int = 0  # responses that say that their attempt appended nothing

    @property
    def unknown(self) -> bool:
        """True if it may be stored: once an attempt has an unknown outcome, no response to a later one excludes it."""
        return self.sent > self.refused


@dataclass(eq=False, slots=True)
class Piece:
    """Entries of one partition, queued or in flight: a part as submitted, or a piece of a part that was split.

    The pieces of a part are sent in order; `whole`, the part as submitted, records their common outcome.
    """

    part: Part
    ticket: Ticket
    added: float  # when the part was submitted
    split_from: Piece | None = None  # the part as submitted; None: this piece is the whole part
    last: bool = True  # of the pieces
    size: int = field(init=False)  # bytes of its entries
    alone: bool = False  # was in a batch that was too large, or damaged
    tries: int = 0  # failed attempts, for any reason
    refusals: int = 0  # consecutive refusals that would most likely be repeated
    missing_since: float | None = None  # time since which it is refused as "unknown topic or partition"
    fails_with: Exception | None = (
        None  # once this piece is stored, fail the ticket with this: the rest can never be stored
    )
    seal: Seal | None = None  # of a record batch: numbers with which it was sent, and is sent again

    # of the part as submitted
    reached: int | None = None  # source offset after its stored pieces
    over: bool = False  # done() or failed() of its ticket was called
    dropped: bool = False  # not sent again; if its pieces in flight are stored, the ticket is called

    def __post_init__(self) -> None:
        self.size = len(self.part.entries)

    @property
    def whole(self) -> Piece:
        return self if self.split_from is None else self.split_from

    @property
    def gone(self) -> bool:
        whole = self.whole
        return whole.over or whole.dropped

    def cut(self, part: Part) -> Piece:
        """Return one of several pieces that replace this one."""
        return Piece(part, self.ticket, self.added, split_from=self.whole, last=False, alone=True)

    def exceeds(self, limit: int, messages: MessageFormats) -> bool:
        """True if one of its entries is larger than limit; messages: Dialect.messages."""
        if self.size <= limit:
            return False
        run = Run(0, self.size, self.part.codec, self.part.magic, self.part.count, self.size)
        view = memoryview(self.part.entries)
        return any(cut.end - cut.begin > limit for cut in messages.READER.cut(view, run, limit))


@dataclass(eq=False, slots=True)
class Batch:
    """Pieces of one partition for one request."""

    tp: TopicPartition
    pieces: list[Piece]
    size: int = field(init=False)  # bytes of entries
    count: int = field(init=False)  # messages

    def __post_init__(self) -> None:
        self.size = sum([piece.size for piece in self.pieces])
        self.count = sum([piece.part.count for piece in self.pieces])

    @property
    def tries(self) -> int:
        return max(piece.tries for piece in self.pieces)

    @property
    def refused(self) -> bool:
        """True if the broker refused any of its pieces at the last attempt."""
        return any(piece.refusals for piece in self.pieces)

    @property
    def magic(self) -> int:
        """Return the newest message format in it."""
        return max(piece.part.magic for piece in self.pieces)

    @property
    def record_batches(self) -> bool:
        """True if it is one record batch, and no set of an older format."""
        return self.pieces[0].part.record_batch

    @property
    def sealed(self) -> bool:
        """True if it has numbers and is retried unchanged (producer.sequences)."""
        return self.pieces[0].seal is not None

    @property
    def stored_once(self) -> bool:
        """True if the broker stores it once, however often it is sent: it is sealed, and its messages are not old."""
        seal = self.pieces[0].seal
        return seal is not None and seal.remembered

    @property
    def may_be_stored(self) -> bool:
        """True if it is sealed, and not every attempt was answered with a refusal before the append."""
        seal = self.pieces[0].seal
        return seal is not None and seal.unknown

    def buffers(self) -> list[bytes | memoryview]:
        """Return the bytes to send."""
        first = self.pieces[0]
        if first.seal is not None:
            return first.seal.buffers
        if self.record_batches:
            return unsealed(first.part.entries)
        if len(self.pieces) > 1 and first.part.codec and first.part.magic == 1:
            return self._wrappers_to_merge()
        return [piece.part.entries for piece in self.pieces]

    def _wrappers_to_merge(self) -> list[bytes | memoryview]:
        """Return several wrappers of format v1, each but the first with a producer's offset, 0.

        If they kept their offsets from the beginning of a source log, a broker would mistake their messages for those
        of one wrapper, and then number only the first one (LogValidator: inPlaceAssignment, before 2.4): its log would
        have duplicate offsets.
        """
        first, *others = (piece.part.entries for piece in self.pieces)
        return [first, *(half for entry in others for half in (FIRST_OFFSET, memoryview(entry)[len(FIRST_OFFSET) :]))]


def split_into(piece: Piece, halves: Sequence[Part]) -> list[Piece]:
    """Return the pieces that replace one; the last of them takes over its end conditions.

    Each inherits the refusals of the whole: if it is refused again, it is split again at once.
    """
    chain = [piece.cut(part) for part in halves]
    for one in chain:
        one.refusals = piece.refusals
    chain[-1].last, chain[-1].fails_with = piece.last, piece.fails_with
    return chain


def before(piece: Piece, damage: CorruptMessage, fails_with: Exception, messages: MessageFormats) -> Piece | None:
    """Return the entries before the damage, as a piece after which the ticket fails; None if there are none.

    messages: the codec of its format (Dialect.messages).
    """
    part = piece.part
    if damage.position <= 0 or part.atomic:
        return None
    entries = memoryview(part.entries)[: damage.position]
    part = replace(part, entries=entries, count=messages.count(entries), resume_at=position(piece, damage))
    good = piece.cut(part)
    good.fails_with = fails_with
    return good


def position(piece: Piece, damage: CorruptMessage) -> int | None:
    """Return the source offset just before the damage, when the entries have source offsets."""
    if piece.whole.part.resume_at is None:
        return None
    return piece.whole.reached if piece.part.atomic or damage.offset is None else damage.offset


@dataclass(eq=False, slots=True)
class _Queue:
    """Queue of one partition."""

    pieces: deque[Piece] = field(default_factory=deque)
    size: int = 0  # bytes of its pieces
    count: int = 0  # messages in them
    in_flight: Batch | None = None
    not_before: float = 0.0  # backing off until then


class Batches:
    """Queues of all partitions.  due(), is_due() and next_due() visit those that are due, however many there are."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.bytes_pending = 0  # bytes not completed, including those in flight
        self.bytes_in_flight = 0
        self.dropped = 0  # parts refused by their ticket, or removed by drop()
        self._queues: dict[TopicPartition, _Queue] = {}
        self._turns: Turns[TopicPartition] = Turns()
        self._flushed_at: float | None = None  # parts added before that time do not linger

    @property
    def limits(self) -> Limits:
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        if limits != self._limits:
            self._limits = limits
            self._turn_all()

    def __len__(self) -> int:
        """Return the number of pieces not completed."""
        return sum(len(q.pieces) + (len(q.in_flight.pieces) if q.in_flight else 0) for q in self._queues.values())

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, part: Part, ticket: Ticket, now: float) -> None:
        """Queue a part after all others of its partition."""
        queue = self._queues.get(part.tp)
        if queue is None:
            queue = self._queues[part.tp] = _Queue()
        self._put(queue, Piece(part, ticket, now))
        self.bytes_pending += len(part.entries)
        if part.tp not in self._turns.ready:  # a piece added at the end never delays the due time
            self._turn(part.tp, queue)

    def flush(self, now: float) -> None:
        """End lingering for all parts queued until now."""
        self._flushed_at = now
        self._turn_all()

    def waiting(self) -> Iterator[TopicPartition]:
        """Yield the partitions with pieces and nothing in flight, whether due or not."""
        return (tp for tp, queue in list(self._queues.items()) if queue.in_flight is None and queue.pieces)

    def in_flight(self) -> Iterator[TopicPartition]:
        """Yield the partitions with a batch in flight."""
        return (tp for tp, queue in list(self._queues.items()) if queue.in_flight is not None)

    def head(self, tp: TopicPartition) -> Piece | None:
        """Return the piece to send next; None when the partition has none, or has a batch in flight."""
        queue = self._queues.get(tp)
        return queue.pieces[0] if queue and queue.pieces and queue.in_flight is None else None

    def due(
        self, now: float, mine: Callable[[TopicPartition], bool], alone: bool | None = None, far: bool = False
    ) -> list[Batch]:
        """Return the batches for one request, of partitions that are `mine`, and mark them in flight; empty if none is
        due.

        alone: whether nothing else is in flight, for brokers that never answer (0.7); None for other brokers.  Such a
        broker closes the connection on a request that it refuses, so a refused piece is sent only when it is alone.
        far: a round trip to the broker is long.

        Partitions take turns: one that was served moves to the end.
        """
        batches: list[Batch] = []
        room = self._request_room(far)
        self._turns.pass_to(now)
        for tp in list(self._turns.ready):
            if not mine(tp):
                continue
            queue = self._queues[tp]
            self._drop_unwanted(queue)
            if tp not in self._turns.ready:
                continue  # the rest of it is not due
            if batches and queue.pieces[0].part.record_batch != batches[0].record_batches:
                continue  # the next request takes it
            refused = alone is not None and queue.pieces[0].refusals > 0
            if refused and (batches or _waits(queue, alone)):
                continue
            batch = Batch(tp, self._take(queue, room if batches else self.limits.request_bytes, far))
            if not batch.pieces:
                break  # no room left in this request; the next one takes the others
            queue.in_flight = batch
            batches.append(batch)
            self.bytes_in_flight += batch.size
            room -= batch.size
            self._turns.set(tp, None)
            if refused:
                break
        return batches

    def is_due(self, now: float, mine: Callable[[TopicPartition], bool], alone: bool | None = None) -> bool:
        """True if due() would most likely return a batch; checked before a connection is opened for it."""
        self._turns.pass_to(now)
        return any(mine(tp) and not _waits(self._queues[tp], alone) for tp in self._turns.ready)

    def next_due(self, mine: Callable[[TopicPartition], bool], alone: bool | None = None) -> float | None:
        """Return the time at which the next partition becomes due, which may be past; None if only an event can make
        one due.

        A queue whose head must be alone waits for the requests in flight: otherwise the sender loop would spin and
        starve the receiver.
        """
        return self._turns.next(lambda tp: not _waits(self._queues[tp], alone) and mine(tp))

    def complete(self, batch: Batch) -> None:
        """Remove a batch whose parts are all stored or failed."""
        queue = self._returned(batch)
        self.bytes_pending -= batch.size
        self._turn(batch.tp, queue)

    def put_back(self, batch: Batch, pieces: Sequence[Piece], not_before: float) -> None:
        """Put back a batch that is not stored: these pieces (its own, or the results of a split) are sent next, in
        order."""
        queue = self._returned(batch)
        kept = [piece for piece in pieces if not piece.gone]
        self.bytes_pending += sum(piece.size for piece in kept) - batch.size
        for piece in reversed(kept):
            self._put(queue, piece, first=True)
        queue.not_before = not_before
        self._turn(batch.tp, queue)

    def end(self, whole: Piece) -> None:
        """End a part: remove its queued pieces; those in flight are not sent again."""
        whole.over = True
        self._take_out(whole)

    def _take_out(self, whole: Piece) -> None:
        queue = self._queues.get(whole.part.tp)
        if queue is not None:
            self._remove(queue, [piece for piece in queue.pieces if piece.whole is whole])
            self._turn(whole.part.tp, queue)

    def drop(self, unwanted: Callable[[Part, Ticket], bool]) -> int:
        """Drop the unwanted parts without calling their tickets, and return their number.

        Parts in flight are not sent again if they fail; if they are stored, their tickets are called.
        """
        chosen = [whole for whole in self.submitted() if unwanted(whole.part, whole.ticket)]
        for whole in chosen:
            self._drop(whole)
        return len(chosen)

    def move(self, old: TopicPartition, new: TopicPartition, chosen: Callable[[Ticket], bool]) -> list[Ticket]:
        """Move queued pieces with a chosen ticket to the end of another partition's queue; returns the tickets.

        Moves none while the old partition has a batch in flight.
        """
        queue = self._queues.get(old)
        if queue is None or queue.in_flight is not None:
            return []
        moved = [piece for piece in queue.pieces if not piece.gone and chosen(piece.ticket)]
        wholes = list(dict.fromkeys(piece.whole for piece in moved))
        self._remove(queue, moved)
        self._turn(old, queue)
        for whole in wholes:
            whole.part = replace(whole.part, tp=new)
        for piece in moved:
            piece.part = replace(piece.part, tp=new)
            behind = self._queues.setdefault(new, _Queue())
            self._put(behind, piece)
            self.bytes_pending += piece.size
            self._turn(new, behind)
        return [whole.ticket for whole in wholes]

    def _drop(self, whole: Piece) -> None:
        whole.dropped = True
        self.dropped += 1
        self._take_out(whole)

    def sweep(self) -> None:
        """Drop all queued parts whose ticket does not allow sending any more."""
        self.drop(lambda _, ticket: not ticket.may_send())

    def submitted(self) -> list[Piece]:
        """Return the submitted parts that are not completed, oldest first within their partition."""
        return list(dict.fromkeys(piece.whole for piece in self._all() if not piece.gone))

    def _all(self) -> Iterable[Piece]:
        for queue in list(self._queues.values()):
            yield from list(queue.in_flight.pieces) if queue.in_flight else []
            yield from list(queue.pieces)

    def _put(self, queue: _Queue, piece: Piece, first: bool = False) -> None:
        (queue.pieces.appendleft if first else queue.pieces.append)(piece)
        queue.size += piece.size
        queue.count += piece.part.count

    def _remove(self, queue: _Queue, gone: list[Piece]) -> None:
        if not gone:
            return
        removed = set(gone)
        queue.pieces = deque(piece for piece in queue.pieces if piece not in removed)
        for piece in gone:
            queue.size -= piece.size
            queue.count -= piece.part.count
            self.bytes_pending -= piece.size

    def _returned(self, batch: Batch) -> _Queue:
        queue = self._queues[batch.tp]
        assert queue.in_flight is batch, f"{batch.tp}: a batch came back that was not in flight"
        queue.in_flight = None
        self.bytes_in_flight -= batch.size
        return queue

    def _turn(self, tp: TopicPartition, queue: _Queue) -> None:
        """Set when it is due, after a change; forget it when it is empty."""
        if queue.pieces and queue.in_flight is None:
            self._turns.set(tp, self._due_at(queue))
            return
        self._turns.set(tp, None)
        if not queue.pieces and queue.in_flight is None:
            self._queues.pop(tp, None)

    def _turn_all(self) -> None:
        for tp, queue in list(self._queues.items()):
            self._turn(tp, queue)

    def _drop_unwanted(self, queue: _Queue) -> None:
        """Drop the pieces at the head that their ticket refuses."""
        while queue.pieces and not queue.pieces[0].ticket.may_send():
            self._drop(queue.pieces[0].whole)

    def _due_at(self, queue: _Queue) -> float:
        head, limits = queue.pieces[0], self._limits
        oldest = head.whole.added
        flushed = self._flushed_at is not None and oldest <= self._flushed_at
        lingers = limits.linger_s > 0 and not (head.tries or head.alone or flushed or self._full(queue, head))
        return max(queue.not_before, oldest + limits.linger_s if lingers else oldest)

    def _full(self, queue: _Queue, head: Piece) -> bool:
        """True if no more would fit into the batch, so lingering gains nothing."""
        enough = queue.count >= self._limits.batch_count or queue.size >= self._room(head)
        return enough or not self._all_together(queue)

    def _all_together(self, queue: _Queue) -> bool:
        """True if the last piece fits into a batch with the first; if not, lingering gains nothing."""
        return len(queue.pieces) == 1 or self._goes_with(queue.pieces[-1], queue.pieces[0])

    def _room(self, head: Piece) -> int:
        return self.limits.wrapped_bytes if head.part.codec else self.limits.plain_bytes

    def _request_room(self, far: bool) -> int:
        most = self.limits.request_bytes
        return min(most, max(SHARED_BYTES, (self.bytes_pending - self.bytes_in_flight) // 2)) if far else most

    def _goes_with(self, piece: Piece, head: Piece, far: bool = False) -> bool:
        if piece.alone or head.alone or piece.fails_with or self._alone(head.part) or self._alone(piece.part):
            return False
        # A broker may number entries of format v1 in place if they look like one wrapper (see _wrappers_to_merge).
        together = far and head.part.magic == 0
        return (together or piece.part.codec == head.part.codec) and piece.part.magic == head.part.magic

    def _alone(self, part: Part) -> bool:
        """True if a set cannot have another part beside this one."""
        return part.record_batch or (part.atomic and self.limits.one_wrapper_per_set)

    def _take(self, queue: _Queue, room: int, far: bool = False) -> list[Piece]:
        """Remove the pieces of the next batch: at least the first, unless the request has no room for it."""
        head = queue.pieces[0]
        most = min(self._room(head), room)
        codecs = {head.part.codec}
        size = 0
        taken: list[Piece] = []
        if head.size > room and room < self.limits.request_bytes:
            return taken
        while queue.pieces:
            piece = queue.pieces[0]
            if piece.part.codec not in codecs:
                codecs.add(piece.part.codec)
                most = min(most, self.limits.set_bytes(codecs))
            if taken and (size + piece.size > most or not self._goes_with(piece, head, far)):
                break
            if taken and not piece.ticket.may_send():
                break  # dropped once it is at the head
            size += piece.size
            queue.pieces.popleft()
            queue.size -= piece.size
            queue.count -= piece.part.count
            taken.append(piece)
        return taken


def _waits(queue: _Queue, alone: bool | None) -> bool:
    """True if its head must be sent alone and cannot be now: see Batches.due."""
    return alone is False and queue.pieces[0].refusals > 0
