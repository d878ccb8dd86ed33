"""Options of a consumer of 0.7: what goes with it, and what does not, in sentences."""

from __future__ import annotations

import pytest

from groundwork.java import read_properties
from groundwork.options import OptionError, warnings_of
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from zkconsumer.connector import ConsumerConnector
from zkconsumer.options.config import ConsumerConfig, load_consumer

NEEDED: dict[str, object] = {
    "group.id": "g",
    "zookeeper.connect": "zk1:2181",
    "auto.offset.reset": "smallest",
    "kafka.version": "0.7.2",
}
FIXED: dict[str, object] = {
    "group.id": "g",
    "partitions": {"orders": ["0-1", "3-0"], "clicks": ["10-0", "2-0"]},
    "broker.list": "0:h0:9092,2:h2:9092,3:h3:9092,10:h10:9092",
    "offsets.file": "/tmp/offsets.json",
    "auto.offset.reset": "smallest",
    "kafka.version": "0.7",
}


def load(values: dict[str, object], **more: object) -> ConsumerConfig:
    return load_consumer(ConsumerConfig, values | {k.replace("_", "."): v for k, v in more.items()}, "consumer.yaml")


def problems(values: dict[str, object], **more: object) -> str:
    with pytest.raises(OptionError) as caught:
        load(values, **more)
    return "\n".join(caught.value.problems)


def test_a_properties_file_of_0_7_is_read_as_it_is() -> None:
    text = """
        zk.connect=zk1:2181/kafka07
        zk.sessiontimeout.ms=4000
        groupid=billing
        fetch.size=307200
        fetcher.backoff.ms=250
        autocommit.interval.ms=10000
        queuedchunks.max=10
    """
    config = load_consumer(
        ConsumerConfig, {**read_properties(text), "kafka.version": "0.7.2"}, "c.properties", jvm=True
    )
    assert (config.group_id, config.fetch_message_max_bytes, config.fetcher_backoff_ms) == ("billing", 307200, 250)
    assert config.auto_offset_reset == "smallest"  # as the JVM's 0.7
    assert not any("fetcher.backoff" in warning for warning in warnings_of(config))


@pytest.mark.parametrize("size", ["0", "3", "-1", "1023"])
def test_a_fetch_size_that_holds_no_message_is_refused(size: str) -> None:
    with pytest.raises(OptionError, match=r"fetch\.size"):
        load_consumer(
            ConsumerConfig,
            {"zk.connect": "h", "groupid": "g", "fetch.size": size, "kafka.version": "0.7"},
            "consumer.properties",
            jvm=True,
        )


@pytest.mark.parametrize("dual", [None, False, True])
def test_offsets_in_kafka_are_refused_and_the_way_is_named(dual: bool | None) -> None:
    more = {} if dual is None else {"dual.commit.enabled": dual}
    said = problems({**NEEDED, "offsets.storage": "kafka", **more})
    assert "'offsets.storage' kafka: Kafka 0.7.2 keeps no offsets; keep them in zookeeper" in said
    assert "`zkconsumer offsets translate`" in said


def test_only_range_divides_a_group_of_0_7() -> None:
    assert "members of Kafka 0.7.2 know range only" in problems(
        {**NEEDED, "partition.assignment.strategy": "roundrobin"}
    )


@pytest.mark.parametrize(
    ("release", "given", "idle"),
    [
        ("0.7.2", {"fetch.wait.max.ms": 200}, "fetch.wait.max.ms"),
        ("0.8.2", {"fetcher.backoff.ms": 5}, "fetcher.backoff"),
    ],
)
def test_an_option_of_the_other_generation_has_no_effect_and_that_is_told(release, given, idle) -> None:
    (warning,) = warnings_of(load({**NEEDED, "kafka.version": release, **given}))
    assert f"option '{idle}" in warning
    assert f"has no effect with Kafka {release}" in warning


def test_fixed_partitions_are_named_by_broker_and_come_sorted() -> None:
    config = load(FIXED)
    assert [str(tp) for tp in config.partitions] == ["clicks/2-0", "clicks/10-0", "orders/0-1", "orders/3-0"]
    assert config.partitions[0] == TopicPartition("clicks", BrokerPartition(2, 0))
    assert config.broker_list[1] == Broker(2, "h2", 9092)
    assert load({**FIXED, "partitions": "orders:0-1,3-0;clicks:10-0,2-0"}).partitions == config.partitions


def test_fixed_partitions_need_the_address_of_each_broker() -> None:
    said = problems({**FIXED, "broker.list": "0:h0:9092,3:h3:9092"})
    assert "'broker.list' names no broker 2, which clicks/2-0 of 'partitions' is on: give the address of each" in said
    without = {key: value for key, value in FIXED.items() if key != "broker.list"}
    said = problems({**without, "metadata.broker.list": "h0:9092"})
    assert "brokers of Kafka 0.7.2 do not know which broker has which partition; give 'broker.list'" in said
    assert "option 'broker.list' is 'h0:9092', expected id:host:port" in problems({**FIXED, "broker.list": "h0:9092"})


def test_partitions_of_the_other_generation_are_refused() -> None:
    said = problems({**FIXED, "partitions": {"orders": [0]}})
    assert "orders/0 is not a partition of Kafka 0.7.2 (kafka.version), where it is broker-index, as 0-3" in said
    numbered = {**FIXED, "kafka.version": "0.8.2", "metadata.broker.list": "h:1"}
    assert "is not a partition of Kafka 0.8.2" in problems(numbered)


def test_a_group_has_no_broker_list() -> None:
    assert "'broker.list' is for fixed 'partitions'" in problems({**NEEDED, "broker.list": "0:h:1"})


def test_a_release_that_the_program_names_has_to_go_with_the_options() -> None:
    group = {**NEEDED, "kafka.version": "0.8.2", "offsets.storage": "kafka"}
    assert ConsumerConnector(group)._versions.dialect.release == "0.8.2"
    with pytest.raises(OptionError, match=r"ConsumerConnector: .*Kafka 0\.7\.2 keeps no offsets"):
        ConsumerConnector(group, release="0.7.2")
    assert ConsumerConnector(NEEDED)._versions.dialect.release == "0.7.2"
