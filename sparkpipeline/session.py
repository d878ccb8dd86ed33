"""A Spark session with the settings that every job here relies on."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

SETTINGS = {
    # Hours are UTC hours, whatever the machine's zone is.
    "spark.sql.session.timeZone": "UTC",
    # The default, INT96, is read by nothing but Hadoop's own tools without trouble.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Version 2 may leave files of failed task attempts behind.
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "1",
    # Half the cost of a Python task, and a fifth more throughput than loopback TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    # The plan of a stream shows its options: Spark masks those whose names match, by itself only "url".
    "spark.sql.redaction.options.regex": r"(?i)url|zookeeper\.auth",
}


def spark_session(name: str, master: str | None = None, conf: Mapping[str, str] | None = None) -> Any:
    """The running session, or a new one.  master and conf as spark-submit takes them; conf has the last word.

    Workers run this interpreter unless PYSPARK_PYTHON names another: Spark's own default is whatever python3 is on the
    PATH.  Raises what Spark raises.
    """
    from pyspark.sql import SparkSession  # here: half a second, and tasks never need it

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**SETTINGS, **(conf or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if _in_a_zip():
        _register(session)
    return session


def session_beside(spark: Any) -> Any:
    """A session of its own in the same application: its views and settings meet nobody else's."""
    session = spark.newSession()
    if _in_a_zip():
        session.createDataFrame([], "a int")  # makes it the active one: there Spark looks whether a format is known
        _register(session)
    return session


def _in_a_zip() -> bool:
    """Whether we came by --py-files: that is not there yet when Spark looks for modules named pyspark_*."""
    return not os.path.isfile(__file__)


def _register(session: Any) -> None:
    """Every session knows only formats that were registered in it."""
    from sparkpipeline.datasource import Kafka08DataSource

    session.dataSource.register(Kafka08DataSource)
