"""`mirrormaker check --online` on two clusters of 0.11: old messages, and for how long the target keeps any."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkawire.dialects import dialect
from kafkawire.protocol import adminapis, apis
from kafkawire.protocol.api import Api
from mirrormaker.commands.online import TargetSettings, _retention_of, check_online
from mirrormaker.config import Configuration, from_yaml
from mirrormaker.options import MirrorOptions, SourceOptions, TargetOptions
from mirrormaker.probe import SourceView
from mirrormaker.retention import DAY_MS
from tests.fakes.coordinating import APIS, Fields, GroupCluster

RELEASE = "0.11.0"
WEEK = {"log.retention.hours": "168", "log.cleanup.policy": "delete", "log.message.timestamp.type": "CreateTime"}


class Cluster(GroupCluster):
    """days: the ages of the messages of each partition.  own: what topics have set; broker: its settings."""

    def __init__(self, topics: dict[str, int], *days: int) -> None:
        self.days = days
        self.own: dict[str, dict[str, str]] = {}
        self.broker = dict(WEEK)
        self.refuses = 0
        self.version = 0  # of the request
        super().__init__(topics, brokers=1)

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
        return found | self._since(2, cluster_id="c") | self._since(3, throttle_time_ms=0)

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


def said(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    source: Cluster,
    target: Cluster,
    of_target: dict[str, Any] | None = None,
    of_mirror: dict[str, Any] | None = None,
) -> list[str]:
    """What the command says about the age of messages."""
    content = {
        "sources": [
            {"name": "dc1", "bootstrap.servers": source.bootstrap, "coordination": "kafka", "group.id": "g",
             "version": RELEASE}
        ],
        "target": {"metadata.broker.list": target.bootstrap, "target.version": RELEASE, **(of_target or {})},
        "mirror": {"whitelist": ".*", **(of_mirror or {})},
    }  # fmt: skip
    file = tmp_path / "orders.yaml"
    file.write_text(yaml.safe_dump(content))
    assert check_online(from_yaml(file)) == 0
    lines = capsys.readouterr().err.splitlines()
    return [line for line in lines if "older than" in line or "compared" in line]


def test_messages_that_the_target_would_delete_at_once_are_named_with_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster({"old": 2, "kept": 2, "absent": 1}, 30, 20, 2) as source, Cluster({"old": 2, "kept": 2}) as target:
        target.own["kept"] = {"retention.ms": "-1"}
        found = said(tmp_path, capsys, source, target)
        assert [line.partition(": the target acknowledges")[0] for line in found[:2]] == [
            "warning: source dc1: topic absent: 2 of 3 messages are older than target topic absent keeps any "
            "(retention.ms 604800000, its brokers' default: 7 d)",
            "warning: source dc1: topic old: 4 of 6 messages are older than target topic old keeps any "
            "(retention.ms 604800000, its brokers' default: 7 d)",
        ]
        [twice] = found[2:]
        assert twice.startswith(
            "source dc1: 10 messages of absent, kept, old are older than the target's brokers remem"
        )


def test_a_topic_that_is_created_with_the_sources_retention_keeps_what_the_source_keeps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied: dict[str, Any] = {"target.topic.configs": "retention.ms"}
    with Cluster({"mine": 1, "default": 1}, 30, 2) as source, Cluster({}) as target:
        source.own["mine"] = {"retention.ms": str(60 * DAY_MS)}
        target.broker["log.retention.hours"] = "24"
        found = said(tmp_path, capsys, source, target, copied, {"delivery.guarantee": "exactly-once"})
        assert len(found) == 1
        assert "topic default: 2 of 2 messages are older than target topic default keeps any" in found[0]
        assert "its brokers' default: 1 d" in found[0]


def test_a_target_that_does_not_tell_its_retention_is_said_to_be_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster({"t": 1}, 2) as source, Cluster({"t": 1}) as target:
        target.refuses = 29
        found = said(tmp_path, capsys, source, target)
        assert found == [
            "source dc1: how long the target keeps 1 topic is not known: brokers tell it from 0.11 on, so the age of "
            "what they hold is not compared"
        ]


@pytest.mark.parametrize(
    ("version", "numbered", "sentence"),
    [
        ("0.9", True, "source dc1: its messages have no timestamps, so the target's brokers may forget at once"),
        ("0.9", None, ""),
        ("0.10.0", None, "source dc1: its brokers find nothing by timestamps, so no age of messages is compared"),
    ],
)
def test_a_source_whose_messages_cannot_be_counted_by_time_is_said_to_be_so(
    version: str, numbered: bool | None, sentence: str
) -> None:
    source = SourceOptions(name="dc1", group_id="g", version=version, zookeeper_connect="zk:1")
    target = TargetOptions(idempotence=numbered)
    asked = Configuration((source,), target, MirrorOptions(), ())
    said = list(_retention_of(source, SourceView({}, {"t": 1}), asked, TargetSettings({}, {}, {}), DAY_MS))
    assert [line.startswith(sentence) for line in said] == [True] * bool(sentence)


def test_the_clusters_are_of_a_release_whose_brokers_tell_their_settings() -> None:
    assert dialect(RELEASE).versions[adminapis.DESCRIBE_CONFIGS.key] == 0
    assert dialect(RELEASE).versions[apis.LIST_OFFSETS.key] >= 1
