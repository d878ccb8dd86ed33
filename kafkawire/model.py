"""Data types for topics, partitions, brokers, message sets and messages.  Independent of byte layouts, sockets and
ZooKeeper.

TopicPartition   a topic and a partition id; str() is the name in logs: orders/3
Broker           id, host, port
MessageSet       consecutive complete entries of one topic-partition, exactly as fetched
Run              neighbouring entries of a set that may travel together
Scan             result of scanning a fetched buffer
Entry            one entry, by its own fields
Message          one message, decoded
Part, Ticket     input of a sender: entries for a target partition, and the object notified of the outcome
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from groundwork.decimals import MAX_INT32, decimal_int

if TYPE_CHECKING:
    from kafkawire.columns import Columns
    from kafkawire.errors import CorruptMessage


RECORD_BATCH = 2  # the message format (magic) with record batches
ANY = -1  # as an index of 0.7: any partition of the broker

PIECE_BYTES = 256 << 10  # bytes of a set read at once, so that they stay in the processor's cache


@dataclass(frozen=True, slots=True, order=True)
class BrokerPartition:
    """Partition id of 0.7: the broker and the index on it; str() is the znode's name.

    index ANY: the broker picks one of its partitions; only for producing.
    """

    broker: int
    index: int

    def __str__(self) -> str:
        return f"{self.broker}-{self.index}"


PartitionId = int | BrokerPartition


def partition_named(text: str) -> PartitionId | None:
    """Return the partition id for a text of either generation: a number, or broker-index of 0.7; None if it is
    neither."""
    first, dash, second = text.partition("-")
    number, index = decimal_int(first, most=MAX_INT32), decimal_int(second, most=MAX_INT32)
    if number is None or (index is None) == bool(dash):
        return None
    return number if index is None else BrokerPartition(number, index)


def broker_named(text: str) -> int | None:
    """Return the broker id for a node's name; None for any other name, such as "01", which is another node than "1"."""
    number = decimal_int(text, most=MAX_INT32)
    return number if str(number) == text else None


class TopicPartition(NamedTuple):
    topic: str
    partition: PartitionId

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Broker(NamedTuple):
    id: int
    host: str
    port: int

    def __str__(self) -> str:
        address = f"{self.host}:{self.port}"
        return f"broker {self.id} ({address})" if self.id >= 0 else address


class ProducerId(NamedTuple):
    """Sender of record batches (KIP-98): an id that a broker assigned, and its epoch; older epochs are fenced."""

    id: int
    epoch: int


class Handed(Protocol):
    """Object notified when a message is acknowledged."""

    def acked(self, resume_at: int) -> None: ...


@dataclass(slots=True)
class Message:
    """One message. key and value are bytes or None (null); fields that its format does not have are None.

    resume_at is the offset to commit once this message is done: its own offset + 1 in 0.8 and later, a byte offset in
    0.7 (the end of its entry, or the start of a compressed entry that holds more messages).
    """

    topic: str
    partition: PartitionId
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    timestamp_type: int | None
    headers: tuple[tuple[str, bytes | None], ...] | None
    resume_at: int
    handed: Handed | None = field(default=None, repr=False, compare=False)  # set by the stream that delivers it

    def ack(self) -> None:
        """Acknowledge the message: its reader is done with it.  Works from any thread; a second call, or one for a
        message that no stream delivered, does nothing."""
        if self.handed is not None:
            self.handed.acked(self.resume_at)


def made(
    topic: str,
    partition: PartitionId,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    timestamp_ms: int | None,
    timestamp_type: int | None,
    resume_at: int,
    new: Callable[[type[Message]], Message] = object.__new__,
) -> Message:
    """Return a Message without headers, in two thirds of the time: __init__ is a third of the cost of reading one."""
    message = new(Message)
    message.topic = topic
    message.partition = partition
    message.offset = offset
    message.key = key
    message.value = value
    message.timestamp_ms = timestamp_ms
    message.timestamp_type = timestamp_type
    message.headers = None
    message.resume_at = resume_at
    message.handed = None
    return message


@dataclass(slots=True, unsafe_hash=True)  # not frozen, like Part: three times as fast to make
class Run:
    """Adjacent entries that may be sent together: plain ones of one format, one wrapper, or one record batch.

    It is never modified.
    """

    begin: int  # first byte in the set's buffer
    end: int  # first byte after it
    codec: int  # 0: not compressed
    magic: int  # message format of the entries
    entries: int  # 1 for a wrapper; for a record batch its number of records
    resume_at: int  # offset to resume at once the run is done

    @property
    def atomic(self) -> bool:
        """True if it has to be sent whole and alone: a wrapper, or a record batch.  Otherwise it may be split at any
        entry."""
        return self.codec != 0 or self.magic >= RECORD_BATCH

    @property
    def record_batch(self) -> bool:
        """True if it is a record batch."""
        return self.magic >= RECORD_BATCH


@dataclass(frozen=True, slots=True)
class Scan:
    """Complete entries found in a buffer."""

    end: int  # bytes of complete entries
    resume_at: int  # offset of the next fetch: after the last complete entry
    runs: tuple[Run, ...]  # runs to deliver, in order
    needed: int  # bytes that a fetch needs for the first wanted entry, if even that is incomplete (else 0)
    damage: CorruptMessage | None  # what is wrong at `end`, if that is not a truncated entry
    # True if nothing is to be delivered and resume_at is past start: the entries there are not messages (end of a
    # transaction, aborted, emptied by a cleaner), or the broker left them out in a down-conversion.
    left_out: bool = False
    # Offsets [first, behind) that transactions hide from a reader: their markers, and aborted messages.
    kept_back: tuple[tuple[int, int], ...] = ()
    ascends: bool = True  # each entry has a larger offset than the previous one


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a fetch, by its own fields: offset as in Message.offset, resume_at after it."""

    offset: int
    resume_at: int
    wrapper: bool
    nbytes: int


@dataclass(frozen=True, slots=True)
class SetReader:
    """Functions of one generation that read the messages of a set and skip its entries: see MessageSet."""

    messages: Callable[[MessageSet, bool], Iterator[Message]]
    index: Callable[[MessageSet, bool], Columns]
    pieces: Callable[[MessageSet, bool, int], Iterator[Columns]]
    cut: Callable[[memoryview, Run, int], Iterator[Run]]
    before: Callable[[memoryview, Run, int], Run | None]
    stamped: Callable[[memoryview, Run], bool]


@dataclass(frozen=True, slots=True)
class MessageSet:
    """Consecutive complete entries of one topic-partition exactly as fetched: a view of its own buffer.

    start is the wanted offset and may be inside the first entry if that is a wrapper: messages() skips messages before
    it. resume_at is the offset of the next fetch, which is committed once every message of the set is done.
    """

    topic: str
    partition: PartitionId
    start: int
    resume_at: int
    buffer: memoryview
    high_watermark: int | None  # offset after the last message that consumers see; None: not known (0.7)
    runs: Sequence[Run]
    reader: SetReader

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def entries(self) -> int:
        """Return the number of top-level entries; a wrapper counts as one."""
        return sum(run.entries for run in self.runs)

    @property
    def codecs(self) -> frozenset[int]:
        return frozenset(run.codec for run in self.runs)

    @property
    def format(self) -> int:
        """Return the newest message format (magic) in the set."""
        return max((run.magic for run in self.runs), default=0)

    def messages(self, check_crcs: bool = True) -> Iterator[Message]:
        """Yield its messages from start, decoded lazily.  Raises CorruptMessage where the bytes are damaged."""
        return self.reader.messages(self, check_crcs)

    def index(self, check_crcs: bool = True) -> Columns:
        """Return its messages as columns of positions, all at once; damage is in the columns.

        Raises SetTooLarge if its compressed entries exceed 128 MiB together when decompressed (pieces() reads such a
        set), and LibraryMissing.
        """
        return self.reader.index(self, check_crcs)

    def pieces(self, check_crcs: bool = True, most_bytes: int = PIECE_BYTES) -> Iterator[Columns]:
        """Yield its columns in pieces of about most_bytes: at least one, some perhaps empty; the last ends at
        resume_at, or in damage."""
        return self.reader.pieces(self, check_crcs, most_bytes)

    def cut(self, run: Run, limit: int) -> Iterator[Run]:
        """Yield one of its runs as runs of at most limit bytes; a larger entry is yielded alone."""
        return self.reader.cut(self.buffer, run, limit)

    def before(self, run: Run, until: int) -> Run | None:
        """Return the entries of one of its plain runs before offset `until`; None if there are none."""
        return self.reader.before(self.buffer, run, until)

    def stamped(self, run: Run) -> bool:
        """True if a broker set the timestamp of any entry of the run (LogAppendTime): no broker accepts these from a
        producer."""
        return self.reader.stamped(self.buffer, run)

    def __repr__(self) -> str:
        return f"<MessageSet {self.tp} {self.start}..{self.resume_at}, {len(self.buffer)} bytes>"


@dataclass(slots=True, unsafe_hash=True)
class Part:
    """Entries to be sent to one target partition.  It is never modified."""

    tp: TopicPartition  # of the target
    entries: bytes | memoryview
    magic: int
    codec: int  # 0: not compressed
    count: int  # messages, as far as known without decompressing a wrapper
    resume_at: int | None = None  # source offset once this part is acknowledged; None: only the whole ticket counts
    counted: bool = True  # count is exact; False for a wrapper that is sent as it was fetched
    # Offsets of its messages in the source, in order, if its entries have other offsets; (): not known.
    origins: tuple[Sequence[int], ...] = field(default=(), compare=False, repr=False)

    @property
    def atomic(self) -> bool:
        """True if it is exactly one wrapper or record batch; otherwise it has plain entries, which may be split and
        joined."""
        return self.codec != 0 or self.magic >= RECORD_BATCH

    @property
    def record_batch(self) -> bool:
        """True if it is a record batch: it has to be alone in the set of a produce request."""
        return self.magic >= RECORD_BATCH


class Ticket(Protocol):
    """Object that a sender notifies of the outcome of a part.  Several parts may share one."""

    def may_send(self) -> bool:
        """Return False if the partition is no longer owned (lease over, released or parked): drop the part, send
        nothing."""

    def reached(self, resume_at: int) -> None:
        """Report that everything of a one-part ticket before this source offset is acknowledged."""

    def done(self) -> None:
        """Report that one part of it is acknowledged."""

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        """Report that a part can never be stored. resume_at: the source offset just before the failing message, if
        known."""
