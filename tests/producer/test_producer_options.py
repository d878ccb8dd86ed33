"""Options of a producer: JVM files, names of 0.7, and what is wrong with values."""

from __future__ import annotations

import pytest

from groundwork.options import OptionError, load, warnings_of
from kafkawire.dialects import dialect
from kafkawire.errors import LocalError
from producer.config import ProducerConfig
from producer.producer import Producer


def test_a_jvm_file_is_read_as_it_is():
    values = {
        "metadata.broker.list": "h1:9092, h2:9093",
        "producer.type": "sync",
        "compression.codec": "2",
        "serializer.class": "kafka.serializer.StringEncoder",
        "partitioner.class": "kafka.producer.ByteArrayPartitioner",
        "request.required.acks": "1",
    }
    config = load(ProducerConfig, values, "p.properties", jvm=True)
    assert (config.brokers, config.codec, config.acks) == ((("h1", 9092), ("h2", 9093)), "snappy", 1)
    assert (config.encoder, config.partitioner) == (
        "producer.encoders:as_text",
        "producer.partitioners:byte_array_partitioner",
    )
    assert config.sync
    assert not warnings_of(config)


def test_0_7_names_are_read_too():
    values = {"broker.list": "0:h1:9092,1:h2:9092", "queue.time": "100", "batch.size": "50", "num.retries": "7"}
    config = load(ProducerConfig, values, "old.properties", jvm=True)
    assert config.brokers == (("h1", 9092), ("h2", 9092))
    assert (config.linger_ms, config.batch_messages, config.retries) == (100, 50, 7)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "metadata.broker.list"),
        ({"metadata.broker.list": "h1"}, "'h1' is not host:port"),
        ({"metadata.broker.list": "h1:0"}, "port '0'"),
        ({"metadata.broker.list": "h:1", "compression.codec": "zip"}, "none, gzip, snappy, lz4"),
        ({"metadata.broker.list": "h:1", "compression.codec": "lz4", "kafka.version": "0.8.1"}, "lz4 is not known to"),
        ({"metadata.broker.list": "h:1", "batch.num.messages": "20000"}, "larger than queue.buffering.max.messages"),
        (
            {"metadata.broker.list": "h:1", "zookeeper.auth": "digest:ann:s3cret"},
            "'zookeeper.connect' is reached, which",
        ),
        ({"zookeeper.connect": "h:1", "zookeeper.auth": "ann:s3cret"}, "is ***, expected digest:USER:PASSWORD"),
        ({"zookeeper.connect": "h:1", "zookeeper.ssl.ca.location": "/ca.pem"}, "nothing would be TLS"),
        ({"metadata.broker.list": "h:1", "request.required.acks": "-2"}, "'-2', expected at least -1"),
        ({"metadata.broker.list": "h:1", "request.required.acks": "40000"}, "at most 32767"),
        (
            {"metadata.broker.list": "h:1", "request.required.acks": "2", "kafka.version": "0.9"},
            "request.required.acks=2: Kafka 0.9 refuses a number of replicas (error 21",
        ),
        ({"metadata.broker.list": "h:1", "request.required.ack": "1"}, "did you mean 'request.required.acks'"),
    ],
)
def test_wrong_options_are_named(values: dict[str, str], said: str):
    with pytest.raises(OptionError) as raised:
        load(ProducerConfig, values, "p.properties", jvm=True)
    assert said in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("release", ["0.8.0", "0.8.1", "0.8.2"])
def test_a_number_of_replicas_is_for_the_releases_that_count_them(release: str):
    values = {"metadata.broker.list": "h:1", "request.required.acks": "2", "kafka.version": release}
    assert load(ProducerConfig, values, "p.properties", jvm=True).acks == 2


def test_an_encoder_that_is_not_there_is_named():
    config = ProducerConfig(brokers=(("h", 1),), encoder="producer.encoders:as_xml")
    with pytest.raises(LocalError, match=r"producer\.encoders:as_xml"):
        Producer(config)


UNFIT = [
    (
        {"enable.idempotence": "true"},
        "0.10.2",
        "enable.idempotence: Kafka 0.10.2 cannot; brokers support it since 0.11",
    ),
    ({"compression.codec": "zstd"}, "2.0", "compression.codec zstd is not known to Kafka 2.0"),
    ({"request.required.acks": "2"}, "0.9", "request.required.acks=2: Kafka 0.9 refuses a number of replicas"),
]


@pytest.mark.parametrize(("values", "release", "said"), UNFIT)
def test_only_a_release_that_is_named_excludes_options_at_once(values: dict[str, str], release: str, said: str):
    values = {"metadata.broker.list": "h:1", **values}
    config = load(ProducerConfig, values, "p.properties", jvm=True)
    assert [why[: len(said)] for why in config.unfit(dialect(release))] == [said]
    with pytest.raises(OptionError, match=said[:20]):
        load(ProducerConfig, {**values, "kafka.version": release}, "p.properties", jvm=True)
