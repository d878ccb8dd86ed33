"""Frames of the fake brokers' protocol: requests decoded, the common parts of answers encoded.  No kafkawire."""

from __future__ import annotations

import struct
from typing import Any

NOT_OF_08 = range(11, 19)  # JoinGroup to ApiVersions
APIS = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "group_coordinator",
}


class _Bytes:
    """A request body being read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> Any:
        values = struct.unpack_from(">" + layout, self.data, self.at)
        self.at += struct.calcsize(">" + layout)
        return values[0] if len(values) == 1 else values

    def string(self) -> str:
        return self.raw(self.take("h")).decode()

    def raw(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def partitions(self, read: Any) -> dict[tuple[str, int], Any]:
        found: dict[tuple[str, int], Any] = {}
        for _ in range(self.take("i")):
            topic = self.string()
            for _ in range(self.take("i")):
                partition = self.take("i")
                found[topic, partition] = read()
        assert self.at == len(self.data), "a request has bytes left over"
        return found


def decode(frame: bytes) -> tuple[str, dict[str, Any], int]:
    r = _Bytes(frame)
    key, version, correlation = r.take("hhi")
    client = r.string()
    body: dict[str, Any] = {"client_id": client, "version": version}
    if key == 0:
        body["acks"], body["timeout_ms"] = r.take("hi")
        body["sets"] = r.partitions(lambda: r.raw(r.take("i")))
    elif key == 1:
        body["replica_id"], body["max_wait_ms"], body["min_bytes"] = r.take("iii")
        body["wanted"] = r.partitions(lambda: r.take("qi"))
    elif key == 2:
        body["replica_id"] = r.take("i")
        body["times"] = r.partitions(lambda: r.take("qi"))
    elif key == 3:
        body["topics"] = [r.string() for _ in range(r.take("i"))]
    elif key == 8:
        body["group"] = r.string()
        if version >= 1:
            body["generation"], body["member_id"] = r.take("i"), r.string()
        if version == 2:
            body["retention_ms"] = r.take("q")
        body["timestamps"] = []  # v1: one a partition
        body["offsets"] = r.partitions(lambda: _offset_row(r, version, body["timestamps"]))
    elif key == 9:
        body["group"] = r.string()
        body["wanted"] = list(r.partitions(lambda: None))
    elif key == 10:
        body["group"] = r.string()
    else:
        raise AssertionError(f"the fake broker does not speak api {key}")
    return APIS[key], body, correlation


def _offset_row(r: _Bytes, version: int, timestamps: list[int]) -> tuple[int, str]:
    offset = r.take("q")
    if version == 1:
        timestamps.append(r.take("q"))
        assert timestamps[-1] != 0, "taken for the offset's age: gone at once"
    return offset, r.string()


def string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def topics(rows: dict[str, list[bytes]]) -> bytes:
    reply = struct.pack(">i", len(rows))
    for topic, partitions in reversed(rows.items()):  # not in the order of the request: a broker re-groups them
        reply += string(topic) + struct.pack(">i", len(partitions)) + b"".join(reversed(partitions))
    return reply
