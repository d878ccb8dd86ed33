"""The vectors of 0.7: those of tests/vectors/kafka.json, and the exchanges recorded from an original 0.7.2."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.kafkawire import wire_vectors
from tests.kafkawire.wire_vectors import Vector

LIVE = wire_vectors.FILE.parent / "kafka-07-live.json"


@dataclass(frozen=True)
class Exchange:
    """A request as it was sent, and what came back (b"": nothing); both begin with their size."""

    name: str
    request: bytes
    response: bytes
    note: str

    def __str__(self) -> str:
        return self.name


def load() -> list[Vector]:
    rows = json.loads(wire_vectors.FILE.read_text())["vectors"]
    return [
        Vector(row["name"], row["protocol"], row["kind"], row["framed"], bytes.fromhex(row["hex"]), row["decoded"])
        for row in rows
        if row["protocol"] == "0.7"
    ]


def of_kind(kind: str) -> list[Vector]:
    return [vector for vector in load() if vector.kind == kind]


def named(name: str) -> Vector:
    return next(vector for vector in load() if vector.name == name)


def live() -> dict[str, Any]:
    """The whole recording: zk_tree and its like, commit_in_wrapper, exchanges."""
    recorded: dict[str, Any] = json.loads(LIVE.read_text())
    return recorded


def exchanges() -> list[Exchange]:
    return [
        Exchange(row["name"], _whole(row["request_hex"]), bytes.fromhex(row["response_hex"]), row["note"])
        for row in live()["exchanges"]
    ]


def _whole(text: str) -> bytes:
    """A frame; where it was written down with dots its last byte is repeated up to its size."""
    data = bytes.fromhex(text.removesuffix("..."))
    return data.ljust(4 + int.from_bytes(data[:4], "big"), data[-1:]) if text.endswith("...") else data
