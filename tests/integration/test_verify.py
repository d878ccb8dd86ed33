"""`mirrormaker verify` on real clusters: what is missing is found, what is not missing is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from tests.conftest import Unique
from tests.integration.verifying import commit, numbered, settings, verify, without, write

pytestmark = pytest.mark.real


def test_one_message_that_is_missing_of_a_million_is_named_and_a_sound_pair_is_sound(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, group, rows = unique.topic(), unique.group(), numbered(500_000)
    for cluster in (source, target):
        cluster.create_topic(topic, 2)
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    others = numbered(500_000, 500_000)
    for tp, every in ((one, rows), (two, others)):
        write(source, tp, every)
    write(target, one, without(rows, 123_456))
    write(target, two, others, codec=2)
    commit(source, group, topic)
    file = settings(tmp_path, source, target, group, topic)
    found = verify(file)
    assert (found.code, found.total("source", "target", "missing")) == (4, [1_000_000, 999_999, 1]), found.said
    assert found.differences == [("missing", topic, "0", 123_456, 123_456, 1)]
    write(target, one, [rows[123_456]])
    found = verify(file)
    assert (found.code, found.document["missing"], found.differences) == (0, 0, []), found.said
