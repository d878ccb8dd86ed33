"""One pair of the matrix of releases; all of them: `make matrix`."""

from __future__ import annotations

from pathlib import Path

import pytest

from localkafka.zookeeper import ZooKeeperAt
from tests.conftest import Unique
from tests.matrix.pair import Pair
from tests.matrix.sites import Kind, Sites

pytestmark = pytest.mark.real

SOURCE, TARGET = "4.3.1", "2.8.2"  # test_modern_sources.py goes back to 0.8, test_cluster_roll.py from 0.8 to 4.x


def test_a_mirror_that_was_killed_loses_nothing_and_changes_nothing_that_both_formats_carry(
    zk_server: ZooKeeperAt, unique: Unique, tmp_path: Path
) -> None:
    with Sites(tmp_path / "sites", zk_server) as sites:
        outcome = Pair(sites.site(Kind(SOURCE)), sites.site(Kind(TARGET)), tmp_path, unique.tag).run()
    assert outcome.problems == []
    assert (outcome.lost, outcome.foreign, outcome.aborted, outcome.disordered) == (0, 0, 0, 0)
