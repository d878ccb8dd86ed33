"""Real processes on a real disk, ended by SIGKILL at fail points."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwork import failpoints
from sparkpipeline.ledger.exactlyonce import POINTS, Outcome, advance
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.local import LocalFiles
from sparkpipeline.ledger.verification import verify
from tests.sparkpipeline.ledgerchild import HEADS
from tests.sparkpipeline.ledgerworld import CopyWork, judge


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")


def child(base: Path, rounds: int, rewind: tuple[int, int] | None, points: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tests.sparkpipeline.ledgerchild", str(base), str(rounds), *map(str, rewind or ())]
    env = {**os.environ, failpoints.VARIABLE: points}
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)


def finish(base: Path) -> None:
    files = LocalFiles()
    work = CopyWork(files, HEADS)
    for _ in range(40):
        if advance(Ledger(files, str(base), snapshot_every=3), work, lambda _: None).outcome is Outcome.IDLE:
            break
    judge(files, str(base), HEADS)
    verdict = verify(Ledger(files, str(base)))
    assert verdict.good, verdict.findings
    assert not verdict.busy
    left = {finding.detail for finding in verdict.findings if finding.what == "leftover"}
    assert left <= {"a file that was being made when its process ended"}


DECISIVE = (
    "files before link",
    "ledger after seal",
    "ledger after commit",
    "ledger during publish",
    "ledger before done",
)


@pytest.mark.thorough
def test_a_process_killed_at_a_decisive_point_loses_nothing(tmp_path: Path) -> None:
    for number, point in enumerate(DECISIVE):
        killed = child(tmp_path / "orders", 2, (0, 5) if number % 2 else None, f"{point}=kill")
        assert killed.returncode == -9, killed.stderr
    finish(tmp_path / "orders")


@pytest.mark.faults
def test_processes_killed_at_random_points_150_times(tmp_path: Path) -> None:
    luck = random.Random(7)
    killed = 0
    for ledger in range(100):
        base = tmp_path / f"orders {ledger}"
        for _ in range(luck.randrange(1, 8)):
            rewind = (luck.randrange(2), luck.randrange(40)) if luck.random() < 0.4 else None
            point = f"{luck.choice(POINTS)}=kill@{luck.choice((1, 1, 2, 3, 5))}"
            killed += child(base, luck.randrange(1, 5), rewind, point).returncode == -9
        finish(base)
        if killed >= 150:
            break
    assert killed >= 150


@pytest.mark.faults
def test_two_processes_at_once_killed_at_random_moments(tmp_path: Path) -> None:
    """Two drivers race on one ledger; one of them is killed somewhere, at no named point."""
    luck = random.Random(8)
    for ledger in range(40):
        base = tmp_path / f"orders {ledger}"
        argv = [sys.executable, "-m", "tests.sparkpipeline.ledgerchild", str(base), "6"]
        racers = [subprocess.Popen([*argv, *rewind], stdout=-3, stderr=-3) for rewind in ([], ["0", "5"])]
        try:
            racers[0].wait(luck.uniform(0.15, 0.5))
        except subprocess.TimeoutExpired:
            racers[0].kill()
        for racer in racers:
            racer.wait(60)
        assert racers[1].returncode == 0
        finish(base)
