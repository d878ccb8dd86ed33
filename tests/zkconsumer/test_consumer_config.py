"""Options by the names of 0.8 and 0.7; what would be ignored silently is refused."""

from __future__ import annotations

import pytest

from groundwork.java import read_properties
from groundwork.options import OptionError, reference, specs, warnings_of
from zkconsumer.options.config import GROUP_ONLY, ConsumerConfig, load_consumer

NEEDED = {"group.id": "g", "zookeeper.connect": "zk1:2181/kafka", "auto.offset.reset": "smallest"}

KEYS_0_8_2 = """group.id consumer.id client.id zookeeper.connect zookeeper.session.timeout.ms
    zookeeper.connection.timeout.ms zookeeper.sync.time.ms socket.timeout.ms socket.receive.buffer.bytes
    fetch.message.max.bytes num.consumer.fetchers auto.commit.enable auto.commit.interval.ms queued.max.message.chunks
    rebalance.max.retries rebalance.backoff.ms fetch.min.bytes fetch.wait.max.ms refresh.leader.backoff.ms
    auto.offset.reset consumer.timeout.ms exclude.internal.topics partition.assignment.strategy offsets.storage
    dual.commit.enabled offsets.channel.backoff.ms offsets.channel.socket.timeout.ms
    offsets.commit.max.retries"""
KEYS_0_7_2 = """groupid consumerid zk.connect zk.sessiontimeout.ms zk.connectiontimeout.ms zk.synctime.ms
    socket.timeout.ms socket.buffersize fetch.size fetcher.backoff.ms backoff.increment.ms autocommit.enable
    autocommit.interval.ms queuedchunks.max rebalance.retries.max rebalance.backoff.ms autooffset.reset
    consumer.timeout.ms shallowiterator.enable mirror.topics.whitelist mirror.topics.blacklist
    mirror.consumer.numthreads"""


def load(values, jvm=False):
    return load_consumer(ConsumerConfig, values, "consumer.properties" if jvm else "mirror.yaml", jvm)


def problems(values, jvm=False):
    with pytest.raises(OptionError) as caught:
        load(values, jvm)
    return caught.value.problems


@pytest.mark.parametrize("key", [*KEYS_0_8_2.split(), *KEYS_0_7_2.split()])
def test_every_key_of_the_original_is_known(key):
    known = {name for spec in specs(ConsumerConfig).values() for name in (spec.key, *spec.old)}
    assert key in known | set(ConsumerConfig.JVM_ONLY)


def test_every_option_says_what_it_means():
    assert all(spec.meaning for spec in specs(ConsumerConfig).values())
    assert all(ConsumerConfig.JVM_ONLY.values())
    assert "| `fetch.message.max.bytes` | `fetch.size` | 1048576 | bytes |" in reference(ConsumerConfig)


def test_a_properties_file_of_0_8_is_read_as_it_is():
    text = """
        zookeeper.connect=zk1:2181,zk2:2181/kafka
        group.id=mirror-1
        auto.offset.reset=smallest
        zookeeper.session.timeout.ms=4000
        fetch.message.max.bytes=4194304
        socket.receive.buffer.bytes=1048576
        num.consumer.fetchers=2
        dual.commit.enabled=false
        offsets.storage=ZooKeeper
    """
    config = load(read_properties(text), jvm=True)
    assert config.zookeeper_connect == "zk1:2181,zk2:2181/kafka"
    assert (config.group_id, config.client_name) == ("mirror-1", "mirror-1")
    assert (config.session_timeout_ms, config.connect_timeout_ms) == (4000, 4000)
    assert config.fetch_message_max_bytes == 4194304
    assert config.fetchers == 2
    assert not warnings_of(config)


def test_the_names_of_0_7_are_read():
    config = load(
        {"groupid": "g", "zk.connect": "zk1:2181", "autooffset.reset": "largest", "zk.synctime.ms": "3000"}, jvm=True
    )
    assert (config.auto_offset_reset, config.backoff_ms) == ("largest", 3000)


def test_where_to_begin_has_to_be_chosen():
    (problem,) = problems({"group.id": "g", "zookeeper.connect": "zk1:2181"})
    assert problem.startswith("mirror.yaml: option 'auto.offset.reset' is missing")


@pytest.mark.parametrize(
    ("names", "kept"), [(("group.id", "zookeeper.connect"), "largest"), (("groupid", "zk.connect"), "smallest")]
)
def test_a_jvms_file_keeps_its_meaning_with_a_warning(names, kept):
    config = load({names[0]: "g", names[1]: "zk1:2181"}, jvm=True)
    assert config.auto_offset_reset == kept
    (warning,) = warnings_of(config)
    assert f"option 'auto.offset.reset' is not given, '{kept}' as in the JVM's consumer" in warning
    assert ("skipped" in warning) is (kept == "largest")


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("offsets.storage", "file", "one of zookeeper, kafka"),
        ("dual.commit.enabled", "both", "true or false"),
        ("offsets.migrate.on.start", "reset", "one of refuse, copy"),
        ("offsets.retention.ms", -2, "at least -1 ms"),
        ("partition.assignment.strategy", "round", "one of range, roundrobin"),
        ("group.id", "a/b", "ASCII letters, digits"),
        ("group.id", "", "ASCII letters, digits"),
        ("zookeeper.connect", " ", "host:port,host:port/chroot, and it is empty"),
        ("auto.offset.reset", "earliest", "one of smallest, largest, fail"),
        ("rebalance.backoff.ms", "soon", "a whole number of ms, at least 1"),
        ("fetch.message.max.bytes", 0, "at least 1024 bytes"),
        ("offset.storage", "zookeeper", "did you mean 'offsets.storage'?"),
    ],
)
def test_what_cannot_work_is_refused_by_name(option, value, says):
    (problem,) = problems({**NEEDED, option: value})
    assert problem.startswith(f"mirror.yaml: option '{option}' is ")
    assert says in problem


FIXED = {"group.id": "g", "auto.offset.reset": "smallest", "metadata.broker.list": "b1:9092,[::1]:9093"}


@pytest.mark.parametrize(
    ("written", "jvm"),
    [
        ({"payments": [1], "orders": [3, 0]}, False),
        ({"payments": (1,), "orders": ["3", 0]}, False),
        ("orders:0,3;payments:1", False),
        (" payments: 1 ; orders: 3, 0 ;", True),
    ],
)
def test_fixed_partitions_are_a_mapping_or_text_and_need_no_zookeeper(written, jvm):
    config = load({**FIXED, "partitions": written, "offsets.file": "/var/o.json"}, jvm)
    assert [str(tp) for tp in config.partitions] == ["orders/0", "orders/3", "payments/1"]
    assert config.brokers == (("b1", 9092), ("::1", 9093))
    assert (config.zookeeper_connect, config.offsets_file, warnings_of(config)) == ("", "/var/o.json", [])


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({}, "expected topics with their partitions"),
        ("", "expected topics with their partitions"),
        (["orders"], "expected topics with their partitions"),
        (3, "expected topics with their partitions"),
        ({"orders": 3}, "topic orders has no list of partitions"),
        ({"orders": []}, "topic orders has no list of partitions"),
        ("orders", "topic orders has no list of partitions"),
        ("orders:0;orders:1", "topic orders is there twice"),
        ("orders:x", "'x' is not a partition of orders"),
        ({"orders": [-1]}, "-1 is not a partition of orders"),
        ({"orders": [True]}, "True is not a partition of orders"),
        ({"orders": [0.0]}, "0.0 is not a partition of orders"),
        ({"a/b": [0]}, "'a/b' is not a topic"),
        ({4: [0]}, "4 is not a topic"),
        ({"orders": [0, 1, 0]}, "expected each partition once; orders/0 is there twice"),
    ],
)
def test_a_list_of_partitions_that_makes_no_sense_is_refused(written, says):
    (problem,) = problems({**FIXED, "partitions": written})
    assert problem.startswith("mirror.yaml: option 'partitions' is ")
    assert says in problem


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"zookeeper.connect": "zk:2181"}, "'partitions' and 'zookeeper.connect' exclude each other"),
        ({"offsets.storage": "zookeeper"}, "are for groups"),
        ({"dual.commit.enabled": False}, "are for groups"),
        ({"metadata.broker.list": "b1"}, "'metadata.broker.list' is 'b1', expected host:port"),
        ({"bootstrap.servers": "b1:9092"}, "'bootstrap.servers' and 'metadata.broker.list' are two names of one thing"),
    ],
)
def test_what_contradicts_fixed_partitions_is_refused(more, says):
    (problem,) = problems({**FIXED, "partitions": {"orders": [0]}, **more})
    assert says in problem


def test_fixed_partitions_need_brokers_and_these_need_them():
    (problem,) = problems({k: v for k, v in FIXED.items() if k != "metadata.broker.list"} | {"partitions": "o:1"})
    assert "'partitions' needs 'bootstrap.servers'" in problem
    for key, value in (("bootstrap.servers", "b1:9092"), ("offsets.file", "/var/o.json")):
        (problem,) = problems({**NEEDED, key: value})
        assert f"'{key}' is for fixed 'partitions', which are not given" in problem


def test_options_of_groups_have_no_effect_with_fixed_partitions_and_that_is_said():
    given = {"zookeeper.session.timeout.ms": 100, "rebalance.max.retries": 1, "rebalance.drain.ms": 10}
    config = load({**FIXED, "partitions": "o:1", **given})
    assert [w.partition(" has no effect")[0] for w in warnings_of(config)] == [
        "mirror.yaml: option 'rebalance.max.retries'",
        "mirror.yaml: option 'zookeeper.session.timeout.ms'",
    ]


def test_every_option_of_groups_alone_is_one():
    assert GROUP_ONLY.keys() <= {spec.key for spec in specs(ConsumerConfig).values()}


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ({}, "zookeeper"),
        ({"offsets.storage": "zookeeper", "dual.commit.enabled": "false"}, "zookeeper"),
        ({"offsets.storage": "kafka"}, "dual"),  # the JVM's default
        ({"offsets.storage": "Kafka", "dual.commit.enabled": "true"}, "dual"),
        ({"offsets.storage": "kafka", "dual.commit.enabled": "false"}, "kafka"),
    ],
)
def test_a_jvms_file_says_where_offsets_are_kept(given, mode):
    config = load({**NEEDED, **given}, jvm=True)
    assert (config.offset_mode, warnings_of(config)) == (mode, [])


def test_dual_commit_without_kafka_has_no_effect_and_that_is_said():
    config = load({**NEEDED, "dual.commit.enabled": True})
    assert config.offset_mode == "zookeeper"
    (warning,) = warnings_of(config)
    assert warning.startswith(
        "mirror.yaml: option 'dual.commit.enabled' has no effect with 'offsets.storage' zookeeper"
    )


def test_a_retention_outlasts_the_commits():
    (problem,) = problems({**NEEDED, "offsets.retention.ms": 60000})
    assert "'offsets.retention.ms' (60000) must be -1, or longer than 'auto.commit.interval.ms' (60000)" in problem
    assert load({**NEEDED, "offsets.retention.ms": 60001}).offsets_retention_ms == 60001


@pytest.mark.parametrize(
    ("given", "tries"),
    [
        ({}, 4),
        ({"zookeeper.session.timeout.ms": 12000}, 7),
        ({"zookeeper.session.timeout.ms": 30000}, 16),
        ({"rebalance.max.retries": 3, "rebalance.backoff.ms": 2000}, 4),
        ({"rebalance.max.retries": 20, "zookeeper.session.timeout.ms": 12000}, 20),
    ],
)
def test_the_alarm_outlasts_a_dead_members_session_whatever_that_is(given, tries):
    """A raised session alone was an error, about retries that the file did not have."""
    config = load({**NEEDED, **given})
    assert (config.alarm_after, warnings_of(config)) == (tries, [])
    assert config.alarm_after * config.backoff_ms > config.session_timeout_ms


def test_the_largest_fetch_has_to_fit_the_budget():
    (problem,) = problems({**NEEDED, "queued.max.bytes": 1048576})
    assert "'queued.max.bytes' (1048576) must hold the largest fetch, 33554432 bytes" in problem


def test_a_quiet_fetch_is_no_dead_broker():
    (problem,) = problems({**NEEDED, "socket.timeout.ms": 50})
    assert "'socket.timeout.ms' (50) must be at least 'fetch.wait.max.ms' (100)" in problem


COORDINATED = {
    "coordination": "kafka",
    "bootstrap.servers": "b1:9092,b2:9092",
    "group.id": "g",
    "auto.offset.reset": "smallest",
    "kafka.version": "3.9",
}


def test_a_group_on_kafkas_coordinator_needs_no_zookeeper():
    config = load(COORDINATED)
    assert config.coordinated
    assert config.offset_mode == "kafka"
    assert (config.brokers, config.zookeeper_connect) == ((("b1", 9092), ("b2", 9092)), "")
    assert (config.group_session_timeout_ms, config.rebalance_timeout_ms, config.backoff_ms) == (45000, 60000, 500)
    assert (config.group_session_ms(old=False), config.group_session_ms(old=True)) == (45000, 30000)
    for given in (20000, 45000):
        assert load({**COORDINATED, "session.timeout.ms": given}).group_session_ms(old=True) == given
    assert not warnings_of(config)
    for strategy in ("range", "roundrobin", "sticky"):
        assert load({**COORDINATED, "partition.assignment.strategy": strategy}).assignment_strategy == strategy


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"bootstrap.servers": None}, "'coordination' kafka needs 'bootstrap.servers'"),
        ({"kafka.version": "0.8.2"}, "brokers of Kafka 0.8.2 coordinate no groups, those of 0.9 and later do"),
        ({"offsets.storage": "zookeeper"}, "'offsets.storage' zookeeper and 'coordination' kafka exclude each other"),
        ({"dual.commit.enabled": True}, "'dual.commit.enabled' and 'coordination' kafka exclude each other"),
        ({"rebalance.timeout.ms": 9000}, "'rebalance.timeout.ms' (9000) must be at least 'rebalance.drain.ms' (3000)"),
        ({"offsets.file": "/var/o"}, "'offsets.file' is for fixed 'partitions'"),
        ({"coordination": "zookeeper", "bootstrap.servers": None}, "option 'zookeeper.connect' is missing"),
        (
            {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor"},
            "is roundrobin here",
        ),
    ],
)
def test_what_contradicts_kafkas_coordinator_is_refused(more, says):
    values = {key: value for key, value in {**COORDINATED, **more}.items() if value is not None}
    (problem,) = problems(values)
    assert says in problem


def test_options_of_the_other_coordination_have_no_effect_and_that_is_said():
    session = {"zookeeper.session.timeout.ms": 6000}
    (warning,) = warnings_of(load({**COORDINATED, **session}))
    assert warning.startswith("mirror.yaml: option 'zookeeper.session.timeout.ms' has no effect")
    # it is asked at the start whether the group has left it
    assert not warnings_of(load({**COORDINATED, **session, "zookeeper.connect": "zk:2181"}))
    (problem,) = problems({**NEEDED, "partition.assignment.strategy": "sticky"})
    assert "members of Kafka 0.8.2 know range and roundrobin only" in problem
    (warning,) = warnings_of(load({**NEEDED, "session.timeout.ms": 20000}))
    assert "option 'session.timeout.ms' has no effect with 'coordination' zookeeper" in warning
