"""`mirrormaker check --online` on two clusters of 0.11: old messages, and for how long the target keeps any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire.dialects import dialect
from kafkawire.protocol import adminapis, apis
from mirrormaker.commands.online import check_online
from mirrormaker.commands.onlineretention import TargetSettings, _retention_of
from mirrormaker.config import Configuration
from mirrormaker.options import MirrorOptions, SourceOptions, TargetOptions
from mirrormaker.probe import SourceView
from mirrormaker.retention import DAY_MS
from tests.fakes.checked import RELEASE, Cluster, configured


def said(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    source: Cluster,
    target: Cluster,
    of_target: dict[str, Any] | None = None,
    of_mirror: dict[str, Any] | None = None,
) -> list[str]:
    """What the command says about the age of messages."""
    assert check_online(configured(tmp_path, source, target, of_target, of_mirror)) == 0
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
