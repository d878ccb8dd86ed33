"""What a ledger relies on, asked of s3a:// in a Spark session of its own: a session that runs takes no more jars.

`python -m tests.integration.s3promises CONF IGNORING_CONF` (files of JSON) prints a line for each question that was
answered rightly; the first that was not ends it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sparkpipeline.errors import OptionRefused
from sparkpipeline.ledger.base import open_files
from tests.integration.ledgerrounds import (
    every_error_on_the_way_is_made_good,
    of_two_drivers_at_once_one_wins_each_batch,
)
from tests.sparkpipeline.filescontract import (
    PROMISES,
    a_refusal_is_one_sentence_that_names_the_file,
    of_many_renames_to_one_name_one_wins,
)

NOT_ON_S3 = (
    of_many_renames_to_one_name_one_wins,  # a rename is a copy there
    a_refusal_is_one_sentence_that_names_the_file,  # what it refuses, a file below a file, S3 takes
)


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
    errors, race = every_error_on_the_way_is_made_good, of_two_drivers_at_once_one_wins_each_batch
    errors(
        spark, f"s3a://warehouse/{errors.__name__}", not_passed=5
    )  # an object is made at once: no "files before link"
    print(errors.__name__, flush=True)
    race(spark, f"s3a://warehouse/{race.__name__}")
    print(race.__name__, flush=True)
    a_store_that_ignores_conditions_is_refused(spark, "s3a://careless/orders")
    print(a_store_that_ignores_conditions_is_refused.__name__, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*(json.loads(Path(path).read_text()) for path in sys.argv[1:3]))
