"""Clusters of 0.11 that `mirrormaker check --online` asks: settings, ages of messages, topics that they refuse."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import yaml

from kafkawire.dialects import dialect
from kafkawire.protocol import adminapis
from kafkawire.protocol.api import Api
from mirrormaker.config import Configuration, from_yaml
from mirrormaker.retention import DAY_MS
from tests.fakes.coordinating import APIS, Fields, GroupCluster

RELEASE = "0.11.0"
WEEK = {"log.retention.hours": "168", "log.cleanup.policy": "delete", "log.message.timestamp.type": "CreateTime"}


class Cluster(GroupCluster):
    """days: the ages of the messages of each partition.  own: what topics have set; broker: its settings."""

    def __init__(self, topics: dict[str, int], *days: int, brokers: int = 1) -> None:
        self.days = days
        self.own: dict[str, dict[str, str]] = {}
        self.broker = dict(WEEK)
        self.refuses = 0
        self.leaderless: set[int] = set()  # partitions of every topic
        self.refuses_ids = 0  # transactional ids, with this code
        self.unmade: dict[str, int] = {}  # topics that the controller would not make, and its code
        self.at: dict[int, tuple[str, int]] = {}  # brokers that are said to be elsewhere
        self.version = 0  # of the request
        super().__init__(topics, brokers=brokers)

    def answer(self, broker: int, api: Api, version: int, body: Fields) -> bytes:
        self.version = version
        return super().answer(broker, api, version, body)

    def _since(self, version: int, **fields: object) -> Fields:
        """Fields that an answer has from this version on."""
        return fields if self.version >= version else {}

    def _ApiVersions(self, broker: int, body: Fields) -> Fields:
        rows = [(key, 0, version) for key, version in dialect(RELEASE).versions.items() if key in APIS]
        return {"error": 0, "api_versions": rows, **self._since(1, throttle_time_ms=0)}

    def _Metadata(self, broker: int, body: Fields) -> Fields:
        found = super()._Metadata(broker, body)
        del found["cluster_id"]
        for row in (row for topic in found["topics"] for row in topic["partitions"]):
            if row["partition"] in self.leaderless:
                row |= {"error": 5, "leader": -1}
        return found | self._since(2, cluster_id="c") | self._since(3, throttle_time_ms=0)

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        return super().addresses | self.at

    def _GroupCoordinator(self, broker: int, body: Fields) -> Fields:
        found = super()._GroupCoordinator(broker, body) | {"error": self.refuses_ids}
        return found | self._since(1, throttle_time_ms=0, error_message=None)

    def _CreateTopics(self, broker: int, body: Fields) -> Fields:
        assert body["validate_only"], "a check creates nothing"
        rows = [(t["topic"], self.unmade.get(t["topic"], 0)) for t in body["topics"]]
        topics = [{"topic": name, "error": code, "error_message": None} for name, code in rows]
        return {"topics": topics, **self._since(2, throttle_time_ms=0)}

    def _ListOffsets(self, broker: int, body: Fields) -> Fields:
        topics = [
            {"topic": t["topic"], "partitions": [self._offset(row) for row in t["partitions"]]} for t in body["topics"]
        ]
        return {"topics": topics, **self._since(2, throttle_time_ms=0)}

    def _offset(self, row: Fields) -> Fields:
        now_ms, when = int(time.time() * 1000), row["timestamp"]
        found = [n for n, days in enumerate(self.days) if now_ms - days * DAY_MS >= when]
        offset = len(self.days) if when == -1 else found[0] if found else -1
        return {"partition": row["partition"], "error": 0, "timestamp": -1, "offset": offset}

    def _DescribeConfigs(self, broker: int, body: Fields) -> Fields:
        return {"throttle_time_ms": 0, "resources": [self._settings(one) for one in body["resources"]]}

    def _settings(self, asked: Fields) -> Fields:
        kind, name = asked["resource_type"], asked["name"]
        of_topic = kind == adminapis.OF_TOPIC
        inherited = {"retention.ms": str(7 * DAY_MS), "cleanup.policy": "delete"} if of_topic else self.broker
        own = self.own.get(name, {}) if of_topic else {}
        configs = [
            {"name": key, "value": value, "read_only": False, "is_default": key not in own, "is_sensitive": False}
            for key, value in {**inherited, **own}.items()
        ]
        return {"error": self.refuses, "error_message": None, "resource_type": kind, "name": name, "configs": configs}


def configured(
    folder: Path,
    source: Cluster,
    target: Cluster,
    of_target: dict[str, Any] | None = None,
    of_mirror: dict[str, Any] | None = None,
) -> Configuration:
    """A mirror of all topics between two of these."""
    content = {
        "sources": [
            {"name": "dc1", "bootstrap.servers": source.bootstrap, "coordination": "kafka", "group.id": "g",
             "version": RELEASE}
        ],
        "target": {"metadata.broker.list": target.bootstrap, "target.version": RELEASE, **(of_target or {})},
        "mirror": {"whitelist": ".*", **(of_mirror or {})},
    }  # fmt: skip
    file = folder / "orders.yaml"
    file.write_text(yaml.safe_dump(content))
    return from_yaml(file)
