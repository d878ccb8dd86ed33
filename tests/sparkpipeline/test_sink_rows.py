"""Rows of record batches: columns, partitions, numbers; and what is refused about columns and options."""

from __future__ import annotations

import datetime
import pickle
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kafkawire.dialects import dialect
from kafkawire.model import TopicPartition
from producer.partitioners import byte_array_partitioner, default_partitioner, masking_partitioner, murmur2_partitioner
from producer.rows import Row
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import NotDelivered, OptionRefused
from sparkpipeline.sink import rowsender as module
from sparkpipeline.sink.rowsender import Columns, RowSender, columns_of
from sparkpipeline.sink.sinkoptions import SinkOptions

AT = {"kafka.bootstrap.servers": "b1:9092"}
EVERYTHING = Columns("value", "key", "topic", "partition", None)


class Taken:
    """A target that remembers; topic t has four partitions, of which 2 has no leader."""

    def __init__(self) -> None:
        self.rows: dict[TopicPartition, list[tuple[int, Row]]] = {}

    def partitions(self, topic: str) -> list[int]:
        return [0, 1, 2, 3]

    def led(self, topic: str) -> list[int]:
        return [0, 1, 3]

    def send(
        self,
        tp: TopicPartition,
        rows: Sequence[Row],
        numbers: Sequence[int],
        headers: Sequence[bytes | None] | None = None,
    ) -> None:
        self.rows.setdefault(tp, []).extend(zip(numbers, rows, strict=True))


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def taken(rule: str, *batches: pa.RecordBatch, columns: Columns = EVERYTHING, topic: str | None = None,
          release: str = "0.8.2", max_bytes: int = 1000) -> dict[TopicPartition, list[tuple[int, Row]]]:  # fmt: skip
    target = Taken()
    sender = RowSender(
        target,
        columns,
        topic=topic,
        partitioner=rule,
        dialect=dialect(release),
        max_bytes=max_bytes,
        task=7,
        rng=random.Random(3),
    )
    for each in batches:
        sender.take(each)
    sender.finish()
    return target.rows


def test_rows_wait_for_company_and_not_for_ever(monkeypatch):
    monkeypatch.setattr(module, "BUCKET_BYTES", 100)
    monkeypatch.setattr(module, "WAITING_BYTES", 200)
    target = Taken()
    sender = RowSender(target, EVERYTHING, topic=None, partitioner="default", dialect=dialect("0.8.2"), max_bytes=1000)
    sender.take(rows_of(1, partition=pa.array([0], pa.int32())))
    assert target.rows == {}  # 29 bytes
    sender.take(rows_of(3, partition=pa.array([0] * 3, pa.int32())))
    assert [n for n, _ in target.rows[TopicPartition("t", 0)]] == [0, 1, 2, 3]
    sender.take(rows_of(7, partition=pa.array([0, 1, 3, 0, 1, 3, 0], pa.int32())))
    assert {tp.partition: len(rows) for tp, rows in target.rows.items()} == {0: 7, 1: 2, 3: 2}


def rows_of(count: int, **changed: Any) -> pa.RecordBatch:
    columns = {"key": [b"k%d" % n for n in range(count)], "value": [b"%d" % n for n in range(count)],
               "topic": ["t"] * count, "partition": pa.array([None] * count, pa.int32())}  # fmt: skip
    return batch(**{**columns, **changed})


def test_a_named_partition_wins_and_rows_are_numbered_through_all_batches():
    first = rows_of(4, partition=pa.array([1, 0, 1, 3], pa.int32()))
    found = taken("default", first, rows_of(1, partition=pa.array([1], pa.int32())))
    assert {tp.partition: [n for n, _ in rows] for tp, rows in found.items()} == {1: [0, 2, 4], 0: [1], 3: [3]}
    assert [row.value for _, row in found[TopicPartition("t", 1)]] == [b"0", b"2", b"0"]


@pytest.mark.parametrize(
    ("rule", "text", "function"),
    [
        ("default", False, default_partitioner),
        ("default", True, default_partitioner),
        ("byte-array", True, lambda key, n: byte_array_partitioner(key.encode(), n)),
        ("murmur2", False, murmur2_partitioner),
        ("murmur2", True, murmur2_partitioner),
    ],
)
def test_a_key_decides_as_its_old_client_would(rule, text, function):
    keys = [f"ключ {n}" for n in range(50)]
    given = keys if text else [key.encode() for key in keys]
    found = taken(rule, rows_of(50, key=given))
    by_number = {number: tp.partition for tp, rows in found.items() for number, _ in rows}
    assert by_number == {n: function(key, 4) for n, key in enumerate(given)}
    assert {row.key for rows in found.values() for _, row in rows} == {key.encode() for key in keys}


def test_default_is_the_rule_of_the_target_release():
    keys = [random.Random(n).randbytes(20) for n in range(50)]
    old = taken("default", rows_of(50, key=keys), release="0.8.1")
    by_number = {n: tp.partition for tp, rows in old.items() for n, _ in rows}
    assert by_number == {n: masking_partitioner(key, 4) for n, key in enumerate(keys)}
    assert by_number != {n: default_partitioner(key, 4) for n, key in enumerate(keys)}


def test_rows_without_key_share_a_partition_with_a_leader():
    found = taken("default", rows_of(20, key=pa.array([None] * 20, pa.binary())))
    assert len(found) == 1
    assert next(iter(found)).partition != 2


def test_random_is_for_each_row_also_for_those_with_keys():
    found = taken("random", rows_of(200, key=[b"same"] * 200))
    assert {tp.partition for tp in found} == {0, 1, 3}


def test_the_option_topic_wins_over_the_column():
    assert {tp.topic for tp in taken("default", rows_of(3), topic="other")} == {"other"}


def test_a_null_topic_fails_by_its_row():
    with pytest.raises(NotDelivered, match="row=1 task=7: the column topic is null"):
        taken("default", rows_of(3, topic=["t", None, "t"]))


def test_a_topic_that_is_internal_at_the_target_fails_by_its_row():
    with pytest.raises(NotDelivered, match=r"topic=__transaction_state row=1 task=7: .*, which is internal"):
        taken("default", rows_of(3, topic=["t", "__transaction_state", "t"]))


def test_a_partition_that_is_not_there_fails_by_its_row():
    with pytest.raises(NotDelivered, match="topic=t partition=9 row=1 task=7: the topic has 4 partitions"):
        taken("default", rows_of(2, partition=pa.array([1, 9], pa.int32())))


def test_a_row_that_is_too_large_fails_before_it_is_sent():
    with pytest.raises(NotDelivered, match=r"row=1 task=7: a message of 1028 bytes .* kafka.message.max.bytes"):
        taken("default", rows_of(2, value=[b"x", b"y" * 1000]))


def test_nulls_and_empty_fields_stay_what_they_are():
    only = taken("default", rows_of(2, value=pa.array([None, b""], pa.binary()), key=[b"", b""]))
    assert [row for rows in only.values() for _, row in rows] == [Row(b"", None, None), Row(b"", b"", None)]


def test_timestamps_only_when_asked_for_and_only_where_messages_have_them():
    at = datetime.datetime(2015, 3, 4, 5, 6, 7, 890123, tzinfo=datetime.UTC)
    none = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=datetime.UTC)
    stamps = pa.array([at, None, none], pa.timestamp("us", tz="UTC"))
    stamped = Columns("value", "key", "topic", "partition", "timestamp")
    by_row = {n: row.timestamp_ms for rows in taken("default", rows_of(3, timestamp=stamps), columns=stamped,
              release="0.10.0").values() for n, row in rows}  # fmt: skip
    assert (by_row[0], by_row[2]) == (1425445567890, -1)
    assert by_row[1] is not None
    assert by_row[1] > 1425445567890
    plain = taken("default", rows_of(1, timestamp=stamps[:1]), release="0.10.0")
    assert all(row.timestamp_ms > 1425445567890 for rows in plain.values() for _, row in rows)
    assert {row.timestamp_ms for rows in taken("default", rows_of(3)).values() for _, row in rows} == {None}


# columns


@pytest.mark.parametrize(
    ("text", "extra", "sentence"),
    [
        ("key binary, topic string", {}, "column=value.*no column value"),
        ("value int, topic string", {}, "column=value: must be string or binary, and is int"),
        ("value binary, key bigint, topic string", {}, "column=key: must be string or binary, and is bigint"),
        ("value binary", {}, "option=topic: the option topic is needed"),
        ("value binary, topic binary", {}, "column=topic: must be string"),
        ("value binary, partition bigint", {"topic": "t"}, "column=partition: must be int, and is bigint"),
        ("value binary", {"topic": "t", "includeTimestamps": "true"}, "column=timestamp: includeTimestamps needs"),
        ("value binary, timestamp string", {"topic": "t", "includeTimestamps": "true"}, "must be timestamp"),
    ],
)
def test_columns_are_refused_as_sparks_own_format_does(text, extra, sentence):
    with pytest.raises(OptionRefused, match=sentence):
        columns_of(fields(text), SinkOptions.of({**AT, **extra}))


def fields(text: str) -> Any:
    """A schema without a JVM: (name, simpleString) pairs dressed as StructType's fields."""

    def kind(name: str) -> Any:
        return SimpleNamespace(simpleString=lambda: name)

    pairs = [column.split() for column in text.split(", ")]
    return SimpleNamespace(fields=[SimpleNamespace(name=name, dataType=kind(type_)) for name, type_ in pairs])


def test_other_columns_are_ignored_headers_too():
    given = fields("Value string, offset bigint, headers array<struct<key:string>>, timestamp string, topic int")
    assert columns_of(given, SinkOptions.of({**AT, "topic": "t"})) == Columns("Value", None, None, None, None)


# options


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"kafka.acks": "0"}, "gives no acknowledgement"),
        ({"kafka.request.required.acks": "2"}, "expected -1"),
        ({"kafka.key.serializer": "x"}, "option 'kafka.key.serializer' is not supported: .*cast"),
        ({"kafka.transactional.id": "x"}, "at least once"),
        ({"kafka.enable.idempotence": "true"}, "only false is taken: .*0.11"),
        ({"kafka.security.protocol": "TLS"}, "'kafka.security.protocol' is 'TLS', expected"),
        ({"kafka.security.protocol": "SASL_SSL"}, "needs 'kafka.sasl.mechanism'"),
        ({"kafka.ssl.keystore.location": "k.jks"}, "give kafka.ssl.certificate.location"),
        ({"kafka.compresion.codec": "gzip"}, "did you mean 'kafka.compression.codec'"),
        ({"tpic": "t"}, "did you mean 'topic'"),
        ({"partitioner": "round"}, "one of default, byte-array, murmur2"),
        ({"kafka.compression.codec": "lzma"}, "one of none, gzip"),
        ({"topic": " "}, "'topic' is empty"),
        ({"topic": "__transaction_state"}, "'topic' is '__transaction_state', which is internal"),
        ({"path": "/tmp/x"}, "option topic says"),
        ({"protocol": "0.7"}, "option 'protocol': brokers of Kafka 0.7.2 acknowledge nothing"),
        ({"zookeeper.auth": "digest:me:secret"}, "'zookeeper.connect' is reached, which is not given"),
        ({"zookeeper.connect": "zk:1", "zookeeper.ssl.ca.location": "ca.pem"}, "nothing would be TLS"),
        ({"kafka.request.timeout.ms": "2147483648"}, "a request can carry 2147483647"),
        ({"kafka.acks": "1", "kafka.request.required.acks": "-1"}, "two names of one thing"),
    ],
)
def test_options_are_refused_with_what_helps(given, sentence):
    with pytest.raises(OptionRefused, match=sentence):
        SinkOptions.of({**AT, **given})


def test_brokers_are_needed():
    with pytest.raises(OptionRefused, match=r"kafka.bootstrap.servers.* is missing"):
        SinkOptions.of({"topic": "t"})
    assert SinkOptions.of({"zookeeper.connect": "zk:2181/a"}).zookeeper_connect == "zk:2181/a"


def test_names_are_those_of_spark_of_the_old_producers_and_in_any_case():
    old = SinkOptions.of({
        "KAFKA.METADATA.BROKER.LIST": "b1:9092", "kafka.request.required.acks": "-1", "kafka.compression.codec": "2",
        "kafka.partitioner.class": "kafka.producer.ByteArrayPartitioner", "kafka.message.send.max.retries": "5",
    })  # fmt: skip
    new = SinkOptions.of({**AT, "kafka.acks": "all", "kafka.compression.type": "snappy", "Partitioner": "byte-array",
                          "kafka.retries": "5"})  # fmt: skip
    assert old == new
    config = new.producer(ClusterAccess((), "0.8.2"))
    assert (config.acks, config.codec, config.retries) == (-1, "snappy", 5)
    assert pickle.loads(pickle.dumps(config)) == config


def test_what_has_no_effect_is_told_but_not_what_spark_itself_adds():
    given = SinkOptions.of({**AT, "kafka.linger.ms": "5", "checkpointlocation": "/tmp/c"})
    assert len(given.warnings) == 1
    assert "kafka.linger.ms" in given.warnings[0]


def test_a_release_without_the_codec_or_timestamps_is_told_so():
    with pytest.raises(OptionRefused, match=r"lz4 is not known to Kafka 0\.8\.1"):
        SinkOptions.of({**AT, "kafka.compression.codec": "lz4"}).producer(ClusterAccess((), "0.8.1"))
    with pytest.raises(OptionRefused, match=r"messages of Kafka 0\.8\.2 have no timestamps"):
        SinkOptions.of({**AT, "includeTimestamps": "true"}).producer(ClusterAccess((), "0.8.2"))
    assert SinkOptions.of({**AT, "includeTimestamps": "true"}).producer(ClusterAccess((), "0.10.0")).version == "0.10.0"
    with pytest.raises(OptionRefused, match=r"messages of Kafka 0\.10\.2 have no headers"):
        SinkOptions.of({**AT, "includeHeaders": "true"}).producer(ClusterAccess((), "0.10.2"))
    SinkOptions.of({**AT, "includeHeaders": "true"}).producer(ClusterAccess((), "2.8"))
