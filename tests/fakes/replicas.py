"""A fake Kafka 2.8 cluster whose brokers have a log each, as leaders and as followers: real bytes, plain threads.

    speaks       ApiVersions, Metadata, Fetch, ListOffsets and DescribeConfigs in every version of our tables
    does         a follower refuses Fetch up to v10 with 6, and answers v11 from its own log with error 0
                 (ReplicaManager.fetchMessages of 2.8.2: fetchOnlyFromLeader; broker-model-log.md 3.1)
                 Fetch below v3 brings nothing of a batch that is larger than max_bytes, as of 3.x; it converts nothing
                 v11 at a leader that has a replica selector: no data, error 0, and another replica's id (3.4)
    leaves out   replication: what a broker has is what a test appends to it; offsets of groups; writing

with ReplicaCluster({"t": 2}, brokers=2) as cluster:
    cluster.append("t", 0, count=10)            ten messages, to the logs of all brokers
    cluster.append("t", 0, count=5, on=[2])     five more that only broker 2 has
    cluster.move("t", 0, 2)                     another leader, in the next leader epoch; no connection breaks
    cluster.deluded.add(1)                      broker 1 leads on in its own eyes, and tells so
    cluster.prefers = 2                         v11 at a leader is sent to replica 2
    cluster.withheld.add(("t", 0))              fetches bring nothing, whatever the log holds
    cluster.settings["t"] = {...}               what the topic has set for itself
    cluster.seen("Fetch")                       (broker, version, body) of each request, in order of arrival
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Collection
from typing import Any

from kafkawire.formats.v2.layout import batch_at
from kafkawire.protocol import apis
from kafkawire.protocol.adminapis import DESCRIBE_CONFIGS
from kafkawire.protocol.api import Api
from kafkawire.protocol.schema import Array, Struct
from tests.fakes.actions import WAIT_S
from tests.fakes.server import Server
from tests.kafkawire.recordbatches import batch, rows_of

Fields = dict[str, Any]
SPOKEN = (apis.PRODUCE, apis.FETCH, apis.LIST_OFFSETS, apis.METADATA, apis.API_VERSIONS, DESCRIBE_CONFIGS)
OUT_OF_RANGE, UNKNOWN, NOT_LEADER = 1, 3, 6


class ReplicaCluster:
    def __init__(self, topics: dict[str, int], brokers: int = 2) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.topics = topics
        self.errors: list[BaseException] = []
        self.requests: list[tuple[int, str, int, Fields]] = []
        self.leaders = {(topic, p): (1, 0) for topic, count in topics.items() for p in range(count)}
        self.logs: dict[tuple[int, str, int], list[bytes]] = {
            (broker, *tp): [] for broker in range(1, brokers + 1) for tp in self.leaders
        }
        self.deluded: set[int] = set()
        self.prefers: int | None = None
        self.withheld: set[tuple[str, int]] = set()
        self.settings: dict[str, dict[str, str] | int] = {}  # a number: the error that is answered instead
        self.cleanup_policy = "delete"  # of topics that set none
        self._former: dict[tuple[str, int], tuple[int, int]] = {}  # the leader before, with its epoch
        self._servers = {broker: _Broker(self, broker) for broker in range(1, brokers + 1)}

    def __enter__(self) -> ReplicaCluster:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.close()
        if self.errors:
            raise self.errors[0]

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", server.port) for server in self._servers.values()]

    def append(
        self, topic: str, partition: int, count: int, on: Collection[int] | None = None, value: bytes = b"value"
    ) -> None:
        with self.changed:
            for broker in self._servers if on is None else on:
                log = self.logs[broker, topic, partition]
                log.append(batch(rows_of(self.end(broker, topic, partition), count, value), producer=-1))
            self.changed.notify_all()

    def end(self, broker: int, topic: str, partition: int) -> int:
        log = self.logs[broker, topic, partition]
        head = batch_at(log[-1], 0) if log else None
        return 0 if head is None else head.resume_at

    def move(self, topic: str, partition: int, leader: int) -> None:
        with self.changed:
            self._former[topic, partition] = before = self.leaders[topic, partition]
            self.leaders[topic, partition] = leader, before[1] + 1
            self.changed.notify_all()

    def seen(self, api: str, broker: int | None = None) -> list[tuple[int, int, Fields]]:
        with self.lock:
            asked = [(at, version, body) for at, name, version, body in self.requests if name == api]
        return [one for one in asked if broker is None or one[0] == broker]

    def wait(self, condition: Any, seconds: float = WAIT_S) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, seconds), f"not within {seconds} s; asked: {self.requests[-5:]}"

    def leader_of(self, tp: tuple[str, int], by: int) -> tuple[int, int]:
        """The leader of a partition and its epoch, as a broker knows them."""
        former = self._former.get(tp)
        return former if former is not None and by in self.deluded else self.leaders[tp]

    def answer(self, broker: int, api: Api, version: int, body: Fields) -> bytes:
        with self.changed:
            self.requests.append((broker, api.name, version, body))
            self.changed.notify_all()
            return api.encode_reply(
                version, _of(api.reply, version, getattr(self, f"_{api.name}")(broker, version, body))
            )

    # one api each -------------------------------------------------------------------------------------------------

    def _ApiVersions(self, broker: int, version: int, body: Fields) -> Fields:
        return {"error": 0, "api_versions": [(api.key, 0, api.newest) for api in SPOKEN], "throttle_time_ms": 0}

    def _Metadata(self, broker: int, version: int, body: Fields) -> Fields:
        ids = list(self._servers)
        rows = [{"node_id": n, "host": "127.0.0.1", "port": s.port, "rack": None} for n, s in self._servers.items()]

        def partition(topic: str, number: int) -> Fields:
            leader, epoch = self.leader_of((topic, number), broker)
            led = {"leader": leader, "leader_epoch": epoch, "replicas": ids, "isr": ids, "offline_replicas": []}
            return {"error": 0, "partition": number, **led}

        wanted = None if version == 0 and not body["topics"] else body["topics"]
        topics = [
            {
                "error": 0,
                "topic": topic,
                "is_internal": False,
                "partitions": [partition(topic, number) for number in range(count)],
                "authorized_operations": 0,
            }
            for topic, count in self.topics.items()
            if wanted is None or topic in wanted
        ]
        more = {"throttle_time_ms": 0, "cluster_id": "c", "controller_id": 1, "authorized_operations": 0}
        return {"brokers": rows, "topics": topics, **more}

    def _Fetch(self, broker: int, version: int, body: Fields) -> Fields:
        until = time.monotonic() + body["max_wait_ms"] / 1000
        while True:
            answered = [
                {
                    "topic": topic["topic"],
                    "partitions": [self._fetched(broker, version, topic["topic"], row) for row in topic["partitions"]],
                }
                for topic in body["topics"]
            ]
            rows = [row for topic in answered for row in topic["partitions"]]
            if any(row["error"] or row["message_set"] for row in rows) or (left := until - time.monotonic()) <= 0:
                return {"throttle_time_ms": 0, "error": 0, "session_id": 0, "topics": answered}
            self.changed.wait(left)

    def _fetched(self, broker: int, version: int, topic: str, asked: Fields) -> Fields:
        tp = topic, asked["partition"]
        row = {
            "partition": asked["partition"], "error": 0, "high_watermark": -1, "last_stable_offset": -1,
            "log_start_offset": 0, "aborted": None, "preferred_read_replica": -1, "message_set": b"",
        }  # fmt: skip
        if tp not in self.leaders:
            return {**row, "error": UNKNOWN}
        leads = self.leader_of(tp, broker)[0] == broker
        if not leads and version < 11:
            return {**row, "error": NOT_LEADER}
        log, end, at = self.logs[broker, *tp], self.end(broker, *tp), asked["fetch_offset"]
        if not 0 <= at <= end:
            return {**row, "error": OUT_OF_RANGE}
        row |= {"high_watermark": end, "last_stable_offset": end}
        if leads and version >= 11 and self.prefers is not None:
            return {**row, "preferred_read_replica": self.prefers}
        if tp in self.withheld:
            return row
        heads = ((data, batch_at(data, 0)) for data in log)
        found = next((data for data, head in heads if head is not None and head.last_offset >= at), b"")
        if version < 3 and len(found) > asked["max_bytes"]:
            return row
        return {**row, "message_set": found}

    def _ListOffsets(self, broker: int, version: int, body: Fields) -> Fields:
        def row(topic: str, asked: Fields) -> Fields:
            tp = topic, asked["partition"]
            when = asked["time" if version == 0 else "timestamp"]
            code = 0 if self.leader_of(tp, broker)[0] == broker else NOT_LEADER
            at = -1 if code else 0 if when == -2 else self.end(broker, *tp)
            told = {"offsets": [] if code else [at], "timestamp": -1, "offset": at, "leader_epoch": -1}
            return {"partition": asked["partition"], "error": code, **told}

        topics = [
            {"topic": topic["topic"], "partitions": [row(topic["topic"], asked) for asked in topic["partitions"]]}
            for topic in body["topics"]
        ]
        return {"throttle_time_ms": 0, "topics": topics}

    def _DescribeConfigs(self, broker: int, version: int, body: Fields) -> Fields:
        def row(topic: str) -> Fields:
            settings = self.settings.get(topic, {})
            code = settings if isinstance(settings, int) else 0
            more = {"read_only": False, "is_sensitive": False, "synonyms": []}
            own = settings if isinstance(settings, dict) else {}
            configs = [
                {"name": key, "value": value, "is_default": False, "source": 1, **more} for key, value in own.items()
            ]
            if (name := "cleanup.policy") not in own:
                configs.append({"name": name, "value": self.cleanup_policy, "is_default": True, "source": 5, **more})
            return {
                "error": code,
                "error_message": None,
                "resource_type": 2,
                "name": topic,
                "configs": [] if code else configs,
            }

        return {"throttle_time_ms": 0, "resources": [row(asked["name"]) for asked in body["resources"]]}


def _of(table: Any, version: int, value: Any) -> Any:
    """A value without the fields that this version of its table does not have."""
    if isinstance(table, Array):
        return None if value is None else [_of(table.of, version, one) for one in value]
    if isinstance(table, Struct):
        return {name: _of(kind, version, value[name]) for name, kind in table.fields(version)}
    return value


class _Broker(Server):
    """One broker of the cluster."""

    def __init__(self, cluster: Any, broker: int) -> None:
        super().__init__(cluster, broker, 0)

    def _answer(self, connection: socket.socket, frame: bytes) -> bool:
        key, version, correlation, name = struct.unpack_from(">hhih", frame)
        api = next(one for one in SPOKEN if one.key == key)
        body = api.decode_request(version, memoryview(frame)[10 + max(0, name) :])
        cluster: Any = self.cluster
        reply = cluster.answer(self.broker, api, version, body)
        connection.sendall(struct.pack(">ii", 4 + len(reply), correlation) + reply)
        return True
