"""Progress of a load of one task: the terminal shows how many messages the task has read before it ends."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka.cluster import Cluster
from tests.conftest import Unique
from tests.integration.sparktopics import produce

pytestmark = [pytest.mark.real, pytest.mark.spark]

COUNT, SIZE = 80_000, 100
WITHIN = re.compile(r"loading: 0/1 tasks, ([\d,]+) of 80,000 rows read \(\d+ %\), [\d,]+ rows/s, .*s of reading left$")


def test_rows_of_a_running_task_are_shown(own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path) -> None:
    """The broker sends 1 MB a second.  Spark's web UI is off, as in every local session of the commands."""
    cluster, topic = own_cluster(brokers=1, proxied=True), unique.topic()
    cluster.create_topic(topic, partitions=1)
    values = [b"%0*d" % (SIZE, number) for number in range(COUNT)]
    produce(cluster, TopicPartition(topic, 0), [(None, value) for value in values], a_set=5000)
    file = tmp_path / "job.yaml"
    file.write_text(f"base: {tmp_path}/load\nbootstrap.servers: {cluster.brokers}\ntopics: [{topic}]\n"
                    f"fetch.message.max.bytes: {1 << 18}\n")  # fmt: skip
    cluster.nodes[0].proxy.throttle(1 << 20, "to_client")
    command = [sys.executable, "-m", "sparkpipeline.commands.main", "load", "run", str(file), "--master", "local[1]",
               "--conf", "spark.executor.heartbeatInterval=1s"]  # fmt: skip
    ours, theirs = pty.openpty()
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, start_new_session=True)
    os.close(theirs)
    told = b""
    with open(ours, "rb", buffering=0) as terminal, suppress(OSError):  # EIO: the command has ended
        while data := terminal.read(1 << 16):
            told += data
    text = told.decode()
    assert driver.wait() == 0, text
    lines = [line for line in re.split(r"[\r\n]|\x1b\[K", text) if "loading: " in line]
    counts = [int(found[1].replace(",", "")) for line in lines if (found := WITHIN.search(line)) is not None]
    assert counts == sorted(counts)
    assert len(set(counts)) > 1, text
    assert 0 < counts[0] < counts[-1] < COUNT
    assert "loading: 0/1 tasks, no rows reported yet, " in lines[0]
