"""Reports of mirrors for tests of what shows them: one that is well, with what a test changes."""

from __future__ import annotations

from typing import Any

from mirrormaker.report import GroupReport, Happening, MirrorReport, PartitionReport, SourceReport

STARTED_MS = 1_767_225_600_000


def partition(number: int = 0, **changes: Any) -> PartitionReport:
    values: dict[str, Any] = {
        "source": "dc1", "topic": "orders", "partition": str(number), "target_topic": "orders",
        "owner": "mirror_host-1-0", "state": "reading", "reason": "", "route": "pass-through",
        "committed": 900, "done": 950, "end": 1000, "lag": 50, "lag_unit": "messages", "lag_s": 1.5,
        "messages_per_s": 120.0, "bytes_per_s": 12_000.0,
    }  # fmt: skip
    return PartitionReport(**values | changes)


def source(**changes: Any) -> SourceReport:
    values: dict[str, Any] = {
        "name": "dc1", "version": "0.8.2", "state": "running", "reason": "", "owned": 1, "lag": 50,
        "lag_unit": "messages",
    }  # fmt: skip
    return SourceReport(**values | changes)


def group(**changes: Any) -> GroupReport:
    values: dict[str, Any] = {
        "source": "dc1", "group": "billing", "target_group": "billing", "state": "following", "reason": "",
        "partitions": 2, "repeats": 30, "missing": 5, "translated_at_ms": STARTED_MS,
    }  # fmt: skip
    return GroupReport(**values | changes)


def happening(text: str, **changes: Any) -> Happening:
    return Happening(**{"at_ms": STARTED_MS, "level": "warning", "name": "parked", "text": text} | changes)


def report(**changes: Any) -> MirrorReport:
    values: dict[str, Any] = {
        "at_ms": STARTED_MS + 60_000, "started_ms": STARTED_MS, "release": "0.1.0", "target": "kafka1:9092",
        "target_state": "", "sources": (source(),), "partitions": (partition(),), "waiting": (), "happenings": (),
        "messages": 7200, "bytes": 720_000, "messages_per_s": 120.0, "bytes_per_s": 12_000.0,
        "in_flight_bytes": 3000, "left_out": {}, "not_ready": (), "log_level": "info",
    }  # fmt: skip
    return MirrorReport(**values | changes)
