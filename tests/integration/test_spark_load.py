"""The load job on real brokers, with Spark, to a local folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localkafka.client import ClusterClient
from tests.conftest import Unique
from tests.integration.sparkloads import fill, job

pytestmark = [pytest.mark.real, pytest.mark.spark]


def test_each_run_loads_what_is_new_and_nothing_twice(
    spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    source.create_topic(topic, partitions=3)
    first = fill(source, topic, [2000, 500, 0])
    load = job(source, tmp_path, spark, topics=[topic])
    assert [m.rows for m in load.run().manifests] == [2500]
    assert load.rows() == first
    assert load.run().manifests == ()
    more = fill(source, topic, [100, 0, 300], begin=0)
    assert [m.rows for m in load.run().manifests] == [400]
    assert len(load.rows()) == 2900
    load.check()
