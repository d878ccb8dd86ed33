"""`check --online` about topics: what is held back, and why, is an error that names the topic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.dialects import dialect
from kafkawire.model import Broker
from mirrormaker.commands import online
from mirrormaker.config import from_yaml
from mirrormaker.probe import SourceView, chosen_topics
from mirrormaker.topiclimits import Creations

FILE = """
sources:
- {name: dc1, zookeeper.connect: 'zk1:2181/src', group.id: g}
target: {metadata.broker.list: 'k:9092', target.topic.max.partitions: 300, target.max.partitions: 500}
mirror: {whitelist: '.*', target.grow.partitions: true, dead.letter.topic: dead}
"""
TOPICS = {"a": 200, "b": 301, "c": 250, "d": 1, "grows": 300, "dead": 1, "__transaction_state": 50}


def test_topics_that_a_start_would_hold_back_are_errors_and_the_others_are_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(FILE.replace("group.id: g", "group.id: g, exclude.internal.topics: false"))
    configuration = from_yaml(path)
    monkeypatch.setattr(online, "probe_source", lambda *_: SourceView({1: Broker(1, "here", 1)}, TOPICS))
    view = ClusterView({2: Broker(2, "there", 1)}, {"grows": {n: PartitionView(2) for n in range(100)}}, {})
    creations = Creations(configuration.target.topic_limits._replace(a_minute=online.NO_PACE))
    [source] = configuration.sources
    _, rows, errors = online.source_rows(source, configuration, view, dialect("3.9"), creations)
    shown = {row["topic"]: (row["target partitions"], row["route"].partition(":")[0]) for row in rows}
    held_back = "missing, not created", "refused"
    assert [shown["a"][0], shown["d"][0]] == ["missing, created with 200", "missing, created with 1"]
    assert [shown["b"], shown["c"], shown["grows"]] == [held_back, held_back, ("100, not grown", "pass-through")]
    assert [error.partition(",")[0] for error in errors] == [
        "source dc1: topic dead would be written to dead",
        "source dc1: topic __transaction_state would be written to __transaction_state",
        "source dc1: target topic b is neither created nor grown: it would have 301 partitions",
        "source dc1: target topic c is neither created nor grown: the target would have more than 500 partitions "
        "(target.max.partitions); raise that",
        "source dc1: target topic grows is neither created nor grown: the target would have more than 500 partitions "
        "(target.max.partitions); raise that",
    ]


def test_a_topic_that_brokers_of_0_7_make_counts_as_many_partitions_as_a_start_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(
        "sources:\n- {name: dc1, version: 0.7.2, zookeeper.connect: 'zk1:2181/src', group.id: g}\n"
        "target: {target.version: 0.7.2, target.zookeeper.connect: 'zk2:2181/dst', target.max.partitions: 3}\n"
        "mirror: {whitelist: '.*'}\n"
    )
    configuration = from_yaml(path)
    monkeypatch.setattr(online, "probe_source", lambda *_: SourceView({1: Broker(1, "here", 1)}, {"a": 300, "b": 1}))
    view = ClusterView({2: Broker(2, "there", 1), 3: Broker(3, "there", 2)}, {}, {})
    creations = Creations(configuration.target.topic_limits._replace(a_minute=online.NO_PACE))
    [source] = configuration.sources
    _, rows, errors = online.source_rows(source, configuration, view, dialect("0.7"), creations)
    assert [row["target partitions"] for row in rows] == ["missing, its brokers make it", "missing, not created"]
    assert [error.partition(":")[0] for error in errors] == ["source dc1"]


def test_internal_topics_that_the_lists_select_are_named_with_the_option_that_leaves_them_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, topics = tmp_path / "m.yaml", ["a", "__transaction_state", "__consumer_offsets", "b"]
    path.write_text(FILE.replace("'.*'", "'.*', blacklist: '__con.*'"))
    configuration = from_yaml(path)
    [source] = configuration.sources
    names, internal = chosen_topics(topics, source, configuration.mirror)
    assert (names, internal) == (["a", "b"], ["__transaction_state"])
    online.say_internal([(source, SourceView({}, {}, internal=internal))])
    assert capsys.readouterr().err == (
        "source dc1: __transaction_state not mirrored, internal (exclude.internal.topics)\n"
    )
    wide = replace(source, exclude_internal_topics=False)
    assert chosen_topics(topics, wide, configuration.mirror) == (["__transaction_state", "a", "b"], [])
