"""What a generation of Kafka (0.7; 0.8 and later) provides, as Protocols.  A Dialect names one module for each.

MessageFormats   the bytes of message sets       kafkawire.formats.v07.messages, .v01.messages, .mixed
RequestBuilders  requests, and their responses   kafkawire.protocol.requests07, kafkawire.protocol.requests08
Znodes           nodes in ZooKeeper              kafkawire.znodes.v07, kafkawire.znodes.v08

What a generation does not have raises LocalError when it is asked for.  Znodes are a union instead, since callers read
the two kinds of topic nodes in different ways: PARTITIONS_BY_BROKER says which kind it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kafkawire.errors import CorruptMessage
from kafkawire.model import (
    Broker,
    BrokerPartition,
    Entry,
    MessageSet,
    Part,
    PartitionId,
    Scan,
    SetReader,
    TopicPartition,
)
from kafkawire.primitives import Bytes, Encoded
from kafkawire.protocol.fetchrows import FetchRows, QuietRows
from kafkawire.protocol.request import ApiVersions, FetchedPartition, ProducedPartition, Request, Store
from kafkawire.znodes.group import Registration

if TYPE_CHECKING:
    from kafkawire.columns import Columns
    from kafkawire.columns import Part as Stretch
    from kafkawire.formats.compiled import Kernels

Fields = dict[str, Any]  # a response as the tables of its api decode it (kafkawire.protocol.apis)
Row = tuple[int, Bytes | None, Bytes | None, int | None]  # offset, key, value, timestamp in ms
Aborted = Sequence[tuple[int, int]]  # (producer id, first offset) of each aborted transaction


class MessageFormats(Protocol):
    """Reads and writes message sets in the formats of a generation.  Pure; offsets of 0.7 are bytes of the log."""

    @property
    def READER(self) -> SetReader: ...

    # ---- read

    def message_set(
        self,
        topic: str,
        partition: PartitionId,
        start: int,
        buffer: memoryview,
        high_watermark: int | None,
        aborted: Aborted = (),
    ) -> tuple[MessageSet, Scan]:
        """The complete entries of a buffer fetched at offset `start`, and the scan that found them.  Raises nothing.

        aborted: the transactions whose messages are left out, as the Fetch reply has them.
        """

    def pieces_by(
        self, kernels: Kernels | None, message_set: MessageSet, check_crcs: bool = True, most_bytes: int = ..., /
    ) -> Iterator[Columns]:
        """The set's columns in pieces of about most_bytes, by compiled kernels, or in pure Python where None."""

    def cut_short(self, buffer: Bytes, scan: Scan, position: int, asked: int) -> CorruptMessage | None:
        """The damage of a response that ends inside its first entry though `asked` bytes were asked for; else None."""

    def entry_at(self, buffer: Bytes, begin: int, position: int) -> Entry | None:
        """The entry at byte `begin` of a buffer fetched at `position`, by its own fields; None where there is none."""

    def behind(self, buffer: Bytes, begin: int, position: int) -> int | None:
        """Where to go on behind the entry at byte `begin`, at `position` of the log; it may be cut.  None: unknown."""

    def next_border(self, data: Bytes, start: int = 0) -> int | None:
        """Where the next entry begins at or behind byte `start`, found by its checksum.

        Only where offsets are bytes (0.7); else LocalError: message offsets are looked up by the broker.
        """

    # ---- write, and inspect what is to be written

    def encode(
        self,
        messages: Iterable[Row],
        codec: int = 0,
        magic: int = ...,
        headers: Sequence[Bytes | None] | None = None,
    ) -> bytes:
        """Plain entries in format `magic`, one wrapper, or one record batch.  headers: a block a message, where any has
        some (kafkawire.headers).  LocalError for what the format does not have."""

    def encode_lists(
        self,
        keys: Sequence[Bytes | None],
        values: Sequence[Bytes | None],
        timestamps_ms: Sequence[int | None] | None,
        headers: Sequence[Bytes | None] | None,
        codec: int = 0,
        magic: int = ...,
        /,
    ) -> Encoded:
        """The same of messages in lists of equal length, at least one, numbered from 0 on.  timestamps_ms, headers:
        None: no message has any."""

    def encode_columns(self, parts: Sequence[Stretch], codec: int = 0, magic: int = ..., /) -> Encoded:
        """The same of rows of columns, at least one; plain entries that are copied keep their offsets."""

    def may_pass(self, entries: Bytes, begin: int, start: int, /) -> bool:
        """Whether a broker takes the records of the record batch at byte `begin` from a producer as they are, and all
        are wanted from offset start on.  CorruptMessage where it is damaged."""

    def check(self, entries: Bytes) -> CorruptMessage | None:
        """The first damage in complete entries: a wrong checksum, or bytes that are no entry; None: they are whole."""

    def count(self, entries: Bytes) -> int:
        """Complete entries; a wrapper counts as one."""

    def split(self, part: Part, first: int | None = None) -> list[Part]:
        """Return a part as two, of about the same size or with `first` messages in the first one; [part] for a single
        message.  Raises CorruptMessage for a bad wrapper."""


class RequestBuilders(Protocol):
    """Builds requests in the versions that a release speaks: every builder takes its dialect first."""

    def fetch(
        self,
        d: ApiVersions,
        max_wait_ms: int,
        min_bytes: int,
        wanted: Sequence[tuple[TopicPartition, int, int]],
        replica_id: int = ...,
        committed: bool = True,
        rows: Sequence[FetchRows] = (),
        quiet: QuietRows | None = None,
    ) -> Request[list[FetchedPartition]]:
        """Fetch from (partition, offset, max_bytes) each.

        committed: only up to where transactions are open, and with those that were aborted (read_committed), where the
        release has transactions.  rows: other partitions behind these; quiet: topics that are left out of the result
        where the broker says of them what it said before.
        """

    def fetch_rows(self, d: ApiVersions, wanted: Sequence[tuple[TopicPartition, int, int]]) -> FetchRows:
        """Partitions that several fetches ask for, where brokers wait for data."""

    def produce(
        self,
        d: ApiVersions,
        acks: int,
        timeout_ms: int,
        sets: Mapping[TopicPartition, Sequence[bytes | memoryview]],
        magic: int = ...,
        transactional_id: str | None = None,
    ) -> Request[dict[TopicPartition, ProducedPartition] | None]:
        """Append each partition's set, all of one message format.  None: it is never answered (acks 0; 0.7).

        transactional_id: of the transaction that they belong to; only of record batches (0.11 and later).
        """

    def list_offsets(
        self,
        d: ApiVersions,
        times: Mapping[TopicPartition, int],
        max_offsets: int = 1,
        replica_id: int = ...,
        committed: bool = False,
    ) -> Request[Fields]:
        """Offsets by time: -1 log end (committed: of what no open transaction is before), -2 log start, else ms since
        1970."""

    def barrier(self, d: ApiVersions, tp: TopicPartition) -> Request[Fields]:
        """What is answered only after every earlier request of this connection was handled.

        0.7 only, where Produce is never answered.
        """

    def metadata(self, d: ApiVersions, topics: Sequence[str] | None, create: bool = True) -> Request[Fields]:
        """Brokers and partitions, of all topics with None.  create: missing ones that are named.  Not in 0.7."""

    def api_versions(self, d: ApiVersions) -> Request[Fields]:
        """The apis that a broker knows.  From 0.10 on."""

    def group_coordinator(self, d: ApiVersions, group: str, of_transaction: bool = False) -> Request[Fields]:
        """The broker that keeps a group's offsets in Kafka; or, from 0.11 on, a producer's transactions.  From 0.8.2
        on."""

    def offset_commit(
        self,
        d: ApiVersions,
        group: str,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        store: Store = "kafka",
        generation: int = -1,
        member_id: str = "",
        retention_ms: int = -1,
        timestamp_ms: int = -1,
    ) -> Request[Fields]:
        """Commit (offset, metadata) each.  From 0.8.1 on."""

    def offset_fetch(
        self, d: ApiVersions, group: str, tps: Iterable[TopicPartition] | None, store: Store = "kafka"
    ) -> Request[Fields]:
        """Read committed offsets; None: all of the group (from 0.10.2 on).  From 0.8.1 on."""

    def describe_groups(self, d: ApiVersions, groups: Sequence[str]) -> Request[Fields]:
        """Members and state of groups in Kafka.  From 0.9 on."""

    def list_groups(self, d: ApiVersions) -> Request[Fields]:
        """Groups that the asked broker coordinates.  From 0.9 on."""


class CommonZnodes(Protocol):
    """Paths and texts of nodes that both generations have.  Unreadable text raises NodeError.

    The paths of a group are those of kafkawire.znodes.group in each generation.
    """

    @property
    def BROKERS(self) -> str:
        """The parent of the brokers' nodes."""

    def topic_path(self, topic: str) -> str: ...

    def broker(self, broker_id: int, text: str | bytes) -> Broker:
        """A registered broker's address.  OtherGeneration for a text of the other generation."""

    def registration(self, text: str | bytes) -> Registration:
        """A member's subscription.  RegistrationError where the original consumer fails too."""

    def registration_text(self, registration: Registration, timestamp_ms: int) -> str:
        """The member node's text as the original consumer writes it."""

    def ids(self, group: str) -> str: ...

    def member(self, group: str, consumer_id: str) -> str: ...

    def owners(self, group: str, topic: str) -> str: ...

    def owner(self, group: str, tp: TopicPartition) -> str: ...

    def offsets(self, group: str, topic: str) -> str: ...

    def offset(self, group: str, tp: TopicPartition) -> str: ...

    def consumer_id(self, group: str, host: str, epoch_ms: int, random: int) -> str: ...

    def named_consumer_id(self, group: str, name: str) -> str: ...

    def thread_ids(self, consumer: str, count: int) -> list[str]: ...


class ListedZnodes(CommonZnodes, Protocol):
    """0.8 and later: a topic's node lists its partitions and their replicas."""

    @property
    def PARTITIONS_BY_BROKER(self) -> Literal[False]: ...

    def topic(self, text: str | bytes, where: str = ...) -> Mapping[int, Sequence[int]]:
        """Replicas by partition."""

    def state(self, text: str | bytes, where: str = ...) -> tuple[int | None, Sequence[int]]:
        """A partition's leader (None: none now) and in-sync replicas."""


class CountedZnodes(CommonZnodes, Protocol):
    """0.7: each broker's node below a topic says how many partitions it has."""

    @property
    def PARTITIONS_BY_BROKER(self) -> Literal[True]: ...

    def broker_id(self, name: str, where: str = ...) -> int:
        """The broker of a node below a topic.  OtherGeneration where 0.8 or later made it."""

    def count_path(self, topic: str, broker_id: int) -> str: ...

    def count(self, text: str | bytes, where: str = ...) -> int:
        """Partitions of the topic on the broker."""

    def partitions(self, broker_id: int, count: int) -> list[BrokerPartition]: ...


Znodes = ListedZnodes | CountedZnodes
