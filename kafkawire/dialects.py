"""Request versions and capabilities of each Kafka release, one row per release.  Callers check the dialect, never a
version.

The releases of 0.7 are another generation: other bytes, other ZooKeeper nodes, no acknowledgement, no keys, offsets in
bytes.  Each capability below is named by its meaning; callers never ask for the generation.

Brokers of 0.10 and later report the versions that they support: kafkawire.cluster.versions makes the Dialect of a
cluster from these and the rows here.  Older ones do not: 0.8 ignores the version of Produce, Fetch, ListOffsets and
Metadata and answers every request in v0 layout.  If an option names a release, its row is used alone: the newest
versions that the release supports and this package has tables for. 4.x also supports those of 0.11 and later (KIP-896).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from groundwork.decimals import MAX_INT32, decimal_int
from kafkawire.errors import LocalError
from kafkawire.formats import mixed as messages_mixed
from kafkawire.formats.v01 import messages as messages_v08
from kafkawire.formats.v07 import messages as messages_v07
from kafkawire.formats.v2.write import RECORD_OVERHEAD
from kafkawire.interfaces import MessageFormats, RequestBuilders, Znodes
from kafkawire.model import RECORD_BATCH, BrokerPartition, PartitionId
from kafkawire.offsets import BYTE_OFFSETS, MESSAGE_OFFSETS, Offsets
from kafkawire.protocol import adminapis, apis, saslapis, transactionapis
from kafkawire.protocol import requests07 as requests_v07
from kafkawire.protocol import requests08 as requests_v08
from kafkawire.protocol.request import Store as Store
from kafkawire.znodes import v07 as znodes_v07
from kafkawire.znodes import v08 as znodes_v08

# bytes of an entry besides key and value, by message format
ENTRY_OVERHEAD: Mapping[int, int] = {
    **messages_v07.ENTRY_OVERHEAD,
    **messages_v08.ENTRY_OVERHEAD,
    RECORD_BATCH: RECORD_OVERHEAD,  # at most
}
UNASKED = "0.8.2"  # until brokers have reported their releases: every one from 0.8 to 3.9 supports its requests
_GROUPS = (apis.HEARTBEAT, apis.LEAVE_GROUP, apis.SYNC_GROUP, apis.DESCRIBE_GROUPS, apis.LIST_GROUPS)
_TRANSACTIONS = (
    transactionapis.INIT_PRODUCER_ID,
    transactionapis.ADD_PARTITIONS_TO_TXN,
    transactionapis.ADD_OFFSETS_TO_TXN,
    transactionapis.END_TXN,
    transactionapis.TXN_OFFSET_COMMIT,
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """Request versions and capabilities of one release.  Sets of numbers are codecs (0 none, 1 gzip, 2 snappy, 3 lz4, 4
    zstd) and formats (magic)."""

    release: str
    versions: Mapping[int, int]  # api key -> version in use; for offsets: those kept in Kafka
    zookeeper_offsets: bool  # OffsetCommit and OffsetFetch v0, which keep offsets in ZooKeeper
    magic: int  # the format to write; 0.8 and 0.9 store a newer one, which then breaks consumers
    formats: frozenset[int]  # formats that it stores unchanged
    codecs: frozenset[int]
    one_wrapper_per_set: bool  # it refuses several (error 87); 0.8 to 2.3 merge them into one and measure the result
    measures_whole_set: bool  # message.max.bytes limits a whole plain set, not each entry
    masks_hashes: bool  # its producer's default partitioner uses h & 0x7fffffff, not |h| (KAFKA-1469)
    strategies: frozenset[str]  # assignment strategies that all members of a group know
    relaxed_roundrobin: bool  # roundrobin skips threads that do not read a topic; before, it refused them
    negates_hashes: bool  # that partitioner uses |h|, which is negative for the smallest int32
    record_batches: bool  # its logs store record batches (format v2), with headers and transactions
    stable_offsets: bool  # OffsetFetch v7: a group's offsets are returned once pending commits are replicated
    has_keys: bool  # messages carry a key
    has_nulls: bool  # a message may have a null value
    measures_payload: bool  # message.max.bytes limits the payload alone, not the whole entry
    answers_produce: bool  # a produce request can be acknowledged; otherwise its outcome is never known
    counts_replicas: bool  # acks above 1 waits for that many replicas; otherwise it is refused (error 21)
    waits_for_data: bool  # a fetch waits on the broker (max wait, min bytes); otherwise an empty answer comes at once
    describes_itself: bool  # brokers report brokers and partitions (Metadata); otherwise only ZooKeeper has them
    partitions_by_broker: bool  # partitions belong to brokers (BrokerPartition) and disappear with them: no replicas
    offsets: Offsets  # unit of offsets, and which numbers are valid offsets
    refuses_by_closing: bool  # a broker closes the connection if it does not have a requested partition
    messages: MessageFormats
    requests: RequestBuilders
    znodes: Znodes

    def speaks(self, api_key: int, store: Store = "kafka") -> int:
        """Return the version to use.  Raises LocalError if the release does not have the api; store matters for offsets
        only."""
        if store == "zookeeper" and api_key in (apis.OFFSET_COMMIT.key, apis.OFFSET_FETCH.key):
            if self.zookeeper_offsets:
                return 0
        elif api_key in self.versions:
            return self.versions[api_key]
        name = apis.APIS[api_key].name if api_key in apis.APIS else f"api key {api_key}"
        where = f" for offsets in {store}" if api_key in (apis.OFFSET_COMMIT.key, apis.OFFSET_FETCH.key) else ""
        raise LocalError(f"Kafka {self.release} has no {name}{where}")

    def batches_only(self) -> Dialect:
        """Return this dialect, but with everything written as record batches; the dialect itself if it has none."""
        return replace(self, formats=frozenset({RECORD_BATCH})) if self.record_batches else self

    def through(self, protocol: str) -> Dialect:
        """Return this dialect, but with brokers' addresses in ZooKeeper taken from the listener of a security protocol
        (SSL, SASL_SSL, …)."""
        if protocol == znodes_v08.PLAINTEXT or self.partitions_by_broker:
            return self
        return replace(self, znodes=cast("Znodes", znodes_v08.OfListener(protocol)))

    @property
    def number(self) -> tuple[int, ...]:
        """Return the release as numbers, for comparison with another."""
        return release_number(self.release)

    @property
    def gives_whole_entries(self) -> bool:
        """True if a fetch returns the first entry of the first non-empty partition whole, however large it is
        (KIP-74)."""
        return self.describes_itself and self.versions.get(apis.FETCH.key, 0) >= 3

    @property
    def has_timestamps(self) -> bool:
        """True if messages carry a timestamp."""
        return self.magic >= 1

    @property
    def keeps_offsets(self) -> bool:
        """True if brokers keep groups' offsets in Kafka; otherwise they are in ZooKeeper."""
        return apis.OFFSET_COMMIT.key in self.versions

    @property
    def coordinates_groups(self) -> bool:
        """True if brokers coordinate consumer groups (JoinGroup); otherwise members find each other in ZooKeeper."""
        return apis.JOIN_GROUP.key in self.versions

    @property
    def may_miss_commits(self) -> bool:
        """True if a new coordinator reads offsets only up to its high watermark, not to the log end: the newest commits
        may be missing until they are repeated.  (0.8.2 to 0.10.2: OffsetManager.loadOffsets,
        GroupMetadataManager.loadGroupsAndOffsets.)"""
        return self.keeps_offsets and not self.record_batches

    def in_order(self, partitions: Iterable[PartitionId]) -> list[PartitionId]:
        """Return partitions as the range assignment of this generation sorts them: by number; in 0.7 by name, as
        text."""
        if self.partitions_by_broker:
            return sorted(partitions, key=self.znode)
        return sorted(partitions, key=_number)

    def znode(self, partition: PartitionId) -> str:
        """Return a partition's name in ZooKeeper."""
        return _pair(partition) if self.partitions_by_broker else str(_number(partition))

    def partition(self, text: str) -> PartitionId:
        """Return the partition of a name in ZooKeeper.  Raises LocalError for an invalid name."""
        if self.partitions_by_broker:
            broker, dash, index = text.partition("-")
            pair = (decimal_int(broker, most=MAX_INT32), decimal_int(index, most=MAX_INT32))
            if dash and pair[0] is not None and pair[1] is not None:
                return BrokerPartition(pair[0], pair[1])
            raise LocalError(
                f"{text[:60]!r} is not a partition of Kafka {self.release}; expected broker-index, such as 0-3"
            )
        number = decimal_int(text, most=MAX_INT32)
        if number is None:
            raise LocalError(f"{text[:60]!r} is not a partition of Kafka {self.release}; expected a number")
        return number


class SeveralReleases(LocalError):
    """The first numbers of a release, such as 0.8, are given, and the releases that begin with them differ."""


def dialect(release: str) -> Dialect:
    """Return the row of a release as brokers name themselves: for "0.8.2.2" the row of 0.8.2, for "0.7" that of its
    last, 0.7.2.  A release newer than all rows gets the newest row.

    Raises LocalError for an unknown release.
    """
    parts = release.strip().split(".")
    if parts == ["0", "7"]:
        return DIALECTS["0.7.2"]
    for length in range(len(parts), 0, -1):
        row = DIALECTS.get(".".join(parts[:length]))
        if row is not None and all(decimal_int(part) is not None for part in parts):
            return row
    if all(decimal_int(part) is not None for part in parts) and release_number(release) > NEWEST.number:
        return NEWEST
    family = [name for name in DIALECTS if name.startswith(release.strip() + ".")]
    if family:
        raise SeveralReleases(f"{release!r} is several releases: {', '.join(family)}; give the oldest of the brokers")
    raise LocalError(f"unknown Kafka release {release!r}; the nearest known is {_nearest(parts)}")


def expected(release: str) -> Dialect:
    """Return the row of a release that an option names, or of UNASKED if it is empty: it is used until brokers have
    reported their releases (kafkawire.cluster.versions)."""
    return dialect(release or UNASKED)


def _nearest(parts: list[str]) -> str:
    """Return the newest row that begins with this text, else the newest row before it, else the oldest."""
    text = ".".join(parts)
    inside = [name for name in DIALECTS if name.startswith(text + ".")]
    if inside:
        return inside[-1]
    wanted = release_number(text)
    before = [name for name in DIALECTS if release_number(name) <= wanted]
    return before[-1] if before else next(iter(DIALECTS))


@cache
def release_number(text: str) -> tuple[int, ...]:
    """Return a release as numbers for comparison: the leading digits of each component; "0.8.2-beta" is (0, 8, 2)."""
    numbers = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def _pair(partition: PartitionId) -> str:
    if not isinstance(partition, BrokerPartition):
        raise LocalError(f"partition {partition} is one of 0.8 or later: those of 0.7 belong to a broker")
    return str(partition)


def _number(partition: PartitionId) -> int:
    if not isinstance(partition, int):
        raise LocalError(f"partition {partition} is one of 0.7: Kafka 0.8 and later number theirs")
    return partition


def _rows() -> dict[str, Dialect]:
    """Return the rows of all releases, each derived from the one before it: wire-protocol.md 2.14, as far as there are
    tables."""
    first = {apis.PRODUCE: 0, apis.FETCH: 0, apis.LIST_OFFSETS: 0, apis.METADATA: 0}
    v080 = Dialect(
        release="0.8.0",
        versions={api.key: version for api, version in first.items()},
        zookeeper_offsets=False,
        magic=0,
        formats=frozenset({0}),
        codecs=frozenset({0, 1, 2}),
        one_wrapper_per_set=False,
        measures_whole_set=False,
        masks_hashes=True,
        strategies=frozenset({"range"}),
        relaxed_roundrobin=False,
        negates_hashes=False,
        record_batches=False,
        stable_offsets=False,
        has_keys=True,
        has_nulls=True,
        measures_payload=False,
        answers_produce=True,
        counts_replicas=True,
        waits_for_data=True,
        describes_itself=True,
        partitions_by_broker=False,
        offsets=MESSAGE_OFFSETS,
        refuses_by_closing=False,
        messages=messages_v08,
        requests=requests_v08,
        znodes=znodes_v08,
    )
    v081 = replace(v080, release="0.8.1", zookeeper_offsets=True)
    v082 = _newer(
        v081,
        "0.8.2",
        {apis.OFFSET_COMMIT: 1, apis.OFFSET_FETCH: 1, apis.GROUP_COORDINATOR: 0},
        codecs=frozenset({0, 1, 2, 3}),
    )
    v082 = replace(v082, masks_hashes=False, strategies=frozenset({"range", "roundrobin"}))
    groups = dict.fromkeys(_GROUPS, 0)
    v09 = _newer(v082, "0.9", {apis.PRODUCE: 1, apis.FETCH: 1, apis.OFFSET_COMMIT: 2, apis.JOIN_GROUP: 0, **groups})
    v09 = replace(v09, counts_replicas=False)
    more = {apis.PRODUCE: 2, apis.FETCH: 2, apis.METADATA: 1, apis.API_VERSIONS: 0, saslapis.SASL_HANDSHAKE: 0}
    v0100 = _newer(v09, "0.10.0", more, magic=1)
    v0101 = _newer(
        v0100,
        "0.10.1",
        {apis.FETCH: 3, apis.LIST_OFFSETS: 1, apis.METADATA: 2, apis.JOIN_GROUP: 1, adminapis.CREATE_TOPICS: 0},
    )
    v0102 = _newer(v0101, "0.10.2", {apis.OFFSET_FETCH: 2, adminapis.CREATE_TOPICS: 1}, relaxed_roundrobin=True)
    rows = [*_rows_of_07(), v080, v081, v082, v09, v0100, v0101, v0102]
    for release, versions in _SINCE.items():
        rows.append(_newer(rows[-1], release, versions, **_CHANGES.get(release, {})))
    return {row.release: row for row in rows}


# Versions that a release was the first to support, of those with tables here (schemas of Kafka's sources).
_SINCE: Mapping[str, Mapping[apis.Api, int]] = {
    "0.11": {
        apis.PRODUCE: 3,
        apis.FETCH: 5,
        apis.LIST_OFFSETS: 2,
        apis.METADATA: 4,
        apis.OFFSET_COMMIT: 3,
        apis.OFFSET_FETCH: 3,
        apis.GROUP_COORDINATOR: 1,
        apis.JOIN_GROUP: 2,
        **dict.fromkeys((*_GROUPS, apis.API_VERSIONS), 1),
        adminapis.CREATE_TOPICS: 2,
        adminapis.DESCRIBE_CONFIGS: 0,
        **dict.fromkeys(_TRANSACTIONS, 0),
    },
    "1.0": {
        apis.PRODUCE: 5,
        apis.FETCH: 6,
        apis.METADATA: 5,
        saslapis.SASL_HANDSHAKE: 1,
        saslapis.SASL_AUTHENTICATE: 0,
        adminapis.CREATE_PARTITIONS: 0,
    },
    "1.1": {apis.FETCH: 7, adminapis.DESCRIBE_CONFIGS: 1, apis.DELETE_GROUPS: 0},
    "2.0": {
        apis.PRODUCE: 6,
        apis.FETCH: 8,
        apis.LIST_OFFSETS: 3,
        apis.METADATA: 6,
        apis.OFFSET_COMMIT: 4,
        apis.OFFSET_FETCH: 4,
        apis.GROUP_COORDINATOR: 2,
        apis.JOIN_GROUP: 3,
        **dict.fromkeys((*_GROUPS, apis.API_VERSIONS), 2),
        apis.DELETE_GROUPS: 1,
        adminapis.CREATE_TOPICS: 3,
        adminapis.DESCRIBE_CONFIGS: 2,
        adminapis.CREATE_PARTITIONS: 1,
        **dict.fromkeys(_TRANSACTIONS, 1),
    },
    "2.1": {
        apis.PRODUCE: 7,
        apis.FETCH: 10,
        apis.LIST_OFFSETS: 4,
        apis.METADATA: 7,
        apis.OFFSET_COMMIT: 6,
        apis.OFFSET_FETCH: 5,
        transactionapis.TXN_OFFSET_COMMIT: 2,
    },
    "2.2": {apis.LIST_OFFSETS: 5, apis.JOIN_GROUP: 4, saslapis.SASL_AUTHENTICATE: 1},
    "2.3": {
        apis.FETCH: 11,  # only for reading a replica on purpose: consumers use v10, which followers refuse (requests08)
        apis.METADATA: 8,
        apis.OFFSET_COMMIT: 7,
        apis.JOIN_GROUP: 5,
        apis.HEARTBEAT: 3,
        apis.SYNC_GROUP: 3,
    },
    "2.4": {apis.PRODUCE: 8, adminapis.CREATE_TOPICS: 4, apis.OFFSET_DELETE: 0, apis.LIST_GROUPS: 3},
    "2.5": {},
    "2.6": {apis.LIST_GROUPS: 4},
    "2.7": {
        transactionapis.ADD_PARTITIONS_TO_TXN: 2,
        transactionapis.ADD_OFFSETS_TO_TXN: 2,
        transactionapis.END_TXN: 2,
    },
    "2.8": {},
    **{f"3.{minor}": {} for minor in range(8)},
    "3.8": {apis.LIST_GROUPS: 5},
    "3.9": {},
    "4.0": {apis.CONSUMER_GROUP_DESCRIBE: 0},
    "4.1": {apis.SHARE_GROUP_DESCRIBE: 1, apis.SHARE_GROUP_OFFSETS: 0},
    **{f"4.{minor}": {} for minor in range(2, 4)},
}

# Other changes of a release: fields of Dialect.
_CHANGES: Mapping[str, Mapping[str, Any]] = {
    "0.11": {"magic": 2, "measures_whole_set": True, "record_batches": True, "messages": messages_mixed},
    "2.1": {"codecs": frozenset({0, 1, 2, 3, 4})},
    "2.4": {"one_wrapper_per_set": True},
    "2.5": {"stable_offsets": True},
    "4.0": {"formats": frozenset({2}), "zookeeper_offsets": False},
}


def _rows_of_07() -> list[Dialect]:
    """Return the rows of wire-protocol.md 1.8: no acknowledgement, no keys, offsets in bytes."""
    v070 = Dialect(
        release="0.7.0",
        versions=dict.fromkeys((apis.PRODUCE.key, apis.FETCH.key, apis.LIST_OFFSETS.key), 0),
        zookeeper_offsets=False,
        magic=-1,
        formats=frozenset({-2, -1}),
        codecs=frozenset({0, 1}),
        one_wrapper_per_set=False,
        measures_whole_set=False,
        masks_hashes=False,
        strategies=frozenset({"range"}),
        relaxed_roundrobin=False,
        negates_hashes=True,
        record_batches=False,
        stable_offsets=False,
        has_keys=False,
        has_nulls=False,
        measures_payload=True,
        answers_produce=False,
        counts_replicas=False,
        waits_for_data=False,
        describes_itself=False,
        partitions_by_broker=True,
        offsets=BYTE_OFFSETS,
        refuses_by_closing=True,
        messages=messages_v07,
        requests=requests_v07,
        znodes=znodes_v07,
    )
    v071 = replace(v070, release="0.7.1", codecs=frozenset({0, 1, 2}))
    return [v070, v071, replace(v071, release="0.7.2")]


def _newer(older: Dialect, release: str, versions: Mapping[apis.Api, int], **changed: Any) -> Dialect:
    """Return the row of the next release.  The format to write is also one that it stores."""
    if "magic" in changed:
        changed = {"formats": older.formats | {changed["magic"]}, **changed}
    spoken = {**older.versions, **{api.key: version for api, version in versions.items()}}
    return replace(older, **{"release": release, "versions": spoken, **changed})


DIALECTS = _rows()
NEWEST = next(reversed(DIALECTS.values()))  # its versions are the newest that this package uses
