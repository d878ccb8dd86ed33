"""A mirror of fakes behind the control socket: two topics, of which one partition is parked."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from groundwork.tasks import TaskGroup
from kafkawire.model import Broker, TopicPartition
from mirrormaker.control.actions import RunningMirror, actions_of
from mirrormaker.control.keptfile import KeptFile
from mirrormaker.control.limiter import Limiter
from mirrormaker.control.server import Action
from mirrormaker.quarantine import ReleaseRefused
from mirrormaker.report import MirrorReport, SourceReport
from mirrormaker.selection import Selection
from mirrormaker.throttle import FlowThrottle
from producer.errors import TooLarge
from zkconsumer.fetching.committable import Parked


class _Source:
    name = "dc1"

    def all_topics(self) -> list[str]:
        return ["clicks", "orders", "secret"]

    def partitions_of(self, topics: list[str]) -> dict[str, list[int]]:
        return {topic: [0, 1] for topic in topics}

    def owners(self, topics: list[str]) -> dict[TopicPartition, str]:
        return {TopicPartition(topic, 0): "g_host-1-0" for topic in topics}

    def partitions(self) -> list[Any]:
        tp = TopicPartition("orders", 0)
        return [SimpleNamespace(topic="orders", partition=0, tp=tp, parked="too large", done=7, lag=3)]

    def parked(self) -> dict[TopicPartition, Parked]:
        return {TopicPartition("orders", 0): Parked(TooLarge("too large", 9, Broker(0, "b", 1)), 7)}

    def set_paused(self, paused: dict[Any, bool]) -> None:
        pass


def _refuse(*args: object) -> Any:
    raise ReleaseRefused("there is no dead-letter topic")


def _report() -> MirrorReport:
    source = SourceReport(
        name="dc1", version="0.8.2", state="running", reason="", owned=0, lag=150, lag_unit="messages"
    )
    values: dict[str, Any] = {
        "at_ms": 3_723_000, "started_ms": 0, "release": "0.1.0", "target": "k:9092", "target_state": "",
        "sources": (source,), "partitions": (), "waiting": (), "happenings": (), "messages": 700, "bytes": 7000,
        "messages_per_s": 3.0, "bytes_per_s": 300.0, "in_flight_bytes": 0, "left_out": {}, "not_ready": (),
        "log_level": "info",
    }  # fmt: skip
    return MirrorReport(**values)


def actions() -> Mapping[str, Action]:
    """The commands of that mirror; without `profile`, which takes its time."""
    source, tasks = _Source(), TaskGroup()
    flow = SimpleNamespace(
        name="dc1", throttle=FlowThrottle(lambda limits: None), source=source, release=_refuse,
        quarantine=SimpleNamespace(releasable=_refuse, kinds=lambda tp, where: {"oversize"}), retry=lambda tp: None,
    )  # fmt: skip
    kept = KeptFile(Path(tempfile.mkdtemp(prefix="fuzz-")), {"dc1": "g"})
    limiter = Limiter([source], [flow], kept)  # type: ignore[list-item]
    limiter.restore()
    running = RunningMirror(
        sources=[source],  # type: ignore[list-item]
        flows=[flow],  # type: ignore[list-item]
        selections={"dc1": Selection(source="dc1", whitelist="orders|clicks")},
        reporter=SimpleNamespace(report=_report),  # type: ignore[arg-type]
        limiter=limiter,
    )
    assert tasks.death is None
    return {name: action for name, action in actions_of(running).items() if name != "profile"}
