"""Brokers in virtual time, asked with real frames."""

from __future__ import annotations

from random import Random

import pytest

from tests.fakes.entries import opened
from tests.simulation.asking import Client, plain
from tests.simulation.brokers import SimCluster
from tests.simulation.process import Timeline

RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.8.2", "3.9.1", "4.1.0")


@pytest.fixture
def timeline() -> Timeline:
    return Timeline()


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_produced_is_fetched(timeline: Timeline, release: str) -> None:
    cluster = SimCluster(timeline, Random(1), release, 1, topics={"t": 1})
    client = Client(cluster)
    data, version = plain(release, 3)
    assert client.produce(data, version=version) == (0, 0)
    fetched = client.fetch(0, 4 if release.startswith("4") else 0)
    assert fetched["error"] == 0
    assert fetched["high_watermark"] == 3
    assert client.fetch(3, 4 if release.startswith("4") else 0)["error"] == 0
    assert client.fetch(4, 4 if release.startswith("4") else 0)["error"] == 1
    if not release.startswith("4"):
        assert [(offset, value) for offset, _, value in opened(bytes(fetched["message_set"]))] == [
            (n, b"value") for n in range(3)
        ]
