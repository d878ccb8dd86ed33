"""One group on 0.7 of ours and of the original's consumers: each joins, leaves, is killed; nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localkafka.seven.cluster import Cluster07
from tests.integration.mixed07 import Mixed

pytestmark = [pytest.mark.real, pytest.mark.kafka07]


@pytest.fixture(scope="module")
def kind07() -> str:
    """The consumers are the originals; the brokers in Python start sooner."""
    return "python"


@pytest.fixture
def mixed(cluster07: Callable[..., Cluster07], unique: Any, tmp_path: Path) -> Iterator[Mixed]:
    group = Mixed(cluster07(partitions={0: 3, 10: 2, 2: 1}), unique.group(), unique.topic(), tmp_path)
    yield group
    group.close()


def test_ours_joins_a_group_of_the_original_and_leaves_it(mixed: Mixed) -> None:
    shell = mixed.join("shell")
    first = mixed.join("ours")
    second = mixed.join("ours")
    mixed.kill(first)
    mixed.stop(second)
    assert shell.running
    print(mixed.check())


def test_originals_join_a_group_of_ours_leave_it_and_are_killed(mixed: Mixed) -> None:
    mixed.join("ours")
    console = mixed.join("console")
    shell = mixed.join("shell")
    mixed.kill(shell)
    mixed.stop(console)
    print(mixed.check())
