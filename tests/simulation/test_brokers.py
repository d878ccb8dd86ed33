"""Brokers in virtual time, asked with real frames."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest

from kafkawire.protocol import apis
from kafkawire.protocol.api import Api
from tests.fakes.entries import entry, opened
from tests.kafkawire.recordbatches import batch, rows_of
from tests.simulation.brokers import SimCluster
from tests.simulation.process import Timeline

RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2", "3.9.1", "4.1.0")
T = ("t", 0)


class Client:
    """One connection; answers as they come."""

    def __init__(self, cluster: SimCluster, broker: int = 1) -> None:
        self.cluster = cluster
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

    def ask(self, api: Api, version: int, fields: dict[str, Any]) -> int:
        number = len(self.came) + len(self._asked)
        self._asked[number] = (api, version)
        body = api.encode_request(version, fields)
        frame = struct.pack(">hhih", api.key, version, number, 4) + b"test" + body
        self._peer.received(struct.pack(">i", len(frame)) + frame)
        return number

    def call(self, api: Api, version: int, fields: dict[str, Any], seconds: float = 60.0) -> Any:
        number, timeline = self.ask(api, version, fields), self.cluster.timeline
        until = timeline.now + seconds
        while number not in self.came and self.open and timeline.now < until:
            timeline.run_until(timeline.now + 0.01)
        return self.came[number][1] if number in self.came else None

    def produce(self, data: bytes, acks: int = 1, version: int = 0, tp: Any = T, timeout_ms: int = 1000) -> Any:
        fields: dict[str, Any] = {"acks": acks, "timeout_ms": timeout_ms}
        fields["topics"] = [{"topic": tp[0], "partitions": [{"partition": tp[1], "message_set": data}]}]
        if version >= 3:
            fields["transactional_id"] = None
        told = self.call(apis.PRODUCE, version, fields)
        row = told["topics"][0]["partitions"][0]
        return row["error"], row["base_offset"]

    def fetch(
        self, offset: int, version: int = 0, tp: Any = T, wait_ms: int = 0, max_bytes: int = 1 << 20, **more: Any
    ) -> Any:
        told = self.call(apis.FETCH, version, fetch_fields(version, [(tp, offset)], wait_ms, max_bytes, **more))
        return told["topics"][0]["partitions"][0]


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


@pytest.fixture
def timeline() -> Timeline:
    return Timeline()


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_produced_is_fetched(timeline: Timeline, release: str) -> None:
    cluster = SimCluster(timeline, Random(1), release, 1, topics={"t": 1})
    client = Client(cluster)
    data, version = plain(release, 3)
    assert client.produce(data, version=version) == (0, 0)
    fetched = client.fetch(0, 4 if release.startswith("4") else 0)
    assert fetched["error"] == 0
    assert fetched["high_watermark"] == 3
    assert client.fetch(3, 4 if release.startswith("4") else 0)["error"] == 0
    assert client.fetch(4, 4 if release.startswith("4") else 0)["error"] == 1
    if not release.startswith("4"):
        assert [(offset, value) for offset, _, value in opened(bytes(fetched["message_set"]))] == [
            (n, b"value") for n in range(3)
        ]


def plain(release: str, count: int) -> tuple[bytes, int]:
    if release.startswith("4"):
        data = batch(rows_of(0, count), producer=-1)
        return data, 3
    return b"".join(entry(b"value", b"k%d" % n) for n in range(count)), 0
