"""Passwords of ZooKeeper stay on the driver: what Spark pickles into tasks holds none."""

from __future__ import annotations

import base64
import pickle
import re
import zlib
from pathlib import Path
from types import SimpleNamespace

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, StructField, StructType

from groundwork.options import Secret
from kafkawire.net.security import Sasl, Security
from sparkpipeline.backfill.backfillplan import SECRETS
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.datasource import Kafka08DataSource
from sparkpipeline.driver import queryoptions
from sparkpipeline.reading.readoptions import ReadOptions
from sparkpipeline.source.exactplan import ExactPlan
from sparkpipeline.source.sourceoptions import PLAN, SECRET
from tests.fakes.broker import FakeCluster

SCHEMA = StructType([StructField("value", BinaryType())])
REDACTED = "(?i)secret|password|token|access[.]?key"  # spark.redaction.regex
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


def test_those_for_brokers_go_to_tasks_in_their_access_alone_and_are_masked() -> None:
    given = {**GIVEN, "kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    given |= {"kafka.sasl.username": "ann", "Kafka.Sasl.Password": "hush three"}
    source = Kafka08DataSource(CaseInsensitiveDict(given))
    reader = source.reader(SCHEMA)
    assert b"hush" not in pickle.dumps((source, reader))
    access = ClusterAccess((("b", 9092),), security=reader.options.kafka_security)
    assert "hush" not in repr(access)
    sasl = pickle.loads(pickle.dumps(access)).security.sasl
    assert sasl.password.text == "hush three"


def test_an_exact_plan_has_its_passwords_beside_it_by_a_name_that_spark_redacts() -> None:
    security = Security(protocol="SASL_PLAINTEXT", sasl=Sasl("PLAIN", "ann", Secret("hush")))
    plan = ExactPlan((), ClusterAccess((("b", 9092),), security=security), ReadOptions())
    options: dict[str, str] = {}

    class Reading:
        def option(self, name: str, value: str) -> Reading:
            options[name] = value
            return self

        def format(self, name: str) -> Reading:
            return self

        def schema(self, text: str) -> Reading:
            return self

        def load(self) -> None: ...

    plan.frame(SimpleNamespace(read=Reading()))
    assert options.keys() == {PLAN, SECRET}
    assert re.search(REDACTED, SECRET)
    assert b"hush" not in zlib.decompress(base64.b64decode(options[PLAN]))
    assert ExactPlan.in_options(options) == plan


def test_a_backfill_writes_none_of_them_down() -> None:
    assert set(SECRETS) == {"zookeeper.auth", "zookeeper.ssl.key.password", *queryoptions.SECRETS}
