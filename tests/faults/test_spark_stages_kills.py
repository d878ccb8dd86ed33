"""Drivers of a pipeline and their JVMs killed at random: every row through every stage once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from localkafka.waiting import wait_until
from tests.faults.test_spark_load_kills import LONGEST_S, QUICK, Driver
from tests.integration.stagepipelines import Place, Rows

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.faults]

KILLS = 10
ROWS = 20_000  # loaded before each run


class Run(Driver):
    """`sparkpipeline run PIPELINE` in a session of its own."""

    def __init__(self, log: Path, pipeline: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sparkpipeline.commands.main", "run", str(pipeline), *QUICK],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip


def test_kills_of_driver_and_jvm_in_the_middle_of_a_chain_lose_and_repeat_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("KILLS_SEED", "0")) or random.randrange(1 << 30)
    print(f"KILLS_SEED={seed}")
    chance = random.Random(seed)
    place = Place(tmp_path, None)
    pipeline = tmp_path / "pipeline.yaml"
    came_late = 0
    for n in range(KILLS):
        rows: Rows = [(f"{chance.randrange(4):02}", n * ROWS + i) for i in range(ROWS)]
        if n % 3 == 2:
            place.orders.rewind(rows[0][0], rows)
        else:
            place.orders.load(rows)
        run = Run(tmp_path / f"run-{n}.log", pipeline)
        # Most of a driver's time goes by before it plans anything: a kill there shows little.
        stage = chance.choice(("lines", "counts", "days"))
        wait_until(
            lambda run=run, stage=stage: run.said(rf"{stage}: batch \d+: takes") or run.process.poll() is not None,
            LONGEST_S, lambda n=n, stage=stage: f"run {n} to plan {stage}",
        )  # fmt: skip
        time.sleep(chance.uniform(0, 5))
        came_late += run.process.poll() is not None
        run.kill()
    last = Run(tmp_path / "last.log", pipeline)
    assert last.end() == 0, last.log.read_text()
    assert place.orders.offsets().total() >= ROWS
    place.assert_true()
    assert came_late <= KILLS // 2, "most kills came too late to show anything"
