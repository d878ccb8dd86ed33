"""Passwords of ZooKeeper stay on the driver: what Spark pickles into tasks holds none."""

from __future__ import annotations

import pickle
from pathlib import Path

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, StructField, StructType

from sparkpipeline.datasource import Kafka08DataSource
from tests.fakes.broker import FakeCluster

SCHEMA = StructType([StructField("value", BinaryType())])
GIVEN = {
    "kafka.bootstrap.servers": "b:9092",
    "subscribe": "orders",
    "startingOffsets": "earliest",
    "zookeeper.connect": "zk:2181",
    "ZooKeeper.Auth": "digest:me:hush-hush",
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.ssl.key.password": "hush-hush too",
}


def made() -> Kafka08DataSource:
    return Kafka08DataSource(CaseInsensitiveDict(GIVEN))


def test_a_source_that_is_asked_for_a_reader_still_knows_them() -> None:
    again = pickle.loads(pickle.dumps(made()))
    assert again.options["zookeeper.auth"] == "digest:me:hush-hush"
    assert again.reader(SCHEMA).options.zookeeper_auth.text == "digest:me:hush-hush"


def test_what_goes_to_the_tasks_of_a_batch_holds_none(tmp_path: Path) -> None:
    source = made()
    reader = source.reader(SCHEMA)
    both = pickle.dumps((source, reader))
    assert b"hush" not in both
    assert reader.options.zookeeper_auth is not None  # it still has to ask ZooKeeper, here
    _, theirs = pickle.loads(both)
    assert theirs.options.bootstrap == (("b", 9092),)
    assert theirs.columns == ("value",)


def test_what_goes_to_the_tasks_of_a_stream_holds_none() -> None:
    source = made()
    reader = source.streamReader(SCHEMA)
    both = pickle.dumps((source, reader))
    assert b"hush" not in both
    assert pickle.loads(both)[1].options.zookeeper_connect == "zk:2181"


def test_what_goes_to_the_tasks_of_a_writer_holds_none() -> None:
    reading = {"subscribe", "startingOffsets"}
    with FakeCluster({"orders": 1}) as cluster:
        (broker,) = cluster.bootstrap
        given = {name: value for name, value in GIVEN.items() if name not in reading}
        given |= {"kafka.bootstrap.servers": "{}:{}".format(*broker), "topic": "orders", "protocol": "0.8"}
        writer = Kafka08DataSource(CaseInsensitiveDict(given)).writer(SCHEMA, False)
    assert b"hush" not in pickle.dumps(writer)
