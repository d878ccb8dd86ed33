"""A client of simulated brokers: one connection, real frames, answers as they come."""

from __future__ import annotations

import struct
from typing import Any

from kafkawire.protocol import apis
from kafkawire.protocol.api import Api
from tests.fakes.entries import entry
from tests.kafkawire.recordbatches import batch, rows_of
from tests.simulation.brokers import SimCluster
from tests.simulation.brokers.entries import opened, stored

Tp = tuple[str, int]
T: Tp = ("t", 0)
READS_BATCHES = 4  # Fetch: the first version that 4.x takes


class Client:
    """One connection to a broker.  came: when each request was answered, and with what."""

    def __init__(self, cluster: SimCluster, broker: int = 1, torn: int = 0) -> None:
        """torn: its bytes arrive in pieces of that size."""
        self.cluster = cluster
        self._torn = torn
        self.open = True
        self.came: dict[int, tuple[float, Any]] = {}
        self._asked: dict[int, tuple[Api, int]] = {}
        self._peer = cluster.open(broker, self)

    def send(self, data: bytes) -> None:
        (correlation,) = struct.unpack_from(">i", data, 4)
        api, version = self._asked.pop(correlation)
        self.came[correlation] = (self.cluster.timeline.now, api.decode_reply(version, data[8:]))

    def close(self) -> None:
        self.open = False

    @property
    def waiting(self) -> int:
        """Requests without an answer."""
        return len(self._asked)

    def pass_until(self, done: Any, seconds: float = 60.0) -> bool:
        """Let time pass until done(); whether it is."""
        return pass_until(self.cluster, done, seconds)

    def ask(self, api: Api, version: int, fields: dict[str, Any]) -> int:
        number = len(self.came) + len(self._asked)
        self._asked[number] = (api, version)
        body = api.encode_request(version, fields)
        frame = struct.pack(">hhih", api.key, version, number, 4) + b"test" + body
        data = struct.pack(">i", len(frame)) + frame
        step = self._torn or len(data)
        for at in range(0, len(data), step):
            self._peer.received(data[at : at + step])
        return number

    def leave(self) -> None:
        """Close the connection."""
        self._peer.closed()

    def call(self, api: Api, version: int, fields: dict[str, Any], seconds: float = 60.0) -> Any:
        number = self.ask(api, version, fields)
        self.pass_until(lambda: number in self.came or not self.open, seconds)
        return self.came[number][1] if number in self.came else None

    def produce(
        self, data: bytes, acks: int = 1, version: int = 0, tp: Tp = T, timeout_ms: int = 1000, **more: Any
    ) -> Any:
        told = self.call(apis.PRODUCE, version, produce_fields(data, acks, version, tp, timeout_ms) | more)
        row = told["topics"][0]["partitions"][0]
        return row["error"], row["base_offset"]

    def send_set(self, data: bytes, acks: int, version: int = 0, tp: Tp = T, timeout_ms: int = 1000) -> int:
        """Ask Produce and do not wait; the number of the request."""
        return self.ask(apis.PRODUCE, version, produce_fields(data, acks, version, tp, timeout_ms))

    def produced(self, number: int) -> tuple[int, int] | None:
        """Code and base offset of a request that was answered."""
        if number not in self.came:
            return None
        row = self.came[number][1]["topics"][0]["partitions"][0]
        return row["error"], row["base_offset"]

    def end(self, tp: Tp = T, time: int = -1) -> tuple[int, int]:
        """Code and offset of ListOffsets v1 (before 0.10.1: v0)."""
        rules = self.cluster.rules
        version = min(1, rules.highest[2])
        row: dict[str, Any] = {"partition": tp[1]}
        row |= {"timestamp": time} if version else {"time": time, "max_offsets": 1}
        fields = {"replica_id": -1, "topics": [{"topic": tp[0], "partitions": [row]}]}
        told = self.call(apis.LIST_OFFSETS, version, fields)["topics"][0]["partitions"][0]
        return told["error"], told["offset"] if version else (told["offsets"] or [-1])[0]

    def fetch(
        self, offset: int, version: int = 0, tp: Tp = T, wait_ms: int = 0, max_bytes: int = 1 << 20, **more: Any
    ) -> Any:
        told = self.call(apis.FETCH, version, fetch_fields(version, [(tp, offset)], wait_ms, max_bytes, **more))
        return told["topics"][0]["partitions"][0]


def pass_until(cluster: SimCluster, done: Any, seconds: float = 60.0) -> bool:
    """Let time pass, one event after the other, until done() or for so long; whether it is done."""
    timeline, until = cluster.timeline, cluster.timeline.now + seconds
    while not done():
        due = timeline.due
        if due is None or due > until:
            timeline.run_until(until)
            return bool(done())
        timeline.run_until(due)
    return True


def plain(release: str, count: int, value: bytes = b"value") -> tuple[bytes, int]:
    """A set of messages as that release takes it, and the version of Produce for it."""
    if int(release.split(".")[0]) >= 4:
        return batch(rows_of(0, count, value), producer=-1), 3
    return b"".join(entry(value, b"k%d" % n) for n in range(count)), 0


def values_of(data: bytes) -> list[tuple[int, bytes | None]]:
    """(offset, value) of the messages in stored bytes."""
    return [(m.offset, m.value) for one in stored(bytes(data)) if not one.control for m in opened(one.data)]


def produce_fields(data: bytes, acks: int, version: int, tp: Tp, timeout_ms: int) -> dict[str, Any]:
    row = {"partition": tp[1], "message_set": data}
    fields = {"acks": acks, "timeout_ms": timeout_ms, "topics": [{"topic": tp[0], "partitions": [row]}]}
    return fields | ({"transactional_id": None} if version >= 3 else {})


def fetch_fields(
    version: int, rows: list[Any], wait_ms: int = 0, max_bytes: int = 1 << 20, isolation_level: int = 0,
    rack_id: str = "",
) -> dict[str, Any]:  # fmt: skip
    fields: dict[str, Any] = {"replica_id": -1, "max_wait_ms": wait_ms, "min_bytes": 1}
    if version >= 3:
        fields["max_bytes"] = 50 << 20
    if version >= 4:
        fields["isolation_level"] = isolation_level
    if version >= 7:
        fields |= {"session_id": 0, "session_epoch": -1, "forgotten_topics": []}
    if version >= 11:
        fields["rack_id"] = rack_id
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), offset in rows:
        row = {"partition": partition, "fetch_offset": offset, "max_bytes": max_bytes}
        if version >= 5:
            row["log_start_offset"] = -1
        if version >= 9:
            row["current_leader_epoch"] = -1
        topics.setdefault(topic, []).append(row)
    return fields | {"topics": [{"topic": topic, "partitions": rows} for topic, rows in topics.items()]}
