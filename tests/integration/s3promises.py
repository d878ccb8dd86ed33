"""What a ledger relies on, asked of s3a:// in a Spark session of its own: a session that runs takes no more jars.

`python -m tests.integration.s3promises CONF IGNORING_CONF` (files of JSON) prints a line for each question that was
answered rightly; the first that was not ends it.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from groundwork import failpoints
from groundwork.failpoints import FailpointReached
from sparkpipeline.errors import OptionRefused
from sparkpipeline.ledger.base import open_files
from sparkpipeline.ledger.exactlyonce import POINTS, Outcome, advance
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.verification import verify
from tests.sparkpipeline.filescontract import (
    PROMISES,
    a_refusal_is_one_sentence_that_names_the_file,
    of_many_renames_to_one_name_one_wins,
)
from tests.sparkpipeline.ledgerworld import CopyWork, judge

HEADS = (40, 25)
NOT_ON_S3 = (
    of_many_renames_to_one_name_one_wins,  # a rename is a copy there
    a_refusal_is_one_sentence_that_names_the_file,  # what it refuses, a file below a file, S3 takes
)


def run(spark: Any, base: str, rewind: tuple[int, int] | None = None) -> Outcome:
    files = open_files(base, spark)
    return advance(Ledger(files, base, snapshot_every=2), CopyWork(files, HEADS, rewind=rewind), lambda _: None).outcome


def every_error_on_the_way_is_made_good(spark: Any, base: str) -> None:
    """Each point once, one after the other on one ledger, with rewinds between."""
    reached = 0
    for number, point in enumerate(POINTS):
        failpoints.arm(f"{point}=raise@1")
        try:
            run(spark, base, rewind=(0, 12) if number % 3 == 0 else None)
        except FailpointReached:
            reached += 1
    failpoints.arm("")
    while run(spark, base) is not Outcome.IDLE:
        pass
    # An object is made in one request ("files before link"), and a run with nothing to sum up passes fewer points.
    assert reached >= len(POINTS) - 5, reached
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
        driver.join(600)
        assert not driver.is_alive()
    files = open_files(base, spark)
    judge(files, base, HEADS)
    assert ends.count(Outcome.DONE) == len(list(Ledger(files, base).manifests())) == 4


def a_store_that_ignores_conditions_is_refused(spark: Any, base: str) -> None:
    files = open_files(base, spark)
    with pytest.raises(OptionRefused, match="the store ignores If-None-Match"):
        files.create(f"{base}/_load/plans/1.json", b"1")
    assert files.list(f"{base}/_load/plans") == []


def main(conf: dict[str, str], ignoring: dict[str, str]) -> None:
    """conf: of a stand-in that keeps conditions; ignoring: of one that does not."""
    local = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    other = {f"{name.replace('s3a.', 's3a.bucket.careless.')}": value for name, value in ignoring.items()}
    builder = SparkSession.builder.appName("s3").master("local[1]")
    spark = builder.config(map={**other, **conf, **local}).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for promise in PROMISES:
        if promise not in NOT_ON_S3:
            base = f"s3a://warehouse/{promise.__name__}"
            promise(open_files(base, spark), base)
            print(promise.__name__, flush=True)
    for question in (every_error_on_the_way_is_made_good, of_two_drivers_at_once_one_wins_each_batch):
        question(spark, f"s3a://warehouse/{question.__name__}")
        print(question.__name__, flush=True)
    a_store_that_ignores_conditions_is_refused(spark, "s3a://careless/orders")
    print(a_store_that_ignores_conditions_is_refused.__name__, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*(json.loads(Path(path).read_text()) for path in sys.argv[1:3]))
