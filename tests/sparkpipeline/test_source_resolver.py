"""Bounds become numbers: against the fake cluster, whose brokers answer as 0.8.2 does."""

import logging

import pytest

from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import dialect
from kafkawire.model import TopicPartition
from kafkawire.topicnames import INTERNAL_TOPICS
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import (
    DataLoss,
    NoLeader,
    NoTimestamp,
    OffsetOutOfRange,
    OptionRefused,
    Refused,
    UnknownPartition,
)
from sparkpipeline.source.offsetbounds import LATEST
from sparkpipeline.source.resolver import ends_at, offsets_at, resolve_batch, resolve_start, starts_at, subscribed
from sparkpipeline.source.sourceoptions import checked_options
from sparkpipeline.source.subscription import Subscription
from tests.fakes.broker import FakeCluster, entry

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster():
    with FakeCluster({"t": 2, "other": 1, **dict.fromkeys(INTERNAL_TOPICS, 1)}, brokers=2) as fake:
        for n in range(10):
            fake.append("t", 0, entry(b"v%d" % n))
            if n < 4:
                fake.append("t", 1, entry(b"w%d" % n))
        yield fake


@pytest.fixture
def brokers(cluster):
    access = ClusterAccess(tuple(cluster.bootstrap), retries=1, retry_interval_ms=1)
    with Brokers(access, sleep=lambda s: None) as opened:
        yield opened


def options(streaming=False, **given):
    given = {"kafka.bootstrap.servers": "b:1", **({"stateDir": "/s"} if streaming else {}), **given}
    if not {"assign", "subscribePattern"} & given.keys():
        given.setdefault("subscribe", "t")
    return checked_options(given, streaming)


def nobody(tps):
    raise AssertionError("no group was asked for")


def batch(brokers, positions=nobody, **given):
    return resolve_batch(options(**given), brokers, positions)


def json_of(start0, start1):
    return f'{{"t":{{"0":{start0},"1":{start1}}}}}'


def test_a_batch_is_everything_there_is_when_nothing_is_said(brokers):
    assert batch(brokers) == [(T0, 0, 10), (T1, 0, 4)]


def test_numbers_earliest_and_latest_may_be_mixed(brokers):
    assert batch(brokers, startingOffsets=json_of(-2, 3)) == [(T0, 0, 10), (T1, 3, 4)]
    assert batch(brokers, endingOffsets=json_of(-1, 2)) == [(T0, 0, 10), (T1, 0, 2)]
    assert batch(brokers, startingOffsets=json_of(2, 3), endingOffsets=json_of(2, 4)) == [(T0, 2, 2), (T1, 3, 4)]


def test_one_partition_named_means_all_are(brokers):
    with pytest.raises(OptionRefused, match=r"option=startingOffsets: names some partitions.* t/1 is missing"):
        batch(brokers, startingOffsets='{"t":{"0":5}}')
    with pytest.raises(OptionRefused, match="option=endingOffsets: names what is not read: t/7 is"):
        batch(brokers, endingOffsets='{"t":{"0":5,"1":2,"7":1}}')
    with pytest.raises(OptionRefused, match="option=startingOffsetsByTimestamp: names some"):
        batch(brokers, startingOffsetsByTimestamp='{"t":{"1":5}}')


def test_assign_subscribe_and_pattern_choose_partitions(brokers):
    assert subscribed(options(assign='{"t":[1]}'), brokers) == [T1]
    assert subscribed(options(subscribe=" other, t ,"), brokers) == [TopicPartition("other", 0), T0, T1]
    assert subscribed(options(subscribePattern="o.*r|^t$"), brokers) == [TopicPartition("other", 0), T0, T1]
    assert subscribed(options(subscribePattern="the"), brokers) == [TopicPartition("other", 0)]  # found, as Spark finds
    assert subscribed(options(subscribePattern="nothing.*"), brokers) == []
    assert subscribed(options(subscribePattern=".*"), brokers) == [TopicPartition("other", 0), T0, T1]
    assert batch(brokers, subscribePattern="nothing.*") == []


def test_what_is_named_and_not_there_is_refused(cluster, brokers):
    with pytest.raises(UnknownPartition, match="topic=nix: the cluster does not have the topic"):
        batch(brokers, subscribe="t,nix")
    with pytest.raises(UnknownPartition, match="topic=t partition=5: topic t has 2 partitions"):
        batch(brokers, assign='{"t":[0,5]}')
    assert all(request.body["topics"] == [] for request in cluster.seen("metadata"))  # asking by name would create it


def test_a_start_behind_its_end_is_refused(brokers):
    with pytest.raises(OptionRefused, match="t/1 begins at 3, behind its end 2"):
        batch(brokers, startingOffsets=json_of(0, 3), endingOffsets=json_of(4, 2))
    with pytest.raises(OptionRefused, match="topic=t partition=0 earliest=0 latest=10: begins at 8, behind its end 2"):
        batch(brokers, lambda tps: {T0: 8, T1: 0}, startingOffsets="group", **{"kafka.group.id": "g"},
              endingOffsets=json_of(2, 4))  # fmt: skip


def test_what_the_log_does_not_hold_is_refused_before_a_task_begins(cluster, brokers, caplog):
    del cluster.logs[("t", 0)].entries[:5]  # retention
    with pytest.raises(
        DataLoss, match="topic=t partition=0 requested=2 earliest=5 latest=10: messages from 2 are requested"
    ):
        batch(brokers, startingOffsets=json_of(2, 0))
    with pytest.raises(OffsetOutOfRange, match="topic=t partition=1 requested=9 earliest=0 latest=4: messages up to 9"):
        batch(brokers, endingOffsets=json_of(10, 9))
    with pytest.raises(OffsetOutOfRange, match="requested=11"):
        batch(brokers, startingOffsets=json_of(5, 11))
    with caplog.at_level(logging.WARNING):
        left = batch(brokers, startingOffsets=json_of(2, 11), endingOffsets=json_of(50, 12), failOnDataLoss="false")
    assert left == [(T0, 5, 10), (T1, 4, 4)]
    assert "t/0: [2, 50) was requested; reading [5, 10), which is there" in caplog.text


def test_a_group_says_where_to_begin(brokers, caplog):
    group = {"startingOffsets": "group", "kafka.group.id": "g"}
    assert batch(brokers, lambda tps: {T0: 7, T1: 2}, **group) == [(T0, 7, 10), (T1, 2, 4)]
    with caplog.at_level(logging.WARNING):
        assert batch(brokers, lambda tps: {T0: 7, T1: None}, **group) == [(T0, 7, 10), (T1, 0, 4)]
    assert "group g has no position of t/1: read from the earliest offset on" in caplog.text
    with pytest.raises(Refused, match="group=g: group g has no position in any partition of t"):
        batch(brokers, lambda tps: dict.fromkeys(tps), **group)
    with pytest.raises(OffsetOutOfRange, match="requested=99"):
        batch(brokers, lambda tps: {T0: 99, T1: 0}, **group)


def test_a_topic_that_is_just_being_made_is_not_called_missing():
    view = ClusterView(errors={"t": 5, "nix": 3})
    with pytest.raises(NoLeader, match="topic=t: the brokers say LeaderNotAvailable of it: is it just being made"):
        Subscription(topics=("t",)).partitions(view)
    with pytest.raises(UnknownPartition, match="topic=nix: the cluster does not have the topic"):
        Subscription(topics=("nix",)).partitions(view)


class Answers:
    """Brokers whose answers about times are written down."""

    def __init__(self, brokers, at):
        self.dialect, self._at, self._brokers = brokers.dialect, at, brokers

    def at_time(self, times):
        return {tp: self._at[tp] for tp in times}

    def latest(self, tps):
        return self._brokers.latest(tps)


def test_a_time_without_a_message_fails_at_the_start_and_means_latest_at_the_end(brokers):
    answers = Answers(brokers, {T0: 3, T1: None})
    times = {T0: 1000, T1: 1000}
    with pytest.raises(NoTimestamp, match="topic=t partition=1: no message is of 1000"):
        starts_at(answers, times, "error")
    assert starts_at(answers, times, "latest") == {T0: 3, T1: LATEST}
    assert ends_at(answers, times) == {T0: 3, T1: LATEST}


def test_a_stream_begins_at_numbers(brokers):
    assert resolve_start(options(True), brokers, nobody) == {T0: 10, T1: 4}
    assert resolve_start(options(True, startingOffsets="earliest"), brokers, nobody) == {T0: 0, T1: 0}
    given = options(True, startingOffsets='{"t":{"0":-1,"1":3}}')
    assert resolve_start(given, brokers, nobody) == {T0: 10, T1: 3}
    assert resolve_start(options(True, subscribePattern="nothing"), brokers, nobody) == {}


@pytest.mark.parametrize(
    ("release", "reads_on"), [("0.8.2", False), ("0.9", False), ("0.10.0", True), ("0.10.1", False)]
)
def test_only_where_messages_have_times_that_brokers_do_not_look_up_is_read_on(brokers, release, reads_on, monkeypatch):
    asked = []

    def forward(brokers, rng, time_ms):
        asked.append((rng.tp, rng.start, time_ms, rng.until))
        return rng.start + 2 if rng.tp == T0 else rng.until

    answers = Answers(brokers, {T0: 3, T1: 1})
    answers.dialect = dialect(release)
    monkeypatch.setattr("sparkpipeline.source.resolver.first_since", forward)
    found = offsets_at(answers, {T0: 1000, T1: 2000})
    assert found == ({T0: 5, T1: None} if reads_on else {T0: 3, T1: 1})
    assert asked == ([(T0, 3, 1000, 10), (T1, 1, 2000, 4)] if reads_on else [])
