"""What offset nodes show of the clocks, when nobody writes one to find out."""

from __future__ import annotations

import pytest

from groupadmin.migrate.clusterfacts import clock_ahead_ms
from groupadmin.snapshot.model import GroupSnapshot, ZkRow
from kafkawire.model import TopicPartition

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("ages_ms", "ahead"),
    [
        ([], None),
        ([3_600_000], None),  # an old node may be old, or our clock ahead
        ([3_600_000, 30_000], 0),
        ([30_000, -90_000], -90_000),  # from the future: we are behind
    ],
)
def test_only_young_nodes_tell_of_the_clock(ages_ms: list[int], ahead: int | None):
    rows = {TopicPartition("t", n): ZkRow(5, 0, 1, 1, NOW - age) for n, age in enumerate(ages_ms)}
    assert clock_ahead_ms(NOW, [GroupSnapshot("g", rows, {}, {}, {})]) == ahead
