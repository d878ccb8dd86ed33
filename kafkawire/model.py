"""What travels and how it is named.  Knows no bytes' layout, no socket, no ZooKeeper.

TopicPartition   a topic and a partition id; str() is the name an operator reads: orders/3
Broker           id, host, port
MessageSet       consecutive complete entries of one topic-partition, exactly as fetched
Run              neighbouring entries of a set that may travel together
Scan             what a look at a fetched buffer found
Entry            one entry, as far as its own fields tell
Message          one message, decoded
Part, Ticket     what a sender is given: entries for a target partition, and what is notified
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from groundwork.decimals import MAX_INT32, decimal_int

if TYPE_CHECKING:
    from kafkawire.columns import Columns
    from kafkawire.errors import CorruptMessage


RECORD_BATCH = 2  # the message format (magic) whose entries are batches
ANY = -1  # as an index of 0.7: any partition of the broker

PIECE_BYTES = 256 << 10  # of a set, looked at at once: it stays in the processor's cache


@dataclass(frozen=True, slots=True, order=True)
class BrokerPartition:
    """A partition id of 0.7: the broker and the index on it; str() is the znode's name.

    index ANY: the broker picks one of its partitions; only for what is produced.
    """

    broker: int
    index: int

    def __str__(self) -> str:
        return f"{self.broker}-{self.index}"


PartitionId = int | BrokerPartition


def partition_named(text: str) -> PartitionId | None:
    """The partition id of its text in either generation: a number, or broker-index of 0.7; None: it is neither."""
    first, dash, second = text.partition("-")
    number, index = decimal_int(first, most=MAX_INT32), decimal_int(second, most=MAX_INT32)
    if number is None or (index is None) == bool(dash):
        return None
    return number if index is None else BrokerPartition(number, index)


def broker_named(text: str) -> int | None:
    """The broker id that a node's name is; None for any other name, as "01", which is another node than "1"."""
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
    """Who sends record batches (KIP-98): an id that a broker gave out, and its epoch; older epochs are fenced."""

    id: int
    epoch: int


class Handed(Protocol):
    """What an acknowledged message notifies."""

    def acked(self, resume_at: int) -> None: ...


@dataclass(slots=True)
class Message:
    """One message.  key and value are bytes or None (null); what a format lacks is None.

    resume_at is the position to commit once this message is done: an offset in 0.8 and later (its own + 1), a byte
    position in 0.7 (the end of its entry, or the start of a compressed entry that holds more messages).
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
    handed: Handed | None = field(default=None, repr=False, compare=False)  # set by the stream that hands it out

    def ack(self) -> None:
        """Its reader is done with it.  From any thread; again, or where no stream handed it out, it changes nothing."""
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
    """A Message without headers, in two thirds of the time: its own __init__ is a third of what reading one costs."""
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


@dataclass(slots=True, unsafe_hash=True)  # not frozen, as Part: one is made of each batch, three times as fast
class Run:
    """Neighbouring entries that may travel together: plain ones of one format, one wrapper, or one record batch.

    Nothing changes it.
    """

    begin: int  # first byte in the set's buffer
    end: int  # first byte after it
    codec: int  # 0: not compressed
    magic: int  # message format of the entries
    entries: int  # 1 for a wrapper; of a record batch its records
    resume_at: int  # where to go on once the run is done

    @property
    def atomic(self) -> bool:
        """It travels as a whole, and alone: a wrapper, or a record batch.  Else it may be cut at any entry."""
        return self.codec != 0 or self.magic >= RECORD_BATCH

    @property
    def record_batch(self) -> bool:
        """It is a record batch."""
        return self.magic >= RECORD_BATCH


@dataclass(frozen=True, slots=True)
class Scan:
    """What is complete in a buffer."""

    end: int  # bytes of complete entries
    resume_at: int  # where the next fetch goes on: behind the last complete entry
    runs: tuple[Run, ...]  # those to deliver, in order
    needed: int  # bytes a fetch must have for the first wanted entry, where not even that is complete (else 0)
    damage: CorruptMessage | None  # what stands at end, where that is no cut entry but nonsense
    # Nothing is to be delivered, and resume_at is past start: what stands there is no message (the end of a
    # transaction, one that was aborted, what a cleaner emptied), or the broker left it out as it converted its log.
    left_out: bool = False
    # Offsets [first, behind) of what transactions keep from a reader: their markers, and messages that were aborted.
    kept_back: tuple[tuple[int, int], ...] = ()
    ascends: bool = True  # each entry has a larger offset than the one before


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a fetch, as far as its own fields tell: offset as Message.offset has it, resume_at behind it."""

    offset: int
    resume_at: int
    wrapper: bool
    nbytes: int


@dataclass(frozen=True, slots=True)
class SetReader:
    """How the messages of one generation are read out of a set, and its entries hopped over: see MessageSet."""

    messages: Callable[[MessageSet, bool], Iterator[Message]]
    index: Callable[[MessageSet, bool], Columns]
    pieces: Callable[[MessageSet, bool, int], Iterator[Columns]]
    cut: Callable[[memoryview, Run, int], Iterator[Run]]
    before: Callable[[memoryview, Run, int], Run | None]
    stamped: Callable[[memoryview, Run], bool]


@dataclass(frozen=True, slots=True)
class MessageSet:
    """Consecutive complete entries of one topic-partition exactly as fetched: a view on a buffer of its own.

    start is the wanted position and may lie inside the first entry when that is a wrapper: messages() leaves out what
    is before it.  resume_at is where the next fetch goes on: what is committed once every message of the set is done.
    """

    topic: str
    partition: PartitionId
    start: int
    resume_at: int
    buffer: memoryview
    high_watermark: int | None  # the position behind the last message that consumers see; None: not told (0.7)
    runs: Sequence[Run]
    reader: SetReader

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def entries(self) -> int:
        """Top-level entries; a wrapper counts as one."""
        return sum(run.entries for run in self.runs)

    @property
    def codecs(self) -> frozenset[int]:
        return frozenset(run.codec for run in self.runs)

    @property
    def format(self) -> int:
        """The newest message format (magic) in the set."""
        return max((run.magic for run in self.runs), default=0)

    def messages(self, check_crcs: bool = True) -> Iterator[Message]:
        """Its messages from start on, decoded lazily.  Raises CorruptMessage where the bytes end to make sense."""
        return self.reader.messages(self, check_crcs)

    def index(self, check_crcs: bool = True) -> Columns:
        """The same messages as columns of positions, all at once; damage is in the columns.

        Raises SetTooLarge where its compressed entries open to more than 128 MiB together (pieces() reads such a set),
        and LibraryMissing.
        """
        return self.reader.index(self, check_crcs)

    def pieces(self, check_crcs: bool = True, most_bytes: int = PIECE_BYTES) -> Iterator[Columns]:
        """The same in pieces of about most_bytes: at least one, some perhaps empty; the last ends at resume_at, or in
        damage."""
        return self.reader.pieces(self, check_crcs, most_bytes)

    def cut(self, run: Run, limit: int) -> Iterator[Run]:
        """One of its runs as runs of at most limit bytes; an entry that is larger by itself goes alone."""
        return self.reader.cut(self.buffer, run, limit)

    def before(self, run: Run, until: int) -> Run | None:
        """Those entries of one of its plain runs that stand before position `until`; None: there are none."""
        return self.reader.before(self.buffer, run, until)

    def stamped(self, run: Run) -> bool:
        """Whether a broker set the timestamp of any entry of the run (LogAppendTime): no broker takes that back."""
        return self.reader.stamped(self.buffer, run)

    def __repr__(self) -> str:
        return f"<MessageSet {self.tp} {self.start}..{self.resume_at}, {len(self.buffer)} bytes>"


@dataclass(slots=True, unsafe_hash=True)
class Part:
    """Entries on their way to one target partition.  Nothing changes it."""

    tp: TopicPartition  # of the target
    entries: bytes | memoryview
    magic: int
    codec: int  # 0: not compressed
    count: int  # messages, as far as known without opening a wrapper
    resume_at: int | None = None  # source position once this part is stored; None: only the whole ticket counts
    counted: bool = True  # count is exact; not that of a wrapper which travels as it was fetched
    # Offsets in the source of its messages, in order, where its entries have other numbers; (): not known.
    origins: tuple[Sequence[int], ...] = field(default=(), compare=False, repr=False)

    @property
    def atomic(self) -> bool:
        """It is exactly one wrapper or record batch; else plain entries, which may be cut and joined."""
        return self.codec != 0 or self.magic >= RECORD_BATCH

    @property
    def record_batch(self) -> bool:
        """It is a record batch: no set of a produce request has anything beside it."""
        return self.magic >= RECORD_BATCH


class Ticket(Protocol):
    """What a sender notifies of the outcome of a part.  Several parts may share one."""

    def may_send(self) -> bool:
        """False: the share this came from is gone (lease over, partition released or parked); drop it, send nothing."""

    def reached(self, resume_at: int) -> None:
        """Everything of a one-part ticket before this source position is stored."""

    def done(self) -> None:
        """One part of it is stored."""

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        """A part can never be stored; resume_at is the source position just before what cannot, where known."""
