"""The vectors of tests/vectors/kafka.json, and which of them are for later."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "vectors" / "kafka.json"

# Read by work that is still to come; nothing else may be left out.
LATER = {
    "varint_table": "variable-length integers belong to message format v2",
    "fetch_request_v3": "Fetch v3 comes with the later versions of 0.10.1 and up",
    "fetch_request_v4": "Fetch v4 carries message format v2",
    "fetch_response_v4": "Fetch v4 carries message format v2",
}


@dataclass(frozen=True)
class Vector:
    name: str
    protocol: str
    kind: str
    framed: bool
    data: bytes
    decoded: dict[str, Any]

    def __str__(self) -> str:
        return self.name


def load() -> list[Vector]:
    """Those for 0.8 to 0.10: the generation of 0.7 has a folder of its own, later."""
    rows = json.loads(FILE.read_text())["vectors"]
    return [
        Vector(row["name"], row["protocol"], row["kind"], row["framed"], bytes.fromhex(row["hex"]), row["decoded"])
        for row in rows
        if row["protocol"] != "0.7" and row["name"] not in LATER
    ]


def of_kind(kind: str) -> list[Vector]:
    return [vector for vector in load() if vector.kind == kind]


def named(name: str) -> Vector:
    return next(vector for vector in load() if vector.name == name)
