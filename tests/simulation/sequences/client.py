"""A client of a sequence: requests in the versions of the cluster's release, and what matters of their answers.

Every call sends its request at once and returns an Asked; get() waits for the answer.  A client has one connection a
broker, so whatever has to wait beside something else is another client's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from kafkawire.dialects import dialect
from kafkawire.formats import mixed
from kafkawire.formats.v01.write import entries
from kafkawire.formats.v2 import write
from kafkawire.formats.v2.layout import OVERHEAD, under_producer
from kafkawire.model import TopicPartition
from kafkawire.protocol import apis, groupapis, stableoffsets, transactionapis
from kafkawire.protocol.api import Api
from kafkawire.protocol.groupapis import OF_GROUP, OF_TRANSACTION
from kafkawire.protocol.schema import Array, Struct
from tests.simulation.sequences.cluster import Cluster, Connection, Fields, Gone, Speech, Waiting
from tests.simulation.sequences.sequence import until
from tests.simulation.sequences.tables import DELETE_RECORDS

T = TypeVar("T")

END, START = -1, -2  # timestamps of ListOffsets
CONSUMER_FETCH = 10  # newer ones are answered by followers, too
TRANSACTIONAL = 1 << 4
_NOT_YET = (14, 15, 16)  # codes of a coordinator that loads, or does not know yet that it is one
_CLOSING = (ConnectionError, TimeoutError)


class Produced(NamedTuple):
    code: int
    base: int


class Fetched(NamedTuple):
    """values: (offset, value) of the messages from the asked offset on; size: bytes of the set."""

    code: int
    high_watermark: int
    size: int
    first_base: int  # base offset of the first batch or entry; -1: none
    values: list[tuple[int, bytes]]


class Offset(NamedTuple):
    code: int
    offset: int


class Joined(NamedTuple):
    code: int
    generation: int
    member: str
    leader: str
    members: list[str]


class Producer(NamedTuple):
    code: int
    id: int
    epoch: int


class Described(NamedTuple):
    state: str
    members: list[str]


@dataclass
class Asked(Generic[T]):
    """A request that was sent."""

    waiting: Waiting
    read: Callable[[Any], T]

    def get(self, within_s: float = 30.0) -> T:
        """What the answer says; Gone in its place without one."""
        answer = self.waiting.answer(within_s)
        return answer if isinstance(answer, Gone) else self.read(answer)  # type: ignore[return-value]

    @property
    def took_s(self) -> float:
        return self.waiting.took_s


class _Refused:
    """The request to a broker that is down."""

    took_s = 0.0

    def answer(self, within_s: float) -> Any:
        return Gone.CLOSED


class _StableFetch:
    """OffsetFetch v7, whose encoding is flexible, for one partition."""

    key = apis.OFFSET_FETCH.key

    def encode_request(self, version: int, fields: Fields) -> bytes:
        return stableoffsets.StableOffsetFetch(fields["group"], fields["tp"])._body()

    def decode_reply(self, version: int, data: bytes) -> Any:
        return stableoffsets.decode(data)


class Client:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.speaks = dialect(cluster.release)
        self._connections: dict[int, Connection] = {}

    def ask(
        self, broker: int | None, api: Speech, fields: Fields, version: int | None = None, reconnect: bool = True
    ) -> Waiting:
        """Send a request in the newest version that the release and our tables have.  fields: of all versions; those
        that this one lacks are left out.  broker: None: the first."""
        newest = self.speaks.speaks(api.key) if version is None else version
        fitting = _fit(api.request, fields, newest) if isinstance(api, Api) else fields
        broker = self.cluster.brokers[0] if broker is None else broker
        connection = self._connections.get(broker)
        if connection is None or (reconnect and connection.closed):
            try:
                connection = self._connections[broker] = self.cluster.connect(broker)
            except _CLOSING:
                return _Refused()
        return connection.begin(api, newest, fitting)

    def leader(self, topic: str, partition: int = 0) -> int:
        found = until(self.cluster, lambda: [self.cluster.leader_of(topic, partition)] != [None])
        leader = self.cluster.leader_of(topic, partition)
        assert found, f"{topic}/{partition} has no leader"
        assert leader is not None
        return leader

    # ---- logs

    def produce(
        self,
        topic: str,
        data: bytes,
        *,
        partition: int = 0,
        acks: int = 1,
        timeout_ms: int = 10_000,
        broker: int | None = None,
        transaction: str | None = None,
    ) -> Asked[Produced]:
        fields = {
            "transactional_id": transaction,
            "acks": acks,
            "timeout_ms": timeout_ms,
            "topics": [{"topic": topic, "partitions": [{"partition": partition, "message_set": data}]}],
        }
        waiting = self.ask(self.leader(topic, partition) if broker is None else broker, apis.PRODUCE, fields)
        return Asked(waiting, lambda told: Produced(_only(told)["error"], _only(told)["base_offset"]))

    def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        wait_ms: int = 0,
        broker: int | None = None,
        version: int | None = None,
        committed: bool = False,
    ) -> Asked[Fetched]:
        at = self.leader(topic, partition) if broker is None else broker
        asked = self.fetch_many(
            {(topic, partition): offset}, wait_ms=wait_ms, broker=at, version=version, committed=committed
        )
        return Asked(asked.waiting, lambda told: asked.read(told)[topic, partition])

    def fetch_many(
        self,
        offsets: Mapping[tuple[str, int], int],
        *,
        broker: int,
        wait_ms: int = 0,
        max_bytes: int = 1 << 20,
        version: int | None = None,
        committed: bool = False,
    ) -> Asked[dict[tuple[str, int], Fetched]]:
        names = list(dict.fromkeys(topic for topic, _ in offsets))
        row = {"current_leader_epoch": -1, "log_start_offset": -1, "max_bytes": max_bytes}
        fields = {
            "replica_id": -1,
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": 50 << 20,
            "isolation_level": apis.READ_COMMITTED if committed else apis.READ_UNCOMMITTED,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [
                {
                    "topic": name,
                    "partitions": [
                        {"partition": partition, "fetch_offset": offset, **row}
                        for (topic, partition), offset in offsets.items()
                        if topic == name
                    ],
                }
                for name in names
            ],
            "forgotten_topics": [],
            "rack_id": "",
        }
        spoken = version if version is not None else min(self.speaks.speaks(apis.FETCH.key), CONSUMER_FETCH)

        def read(told: Any) -> dict[tuple[str, int], Fetched]:
            return {
                (topic["topic"], row["partition"]): _fetched(row, offsets[topic["topic"], row["partition"]])
                for topic in told["topics"]
                for row in topic["partitions"]
            }

        return Asked(self.ask(broker, apis.FETCH, fields, spoken), read)

    def offset(
        self, topic: str, timestamp: int, *, partition: int = 0, broker: int | None = None, version: int | None = None
    ) -> Asked[Offset]:
        """ListOffsets."""
        spoken = self.speaks.speaks(apis.LIST_OFFSETS.key) if version is None else version
        row = {"partition": partition, "current_leader_epoch": -1, "time": timestamp, "max_offsets": 1}
        fields = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"topic": topic, "partitions": [{**row, "timestamp": timestamp}]}],
        }

        def read(told: Any) -> Offset:
            row = _only(told)
            return Offset(row["error"], row["offset"] if spoken else (row["offsets"] or [-1])[0])

        at = self.leader(topic, partition) if broker is None else broker
        return Asked(self.ask(at, apis.LIST_OFFSETS, fields, spoken), read)

    def delete_records(self, topic: str, before: int) -> Asked[int]:
        """Code; of partition 0."""
        rows = [{"topic": topic, "partitions": [{"partition": 0, "offset": before}]}]
        waiting = self.ask(self.leader(topic), DELETE_RECORDS, {"topics": rows, "timeout_ms": 10_000}, 0)
        return Asked(waiting, lambda told: _only(told)["error"])

    def metadata(self, topic: str, broker: int | None = None, reconnect: bool = True) -> Asked[Any]:
        """The topic's row, as the release describes it."""
        more = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
        fields = {"topics": [topic], "allow_auto_topic_creation": True, **more}
        return Asked(self.ask(broker, apis.METADATA, fields, None, reconnect), lambda told: told["topics"][0])

    # ---- groups

    def coordinator_now(
        self, key: str, *, transaction: bool = False, broker: int | None = None
    ) -> Asked[tuple[int, int]]:
        """Code and node."""
        fields = {"group": key, "key_type": OF_TRANSACTION if transaction else OF_GROUP}
        return Asked(
            self.ask(broker, groupapis.GROUP_COORDINATOR, fields),
            lambda told: (told["error"], told["coordinator"]["node_id"]),
        )

    def coordinator(
        self, key: str, *, transaction: bool = False, brokers: Sequence[int] = (), other_than: int = -1
    ) -> int:
        """Wait until one of the brokers names a coordinator that is not `other_than`, and that one has loaded."""
        asked = list(brokers) or list(self.cluster.brokers)

        def found() -> list[int]:
            for broker in asked:
                told = self.coordinator_now(key, transaction=transaction, broker=broker).get(5)
                if isinstance(told, Gone) or told[0] or told[1] == other_than:
                    continue
                loaded = None if transaction else self.committed(told[1], key, "none").get(5)
                if loaded is None or (not isinstance(loaded, Gone) and loaded.code not in _NOT_YET):
                    return [told[1]]
            return []

        nodes = until(self.cluster, found, 60)
        assert nodes, f"no coordinator of {key}"
        return nodes[0]

    def commit(
        self,
        at: int,
        group: str,
        offsets: Mapping[tuple[str, int], int] | Mapping[tuple[str, int], tuple[int, str]],
        *,
        generation: int = -1,
        member: str = "",
        instance: str | None = None,
        version: int | None = None,
    ) -> Asked[dict[tuple[str, int], int]]:
        """Codes by partition."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for (topic, partition), value in offsets.items():
            offset, metadata = value if isinstance(value, tuple) else (value, "")
            row = {"partition": partition, "offset": offset, "timestamp": -1, "leader_epoch": -1, "metadata": metadata}
            rows.setdefault(topic, []).append(row)
        fields = {
            "group": group,
            "generation": generation,
            "member_id": member,
            "group_instance_id": instance,
            "retention_ms": -1,
            "topics": [{"topic": topic, "partitions": partitions} for topic, partitions in rows.items()],
        }
        return Asked(self.ask(at, apis.OFFSET_COMMIT, fields, version), _codes)

    def committed(
        self, at: int, group: str, topic: str, partition: int = 0, version: int | None = None
    ) -> Asked[Offset]:
        """Code and offset; -1: none."""
        fields = {"group": group, "topics": [{"topic": topic, "partitions": [partition]}]}

        def read(told: Any) -> Offset:
            error = told.get("error", 0)
            return Offset(_only(told)["error"] or error, _only(told)["offset"]) if told["topics"] else Offset(error, -1)

        return Asked(self.ask(at, apis.OFFSET_FETCH, fields, version), read)

    def stable(self, at: int, group: str, topic: str, partition: int = 0) -> Asked[Offset]:
        """OffsetFetch v7 with require_stable."""
        tp = TopicPartition(topic, partition)
        waiting = self.ask(at, _StableFetch(), {"group": group, "tp": tp}, stableoffsets.VERSION)

        def read(told: stableoffsets.StableOffsets) -> Offset:
            row = told.partitions.get(tp)
            return Offset(told.error, -1) if row is None else Offset(row.error or told.error, row.offset)

        return Asked(waiting, read)

    def join(
        self,
        at: int,
        group: str,
        member: str = "",
        *,
        session_s: float = 6,
        rebalance_s: float = 10,
        instance: str | None = None,
        version: int | None = None,
    ) -> Asked[Joined]:
        """JoinGroup, by default v3 at most: v4 sends a new member away first, to return with an id."""
        newest = self.speaks.speaks(groupapis.JOIN_GROUP.key)
        fields = {
            "group": group,
            "session_timeout": int(session_s * 1000),
            "rebalance_timeout": int(rebalance_s * 1000),
            "member_id": member,
            "group_instance_id": instance,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": _SUBSCRIPTION}],
        }
        return Asked(
            self.ask(at, groupapis.JOIN_GROUP, fields, min(newest, 3) if version is None else version),
            lambda told: Joined(
                told["error"],
                told["generation"],
                told["member_id"],
                told["leader_id"],
                [row["member_id"] for row in told["members"]],
            ),
        )

    def sync(
        self, at: int, group: str, joined: Joined, assignments: Iterable[str] = (), instance: str | None = None
    ) -> Asked[int]:
        """Code.  assignments: members that the leader assigns something to."""
        fields = {
            "group": group,
            "generation": joined.generation,
            "member_id": joined.member,
            "group_instance_id": instance,
            "assignments": [{"member_id": member, "assignment": _ASSIGNMENT} for member in assignments],
        }
        return Asked(self.ask(at, groupapis.SYNC_GROUP, fields), _code)

    def heartbeat(self, at: int, group: str, generation: int, member: str, instance: str | None = None) -> Asked[int]:
        fields = {"group": group, "generation": generation, "member_id": member, "group_instance_id": instance}
        return Asked(self.ask(at, groupapis.HEARTBEAT, fields), _code)

    def leave(self, at: int, group: str, member: str) -> Asked[int]:
        return Asked(self.ask(at, groupapis.LEAVE_GROUP, {"group": group, "member_id": member}), _code)

    def described(self, at: int, group: str) -> Asked[Described]:
        return Asked(
            self.ask(at, groupapis.DESCRIBE_GROUPS, {"groups": [group]}),
            lambda told: Described(
                told["groups"][0]["state"], sorted(row["member_id"] for row in told["groups"][0]["members"])
            ),
        )

    # ---- transactions

    def init_producer(
        self, at: int | None, transaction: str | None = None, timeout_ms: int = 60_000
    ) -> Asked[Producer]:
        fields = {"transactional_id": transaction, "transaction_timeout_ms": timeout_ms}
        return Asked(
            self.ask(at, transactionapis.INIT_PRODUCER_ID, fields),
            lambda told: Producer(told["error"], told["producer_id"], told["producer_epoch"]),
        )

    def add_partitions(
        self, at: int, transaction: str, producer: Producer, partitions: Iterable[tuple[str, int]]
    ) -> Asked[dict[tuple[str, int], int]]:
        rows: dict[str, list[int]] = {}
        for topic, partition in partitions:
            rows.setdefault(topic, []).append(partition)
        fields = {
            **_of(transaction, producer),
            "topics": [{"topic": topic, "partitions": numbers} for topic, numbers in rows.items()],
        }
        return Asked(self.ask(at, transactionapis.ADD_PARTITIONS_TO_TXN, fields), _codes)

    def add_offsets(self, at: int, transaction: str, producer: Producer, group: str) -> Asked[int]:
        fields = {**_of(transaction, producer), "group": group}
        return Asked(self.ask(at, transactionapis.ADD_OFFSETS_TO_TXN, fields), _code)

    def commit_in(
        self, at: int, transaction: str, producer: Producer, group: str, topic: str, offset: int
    ) -> Asked[dict[tuple[str, int], int]]:
        """TxnOffsetCommit of partition 0."""
        row = {"partition": 0, "offset": offset, "leader_epoch": -1, "metadata": ""}
        fields = {
            **_of(transaction, producer),
            "group": group,
            "topics": [{"topic": topic, "partitions": [row]}],
        }
        return Asked(self.ask(at, transactionapis.TXN_OFFSET_COMMIT, fields), _codes)

    def end(self, at: int, transaction: str, producer: Producer, *, commit: bool) -> Asked[int]:
        fields = {**_of(transaction, producer), "commit": commit}
        return Asked(self.ask(at, transactionapis.END_TXN, fields), _code)


# ---- what is sent

_SUBSCRIPTION = struct.pack(">hih1si", 0, 1, 1, b"t", 0)
_ASSIGNMENT = struct.pack(">hih1siii", 0, 1, 1, b"t", 1, 0, 0)


def messages(c: Cluster, *values: bytes, time_ms: int = -1) -> bytes:
    """Plain messages in the format of the release."""
    magic = dialect(c.release).magic
    rows = [(n, None, value, time_ms) for n, value in enumerate(values)]
    return write.encode(rows) if magic == 2 else entries(rows, magic)


def numbered(producer: Producer, sequence: int, *values: bytes, transactional: bool = False) -> bytes:
    """A batch of an idempotent or transactional producer."""
    plain = write.encode([(n, None, value, -1) for n, value in enumerate(values)])
    view = memoryview(plain)
    attributes = TRANSACTIONAL if transactional else 0
    return under_producer(view, view[OVERHEAD:], attributes, (producer.id, producer.epoch, sequence)) + plain[OVERHEAD:]


def _of(transaction: str, producer: Producer) -> dict[str, Any]:
    return {"transactional_id": transaction, "producer_id": producer.id, "producer_epoch": producer.epoch}


def _fit(table: Struct, fields: Fields, version: int) -> dict[str, Any]:
    """The fields that a version has."""
    found: dict[str, Any] = {}
    for name, kind in table.fields(version):
        value = fields[name]
        if isinstance(kind, Array) and isinstance(kind.of, Struct) and value is not None:
            value = [_fit(kind.of, each, version) for each in value]
        found[name] = value
    return found


# ---- what is read


def _code(told: Any) -> int:
    return int(told["error"])


def _codes(told: Any) -> dict[tuple[str, int], int]:
    return {(each["topic"], row["partition"]): row["error"] for each in told["topics"] for row in each["partitions"]}


def _only(told: Any) -> Any:
    return told["topics"][0]["partitions"][0]


def _fetched(row: Any, offset: int) -> Fetched:
    data = memoryview(bytes(row["message_set"] or b""))
    aborted = [(each["producer_id"], each["first_offset"]) for each in row.get("aborted") or ()]
    found, scan = mixed.message_set("t", 0, offset, data, None, aborted)
    values = [(each.offset, bytes(each.value or b"")) for each in found.messages()] if scan.runs else []
    first = struct.unpack_from(">q", data)[0] if scan.runs else -1
    return Fetched(row["error"], row["high_watermark"], len(data), first, values)
