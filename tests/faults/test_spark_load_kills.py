"""Drivers and their JVMs killed at random: nothing is lost, nothing is there twice."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from localkafka.client import ClusterClient
from localkafka.waiting import wait_until
from sparkpipeline.ledger.reports import files_of
from tests.conftest import Unique
from tests.integration.sparkloads import Row, fill, job

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.faults]

KILLS = 20
ROWS = 52_000  # produced before each run: more than a million in all
LONGEST_S = 300.0
QUICK = ["--master", "local[2]", "--conf", "spark.driver.memory=1g", "--conf", "spark.sql.shuffle.partitions=2"]


class Driver:
    """`sparkpipeline load ..` in a session of its own: what its JVM and Python workers belong to, too."""

    def __init__(self, log: Path, *args: str) -> None:
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sparkpipeline.commands.main", "load", *args, *QUICK],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip

    def said(self, pattern: str) -> bool:
        return re.search(pattern, self.log.read_text(errors="replace")) is not None

    def kill(self) -> None:
        """SIGKILL to the driver first and then to all that it started."""
        self.process.kill()  # nothing, where it has ended and was waited for
        deadline = time.monotonic() + 30
        while (left := list(members(self.process.pid))) and time.monotonic() < deadline:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it went by itself
            time.sleep(0.02)
        self.process.wait(30)
        assert not left

    def end(self) -> int:
        return self.process.wait(LONGEST_S)


def members(session: int) -> Iterator[int]:
    """Processes of a session that are no zombies."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                yield int(entry.name)


def test_twenty_kills_of_driver_and_jvm_lose_and_repeat_nothing(
    source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    seed = int(os.environ.get("KILLS_SEED", "0")) or random.randrange(1 << 30)
    print(f"KILLS_SEED={seed}")
    chance = random.Random(seed)
    topic = unique.topic()
    source.create_topic(topic, partitions=4)
    file = tmp_path / "kills.yaml"
    base = tmp_path / "base"
    file.write_text(yaml.safe_dump({
        "base": str(base), "bootstrap.servers": source.brokers, "topics": [topic], "split.bytes": 8 << 20,
        "snapshot.every": 3,
    }))  # fmt: skip
    rows: dict[Row, int] = {}
    reached = {"planned": 0, "ended": 0}
    for n in range(KILLS):
        rows |= fill(source, topic, [ROWS // 4] * 4, after=rows, codec=2 if n % 2 else 0)
        again = n % 5 == 4
        args = (
            ["rewind", str(file), "--topic", topic, "--to", "2020-01-01T00:00Z", "--execute"]
            if again
            else ["run", str(file)]
        )
        driver = Driver(tmp_path / f"driver-{n}.log", *args)
        # Most of a driver's time goes by before it plans anything: a kill there shows little.
        wait_until(
            lambda driver=driver: driver.said(r"batch \d+: .*|nothing new") or driver.process.poll() is not None,
            LONGEST_S, lambda n=n: f"driver {n} to plan",
        )  # fmt: skip
        reached["planned"] += 1
        time.sleep(chance.uniform(0, 6))
        reached["ended"] += driver.process.poll() is not None
        driver.kill()
    print(reached)
    last = Driver(tmp_path / "last.log", "run", str(file))
    assert last.end() == 0, last.log.read_text()
    load = job(source, base, None, topics=[topic])
    assert len(rows) >= 1_000_000
    found = load.rows()
    assert (len(rows.keys() - found.keys()), len(found.keys() - rows.keys())) == (0, 0)
    assert found == rows
    assert sum(row.rows for row in files_of(load.ledger)) == len(rows)
    load.check()
    assert reached["ended"] <= KILLS * 3 // 4, "most kills came too late to show anything"
