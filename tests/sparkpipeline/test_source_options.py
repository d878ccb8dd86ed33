"""Options of the source: names in any case, refusals with what to write instead, one table for docs."""

import logging
from pathlib import Path

import pytest

from groundwork.options import Secret
from kafkawire.model import BrokerPartition, TopicPartition
from kafkawire.net.security import OPEN, Sasl
from sparkpipeline.commands import reference
from sparkpipeline.errors import OptionRefused
from sparkpipeline.source.offsetbounds import Fixed, Offsets, Time
from sparkpipeline.source.sourceoptions import OF_SPARK, REFUSED, WITHOUT_EFFECT, Limits, checked_options

WHERE = {"kafka.bootstrap.servers": "b1:9092,b2:9093", "subscribe": "orders"}


def read(streaming=False, **options):
    return checked_options({**WHERE, **options}, streaming)


def refused(says, streaming=False, without=(), **options):
    given = {name: value for name, value in {**WHERE, **options}.items() if name not in without}
    with pytest.raises(OptionRefused) as caught:
        checked_options(given, streaming)
    assert says in str(caught.value), str(caught.value)


def test_names_are_taken_in_any_case_as_spark_hands_them_over():
    options = checked_options({name.lower(): value for name, value in
                                {**WHERE, "startingOffsets": "earliest", "failOnDataLoss": "False",
                                 "kafka.fetch.message.max.bytes": "2000"}.items()}, False)  # fmt: skip
    assert options.bootstrap == (("b1", 9092), ("b2", 9093))
    assert options.subscription.topics == ("orders",)
    assert options.fetch_bytes == 2000
    assert not options.fail_on_data_loss


def test_the_old_names_of_the_old_clients_are_taken_too():
    options = checked_options(
        {"kafka.metadata.broker.list": "b:1", "subscribe": "t", "kafka.request.timeout.ms": "700"}, False
    )
    assert (options.bootstrap, options.socket_timeout_ms) == ((("b", 1),), 700)
    refused("are two names of one thing and differ", **{"kafka.metadata.broker.list": "other:1"})


def test_an_unknown_option_names_the_nearest_known_one():
    refused("option 'startingOffset' is unknown; did you mean 'startingOffsets'?", startingOffset="earliest")
    refused("option 'STARTINGOFFSET' is unknown; did you mean 'startingOffsets'?", STARTINGOFFSET="earliest")
    refused("option 'kafka.fetch.min.byte' is unknown", **{"kafka.fetch.min.byte": "1"})
    refused("option 'path' is unknown", path="/tmp/x")


def test_all_that_is_wrong_is_said_at_once():
    refused("option 'path' is unknown; kafka08: option 'minPartitions' is '0', expected at least 1",
            path="/tmp/x", minPartitions="0")  # fmt: skip


@pytest.mark.parametrize(
    "name", ["kafka.fetch.message.max.bytes", "fetchBytesCap", "kafka.fetch.min.bytes", "kafka.fetch.wait.max.ms"]
)
def test_a_number_that_no_request_can_carry_is_refused_before_a_task_begins(name):
    refused(f"option '{name}' is {1 << 31}, which does not fit a request", **{name: str(1 << 31)})


def test_a_broker_that_waits_as_told_is_not_taken_for_dead():
    refused(
        "option 'kafka.fetch.wait.max.ms' (500) is not less than kafka.socket.timeout.ms (500)",
        **{"kafka.socket.timeout.ms": "500"},
    )


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_spark_refuses_is_refused_with_an_explanation(name):
    refused(f"option '{name}' is not supported: {REFUSED[name]}", **{name: "x"})


def test_what_means_nothing_here_is_told_and_passes(caplog):
    with caplog.at_level(logging.WARNING):
        read(**{"kafka.session.timeout.ms": "10000", "groupIdPrefix": "x", "maxOffsetsPerTrigger": "5"})
    assert "option 'kafka.session.timeout.ms' has no effect here: no group is joined" in caplog.text
    assert "option maxOffsetsPerTrigger means nothing in a batch" in caplog.text


def test_links_are_secured_as_kafkas_options_say_under_sparks_names():
    assert read(**{"kafka.security.protocol": "plaintext"}).kafka_security == OPEN
    login = {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "ann", "kafka.sasl.password": "hush"}
    found = read(**{"Kafka.Security.Protocol": "SASL_PLAINTEXT", **login}).kafka_security
    assert (found.protocol, found.sasl) == ("SASL_PLAINTEXT", Sasl("PLAIN", "ann", Secret("hush"), None, None))
    assert "hush" not in repr(found)
    refused("'kafka.security.protocol' SASL_SSL needs 'kafka.sasl.mechanism'",
            **{"kafka.security.protocol": "SASL_SSL"})  # fmt: skip
    refused("option 'kafka.ssl.truststore.location' is not supported: give kafka.ssl.ca.location, a file in PEM",
            **{"kafka.ssl.truststore.location": "t.jks"})  # fmt: skip
    refused("is unknown; did you mean 'kafka.security.protocol'", **{"security.protocol": "SSL"})
    refused("'kafka.sasl' options are given, but 'kafka.security.protocol' is PLAINTEXT", **login)


def test_rows_of_transactions_are_shown_once_they_are_committed_unless_said_otherwise():
    assert read().committed
    assert not read(**{"kafka.isolation.level": "read_uncommitted"}).committed
    refused("'kafka.isolation.level' is 'dirty', expected", **{"kafka.isolation.level": "dirty"})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("minPartitions", "0", "'minPartitions' is '0', expected at least 1"),
        ("maxRecordsPerPartition", "-1", "expected at least 1"),
        ("maxBytesPerPartition", "64MB", "expected a whole number of bytes"),
        ("failOnDataLoss", "yes", "expected true or false"),
        ("startingOffsetsByTimestampStrategy", "newest", "expected one of error, latest"),
        ("timestampFallback", "now", "expected one of none, null, plan"),
        ("kafka.bootstrap.servers", "b1", "host:port"),
        ("protocol", "0.7", "option 'kafka.bootstrap.servers': brokers of Kafka 0.7.2 tell nothing of each other"),
        ("kafka.broker.list", "0:b:9092", "option 'kafka.broker.list' is for brokers of Kafka 0.7"),
        ("protocol", "eight", "unknown Kafka release"),
        ("maxTriggerDelay", "soon", "such as 15m"),
        ("zookeeper.auth", "digest:me", "is ***, expected digest:USER:PASSWORD"),
        ("fetchBytesCap", "1000", "option 'fetchBytesCap' (1000) is less than kafka.fetch.message.max.bytes"),
        (
            "offsetRanges",
            "[",
            "option 'offsetRanges' is '[', expected a list of {topic, partition, start, until}; it is not JSON",
        ),
        ("zookeeper.ssl.ca.location", "ca.pem", "nothing would be TLS"),
        ("zookeeper.ssl.client.enable", "true", "'zookeeper.connect' is reached, which is not given"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(name, value, says):
    refused(says, **{name: value})


SEVEN = {"protocol": "0.7", "zookeeper.connect": "zk:2181", "subscribe": "t"}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"zookeeper.connect": None}, "option 'zookeeper.connect' is missing: brokers of Kafka 0.7.2 tell nothing"),
        ({"kafka.broker.list": "0:b:9092"}, "option 'kafka.broker.list' goes without zookeeper.connect"),
        ({"zookeeper.connect": None, "kafka.broker.list": "0:b:1"}, "name those in assign or offsetRanges"),
        ({"zookeeper.connect": None, "kafka.broker.list": "b:1"}, "expected id:host:port"),
        ({"maxRecordsPerPartition": "5"}, "counts messages, and offsets of Kafka 0.7.2 are bytes: use maxBytesPerPart"),
        ({"kafka.offsets.storage": "dual", "kafka.group.id": "g"}, "keep no offsets: only ZooKeeper has them"),
        (
            {
                "zookeeper.connect": None,
                "kafka.broker.list": "0:b:1",
                "subscribe": None,
                "assign": '{"t":["0-0"]}',
                "kafka.group.id": "g",
            },
            "option 'kafka.group.id': groups of Kafka 0.7.2 keep their offsets in ZooKeeper",
        ),
        ({"strictCompat": "true"}, "strictCompat refuses what Spark's kafka format does not have: protocol"),
    ],
)
def test_what_brokers_of_0_7_cannot_is_refused(more, says):
    given = {name: value for name, value in {**SEVEN, **more}.items() if value is not None}
    with pytest.raises(OptionRefused) as caught:
        checked_options(given, False)
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_a_stream_of_0_7_counts_bytes_and_no_messages(name):
    start = {**SEVEN, "startingOffsets": "earliest"}
    with pytest.raises(OptionRefused, match=rf"option '{name}' counts messages, and offsets of Kafka 0.7.2 are bytes"):
        checked_options({**start, name: "5"}, True)
    assert checked_options({**start, "maxBytesPerTrigger": "5000"}, True).max_bytes_per_trigger == 5000


def test_partitions_of_0_7_are_named_by_broker_and_index():
    at = '{"t":{"0-0":-2,"0-1":75,"1-0":-2}}'
    options = checked_options({**SEVEN, "startingOffsets": at}, False)
    assert options.by_broker
    bound = options.bound_of_start(Fixed.EARLIEST)
    assert bound == Offsets(
        {TopicPartition("t", BrokerPartition(b, i)): n for b, i, n in ((0, 0, -2), (0, 1, 75), (1, 0, -2))}
    )
    listed = checked_options(
        {"protocol": "0.7", "kafka.broker.list": "0:b:1,1:c:2", "assign": '{"t":["0-0","1-3"]}'}, False
    )
    assert [str(tp) for tp in listed.subscription.assigned] == ["t/0-0", "t/1-3"]
    assert [broker.id for broker in listed.brokers] == [0, 1]


def test_a_password_is_never_quoted():
    with pytest.raises(OptionRefused) as caught:
        read(**{"zookeeper.auth": "plain:me:hunter2"})
    assert "hunter2" not in str(caught.value)
    at = {"zookeeper.connect": "zk:2181", "zookeeper.auth": "digest:me:hunter2"}
    assert "hunter2" not in repr(read(**at))


def test_brokers_or_a_zookeeper_are_needed():
    refused(
        "option 'kafka.bootstrap.servers' is missing: give host:port of some brokers",
        without=("kafka.bootstrap.servers",),
    )
    options = checked_options({"zookeeper.connect": "zk:2181/kafka", "subscribe": "t"}, False)
    assert options.storage == "zookeeper"
    assert read().storage == "kafka"


def test_an_exact_plan_excludes_what_would_make_another():
    text = '[{"topic":"t","partition":0,"start":17,"until":90}]'
    only = checked_options({"kafka.bootstrap.servers": "b:1", "offsetRanges": text}, False)
    assert only.limits == Limits(None, None, None, 0)
    packed = checked_options({"kafka.bootstrap.servers": "b:1", "offsetRanges": text, "packBytes": "1000"}, False)
    assert packed.limits == Limits(None, None, None, 1000)
    refused("leave out subscribe", offsetRanges=text)
    refused("leave out endingOffsets", without=("subscribe",), offsetRanges=text, endingOffsets="latest")
    refused("a stream has no fixed ranges", True, without=("subscribe",), offsetRanges=text)


def test_a_group_needs_its_name_and_its_store():
    refused("option 'kafka.group.id' is missing: startingOffsets=group needs the name", startingOffsets="group")
    refused("'kafka.offsets.storage' is zookeeper, which needs zookeeper.connect", startingOffsets="group",
            **{"kafka.group.id": "g", "kafka.offsets.storage": "zookeeper"})  # fmt: skip
    options = read(startingOffsets="group", **{"kafka.group.id": "g"})
    assert options.bound_of_start(Fixed.EARLIEST) is Fixed.GROUP
    refused("group says where to begin", endingOffsets="group")


def test_bounds_come_from_the_first_option_that_is_given():
    options = read(startingOffsets="latest", startingTimestamp="1000", endingOffsets='{"orders":{"0":5}}')
    assert options.bound_of_start(Fixed.EARLIEST) == Time(1000)
    assert options.bound_of_end(Fixed.LATEST) == Offsets({TopicPartition("orders", 0): 5})
    assert read().bound_of_start(Fixed.EARLIEST) is Fixed.EARLIEST


def test_a_stream_with_a_start_that_moves_needs_a_place_to_keep_it():
    for moving in ({}, {"startingOffsets": "latest"}, {"startingTimestamp": "1"}, {"startingOffsets": '{"t":{"0":-1}}'},
                   {"startingOffsets": "group", "kafka.group.id": "g"}):  # fmt: skip
        refused(
            "option 'stateDir' is missing: Spark asks for the first offsets of a stream several times", True, **moving
        )
        assert read(True, stateDir="/state", **moving).state_dir == "/state"
    assert read(True, startingOffsets="earliest").state_dir is None
    assert read(True, startingOffsets='{"orders":{"0":5,"1":-2}}')


def test_strict_compat_lets_nothing_pass_that_kafka_does_not_have():
    refused("strictCompat refuses what Spark's kafka format does not have: packBytes, protocol",
            strictCompat="true", protocol="0.8", packBytes="0")  # fmt: skip
    assert read(strictCompat="true", startingOffsets="earliest", stateDir="/x", **{"kafka.session.timeout.ms": "1"})
    assert read(strictCompat="false", protocol="0.8")


def test_a_load_checks_what_holds_for_batches_and_streams_alike():
    known = checked_options({**WHERE, "startingOffsets": "latest", "endingOffsets": "earliest"}, None)
    assert known.subscribe == "orders"
    refused("one of assign, subscribe, subscribePattern", None, without=("subscribe",))


def test_times_to_wait_are_written_as_spark_writes_them():
    assert read(True, stateDir="/s").max_trigger_delay_ms == 15 * 60 * 1000
    for text, ms in {"90s": 90000, "2m": 120000, "2min": 120000, "1h": 3600000, "250": 250, "250ms": 250}.items():
        assert read(True, stateDir="/s", maxTriggerDelay=text).max_trigger_delay_ms == ms


def test_the_table_for_the_docs_has_every_option_once():
    table = reference.source_table()
    for name in OF_SPARK - WITHOUT_EFFECT.keys():
        assert table.count(f"`{name}`") == 1, name
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert len(rows) == len(set(rows)) > 40
    assert "| `kafka.bootstrap.servers` `kafka.metadata.broker.list` | required, or zookeeper.connect |" in table


def test_the_docs_say_what_the_table_says():
    page = Path(__file__).parents[2] / "docs" / "spark-options.md"
    text = page.read_text(encoding="utf-8")
    for part in (reference.source_table(), reference.source_refused()):
        assert part in text, "make it anew: python -m sparkpipeline.commands.reference source"
