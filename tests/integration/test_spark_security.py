"""Spark on a real broker that wants TLS and a login: written, read, streamed, loaded, copied, audited."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groundwork.output import EXIT
from localkafka.kraft import KraftBroker
from sparkpipeline.commands.cli import outcome
from sparkpipeline.load.config import config_of
from tests.conftest import Unique
from tests.integration.securedbrokers import SecuredBroker, kraft
from tests.integration.sparkloads import Job

pytestmark = [pytest.mark.real, pytest.mark.spark]
SCRAM, PLAIN = "SCRAM-SHA-512", "PLAIN"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    protocols = {"MUTUAL": "SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL"}
    with kraft(tmp_path_factory.mktemp("secured"), "3.9.1", protocols) as found:
        yield found


def created(secured: SecuredBroker, topic: str) -> str:
    broker: KraftBroker = secured.broker
    broker.topics("--create", "--topic", topic, "--partitions", "2")
    return topic


def options(secured: SecuredBroker, listener: str, mechanism: str = "", **more: str) -> dict[str, str]:
    given = {f"kafka.{key}": value for key, value in secured.options(listener, mechanism, **more).items()}
    return {"kafka.bootstrap.servers": secured.address(listener), **given}


def read(spark: Any, **with_options: str) -> Any:
    return spark.read.format("kafka08").options(**with_options).load()


def values(frame: Any) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


@pytest.fixture(scope="module")
def topic(spark: Any, secured: SecuredBroker) -> str:
    """200 rows, written by tasks that log in by SCRAM over TLS."""
    name = created(secured, "spark-secured")
    rows = spark.range(0, 200, 1, 2).selectExpr("cast(id as string) value", "cast(id % 2 as int) partition")
    with_options = options(secured, "SASL_SSL", SCRAM)
    rows.write.format("kafka08").mode("append").options(**with_options, topic=name).save()
    return name


def test_rows_are_written_and_read_over_every_listener(spark: Any, secured: SecuredBroker, topic: str) -> None:
    for listener, mechanism in (("SASL_SSL", SCRAM), ("SASL_PLAINTEXT", PLAIN), ("MUTUAL", "")):
        frame = read(spark, **options(secured, listener, mechanism), subscribe=topic)
        assert values(frame) == list(range(200)), listener


def test_a_stream_and_a_load_log_in(spark: Any, secured: SecuredBroker, topic: str, tmp_path: Path) -> None:
    with_options = options(secured, "SASL_SSL", PLAIN)
    stream = spark.readStream.format("kafka08").options(**with_options, subscribe=topic, startingOffsets="earliest")
    query = (
        stream.load().select("value").writeStream.format("parquet").option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(90)
    assert values(spark.read.parquet(str(tmp_path / "out"))) == list(range(200))
    reach = {"bootstrap.servers": secured.address("SASL_SSL"), **secured.options("SASL_SSL", SCRAM)}
    of = Job(config_of({"base": str(tmp_path / "load"), "topics": [topic], **reach}, "test"), spark)
    of.run()
    assert len(of.rows()) == 200
    of.check()
    assert not any("password" in path.read_text() for path in (tmp_path / "load").rglob("*.json"))


def test_a_backfill_and_an_audit_log_in_at_both_ends(
    spark: Any, secured: SecuredBroker, topic: str, unique: Unique, tmp_path: Path, capsys: Any
) -> None:
    """Two clusters of one broker: a backfill goes to a topic of the same name, so it begins at its end."""
    sides = {"source": ("SASL_SSL", SCRAM), "target": ("MUTUAL", "")}
    reach = ["--topics", topic, "--source-brokers", secured.address("SASL_SSL"),
             "--target-brokers", secured.address("MUTUAL")]  # fmt: skip
    for side, (listener, mechanism) in sides.items():
        for key, value in secured.options(listener, mechanism).items():
            reach += [f"--{side}-option", f"kafka.{key}={value}"]
    assert outcome(["backfill", str(tmp_path / "b"), *reach, "--shared", "--execute"]) == EXIT["done"]
    frame = read(spark, **options(secured, "MUTUAL"), subscribe=topic)
    assert values(frame) == sorted([*range(200), *range(200)])
    half = ["--from", f'{{"{topic}":{{"0":0,"1":0}}}}', "--to", f'{{"{topic}":{{"0":100,"1":100}}}}']
    rest = ["--target-from", f'{{"{topic}":{{"0":100,"1":100}}}}', "--target-to", f'{{"{topic}":{{"0":200,"1":200}}}}']
    assert outcome(["audit", *reach, *half, *rest]) == EXIT["done"]
    assert not any(b"secret" in path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"sasl_password": "another"}, "KAFKA08_"), ({"ssl_ca_location": ""}, "KAFKA08_")],
)
def test_what_is_wrong_is_said_when_the_query_is_planned(
    spark: Any, secured: SecuredBroker, topic: str, wrong: dict[str, str], says: str
) -> None:
    began = time.monotonic()
    with pytest.raises(Exception, match=says) as failed:
        read(spark, **options(secured, "SASL_SSL", SCRAM, **wrong), subscribe=topic).count()
    assert time.monotonic() - began < 60
    assert "another" not in str(failed.value)
