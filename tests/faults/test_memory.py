"""Memory with a whole lot of partitions; making them takes the broker longer than a usual test may."""

from __future__ import annotations

import pytest

from tests.integration.hoard import fill, read_slowly

pytestmark = [pytest.mark.faults, pytest.mark.real]
MIB = 1 << 20


def test_a_slow_program_with_2000_full_partitions_keeps_within_its_memory_and_they_take_turns(own_cluster, unique):
    cluster = own_cluster(settings={"log.index.size.max.bytes": 4096})
    names = fill(cluster, unique.topic("hoard"), 4, 500, 131072)
    told = read_slowly(cluster, unique.group(), names, 30)
    assert told["owned"] == 2000
    assert 32 * MIB < told["buffered"] <= 64 * MIB
    assert told["peak"] < (64 + 150) * MIB
    assert told["seen"] >= 500  # 64 KiB at least of each: about 1,000 have something in the buffers
    assert told["parked"] == []
