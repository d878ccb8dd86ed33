"""Protocols that each generation of Kafka (0.7; 0.8 and later) implements.  A Dialect names one module for each.

MessageFormats   the bytes of message sets       kafkawire.formats.v07.messages, .v01.messages, .mixed
RequestBuilders  requests, and their responses   kafkawire.protocol.requests07, kafkawire.protocol.requests08
Znodes           nodes in ZooKeeper              kafkawire.znodes.v07, kafkawire.znodes.v08

A request that a generation does not have raises LocalError.  Znodes are a union instead, since callers read the two
kinds of topic nodes in different ways: PARTITIONS_BY_BROKER tells the kind.
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

Fields = dict[str, Any]  # a response decoded by the tables of its api (kafkawire.protocol.apis)
Row = tuple[int, Bytes | None, Bytes | None, int | None]  # offset, key, value, timestamp in ms
Aborted = Sequence[tuple[int, int]]  # (producer id, first offset) of each aborted transaction


class MessageFormats(Protocol):
    """Reader and writer of message sets in the formats of a generation.  Pure; offsets of 0.7 are bytes of the log."""

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
        """Return the complete entries of a buffer fetched at offset `start`, and the scan that found them.  Raises
        nothing.

        aborted: the transactions whose messages are left out, from the Fetch reply.
        """

    def pieces_by(
        self, kernels: Kernels | None, message_set: MessageSet, check_crcs: bool = True, most_bytes: int = ..., /
    ) -> Iterator[Columns]:
        """Yield the set's columns in pieces of about most_bytes, read by these kernels; None: in pure Python."""

    def cut_short(self, buffer: Bytes, scan: Scan, position: int, asked: int) -> CorruptMessage | None:
        """Return the damage of a response that ends inside its first entry though `asked` bytes were requested; else
        None."""

    def entry_at(self, buffer: Bytes, begin: int, position: int) -> Entry | None:
        """Return the entry at byte `begin` of a buffer fetched at `position`, by its own fields; None if there is
        none."""

    def behind(self, buffer: Bytes, begin: int, position: int) -> int | None:
        """Return the offset to resume at after the entry at byte `begin`, `position` of the log, which may be
        truncated; None if unknown."""

    def next_border(self, data: Bytes, start: int = 0) -> int | None:
        """Return where the next entry at or after byte `start` begins, found by its checksum.

        Only if offsets are bytes (0.7); else raises LocalError: the broker looks up message offsets.
        """

    # ---- write, and inspect entries to be written

    def encode(
        self,
        messages: Iterable[Row],
        codec: int = 0,
        magic: int = ...,
        headers: Sequence[Bytes | None] | None = None,
    ) -> bytes:
        """Encode messages as plain entries in format `magic`, one wrapper, or one record batch. headers: one block per
        message, if any has headers (kafkawire.headers).  Raises LocalError for anything that the format does not
        support."""

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
        """Encode messages in lists of equal length, at least one, numbered from 0. timestamps_ms, headers: None: no
        message has any."""

    def encode_columns(self, parts: Sequence[Stretch], codec: int = 0, magic: int = ..., /) -> Encoded:
        """Encode rows of columns, at least one; plain entries that are copied keep their offsets."""

    def may_pass(self, entries: Bytes, begin: int, start: int, /) -> bool:
        """True if a broker accepts the unchanged records of the batch at byte `begin` from a producer, and all are at
        or after offset start.  Raises CorruptMessage if it is damaged."""

    def check(self, entries: Bytes) -> CorruptMessage | None:
        """Return the first damage in complete entries: a wrong checksum, or bytes that are not an entry; None if there
        is none."""

    def count(self, entries: Bytes) -> int:
        """Return the number of complete entries; a wrapper counts as one."""

    def split(self, part: Part, first: int | None = None) -> list[Part]:
        """Return a part as two, of about the same size or with `first` messages in the first one; [part] for a single
        message.  Raises CorruptMessage for a bad wrapper."""


class RequestBuilders(Protocol):
    """Builders of requests in the versions of a release: each takes its dialect first."""

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

        committed: read only up to the first open transaction, and return the aborted ones (read_committed), if the
        release has transactions. rows: further partitions after these; quiet: topics that are left out of the result
        while their rows repeat.
        """

    def fetch_rows(self, d: ApiVersions, wanted: Sequence[tuple[TopicPartition, int, int]]) -> FetchRows:
        """Encode partitions that several fetches request, for brokers that wait for data."""

    def produce(
        self,
        d: ApiVersions,
        acks: int,
        timeout_ms: int,
        sets: Mapping[TopicPartition, Sequence[bytes | memoryview]],
        magic: int = ...,
        transactional_id: str | None = None,
    ) -> Request[dict[TopicPartition, ProducedPartition] | None]:
        """Append each partition's set, all of one message format.  None: there is no response (acks 0; 0.7).

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
        """Request offsets by time: -1 log end (committed: the last stable offset), -2 log start, else ms since 1970."""

    def barrier(self, d: ApiVersions, tp: TopicPartition) -> Request[Fields]:
        """Make a request that is answered only after every earlier request of this connection was handled.

        Only for 0.7, which never answers Produce.
        """

    def metadata(self, d: ApiVersions, topics: Sequence[str] | None, create: bool = True) -> Request[Fields]:
        """Request brokers and partitions; None: of all topics. create: create named topics that do not exist.  Not in
        0.7."""

    def api_versions(self, d: ApiVersions) -> Request[Fields]:
        """Request the apis that a broker supports (0.10 and later)."""

    def group_coordinator(self, d: ApiVersions, group: str, of_transaction: bool = False) -> Request[Fields]:
        """Request the coordinator of a group (0.8.2 and later), or of a producer's transactions (0.11 and later)."""

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
        """Commit (offset, metadata) each (0.8.1 and later)."""

    def offset_fetch(
        self, d: ApiVersions, group: str, tps: Iterable[TopicPartition] | None, store: Store = "kafka"
    ) -> Request[Fields]:
        """Request committed offsets (0.8.1 and later); None: all of the group (0.10.2 and later)."""

    def describe_groups(self, d: ApiVersions, groups: Sequence[str]) -> Request[Fields]:
        """Request members and state of groups in Kafka (0.9 and later)."""

    def list_groups(self, d: ApiVersions) -> Request[Fields]:
        """Request the groups that a broker coordinates (0.9 and later)."""


class CommonZnodes(Protocol):
    """Paths and texts of nodes in both generations.  Unreadable text raises NodeError.

    Both generations have the group paths of kafkawire.znodes.group.
    """

    @property
    def BROKERS(self) -> str:
        """Return the parent of the brokers' nodes."""

    def topic_path(self, topic: str) -> str: ...

    def broker(self, broker_id: int, text: str | bytes) -> Broker:
        """Return a registered broker's address.  Raises OtherGeneration for a text of the other generation."""

    def registration(self, text: str | bytes) -> Registration:
        """Return a member's subscription.  Raises RegistrationError if the original consumer fails too."""

    def registration_text(self, registration: Registration, timestamp_ms: int) -> str:
        """Return the member node's text as the original consumer writes it."""

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
    """Nodes of 0.8 and later: a topic's node lists its partitions and their replicas."""

    @property
    def PARTITIONS_BY_BROKER(self) -> Literal[False]: ...

    def topic(self, text: str | bytes, where: str = ...) -> Mapping[int, Sequence[int]]:
        """Return replicas by partition."""

    def state(self, text: str | bytes, where: str = ...) -> tuple[int | None, Sequence[int]]:
        """Return a partition's leader (None: none now) and in-sync replicas."""


class CountedZnodes(CommonZnodes, Protocol):
    """Nodes of 0.7: each broker's node below a topic has its number of partitions."""

    @property
    def PARTITIONS_BY_BROKER(self) -> Literal[True]: ...

    def broker_id(self, name: str, where: str = ...) -> int:
        """Return the broker of a node below a topic.  Raises OtherGeneration if 0.8 or later created it."""

    def count_path(self, topic: str, broker_id: int) -> str: ...

    def count(self, text: str | bytes, where: str = ...) -> int:
        """Return the number of the topic's partitions on the broker."""

    def partitions(self, broker_id: int, count: int) -> list[BrokerPartition]: ...


Znodes = ListedZnodes | CountedZnodes
