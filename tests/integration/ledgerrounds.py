"""Rounds of a ledger on the file system of a Spark session, the same on HDFS and on S3."""

from __future__ import annotations

import threading
from typing import Any

from groundwork import failpoints
from groundwork.failpoints import FailpointReached
from sparkpipeline.ledger.base import open_files
from sparkpipeline.ledger.exactlyonce import POINTS, Outcome, advance
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.verification import verify
from tests.sparkpipeline.ledgerworld import CopyWork, judge

HEADS = (40, 25)
DRIVER_S = 600  # until a driver has to be through


def run(spark: Any, base: str, rewind: tuple[int, int] | None = None) -> Outcome:
    files = open_files(base, spark)
    return advance(Ledger(files, base, snapshot_every=2), CopyWork(files, HEADS, rewind=rewind), lambda _: None).outcome


def every_error_on_the_way_is_made_good(spark: Any, base: str, not_passed: int) -> None:
    """Each point once, one after the other on one ledger, with rewinds between.

    not_passed: points that a run need not pass; one with nothing to trash or to sum up leaves out four.
    """
    reached = 0
    try:
        for number, point in enumerate(POINTS):
            failpoints.arm(f"{point}=raise@1")
            try:
                run(spark, base, rewind=(0, 12) if number % 3 == 0 else None)
            except FailpointReached:
                reached += 1
    finally:
        failpoints.arm("")
    while run(spark, base) is not Outcome.IDLE:
        pass
    assert reached >= len(POINTS) - not_passed, reached
    files = open_files(base, spark)
    judge(files, base, HEADS)
    assert verify(Ledger(files, base)).good


def of_two_drivers_at_once_one_wins_each_batch(spark: Any, base: str) -> None:
    ends: list[Outcome] = []

    def drive() -> None:
        while (end := run(spark, base)) is not Outcome.IDLE:
            ends.append(end)

    drivers = [threading.Thread(target=drive) for _ in range(2)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join(DRIVER_S)
        assert not driver.is_alive()
    files = open_files(base, spark)
    judge(files, base, HEADS)
    assert ends.count(Outcome.DONE) == len(list(Ledger(files, base).manifests())) == 4
