"""A fake Kafka 0.10.1 cluster whose brokers coordinate groups, and hang when a test says so: real bytes, plain threads.

    speaks       Metadata v2, GroupCoordinator v0, JoinGroup v1, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups v0,
                 OffsetCommit v2, OffsetFetch v1, ListOffsets v1, Fetch v3 (of logs that are empty), ApiVersions
    does         one coordinator for all groups, 16 from the others; a generation a JoinGroup, of one member
    leaves out   waiting for other members, sessions that end, messages

with GroupCluster({"t": 2}, brokers=2) as cluster:
    cluster.hang(1); cluster.wake(1)        it takes connections and requests, and answers nothing; it answers again
    cluster.hang(1, api="OffsetCommit")     the same of one api
    cluster.beside["x"] = b"\xff"            another member, by its id, with the bytes of its subscription
    cluster.coordinator = 2                 another coordinator, which knows the group
    cluster.zombies.add(1)                  it coordinates no more and does not know it: heartbeats 0, commits 7
    cluster.says[3] = 1                     whom broker 3 names as coordinator, whoever it is
    cluster.asked                           (broker, name of the api) of each request, in order of arrival
"""

from __future__ import annotations

import socket
import struct
import threading
from typing import Any

from kafkawire.protocol import adminapis, apis, groupapis
from kafkawire.protocol.api import Api
from tests.fakes.actions import WAIT_S
from tests.fakes.server import Server

Fields = dict[str, Any]


class GroupCluster:
    def __init__(self, topics: dict[str, int], brokers: int = 2) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.topics = topics
        self.errors: list[BaseException] = []
        self.asked: list[tuple[int, str]] = []
        self.coordinator = 1
        self.says: dict[int, int] = {}
        self.zombies: set[int] = set()
        self.generation = 0
        self.members: dict[str, Fields] = {}  # by member id: its row in JoinGroup's answer
        self.assigned: dict[str, bytes] = {}
        self.beside: dict[str, bytes] = {}
        self.committed: dict[tuple[str, int], int] = {}
        self._hanging: set[tuple[int, str]] = set()  # broker, api; "": every one
        self._ids = 0
        self._servers = {broker: _Broker(self, broker) for broker in range(1, brokers + 1)}

    def __enter__(self) -> GroupCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.wake(*self._servers)
        for server in self._servers.values():
            server.close()
        if self.errors:
            raise self.errors[0]

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        return {broker: ("127.0.0.1", server.port) for broker, server in self._servers.items()}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses.values())

    def hang(self, *brokers: int, api: str = "") -> None:
        with self.lock:
            self._hanging.update((broker, api) for broker in brokers)

    def wake(self, *brokers: int) -> None:
        with self.changed:
            self._hanging = {one for one in self._hanging if one[0] not in brokers}
            self.changed.notify_all()

    def _answers(self, broker: int, api: Api) -> bool:
        return not self._hanging & {(broker, ""), (broker, api.name)} or self._servers[broker].closed

    def count(self, broker: int, api: str) -> int:
        with self.lock:
            return self.asked.count((broker, api))

    def wait(self, condition: Any, seconds: float = WAIT_S) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, seconds), f"not within {seconds} s; asked: {self.asked[-8:]}"

    def answer(self, broker: int, api: Api, version: int, body: Fields) -> bytes:
        """The body of an answer, once the broker does not hang (any more)."""
        with self.changed:
            self.asked.append((broker, api.name))
            self.changed.notify_all()
            self.changed.wait_for(lambda: self._answers(broker, api))
            return api.encode_reply(version, getattr(self, f"_{api.name}")(broker, body))

    # one api each -------------------------------------------------------------------------------------------------

    def _Metadata(self, broker: int, body: Fields) -> Fields:
        rows = [{"node_id": b, "host": h, "port": p, "rack": None} for b, (h, p) in self.addresses.items()]
        ids = list(self._servers)
        topics = [
            {
                "error": 0,
                "topic": topic,
                "is_internal": False,
                "partitions": [
                    {"error": 0, "partition": p, "leader": ids[-1], "replicas": ids, "isr": ids} for p in range(count)
                ],
            }
            for topic, count in self.topics.items()
        ]
        return {"brokers": rows, "cluster_id": "c", "controller_id": 1, "topics": topics}

    def _GroupCoordinator(self, broker: int, body: Fields) -> Fields:
        who = self.says.get(broker, self.coordinator)
        host, port = self.addresses[who]
        return {"error": 0, "coordinator": {"node_id": who, "host": host, "port": port}}

    def _JoinGroup(self, broker: int, body: Fields) -> Fields:
        member_id = body["member_id"]
        if broker != self.coordinator:
            return {"error": 16, "generation": -1, "protocol": "", "leader_id": "", "member_id": "", "members": []}
        if not member_id:
            self._ids += 1
            member_id = f"m{self._ids}"
        (protocol,) = body["protocols"]
        self.generation += 1
        self.members = {member_id: {"member_id": member_id, "metadata": bytes(protocol["metadata"])}}
        return {
            "error": 0,
            "generation": self.generation,
            "protocol": protocol["name"],
            "leader_id": member_id,
            "member_id": member_id,
            "members": [*self.members.values(), *({"member_id": m, "metadata": b} for m, b in self.beside.items())],
        }

    def _SyncGroup(self, broker: int, body: Fields) -> Fields:
        if code := self._refused(broker, body):
            return {"error": code, "assignment": b""}
        self.assigned = {row["member_id"]: bytes(row["assignment"]) for row in body["assignments"]}
        return {"error": 0, "assignment": self.assigned[body["member_id"]]}

    def _Heartbeat(self, broker: int, body: Fields) -> Fields:
        return {"error": self._refused(broker, body)}

    def _LeaveGroup(self, broker: int, body: Fields) -> Fields:
        if broker != self.coordinator:
            return {"error": 16}
        return {"error": 0 if self.members.pop(body["member_id"], None) else 25}

    def _DescribeGroups(self, broker: int, body: Fields) -> Fields:
        members = [
            {**row, "client_id": "c", "client_host": "h", "assignment": self.assigned.get(name, b"")}
            for name, row in {**self.members, **{m: {"member_id": m, "metadata": b""} for m in self.beside}}.items()
        ]
        shown = {"state": "Stable", "protocol_type": "consumer", "protocol": "range", "members": members}
        refused = {"state": "", "protocol_type": "", "protocol": "", "members": []}
        ours = broker == self.coordinator
        (group,) = body["groups"]
        return {"groups": [{"error": 0 if ours else 16, "group": group, **(shown if ours else refused)}]}

    def _OffsetFetch(self, broker: int, body: Fields) -> Fields:
        code = 0 if broker == self.coordinator else 16
        topics = [
            {
                "topic": row["topic"],
                "partitions": [
                    {"partition": p, "offset": self.committed.get((row["topic"], p), -1), "metadata": "", "error": code}
                    for p in row["partitions"]
                ],
            }
            for row in self._asked(body["topics"])
        ]
        return {"topics": topics} | ({"error": code} if body["topics"] is None else {})

    def _asked(self, topics: list[Fields] | None) -> list[Fields]:
        """The partitions that an OffsetFetch names; None: all that have an offset (version 2)."""
        if topics is not None:
            return topics
        return [{"topic": topic, "partitions": [partition]} for topic, partition in self.committed]

    def _OffsetCommit(self, broker: int, body: Fields) -> Fields:
        code = 7 if broker in self.zombies else self._refused(broker, body)
        rows = []
        for topic in body["topics"]:
            for row in topic["partitions"] if not code else ():
                self.committed[topic["topic"], row["partition"]] = row["offset"]
            told = [{"partition": row["partition"], "error": code} for row in topic["partitions"]]
            rows.append({"topic": topic["topic"], "partitions": told})
        return {"topics": rows}

    def _ListOffsets(self, broker: int, body: Fields) -> Fields:
        row = {"error": 0, "timestamp": -1, "offset": 0}
        return {"topics": [_each(topic, row) for topic in body["topics"]]}

    def _ApiVersions(self, broker: int, body: Fields) -> Fields:
        return {"error": 0, "api_versions": [(groupapis.OFFSET_FETCH.key, 0, 2)]}

    def _Fetch(self, broker: int, body: Fields) -> Fields:
        self.changed.wait(body["max_wait_ms"] / 1000)
        row = {"error": 0, "high_watermark": 0, "message_set": b""}
        return {"throttle_time_ms": 0, "topics": [_each(topic, row) for topic in body["topics"]]}

    def _refused(self, broker: int, body: Fields) -> int:
        if broker in self.zombies:
            return 0
        if broker != self.coordinator:
            return 16
        if body["member_id"] not in self.members:
            return 25
        return 0 if body["generation"] == self.generation else 22


def _each(topic: Fields, row: Fields) -> Fields:
    return {
        "topic": topic["topic"],
        "partitions": [{"partition": asked["partition"], **row} for asked in topic["partitions"]],
    }


OTHERS = (groupapis.GROUP_COORDINATOR, adminapis.DESCRIBE_CONFIGS)
APIS = {api.key: api for api in apis.APIS.values()} | {api.key: api for api in OTHERS}


class _Broker(Server):
    """One broker of the cluster."""

    def __init__(self, cluster: Any, broker: int) -> None:
        super().__init__(cluster, broker, 0)

    def _answer(self, connection: socket.socket, frame: bytes) -> bool:
        key, version, correlation, name = struct.unpack_from(">hhih", frame)
        api = APIS[key]
        body = api.decode_request(version, memoryview(frame)[10 + max(0, name) :])
        cluster: Any = self.cluster
        reply = cluster.answer(self.broker, api, version, body)
        connection.sendall(struct.pack(">ii", 4 + len(reply), correlation) + reply)
        return True
