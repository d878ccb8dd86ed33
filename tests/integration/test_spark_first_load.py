"""A first load that is killed in the middle: it goes on where it was, and what was finished is not read again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire.model import TopicPartition
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from sparkpipeline.ledger.attempts import PORTIONS
from tests.conftest import Unique
from tests.integration.sparkloads import Row, job
from tests.integration.sparktopics import produce

pytestmark = [pytest.mark.real, pytest.mark.spark]

COUNT, SIZE, HEADER = 4000, 1000, 26  # messages of each of two partitions, bytes of a value and of what is around it
MB = 1 << 20


def test_a_killed_first_load_reads_nothing_again_that_it_had_finished(
    spark: Any, own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    cluster, topic = own_cluster(brokers=1, proxied=True), unique.topic()
    cluster.create_topic(topic, partitions=2)
    draw = random.Random(7)
    rows: dict[Row, int] = {}
    for partition in (0, 1):
        values = [draw.randbytes(SIZE) for _ in range(COUNT)]
        produce(cluster, TopicPartition(topic, partition), [(None, value) for value in values])
        rows |= {(topic, partition, n): zlib.crc32(value) for n, value in enumerate(values)}
    options = {"batch_bytes": 6 * MB, "portion_bytes": 2 * MB, "split_bytes": MB, "pack_bytes": MB}
    load = job(cluster, tmp_path / "load", spark, topics=[topic], **options)
    file = tmp_path / "job.yaml"
    lines = [f"{name.replace('_', '.')}: {value}" for name, value in options.items()]
    file.write_text("\n".join([f"base: {tmp_path}/load", f"bootstrap.servers: {cluster.brokers}", f"topics: [{topic}]",
                               *lines]))  # fmt: skip
    proxy = cluster.nodes[0].proxy
    proxy.throttle(4 * MB, "to_client")
    began = proxy.counters.bytes_to_client
    command = [sys.executable, "-m", "sparkpipeline.commands.main", "load", "run", str(file), "--master", "local[2]"]
    with (tmp_path / "stderr").open("wb") as err:
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True)
    try:
        portions = tmp_path / "load/_load/staging/00000001-1" / PORTIONS
        wait_until(lambda: list(portions.glob("*.json")) or driver.poll() is not None, 500, "the first portion")
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)  # the JVM too, or it would clean up
        driver.wait()
    assert driver.returncode == -signal.SIGKILL, (tmp_path / "stderr").read_text()
    assert load.ledger.state().open_plan is not None
    proxy.clear()
    before = proxy.counters.bytes_to_client
    assert [manifest.batch for manifest in load.run().manifests] == [1, 2]
    second = proxy.counters.bytes_to_client - before
    assert load.rows() == rows
    load.check()
    kept = load.ledger.manifest(1).facts["taken_over"]
    assert kept * SIZE >= MB, load.told
    assert any(f"{kept:,} rows are not read again" in said for said in load.told), load.told
    left = (len(rows) - kept) * (SIZE + HEADER)
    # A fetch asks for a quarter more than it expects to the end of a range; metadata comes on top.
    assert left <= second <= left * 5 // 4 + MB // 8, (before - began, second, left)
    assert second < len(rows) * (SIZE + HEADER)
    assert not list((tmp_path / "load/_load/staging").iterdir())
    assert load.run().manifests == ()
