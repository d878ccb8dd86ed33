"""A few pairs of the matrix of releases; all of them: `make matrix`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localkafka.zookeeper import ZooKeeperAt
from tests.conftest import Unique
from tests.matrix.pair import Pair
from tests.matrix.sites import Kind, Sites

pytestmark = pytest.mark.real

PAIRS = (("0.8.2.2", "4.3.1"), ("4.3.1", "2.8.2"))  # test_modern_sources.py goes back to 0.8


@pytest.fixture(scope="module")
def sites(zk_server: ZooKeeperAt, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with Sites(tmp_path_factory.mktemp("matrix"), zk_server) as sites:
        yield sites


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_mirror_that_was_killed_loses_nothing_and_changes_nothing_that_both_formats_carry(
    sites: Sites, unique: Unique, tmp_path: Path, source: str, target: str
) -> None:
    pair = Pair(sites.site(Kind(source)), sites.site(Kind(target)), tmp_path, unique.tag)
    outcome = pair.run()
    assert outcome.problems == []
    assert (outcome.lost, outcome.foreign, outcome.aborted, outcome.disordered) == (0, 0, 0, 0)
