"""`python -m localkafka --version 0.7.2`: a cluster to play with, by its output alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from localkafka.seven import entries
from localkafka.seven.client import Seven
from tests import children

ARGUMENTS = ["--version", "0.7.2", "--brokers", "2", "--setting", "num.partitions=3", "--json"]


@pytest.mark.real
def test_a_cluster_of_0_7_serves_until_it_is_told_to_end_and_leaves_nothing() -> None:
    argv = [sys.executable, "-m", "localkafka", *ARGUMENTS]
    with children.started(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            told = json.loads(process.stdout.readline())
            host, port = told["brokers"].split(",")[1].split(":")
            with Seven((host, int(port))) as link:
                link.produce("orders", 2, entries.plain([b"one"]))
                assert [row.value for row in link.rows("orders", 2)] == [b"one"]
            assert (told["version"], told["zookeeper"].partition("/")[2]) == ("0.7.2", "kafka")
            assert Path(told["folder"]).is_dir()
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(30)
    assert code == 0
    assert not Path(told["folder"]).exists()
