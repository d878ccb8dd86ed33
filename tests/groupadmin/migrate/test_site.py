"""How wide the looks of a migration are."""

from __future__ import annotations

import pytest

from groupadmin.migrate import site as site_module
from groupadmin.migrate.site import Site
from kafkawire.model import TopicPartition
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from tests.groupadmin.snapshot.worlds import Fakes, fakes

GROUPS = ["a", "b", "c"]
NEW = TopicPartition("new", 1)


def looked_at(f: Fakes) -> dict[str, object]:
    f.kafka.committed[1, "b", "new", 1] = (7, "")
    found = Site(f.world, len(GROUPS)).unplanned_snapshots(GROUPS)
    return {name: each.in_kafka(NEW).position for name, each in found.items() if NEW in each.partitions()}


def test_topics_that_kafka_alone_knows_are_found_however_many_groups(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(site_module, "WIDE", 4)  # of 3 groups with 3 partitions each: one group at a time
    with fakes({"t": 1, "new": 2, OFFSETS_TOPIC: 1}) as f:
        assert looked_at(f) == {"b": 7}
        assert f.told == []


def test_too_many_positions_are_not_asked_for_and_that_is_said_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(site_module, "MAX_OFFSETS", 8)
    with fakes({"t": 1, "new": 2, OFFSETS_TOPIC: 1}) as f:
        assert looked_at(f) == {}
        (said,) = f.told
        assert "3 groups may have 9 positions in Kafka" in said
